"""Tabular players of the iterated prisoner's dilemma against memory-one partners.

A row is (problem, round, outcome seen before it), so a table can hold the exact best reply to a
known length. With pi of now and q~ the partner's P(C) in the own view,

    Q_t(o, a) = q~(o) (u(a, C) + W_(t+1)(aC)) + (1 - q~(o)) (u(a, D) + W_(t+1)(aD)),
    W_t(o) = sum_a pi_t(a|o) Q_t(o, a)            both exact, backward from the last round

Labels of a decision, each with the reference `expected` (W, the mean under the policy of now):

    verifier    V = v((Q(h, a) - W(h)) / s): the simulator branched on both actions
    return      V = v((payoff from here on - W(h)) / s): what occurred
    trajectory  the win or loss of the whole episode copied to each step; won: total above the mean
                total of the round's episodes. Labels of a selector: omega 1, classes balanced

s = T - S, so a V of a long rest can pass 1 in size, and the guard c = 4 of omega may bind.

Shapes: G problems, T rounds, 5 outcomes s0 CC CD DC DD, actions cooperate, defect; n episodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dipllm_lib.ipd import best_response, exact
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.kto import prospect
from dipllm_lib.kto.prospect import ProspectParams
from dipllm_lib.kto.repeated import STANDARD
from dipllm_lib.kto.tabular import Data

LABELS = ("verifier", "return", "trajectory")


@dataclass(frozen=True, eq=False)
class Repeaters:
    """G players. q: (G, 5) partners in their own view · rounds: T · params: of v, one or one
    for each · labels: one of LABELS; without episodes only `verifier` has an exact expectation."""

    q: np.ndarray
    rounds: int
    params: ProspectParams | Sequence[ProspectParams] = prospect.ARTICLE
    labels: str = "verifier"
    pays: Payoffs = field(default=STANDARD)

    def __post_init__(self) -> None:
        if self.labels not in LABELS or self.rounds < 1:
            raise ValueError(f"labels {self.labels!r}, rounds {self.rounds}: use {LABELS}, >= 1")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(G, T, 5, 2)."""
        return len(self.q), self.rounds, 5, 2

    @property
    def scale(self) -> float:
        """T - S."""
        return self.pays.temptation - self.pays.sucker

    @property
    def start(self) -> np.ndarray:
        """(G T 5, 2) zeros."""
        return np.zeros((int(np.prod(self.shape[:3])), 2))

    def values(self, probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Q (G, T, 5, 2) and W (G, T, 5) of a policy, sums of payoffs from a round on."""
        probs, seen = probs.reshape(self.shape), exact.as_seen(self.q)
        worth = np.empty(self.shape)
        matrix = self.pays.matrix[::-1, ::-1]  # [own, other], cooperate first
        after = np.zeros((len(self.q), 5))
        for t in range(self.rounds - 1, -1, -1):
            for own in (0, 1):
                good = matrix[own, 0] + after[:, 1 + 2 * own, None]
                bad = matrix[own, 1] + after[:, 2 + 2 * own, None]
                worth[:, t, :, own] = seen * good + (1 - seen) * bad
            after = (probs[:, t] * worth[:, t]).sum(axis=2)
        return worth, (probs * worth).sum(axis=3)

    def visits(self, probs: np.ndarray) -> np.ndarray:
        """(G, T, 5) probability of each outcome before each round."""
        probs, seen = probs.reshape(self.shape), exact.as_seen(self.q)
        found = np.zeros(self.shape[:3])
        found[:, 0, 0] = 1.0
        for t in range(self.rounds - 1):
            for own in (0, 1):
                here = found[:, t] * probs[:, t, :, own]
                found[:, t + 1, 1 + 2 * own] = (here * seen).sum(axis=1)
                found[:, t + 1, 2 + 2 * own] = (here * (1 - seen)).sum(axis=1)
        return found

    def score(self, probs: np.ndarray) -> np.ndarray:
        """(G,) exact payoff per round."""
        return self.values(probs)[1][:, 0, 0] / self.rounds

    def best(self) -> np.ndarray:
        """(G,) payoff per round of the best reply of any memory."""
        return best_response.best_response(self.q, self.rounds, self.pays).value

    def data(
        self, probs: np.ndarray, episodes: int = 0, rng: np.random.Generator | None = None
    ) -> Data:
        """Decisions of `episodes` episodes, or every decision with its probability."""
        worth, mean = self.values(probs)
        groups = np.arange(len(self.q)).repeat(self.rounds * 5)
        if not episodes:
            if self.labels != "verifier":
                raise ValueError(f"labels {self.labels} need episodes: set episodes above 0")
            share = self.visits(probs)[..., None] / self.rounds
            mass = (share * probs.reshape(self.shape)).ravel()
            rows, actions = np.divmod(np.arange(mass.size), 2)
            values = self._value(worth - mean[..., None])
            return Data(rows, actions, mass, values.ravel(), groups=groups)
        rows, actions, paid = self.play(probs, episodes, rng)
        mass = np.full(rows.size, 1 / (episodes * self.rounds))
        told, labels = self._told(rows, actions, paid, worth, mean)
        unit = labels is not None
        return Data(rows.ravel(), actions.ravel(), mass, told.ravel(), labels, groups, unit)

    def _value(self, gain: np.ndarray) -> np.ndarray:
        """V of gains (G, ...)."""
        if isinstance(self.params, ProspectParams):
            return prospect.value(gain / self.scale, self.params)
        pairs = zip(gain, self.params, strict=True)
        return np.stack([prospect.value(own / self.scale, p) for own, p in pairs])

    def _told(self, rows, actions, paid, worth, mean) -> tuple[np.ndarray, np.ndarray | None]:
        """V (G, n, T), and the labels of whole episodes, None where V gives them."""
        if self.labels == "verifier":
            gain = worth.reshape(-1, 2)[rows, actions] - mean.ravel()[rows]
            return self._value(gain), None
        rest = np.flip(np.cumsum(np.flip(paid, axis=2), axis=2), axis=2)
        if self.labels == "return":
            gain = rest - mean.ravel()[rows]
            return self._value(gain), None
        total = rest[:, :, :1]
        won = np.broadcast_to(total > total.mean(axis=1, keepdims=True), paid.shape)
        return np.where(won, 1.0, -1.0), won.ravel()

    def play(
        self, probs: np.ndarray, episodes: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """rows, actions, payoffs, each (G, n, T), of sampled episodes."""
        count, rounds = len(self.q), self.rounds
        chances = probs.reshape(self.shape)[..., 0]
        seen, matrix = exact.as_seen(self.q), self.pays.matrix[::-1, ::-1]
        rows, actions = (np.empty((count, episodes, rounds), dtype=np.int64) for _ in range(2))
        paid = np.empty((count, episodes, rounds))
        at, index = np.zeros((count, episodes), dtype=np.int64), np.arange(count)[:, None]
        for t in range(rounds):
            draws = rng.random((2, count, episodes))
            own = (draws[0] >= chances[index, t, at]).astype(np.int64)
            other = (draws[1] >= seen[index, at]).astype(np.int64)
            rows[:, :, t] = (index * rounds + t) * 5 + at
            actions[:, :, t], paid[:, :, t] = own, matrix[own, other]
            at = 1 + 2 * own + other
        return rows, actions, paid
