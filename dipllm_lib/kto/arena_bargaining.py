"""Alternating offers of a known length in the tabular league; see `arenas`.

Round t is proposed by seat t mod 2, so one table by round serves both seats. In units of the pie of
round t, with kappa_t(k) and a_t(k) of the partner, and P_t, R_t the worth of proposing and of
answering in round t (0 from T on):

    Q_t(k)      = a_t(k) k + (1 - a_t(k)) delta R_(t+1)           P_t = sum_k pi_t(k) Q_t(k)
    Q_t(accept) = 1 - k,  Q_t(refuse) = delta P_(t+1)             R_t = sum_k kappa_t(k) (...)

    payoff      P_0 in seat 0, R_0 in seat 1;      best reply: max in place of both policies
    label       V = v(Q - W), W the mean of the row under the policy of now: the verifier with the
                reference `expected`. All rounds and offers are equally frequent

Shapes: T rounds, A = grid + 1 shares, K partners.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dipllm_lib.kto import arenas, prospect
from dipllm_lib.kto.arenas import Player
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.prospect import ProspectParams
from dipllm_lib.kto.tabular import Data, drawn


@dataclass(frozen=True)
class BargainingArena:
    """T rounds on a grid with a discount delta · params: of v."""

    rounds: int = 6
    grid: int = 10
    delta: float = 0.9
    params: ProspectParams = prospect.ARTICLE
    name: str = field(default="bargaining", init=False)
    scale: float = field(default=1.0, init=False)

    @property
    def game(self) -> AlternatingOffers:
        """The game with texts."""
        return AlternatingOffers(self.grid, self.rounds, self.delta)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shares to keep, answers."""
        count = self.grid + 1
        return (self.rounds, count), (self.rounds * count, 2)

    @property
    def widths(self) -> tuple[float, ...]:
        """All rows are equally frequent."""
        return float(self.shapes[0][0]), float(self.shapes[1][0])

    def _accepts(self, player: Player) -> np.ndarray:
        """P(accept) (T, A)."""
        return player[1][:, 0].reshape(self.shapes[0])

    def values(
        self, player: Player | None, other: Player
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Q of shares (T, A), Q of answers (T, A, 2), and payoffs (2,); of the best reply where
        the player is None."""
        shares, (keep, accept) = self.game.shares, (other[0], self._accepts(other))
        own = None if player is None else player[1].reshape(*self.shapes[0], 2)
        offers, replies = np.empty(self.shapes[0]), np.empty((*self.shapes[0], 2))
        propose = answer = 0.0
        for t in range(self.rounds - 1, -1, -1):
            offers[t] = accept[t] * shares + (1 - accept[t]) * self.delta * answer
            replies[t, :, 0], replies[t, :, 1] = 1 - shares, self.delta * propose
            got = replies[t].max(axis=1) if own is None else (own[t] * replies[t]).sum(axis=1)
            propose = offers[t].max() if player is None else player[0][t] @ offers[t]
            answer = keep[t] @ got
        return offers, replies, np.array([propose, answer])

    def payoffs(self, one: Player, two: Player) -> np.ndarray:
        """See `Arena`."""
        return self.values(one, two)[2]

    def best(self, other: Player) -> np.ndarray:
        """See `Arena`."""
        return self.values(None, other)[2]

    def data(
        self,
        player: Player,
        partners: Sequence[Player],
        shares: np.ndarray,
        episodes: int,
        rng: np.random.Generator | None,
    ) -> tuple[Data, ...]:
        """See `Arena`."""
        found = [self.values(player, p) for p in partners]
        offers = np.stack([f[0] for f in found])
        replies = np.stack([f[1] for f in found]).reshape(len(found), -1, 2)
        pairs = zip((offers, replies), player, strict=True)
        return tuple(self._data(q, probs, shares, episodes, rng) for q, probs in pairs)

    def _data(self, quality, probs, shares, episodes, rng) -> Data:
        """Every action of every row against every partner. quality: (K, R, A), probs: (R, A)."""
        gain = quality - (probs * quality).sum(axis=2, keepdims=True)
        mass = np.asarray(shares)[:, None, None] * probs / len(probs)
        rows, actions = np.divmod(np.arange(mass.size) % probs.size, probs.shape[1])
        values = prospect.value(gain, self.params).ravel()
        data = Data(rows, actions, mass.ravel(), values)
        if not episodes:
            return data
        return drawn(data, rng.multinomial(episodes, data.mass / data.mass.sum()))

    def blind(self, player: Player) -> tuple[Data, ...]:
        """Keeps at least half, and refuses only less than half: the heuristic of the ultimatum,
        since a table does not know which offers were refused."""
        shares = np.tile(self.game.shares, (self.rounds, 1))
        less = (1 - shares < 0.5 - 1e-9).ravel()
        good = np.stack([np.ones_like(less), less], axis=1)
        return arenas.labelled(player[0], shares >= 0.5), arenas.labelled(player[1], good)

    def swapped(self, player: Player) -> Player:
        """Takes what is left of k as often as it would itself keep at least k; keeps what it
        would let the other keep."""
        takes = np.minimum(np.cumsum(player[0][:, ::-1], axis=1)[:, ::-1], 1.0)
        keeps = arenas.rising(self._accepts(player)[:, ::-1])[:, ::-1]
        return keeps, arenas.answers(takes)

    def play(
        self, players: Sequence[Player], episodes: int, rng: np.random.Generator
    ) -> np.ndarray:
        """See `Arena`."""
        count = len(players)
        accepts = np.stack([self._accepts(p) for p in players])
        paid, open_ = np.zeros((count, count, episodes, 2)), np.ones((count, count, episodes), bool)
        for t in range(self.rounds):
            draws = rng.random((2, episodes))
            keeps = arenas.picks(np.stack([p[0][t] for p in players]), draws[0])  # (proposer, n)
            taken = draws[1] < accepts[:, t][:, keeps]  # (answerer, proposer, n)
            taken = open_ & (taken.transpose(1, 0, 2) if t % 2 == 0 else taken)
            kept = self.game.shares[keeps]
            kept = kept[:, None] if t % 2 == 0 else kept[None]
            paid[..., t % 2] += self.delta**t * taken * kept
            paid[..., 1 - t % 2] += self.delta**t * taken * (1 - kept)
            open_ &= ~taken
        return paid


def bargainer(arena: BargainingArena, keep: float, least: float) -> Player:
    """A scripted member: keeps `keep`, takes whatever leaves it `least` or more, in all rounds.

    The share is rounded to the grid, what it takes is not.
    """
    index = round(keep * arena.grid)
    takes = np.tile(1 - arena.game.shares >= least - 1e-9, (arena.rounds, 1))
    keeps = np.tile(arenas.point(index, arena.grid + 1), (arena.rounds, 1))
    return keeps, arenas.answers(takes)
