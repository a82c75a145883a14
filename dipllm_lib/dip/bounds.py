"""Whether arrays from outside can be positions and orders at all, before compiled code reads them.

Compiled code does not check indices: a location of 100 would read beyond a table. `orders` refuses
kinds that do not exist or do not belong to the phase, and locations and provinces that are not on
the map; `positions` refuses units that cannot stand where they are, powers and owners that do not
exist. Whether an order is legal on its board is `legalise`'s question, not this one.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas
from dipllm_lib.dip.boards import KINDS, Boards, Orders
from dipllm_lib.dip.kernels import kernel

ANY = (-128, 127)  # not read
LOCATION, PROVINCE = (0, atlas.N_LOCATIONS - 1), (0, atlas.N_PROVINCES - 1)
# for each kind of order the smallest and largest `a`, then `b`, int8 (16, 4)
LIMITS = np.array(
    [
        ANY + ANY,  # hold
        LOCATION + ANY,  # move
        PROVINCE + ANY,  # support to hold
        PROVINCE + LOCATION,  # support to move
        PROVINCE + PROVINCE,  # convoy
        LOCATION + ANY,  # retreat
        ANY + ANY,  # disband
        LOCATION + ANY,  # build an army
        LOCATION + ANY,  # build a fleet
        ANY + ANY,  # remove
        ANY + ANY,  # waive
        *[ANY + ANY] * 5,  # no kinds; the table is read with the lower four bits of any number
    ],
    np.int8,
)
MOVE_KINDS, RETREAT_KINDS, WINTER_KINDS = 0b11111, 0b1100001, 0b11111000001  # bits of the kinds
ALLOWED = np.array([MOVE_KINDS, RETREAT_KINDS, MOVE_KINDS, RETREAT_KINDS, WINTER_KINDS], np.int64)
REMEDY = "orders that come from outside go through legalise.read_orders"


@kernel
def _bad_order(o, limits):
    """Row * 75 + province of the first order that cannot be written, or -1. Limits: int8 (16, 4);
    a row is judged without branches, which on random orders cost more than the work.
    """
    for n in range(len(o.kind)):
        bad = 0
        for p in range(75):
            kind, via = o.kind[n, p], o.via[n, p]
            low, high, least, most = limits[kind & 15]
            bad |= (o.a[n, p] < low) | (o.a[n, p] > high) | (o.b[n, p] < least)
            bad |= (o.b[n, p] > most) | (kind < 0) | (kind > 10) | ((kind > 0) & (via & ~1 != 0))
        for p in range(75 if bad else 0):
            kind, via = o.kind[n, p], o.via[n, p]
            low, high, least, most = limits[kind & 15]
            fits = low <= o.a[n, p] <= high and least <= o.b[n, p] <= most and 0 <= kind <= 10
            if not fits or (kind > 0 and not 0 <= via <= 1):
                return n * 75 + p
    return -1


@kernel
def _misplaced(b, o, board_of, allowed):
    """Row * 75 + province of the first order of a kind that its phase does not know, or -1."""
    for n in range(len(o.kind)):
        i = board_of[n]
        phase = b.phase[i]
        if phase > 4:
            continue
        units = b.d_unit[i] if phase % 2 else b.unit[i]
        bad = 0
        for p in range(75):
            read = (units[p] != 0) | (phase == 4)
            bad |= read & (allowed[phase] >> o.kind[n, p] & 1 == 0)
        for p in range(75 if bad else 0):
            if (units[p] or phase == 4) and not allowed[phase] >> o.kind[n, p] & 1:
                return n * 75 + p
    return -1


@kernel
def _stands(p, unit, power, place, t):
    """Whether an entry is empty in the one form, or a unit that can stand in province p."""
    if unit == 0:
        return power == -1 and place == -1
    if unit < 0 or unit > 2 or power < 0 or power > 6 or place < 0 or place > 80:
        return False
    return t.prov_of[place] == p and (t.has_army[place] if unit == 1 else t.has_fleet[place])


@kernel
def _bad_position(b, t):
    """Position * 75 + province of the first impossible entry, or -1. Dislodged units are read in
    retreat phases only.
    """
    for i in range(len(b.phase)):
        if b.phase[i] < 0 or b.phase[i] > 5:
            return i * 75
        retreats = b.phase[i] == 1 or b.phase[i] == 3
        for p in range(75):
            if not -1 <= b.owner[i, p] <= 6:
                return i * 75 + p
            if not _stands(p, b.unit[i, p], b.power[i, p], b.loc[i, p], t):
                return i * 75 + p
            if retreats and not -1 <= b.d_from[i, p] <= 74:
                return i * 75 + p
            if retreats and not _stands(p, b.d_unit[i, p], b.d_power[i, p], b.d_loc[i, p], t):
                return i * 75 + p
    return -1


@kernel
def _out_of_range(unit, power, place):
    """Whether one of 75 entries is out of range, without branches: wide instructions."""
    bad = np.int8(0)
    for p in range(75):
        bad |= np.int8(unit[p] < 0) | np.int8(unit[p] > 2)
        bad |= np.int8(power[p] < -1) | np.int8(power[p] > 6)
        bad |= np.int8(place[p] < -1) | np.int8(place[p] > 80)
        bad |= np.int8(unit[p] == 0) ^ np.int8(power[p] < 0)
        bad |= np.int8(unit[p] == 0) ^ np.int8(place[p] < 0)
    return bad != 0


@kernel
def _misplaced_unit(unit, place, where):
    """Whether one of 75 entries holds a unit that cannot stand there; values are in range."""
    bad = 0
    for p in range(75):
        bad |= (unit[p] != 0) & (where[unit[p] & 3, place[p] & 127] != p)
    return bad != 0


@kernel
def _some_bad_position(b, where):
    """Whether some entry is impossible: the question of `_bad_position`, two times faster.

    where: int8 (4, 128), for unit and location the province it stands in.
    """
    for i in range(len(b.phase)):
        bad = np.int8(b.phase[i] < 0) | np.int8(b.phase[i] > 5)
        for p in range(75):
            bad |= np.int8(b.owner[i, p] < -1) | np.int8(b.owner[i, p] > 6)
        if bad or _out_of_range(b.unit[i], b.power[i], b.loc[i]):
            return True
        if _misplaced_unit(b.unit[i], b.loc[i], where):
            return True
        if b.phase[i] != 1 and b.phase[i] != 3:
            continue
        for p in range(75):
            bad |= np.int8(b.d_from[i, p] < -1) | np.int8(b.d_from[i, p] > 74)
        if bad or _out_of_range(b.d_unit[i], b.d_power[i], b.d_loc[i]):
            return True
        if _misplaced_unit(b.d_unit[i], b.d_loc[i], where):
            return True
    return False


class Standing(NamedTuple):
    """Province of a location, and which unit can stand there."""

    prov_of: np.ndarray
    has_army: np.ndarray
    has_fleet: np.ndarray


STANDING = Standing(atlas.PROV_OF, atlas.HAS_ARMY, atlas.HAS_FLEET)
NOWHERE = -2


def _where() -> np.ndarray:
    """Province of unit and location, NOWHERE if it cannot stand there."""
    table = np.full((4, 128), NOWHERE, np.int8)
    for unit, able in ((atlas.ARMY_UNIT, atlas.HAS_ARMY), (atlas.FLEET_UNIT, atlas.HAS_FLEET)):
        table[unit, : atlas.N_LOCATIONS][able] = atlas.PROV_OF[able]
    return table


WHERE = _where()


def _shaped(struct, dtypes, dims):
    """The same NamedTuple in the one layout that compiled code is made for. ValueError if a field
    has another shape, or values that its type cannot hold. dims: 2 for a field by province.
    """
    last = struct[-1]
    count = len(last) if isinstance(last, np.ndarray) and last.ndim else 1
    shapes = (None, (count,), (count, atlas.N_PROVINCES))
    for x, dtype, dim in zip(struct, dtypes, dims):
        ready = type(x) is np.ndarray and x.dtype is dtype and x.shape == shapes[dim]
        if not ready or not x.flags.carray:
            return _reshaped(struct, dtypes, [shapes[dim] for dim in dims])
    return struct


def _reshaped(struct, dtypes, shapes):
    """`_shaped` for arrays that need a copy or are refused."""
    name, fields = type(struct).__name__.lower(), []
    for field, x, dtype, shape in zip(struct._fields, struct, dtypes, shapes):
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "biu":
            raise ValueError(f"{name}: {field} must be an array of integers")
        if x.shape != shape:
            raise ValueError(
                f"{name}: {field} has shape {x.shape} for {shape[0]} rows of 75 provinces"
            )
        y = np.require(x, dtype, "CW")
        if not np.array_equal(x, y):
            raise ValueError(f"{name}: {field} holds values that are no {dtype}")
        fields.append(y)
    return type(struct)(*fields)


BOARD_TYPES = tuple(np.dtype(t) for t in [np.int8] * 8 + [np.bool_, np.int16, np.int8])
ORDER_TYPES = (np.dtype(np.int8),) * 4
BOARD_DIMS, ORDER_DIMS = (2,) * 9 + (1, 1), (2,) * 4


def positions(given: Boards) -> Boards:
    """Positions in the one layout. ValueError in one line for other shapes or types, and for the
    first entry that no position can have.
    """
    if not isinstance(given, Boards):
        raise ValueError(f"positions must be Boards, not {type(given).__name__}: see states")
    b = _shaped(given, BOARD_TYPES, BOARD_DIMS)
    if _some_bad_position(b, WHERE):
        i, p = divmod(_bad_position(b, STANDING), atlas.N_PROVINCES)
        if not 0 <= b.phase[i] <= 5:
            raise ValueError(f"position {i}: unknown phase {b.phase[i]}, phases are 0 to 5")
        entry = ", ".join(f"{name} {getattr(b, name)[i, p]}" for name in Boards._fields[:8])
        raise ValueError(f"position {i}: impossible entry in {atlas.CODES[p]}: {entry}")
    return b


def orders(given: Orders) -> Orders:
    """Rows of orders in the one layout. ValueError in one line for other shapes or types, and for
    the first order that names no place of the map or is of no kind.
    """
    if not isinstance(given, Orders):
        raise ValueError(f"orders must be Orders, not {type(given).__name__}: {REMEDY}")
    o = _shaped(given, ORDER_TYPES, ORDER_DIMS)
    at = _bad_order(o, LIMITS)
    if at >= 0:
        raise ValueError(f"{_entry(o, at)} is on no map: {REMEDY}")
    return o


def phases(b: Boards, o: Orders, board_of: np.ndarray) -> None:
    """ValueError for the first order of a kind that its phase does not know, such as a build in the
    spring. b, o as `positions` and `orders` return them, board_of int32 (N,) within range.
    """
    at = _misplaced(b, o, board_of, ALLOWED)
    if at >= 0:
        raise ValueError(f"{_entry(o, at)} does not belong to this phase: {REMEDY}")


def _entry(o: Orders, at: int) -> str:
    n, p = divmod(at, atlas.N_PROVINCES)
    kind, a, b, via = (int(field[n, p]) for field in o)
    name = KINDS[kind] if 0 <= kind < len(KINDS) else f"of kind {kind}"
    return f"row {n}: the order {name} a {a} b {b} via {via} in {atlas.CODES[p]}"
