"""Every order that can ever be written on the standard map, as one fixed table of 32,396 rows.

A row of `VOCABULARY` is (unit type, location, kind, other unit's type, other unit's location,
destination, via); 0 or -1 where a column is not used. Rows are sorted by that key, WAIVE last; an
order id is the number of its row. Counts per kind: HOLD 120, MOVE 504 by land and 1,194 by convoy,
SUPPORT_HOLD 833, SUPPORT_MOVE 10,868 and 119 without the destination's coast, CONVOY 18,094,
RETREAT 504, DISBAND (also the removal of an adjustment phase) 120, BUILD 39, WAIVE 1.
"""

import numpy as np

from dipllm_lib.dip import atlas, boards

TYPE, LOC, KIND, OTHER_TYPE, OTHER_LOC, DEST, VIA = range(7)
A, F = atlas.ARMY_UNIT, atlas.FLEET_UNIT


def _units() -> list[tuple[int, int]]:
    """All (type, location) pairs a unit can have: 56 armies, 64 fleets."""
    armies = [(A, place) for place in np.flatnonzero(atlas.HAS_ARMY).tolist()]
    return armies + [(F, place) for place in np.flatnonzero(atlas.HAS_FLEET).tolist()]


def neighbours(unit: int, place: int) -> list[int]:
    """Locations that a unit can move to without a convoy, sorted."""
    return np.flatnonzero(atlas.ARMY[place] if unit == A else atlas.FLEET[place]).tolist()


def supports(unit: int, place: int) -> list[int]:
    """Provinces into which a unit can give support, sorted."""
    return np.flatnonzero(atlas.ARMY[place] if unit == A else atlas.FLEET_PROV[place]).tolist()


def _sea_groups() -> list[tuple[list[int], list[int]]]:
    """Connected groups of seas, each with the coastal provinces around it; a convoy never leaves
    its group.
    """
    groups, left = [], set(atlas.SEAS.tolist())
    while left:
        group, fringe = set(), {min(left)}
        while fringe:
            group |= fringe
            fringe = {sea for sea in left - group if atlas.TOUCH[sea, sorted(group)].any()}
        left -= group
        shores = np.flatnonzero(
            atlas.TOUCH[sorted(group)].any(axis=0) & (atlas.KIND == atlas.COAST)
        )
        groups.append((sorted(group), shores.tolist()))
    return groups


def _convoy_pairs() -> list[tuple[int, int, int]]:
    """(group number, from, to) of every pair of coastal provinces that fleets could join."""
    return [
        (g, p, q)
        for g, (_, shores) in enumerate(_sea_groups())
        for p in shores
        for q in shores
        if p != q
    ]


def _destinations(pairs: set[tuple[int, int]]) -> list[tuple[int, int, int, bool]]:
    """(type, location, destination, needs a convoy) of every move that a support can name."""
    moves = [(unit, place, to, False) for unit, place in _units() for to in neighbours(unit, place)]
    near = {(place, to) for unit, place, to, _ in moves if unit == A}
    moves += [(A, place, to, True) for place, to in sorted(pairs - near)]
    bare = {
        (F, place, int(atlas.PROV_OF[to]), False)
        for unit, place, to, _ in moves
        if to >= atlas.N_PROVINCES
    }
    return moves + sorted(bare)


def _support_rows(pairs: set[tuple[int, int]]) -> list[tuple]:
    """SUPPORT_HOLD and SUPPORT_MOVE rows, with the flag "needs a convoy" as an eighth entry."""
    rows = []
    standing, moving = {}, {}
    for unit, place in _units():
        standing.setdefault(int(atlas.PROV_OF[place]), []).append((unit, place))
    for move in _destinations(pairs):
        moving.setdefault(int(atlas.PROV_OF[move[2]]), []).append(move)
    for unit, place in _units():
        own = int(atlas.PROV_OF[place])
        for target in supports(unit, place):
            rows += [
                (unit, place, boards.SUPPORT_HOLD, t, at, -1, 0, 0) for t, at in standing[target]
            ]
            rows += [
                (unit, place, boards.SUPPORT_MOVE, t, at, to, 0, int(far))
                for t, at, to, far in moving[target]
                if atlas.PROV_OF[at] != own
            ]
    return rows


def _rows() -> np.ndarray:
    """All rows but WAIVE, unsorted, int64 (32395, 8)."""
    rows = []
    for unit, place in _units():
        rows += [(unit, place, kind, 0, -1, -1, 0, 0) for kind in (boards.HOLD, boards.DISBAND)]
        for to in neighbours(unit, place):
            rows += [(unit, place, kind, 0, -1, to, 0, 0) for kind in (boards.MOVE, boards.RETREAT)]
        if atlas.HOME[atlas.PROV_OF[place]] >= 0:
            rows.append((
                unit,
                place,
                boards.BUILD_ARMY if unit == A else boards.BUILD_FLEET,
                0,
                -1,
                -1,
                0,
                0,
            ))
    pairs = _convoy_pairs()
    joined = {(p, q) for _, p, q in pairs}  # some pairs have a way in two groups
    rows += [(A, p, boards.MOVE, 0, -1, q, 1, 1) for p, q in sorted(joined)]
    rows += _support_rows(joined)
    groups = _sea_groups()
    rows += [(F, sea, boards.CONVOY, A, p, q, 0, 1) for g, p, q in pairs for sea in groups[g][0]]
    return np.array(rows, np.int64)


def keys(unit, place, kind, other_type, other_place, dest, via) -> np.ndarray:
    """One int64 for each row, so that sorting keys sorts rows; WAIVE gets the largest. Arguments
    broadcast.
    """
    key = np.asarray(unit, np.int64)
    for column, size in ((place, 82), (kind, 11), (other_type, 3), (other_place, 82), (dest, 82)):
        key = key * size + np.asarray(column, np.int64) + (1 if size == 82 else 0)
    return np.where(
        np.asarray(kind) == boards.WAIVE,
        np.iinfo(np.int64).max,
        key * 2 + np.asarray(via, np.int64),
    )


def _table() -> tuple[np.ndarray, np.ndarray]:
    rows = _rows()
    order = np.argsort(keys(*rows[:, :7].T), kind="stable")
    waive = [[0, -1, boards.WAIVE, 0, -1, -1, 0, 0]]
    rows = np.concatenate([rows[order], waive]).astype(np.int16)
    return np.ascontiguousarray(rows[:, :7]), rows[:, 7].astype(bool)


VOCABULARY, NEEDS_CONVOY = _table()
KEYS = keys(*VOCABULARY.T)
SIZE = len(VOCABULARY)
WAIVE_ID = SIZE - 1


def find(unit, place, kind, other_type=0, other_place=-1, dest=-1, via=0) -> np.ndarray:
    """Order ids int32 of rows given by columns (arrays broadcast), -1 where there is no such
    row.
    """
    key = keys(unit, place, kind, other_type, other_place, dest, via)
    at = np.searchsorted(KEYS, key)
    return np.where(KEYS[np.minimum(at, SIZE - 1)] == key, at, -1).astype(np.int32)


def _expansion() -> np.ndarray:
    """Per id (province, kind, a, b, via) of the four order arrays, int8 (32396, 5); WAIVE has
    province -1.
    """
    v = VOCABULARY
    out = np.full((SIZE, 5), -1, np.int8)
    out[:, 0] = np.where(v[:, LOC] >= 0, atlas.PROV_OF[v[:, LOC]], -1)
    out[:, 1], out[:, 4] = v[:, KIND], v[:, VIA]
    other = atlas.PROV_OF[v[:, OTHER_LOC]]
    helps = np.isin(v[:, KIND], (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE, boards.CONVOY))
    builds = np.isin(v[:, KIND], (boards.BUILD_ARMY, boards.BUILD_FLEET))
    out[:, 2] = np.where(helps, other, np.where(builds, v[:, LOC], v[:, DEST]))
    out[:, 3] = np.where(helps, v[:, DEST], -1)
    return out


EXPANSION = _expansion()
# rank of each order in the canonical order: armies before fleets, then the full English name of the
# place; waives last
CANONICAL = (VOCABULARY[:, TYPE] * 128 + atlas.NAME_RANK[VOCABULARY[:, LOC]]).astype(np.int16)
CANONICAL[WAIVE_ID] = np.iinfo(np.int16).max
for _array in (VOCABULARY, NEEDS_CONVOY, KEYS, EXPANSION, CANONICAL):
    _array.flags.writeable = False
