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

from dipllm_lib.dip import hedge


class MatrixGame(NamedTuple):
    """payoff (m, n) of the row player in [0, 1]; positive anchors tau, (m,) and (n,). joints: where
    an action is one order for each of several units, the m and n tuples of orders; else empty.
    """

    name: str
    payoff: np.ndarray
    row_anchor: np.ndarray
    column_anchor: np.ndarray
    row_joints: Sequence[tuple[int, ...]] = ()
    column_joints: Sequence[tuple[int, ...]] = ()


class Solution(NamedTuple):
    """Average policies (m,), (n,); the last policies; regret (T, 2) after each iteration; gains
    (M, 2) from the best deviations after each of the marked iterations."""

    row: np.ndarray
    column: np.ndarray
    last_row: np.ndarray
    last_column: np.ndarray
    regret: np.ndarray
    gains: np.ndarray


def matrix_game(
    game: MatrixGame, iterations: int, rule: hedge.Rule, marks: Sequence[int] = ()
) -> Solution:
    """piKL-Hedge of both players on `game` with exact expectations, no sampling.

    marks: iterations (rising, from 1 to T) after which the gains are wanted.
    """
    check(game, iterations, marks)
    payoff = np.ascontiguousarray(game.payoff, dtype=np.float64)
    state = hedge.learners([np.log(game.row_anchor), np.log(game.column_anchor)])
    regret, gains = hedge.self_play(payoff, state, iterations, rule, np.array(marks, np.int64))
    rows, columns = payoff.shape
    return Solution(
        hedge.average(state, 0),
        hedge.average(state, 1),
        state.policy[0, :rows].copy(),
        state.policy[1, :columns].copy(),
        regret,
        gains,
    )


def check(game: MatrixGame, iterations: int, marks: Sequence[int] = ()) -> None:
    """ValueError for payoffs outside [0, 1], anchors of other sizes, or impossible iterations."""
    payoff = np.asarray(game.payoff)
    if payoff.ndim != 2 or not np.all((payoff >= 0) & (payoff <= 1)):
        raise ValueError(f"{game.name}: payoffs must form a matrix with entries in [0, 1]")
    if payoff.shape != (len(game.row_anchor), len(game.column_anchor)) or iterations < 1:
        raise ValueError(f"{game.name}: anchors do not fit payoffs {payoff.shape}, or T < 1")
    if list(marks) != sorted(set(marks)) or any(not 1 <= m <= iterations for m in marks):
        raise ValueError(f"{game.name}: marks {list(marks)} must rise from 1 to T = {iterations}")


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


def blotto(
    rng: np.random.Generator, fields: int = 3, soldiers: int = 5, column_soldiers: int | None = None
) -> MatrixGame:
    """Colonel Blotto: the payoff is the share of fields won, a tied field counts half.

    The actions are `allocations(fields, soldiers)`, so a policy over them is a true joint policy of
    `fields` units. The column player has as many soldiers unless `column_soldiers` says otherwise.
    """
    other = soldiers if column_soldiers is None else column_soldiers
    rows, columns = allocations(fields, soldiers), allocations(fields, other)
    ahead = np.array(rows)[:, None, :] - np.array(columns)[None, :, :]
    payoff = np.mean(0.5 * (1 + np.sign(ahead)), axis=2)
    name = f"Blotto, {fields} fields" + ("" if other == soldiers else f", {soldiers} to {other}")
    anchors = mixed_anchor(rng, len(rows)), mixed_anchor(rng, len(columns))
    return MatrixGame(name, payoff, *anchors, rows, columns)


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
    marks: Sequence[int] = (),
) -> pd.DataFrame:
    """One row per game, rule, lam and T: the larger deviation gain against the bound lam delta.

    marks: the T of the rows, rising; without any, `iterations` alone. Columns game, rule, lam, T,
    gain (of the average policies), delta, bound, holds (gain <= bound + 1e-3), regret (the larger
    one, after T).
    """
    marks = tuple(marks) or (iterations,)
    rows = []
    for game, name, lam in itertools.product(games, rules, lams):
        rule = hedge.rule(lam, rule=name, kappa=kappa, weighting=weighting)
        solution = matrix_game(game, iterations, rule, marks)
        largest = max(delta(game.row_anchor), delta(game.column_anchor))
        for steps, gain in zip(marks, solution.gains.max(axis=1).tolist(), strict=True):
            rows.append({
                "game": game.name,
                "rule": name,
                "lam": lam,
                "T": steps,
                "gain": gain,
                "delta": largest,
                "bound": lam * largest,
                "holds": bool(gain <= lam * largest + 1e-3),
                "regret": solution.regret[steps - 1].max(),
            })
    return pd.DataFrame(rows)
