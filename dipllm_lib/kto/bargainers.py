"""Tabular bargainers of alternating offers: known length, or without end.

A round is trained while the worth of waiting stands still, so it is an ultimatum whose refusal has
a known worth. With g the worth of a share, c the factor of a refusal and W_i what player i gets
from the next round on,

    discounting   g(x) = x             wait_i = delta W_i
    breakdown     g(x) = v(x - rho)    wait_i = p W_i + (1 - p) v_i(-rho)

    Q(k)      = a(k) g_i(k) + (1 - a(k)) wait_i                          the proposer keeps k
    Q(accept) = g_j(1 - k),     Q(refuse) = wait_j                       the other answers

    known length   rounds are learned from the last one to the first; after it both get nothing
    without end    one round for each proposer, learned anew in every sweep against the W
                   remembered, W <- W + (learned - W) / 2. Without the half (and where both players
                   learn all at once) grids make them cycle: measured.

These Q are the verifier's, with the reference `expected`:

    discounting   V = v(Q - mean)      breakdown     V = Q - mean, already in units of v

The answers to all offers are trained equally often, since the answer to an offer that is no longer
made decides about it. Exact: `bargaining_exact.backward` on the same grid and `stationary`; with
discounting and no end 1/(1 + delta) to the first proposer.

Shapes: G pairs, T rounds, proposer i, other j = 1 - i, A = grid + 1 shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dipllm_lib.kto import prospect
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.prospect import ProspectParams
from dipllm_lib.kto.tabular import Data, Learner, Objective, drawn


@dataclass(frozen=True, eq=False)
class Pairs:
    """G pairs. games: of equal grid and length, all with discounting or all with breakdown ·
    params: of v for both players of each pair · rho: (G, 2) reference shares under breakdown."""

    games: Sequence[AlternatingOffers]
    params: Sequence[tuple[ProspectParams, ProspectParams]]
    rho: np.ndarray | None = None

    def __post_init__(self) -> None:
        sizes = {(game.grid, game.rounds) for game in self.games}
        if len(sizes) != 1 or len(self.params) != len(self.games) or self.rounds is None:
            raise ValueError("pairs need games of one grid and one known length, params for each")
        if (self.rho is None) == any(game.go_on < 1 for game in self.games):
            raise ValueError("rho belongs to breakdown (go_on < 1), and only to it")

    @property
    def rounds(self) -> int | None:
        """T."""
        return self.games[0].rounds

    @property
    def shares(self) -> np.ndarray:
        """(A,) shares of the pie."""
        return self.games[0].shares

    def worth(self) -> tuple[np.ndarray, np.ndarray]:
        """g (G, 2, A) of each share, and (G, 2) of nothing."""
        got = np.tile(self.shares, (len(self.games), 2, 1))
        if self.rho is None:
            return got, np.zeros(got.shape[:2])
        nothing = np.empty(got.shape[:2])
        for k, both in enumerate(self.params):
            for i, own in enumerate(both):
                got[k, i] = prospect.value(self.shares - self.rho[k][i], own)
                nothing[k, i] = prospect.value(-self.rho[k][i], own)
        return got, nothing

    def keeping(self) -> np.ndarray:
        """(G,) delta, or p."""
        return np.array([game.delta * game.go_on for game in self.games])


class Learned(NamedTuple):
    """keep (T, G, A) probabilities of shares to keep · accept (T, G, A) that the other takes it.
    Without end T is 2: the round of each proposer."""

    keep: np.ndarray
    accept: np.ndarray


def train(
    pairs: Pairs,
    objective: Objective,
    rounds: int,
    episodes: int = 0,
    rng: np.random.Generator | None = None,
) -> Learned:
    """Both players of each pair over a known length; `rounds` of training per round of the game.

    episodes: decisions drawn per table and round, 0 for exact expectations.
    """
    got, nothing = pairs.worth()
    factor = pairs.keeping()[:, None]
    found, now = _empty(pairs, pairs.rounds), nothing
    for t in range(pairs.rounds - 1, -1, -1):
        wait = nothing if t + 1 == pairs.rounds else factor * now + (1 - factor) * nothing
        layer = _Layer(pairs, got, wait, t % 2)
        found.keep[t], found.accept[t] = layer.train(objective, rounds, episodes, rng)
        now = layer.after(found.keep[t], found.accept[t])
    return found


def settle(
    pairs: Pairs,
    objective: Objective,
    rounds: int,
    sweeps: int,
    episodes: int = 0,
    rng: np.random.Generator | None = None,
) -> Learned:
    """Both players without end, whatever the length of the games; `sweeps` of the module's text."""
    got, nothing = pairs.worth()
    factor = pairs.keeping()[:, None]
    found = _empty(pairs, 2)
    worth = np.stack([nothing, nothing])  # (proposer, G, player)
    for _ in range(sweeps):
        learned = np.empty_like(worth)
        for i in (0, 1):
            layer = _Layer(pairs, got, factor * worth[1 - i] + (1 - factor) * nothing, i)
            found.keep[i], found.accept[i] = layer.train(objective, rounds, episodes, rng)
            learned[i] = layer.after(found.keep[i], found.accept[i])
        worth = (worth + learned) / 2
    return found


def _empty(pairs: Pairs, rounds: int) -> Learned:
    shape = (rounds, len(pairs.games), len(pairs.shares))
    return Learned(np.empty(shape), np.empty(shape))


@dataclass(frozen=True, eq=False)
class _Layer:
    """One round. got: (G, 2, A) worth of shares · wait: (G, 2) of a refusal · proposer."""

    pairs: Pairs
    got: np.ndarray
    wait: np.ndarray
    proposer: int

    @property
    def taken(self) -> np.ndarray:
        """(G, A) what the other gets from each share that is kept."""
        return self.got[:, 1 - self.proposer, ::-1]

    def offers(self, accept: np.ndarray) -> np.ndarray:
        """Q (G, A) of each share to keep."""
        i = self.proposer
        return accept * self.got[:, i] + (1 - accept) * self.wait[:, i, None]

    def after(self, keep: np.ndarray, accept: np.ndarray) -> np.ndarray:
        """(G, 2) worth of the round to both players."""
        i, j = self.proposer, 1 - self.proposer
        now = np.empty_like(self.wait)
        now[:, i] = (keep * self.offers(accept)).sum(axis=1)
        answers = accept * self.taken + (1 - accept) * self.wait[:, j, None]
        now[:, j] = (keep * answers).sum(axis=1)
        return now

    def train(self, objective, rounds, episodes, rng) -> tuple[np.ndarray, np.ndarray]:
        count, shares = self.taken.shape
        proposer = Learner(np.zeros((count, shares)))
        responder = Learner(np.zeros((count * shares, 2)))
        # a step moves every row of an equally weighted table as far as a single row
        widened = replace(objective, rate=objective.rate * shares)
        later = np.broadcast_to(self.wait[:, 1 - self.proposer, None], (count, shares))
        answers = np.stack([self.taken, later], axis=2)
        for _ in range(rounds):
            accept = responder.probs[:, 0].reshape(count, shares)
            first = self._data(self.offers(accept)[:, None], proposer.probs[:, None], self.proposer)
            chance = responder.probs.reshape(count, shares, 2)
            second = self._data(answers, chance, 1 - self.proposer)
            if episodes:
                first, second = (_drawn(data, episodes, rng) for data in (first, second))
            proposer.optimise(first, objective)
            responder.optimise(second, widened)
        return proposer.probs, responder.probs[:, 0].reshape(count, shares)

    def _data(self, quality: np.ndarray, probs: np.ndarray, player: int) -> Data:
        """Every action of every row (G, rows, actions) with its V, rows equally frequent."""
        values = quality - (probs * quality).sum(axis=2, keepdims=True)
        if self.pairs.rho is None:
            for k, both in enumerate(self.pairs.params):
                values[k] = prospect.value(values[k], both[player])
        count, inside, _ = values.shape
        rows, actions = np.divmod(np.arange(values.size), values.shape[2])
        groups = np.arange(count).repeat(inside)
        return Data(rows, actions, probs.ravel() / inside, values.ravel(), groups=groups)


def _drawn(data: Data, episodes: int, rng: np.random.Generator) -> Data:
    """`episodes` decisions of each table."""
    shares = data.mass.reshape(int(data.groups.max()) + 1, -1)
    shares = shares / shares.sum(axis=1, keepdims=True)
    return drawn(data, rng.multinomial(episodes, shares).ravel())


def modal(learned: Learned) -> Learned:
    """Every row plays its most likely action."""
    keep = np.eye(learned.keep.shape[2])[learned.keep.argmax(axis=2)]
    return Learned(keep, (learned.accept > 0.5).astype(np.float64))


def payoffs(pairs: Pairs, learned: Learned, endless: bool = False) -> np.ndarray:
    """(G, 2) expected payoffs when player 0 proposes first: shares of the pie, discounted, 0
    without agreement. endless: of `settle`, by the linear equations of both rounds."""
    agreed = learned.keep * learned.accept
    refused = (1 - agreed.sum(axis=2)) * pairs.keeping()  # (T, G)
    got = np.stack([agreed @ pairs.shares, agreed @ (1 - pairs.shares)], axis=2)  # proposer first
    if endless:
        # player 0 gets x_0 = got_00 + refused_0 (got_11 + refused_1 x_0), and player 1 likewise
        scale = 1 - refused[0] * refused[1]
        first = got[0, :, 0] + refused[0] * got[1, :, 1]
        second = got[0, :, 1] + refused[0] * got[1, :, 0]
        return np.stack([first / scale, second / scale], axis=1)
    now = np.zeros((len(pairs.games), 2))
    for t in range(len(got) - 1, -1, -1):
        paid = got[t] if t % 2 == 0 else got[t, :, ::-1]
        now = paid + refused[t, :, None] * now
    return now
