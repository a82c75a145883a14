"""Legal orders of every unit of a batch of positions, as vocabulary ids, without strings.

The set is the package's. Hold; move to each neighbour; move by convoy to each coast that the fleets
at sea, of any power, can reach; convoy by a fleet that lies on a *minimal* path (consecutive seas
touch, no others do, only the ends touch the coasts); support of a standing unit or of a possible
move into a province the supporter reaches, where an army's convoy must not need the supporter.
Retreats into free, uncontested provinces other than the attacker's; builds and removals by the
count of centres.

Method: the vocabulary rows of one unit lie together and in groups that name the same other unit;
groups whose other unit is not there are skipped, the rows of the others pass a test of their
destination. So lists come out sorted.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.kernels import kernel


class Groups(NamedTuple):
    """The vocabulary in groups of equal (unit, kind, other unit); G groups, 3 * 81 units."""

    first: np.ndarray  # int32 (244,): groups of unit type * 81 + location start here
    row: np.ndarray  # int32 (G + 1,): rows of a group
    kind: np.ndarray  # int8 (G,)
    other_type: np.ndarray  # int8 (G,)
    other_place: np.ndarray  # int8 (G,)
    dest: np.ndarray  # int8 (rows,): destination location, or -1
    far: np.ndarray  # bool (rows,): the move that the row makes or names needs a convoy
    build: np.ndarray  # int32 (3, 81): id of the build, or -1


def _groups() -> Groups:
    table = v.VOCABULARY[:-1].astype(np.int64)
    unit = table[:, v.TYPE] * 81 + table[:, v.LOC]
    head = np.stack([unit, table[:, v.KIND], table[:, v.OTHER_TYPE], table[:, v.OTHER_LOC]])
    start = np.flatnonzero(np.r_[True, (np.diff(head) != 0).any(axis=0)])
    build = np.full((3, 81), -1, np.int32)
    builds = np.isin(table[:, v.KIND], (boards.BUILD_ARMY, boards.BUILD_FLEET)).nonzero()[0]
    build[table[builds, v.TYPE], table[builds, v.LOC]] = builds
    return Groups(
        np.searchsorted(unit[start], np.arange(244)).astype(np.int32),
        np.r_[start, len(table)].astype(np.int32),
        table[start, v.KIND].astype(np.int8),
        table[start, v.OTHER_TYPE].astype(np.int8),
        table[start, v.OTHER_LOC].astype(np.int8),
        table[:, v.DEST].astype(np.int8),
        v.NEEDS_CONVOY[:-1].copy(),
        build,
    )


GROUPS = _groups()
ROOM = v.SIZE  # one board cannot have more orders: each id is for one unit


class Legal(NamedTuple):
    """Legal orders of a batch, flat. One entry of `board`, `province`, `power` per thing to order:
    a unit, a dislodged unit, or (when its power may build) a free home centre; sorted by board,
    then province. WAIVE is not listed.
    """

    board: np.ndarray  # int32 (U,)
    province: np.ndarray  # int8 (U,)
    power: np.ndarray  # int8 (U,)
    offset: (
        np.ndarray
    )  # int64 (U + 1,): ids[offset[u] : offset[u + 1]] are the orders of entry u, sorted
    ids: np.ndarray  # int32

    def of(self, entry: int) -> np.ndarray:
        return self.ids[self.offset[entry] : self.offset[entry + 1]]


@kernel
def _flood(t, start, fleets):
    """Seas of the mask `fleets` that can be reached through it from the seas of the mask
    `start`.
    """
    reached = start & fleets
    fringe = reached
    while fringe:
        wider = np.int64(0)
        for s in range(len(t.seas)):
            if fringe >> s & 1:
                wider |= t.sea_mask[t.seas[s]]
        fringe = wider & fleets & ~reached
        reached |= fringe
    return reached


@kernel
def _shores(t, seas, source):
    """Coastal provinces other than `source` beside the seas of a mask."""
    shores = np.int64(0)
    for s in range(len(t.seas)):
        if seas >> s & 1:
            shores |= t.shore_mask[t.seas[s]]
    return shores & ~(np.int64(1) << t.shore_index[source])


@kernel
def _minimal_paths(t, source, fleets, carriers, stack):
    """For every coastal province (42) the mask of seas on some minimal path of fleets from `source`
    to it, into `carriers`. `stack`, int64 (4, 20), holds per depth of the search: seas still to
    try, the path so far, seas and shores that a longer path may not touch.
    """
    todo, path, closed, done = stack[0], stack[1], stack[2], stack[3]
    carriers[:] = 0
    todo[0], path[0], closed[0] = t.sea_mask[source] & fleets, 0, t.sea_mask[source]
    done[0] = np.int64(1) << t.shore_index[source]
    depth = 0
    while depth >= 0:
        if todo[depth] == 0:
            depth -= 1
            continue
        s = 0
        while not todo[depth] >> s & 1:
            s += 1
        todo[depth] ^= np.int64(1) << s
        sea = t.seas[s]
        taken = path[depth] | np.int64(1) << s
        ends = t.shore_mask[sea] & ~done[depth]
        for q in range(len(carriers)):
            if ends >> q & 1:
                carriers[q] |= taken
        path[depth + 1], closed[depth + 1] = taken, closed[depth] | t.sea_mask[sea]
        done[depth + 1] = done[depth] | t.shore_mask[sea]
        todo[depth + 1] = t.sea_mask[sea] & fleets & ~closed[depth] & ~taken
        depth += 1


@kernel
def _convoys(t, unit, fleets, reach, carriers, stack):
    """Per province with an army on a coast: shores it could reach by convoy, and who could carry it
    there.
    """
    for p in range(len(unit)):
        reach[p] = 0
        if unit[p] == 1 and t.shore_index[p] >= 0 and t.sea_mask[p] & fleets:
            reach[p] = _shores(t, _flood(t, t.sea_mask[p], fleets), p)
            _minimal_paths(t, p, fleets, carriers[p], stack)


@kernel
def _reach_without(t, army, supporter, fleets, reach):
    """Shores that the army in a province could reach by convoy if the unit in `supporter` took no
    part.
    """
    sea = t.sea_index[supporter]
    if reach[army] == 0 or sea < 0 or not fleets >> sea & 1:
        return reach[army]
    return _shores(t, _flood(t, t.sea_mask[army], fleets & ~(np.int64(1) << sea)), army)


@kernel
def _movement(t, g, unit, loc, p, fleets, reach, carriers, ids, at):
    """Append the orders of the unit in p in a movement phase; returns the new length."""
    key = unit[p] * 81 + loc[p]
    for group in range(g.first[key], g.first[key + 1]):
        kind = g.kind[group]
        if kind > 4:
            break
        shores = reach[p]
        if kind >= 2:
            other = t.prov_of[g.other_place[group]]
            if unit[other] != g.other_type[group] or loc[other] != g.other_place[group]:
                continue
            if kind == 3 and unit[other] == 1:
                shores = _reach_without(t, other, p, fleets, reach)
            if kind == 4 and reach[other] == 0:
                continue
        for row in range(g.row[group], g.row[group + 1]):
            if g.far[row]:
                q = t.shore_index[g.dest[row]]
                if not shores >> q & 1 and kind != 4:
                    continue
                if kind == 4 and not carriers[other, q] >> t.sea_index[p] & 1:
                    continue
            ids[at] = row
            at += 1
    return at


@kernel
def _retreat(t, g, b, i, p, ids, at):
    """Append the orders of the unit dislodged from p; returns the new length."""
    key = b.d_unit[i, p] * 81 + b.d_loc[i, p]
    for group in range(g.first[key], g.first[key + 1]):
        if g.kind[group] < 5 or g.kind[group] > 6:
            continue
        for row in range(g.row[group], g.row[group + 1]):
            if g.kind[group] == 5:
                q = t.prov_of[g.dest[row]]
                if b.unit[i, q] or b.contested[i, q] or q == b.d_from[i, p]:
                    continue
            ids[at] = row
            at += 1
    return at


@kernel
def _build(t, g, p, ids, at):
    """Append the builds possible in home centre p; returns the new length."""
    if t.kind[p] != 2:
        ids[at] = g.build[1, p]
        at += 1
    if g.build[2, p] >= 0:
        ids[at] = g.build[2, p]
        at += 1
    for place in t.coasts[p]:
        if place >= 0:
            ids[at] = g.build[2, place]
            at += 1
    return at


@kernel
def _remove(g, unit, loc, p, ids, at):
    """Append the removal of the unit in p; returns the new length."""
    key = unit[p] * 81 + loc[p]
    for group in range(g.first[key], g.first[key + 1]):
        if g.kind[group] == 6:
            ids[at] = g.row[group]
            at += 1
    return at


@kernel
def _surplus(power, owner, surplus):
    """Centres minus units of each power."""
    surplus[:] = 0
    for p in range(len(power)):
        if owner[p] >= 0:
            surplus[owner[p]] += 1
        if power[p] >= 0:
            surplus[power[p]] -= 1


@kernel
def _entry(t, b, i, p, surplus):
    """Power that has something to order at province p of board i, or -1."""
    phase = b.phase[i]
    if phase == 0 or phase == 2:
        return b.power[i, p]
    if phase == 1 or phase == 3:
        return b.d_power[i, p]
    if phase == 4:
        if b.unit[i, p] and surplus[b.power[i, p]] < 0:
            return b.power[i, p]
        owner = b.owner[i, p]
        if not b.unit[i, p] and owner >= 0 and t.home[p] == owner and surplus[owner] > 0:
            return owner
    return np.int8(-1)


@kernel
def _board(t, g, b, i, work, lists, u, at):
    """Append the entries of board i to the arrays of `lists`; returns the new counts of entries and
    of ids.
    """
    unit, loc, phase = b.unit[i], b.loc[i], b.phase[i]
    moves = phase == 0 or phase == 2
    fleets = np.int64(0)
    if moves:
        for s in range(len(t.seas)):
            if unit[t.seas[s]] == 2:
                fleets |= np.int64(1) << s
        _convoys(t, unit, fleets, work.reach, work.carriers, work.stack)
    _surplus(b.power[i], b.owner[i], work.surplus)
    for p in range(75):
        power = _entry(t, b, i, p, work.surplus)
        if power < 0:
            continue
        if moves:
            at = _movement(t, g, unit, loc, p, fleets, work.reach, work.carriers, lists.ids, at)
        elif phase < 4:
            at = _retreat(t, g, b, i, p, lists.ids, at)
        elif unit[p]:
            at = _remove(g, unit, loc, p, lists.ids, at)
        else:
            at = _build(t, g, p, lists.ids, at)
        lists.board[u], lists.province[u], lists.power[u] = i, p, power
        lists.offset[u + 1] = at
        u += 1
    return u, at


@kernel
def _fill(t, g, b, first, work, lists, u, at):
    """Boards from `first` on, until all are done or `lists.ids` is nearly full; returns the next
    board and the counts of entries and of ids.
    """
    for i in range(first, len(b.phase)):
        if len(lists.ids) - at < ROOM:
            return i, u, at
        u, at = _board(t, g, b, i, work, lists, u, at)
    return len(b.phase), u, at


class _Work(NamedTuple):
    """Room for one board."""

    surplus: np.ndarray  # int64 (7,)
    reach: np.ndarray  # int64 (75,): shores that an army could reach by convoy
    carriers: np.ndarray  # int64 (75, 42): seas whose fleets could carry it there
    stack: np.ndarray  # int64 (4, 20)


def legal_orders(positions: Boards) -> Legal:
    """The legal orders of every unit, dislodged unit or free home centre of N positions, sorted by
    id.
    """
    n, p = positions.n, atlas.N_PROVINCES
    work = _Work(*(np.zeros(shape, np.int64) for shape in (7, p, (p, len(atlas.SHORES)), (4, 20))))
    ids = np.empty(ROOM + 512 * n, np.int32)
    board, province, power = (np.empty(n * p, kind) for kind in (np.int32, np.int8, np.int8))
    lists = Legal(board, province, power, np.zeros(n * p + 1, np.int64), ids)
    done, u, at = 0, 0, 0
    while True:
        done, u, at = _fill(atlas.TABLES, GROUPS, positions, done, work, lists, u, at)
        if done == n:
            break
        lists = lists._replace(ids=np.concatenate([lists.ids, np.empty_like(lists.ids)]))
    return Legal(*(field[:u] for field in lists[:3]), lists.offset[: u + 1], lists.ids[:at])
