"""Contrasts whose unit is the seed, and what their intervals say.

A seed's value is the mean over its learners and over the phases of a stated window; two arms are
compared seed by seed, since an arm shares the random numbers of the others. Verdict of a contrast
that is stated to be positive:

    shown      the whole 95 % interval (bootstrap over seeds) is above 0
    reversed   all of it is below
    open       0 lies inside, or there are fewer than FEWEST seeds
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.run import stats

FEWEST = 3


def last_third(phases: Sequence[int]) -> list[int]:
    """The last third of the phases (or iterations) that occur, rounded up."""
    known = sorted(set(phases))
    return known[len(known) - -(-len(known) // 3) :]


def by_seed(table: pd.DataFrame, measure: str, where: Mapping[str, object]) -> pd.Series:
    """Mean of `measure` of each seed over the rows that `where` selects; index seed, sorted.

    where: column -> a value, or a list of values. ValueError if a column is missing, nothing is
    left, or the seeds do not all have as many rows.
    """
    part = table
    for column, value in where.items():
        if column not in table:
            raise ValueError(f"the table has no column {column}: {list(table.columns)}")
        part = part[part[column].isin(value if isinstance(value, (list, tuple)) else [value])]
    groups = part.groupby("seed")[measure]
    if part.empty or groups.size().nunique() != 1:
        raise ValueError(f"{dict(where)} selects {groups.size().to_dict()} rows of the seeds")
    return groups.mean()


def difference(first: pd.Series, second: pd.Series | float) -> pd.Series:
    """first - second, seed by seed, or minus a number. ValueError if the seeds differ."""
    if isinstance(second, pd.Series) and list(first.index) != list(second.index):
        raise ValueError(f"seeds {list(first.index)} and {list(second.index)} are no pairs")
    return first - second


def verdict(low: float, high: float) -> str:
    """`shown`, `reversed` or `open` for an interval of a contrast that is stated to be positive."""
    return "shown" if low > 0 else "reversed" if high < 0 else "open"


def judged(
    contrasts: Mapping[str, pd.Series], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Columns contrast, mean, low, high, seeds, verdict; one row per named difference."""
    rows = []
    for name, values in contrasts.items():
        mean, low, high = stats.mean_interval(values, rng, resamples)
        row = {"contrast": name, "mean": mean, "low": low, "high": high, "seeds": len(values)}
        told = verdict(low, high) if len(values) >= FEWEST else "open"
        rows.append(row | {"verdict": told})
    return pd.DataFrame(rows)


def per_seed(contrasts: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Columns contrast, seed, value: all that is behind `judged`."""
    parts = [
        pd.DataFrame({"contrast": name, "seed": values.index, "value": values.to_numpy()})
        for name, values in contrasts.items()
    ]
    return pd.concat(parts, ignore_index=True)
