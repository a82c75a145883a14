"""The second adjudicator: known cases worked out by hand, and equality with the compiled one.

Positions are generated; DIPLLM_POSITIONS says on how many both are compared (default 2,000).
"""

import itertools
import os
from collections import Counter

import numpy as np
import pytest

from dipllm_lib.dip import (
    atlas,
    boards,
    cases,
    differential,
    generate,
    legal,
    legalise,
    plain,
    recursion,
    rules,
    states,
)
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.run import seeding

POSITIONS = int(os.environ.get("DIPLLM_POSITIONS", "2000"))
BATCH = 40
CHOICES = {
    "PACKAGE": rules.PACKAGE,
    "DATC3": rules.DATC3,
    "via_only": rules.Choices(convoy_intent="via_only"),
    "ignore": rules.Choices(support_coast="ignore"),
}
BELEAGUERED_SWAP = cases.Case(
    "two units change places, one of them by convoy, past a third that is too weak",
    {
        "ENGLAND": ["A LON - BEL VIA", "F NTH C A LON - BEL"],
        "FRANCE": ["A BEL - LON VIA", "F ENG C A BEL - LON", "A RUH - BEL"],
        "GERMANY": ["A HOL S A LON - BEL"],
    },
    "A BEL - LON; A LON - BEL",
)


def outcome(case: cases.Case, faults=frozenset()) -> str:
    """Moves that succeed and units dislodged, in the words of the known cases."""
    before = cases.position(case.orders)
    given = legalise.read_orders(before, 0, case.orders)
    verdict = plain.movement(before, given, faults=faults)
    places = [boards.unit_text(before.unit[0, p], before.loc[0, p]) for p in sorted(verdict.moved)]
    words = {
        " ".join(text.split()[:2]): [] if " ".join(text.split()[:2]) in places else ["stays"]
        for texts in case.orders.values()
        for text in texts
    }
    return cases.outcome(
        case.orders, words, states.to_state(plain.resolve(before, given, faults=faults))
    )


@pytest.mark.parametrize(
    "case", [*cases.CASES, cases.C1, BELEAGUERED_SWAP], ids=lambda case: case.name
)
def test_known_cases(case):
    assert outcome(case) == case.right


def test_the_fault_that_can_be_switched_on_changes_its_case_and_no_other():
    changed = {case.name[:2]: outcome(case, plain.FAULTS) for case in [*cases.CASES, cases.C1]}
    right = {case.name[:2]: case.right for case in [*cases.CASES, cases.C1]}
    assert changed.pop("B1") == "A RUM - CON; A CON dislodged (BUL SMY)"
    right.pop("B1")
    assert changed == right


def test_the_verdict_names_supports_convoys_and_closed_provinces():
    orders = {
        "ENGLAND": ["A LON - BEL VIA", "F NTH C A LON - BEL", "F ENG S A LON - BEL"],
        "FRANCE": ["A BEL H", "A PAR S A BUR", "A BUR H"],
        "GERMANY": ["A KIE - HOL", "A MUN - BUR"],
        "AUSTRIA": ["A RUH - HOL"],
    }
    before = cases.position(orders)
    verdict = plain.movement(before, legalise.read_orders(before, 0, orders))
    codes = {
        name: {atlas.CODES[p] for p in getattr(verdict, name)}
        for name in ("moved", "dislodged", "supported", "by_convoy", "contested")
    }
    assert codes == {
        "moved": {"LON"},
        "dislodged": {"BEL"},
        "supported": {"ENG", "PAR"},
        "by_convoy": {"LON"},
        "contested": {"HOL", "BUR"},
    }
    assert verdict.attacker == {atlas.INDEX["BEL"]: atlas.INDEX["LON"]}


def test_another_phase_and_an_unknown_fault_are_refused():
    b = boards.start()
    with pytest.raises(ValueError, match="unknown fault 'B9': known is B1"):
        plain.movement(b, boards.no_orders(1), faults=frozenset({"B9"}))
    b.phase[:] = boards.ADJUSTMENTS
    with pytest.raises(ValueError, match="one position and one row of orders of a movement phase"):
        plain.resolve(b, boards.no_orders(1))


def crowded(rng: np.random.Generator) -> boards.Boards:
    """Positions with units in most provinces around one sea each."""
    b = generate.scattered(BATCH, 65, int(rng.integers(3, 8)), rng)
    for i in range(b.n):
        far = atlas.DIST_ANY[rng.choice(atlas.SEAS)] > rng.integers(1, 3)
        b.unit[i, far], b.power[i, far], b.loc[i, far] = 0, -1, -1
    return b


def paradoxes(b: boards.Boards, rng: np.random.Generator) -> boards.Orders:
    """Coherent orders, over which convoys are written into provinces whose unit supports a fleet of
    the convoy or an attack on it.
    """
    given, lists = generate.coherent(b, rng, 0.6), legal.legal_orders(b)
    for i in range(b.n):
        first, last = np.searchsorted(lists.board, [i, i + 1])
        ids = lists.ids[lists.offset[first] : lists.offset[last]]
        for _ in range(int(rng.integers(1, 4))):
            _paradox(b, given, i, ids, rng)
    return given


def _paradox(b, given, i, ids, rng) -> None:
    """Write one convoy with the support that depends on it, if there is one among the orders
    `ids`.
    """
    rows = v.VOCABULARY[ids].astype(np.int64)
    at, dest, other = (atlas.PROV_OF[rows[:, column]] for column in (v.LOC, v.DEST, v.OTHER_LOC))
    moves, convoys = rows[:, v.KIND] == boards.MOVE, rows[:, v.KIND] == boards.CONVOY
    convoy = write(given, i, ids[convoys & (b.unit[i, dest] > 0)], rng)
    if convoy is None:
        return
    fleet, _, army, goal, _ = convoy
    write(given, i, ids[moves & (at == army) & (dest == goal)], rng)
    holds = (rows[:, v.KIND] == boards.SUPPORT_HOLD) & (other == fleet)
    attacks = (rows[:, v.KIND] == boards.SUPPORT_MOVE) & (dest == fleet)
    support = write(given, i, ids[(at == goal) & (holds | attacks)], rng)
    if support is not None and support[1] == boards.SUPPORT_MOVE:
        write(given, i, ids[moves & (at == support[2]) & (dest == fleet)], rng)
    elif support is not None:
        write(given, i, ids[moves & (dest == fleet)], rng)


def write(given: boards.Orders, i: int, ids: np.ndarray, rng) -> list[int] | None:
    """Write one of the orders into row i and return its (province, kind, a, b, via)."""
    if not len(ids):
        return None
    order = v.EXPANSION[rng.choice(ids)].tolist()
    for field, value in zip(given, order[1:]):
        field[i, order[0]] = value
    return order


def batches(kind: str, rng: np.random.Generator):
    """Endless batches of (positions, orders) of movement phases."""
    while True:
        if kind == "crowded":
            b = crowded(rng)
            yield b, paradoxes(b, rng)
            continue
        for b, given in differential.pairs(kind, 400, rng):
            rows = np.flatnonzero(np.isin(b.phase, boards.MOVES))
            yield b.take(rows), given.take(rows)


def differing(kind: str, wanted: int, seed: int) -> tuple[Counter, list[str]]:
    """How many positions, cycles and paradoxes were compared, and those that differ as text."""
    count, odd = Counter(), []
    for b, given in batches(kind, seeding.child(seed, "plain", kind)):
        for name, choices in CHOICES.items():
            after, made = rules.resolve(b, given, choices=choices)
            count["cycles"] += int((made.counts[:, 0] > 0).sum())
            count["paradoxes"] += int((made.counts[:, 1] > 0).sum())
            for i in range(b.n):
                before, row = b.take([i]), given.take([i])
                if not plain.resolve(before, row, choices).same(after.take([i])):
                    odd.append(f"{name} {legalise.order_texts(before, row)[0]}")
        count["positions"] += b.n
        if count["positions"] >= wanted:
            return count, odd


@pytest.mark.parametrize("kind", [*differential.KINDS, "crowded"])
def test_both_adjudicators_agree_on_generated_positions(kind):
    count, odd = differing(kind, POSITIONS // 6, POSITIONS)
    print(kind, dict(count))
    assert odd == []
    assert kind != "crowded" or (count["paradoxes"] >= 5 and count["cycles"] >= 5)


class Undecided(recursion.Adjudicator):
    """Stops where a backup rule would be needed and keeps the questions of the cycle."""

    members = frozenset()

    def _backup(self, members):
        self.members = frozenset(members)
        raise StopIteration

    def consistent(self) -> int | None:
        """In how many ways the first cycle can be resolved without contradiction; None if there is
        no cycle.
        """
        try:
            for u in self.route:
                self.ask("moves", u, True)
        except StopIteration:
            known, members, count = dict(self.answers), sorted(self.members), 0
            for values in itertools.product([False, True], repeat=len(members)):
                self.answers = known | dict(zip(members, values))
                self.asked, self.cycle, self.unsure = [], [], {}
                count += all(
                    getattr(self, question)(p, True) == value
                    for (question, p), value in zip(members, values)
                )
            return count


def test_a_backup_rule_is_used_only_where_the_rules_leave_no_or_two_answers():
    """A false paradox, such as B4 is for the package, would have exactly one consistent answer. A
    convoy that may fall back on the land route is left out: there the rule is a choice (6.G.11).
    """
    count, stream = Counter(), batches("crowded", seeding.child(3, "answers"))
    for b, given in itertools.islice(stream, 25):
        _, made = rules.resolve(b, given, choices=rules.DATC3)
        for i in np.flatnonzero(made.counts[:, :2].any(axis=1)):
            units = recursion.read(b.take([i]), given.take([i]))
            count[Undecided(units, rules.DATC3, frozenset()).consistent()] += 1
    print(dict(count))
    assert set(count) == {0, 2} and min(count.values()) >= 3
