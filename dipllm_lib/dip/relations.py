"""What a candidate order is to its position and to the orders chosen before it, as bits.

An order has a role (its kind; a disband is REMOVE in an adjustment phase), at most two places that
it names, each under a table of projections of location states, and relations: bits that tell what
its destination and the unit it helps are to the deciding power, given what the power has already
ordered this turn. Bits 0-11 are the role. Static bits depend on the position alone. The torch net
reads them through `steps`; the numpy decoder calls the same kernels.

Shapes: S slots, K teacher-forced candidates.
"""

from typing import NamedTuple

import numba
import numpy as np

from dipllm_lib.dip import atlas, boards
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.kernels import kernel
from dipllm_lib.dip.layout import Layout

fast = numba.njit(cache=True, _nrt=False, fastmath={"reassoc", "contract", "nsz"})  # sums in lanes

ROLES = 12
HOLD, MOVE, MOVE_VIA, SUPPORT_HOLD, SUPPORT_MOVE, CONVOY = range(6)
RETREAT, DISBAND, REMOVE, BUILD_ARMY, BUILD_FLEET, WAIVE = range(6, 12)
STAY, GO, HELPED, MOVER, INTO, GONE, ARMY, FLEET = range(8)  # tables of projections
TABLES = 8
PHASE_TABLES = ((STAY, GO, HELPED, MOVER, INTO), (GO, GONE), (GONE, ARMY, FLEET))
BITS = 32
(
    NEUTRAL_CENTRE, OWN_CENTRE, FOREIGN_CENTRE, FOREIGN_UNIT, LEAVES_OTHERS_CENTRE, OTHER_FOREIGN,
    OWN_OPEN, OWN_STAYS, OWN_LEAVES, AIMED, BACKED, LETS_DOWN, SWAP, OTHER_OPEN, OTHER_FITS,
    OTHER_DIFFERS, CARRIED, WATCHED, WATCHED_LEAVES, ON_OWN_CENTRE,
) = range(ROLES, BITS)  # fmt: skip
ONE = np.int64(1)
DYNAMIC = range(OWN_OPEN, ON_OWN_CENTRE)  # bits that depend on the prefix
OPEN = -2  # the target of a slot without an order; -1: it stays


def kind_of_phase(phase: int) -> int:
    """0 movement, 1 retreats, 2 adjustments: the index into PHASE_TABLES."""
    return 2 if phase == boards.ADJUSTMENTS else int(phase in boards.RETREATS)


class Facts(NamedTuple):
    """What the kernels read about an order id (rows) and a province."""

    role: np.ndarray  # int16, DISBAND also for removals
    first: np.ndarray  # int16: table * 81 + location of the place it names, or -1
    second: np.ndarray  # int16: the same for the mover of a support or convoy, or -1
    goal: np.ndarray  # int16: province it goes or sends to (of a disband its own), or -1
    helped: np.ndarray  # int16: province of the unit that it helps, or -1
    province: np.ndarray  # int16: province that it is for, -1 for WAIVE
    centre: np.ndarray  # bool (75,)
    prov_of: np.ndarray  # int8 (81,)


def _facts() -> Facts:
    rows = v.VOCABULARY.astype(np.int64)
    kind, place, other, dest = (rows[:, c] for c in (v.KIND, v.LOC, v.OTHER_LOC, v.DEST))
    role_of = [HOLD, MOVE, SUPPORT_HOLD, SUPPORT_MOVE, CONVOY, RETREAT, DISBAND]
    role = np.array([*role_of, BUILD_ARMY, BUILD_FLEET, REMOVE, WAIVE])[kind]
    role[(kind == boards.MOVE) & (rows[:, v.VIA] == 1)] = MOVE_VIA
    table = np.array([STAY, GO, GO, HELPED, INTO, INTO, GO, GONE, GONE, ARMY, FLEET, 0])[role]
    own = np.isin(role, (HOLD, DISBAND, BUILD_ARMY, BUILD_FLEET))
    named = np.where(own, place, np.where(role == SUPPORT_HOLD, other, dest))
    first = np.where(role == WAIVE, -1, table * atlas.N_LOCATIONS + named)
    sends = np.isin(role, (SUPPORT_MOVE, CONVOY))
    second = np.where(sends, MOVER * atlas.N_LOCATIONS + other, -1)
    goal = np.where(dest >= 0, atlas.PROV_OF[dest], -1)
    goal = np.where(role == DISBAND, atlas.PROV_OF[place], goal)
    helped = np.where(other >= 0, atlas.PROV_OF[other], -1)
    columns = (role, first, second, goal, helped, v.EXPANSION[:, 0])
    return Facts(*(column.astype(np.int16) for column in columns), atlas.CENTRE, atlas.PROV_OF)


FACTS = _facts()


@kernel
def static_bits(f, b, n, power, adjusts, place, order):
    """The relations of an order that depend on position n alone, as a bit mask."""
    role = f.role[order]
    bits = ONE << (REMOVE if adjusts != 0 and role == DISBAND else role)
    goal, other = f.goal[order], f.helped[order]
    if goal >= 0:
        if f.centre[goal]:
            owner = b.owner[n, goal]
            if owner < 0:
                bits |= ONE << NEUTRAL_CENTRE
            else:
                bits |= ONE << (OWN_CENTRE if owner == power else FOREIGN_CENTRE)
        if b.unit[n, goal] and b.power[n, goal] != power:
            bits |= ONE << FOREIGN_UNIT
    if other >= 0 and b.power[n, other] != power:
        bits |= ONE << OTHER_FOREIGN
    if place >= 0 and f.centre[f.prov_of[place]]:
        own = b.owner[n, f.prov_of[place]] == power
        bits |= ONE << (ON_OWN_CENTRE if own else LEAVES_OTHERS_CENTRE)
    return bits


class Prefix(NamedTuple):
    """What a power has chosen so far this turn; int8, by province or by slot."""

    slot: np.ndarray  # by province: slot of the own unit there, -1 where none must be ordered
    target: np.ndarray  # by slot: OPEN, -1 stays, else the province moved to
    via: np.ndarray  # by slot: whether it moves by convoy
    aimed: np.ndarray  # by province: own movers to it
    backed: np.ndarray  # by slot: province into which a support lets it move, or -1
    carried: np.ndarray  # by slot: province to which a convoy takes it, or -1
    watched: np.ndarray  # by slot: 1 if it is supported to hold
    used: np.ndarray  # by province: 1 if a build or removal is chosen there


def prefix() -> Prefix:
    """Room for one turn."""
    return Prefix(*(np.empty(atlas.N_PROVINCES, np.int8) for _ in Prefix._fields))


@kernel
def begin(f, s, place, first, last):
    """Reset `s` for a turn of slots [first, last)."""
    s.slot[:], s.aimed[:], s.watched[:], s.used[:], s.via[:] = -1, 0, 0, 0, 0
    s.target[:], s.backed[:], s.carried[:] = OPEN, -1, -1
    for x in range(first, last):
        if place[x] >= 0:
            s.slot[f.prov_of[place[x]]] = x - first


@kernel
def choose(f, s, d, adjusts, order):
    """Enter the order of slot d."""
    role, goal = f.role[order], f.goal[order]
    if adjusts != 0:
        if role != WAIVE:
            s.used[f.province[order]] = 1
        return
    if role == MOVE or role == MOVE_VIA or role == RETREAT:
        s.target[d], s.via[d] = goal, role == MOVE_VIA
        s.aimed[goal] += 1
        return
    s.target[d] = -1
    j = s.slot[f.helped[order]] if f.helped[order] >= 0 else -1
    if j >= 0 and role == SUPPORT_HOLD:
        s.watched[j] = 1
    elif j >= 0 and role == SUPPORT_MOVE:
        s.backed[j] = goal
    elif j >= 0:
        s.carried[j] = goal


@kernel
def dynamic_bits(f, s, d, own, moves, order):
    """The relations of an order of slot d (of the unit in province `own`) to those before it."""
    role, goal, other = f.role[order], f.goal[order], f.helped[order]
    bits, goes = np.int64(0), role == MOVE or role == MOVE_VIA
    j = s.slot[other] if other >= 0 else -1
    if j >= 0:
        if s.target[j] == OPEN:
            bits |= ONE << OTHER_OPEN
        else:
            fits = s.target[j] == goal and (role != CONVOY or s.via[j] == 1)
            bits |= ONE << (OTHER_FITS if fits else OTHER_DIFFERS)
    if goal >= 0 and role <= RETREAT:
        if s.aimed[goal] > (j >= 0 and s.target[j] == goal):
            bits |= ONE << AIMED
        k = s.slot[goal]
        if moves and k >= 0 and k != d:
            if s.target[k] == OPEN:
                bits |= ONE << OWN_OPEN
            elif s.target[k] == -1:
                bits |= ONE << OWN_STAYS
            else:
                bits |= ONE << OWN_LEAVES
                if goes and s.target[k] == own:
                    bits |= ONE << SWAP
    if moves:
        if s.backed[d] >= 0:
            bits |= ONE << (BACKED if goes and s.backed[d] == goal else LETS_DOWN)
        if s.carried[d] >= 0:
            bits |= ONE << (CARRIED if role == MOVE_VIA and s.carried[d] == goal else LETS_DOWN)
        if s.watched[d]:
            bits |= ONE << (WATCHED_LEAVES if goes else WATCHED)
    return bits


@kernel
def is_open(f, s, ids, k, high, adjusts, later, last):
    """Whether candidate k of an adjustment pool that ends at `high` may be next: `last` is the
    index chosen before (-1: none), `later` the number of slots after this one.
    """
    if adjusts < 0:
        return k > last and k < high - later
    if last >= 0 and f.role[ids[last]] == WAIVE:
        return k == last
    return f.role[ids[k]] == WAIVE or (k > last and not s.used[f.province[ids[k]]])


@kernel
def _candidates(f, s, lay, t, x, last, moves, index, bits):
    """The candidates of slot x of turn t that are open, and their relations to the prefix; `last`
    is the candidate chosen before it, or -1. Returns their number.
    """
    size, adjusts, first = 0, lay.adjusts[t], lay.first[t]
    own = f.prov_of[lay.place[x]] if lay.place[x] >= 0 else -1
    later = lay.first[t + 1] - x - 1
    for c in range(lay.low[x], lay.high[x]):
        if adjusts == 0:
            bits[size] = dynamic_bits(f, s, x - first, own, moves, lay.ids[c])
        elif is_open(f, s, lay.ids, c, lay.high[x], adjusts, later, last):
            bits[size] = 0
        else:
            continue
        index[size] = c
        size += 1
    return size


class Steps(NamedTuple):
    """Teacher-forced steps: the candidates of every slot given the orders before it, flat."""

    first: np.ndarray  # int64 (S + 1,)
    order: np.ndarray  # int32 (K,): order ids
    bits: np.ndarray  # int64 (K,): all relations
    label: np.ndarray  # int64 (S,): index among the candidates of a slot


@kernel
def _turn_steps(f, b, lay, t, joint, s, index, bits, k, out):
    """The steps of turn t from row k on; returns the next row, or -1 - slot if one is illegal."""
    n, power, adjusts = lay.board[t], lay.power[t], lay.adjusts[t]
    begin(f, s, lay.place, lay.first[t], lay.first[t + 1])
    last = -1
    for x in range(lay.first[t], lay.first[t + 1]):
        size = _candidates(f, s, lay, t, x, last, b.phase[n] % 2 == 0, index, bits)
        out.label[x], last = -1, -1
        for i in range(size):
            order = lay.ids[index[i]]
            still = static_bits(f, b, n, power, adjusts, lay.place[x], order)
            out.order[k], out.bits[k] = order, still | bits[i]
            k += 1
            if order == joint[x]:
                out.label[x], last = i, index[i]
        if last < 0:
            return -1 - x
        choose(f, s, x - lay.first[t], adjusts, joint[x])
        out.first[x + 1] = k
    return k


@kernel
def _steps(f, b, lay, joint, s, index, bits, out):
    k = 0
    for t in range(len(lay.board)):
        k = _turn_steps(f, b, lay, t, joint, s, index, bits, k, out)
        if k < 0:
            return k
    return k


def steps(positions: Boards, lay: Layout, joint: np.ndarray) -> Steps:
    """The steps of the joint orders `joint` (S,). ValueError for an order that is not legal."""
    most, slots = int((lay.high - lay.low).sum()), len(lay.place)
    order, bits = np.empty(most, np.int32), np.empty(most, np.int64)
    out = Steps(np.zeros(slots + 1, np.int64), order, bits, np.empty(slots, np.int64))
    size = _steps(FACTS, positions, lay, joint, prefix(), *room(lay), out)
    if size < 0:
        raise ValueError(f"order {int(joint[-1 - size])} in slot {-1 - size} is not legal there")
    return out._replace(order=order[:size], bits=bits[:size])


def room(lay: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Room for the candidates of one slot: index and bits."""
    most = int((lay.high - lay.low).max(initial=1))
    return np.empty(most, np.int64), np.empty(most, np.int64)


@kernel
def _still(f, b, lay, bits, slot):
    for t in range(len(lay.board)):
        for x in range(lay.first[t], lay.first[t + 1]):
            for c in range(lay.low[x], lay.high[x]):
                facts = (lay.board[t], lay.power[t], lay.adjusts[t], lay.place[x], lay.ids[c])
                bits[c], slot[c] = static_bits(f, b, *facts), x


def still(positions: Boards, lay: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Per candidate its static relations, int64 (C,), and its slot (the last of a pool)."""
    bits, slot = np.zeros(len(lay.ids), np.int64), np.zeros(len(lay.ids), np.int64)
    _still(FACTS, positions, lay, bits, slot)
    return bits, slot


class Scores(NamedTuple):
    """What the decoder knows of a position's turns; see `decoder` for the formula."""

    static: np.ndarray  # float32 (C, M)
    memory: np.ndarray  # float32 (C, M)
    query: np.ndarray  # float32 (S, M)
    relation: np.ndarray  # float32 (BITS, M)
    vector: np.ndarray  # float32 (M,)


@fast
def _sum_positive(row, query, vector):
    """vector . relu(row + query)"""
    total = np.float32(0)
    for m in range(len(vector)):
        total += max(row[m] + query[m], np.float32(0)) * vector[m]
    return total


@kernel
def _scores(net, query, size, index, bits, work, log_weight):
    """Scores of the open candidates minus the best one into `log_weight`, float64; returns the sum
    of their exponentials.
    """
    best, total = -np.inf, 0.0
    for i in range(size):
        for m in range(len(work)):
            work[m] = query[m]
        if bits[i]:
            for j in range(OWN_OPEN, ON_OWN_CENTRE):
                if bits[i] >> j & 1:
                    for m in range(len(work)):
                        work[m] += net.relation[j, m]
        log_weight[i] = _sum_positive(net.static[index[i]], work, net.vector)
        best = max(best, log_weight[i])
    for i in range(size):
        log_weight[i] -= best
        total += np.exp(log_weight[i])
    return total


@kernel
def sample_turn(f, net, lay, t, moves, draws, s, index, bits, work, query, log_weight, joints):
    """Joint orders (n, D) of turn t from the numbers draws (n, D)."""
    first, end = lay.first[t], lay.first[t + 1]
    for n in range(len(draws)):
        begin(f, s, lay.place, first, end)
        memory, last = work[0], -1
        memory[:] = 0
        for x in range(first, end):
            size = _candidates(f, s, lay, t, x, last, moves, index, bits)
            for m in range(len(query)):
                query[m] = net.query[x, m] + memory[m]
            total = _scores(net, query, size, index, bits, work[1], log_weight)
            left, i = draws[n, x - first] * total - np.exp(log_weight[0]), 0
            while i < size - 1 and left >= 0:
                i += 1
                left -= np.exp(log_weight[i])
            last = index[i]
            joints[n, x - first] = lay.ids[last]
            choose(f, s, x - first, lay.adjusts[t], lay.ids[last])
            for m in range(len(query)):
                memory[m] += net.memory[last, m]


@kernel
def log_prob_turn(f, net, lay, t, moves, joints, s, index, bits, work, query, log_weight, result):
    """log p of the rows of joints (K, D) of turn t; returns the first illegal row, or -1."""
    first, end = lay.first[t], lay.first[t + 1]
    for n in range(len(joints)):
        begin(f, s, lay.place, first, end)
        memory, last, result[n] = work[0], -1, 0.0
        memory[:] = 0
        for x in range(first, end):
            size = _candidates(f, s, lay, t, x, last, moves, index, bits)
            for m in range(len(query)):
                query[m] = net.query[x, m] + memory[m]
            total = _scores(net, query, size, index, bits, work[1], log_weight)
            last = -1
            for i in range(size):
                if lay.ids[index[i]] == joints[n, x - first]:
                    last = index[i]
                    result[n] += log_weight[i] - np.log(total)
            if last < 0:
                return n
            choose(f, s, x - first, lay.adjusts[t], lay.ids[last])
            for m in range(len(query)):
                memory[m] += net.memory[last, m]
    return -1
