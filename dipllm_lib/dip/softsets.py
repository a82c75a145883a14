"""Retreats and adjustments of SoftDumbBot: small turns, whose conditionals are computed by prefix.

The scores and the distribution over sets of builds or removals are those stated in `softbot`. A
set is written in canonical order, so the probability of the next order is its weight times that
of all ways to complete the set, over the same sum for all next orders; sums are kept as logs.
"""

import numpy as np

from dipllm_lib.dip import atlas, boards, dumbbot, places, vocabulary
from dipllm_lib.dip.hedge import log_sum_exp
from dipllm_lib.dip.orders import Joint, Turn


class SmallTurn:
    """A retreat or adjustment turn: conditionals by prefix, computed once each."""

    def __init__(self, turn: Turn, temperature: float, uniform: float):
        self.turn, self.temperature, self.uniform = turn, temperature, uniform
        self.worth = places.values(turn.boards, 0, turn.power).value
        self.known: dict[Joint, tuple[np.ndarray, np.ndarray]] = {}
        self.sums: dict[tuple, float] = {}
        if turn.adjusts:
            pool = turn.lists[0]
            self.pool = pool.tolist()
            self.province = vocabulary.EXPANSION[pool, 0].tolist()
            goals = self.worth[dumbbot.order_places(pool, vocabulary.LOC)]
            score = goals.astype(np.float64) * (1 if turn.adjusts > 0 else -1)
            self.log_weight = self._softness(score).tolist()

    def _softness(self, score: np.ndarray) -> np.ndarray:
        """Log weights of scores, the best 0."""
        best = score.max()
        return (score - best) / (self.temperature * max(abs(best), 1.0))

    def conditional(self, prefix: Joint) -> tuple[np.ndarray, np.ndarray]:
        """(legal ids, probabilities) of the slot after `prefix`."""
        if prefix not in self.known:
            ids = self.turn.options(prefix)
            share = self._sets(prefix, ids) if self.turn.adjusts else self._retreat(prefix, ids)
            p = (1.0 - self.uniform) * share / share.sum() + self.uniform / len(ids)
            self.known[prefix] = (ids, p)
        return self.known[prefix]

    def _retreat(self, prefix: Joint, ids: np.ndarray) -> np.ndarray:
        rows = vocabulary.VOCABULARY
        goes = rows[ids, vocabulary.KIND] == boards.RETREAT
        earlier = [
            rows[o, vocabulary.DEST] for o in prefix if rows[o, vocabulary.KIND] == boards.RETREAT
        ]
        free = goes & ~np.isin(atlas.PROV_OF[rows[ids, vocabulary.DEST]], atlas.PROV_OF[earlier])
        if not free.any():
            return (~goes).astype(np.float64)
        share = np.zeros(len(ids))
        score = self.worth[dumbbot.order_places(ids[free], vocabulary.DEST)].astype(np.float64)
        share[free] = np.exp(self._softness(score))
        return share

    def _sets(self, prefix: Joint, ids: np.ndarray) -> np.ndarray:
        """Weight of each next order: its own times that of all ways to complete the set."""
        built = [order for order in prefix if order != vocabulary.WAIVE_ID]
        used = frozenset(vocabulary.EXPANSION[built, 0].tolist())
        start = self.pool.index(built[-1]) + 1 if built else 0
        members = self.turn.slots - len(prefix)
        while members > 0 and self._total(start, used, members) == -np.inf:
            members -= 1
        if members == 0 or len(built) < len(prefix):
            return (ids == vocabulary.WAIVE_ID).astype(np.float64)
        logs = np.full(len(ids), -np.inf)
        for i, order in enumerate(ids.tolist()):
            if order != vocabulary.WAIVE_ID:
                logs[i] = self._with(self.pool.index(order), used, members)
        return np.exp(logs - logs.max())

    def _with(self, k: int, used: frozenset, members: int) -> float:
        """Log weight of all ways to go on with order k and `members` - 1 later ones."""
        rest = self._total(k + 1, used | {self.province[k]}, members - 1)
        return self.log_weight[k] + rest

    def _total(self, start: int, used: frozenset, members: int) -> float:
        """log Σ over sets of `members` orders from `start` on, in free provinces, of Π weights.

        -inf where there is no such set.
        """
        if members == 0:
            return 0.0
        ahead = frozenset(self.province[start:]) & used
        key = (start, ahead, members)
        if key not in self.sums:
            free = [k for k in range(start, len(self.pool)) if self.province[k] not in used]
            logs = [self._with(k, used, members) for k in free]
            self.sums[key] = log_sum_exp(np.array(logs)) if logs else -np.inf
        return self.sums[key]

    def draw(self, uniforms: np.ndarray) -> Joint:
        joint: Joint = ()
        for u in uniforms:
            ids, p = self.conditional(joint)
            pick = min(int(np.searchsorted(np.cumsum(p), u, side="right")), len(ids) - 1)
            joint += (int(ids[pick]),)
        return joint

    def log_prob(self, joint: Joint) -> float:
        total = 0.0
        for d, order in enumerate(joint):
            ids, p = self.conditional(joint[:d])
            at = int(np.searchsorted(ids, order))
            if at == len(ids) or ids[at] != order:
                self.turn.check(joint)
            total += float(np.log(p[at]))
        return total
