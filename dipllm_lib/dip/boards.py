"""Positions and orders as structs of arrays, and the names of the phases.

A batch of N positions is one `Boards`: per province (axis of 75) the unit that stands there, the
owner of the centre, and in retreat phases the unit dislodged from there. A province holds at most
one unit and at most one dislodged unit. A single position is a batch of one. Empty entries have one
form: unit 0, power, loc and owner -1; so equal positions have equal arrays.
"""

import re
from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas

SPRING_MOVES, SPRING_RETREATS, FALL_MOVES, FALL_RETREATS, ADJUSTMENTS, OVER = range(6)
PHASE_SUFFIX = ("S{}M", "S{}R", "F{}M", "F{}R", "W{}A", "COMPLETED")
MOVES, RETREATS = (SPRING_MOVES, FALL_MOVES), (SPRING_RETREATS, FALL_RETREATS)

HOLD, MOVE, SUPPORT_HOLD, SUPPORT_MOVE, CONVOY = range(5)
RETREAT, DISBAND, BUILD_ARMY, BUILD_FLEET, REMOVE, WAIVE = range(5, 11)
KINDS = (
    "HOLD", "MOVE", "SUPPORT_HOLD", "SUPPORT_MOVE", "CONVOY", "RETREAT", "DISBAND", "BUILD_ARMY",
    "BUILD_FLEET", "REMOVE", "WAIVE",
)  # fmt: skip

EMPTY = {"unit": 0, "d_unit": 0, "contested": 0, "year": 0, "phase": 0}  # all other fields: -1
FIRST_YEAR = 1901


class Boards(NamedTuple):
    """N positions. `loc` and `d_loc` are locations, `power`, `owner`, `d_power` are powers,
    `d_from` is the province that the attacker of a dislodged unit left by land (-1 if it came by
    convoy).
    """

    unit: np.ndarray  # int8 (N, 75): 0 none, 1 army, 2 fleet
    power: np.ndarray  # int8 (N, 75)
    loc: np.ndarray  # int8 (N, 75)
    owner: np.ndarray  # int8 (N, 75)
    d_unit: np.ndarray  # int8 (N, 75)
    d_power: np.ndarray  # int8 (N, 75)
    d_loc: np.ndarray  # int8 (N, 75)
    d_from: np.ndarray  # int8 (N, 75)
    contested: np.ndarray  # bool (N, 75): a stand-off left it empty, no retreat there
    year: np.ndarray  # int16 (N,)
    phase: np.ndarray  # int8 (N,): SPRING_MOVES ... OVER

    @property
    def n(self) -> int:
        return len(self.phase)

    def take(self, indices) -> "Boards":
        """The positions of `indices` (array or list of int), copied."""
        indices = np.asarray(indices, np.intp)
        return Boards(*(field[indices] for field in self))

    @staticmethod
    def concat(parts: list["Boards"]) -> "Boards":
        """All positions of a non-empty list of batches, in order."""
        return Boards(*(np.concatenate(fields) for fields in zip(*parts)))

    def copy(self) -> "Boards":
        return Boards(*(field.copy() for field in self))

    def same(self, other: "Boards") -> bool:
        """Whether every field is equal."""
        return all(np.array_equal(a, b) for a, b in zip(self, other))


class Orders(NamedTuple):
    """N rows of orders, read only where a unit (or dislodged unit, or free home centre) of that
    province exists. What `a` and `b` mean for each kind: MOVE a = destination location;
    SUPPORT_HOLD a = province; SUPPORT_MOVE a = province of the mover, b = its destination location;
    CONVOY a, b = provinces; RETREAT and builds a = location.
    """

    kind: np.ndarray  # int8 (N, 75)
    a: np.ndarray  # int8 (N, 75), -1 if unused
    b: np.ndarray  # int8 (N, 75), -1 if unused
    via: np.ndarray  # int8 (N, 75): 1 if "via convoy" is written

    @property
    def n(self) -> int:
        return len(self.kind)

    def take(self, indices) -> "Orders":
        indices = np.asarray(indices, np.intp)
        return Orders(*(field[indices] for field in self))

    def copy(self) -> "Orders":
        return Orders(*(field.copy() for field in self))


def room(n: int) -> Boards:
    """Arrays for n positions with whatever is in memory: to be filled."""
    fields = np.empty((8, n, atlas.N_PROVINCES), np.int8)
    contested = np.empty((n, atlas.N_PROVINCES), np.bool_)
    return Boards(*fields, contested, np.empty(n, np.int16), np.empty(n, np.int8))


def empty(n: int) -> Boards:
    """n positions without units or owners, all in SPRING_MOVES of year 0."""
    fields = {}
    for name in Boards._fields:
        shape = (n,) if name in ("year", "phase") else (n, atlas.N_PROVINCES)
        kind = {"year": np.int16, "contested": np.bool_}.get(name, np.int8)
        fields[name] = np.full(shape, EMPTY.get(name, -1), kind)
    return Boards(**fields)


def no_orders(n: int) -> Orders:
    """n rows in which every unit holds (in retreats: disbands; in adjustments: nothing is
    ordered).
    """
    shape = (n, atlas.N_PROVINCES)
    unused = [np.full(shape, -1, np.int8) for _ in range(2)]
    return Orders(np.zeros(shape, np.int8), *unused, np.zeros(shape, np.int8))


def start(n: int = 1) -> Boards:
    """n copies of Spring 1901."""
    boards = empty(n)
    boards.unit[:], boards.loc[:] = atlas.START_UNIT, atlas.START_LOC
    boards.power[:], boards.owner[:] = atlas.START_POWER, atlas.START_OWNER
    boards.year[:] = FIRST_YEAR
    return boards


def single(positions: Boards, i: int) -> Boards:
    """Position i alone, N = 1; negative i count from the end. ValueError if there is none."""
    if not -positions.n <= i < positions.n:
        raise ValueError(f"position {i} of {positions.n}: give one from 0 to {positions.n - 1}")
    return positions.take([i])


def centres(boards: Boards) -> np.ndarray:
    """Number of supply centres of each power, int64 (N, 7)."""
    return (boards.owner[:, :, None] == np.arange(atlas.N_POWERS)).sum(axis=1)


def units(boards: Boards) -> np.ndarray:
    """Number of standing units of each power, int64 (N, 7)."""
    return (boards.power[:, :, None] == np.arange(atlas.N_POWERS)).sum(axis=1)


def phase_name(boards: Boards, i: int = 0) -> str:
    """The package's short name of the phase: S1901M, F1901R, W1901A, COMPLETED."""
    return PHASE_SUFFIX[boards.phase[i]].format(boards.year[i])


def parse_phase(name: str) -> tuple[int, int]:
    """(year, phase code) of a short phase name; COMPLETED gives year 0. ValueError otherwise."""
    if name == "COMPLETED":
        return 0, OVER
    match = re.fullmatch(r"([SFW])(\d{4})([MRA])", name) if isinstance(name, str) else None
    code = {"SM": 0, "SR": 1, "FM": 2, "FR": 3, "WA": 4}.get(match[1] + match[3]) if match else None
    if code is not None and int(match[2]) < FIRST_YEAR:
        raise ValueError(f"unknown phase {name!r}: the first year is {FIRST_YEAR}")
    if code is None:
        raise ValueError(
            f"unknown phase {name!r}: expected a name such as S1901M, F1903R, W1902A or COMPLETED"
        )
    return int(match[2]), code


def unit_text(unit: int, place: int) -> str:
    """`A PAR`, `F STP/SC`."""
    return f"{atlas.UNIT_LETTERS[unit]} {atlas.CODES[place]}"


def parse_unit(text: str) -> tuple[int, int]:
    """(unit type, location) of a text such as `F STP/SC`. ValueError if it names no unit or it
    cannot stand there.
    """
    letter, _, code = text.strip().upper().partition(" ") if isinstance(text, str) else " " * 3
    if letter not in ("A", "F"):
        raise ValueError(f"unknown unit {text!r}: expected A or F and a province, such as A PAR")
    unit, place = atlas.UNIT_LETTERS.index(letter), atlas.location(code)
    if not (atlas.HAS_ARMY if unit == atlas.ARMY_UNIT else atlas.HAS_FLEET)[place]:
        raise ValueError(
            f"impossible unit {text!r}: no {'army' if letter == 'A' else 'fleet'} can stand there"
        )
    return unit, place
