"""The vocabulary in groups that name the same other unit, and bit sets to find them by.

The 120 units that can exist have numbers: 56 armies, then 64 fleets, both in order of location. So
the armies of a board are a set of 56 bits and the fleets one of 64, and the groups of a unit that
concern units on the board are found by two intersections. Rows of a unit are sorted by kind, other
unit and destination; so are groups, and the rows of a group.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards
from dipllm_lib.dip import vocabulary as v

ARMIES, FLEETS = 56, 64
UNITS = ARMIES + FLEETS
ZERO, ONE = np.uint64(0), np.uint64(1)
# the number of a power of two: its product with this has other highest 6 bits for each (Leiserson,
# Prokop, Randall 1998, "Using de Bruijn sequences to index a 1 in a computer word")
SPREAD, SPREAD_BITS = np.uint64(0x03F79D71B4CB0A89), np.uint64(58)


class Groups(NamedTuple):
    """G groups of the R rows of the vocabulary without WAIVE. Sets are uint64; -1 is none."""

    number: np.ndarray  # int64 (3, 81): number of a unit of a type at a location
    province: np.ndarray  # int64 (120,): where a unit stands
    start: np.ndarray  # int64 (120, 12): first row of a unit of each kind, and of the next unit
    own: np.ndarray  # int64 (120,): group of its moves
    group: np.ndarray  # int16 (120, 3, 120): that supports it holding, moving, or convoys it
    holds: np.ndarray  # (120, 2): armies and fleets that it can support where they stand
    moves: np.ndarray  # (120, 2): that it can support to somewhere
    near_moves: np.ndarray  # (120,): armies of these that may not need a convoy for it
    convoys: np.ndarray  # (120,): armies that it can convoy
    row: np.ndarray  # int32 (G + 1,): first row of a group
    far: np.ndarray  # int64 (G,): shores that its moves reach by convoy
    near_first: np.ndarray  # int32 (G + 1,): its rows without convoy are near[near_first[g] : ...]
    near: np.ndarray  # int32
    dest: np.ndarray  # int8 (R,): destination location, or -1
    needs: np.ndarray  # bool (R,): whether the move that a row makes or names needs a convoy
    build: np.ndarray  # int32 (3, 81): id of the build, or -1
    bit: np.ndarray  # int64 (64,): highest bits of a product with SPREAD -> number of the bit


def _numbers() -> np.ndarray:
    number = np.full((3, atlas.N_LOCATIONS), -1, np.int64)
    number[v.A, atlas.HAS_ARMY] = np.arange(ARMIES)
    number[v.F, atlas.HAS_FLEET] = np.arange(ARMIES, UNITS)
    return number


def _starts(unit: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """First row of each unit and kind, the rows being sorted by both."""
    wanted = np.arange(UNITS)[:, None] * 11 + np.arange(12)
    return np.searchsorted(unit * 11 + kind, wanted).astype(np.int64)


def _sets(unit: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Sets (120, 2) of the armies and the fleets `other` that go with each unit."""
    result = np.zeros((UNITS, 2), np.uint64)
    fleet = other >= ARMIES
    bits = ONE << (other - ARMIES * fleet).astype(np.uint64)
    np.bitwise_or.at(result, (unit, fleet.astype(np.int64)), bits)
    return result


def _far(group: np.ndarray, size: int, dest: np.ndarray) -> np.ndarray:
    """Sets of shores of the destinations `dest` in each group."""
    shore = np.full(atlas.N_PROVINCES, -1, np.int64)
    shore[atlas.SHORES] = np.arange(len(atlas.SHORES))
    result = np.zeros(size, np.int64)
    np.bitwise_or.at(result, group, np.int64(1) << shore[dest])
    return result


def _builds(table: np.ndarray) -> np.ndarray:
    build = np.full((3, atlas.N_LOCATIONS), -1, np.int32)
    rows = np.isin(table[:, v.KIND], (boards.BUILD_ARMY, boards.BUILD_FLEET)).nonzero()[0]
    build[table[rows, v.TYPE], table[rows, v.LOC]] = rows
    return build


def _bits() -> np.ndarray:
    bit, powers = np.zeros(64, np.int64), ONE << np.arange(64, dtype=np.uint64)
    bit[(powers * SPREAD) >> SPREAD_BITS] = np.arange(64)
    return bit


def _groups() -> Groups:
    table, needs = v.VOCABULARY[:-1].astype(np.int64), v.NEEDS_CONVOY[:-1].copy()
    number = _numbers()
    unit, kind = number[table[:, v.TYPE], table[:, v.LOC]], table[:, v.KIND]
    other = number[table[:, v.OTHER_TYPE], table[:, v.OTHER_LOC]]
    changes = (np.diff(np.stack([unit, kind, other])) != 0).any(axis=0)
    first = np.flatnonzero(np.r_[True, changes])
    size, near = len(first), np.flatnonzero(~needs)
    group_of = np.repeat(np.arange(size), np.diff(np.r_[first, len(table)]))
    own = np.full(UNITS, -1, np.int64)
    moves = np.flatnonzero(kind[first] == boards.MOVE)
    own[unit[first[moves]]] = moves
    group = np.full((UNITS, 3, UNITS), -1, np.int16)
    helps = np.isin(kind, (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE, boards.CONVOY))
    group[unit[helps], kind[helps] - boards.SUPPORT_HOLD, other[helps]] = group_of[helps]
    holds, moving, convoys = (
        _sets(unit[kind == k], other[kind == k])
        for k in (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE, boards.CONVOY)
    )
    close = (kind == boards.SUPPORT_MOVE) & ~needs
    province = atlas.PROV_OF[np.concatenate([np.flatnonzero(row >= 0) for row in number[1:]])]
    return Groups(
        number, province.astype(np.int64), _starts(unit, kind), own, group, holds, moving,
        _sets(unit[close], other[close])[:, 0].copy(), convoys[:, 0].copy(),
        np.r_[first, len(table)].astype(np.int32),
        _far(group_of[needs], size, table[needs, v.DEST]),
        np.searchsorted(group_of[near], np.arange(size + 1)).astype(np.int32),
        near.astype(np.int32), table[:, v.DEST].astype(np.int8), needs, _builds(table), _bits(),
    )  # fmt: skip


GROUPS = _groups()
