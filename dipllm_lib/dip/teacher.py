"""The search as a player: it plays the average policy of its search, or explores.

With `explore` = eps each power independently plays, with probability eps, a uniform candidate
instead of a draw from its policy; the record of the search is unchanged (Bakhtin et al. 2022a,
code). The first turns of a game can have an eps of their own (`opening`). Turns of one position
that arrive together share one search.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dipllm_lib.dip import orders
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.search import Record, ValueFunction, search, search_many


class Teacher:
    """Policy of a search. `records` keeps the search of every position where `keep` is true.

    anchor: an explicit policy · value_fn: Boards -> (N, 7) · settings: the search_* fields ·
    opening: eps by name of the phase (S1901M) where it is not `explore` · together: search all
    positions of a call in one batch, which asks a value function that gives a position the same
    value whatever positions are beside it (`rowwise.RowwiseValue`).
    """

    def __init__(
        self,
        anchor,
        value_fn: ValueFunction,
        settings,
        explore: float = 0.0,
        keep: bool = False,
        name: str = "Teacher",
        opening: Mapping[str, float] | None = None,
        together: bool = False,
    ):
        self.opening = dict(opening or {})
        for eps in (explore, *self.opening.values()):
            if not 0 <= eps <= 1:
                raise ValueError(f"explore must be a probability, got {eps}")
        self.anchor, self.value_fn, self.settings = anchor, value_fn, settings
        self.explore, self.keep, self.name, self.together = explore, keep, name, together
        self.records: list[Record] = []

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn. A search draws from the generator of the first turn of its
        position, then every power picks with its own."""
        bounds = positions(turns)
        places = [turns[first].boards for first, _ in bounds]
        found = self._records(places, [rngs[first] for first, _ in bounds])
        if self.keep:
            self.records.extend(found)
        return [
            self._pick(record, turns[k], rngs[k])
            for record, (first, last) in zip(found, bounds, strict=True)
            for k in range(first, last)
        ]

    def _records(self, places: Sequence[Boards], rngs) -> list[Record]:
        """The searches of all positions, each with its generator."""
        given = (self.anchor, self.value_fn, self.settings)
        if self.together:
            return search_many(places, *given, rngs)
        return [
            search(orders.turns(place, 0), place, *given, rng) for place, rng in zip(places, rngs)
        ]

    def _pick(self, record: Record, turn: Turn, rng: np.random.Generator) -> Joint:
        found = record.of(turn.power)
        explores, u = rng.random(2)
        if explores < self.opening.get(turn.phase, self.explore):
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
