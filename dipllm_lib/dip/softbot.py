"""SoftDumbBot: an explicit policy tau from DumbBot's place values, one order at a time.

For slot d, given the orders of the slots before it, the legal orders have scores and

    p(order) = (1 - eps) softmax( (score - best) / (T max(|best|, 1)) ) + eps / |legal orders|

where an order without a score has no share of the softmax. With V the place values (`places`):

- movement: move by land V(destination), hold V(own) + 1, support of an earlier own unit
  V(reached place) where DumbBot would give it: of a mover if competition > 0, of another own unit
  if competition > 1. A move has no score into a province that an earlier own unit keeps or moves
  to, nor against an earlier own mover (a swap); all other orders have none.
- retreats: V(destination), unless an earlier own unit retreats to that province; disband only
  where nothing else has a score.
- builds, removals: a set has weight Π exp((score - best) / (T max(|best|, 1))) over its members,
  score = V for a build, -V for a removal, and the softmax over the next order is the conditional
  of that distribution over full sets, since sets are written in canonical order. A waive has no
  score while a build is possible.

So log tau is exact and finite for every legal joint order if eps > 0. Movement
is compiled here, retreats and adjustments are in `softsets`.
"""

import itertools
from typing import NamedTuple, Sequence

import numpy as np
from numba import njit

from dipllm_lib.dip import atlas, boards, dumbbot, places, vocabulary
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.softsets import SmallTurn

HOLDS, MOVES, HELPS_UNIT, HELPS_MOVE = range(4)
V_KIND, V_OTHER, V_DEST, V_VIA = (
    vocabulary.KIND,
    vocabulary.OTHER_LOC,
    vocabulary.DEST,
    vocabulary.VIA,
)


class Scored(NamedTuple):
    """A movement turn: per slot the legal orders and those with a score.

    ids, first (D + 1,): orders of slot d are ids[first[d] : first[d + 1]] · start (D + 1,): entries
    of slot d · position: index of an entry's order within its slot · kind: HOLDS ... · slot: own
    slot helped · dest: location moved or supported to · score · prov (D,): provinces.
    """

    ids: np.ndarray
    first: np.ndarray
    start: np.ndarray
    position: np.ndarray
    kind: np.ndarray
    slot: np.ndarray
    dest: np.ndarray
    score: np.ndarray
    prov: np.ndarray


@njit(cache=True)
def _reached(t, worth, own, province):
    """Largest value of the places of `province` beside the place `own`."""
    best = np.int64(-1)
    for c in t.near[own]:
        if c >= 0 and t.prov[c] == province:
            best = max(best, worth[c])
    return best


@njit(cache=True)
def _entry(t, vocabulary, prov_of, worth, competition, own, at, d, order):
    """(kind, own slot, destination, score) of an order of slot d; kind -1 where it has no score."""
    row = vocabulary[order]
    kind = row[V_KIND]
    if kind == boards.HOLD:
        return HOLDS, -1, -1, worth[own[d]] + 1
    if kind == boards.MOVE and row[V_VIA] == 0:
        shift = places.FLEET_PLACES if own[d] >= places.FLEET_PLACES else 0
        return MOVES, -1, np.int64(row[V_DEST]), worth[row[V_DEST] + shift]
    if kind == boards.SUPPORT_HOLD or kind == boards.SUPPORT_MOVE:
        other = prov_of[row[V_OTHER]]
        j = at[other]
        if 0 <= j < d and kind == boards.SUPPORT_HOLD and competition[other] > 1:
            return HELPS_UNIT, j, -1, _reached(t, worth, own[d], other)
        if 0 <= j < d and kind == boards.SUPPORT_MOVE:
            goal = prov_of[row[V_DEST]]
            if competition[goal] > 0:
                return HELPS_MOVE, j, np.int64(row[V_DEST]), _reached(t, worth, own[d], goal)
    return -1, -1, -1, np.int64(0)


@njit(cache=True)
def _score(t, vocabulary, prov_of, worth, competition, ids, first, own):
    """The entries of all slots, in the order of the ids."""
    d = own.shape[0]
    start = np.zeros(d + 1, np.int64)
    position, kind = np.empty(len(ids), np.int64), np.empty(len(ids), np.int8)
    slot, dest = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    score = np.empty(len(ids), np.float64)
    at = np.full(75, -1, np.int64)
    for u in range(d):
        at[t.prov[own[u]]] = u
    n = 0
    for u in range(d):
        for i in range(first[u], first[u + 1]):
            k, j, goal, value = _entry(
                t, vocabulary, prov_of, worth, competition, own, at, u, ids[i]
            )
            if k >= 0:
                position[n], kind[n], slot[n], dest[n] = i - first[u], k, j, goal
                score[n] = value
                n += 1
        start[u + 1] = n
    return start, position[:n], kind[:n], slot[:n], dest[:n], score[:n]


def scored(turn: Turn) -> Scored:
    """The scored orders of a movement turn."""
    found = places.values(turn.boards, 0, turn.power)
    own = dumbbot.slot_places(turn)
    ids = np.concatenate(turn.lists).astype(np.int64)
    first = np.array(list(itertools.accumulate(map(len, turn.lists), initial=0)))
    entries = _score(
        places.TABLES,
        vocabulary.VOCABULARY,
        atlas.PROV_OF,
        found.value,
        found.competition,
        ids,
        first,
        own,
    )
    return Scored(ids, first, *entries, places.TABLES.prov[own])


@njit(cache=True)
def _allowed(s, prov_of, e, d, target):
    """Whether entry e of slot d has a score, given the locations moved to (-1: none) before d."""
    kind = s.kind[e]
    if kind == HELPS_UNIT:
        return target[s.slot[e]] < 0
    if kind == HELPS_MOVE:
        return target[s.slot[e]] == s.dest[e]
    if kind == MOVES:
        p = prov_of[s.dest[e]]
        for j in range(d):
            if target[j] >= 0 and prov_of[target[j]] == p:
                return False
            if s.prov[j] == p and (target[j] < 0 or prov_of[target[j]] == s.prov[d]):
                return False
    return True


@njit(cache=True)
def _weights(s, prov_of, d, target, temperature, weight):
    """Softmax weights of the entries of slot d into `weight`; returns their sum."""
    best = -np.inf
    for e in range(s.start[d], s.start[d + 1]):
        free = _allowed(s, prov_of, e, d, target)
        weight[e - s.start[d]] = s.score[e] if free else -np.inf
        if free and s.score[e] > best:
            best = s.score[e]
    scale = temperature * max(abs(best), 1.0)
    total = 0.0
    for k in range(s.start[d + 1] - s.start[d]):
        weight[k] = np.exp((weight[k] - best) / scale)
        total += weight[k]
    return total


@njit(cache=True)
def _target(vocabulary, order):
    """Location that an order moves to, or -1."""
    return np.int64(vocabulary[order, V_DEST]) if vocabulary[order, V_KIND] == boards.MOVE else -1


@njit(cache=True)
def _sample(s, vocabulary, prov_of, temperature, uniform, draws, joints):
    """joints (n, D) from uniform numbers draws (n, D)."""
    n, depth = joints.shape
    target = np.empty(depth, np.int64)
    weight = np.empty(len(s.score) + 1)
    for i in range(n):
        for d in range(depth):
            options = s.first[d + 1] - s.first[d]
            u = draws[i, d]
            if u < uniform:
                pick = min(int(u / uniform * options), options - 1)
            else:
                total = _weights(s, prov_of, d, target, temperature, weight)
                left = (u - uniform) / (1.0 - uniform) * total
                pick = -1
                for e in range(s.start[d], s.start[d + 1]):
                    w = weight[e - s.start[d]]
                    if w > 0.0:
                        pick = s.position[e]
                        left -= w
                        if left < 0.0:
                            break
            joints[i, d] = s.ids[s.first[d] + pick]
            target[d] = _target(vocabulary, joints[i, d])


@njit(cache=True)
def _log_prob(s, vocabulary, prov_of, temperature, uniform, joints, result):
    """log tau of each row of joints (K, D); returns the first illegal (row, slot) or -1s."""
    depth = joints.shape[1]
    target = np.empty(depth, np.int64)
    weight = np.empty(len(s.score) + 1)
    for i in range(joints.shape[0]):
        result[i] = 0.0
        for d in range(depth):
            options = s.ids[s.first[d] : s.first[d + 1]]
            pick = np.searchsorted(options, joints[i, d])
            if pick == len(options) or options[pick] != joints[i, d]:
                return i, d
            total = _weights(s, prov_of, d, target, temperature, weight)
            p = uniform / len(options)
            for e in range(s.start[d], s.start[d + 1]):
                if s.position[e] == pick:
                    p += (1.0 - uniform) * weight[e - s.start[d]] / total
            result[i] += np.log(p)
            target[d] = _target(vocabulary, joints[i, d])
    return -1, -1


class SoftDumbBot:
    """The explicit policy of the module; temperature in shares of the best score, uniform = eps."""

    def __init__(self, temperature: float, uniform: float, name: str = "SoftDumbBot"):
        if not temperature > 0 or not 0 <= uniform < 1:
            raise ValueError(
                f"need temperature > 0 and 0 <= uniform < 1, got {temperature} and {uniform}"
            )
        self.temperature, self.uniform, self.name = float(temperature), float(uniform), name

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn; each turn draws from its own generator."""
        return [self.sample(turn, 1, rng)[0] for turn, rng in zip(turns, rngs)]

    def ready(self, turn: Turn) -> Scored | SmallTurn:
        """What `sample` computes first, for several calls on one turn."""
        if int(turn.boards.phase[0]) in boards.MOVES:
            return scored(turn)
        return SmallTurn(turn, self.temperature, self.uniform)

    def sample(
        self,
        turn: Turn,
        n: int,
        rng: np.random.Generator,
        ready: Scored | SmallTurn | None = None,
    ) -> list[Joint]:
        """n independent joint orders, n D uniform numbers drawn from rng."""
        draws = rng.random((n, turn.slots))
        ready = self.ready(turn) if ready is None else ready
        if isinstance(ready, SmallTurn):
            return [ready.draw(row) for row in draws]
        joints = np.empty((n, turn.slots), np.int64)
        tables = (vocabulary.VOCABULARY, atlas.PROV_OF)
        _sample(ready, *tables, self.temperature, self.uniform, draws, joints)
        return [tuple(row) for row in joints.tolist()]

    def log_prob(self, turn: Turn, joints: Sequence[Joint]) -> np.ndarray:
        """(K,) exact log tau, float64. ValueError for a joint order that is not legal."""
        for joint in joints:
            if len(joint) != turn.slots:
                turn.check(joint)
        if int(turn.boards.phase[0]) not in boards.MOVES:
            small = SmallTurn(turn, self.temperature, self.uniform)
            return np.array([small.log_prob(tuple(joint)) for joint in joints], dtype=np.float64)
        table = np.array(joints, dtype=np.int64).reshape(len(joints), turn.slots)
        result = np.zeros(len(joints))
        tables = (vocabulary.VOCABULARY, atlas.PROV_OF)
        bad, _ = _log_prob(scored(turn), *tables, self.temperature, self.uniform, table, result)
        if bad >= 0:
            turn.check(tuple(joints[bad]))
        return result

    def conditional(self, turn: Turn, prefix: Joint = ()) -> np.ndarray:
        """Probabilities (K,) of `turn.options(prefix)`, the orders of the slot after `prefix`."""
        if int(turn.boards.phase[0]) not in boards.MOVES:
            return SmallTurn(turn, self.temperature, self.uniform).conditional(tuple(prefix))[1]
        options, ready, result = turn.options(prefix), scored(turn), np.zeros(1)
        joint = np.empty(len(options))
        for k, order in enumerate(options.tolist()):
            # the row stops at its first order that does not exist, with the sum up to there
            row = np.full((1, turn.slots), -1, np.int64)
            row[0, : len(prefix) + 1] = (*prefix, order)
            tables = (vocabulary.VOCABULARY, atlas.PROV_OF, self.temperature, self.uniform)
            _log_prob(ready, *tables, row, result)
            joint[k] = np.exp(result[0])
        return joint / joint.sum()
