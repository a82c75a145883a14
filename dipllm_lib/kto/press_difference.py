"""What press changes in the share of the sum of squares, paired by game.

Of the powers that negotiate in an arm, SoS at the end with press minus SoS of the same powers in
the same games without press; the mean over them is one number per game, and intervals resample
games within the seat that game g mod 7 has. Shares of all seven sum to 1, so where all negotiate
the mean says nothing and spread is compared: the standard deviation of the seven shares, and the
largest one.
"""

import numpy as np
import pandas as pd

from dipllm_lib.kto.press_arms import OFF, Arm, negotiating
from dipllm_lib.run import stats

MEASURES = {
    "negotiators": "mean SoS of the powers that negotiate alike",
    "others": "mean SoS of the other powers",
    "spread": "standard deviation of the seven SoS",
    "largest": "largest of the seven SoS",
}


def shares(ends: pd.DataFrame, arm: str) -> pd.DataFrame:
    """SoS of an arm: index game, columns power 0 to 6. ValueError if the arm was not played."""
    rows = ends[ends["arm"] == arm]
    if rows.empty:
        raise ValueError(f"no games of the arm {arm!r}: play it first")
    return rows.pivot(index="game", columns="power", values="sos")


def measures(table: pd.DataFrame, way: str) -> pd.DataFrame:
    """The measures of each game; those of the negotiators are missing where all negotiate."""
    values, out = table.to_numpy(), pd.DataFrame(index=table.index)
    if way != "all":
        own = np.array([np.isin(np.arange(7), negotiating(way, g)) for g in table.index])
        out["negotiators"] = (values * own).sum(axis=1) / own.sum(axis=1)
        out["others"] = (values * ~own).sum(axis=1) / (~own).sum(axis=1)
    out["spread"], out["largest"] = values.std(axis=1), values.max(axis=1)
    return out


def differences(
    ends: pd.DataFrame, arms: list[Arm], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Every arm minus the games without press: arm, measure, with_press, without, value, low, high
    (shares of SoS), games, changed (whether the interval excludes 0), definition.
    """
    out = []
    for arm in arms:
        if arm.who is None:
            continue
        with_press = measures(shares(ends, arm.name), arm.way)
        without = measures(shares(ends, OFF).reindex(with_press.index), arm.way)
        if without.isna().any(axis=None):
            raise ValueError(f"arm {arm.name}: some of its games were not played without press")
        strata = with_press.index.to_numpy() % 7 if len(with_press) > 7 else None
        for measure in with_press.columns:
            a, b = with_press[measure].to_numpy(), without[measure].to_numpy()
            mean, low, high = stats.paired_interval(a, b, rng, resamples, strata)
            row = {"arm": arm.name, "measure": measure, "with_press": a.mean(), "without": b.mean()}
            row |= {"value": mean, "low": low, "high": high, "games": len(a)}
            out.append(row | {"changed": low > 0 or high < 0, "definition": MEASURES[measure]})
    return pd.DataFrame(out)
