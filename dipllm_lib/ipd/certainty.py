"""A player that counts, believes its counts and plans: in-context inference without learning.

The certainty-equivalent Bayes player has a Beta(a, a) prior for each of the opponent's five
probabilities. Before every round it takes the posterior means (a + c) / (2 a + c + d) of what it
has seen, plans against them as if they were known to the end of the episode (`best_response`), and
plays the first step. With optimism k it plans with mean + k SD where an answer C helps and with
mean - k SD where it hurts, cut to [0, 1]; so it tries what it knows little about.

Its reward is a lower bound for the Bayes-optimal value at any T (`bayes`).

Shapes: n games, T rounds.
"""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.ipd.game import CC, DC, S0, Payoffs, Player, play


class Beliefs(NamedTuple):
    """State: rounds played · counts int64 (n, 5, 2), answers C and D after each observation ·
    previous uint8 (n,), the observation before the last round."""

    played: int
    counts: np.ndarray
    previous: np.ndarray


@dataclass(frozen=True)
class CertaintyEquivalent:
    """Player for episodes of `rounds` rounds with prior Beta(a, a) and optimism k >= 0."""

    rounds: int
    k: float = 1.0
    a: float = 1.0
    payoffs: Payoffs = exact.STANDARD

    def __post_init__(self) -> None:
        good = np.isfinite(self.k) and np.isfinite(self.a) and self.k >= 0 and self.a > 0
        if self.rounds < 1 or not good:
            raise ValueError(
                f"rounds {self.rounds}, k {self.k}, a {self.a}: need rounds >= 1, k >= 0, a > 0"
            )

    def start(self, n: int) -> Beliefs:
        """No answers seen in n games."""
        return Beliefs(0, np.zeros((n, 5, 2), dtype=np.int64), np.zeros(n, dtype=np.uint8))

    def act(self, state: Beliefs, obs: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, Beliefs]:
        """The first step of the plan; `u` is not used. ValueError after the last round."""
        if state.played >= self.rounds:
            raise ValueError(f"this player plans {self.rounds} rounds: round {state.played + 1}")
        counts = state.counts.copy()
        seen = np.flatnonzero(obs != S0)
        answer = np.where((obs == CC) | (obs == DC), 0, 1)
        counts[seen, state.previous[seen], answer[seen]] += 1
        left = self.rounds - state.played
        pay = self.payoffs.by_state
        actions = _plan(counts, obs, left, float(self.a), float(self.k), pay)
        return actions, Beliefs(state.played + 1, counts, obs.copy())


@njit(cache=True)
def _plan(counts, obs, left, a, k, pay):
    """uint8 (n,) first action of the optimistic plan over `left` rounds. Ties go to D."""
    n = counts.shape[0]
    actions = np.zeros(n, dtype=np.uint8)
    high, low = np.empty(5), np.empty(5)
    now, before = np.empty(5), np.empty(5)
    for i in range(n):
        for o in range(5):
            c, d = a + counts[i, o, 0], a + counts[i, o, 1]
            mean = c / (c + d)
            spread = k * np.sqrt(mean * (1.0 - mean) / (c + d + 1.0))
            high[o], low[o] = min(mean + spread, 1.0), max(mean - spread, 0.0)
        now[:] = 0.0
        for _ in range(left - 1):
            for o in range(1, 5):
                if_c = _hope(high[o], low[o], pay[0] + now[1], pay[1] + now[2])
                if_d = _hope(high[o], low[o], pay[2] + now[3], pay[3] + now[4])
                before[o] = max(if_c, if_d)
            now[1:] = before[1:]
        o = obs[i]
        if_c = _hope(high[o], low[o], pay[0] + now[1], pay[1] + now[2])
        if_d = _hope(high[o], low[o], pay[2] + now[3], pay[3] + now[4])
        actions[i] = if_c > if_d
    return actions


@njit(cache=True)
def _hope(high, low, after_c, after_d):
    """Expected value under the more pleasant end of the belief that the opponent answers C."""
    q = high if after_c >= after_d else low
    return q * after_c + (1.0 - q) * after_d


class Measured(NamedTuple):
    """value: estimated mean reward per round · se: its standard error · cooperation: own C."""

    value: float
    se: float
    cooperation: float


def measured(
    player: Player,
    q: np.ndarray,
    rounds: int,
    streams: tuple[np.random.Generator, np.random.Generator],
    payoffs: Payoffs = exact.STANDARD,
) -> Measured:
    """Play one game against each of q (n, 5), drawn from a pool symmetric under C <-> D.

    AllD earns (T + P)/2 on such a pool exactly. Its reward in the same games with the same uniform
    numbers is the control: value = (T + P)/2 + mean(own reward - AllD's).
    """
    opponents, n = tabular.Tabular(q), len(q)
    again = copy.deepcopy(streams)
    games = play(player, opponents, n, rounds, streams)
    control = play(tabular.Tabular(tabular.named("AllD")), opponents, n, rounds, again)
    gain = payoffs.of(*games.view(0)).mean(axis=1) - payoffs.of(*control.view(0)).mean(axis=1)
    level = 0.5 * (payoffs.temptation + payoffs.punishment)
    se = gain.std(ddof=1) / np.sqrt(n)
    return Measured(level + float(gain.mean()), float(se), float(games.left.mean()))
