"""BR-1: the best reply, one phase ahead, to what SoftDumbBot would do.

    draw 24 joint orders of our own and 16 of every other power from the explicit policy `anchor`
    value of an own joint order = mean over the 16 draws of the others of u_i after the phase

with u_i the heuristic share of the sum of squares (`value.heuristic`); the own joint order with the
largest value is played, the first drawn of equals. All 24 are tried against the same 16 draws. A
power draws everything from the generator of its own turn, powers in order, so its orders do not
depend on who else is asked. One call of the adjudicator resolves the 24 x 16 phases of a turn.
"""

from typing import Sequence

import numpy as np

from dipllm_lib.dip import atlas, orders, rules
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.softbot import SoftDumbBot
from dipllm_lib.dip.value import heuristic

OWN, OTHERS = 24, 16


class BestReply:
    """The player of the module; own and others are the numbers of draws, ValueError below 1."""

    def __init__(
        self, anchor: SoftDumbBot, own: int = OWN, others: int = OTHERS, name: str = "BR-1"
    ):
        if own < 1 or others < 1:
            raise ValueError(f"need at least one draw each, got own={own} and others={others}")
        self.anchor, self.own, self.others, self.name = anchor, own, others, name

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn; each turn draws from its own generator."""
        tables = self._tables(turns)
        return [self._turn(turn, tables[id(turn.boards)], rng) for turn, rng in zip(turns, rngs)]

    def _tables(self, turns: Sequence[Turn]) -> dict[int, list[tuple]]:
        """id of a position -> (turn, what the anchor computes first) of all powers there."""
        positions = {id(turn.boards): turn.boards for turn in turns}
        found = orders.all_turns(Boards.concat(list(positions.values()))) if turns else []
        return {
            key: [(turn, self.anchor.ready(turn)) for turn in at]
            for key, at in zip(positions, found)
        }

    def _turn(self, turn: Turn, table: list[tuple], rng: np.random.Generator) -> Joint:
        candidates: list[list[Joint]] = [[] for _ in range(atlas.N_POWERS)]
        for other, ready in table:
            n = self.own if other.power == turn.power else self.others
            candidates[other.power] = self.anchor.sample(other, n, rng, ready)
        own = list(dict.fromkeys(candidates[turn.power]))
        candidates[turn.power] = own
        return own[int(np.argmax(self.values(turn, candidates)))]

    def values(self, turn: Turn, candidates: Sequence[Sequence[Joint]]) -> np.ndarray:
        """(K,) float64: mean value of each of our joint orders. candidates: of the seven powers, K
        of ours; the draws of the others belong together by their index; [] for a power without a
        decision."""
        k = len(candidates[turn.power])
        draws = max((len(x) for p, x in enumerate(candidates) if p != turn.power), default=0) or 1
        picks = np.full((k * draws, atlas.N_POWERS), -1, np.int16)
        for power, joints in enumerate(candidates):
            if joints:
                picks[:, power] = np.tile(np.arange(draws), k)
        picks[:, turn.power] = np.repeat(np.arange(k), draws)
        rows = orders.expand_picks(orders.joint_table(candidates), picks)
        after, _ = rules.resolve(turn.boards, rows)
        worth = heuristic(after)[:, turn.power].astype(np.float64)
        return worth.reshape(k, draws).mean(axis=1)
