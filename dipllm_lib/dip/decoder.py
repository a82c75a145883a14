"""The order decoder in numpy: exact probabilities and samples of joint orders, slot by slot.

For slot d of a turn, given the orders before it, candidate c has the score

    s(c) = v . relu( static(c) + query(d) + sum over earlier orders o of memory(o) + dynamic(c) )

static: projections of the states of the places that the order names, and its static relations;
query: the state of the unit's place, the power and its pooled states, in an adjustment phase the
number of slots left; memory(o) = M relu(static(o) + query(o) without the slots left); dynamic: the
relations to the earlier orders. p(c) is the softmax of s over the legal candidates, in float64. A
sample takes one number u in [0, 1) per slot: the first candidate whose cumulated probability
exceeds u. A position's arrays never share a product with another's, so its answers have the same
bits in any batch.

Shapes: C candidates and S slots of a position, M hidden units, D slots of one turn, L = 81.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, relations
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.kernels import kernel
from dipllm_lib.dip.layout import Layout
from dipllm_lib.dip.relations import FACTS, TABLES, Scores

L = atlas.N_LOCATIONS
LEFT = 12  # more slots left are not told apart
POOLS = 2  # means over a power's units and over its centres


@kernel
def pool(b, out):
    """Weights of the means over each power's units and centres into out (N, 7, 2, 81)."""
    out[:] = 0
    for n in range(len(b.phase)):
        for p in range(75):
            if b.unit[n, p]:
                out[n, b.power[n, p], 0, b.loc[n, p]] = 1
            if b.owner[n, p] >= 0:
                out[n, b.owner[n, p], 1, p] = 1
        for power in range(7):
            for k in range(2):
                total = np.float32(0)
                for place in range(81):
                    total += out[n, power, k, place]
                if total > 0:
                    for place in range(81):
                        out[n, power, k, place] /= total


def pools(positions: Boards) -> np.ndarray:
    """float32 (N, 7, 2, 81): rows that average states over a power's units, over its centres."""
    out = np.empty((positions.n, atlas.N_POWERS, POOLS, L), np.float32)
    pool(positions, out)
    return out


def slots_left(lay: Layout) -> np.ndarray:
    """int64 (S,): 0 where a slot is a unit, else slots left with this one, at most LEFT - 1."""
    ends = np.repeat(lay.first[1:], np.diff(lay.first))
    left = np.minimum(ends - np.arange(len(lay.place)), LEFT - 1)
    return np.where(lay.place < 0, left, 0).astype(np.int64)


@kernel
def _static(ids, bits, first, second, where, projected, relation, out):
    """static(c) of the candidates of one position into out (C, M); projected (81, tables, M)."""
    for c in range(len(ids)):
        row = out[c]
        row[:] = 0
        for named in (first[ids[c]], second[ids[c]]):
            if named >= 0:
                add = projected[named % 81, where[named // 81]]
                for m in range(len(row)):
                    row[m] += add[m]
        for j in range(len(relation)):
            if bits[c] >> j & 1:
                for m in range(len(row)):
                    row[m] += relation[j, m]


class Position(NamedTuple):
    """All turns of one position, ready to be sampled and scored."""

    layout: Layout
    scores: Scores
    moves: bool


"""
"""


def position(board: Boards, states: np.ndarray, lay: Layout, weights: Mapping) -> Position:
    """The turns `lay` of one position (N = 1) with location states `states` (81, H)."""
    kind = relations.kind_of_phase(int(board.phase[0]))
    tables = relations.PHASE_TABLES[kind]
    where = np.zeros(TABLES, np.int64)
    where[list(tables)] = np.arange(len(tables))
    project, relation = weights["project"], weights["relation"]
    hidden = project.shape[1]
    projected = states @ project[list(tables)].reshape(-1, project.shape[2]).T
    bits, slot = relations.still(board, lay)
    static = np.empty((len(lay.ids), hidden), np.float32)
    named = (FACTS.first, FACTS.second, where)
    _static(lay.ids, bits, *named, projected.reshape(L, len(tables), hidden), relation, static)
    base = _queries(board, states, lay, weights)
    memory = np.maximum(static + base[slot], 0) @ weights["memory"]
    query = base + weights["left.weight"][slots_left(lay)]
    scores = Scores(static, memory, query, relation, weights["score"])
    return Position(lay, scores, kind == 0)


def _queries(board: Boards, states: np.ndarray, lay: Layout, weights: Mapping) -> np.ndarray:
    """query without the slots left, float32 (S, M)."""
    means = (pools(board)[0].reshape(-1, L) @ states).reshape(atlas.N_POWERS, -1)
    whole = np.broadcast_to(
        states.mean(axis=0, dtype=np.float32), (atlas.N_POWERS, states.shape[1])
    )
    context = np.concatenate([means, whole], axis=1) @ weights["context.weight"].T
    context += weights["context.bias"] + weights["who.weight"]
    units = states @ weights["unit.weight"].T + weights["unit.bias"]
    power = np.repeat(lay.power, np.diff(lay.first))
    return context[power] + np.where(lay.place[:, None] >= 0, units[lay.place], np.float32(0))


def _work(at: Position) -> tuple:
    """Room for the kernels: prefix, candidates of a slot, vectors, log weights."""
    index, bits = relations.room(at.layout)
    hidden = len(at.scores.vector)
    work, query = np.empty((2, hidden), np.float32), np.empty(hidden, np.float32)
    return relations.prefix(), index, bits, work, query, np.empty(len(index))


def sample(at: Position, t: int, draws: np.ndarray) -> np.ndarray:
    """Joint orders int64 (n, D) of turn t from uniform numbers draws (n, D)."""
    joints = np.empty(draws.shape, np.int64)
    relations.sample_turn(FACTS, at.scores, at.layout, t, at.moves, draws, *_work(at), joints)
    return joints


def log_prob(at: Position, t: int, joints: np.ndarray) -> tuple[np.ndarray, int]:
    """(log-probabilities float64 (K,), first illegal row or -1) of joints int64 (K, D)."""
    result = np.zeros(len(joints))
    tables = (FACTS, at.scores, at.layout, t, at.moves, joints)
    bad = relations.log_prob_turn(*tables, *_work(at), result)
    return result, int(bad)


def conditional(at: Position, t: int, prefix: Sequence[int], options: np.ndarray) -> np.ndarray:
    """Probabilities float64 (K,) of the orders `options` of turn t after the orders `prefix`."""
    slots = int(at.layout.first[t + 1] - at.layout.first[t])
    rows = np.full((len(options), slots), -1, np.int64)
    rows[:, : len(prefix)], rows[:, len(prefix)] = list(prefix), options
    # a row stops at its first order that does not exist, with the sum up to there
    joint = np.exp([log_prob(at, t, row[None])[0][0] for row in rows])
    return joint / joint.sum()
