"""The package's own 160 cases of the Diplomacy Adjudicator Test Cases, held against ours.

They come with the package `diplomacy` in three variants: orders expanded before they count (its
default), taken literally, and not checked at all. Each case judges the package as its authors
wrote it; of every phase that it processes, position, orders and result are kept, and our result
for the same position and orders is compared in units, dislodged units, retreats and centres. A
difference gets the name of a known deviation (module `deviations`). Cases in which two editions of
the rules differ get the name of the rule choice (`rules.Choices`).
"""

import contextlib
import importlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from dipllm_lib.dip import atlas, boards, deviations, legalise, replay, rules, states
from dipllm_lib.dip.boards import Boards, Orders

VARIANTS = {
    "expanded": ("test_datc", "TestDATC"),
    "unchecked": ("test_datc_no_check", "TestDATCNoCheck"),
    "literal": ("test_datc_no_expand", "TestDATCNoExpand"),
}
KINDS = ("movement", "retreat", "adjustment")
CHOICES = ("via_without_chain", "disrupted_fallback", "civil_disorder")  # PACKAGE is not DATC3
SECTIONS = {
    "6.A": "basic checks",
    "6.B": "coasts",
    "6.C": "circular movement",
    "6.D": "supports and dislodges",
    "6.E": "head-to-head and beleaguered garrison",
    "6.F": "convoys",
    "6.G": "convoys to adjacent provinces",
    "6.H": "retreats",
    "6.I": "building",
    "6.J": "civil disorder and removals",
    "6.K": "the package's own",
}


class Phase(NamedTuple):
    """A phase that a case processed: the package's orders, and as the case wrote them."""

    case: str  # 6.A.1
    before: Boards
    orders: Orders
    written: Orders
    theirs: dict  # the package's state after it
    words: dict[str, list[str]]

    @property
    def kind(self) -> str:
        return KINDS[rules.KIND_OF_PHASE[self.before.phase[0]]]


class Run(NamedTuple):
    """All cases of one variant; a case without phases expects nothing."""

    cases: list[str]
    phases: list[Phase]


class _Listener:
    """What a case sets and processes; stands in for its methods `set_orders` and `process`."""

    def __init__(self, case: str, judge):
        self.case, self.phases, self.after = case, [], None
        self.written: dict[str, list[str]] = {}
        self.judge, self.passed_on = type(judge).process, type(judge).set_orders

    def set_orders(self, game, power: str, orders: Sequence[str]) -> None:
        self.written.setdefault(power, []).extend([orders] if isinstance(orders, str) else orders)
        self.passed_on(game, power, orders)

    def process(self, game) -> None:
        before = states.from_state(game.get_state())
        if self.after is not None and boards.phase_name(self.after) == boards.phase_name(before):
            before = self.after  # our retreats, with attackers and stand-offs
        given, written = read(before, _expanded(game)), read(before, self.written)
        self.written = {}
        self.judge(game)
        results = game.result_history.last_value() or {}
        words = {unit: [str(word) for word in found] for unit, found in results.items()}
        self.phases.append(Phase(self.case, before, given, written, game.get_state(), words))
        self.after, _ = rules.resolve(before, given)


def _expanded(game) -> dict[str, list[str]]:
    """The orders as the package will process them. Unchecked ones it expands only then, as a game
    that checks them does at once.
    """
    texts = game.get_orders()
    if "NO_CHECK" not in game.rules or game.phase_type != "M":
        return texts
    checked = replay.official_game()
    checked.set_state(game.get_state())
    for name, listed in texts.items():
        checked.set_orders(name, listed)
    return checked.get_orders()


def read(before: Boards, texts: dict[str, Sequence[str]]) -> Orders:
    """Orders as arrays. What cannot be read, could never succeed, or is for a unit that is not
    there or not its power's, is no order (6.A.6, 6.B.11): the cases contain such orders on purpose.
    """
    try:
        return legalise.read_orders(before, 0, texts)
    except ValueError:
        kept: dict[str, list[str]] = {}
    for name in sorted(set(texts) & set(atlas.POWERS)):
        for text in texts[name]:
            tried = {**kept, name: [*kept.get(name, []), text]}
            with contextlib.suppress(ValueError):
                legalise.read_orders(before, 0, tried)
                kept = tried
    return legalise.read_orders(before, 0, kept)


def run(variant: str = "expanded") -> Run:
    """Run all cases of a variant, a key of VARIANTS. AssertionError if the package fails one."""
    module, name = VARIANTS[variant]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        cases = getattr(importlib.import_module(f"diplomacy.tests.{module}"), name)
    tests = [test for test in dir(cases) if test.startswith("test_6_")]
    tests.sort(key=lambda test: (test.split("_")[2], int(test.split("_")[3])))
    result = Run([], [])
    for test in tests:
        case, judge = test.removeprefix("test_").upper().replace("_", "."), cases()
        listener = _Listener(case, judge)
        judge.set_orders, judge.process = listener.set_orders, listener.process
        with contextlib.redirect_stdout(io.StringIO()):
            getattr(judge, test)()
        result.cases.append(case)
        result.phases.extend(listener.phases)
    return result


def differences(phases: list[Phase]) -> pd.DataFrame:
    """Columns case, phase, cause, ours, other: one row per phase in which the package differs
    (cause: its deviation, other: its outcome), DATC 3.0 differs by choice (cause: the choice,
    other: the outcome under it) or our reading of the written orders does (cause: expansion).
    """
    rows = []
    for phase in phases:
        after, made = rules.resolve(phase.before, phase.orders)
        ours = outcome(states.to_state(after))
        case = deviations.Case(phase.before, phase.orders, made, after, phase.theirs, phase.words)
        found = [(deviations.explain(case), outcome(phase.theirs))]
        found += _choices(phase, after)
        literal, _ = rules.resolve(phase.before, phase.written)
        found += [] if literal.same(after) else [("expansion", outcome(states.to_state(literal)))]
        rows += [
            {
                "case": phase.case,
                "phase": phase.kind,
                "cause": cause,
                "ours": " ".join(sorted(ours - other)),
                "other": " ".join(sorted(other - ours)),
            }
            for cause, other in found
            if cause
        ]
    return pd.DataFrame(rows, columns=["case", "phase", "cause", "ours", "other"])


def _choices(phase: Phase, after: Boards) -> list[tuple[str, set[str]]]:
    """The choices of DATC 3.0 that alone change the outcome, and the outcomes."""
    found = []
    for name in CHOICES:
        choices = replace(rules.PACKAGE, **{name: getattr(rules.DATC3, name)})
        other, _ = rules.resolve(phase.before, phase.orders, choices=choices)
        if not other.same(after):
            found.append((name, outcome(states.to_state(other))))
    return found


def outcome(state: dict) -> set[str]:
    """Standing units, `A PAR`, and dislodged ones with their retreats, `*A BEL(BUR,PIC)`."""
    units = {unit for listed in deviations.standing(state).values() for unit in listed}
    lists = deviations.retreat_lists(state)
    return units | {f"*{unit}({','.join(lists[unit])})" for unit in lists}


def summary(result: Run) -> pd.DataFrame:
    """One row per section of the test cases: cases, phases of each kind, in how many of them we
    agree with the package, and the deviations by name.
    """
    table = differences(result.phases)
    table = table[table["cause"].isin((*deviations.CAUSES, "?"))]
    rows = []
    for section, subject in SECTIONS.items():
        mine = [phase for phase in result.phases if phase.case.startswith(f"{section}.")]
        causes = table[table["case"].str.startswith(f"{section}.")]["cause"].value_counts()
        rows.append({
            "section": section,
            "subject": subject,
            "cases": sum(case.startswith(f"{section}.") for case in result.cases),
            **{kind: sum(phase.kind == kind for phase in mine) for kind in KINDS},
            "agree": len(mine) - int(causes.sum()),
            "deviations": ", ".join(f"{n} {name}" for name, n in causes.sort_index().items()),
        })
    return pd.DataFrame(rows)
