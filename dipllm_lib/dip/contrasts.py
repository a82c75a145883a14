"""Paired contrasts of agents that played the same games, and what their intervals say.

Rows are those of `arena.one_vs_six`: the same game number means the same seat, end-year draw and
random numbers of the opponents, so differences are taken game by game and resampled within powers.
Results are in points (%), those of `centres` in centres. Verdicts are the words of `run.claims`:

    holds          the whole 95 % interval is above the bound
    fails          all of it is below
    not resolved   the bound lies inside
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import arena
from dipllm_lib.run import claims, stats

Pair = tuple[str, str]


def table(
    per_game: pd.DataFrame,
    pairs: Mapping[str, Pair],
    measure: str,
    rng: np.random.Generator,
    resamples: int,
    by: str = "one",
) -> pd.DataFrame:
    """first - second for each label -> (first, second), paired by game.

    by: the column that holds the two names, `one` or `six`; within each of them the other column
    must have one value. Columns contrast, first, second, measure, mean, low, high (points), games,
    verdict (is it above 0?). ValueError for a name that is missing or has several opponents, and if
    the games are not the same.
    """
    rows = []
    for label, (first, second) in pairs.items():
        both = [_of(per_game, name, by) for name in (first, second)]
        found = arena.difference(*both, measure, rng, resamples)
        mean, low, high = (_unit(measure) * value for value in found)
        row = {"contrast": label, "first": first, "second": second, "measure": measure}
        row |= {"mean": mean, "low": low, "high": high, "games": len(both[0])}
        rows.append(row | {"verdict": claims.verdict(mean, low, high, above=0)})
    return pd.DataFrame(rows)


def points(differences: pd.DataFrame) -> pd.DataFrame:
    """A table of `arena.differences` or `population.differences` as one of this module: contrast
    is "one − other", estimates in points. games: blocks for a population.
    """
    found = differences.rename(columns={"one": "first", "other": "second", "blocks": "games"})
    found.insert(0, "contrast", found["first"] + " − " + found["second"])
    units = found["measure"].map(_unit)
    return found.assign(**{name: units * found[name] for name in ("mean", "low", "high")})


def slope(
    per_game: pd.DataFrame,
    x: Mapping[str, float],
    measure: str,
    rng: np.random.Generator,
    resamples: int,
    by: str = "one",
) -> tuple[float, float, float]:
    """(slope, low, high) of the least-squares line of `measure` on x, in points per unit of x.

    x: name -> its x, for instance the log of 1 + games. All names play the same games; the slope of
    each game is taken, and games are resampled within powers. ValueError as in `table`, and if all
    x are equal.
    """
    parts = [_of(per_game, name, by) for name in x]
    games = [list(zip(part["game"], part["power"])) for part in parts]
    if any(own != games[0] for own in games):
        raise ValueError("a slope needs the same games and seats at every x")
    values = np.stack([part[measure].to_numpy(np.float64) for part in parts])
    slopes = _unit(measure) * (weights(list(x.values())) @ values)
    strata = parts[0]["power"].to_numpy() if len(slopes) > 7 else None
    return stats.mean_interval(slopes, rng, resamples, strata)


def weights(x: Sequence[float]) -> np.ndarray:
    """(n,) with weights @ y the slope of the least-squares line of y on x. ValueError if all x are
    equal.
    """
    centred = np.asarray(x, np.float64) - np.mean(x)
    if not np.any(np.abs(centred) > 1e-12):
        raise ValueError(f"a slope needs different x, got {list(x)}")
    return centred / (centred @ centred)


def against(scores: pd.DataFrame, bound: float, measure: str = "sos") -> pd.DataFrame:
    """The table (of `report.scores` or `beside`) with a column verdict: is the measure above bound?

    measure: the column with the estimate, its interval beside it. Missing where it is missing.
    """
    found = [
        None if np.isnan(mean) else claims.verdict(mean, low, high, above=bound)
        for mean, low, high in scores[[measure, f"{measure}_low", f"{measure}_high"]].to_numpy(
            float
        )
    ]
    return scores.assign(verdict=found)


def _unit(measure: str) -> float:
    return 1.0 if measure == "centres" else 100.0


def _of(per_game: pd.DataFrame, name: str, by: str) -> pd.DataFrame:
    """The games of one name, in order of the game."""
    found, other = per_game[per_game[by] == name], {"one": "six", "six": "one"}[by]
    if found.empty:
        raise ValueError(f"no games of {name!r} in column {by!r}: {sorted(set(per_game[by]))}")
    if found[other].nunique() != 1 or found["game"].duplicated().any():
        raise ValueError(f"{name}: several pairings, {sorted(set(found[other]))}; select one")
    return found.sort_values("game")
