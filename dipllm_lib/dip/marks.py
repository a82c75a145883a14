"""Orders as marks on the map: what each unit was told, what became of it, and the strokes for that.

Moves are arrows, dashed with a cross at the end if they failed; a move by convoy curves through the
fleets that carried it. Supports are dotted lines that end on the supported arrow or unit, grey if
cut. A convoying fleet wears a ring of waves, a holding unit a bar. Orders that match nothing are
pale. Orders come as arrays or as texts by power name; texts are adjudicated again.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards, legalise, notation, outlines, pen, rules
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.decisions import BY_CONVOY, NO, VOID, YES, Decisions
from dipllm_lib.dip.pen import Pen

DONE, FAILED, CUT, PALE, CANDIDATE = "done", "failed", "cut", "void", "candidate"
ROOM = 15.0  # from the middle of a unit to the end of a line
ASIDE = np.array([18.0, -13.0])  # a dislodged unit stands this far from its place
DULL = {CUT: ("#85898E", "#5E6267"), PALE: ("#B9BAB9", "#85898E")}  # inside and rim
Z_LINE, Z_BADGE = 5, 9


class Mark(NamedTuple):
    """An order for the unit of a power at a location, as it is drawn. `a`, `b` as in
    `boards.Orders`; `route`: provinces of the fleets that carry a move, in order; `weight`: a
    probability, or None.
    """

    province: int
    power: int
    place: int
    kind: int
    a: int
    b: int
    state: str
    route: tuple[int, ...]
    weight: float | None


def given(
    position: Boards, orders: Orders | Mapping[str, list[str]], made: Decisions | None
) -> tuple[Orders, Decisions, Boards]:
    """Orders as arrays, their decisions and the next position, for a position of N = 1. ValueError
    for texts that name no unit of the position, for orders that are not legal, or if nothing is
    left to order.
    """
    if position.phase[0] == boards.OVER:
        raise ValueError("the game is over: draw its last position without orders")
    if isinstance(orders, Mapping):
        if made is not None:
            raise ValueError("decisions belong to orders in arrays: give texts without them")
        orders = legalise.read_orders(position, 0, orders, strict=False)
    else:
        legalise.legalise(position, orders, strict=True)
    after, found = rules.resolve(position, orders)
    return orders, found if made is None else made, after


def marks(position: Boards, orders: Orders, made: Decisions) -> list[Mark]:
    """What to draw for one row of orders in a movement or retreat phase, units in order."""
    retreats = position.phase[0] in boards.RETREATS
    units = position.d_unit[0] if retreats else position.unit[0]
    powers, places = (
        (position.d_power[0], position.d_loc[0])
        if retreats
        else (position.power[0], position.loc[0])
    )
    found = []
    for p in np.flatnonzero(units).tolist():
        kind, a, b = (int(field[0, p]) for field in orders[:3])
        if retreats and kind == boards.HOLD:
            kind = boards.DISBAND
        state = _state(position, orders, made, p, kind)
        route = _route(position, orders, made, p) if kind == boards.MOVE else ()
        found.append(Mark(p, int(powers[p]), int(places[p]), kind, a, b, state, route, None))
    return found


def _state(b: Boards, orders: Orders, made: Decisions, p: int, kind: int) -> str:
    if kind in (boards.MOVE, boards.RETREAT):
        return DONE if made.moved[0, p] == YES else FAILED
    if kind in (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE):
        return {VOID: PALE, NO: CUT}.get(int(made.support_ok[0, p]), DONE)
    if kind == boards.CONVOY:
        army, dest = int(orders.a[0, p]), int(orders.b[0, p])
        matched = orders.kind[0, army] == boards.MOVE and orders.a[0, army] == dest
        return DONE if matched and b.unit[0, army] == atlas.ARMY_UNIT else PALE
    return DONE


def _route(b: Boards, orders: Orders, made: Decisions, p: int) -> tuple[int, ...]:
    """The shortest chain of fleets ordered to carry the army of p, through fleets that were not
    dislodged if it arrived; empty for a move by land or without a chain.
    """
    dest = int(orders.a[0, p])
    if made.route[0, p] != BY_CONVOY:
        return ()
    ordered = (orders.kind[0] == boards.CONVOY) & (orders.a[0] == p) & (orders.b[0] == dest)
    ordered &= (b.unit[0] == atlas.FLEET_UNIT) & (atlas.KIND == atlas.SEA)
    sure = ordered & (made.dislodged[0] != YES)
    return _chain(sure, p, dest) or _chain(ordered, p, dest)


def _chain(fleets: np.ndarray, start: int, dest: int) -> tuple[int, ...]:
    """A shortest path start, seas of the mask `fleets` (75,), dest; its seas."""
    came = {start: -1}
    fringe = [start]
    while fringe:
        here = fringe.pop(0)
        if here != start and atlas.TOUCH[here, dest]:
            path = []
            while here != start:
                path.append(here)
                here = came[here]
            return tuple(reversed(path))
        for sea in np.flatnonzero(atlas.TOUCH[here] & fleets).tolist():
            if sea not in came:
                came[sea] = here
                fringe.append(sea)
    return ()


def with_chances(
    position: Boards, found: list[Mark], probabilities: Mapping[str, float]
) -> list[Mark]:
    """The marks `found` with the probabilities of their order texts; without any, one mark per
    text. ValueError for a text that none of them has, and as `candidates` does.
    """
    asked = candidates(position, probabilities)
    if not found:
        return asked
    order = {mark[:1] + mark[3:6]: mark.weight for mark in asked}
    drawn = {mark[:1] + mark[3:6] for mark in found}
    for text, mark in zip(probabilities, asked, strict=True):
        if mark[:1] + mark[3:6] not in drawn:
            raise ValueError(f"{text!r} has a probability but is not among the orders")
    return [mark._replace(weight=order.get(mark[:1] + mark[3:6])) for mark in found]


def candidates(position: Boards, probabilities: Mapping[str, float]) -> list[Mark]:
    """A mark for each order text of a position of N = 1, undecided, with its probability.
    ValueError for a text that is no order of a unit there, or a number that is no probability.
    """
    retreats = position.phase[0] in boards.RETREATS
    units, powers = (
        (position.d_unit, position.d_power) if retreats else (position.unit, position.power)
    )
    found = []
    for text, chance in probabilities.items():
        if not 0 <= chance <= 1:
            raise ValueError(f"{text!r}: {chance} is no probability, it must lie in 0 to 1")
        order = notation.from_text(text, position)
        p, kind, a, b, _ = v.EXPANSION[order].tolist()
        place = int(v.VOCABULARY[order, v.LOC])
        if order == v.WAIVE_ID or kind > boards.DISBAND or not units[0, p]:
            raise ValueError(f"{text!r}: no unit to order there in {boards.phase_name(position)}")
        power = int(powers[0, p])
        found.append(Mark(p, power, place, kind, a, b, CANDIDATE, (), float(chance)))
    return found


def place_of(mark: Mark) -> np.ndarray:
    """Where the unit of a mark stands on the picture, (2,)."""
    aside = mark.kind in (boards.RETREAT, boards.DISBAND)
    return outlines.UNITS[mark.place] + (ASIDE if aside else 0)


def curve(mark: Mark) -> np.ndarray:
    """The whole line of a move or retreat, from unit to destination, (K, 2)."""
    start, end = place_of(mark), outlines.UNITS[mark.a]
    if mark.route:
        return pen.through([start, *outlines.UNITS[list(mark.route)], end])
    return pen.bow(start, end)


def draw(tool: Pen, found: list[Mark], position: Boards) -> None:
    """Strokes of all marks on a position of N = 1."""
    occupied, loc = position.unit[0] > 0, position.loc[0]
    spots = outlines.UNITS[np.where(occupied, loc, np.arange(atlas.N_PROVINCES))]
    moves = {mark.province: mark for mark in found if mark.kind == boards.MOVE}
    for number, mark in enumerate(found):
        name = f"order-{atlas.CODES[mark.province]}-{mark.state}"
        name += f"-{number}" if mark.state == CANDIDATE else ""
        if mark.kind in (boards.MOVE, boards.RETREAT):
            _arrow(tool, mark, occupied, name)
        elif mark.kind in (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE):
            _support(tool, mark, moves, spots, name)
        elif mark.kind == boards.CONVOY:
            colour = DULL[PALE][0] if mark.state == PALE else pen.WAVE
            pen.ring(tool, place_of(mark), colour, _width(mark, 2.0), Z_LINE, name)
        elif mark.kind == boards.HOLD:
            pen.bar(tool, place_of(mark), _width(mark, 2.6), Z_LINE, name)
        else:
            pen.strike(tool, place_of(mark), 9.0, Z_BADGE, name)


def _width(mark: Mark, plain: float) -> float:
    return plain if mark.weight is None else 0.9 + 7.5 * mark.weight


def _arrow(tool: Pen, mark: Mark, occupied: np.ndarray, name: str) -> None:
    failed = mark.state == FAILED
    end = ROOM + 4 if failed else ROOM if occupied[atlas.PROV_OF[mark.a]] else 5.0
    line = pen.trim(curve(mark), ROOM - 3, end)
    pen.arrow(tool, line, pen.COLOURS[mark.power], _width(mark, 2.8), failed, Z_LINE, name)
    _percent(tool, mark, line, name)


def _percent(tool: Pen, mark: Mark, line: np.ndarray, name: str) -> None:
    if mark.weight is not None:
        text, spot = f"{100 * mark.weight:.0f}%", pen.part_way(line, 0.5)
        tool.text(text, spot, 10, Z_BADGE, halo=pen.WHITE, gid=f"{name}-percent")


def _support(tool: Pen, mark: Mark, moves: dict, spots: np.ndarray, name: str) -> None:
    holds = mark.kind == boards.SUPPORT_HOLD
    end, room = (spots[mark.a], ROOM) if holds else (_on_arrow(mark, moves, spots), 3.5)
    line = pen.trim(pen.bow(place_of(mark), end, 0.06), ROOM - 2, room)
    colour, rim = DULL.get(mark.state, (pen.COLOURS[mark.power], pen.INK))
    pen.dotted(tool, line, colour, rim, _width(mark, 2.9), Z_LINE, name)
    _percent(tool, mark, line, name)


def _on_arrow(mark: Mark, moves: dict[int, Mark], spots: np.ndarray) -> np.ndarray:
    """The point of the supported move that a SUPPORT_MOVE ends on."""
    move = moves.get(mark.a)
    if move is not None and atlas.PROV_OF[move.a] == atlas.PROV_OF[mark.b]:
        return pen.part_way(curve(move), 0.6)
    return pen.part_way(pen.bow(spots[mark.a], outlines.UNITS[mark.b]), 0.6)
