"""Legal orders of every unit of a batch of positions, as vocabulary ids, without strings.

The set is the package's. Hold; move to each neighbour; move by convoy to each coast that the fleets
at sea, of any power, can reach; convoy by a fleet that lies on a *minimal* path (consecutive seas
touch, no others do, only the ends touch the coasts); support of a standing unit or of a possible
move into a province the supporter reaches, where an army's convoy must not need the supporter.
Retreats into free, uncontested provinces other than the attacker's; builds and removals by the
count of centres.

Method: the vocabulary rows of one unit lie together and in groups that name the same other unit
(`groups`); bit sets of the units on the board pick the groups, and rows that need a convoy pass a
test of their destination. So lists come out sorted.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.groups import GROUPS, ONE, SPREAD, SPREAD_BITS, ZERO
from dipllm_lib.dip.kernels import kernel

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
def _bit(g, bits):
    """Number of the lowest bit of a set that is not empty."""
    return g.bit[(bits & (~bits + ONE)) * SPREAD >> SPREAD_BITS]


@kernel
def _convoys(t, g, unit, fleets, work):
    """Per province with an army on a coast: shores it could reach by convoy, and who could carry it
    there. Returns the set of such armies.
    """
    carried = ZERO
    for p in range(len(unit)):
        work.reach[p] = 0
        if unit[p] == 1 and t.shore_index[p] >= 0 and t.sea_mask[p] & fleets:
            work.reach[p] = _shores(t, _flood(t, t.sea_mask[p], fleets), p)
            _minimal_paths(t, p, fleets, work.carriers[p], work.stack)
            carried |= ONE << np.uint64(g.number[1, p])
    return carried


@kernel
def _standing(g, unit, loc, standing):
    """The sets of armies and of fleets on a board."""
    standing[:] = ZERO
    for p in range(len(unit)):
        if unit[p]:
            kind = unit[p] - 1
            standing[kind] |= ONE << np.uint64(g.number[unit[p], loc[p]] - 56 * kind)


@kernel
def _reach_without(t, army, supporter, fleets, reach):
    """Shores that the army in a province could reach by convoy if the unit in `supporter` took no
    part.
    """
    sea = t.sea_index[supporter]
    if sea < 0 or not fleets >> sea & 1:
        return reach[army]
    return _shores(t, _flood(t, t.sea_mask[army], fleets & ~(np.int64(1) << sea)), army)


@kernel
def _append(t, g, group, shores, ids, at):
    """Append the rows of a group whose move needs no convoy, or one to the set `shores`."""
    if g.far[group] & shores == 0:
        for k in range(g.near_first[group], g.near_first[group + 1]):
            ids[at] = g.near[k]
            at += 1
        return at
    for row in range(g.row[group], g.row[group + 1]):
        if not g.needs[row] or shores >> t.shore_index[g.dest[row]] & 1:
            ids[at] = row
            at += 1
    return at


@kernel
def _supports(t, g, n, p, fleets, work, ids, at):
    """Append the supports of unit number n, which stands in p."""
    for kind in range(2):
        bits = work.standing[kind] & g.holds[n, kind]
        while bits:
            other = _bit(g, bits) + kind * 56
            ids[at] = g.row[g.group[n, 0, other]]
            at += 1
            bits &= bits - ONE
    bits = work.standing[0] & (g.near_moves[n] | (g.moves[n, 0] & work.standing[2]))
    while bits:
        other = _bit(g, bits)
        group, army = g.group[n, 1, other], g.province[other]
        shores = work.reach[army]
        if shores & g.far[group]:
            shores = _reach_without(t, army, p, fleets, work.reach)
        at = _append(t, g, group, shores, ids, at)
        bits &= bits - ONE
    bits = work.standing[1] & g.moves[n, 1]
    while bits:
        at = _append(t, g, g.group[n, 1, _bit(g, bits) + 56], np.int64(0), ids, at)
        bits &= bits - ONE
    return at


@kernel
def _movement(t, g, n, p, fleets, work, ids, at):
    """Append the orders in a movement phase of unit number n, which stands in p; returns the new
    length.
    """
    ids[at] = g.start[n, 0]
    at = _append(t, g, g.own[n], work.reach[p], ids, at + 1)
    at = _supports(t, g, n, p, fleets, work, ids, at)
    bits = g.convoys[n] & work.standing[2]
    while bits:
        other = _bit(g, bits)
        group, army = g.group[n, 2, other], g.province[other]
        for row in range(g.row[group], g.row[group + 1]):
            if work.carriers[army, t.shore_index[g.dest[row]]] >> t.sea_index[p] & 1:
                ids[at] = row
                at += 1
        bits &= bits - ONE
    return at


@kernel
def _retreat(t, g, b, i, p, ids, at):
    """Append the orders of the unit dislodged from p; returns the new length."""
    n = g.number[b.d_unit[i, p], b.d_loc[i, p]]
    for row in range(g.start[n, 5], g.start[n, 6]):
        q = t.prov_of[g.dest[row]]
        if not b.unit[i, q] and not b.contested[i, q] and q != b.d_from[i, p]:
            ids[at] = row
            at += 1
    ids[at] = g.start[n, 6]
    return at + 1


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
        _standing(g, unit, loc, work.standing)
        work.standing[2] = _convoys(t, g, unit, fleets, work)
    _surplus(b.power[i], b.owner[i], work.surplus)
    for p in range(75):
        power = _entry(t, b, i, p, work.surplus)
        if power < 0:
            continue
        if moves:
            at = _movement(t, g, g.number[unit[p], loc[p]], p, fleets, work, lists.ids, at)
        elif phase < 4:
            at = _retreat(t, g, b, i, p, lists.ids, at)
        elif unit[p]:
            lists.ids[at] = g.start[g.number[unit[p], loc[p]], 6]
            at += 1
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
    standing: np.ndarray  # uint64 (3,): armies, fleets, armies that a fleet could carry


def legal_orders(positions: Boards) -> Legal:
    """The legal orders of every unit, dislodged unit or free home centre of N positions, sorted by
    id.
    """
    n, p = positions.n, atlas.N_PROVINCES
    shapes = (7, p, (p, len(atlas.SHORES)), (4, 20))
    work = _Work(*(np.zeros(shape, np.int64) for shape in shapes), np.zeros(3, np.uint64))
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
