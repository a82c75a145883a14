"""Two-player matrix games: exact piKL-Hedge, exploitability, and theorem 2 as a table.

A game has payoffs in [0, 1] for both players that add to 1 in every cell (zero sum, shifted), so
one matrix (m, n) of the row player says it all. Expectations are exact:
u_row(a) = Σ_b y(b) A(a, b), u_col(b) = Σ_a x(a) (1 - A(a, b)).

Theorem 2 (Xu et al. 2025, after Jacob et al. 2022): the average policies are a max_i lam_i delta_i
approximate Nash equilibrium for T -> infinity, delta_i = max_a log 1/tau_i(a).
"""

import itertools
from typing import NamedTuple, Sequence

import numpy as np
import pandas as pd
from numba import njit

from dipllm_lib.dip import hedge


class MatrixGame(NamedTuple):
    """payoff (m, n) of the row player in [0, 1]; positive anchors tau, (m,) and (n,)."""

    name: str
    payoff: np.ndarray
    row_anchor: np.ndarray
    column_anchor: np.ndarray


class Solution(NamedTuple):
    """Average policies (m,), (n,); the last policies; regret (T, 2) after each iteration."""

    row: np.ndarray
    column: np.ndarray
    last_row: np.ndarray
    last_column: np.ndarray
    regret: np.ndarray


def matrix_game(game: MatrixGame, iterations: int, rule: hedge.Rule) -> Solution:
    """piKL-Hedge of both players on `game` with exact expectations, no sampling."""
    payoff = np.ascontiguousarray(game.payoff, dtype=np.float64)
    if payoff.ndim != 2 or not np.all((payoff >= 0) & (payoff <= 1)):
        raise ValueError(f"{game.name}: payoffs must form a matrix with entries in [0, 1]")
    if payoff.shape != (len(game.row_anchor), len(game.column_anchor)) or iterations < 1:
        raise ValueError(f"{game.name}: anchors do not fit payoffs {payoff.shape}, or T < 1")
    state = hedge.learners([np.log(game.row_anchor), np.log(game.column_anchor)])
    regret = _iterate(payoff, state, iterations, rule)
    rows, columns = payoff.shape
    return Solution(
        hedge.average(state, 0),
        hedge.average(state, 1),
        state.policy[0, :rows].copy(),
        state.policy[1, :columns].copy(),
        regret,
    )


@njit(cache=True)
def _iterate(payoff, state, iterations, rule):
    rows, columns = payoff.shape
    utility = np.zeros(state.policy.shape)
    regret = np.empty((iterations, 2))
    for k in range(iterations):
        utility[0, :rows] = 0.0
        utility[1, :columns] = 1.0
        for a in range(rows):
            for b in range(columns):
                utility[0, a] += payoff[a, b] * state.policy[1, b]
                utility[1, b] -= state.policy[0, a] * payoff[a, b]
        hedge.update(state, utility, k, rule)
        for i in range(2):
            best = state.value_sum[i, : state.size[i]].max() / state.moments[i, 0]
            regret[k, i] = best - state.moments[i, 1]
    return regret


def exploitability(payoff: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """(2,) gain of each player from its best deviation; both 0 at an equilibrium."""
    value = row @ payoff @ column
    return np.array([np.max(payoff @ column) - value, value - np.min(row @ payoff)])


def delta(anchor: np.ndarray) -> float:
    """max_a log 1/tau(a), infinite where tau is 0."""
    return float("inf") if np.min(anchor) <= 0 else float(-np.log(np.min(anchor)))


def mixed_anchor(rng: np.random.Generator, size: int, uniform: float = 0.05) -> np.ndarray:
    """(size,) anchor with full support: (1 - uniform) Dirichlet(1) + uniform / size."""
    return (1.0 - uniform) * rng.dirichlet(np.ones(size)) + uniform / size


def random_game(rng: np.random.Generator, size: int = 10, name: str = "random") -> MatrixGame:
    """A size x size game with payoffs uniform in [0, 1]."""
    payoff = rng.uniform(size=(size, size))
    return MatrixGame(name, payoff, mixed_anchor(rng, size), mixed_anchor(rng, size))


def rock_paper_scissors(rng: np.random.Generator) -> MatrixGame:
    """Win 1, tie 1/2, loss 0."""
    payoff = np.array([[0.5, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]])
    return MatrixGame("rock-paper-scissors", payoff, mixed_anchor(rng, 3), mixed_anchor(rng, 3))


def allocations(fields: int, soldiers: int) -> list[tuple[int, ...]]:
    """All ways to put `soldiers` on `fields` battlefields: joint orders, one order per field."""
    every = itertools.product(range(soldiers + 1), repeat=fields)
    return [joint for joint in every if sum(joint) == soldiers]


def blotto(rng: np.random.Generator, fields: int = 3, soldiers: int = 5) -> MatrixGame:
    """Colonel Blotto: the payoff is the share of fields won, a tied field counts half.

    The actions are `allocations(fields, soldiers)`, so a policy over them is a true joint policy of
    `fields` units.
    """
    joints = np.array(allocations(fields, soldiers))
    ahead = joints[:, None, :] - joints[None, :, :]
    payoff = np.mean(0.5 * (1 + np.sign(ahead)), axis=2)
    size = len(joints)
    name = f"Blotto, {fields} fields"
    return MatrixGame(name, payoff, mixed_anchor(rng, size), mixed_anchor(rng, size))


def suite(rng: np.random.Generator, random_games: int = 20) -> list[MatrixGame]:
    """`random_games` random 10 x 10 games, rock-paper-scissors, and Blotto with 2 to 4 fields."""
    games = [random_game(rng, name=f"random {i}") for i in range(random_games)]
    return games + [rock_paper_scissors(rng), *(blotto(rng, fields) for fields in (2, 3, 4))]


def theorem2(
    games: Sequence[MatrixGame],
    lams: Sequence[float],
    iterations: int,
    rules: Sequence[str] = hedge.RULES,
    kappa: str = "root",
    weighting: str = "uniform",
) -> pd.DataFrame:
    """One row per game, rule and lam: the larger deviation gain against the bound lam delta.

    Columns game, rule, lam, gain (of the average policies), delta, bound, holds (gain <= bound +
    1e-3), regret (the larger one, after T).
    """
    rows = []
    for game, name, lam in itertools.product(games, rules, lams):
        rule = hedge.rule(lam, rule=name, kappa=kappa, weighting=weighting)
        solution = matrix_game(game, iterations, rule)
        gain = exploitability(game.payoff, solution.row, solution.column).max()
        largest = max(delta(game.row_anchor), delta(game.column_anchor))
        rows.append({
            "game": game.name,
            "rule": name,
            "lam": lam,
            "gain": gain,
            "delta": largest,
            "bound": lam * largest,
            "holds": bool(gain <= lam * largest + 1e-3),
            "regret": solution.regret[-1].max(),
        })
    return pd.DataFrame(rows)
