"""Both theorems on every game of one suite: the tables of notebook 02.

The suite: random matrix games, rock-paper-scissors, Colonel Blotto with 2 to 4 fields, and one turn
of Diplomacy between two powers with 3 and with 4 units each. Theorem 1 is about joint orders, so it
is checked where an action is one: the Blotto and Diplomacy games.
"""

from typing import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import decompose, hedge, matrix_games, policies, subgames
from dipllm_lib.dip.search_settings import SearchSettings
from dipllm_lib.run import stats

# sizes of the Diplomacy games, and the anchor behind their candidates
CANDIDATES = SearchSettings(iterations=1, candidates=40, ratio=10.0, draws=400, lam=0.01, extend=8)
ANCHOR_TEMPERATURE, ANCHOR_UNIFORM = 0.3, 0.1


def suite(rng: np.random.Generator, random_games: int = 20) -> list[matrix_games.MatrixGame]:
    """The games of `matrix_games.suite`, then Diplomacy with 3 and 4 units a side."""
    anchor = policies.SoftDumbBot(ANCHOR_TEMPERATURE, ANCHOR_UNIFORM)
    games = matrix_games.suite(rng, random_games)
    for units in (3, 4):
        board, name = subgames.front(units), f"Diplomacy, {units} against {units} units"
        powers = ("FRANCE", "GERMANY")
        games.append(subgames.diplomacy(board, powers, anchor, CANDIDATES, rng, name=name))
    return games


def marks(iterations: int, count: int = 9) -> tuple[int, ...]:
    """Up to `count` iterations on a log scale from 10 to `iterations`, rising."""
    first = min(10, iterations)
    return tuple(np.unique(np.geomspace(first, iterations, count).round().astype(int)).tolist())


def theorem2(
    games: Sequence[matrix_games.MatrixGame], lams: Sequence[float], iterations: int
) -> pd.DataFrame:
    """`matrix_games.theorem2` along the iterations: game, rule, lam, T, gain, delta, bound, holds,
    regret, for the normalised and the literal rule."""
    return matrix_games.theorem2(games, lams, iterations, marks=marks(iterations))


def summary(found: pd.DataFrame, rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Theorem 2 after the last iteration of `theorem2`, by rule and lam: rule, lam, gain (mean with
    interval over games), bound (mean lam delta), games, within (games that keep the bound).
    """
    rows = []
    for (rule, lam), part in _last(found).groupby(["rule", "lam"], sort=False):
        mean, low, high = stats.mean_interval(part["gain"].to_numpy(), rng, resamples)
        row = {"rule": rule, "lam": lam, "gain": mean, "gain_low": low, "gain_high": high}
        counts = {"games": len(part), "within": int(part["holds"].sum())}
        rows.append(row | {"bound": part["bound"].mean()} | counts)
    return pd.DataFrame(rows)


def by_family(found: pd.DataFrame) -> pd.DataFrame:
    """The same by kind of game: family, rule, lam, games, gain and bound (means), within."""
    last = _last(found).assign(family=lambda table: table["game"].map(family))
    groups = last.groupby(["family", "rule", "lam"], sort=False)
    table = groups[["gain", "bound"]].mean()
    return table.assign(games=groups.size(), within=groups["holds"].sum()).reset_index()


def curves(found: pd.DataFrame) -> pd.DataFrame:
    """Gain along the iterations, the mean of each kind of game: family, rule, lam, T, gain."""
    table = found.assign(family=found["game"].map(family))
    groups = table.groupby(["family", "rule", "lam", "T"], sort=False)
    return groups[["gain"]].mean().reset_index()


def family(game: str) -> str:
    """The kind of a game of the suite: `Blotto` for `Blotto, 2 fields`."""
    return game.split(",")[0].rstrip(" 0123456789")


def _last(found: pd.DataFrame) -> pd.DataFrame:
    return found[found["T"] == found["T"].max()]


def theorem1(
    games: Sequence[matrix_games.MatrixGame], lams: Sequence[float], iterations: int
) -> pd.DataFrame:
    """Largest error of the product of unit targets against the joint policies after T iterations.

    One row per game of joint orders and lam: game, lam, T, units, actions (of the row player),
    error (over both players, last and average policies, both rules).
    """
    rows = []
    for game in games:
        if not game.row_joints:
            continue
        for lam in lams:
            rows.append({
                "game": game.name,
                "lam": lam,
                "T": iterations,
                "units": len(game.row_joints[0]),
                "actions": len(game.row_joints),
                "error": max(_errors(game, lam, iterations)),
            })
    return pd.DataFrame(rows)


def _errors(game: matrix_games.MatrixGame, lam: float, iterations: int) -> list[float]:
    found = []
    for name in hedge.RULES:
        rule = hedge.rule(lam, rule=name, kappa="root", weighting="uniform")
        solution = matrix_games.matrix_game(game, iterations, rule)
        for joints, policies_ in (
            (game.row_joints, (solution.row, solution.last_row)),
            (game.column_joints, (solution.column, solution.last_column)),
        ):
            for policy in policies_:
                with np.errstate(divide="ignore"):
                    found.append(decompose.theorem1_error(joints, np.log(policy)))
    return found
