"""What would have come of other orders in a position of a recorded game.

The orders of one power are varied, those of the others are what they gave, or draws from the policy
that they play. A branch ends where the game's end rules end it, with the share of its centres; else
it is worth what a value function says of the next position.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dipllm_lib.dip import atlas, boards, candidates, orders, rules
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.game import EndRules, Game
from dipllm_lib.dip.orders import Joint
from dipllm_lib.dip.search import ValueFunction


class Branches:
    """Position k of a game, seen by one power. others: the policy that the other six play, with
    `sample`; value_fn: Boards -> (N, 7); end: the end rules of the game.
    """

    def __init__(
        self, game: Game, k: int, power: int, others, value_fn: ValueFunction, end: EndRules
    ):
        self.game, self.k, self.power = game, k, power
        self.others, self.value_fn, self.end = others, value_fn, end
        self.before = game.boards.take([k])
        self.name = boards.phase_name(self.before)
        self.turns = [turn for turn in orders.turns(game.boards, k) if turn.power != power]

    def draws(self, n: int, rng: np.random.Generator) -> dict[int, list[Joint]]:
        """n joint orders of every other power from the policy that it plays."""
        policy, rngs = self.others, rng.spawn(len(self.turns))
        if isinstance(policy, candidates.Batched):
            drawn = policy.samples(self.turns, n, rngs)
        else:
            drawn = [policy.sample(turn, n, r) for turn, r in zip(self.turns, rngs)]
        return {turn.power: joints for turn, joints in zip(self.turns, drawn, strict=True)}

    def given(self) -> dict[int, list[Joint]]:
        """What every other power did order."""
        return {turn.power: [self.game.joint(self.k, turn.power)] for turn in self.turns}

    def worth(self, own: Sequence[Joint], drawn: Mapping[int, Sequence[Joint]]) -> np.ndarray:
        """(R, M) values of the power after each own joint order and draw; R = 1 without any."""
        lists: list[Sequence[Joint]] = [[] for _ in atlas.POWERS]
        rows, count = max(len(own), 1), max(map(len, drawn.values()), default=1)
        picks = np.full((rows, count, atlas.N_POWERS), -1, np.int32)
        for power, joints in drawn.items():
            lists[power], picks[..., power] = joints, np.arange(count)
        if own:
            lists[self.power], picks[..., self.power] = own, np.arange(rows)[:, None]
        given = orders.expand_picks(orders.joint_table(lists), picks.reshape(-1, atlas.N_POWERS))
        after = self._ended(rules.resolve(self.before, given)[0])
        found = self.value_fn(after)[:, self.power]
        return np.asarray(found, np.float64).reshape(rows, count)

    def _ended(self, after: Boards) -> Boards:
        """`after` with the games marked as over that the end rules end."""
        b, year = self.game.boards, int(self.before.year[0])
        if self.before.phase[0] not in (boards.FALL_MOVES, boards.FALL_RETREATS):
            return after
        springs = np.flatnonzero(b.phase[: self.k + 1] == boards.SPRING_MOVES)
        owners, phase = [b.owner[s] for s in springs], after.phase.copy()
        for n in np.flatnonzero(phase != boards.FALL_RETREATS).tolist():
            if self.end.after_count([*owners, after.owner[n]], year):
                phase[n] = boards.OVER
        return after._replace(phase=phase)
