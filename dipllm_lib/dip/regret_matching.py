"""Regret matching, the comparison for piKL-Hedge: no anchor in the policy, no temperature.

After every iteration a player acts in proportion to its positive regrets (Hart and Mas-Colell
2000), R(a) = Σ_t w_t (u_t(a) - u_t(own)), uniformly where none is positive. With linear weighting
w_t grows with t, as in `hedge`, in the regrets and in the average policy. In a zero-sum game the
average policies approach an equilibrium; the anchor only chooses the candidates.
"""

from typing import Sequence

import numpy as np
from numba import njit

from dipllm_lib.dip import hedge


@njit(cache=True)
def update(state, utility, iteration, linear):
    """Add utilities (P, K) of iteration 0, 1, … to a `hedge.Learners` and match its regrets."""
    keep = (iteration + 1e-6) / (iteration + 1.0) if linear else 1.0
    for i in range(state.size.shape[0]):
        size, own = state.size[i], 0.0
        for a in range(size):
            own += state.policy[i, a] * utility[i, a]
            state.value_sum[i, a] = keep * state.value_sum[i, a] + utility[i, a]
            state.policy_sum[i, a] = keep * state.policy_sum[i, a] + state.policy[i, a]
            state.latest[i, a] = utility[i, a]
        weight = keep * state.moments[i, 0] + 1.0
        state.moments[i, 1] += (own - state.moments[i, 1]) / weight
        state.moments[i, 0] = weight
        total = 0.0
        for a in range(size):
            regret = state.value_sum[i, a] / weight - state.moments[i, 1]
            state.policy[i, a] = max(regret, 0.0)
            total += state.policy[i, a]
        for a in range(size):
            state.policy[i, a] = state.policy[i, a] / total if total > 0.0 else 1.0 / size


class Matchers:
    """The players of a search by regret matching; the same methods as `dil.Types`."""

    def __init__(self, log_taus: Sequence[np.ndarray], linear: bool):
        self.state, self.linear = hedge.learners(log_taus), linear
        self.size, self.shape = self.state.size, self.state.policy.shape

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """(P,) one action per player."""
        return hedge.draw(self.state.policy, self.size, rng)

    def update(self, utility: np.ndarray, iteration: int) -> None:
        """Add utilities (P, K) of iteration 0, 1, …"""
        update(self.state, utility, iteration, self.linear)

    def regret(self) -> np.ndarray:
        """(P,) average external regret so far."""
        return hedge.regret(self.state)

    def found(self, i: int, iterations: int) -> dict:
        """The arrays of a `records.PowerRecord`: f is the log of the last policy, floored at 1e-50;
        there is no temperature, so kappa is 0."""
        size = self.size[i]
        f = np.log(np.maximum(self.state.policy[i, :size], hedge.FLOOR))
        return {
            "log_tau": self.state.log_tau[i, :size].copy(),
            "q": hedge.values(self.state, i),
            "average": hedge.average(self.state, i),
            "final": hedge.softmax(f),
            "f": f,
            "kappa": 0.0,
        }


def matrix_game(game, iterations: int, linear: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Average policies (m,), (n,) of both players on a `matrix_games.MatrixGame`, exact
    expectations."""
    payoff = np.asarray(game.payoff, dtype=np.float64)
    rows, columns = payoff.shape
    state = hedge.learners([np.log(game.row_anchor), np.log(game.column_anchor)])
    utility = np.zeros(state.policy.shape)
    for k in range(iterations):
        utility[0, :rows] = payoff @ state.policy[1, :columns]
        utility[1, :columns] = 1.0 - state.policy[0, :rows] @ payoff
        update(state, utility, k, linear)
    return hedge.average(state, 0), hedge.average(state, 1)
