"""The movement phase once more in plain Python: a second adjudicator to hold the compiled one to.

Module `recursion` answers which moves succeed, which supports are given and which convoys pass;
here are the conclusions: who moved and who was dislodged, where a stand-off closed a province, who
may retreat where, and which phase comes next. Written to be read, one position at a time; it shares
tables with `rules.resolve` and nothing else, and both must agree everywhere.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.recursion import BY_CONVOY, HEAD_ON, Adjudicator, read
from dipllm_lib.dip.rules import PACKAGE, Choices

FAULTS = frozenset({"B1"})  # bugs of the package that can be switched on (module `deviations`)


class Verdict(NamedTuple):
    """What became of the orders of a movement phase; all entries are province ids."""

    moved: frozenset[int]  # units whose move succeeded, by the province they left
    dislodged: frozenset[int]
    supported: frozenset[int]  # units whose support was given
    by_convoy: frozenset[int]  # moves that went, or tried to go, by convoy
    contested: frozenset[int]  # provinces where an attack failed: no retreat there
    attacker: dict[int, int]  # dislodged unit -> province its attacker came from


def movement(
    before: Boards,
    orders: Orders,
    choices: Choices = PACKAGE,
    faults: frozenset[str] = frozenset(),
) -> Verdict:
    """Adjudicate legal orders of one movement phase (N = 1). `faults`: bugs of the package to
    copy, of FAULTS. ValueError for another phase or an unknown fault.
    """
    if before.n != 1 or orders.n != 1 or before.phase[0] not in boards.MOVES:
        raise ValueError("one position and one row of orders of a movement phase are needed")
    if faults - FAULTS:
        raise ValueError(f"unknown fault {min(faults - FAULTS)!r}: known is {min(FAULTS)}")
    judge = Adjudicator(read(before, orders), choices, faults)
    moved = frozenset(u for u in judge.route if judge.ask("moves", u, True))
    dislodged = frozenset(p for p in judge.units if not judge.stands(p, True))
    helpers = [s for helpers in judge.supporters.values() for s in helpers]
    return Verdict(
        moved,
        dislodged,
        frozenset(s for s in helpers if judge.ask("gives", s, True)),
        frozenset(u for u in judge.route if judge.final_route(u) == BY_CONVOY),
        frozenset(judge.units[u].to for u in judge.route if _contests(judge, u, moved)),
        {judge.units[u].to: u for u in moved if judge.units[u].to in dislodged},
    )


def _contests(judge: Adjudicator, u: int, moved: frozenset[int]) -> bool:
    """Whether a failed attack closes its destination: not if it lost a head-to-head battle."""
    if u in moved or not judge.route[u] or not judge.has_way(u, True):
        return False
    return not (judge.meeting(u) == HEAD_ON and judge.units[u].to in moved)


def resolve(
    before: Boards,
    orders: Orders,
    choices: Choices = PACKAGE,
    faults: frozenset[str] = frozenset(),
) -> Boards:
    """The position after one movement phase (N = 1): a retreat phase if some dislodged unit has an
    option, else the phase that follows it. Errors as in `movement`.
    """
    verdict = movement(before, orders, choices, faults)
    after = boards.empty(1)
    after.owner[0] = before.owner[0]
    after.year[0], after.phase[0] = before.year[0], before.phase[0] + 1
    for p in np.flatnonzero(before.unit[0]).tolist():
        unit, power, place = before.unit[0, p], before.power[0, p], before.loc[0, p]
        if p in verdict.moved:
            _place(after, int(atlas.PROV_OF[orders.a[0, p]]), unit, power, orders.a[0, p])
        elif p not in verdict.dislodged:
            _place(after, p, unit, power, place)
    after.contested[0, sorted(verdict.contested)] = True
    retreats = False
    for p in sorted(verdict.dislodged):
        origin = verdict.attacker[p]
        closed = -1 if origin in verdict.by_convoy else origin
        if options(before, after, p, closed):
            retreats = True
            after.d_unit[0, p], after.d_power[0, p] = before.unit[0, p], before.power[0, p]
            after.d_loc[0, p], after.d_from[0, p] = before.loc[0, p], closed
    if not retreats:
        _skip_retreats(after)
    return after


def _place(after: Boards, p: int, unit: int, power: int, place: int) -> None:
    after.unit[0, p], after.power[0, p], after.loc[0, p] = unit, power, place


def options(before: Boards, after: Boards, p: int, closed: int) -> list[int]:
    """Locations where the unit dislodged from p may retreat to: next to it, empty after the moves,
    not contested, not the province `closed`, which its attacker left by land (-1: by convoy).
    """
    if before.unit[0, p] == atlas.ARMY_UNIT:
        near = np.flatnonzero(atlas.ARMY[p])
    else:
        near = np.flatnonzero(atlas.FLEET[before.loc[0, p]])
    provinces = [int(atlas.PROV_OF[place]) for place in near]
    return [
        int(place)
        for place, q in zip(near, provinces)
        if not after.unit[0, q] and not after.contested[0, q] and q != closed
    ]


def _skip_retreats(after: Boards) -> None:
    """Go on to the phase behind the retreats: fall moves, or adjustments if they are needed, or the
    spring of the next year.
    """
    after.contested[:] = False
    if after.phase[0] == boards.SPRING_RETREATS:
        after.phase[0] = boards.FALL_MOVES
        return
    for p in np.flatnonzero(atlas.CENTRE & (after.unit[0] > 0)):
        after.owner[0, p] = after.power[0, p]
    if any(_adjusts(after, power) for power in range(atlas.N_POWERS)):
        after.phase[0] = boards.ADJUSTMENTS
    else:
        after.phase[0], after.year[0] = boards.SPRING_MOVES, after.year[0] + 1


def _adjusts(after: Boards, power: int) -> bool:
    """Whether a power must remove a unit, or can build one on a free home centre that it owns."""
    due = int((after.owner[0] == power).sum()) - int((after.power[0] == power).sum())
    homes = (atlas.HOME == power) & (after.owner[0] == power) & (after.unit[0] == 0)
    return due < 0 or (due > 0 and bool(homes.any()))
