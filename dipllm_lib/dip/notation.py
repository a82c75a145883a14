"""Orders as text in the package's notation, and back.

Formatting has one form: `A PAR H`, `A PAR - BUR`, `A LON - BEL VIA`, `F MAO - SPA/NC`, `A MAR S A
PAR - BUR`, `A BUR S A PAR`, `F NTH C A LON - BEL`, `A BEL R HOL`, `A BEL D`, `F STP/SC B`, `WAIVE`.
Reading also accepts lower case, `stp(sc)`, the aliases of `atlas.ALIASES`, a trailing H on a
support, a coast after an army's province, a missing coast where only one is possible, and, with a
position at hand, a missing unit type or a missing coast of the unit itself. A move by convoy
between provinces that do not touch is the same order with or without VIA; its one form has VIA.
"""

from functools import cache

import numpy as np

from dipllm_lib.dip import atlas, boards
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards

A, F = atlas.ARMY_UNIT, atlas.FLEET_UNIT
SIGNS = {
    boards.MOVE: "-",
    boards.RETREAT: "R",
    boards.SUPPORT_HOLD: "S",
    boards.SUPPORT_MOVE: "S",
    boards.CONVOY: "C",
}
ENDINGS = {boards.HOLD: "H", boards.DISBAND: "D", boards.BUILD_ARMY: "B", boards.BUILD_FLEET: "B"}


class ImpossibleOrder(ValueError):
    """A readable order that can never be given on this map; `unit`, `place`: whom it is for."""

    def __init__(self, text: str, unit: int, place: int):
        super().__init__(f"impossible order {text!r}: no such order exists on the standard map")
        self.unit, self.place = unit, place


@cache
def to_text(order: int) -> str:
    """Text of an order id. ValueError if there is no such id."""
    if not isinstance(order, (int, np.integer)) or not 0 <= order < v.SIZE:
        raise ValueError(f"unknown order id {order!r}: ids are 0 to {v.SIZE - 1}")
    unit, place, kind, other, at, dest, via = v.VOCABULARY[order].tolist()
    if kind == boards.WAIVE:
        return "WAIVE"
    words = [boards.unit_text(unit, place)]
    if kind in ENDINGS:
        return f"{words[0]} {ENDINGS[kind]}"
    words.append(SIGNS[kind])
    if other:
        words.append(boards.unit_text(other, at))
        words += ["-"] if dest >= 0 else []
    if dest >= 0:
        words.append(atlas.CODES[dest])
    return " ".join(words + ["VIA"] * via)


@cache
def _by_text() -> dict[str, int]:
    return {to_text(order): order for order in range(v.SIZE)}


def from_text(text: str, position: Boards | None = None, i: int = 0) -> int:
    """Order id of a text. `position` row i completes missing unit types and coasts; without it the
    text must be complete. ValueError if a province is unknown, the text is no order, or the order
    can never be given on this map.
    """
    if not isinstance(text, str):
        raise ValueError(f"unreadable order {text!r}: expected a text such as A PAR - BUR")
    order = _by_text().get(text)
    return _parse(text, position, i) if order is None else order


def _parse(text: str, position: Boards | None, i: int) -> int:
    words = text.replace("(", "/").replace(")", "").upper().replace("*", "").split()
    if words == ["WAIVE"]:
        return v.WAIVE_ID
    unit, place, rest = _take_unit(words, text, position, i, own=True)
    verb = rest[0] if rest else ""
    if verb in ("H", "HOLD", "D", "B") and len(rest) == 1:
        build = boards.BUILD_ARMY if unit == A else boards.BUILD_FLEET
        kind = {"D": boards.DISBAND, "B": build}.get(verb, boards.HOLD)
        order = int(v.find(unit, place, kind))
    elif verb in ("-", "R") and len(rest) in (2, 3) and rest[2:] in ([], ["VIA"]):
        order = _move(unit, place, verb, atlas.location(rest[1]), len(rest) == 3)
    elif verb in ("S", "C"):
        order = _help(unit, place, verb, rest[1:], text, position, i)
    else:
        raise ValueError(
            f"unreadable order {text!r}: expected a form such as A PAR - BUR or A BUR S A PAR"
        )
    if order < 0:
        raise ImpossibleOrder(text, unit, place)
    return order


def _take_unit(words, text, position, i, own=False) -> tuple[int, int, list[str]]:
    """Unit type and location at the front of `words`, and what follows. With a position, the
    standing unit's own coast.
    """
    words = list(words)
    unit = atlas.UNIT_LETTERS.index(words.pop(0)) if words and words[0] in ("A", "F") else 0
    if not words:
        raise ValueError(f"unreadable order {text!r}: expected a unit such as A PAR")
    place = atlas.location(words.pop(0))
    province = int(atlas.PROV_OF[place])
    builds = own and words == ["B"]
    if position is not None and not builds:
        retreats = own and position.phase[i] in boards.RETREATS
        units, places = (
            (position.d_unit, position.d_loc) if retreats else (position.unit, position.loc)
        )
        if unit in (0, units[i, province]) and units[i, province] and place == province:
            unit, place = int(units[i, province]), int(places[i, province])
    if not unit:
        raise ValueError(f"incomplete order {text!r}: write A or F before {atlas.CODES[place]}")
    if unit == A:
        place = province
    return unit, place, words


def _reachable(unit: int, place: int, dest: int) -> int:
    """`dest` without coast for an army; for a fleet with the only coast it can reach, if that is
    one.
    """
    if unit == A:
        return int(atlas.PROV_OF[dest])
    coasts = [to for to in v.neighbours(unit, place) if atlas.PROV_OF[to] == dest]
    return coasts[0] if len(coasts) == 1 else dest


def _move(unit: int, place: int, verb: str, dest: int, via: bool) -> int:
    dest = _reachable(unit, place, dest)
    if verb == "R":
        return int(v.find(unit, place, boards.RETREAT, dest=dest))
    order = int(v.find(unit, place, boards.MOVE, dest=dest, via=int(via)))
    return order if order >= 0 or via else int(v.find(unit, place, boards.MOVE, dest=dest, via=1))


def _help(unit, place, verb, words, text, position, i) -> int:
    """SUPPORT_HOLD, SUPPORT_MOVE or CONVOY."""
    other, at, rest = _take_unit(words, text, position, i)
    if verb == "S" and rest in ([], ["H"], ["HOLD"]):
        return int(v.find(unit, place, boards.SUPPORT_HOLD, other, at))
    if len(rest) not in (2, 3) or rest[0] != "-" or rest[2:] not in ([], ["VIA"]):
        raise ValueError(f"unreadable order {text!r}: expected a form such as A MAR S A PAR - BUR")
    dest = atlas.location(rest[1])
    if other == A:
        dest = int(atlas.PROV_OF[dest])
    return int(
        v.find(unit, place, boards.SUPPORT_MOVE if verb == "S" else boards.CONVOY, other, at, dest)
    )


def unit_at(position: Boards, i: int, province: int) -> str:
    """Text of the unit that must be ordered at a province: the dislodged one in a retreat phase,
    else the standing one.
    """
    retreats = position.phase[i] in boards.RETREATS
    units, places = (position.d_unit, position.d_loc) if retreats else (position.unit, position.loc)
    return (
        boards.unit_text(int(units[i, province]), int(places[i, province]))
        if units[i, province]
        else ""
    )


@cache
def unit_of(order: int) -> str:
    """Text of the unit that an order is for, `A PAR`; empty for WAIVE."""
    unit, place = v.VOCABULARY[order, :2].tolist()
    return boards.unit_text(unit, place) if place >= 0 else ""


def is_build(order: int) -> bool:
    """Whether an order id builds an army or a fleet."""
    return bool(np.isin(v.VOCABULARY[order, v.KIND], (boards.BUILD_ARMY, boards.BUILD_FLEET)))
