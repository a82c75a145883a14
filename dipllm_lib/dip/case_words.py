"""A phase of a recorded game told in words, every one of them computed from the record.

`tell` writes one phase of a `case_study.Case` as Markdown: where the power stood, its orders and
what became of each, who came into its way, what it gained or lost, how its value moved, and what
the target, the model and the anchor thought of its orders and of the target's first choice. Orders
are in the words of `paper_orders`, outcomes are those of the adjudicator (`outcomes`).
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards, draw, notation, orders
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.case_study import Case, Decision
from dipllm_lib.dip.game import Game
from dipllm_lib.dip.paper_orders import NAMES, sentence, unit_name


class Act(NamedTuple):
    """One order that was given. place, dest: provinces (-1: none); helped: that of the unit which
    is supported or convoyed; words: what became of it, see `outcomes`.
    """

    power: int
    order: int
    kind: int
    place: int
    dest: int
    helped: int
    words: tuple[str, ...]

    @property
    def arrives(self) -> bool:
        return self.kind in (boards.MOVE, boards.RETREAT) and not self.words

    @property
    def sets_out(self) -> bool:
        """Whether it presses on the place that it goes to: no army waits for a fleet."""
        goes = self.kind in (boards.MOVE, boards.RETREAT)
        return goes and not {"no convoy", "disrupted"} & set(self.words)

    @property
    def unit(self) -> str:
        """Germany's army in Munich."""
        return f"{genitive(self.power)} {unit_name(notation.unit_of(self.order))}"


def name(power: int) -> str:
    """Germany."""
    return atlas.POWERS[power].title()


def genitive(power: int) -> str:
    """Germany's."""
    return f"{name(power)}'s"


def acts(game: Game, k: int) -> list[Act]:
    """All orders of phase k, powers in order, waived builds left out."""
    found = []
    for turn in orders.turns(game.boards, k):
        for order in game.joint(k, turn.power):
            _, place, kind, _, at, dest, _ = v.VOCABULARY[order].tolist()
            if order == v.WAIVE_ID:
                continue
            words = tuple(game.results[k].get(notation.unit_of(order), ()))
            provinces = [int(atlas.PROV_OF[x]) if x >= 0 else -1 for x in (place, dest, at)]
            found.append(Act(turn.power, order, kind, *provinces, words))
    return found


def outcome(act: Act, everyone: list[Act]) -> str:
    """What became of one order: `bounces, France's army in Paris moves there too`."""
    said = [_by_kind(act, everyone)]
    if "dislodged" in act.words:
        by = [other.unit for other in everyone if other.arrives and other.dest == act.place]
        said.append(f"is dislodged by {listed(by)}" if by else "is dislodged")
        said += ["has nowhere to go and disbands"] if "disband" in act.words else []
    elif "disband" in act.words and "bounce" in act.words:
        said.append("and disbands")
    return ", ".join(part for part in said if part)


def _by_kind(act: Act, everyone: list[Act]) -> str:
    words = set(act.words)
    if "no convoy" in words:
        return "no chain of fleets carries it"
    if "disrupted" in words:
        return "its convoy is broken"
    if "bounce" in words:
        return f"bounces, {_rivals(act, everyone)}"
    if "void" in words:
        return "helps no order that was given"
    if "cut" in words and "dislodged" not in words:
        by = [o for o in everyone if o.sets_out and o.dest == act.place]
        return f"is cut by {listed([o.unit for o in by if o.power != act.power])}"
    return {boards.MOVE: "arrives", boards.RETREAT: "arrives"}.get(act.kind, "")


def _rivals(act: Act, everyone: list[Act]) -> str:
    """Who kept a unit out of the place that it moved to."""
    too = [o.unit for o in everyone if o is not act and o.sets_out and o.dest == act.dest]
    there = [o.unit for o in everyone if o.place == act.dest and not o.arrives]
    said = [f"{listed(too)} {'move' if len(too) > 1 else 'moves'} there too"] * bool(too)
    said += [f"{listed(there)} stays there"] * bool(there)
    return listed(said) if said else "the place stays closed"


def listed(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def share(x: float) -> str:
    """12.3 %."""
    return f"{100 * x:.1f} %"


def points(x: float) -> str:
    """+1.2 points, with a true minus sign; 0.0 has none."""
    text = f"{100 * x:+.1f}"
    return ("0.0" if float(text) == 0 else text.replace("-", "−")) + " points"


def counted(n: int, thing: str) -> str:
    """`1 unit`, `2 units`."""
    return f"{n} {thing}{'' if n == 1 else 's'}"


def tell(case: Case, decision: Decision) -> str:
    """One phase of the power as Markdown; see the module's text."""
    k = decision.k
    title = f"### {draw.phase_title(case.game.boards, k)}: {name(case.power)}"
    everyone = acts(case.game, k)
    own = [act for act in everyone if act.power == case.power]
    lines = [f"- {_order(act, everyone)}" for act in own] or ["- no unit, every build waived"]
    parts = [title, f"**Before.** {standing(case, k)}", "**Its orders.**", "\n".join(lines)]
    against = around(case, k, everyone)
    parts += [f"**Around it.** {against}"] if against else []
    parts.append(f"**What came of it.** {result(case, decision)}")
    parts.append(f"**The choice.** {choice(decision)}")
    return "\n\n".join(parts)


def _order(act: Act, everyone: list[Act]) -> str:
    became, said = outcome(act, everyone), sentence(act.order)
    return said[0].upper() + said[1:] + (f": {became}" if became else "") + "."


def standing(case: Case, k: int) -> str:
    """Centres, units, value and place of the power in position k."""
    here = case.game.boards
    centres = int(boards.centres(here)[k, case.power])
    units = int(boards.units(here)[k, case.power])
    place = 1 + int((case.values[k] > case.values[k, case.power]).sum())
    best = int(np.argmax(case.values[k]))
    text = (
        f"{name(case.power)} has {counted(centres, 'centre')} and {counted(units, 'unit')}; the "
        f"value net gives it {share(case.values[k, case.power])} of the sum of squares, place "
        f"{place} of 7"
    )
    return text + (
        "." if place == 1 else f"; {name(best)} leads with {share(case.values[k, best])}."
    )


def around(case: Case, k: int, everyone: list[Act]) -> str:
    """What units of others did where the power stands, where it goes, and in its centres."""
    own = [act for act in everyone if act.power == case.power]
    area = {act.place for act in own} | {act.dest for act in own if act.kind == boards.MOVE}
    area |= set(np.flatnonzero(case.game.boards.owner[k] == case.power).tolist())
    said = []
    for act in everyone:
        if act.power == case.power or act.kind not in (boards.MOVE, boards.RETREAT):
            continue
        if act.dest in area:
            by = [o for o in everyone if _helps(o, act)]
            helped = f", supported by {listed([o.unit for o in by])}" if by else ""
            verb = "enters" if act.arrives else "tries to enter"
            said.append(f"{act.unit} {verb} {NAMES[act.dest]}{helped}")
    mine = {act.place for act in own}
    said += [
        f"{act.unit} helps {unit_name(_helped(act))}"
        for act in everyone
        if act.power != case.power and act.helped in mine and "void" not in act.words
    ]
    return "; ".join(said) + ("." if said else "")


def _helps(act: Act, mover: Act) -> bool:
    supports = act.kind == boards.SUPPORT_MOVE and not {"cut", "void"} & set(act.words)
    return supports and (act.helped, act.dest) == (mover.place, mover.dest)


def _helped(act: Act) -> str:
    _, _, _, other, at, *_ = v.VOCABULARY[act.order].tolist()
    return boards.unit_text(other, at)


def result(case: Case, decision: Decision) -> str:
    """Centres that changed hands, and how the value moved and why."""
    k, power, b = decision.k, case.power, case.game.boards
    row = case.account.set_index("phase").loc[decision.phase]
    text = " ".join(part for part in (_hands(b, k, power), _fate(case, k)) if part)
    value = (
        f"Its value goes from {share(row['before'])} to {share(row['after'])}, where "
        f"{share(row['expected'])} was expected ({points(row['after'] - row['expected'])}): "
        f"{points(row['choice'])} by its choice of orders, {points(row['others'])} by what the "
        "others did."
    )
    return f"{text} {value}".strip()


def _hands(b: boards.Boards, k: int, power: int) -> str:
    """`It gains Belgium (from nobody) and loses Munich (to France): 5 centres.`"""
    old, new = b.owner[k], b.owner[k + 1]
    gains = [
        f"{NAMES[p]} (from {name(old[p]) if old[p] >= 0 else 'nobody'})"
        for p in np.flatnonzero((new == power) & (old != power)).tolist()
    ]
    loses = [
        f"{NAMES[p]} (to {name(new[p])})"
        for p in np.flatnonzero((old == power) & (new != power)).tolist()
    ]
    parts = [f"gains {listed(gains)}"] * bool(gains) + [f"loses {listed(loses)}"] * bool(loses)
    count = counted(int((new == power).sum()), "centre")
    return f"It {' and '.join(parts)}: {count}." if parts else ""


def _fate(case: Case, k: int) -> str:
    """The end of the power or of the game, if this phase brought it."""
    b, over = case.game.boards, int(case.game.boards.phase[k + 1]) == boards.OVER
    left = (b.owner[k + 1] == case.power).any() or (b.power[k + 1] == case.power).any()
    text = "" if left else "It is out of the game."
    return f"{text} The game is over.".strip() if over else text


def choice(decision: Decision) -> str:
    """What target, model and anchor thought of the orders, and what else there was."""
    table, played = decision.table, decision.played
    size, row, first = int(table["q"].notna().sum()), table.iloc[played], table.iloc[0]
    rank = f"the target's {ordinal(played + 1)} choice of {size}"
    rank = rank if played < size else f"none of the {counted(size, 'candidate')} of the search"
    text = [f"Its orders are {rank}: {_thought(row)}."]
    if played:
        text.append(
            f"The target's first choice ({_thought(first)}) has instead: "
            f"{instead(decision, 0)}. Against what the others did "
            f"{_against(first['hindsight'], row['hindsight'])}."
        )
    best = int(np.argmax(table["hindsight"].to_numpy()))
    better = share(table["hindsight"][best]) != share(row["hindsight"])
    if best not in (0, played) and better:
        text.append(
            f"Best in hindsight was the target's {ordinal(best + 1)} choice, "
            f"{share(table['hindsight'][best])}, with {instead(decision, best)}."
        )
    return " ".join(text)


def _against(other: float, own: float) -> str:
    if share(other) == share(own):
        return f"it would have led to the same value, {share(own)}"
    return f"it would have led to {share(other)} instead of {share(own)}"


def _thought(row) -> str:
    parts = (("target", "target"), ("model", "pi"), ("anchor", "tau"))
    return ", ".join(f"{word} {share(row[column])}" for word, column in parts)


def instead(decision: Decision, row: int) -> str:
    """The orders of a row that differ from those that were played."""
    pair = zip(decision.joints[row], decision.joints[decision.played], strict=True)
    given = decision.joints[decision.played]
    adjusts = bool(decision.turn.adjusts)
    other = [a for a, b in pair if (a not in given if adjusts else a != b)]
    said = [sentence(order) for order in other]
    return "; ".join(said) if said else "fewer of these orders"


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{'th' if n % 100 in (11, 12, 13) else ending}"
