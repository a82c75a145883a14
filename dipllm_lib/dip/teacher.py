"""The search as a player: it plays the average policy of piKL-Hedge, or explores.

With `explore` = eps each power independently plays, with probability eps, a uniform candidate
instead of a draw from its policy; the record of the search is unchanged (Bakhtin et al. 2022a,
code). Turns of one position that arrive together share one search.
"""

from typing import Sequence

import numpy as np

from dipllm_lib.dip import orders
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.search import Record, ValueFunction, search


class Teacher:
    """Policy of a search. `records` keeps the search of every position where `keep` is true.

    anchor: an explicit policy · value_fn: Boards -> (N, 7) · settings: the search_* fields.
    """

    def __init__(
        self,
        anchor,
        value_fn: ValueFunction,
        settings,
        explore: float = 0.0,
        keep: bool = False,
        name: str = "Teacher",
    ):
        if not 0 <= explore <= 1:
            raise ValueError(f"explore must be a probability, got {explore}")
        self.anchor, self.value_fn, self.settings = anchor, value_fn, settings
        self.explore, self.keep, self.name = explore, keep, name
        self.records: list[Record] = []

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn. A search draws from the generator of the first turn of its
        position, then every power picks with its own."""
        joints: list[Joint] = []
        for first, last in positions(turns):
            record = self._search(turns[first], rngs[first])
            for turn, rng in zip(turns[first:last], rngs[first:last]):
                joints.append(self._pick(record, turn, rng))
        return joints

    def _search(self, turn: Turn, rng: np.random.Generator) -> Record:
        every = orders.turns(turn.boards, 0)
        record = search(every, turn.boards, self.anchor, self.value_fn, self.settings, rng)
        if self.keep:
            self.records.append(record)
        return record

    def _pick(self, record: Record, turn: Turn, rng: np.random.Generator) -> Joint:
        found = record.of(turn.power)
        explores, u = rng.random(2)
        if explores < self.explore:
            return found.candidates[min(int(u * len(found.candidates)), len(found.candidates) - 1)]
        pick = int(np.searchsorted(np.cumsum(found.average), u, side="right"))
        return found.candidates[min(pick, len(found.candidates) - 1)]


def positions(turns: Sequence[Turn]) -> list[tuple[int, int]]:
    """[first, last) of the runs of turns that belong to one position: same board, powers rising.

    Two games in the same position stay apart, since the powers start again.
    """
    bounds = [0]
    for k in range(1, len(turns)):
        same = turns[k].boards is turns[k - 1].boards or turns[k].boards.same(turns[k - 1].boards)
        if not same or turns[k].power <= turns[k - 1].power:
            bounds.append(k)
    return list(zip(bounds, bounds[1:] + [len(turns)]))
