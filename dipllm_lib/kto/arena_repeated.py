"""The repeated prisoner's dilemma in the tabular league; see `arenas`.

Each round is followed by another with probability delta and players see the last round only, so a
player is a memory-one vector and everything is exact over five outcomes. With q~ the partner's P(C)
in the own view, payoffs scaled by 1 - delta to one round,

    Q(o, a) = sum_b q~(b|o) ((1 - delta) u(a, b) + delta W(ab)),     W(o) = sum_a pi(a|o) Q(o, a)
    d(o)    = (1 - delta) sum_t delta^t P(outcome before round t is o)
    label   V = v((Q(o, a) - W(o)) / (T - S)), the verifier with the reference `expected`

Decisions are drawn from d and pi against the partners in their shares: the type of a partner is
unknown to the table, and known to the verifier.

Shapes: K partners, outcomes s0 CC CD DC DD, actions cooperate, defect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.ipd.game import SWAP
from dipllm_lib.kto import arenas, prospect, repeated
from dipllm_lib.kto.arenas import Player
from dipllm_lib.kto.prospect import ProspectParams
from dipllm_lib.kto.repeated import IteratedPD
from dipllm_lib.kto.tabular import Data, drawn


@dataclass(frozen=True)
class RepeatedArena:
    """delta: chance of another round, in [0, 1) · params: of v."""

    delta: float = 0.9
    params: ProspectParams = prospect.ARTICLE
    name: str = field(default="repeated", init=False)

    @property
    def game(self) -> IteratedPD:
        """The game with texts: no round number, one round in view."""
        return IteratedPD(delta=self.delta, window=1, counted=False)

    @property
    def scale(self) -> float:
        """T - S."""
        return self.game.scale

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Actions by outcome."""
        return ((5, 2),)

    @property
    def widths(self) -> tuple[float, ...]:
        """Rows are as frequent as they occur."""
        return (1.0,)

    def payoffs(self, one: Player, two: Player) -> np.ndarray:
        """See `Arena`; the seats are alike."""
        value = repeated.pair_values(self.game, one[0][:, 0], two[0][:, 0])[0]
        return np.repeat(value, 2)

    def best(self, other: Player) -> np.ndarray:
        """See `Arena`."""
        return np.repeat(repeated.best_value(self.game, other[0][:, 0]), 2)

    def values(self, player: Player, partners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Q (K, 5, 2) and W (K, 5) of a policy. partners: (K, 5) in their own view."""
        seen, own = exact.as_seen(partners), player[0][:, 0]
        rows = exact.joint(own, seen)  # (K, 5, 4)
        pays = self.game.pays
        gain = (1 - self.delta) * (rows @ pays.by_state)
        inner = np.linalg.solve(np.eye(4) - self.delta * rows[:, 1:], gain[:, 1:, None])[:, :, 0]
        worth = (1 - self.delta) * pays.by_state + self.delta * inner  # (K, 4) of this round's ab
        chance = np.stack([seen, 1 - seen], axis=2)
        quality = np.einsum("kob,kab->koa", chance, worth.reshape(-1, 2, 2))
        return quality, quality @ np.array([1.0, 0.0]) * own + quality[:, :, 1] * (1 - own)

    def visits(self, player: Player, partners: np.ndarray) -> np.ndarray:
        """(K, 5) share of each outcome before a round, sum 1."""
        rows = exact.joint(player[0][:, 0], exact.as_seen(partners))
        start = (1 - self.delta) * self.delta * rows[:, 0]
        system = np.eye(4) - self.delta * rows[:, 1:].transpose(0, 2, 1)
        later = np.linalg.solve(system, start[:, :, None])[:, :, 0]
        return np.concatenate([np.full((len(rows), 1), 1 - self.delta), later], axis=1)

    def data(
        self,
        player: Player,
        partners: Sequence[Player],
        shares: np.ndarray,
        episodes: int,
        rng: np.random.Generator | None,
    ) -> tuple[Data, ...]:
        """See `Arena`."""
        vectors = tabular.check(np.stack([p[0][:, 0] for p in partners]))
        quality, mean = self.values(player, vectors)
        gain = (quality - mean[:, :, None]) / self.scale
        often = np.asarray(shares)[:, None] * self.visits(player, vectors)
        mass = often[:, :, None] * player[0]
        index = np.arange(mass.size) % 10
        rows, actions = np.divmod(index, 2)
        values = prospect.value(gain, self.params).ravel()
        data = Data(rows, actions, mass.ravel() / mass.sum(), values)
        if not episodes:
            return (data,)
        return (drawn(data, rng.multinomial(episodes, data.mass / data.mass.sum())),)

    def blind(self, player: Player) -> tuple[Data, ...]:
        """Answers like with like, and opens with cooperation."""
        like = np.array([1, 1, 0, 1, 0], dtype=bool)
        return (arenas.labelled(player[0], np.stack([like, ~like], axis=1)),)

    def swapped(self, player: Player) -> Player:
        """Takes the other's last action for its own and its own for the other's."""
        return (player[0][SWAP],)

    def play(
        self, players: Sequence[Player], episodes: int, rng: np.random.Generator
    ) -> np.ndarray:
        """See `Arena`."""
        chances, count = np.stack([p[0][:, 0] for p in players]), len(players)
        lengths = rng.geometric(1 - self.delta, episodes)
        one, two = np.arange(count)[:, None, None], np.arange(count)[None, :, None]
        at = np.zeros((count, count, episodes), dtype=np.int64)
        total = np.zeros((count, count, episodes, 2))
        pays = self.game.pays.by_state
        for t in range(int(lengths.max())):
            draws = rng.random((2, episodes))
            first = draws[0] >= chances[one, at]
            second = draws[1] >= chances[two, SWAP[at]]
            at = 1 + 2 * first + second
            on = t < lengths
            total[..., 0] += on * pays[at - 1]
            total[..., 1] += on * pays[SWAP[at] - 1]
        return (1 - self.delta) * total


def member(vector: np.ndarray) -> Player:
    """A memory-one vector (5,) as a player."""
    return (arenas.answers(tabular.check(vector)[0]),)
