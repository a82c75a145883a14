"""How many games a difference needs.

The mean over powers of n games has the standard error

    SE = sd / sqrt(n)                             sd: of one game, within powers
    SE_diff = sqrt((sd1^2 + sd2^2 - 2 rho sd1 sd2) / n) = SE sqrt(2 (1 - rho))  where sd1 = sd2

rho = 0 for two arms on different games; two arms on the same games (power, seed) share random
numbers, and rho is what this pairing is worth. A two-sided test at 95 % finds a true gap g with
probability `power` when SE_diff <= g / (z_0.975 + z_power), 2.8 for 80 % (Cohen 1988, section 2.4).

Gaps, sd and errors have the unit of the measure: shares from 0 to 1 as in the rows of `arena`.
"""

from collections.abc import Mapping, Sequence
from math import ceil, inf, sqrt
from statistics import NormalDist

import numpy as np
import pandas as pd

POWER, LEVEL = 0.8, 0.95
GAMES = (42, 70, 140, 280, 700, 1400, 7000)


def factor(power: float = POWER) -> float:
    """Gap over standard error of a difference that is found with this probability, 2.80 for 0.8."""
    if not 0 < power < 1:
        raise ValueError(f"power {power}: need a probability between 0 and 1")
    return NormalDist().inv_cdf((1 + LEVEL) / 2) + NormalDist().inv_cdf(power)


def _centred(rows: pd.DataFrame, measure: str) -> tuple[np.ndarray, int]:
    """(values minus the mean of their power, in order of the game; degrees of freedom). With one
    game per power nothing varies within a power: then minus the mean of all.
    """
    ordered = rows.sort_values("game")
    values = ordered[measure].astype(float)
    games, powers = len(ordered), ordered["power"].nunique()
    if games > powers:
        within = values - values.groupby(ordered["power"]).transform("mean")
        return within.to_numpy(), games - powers
    if games < 2:
        raise ValueError(f"{games} games: a spread needs two or more")
    return (values - values.mean()).to_numpy(), games - 1


def spread(rows: pd.DataFrame, measure: str = "sos") -> float:
    """sd of one game within powers; rows of one pairing. ValueError for less than two games."""
    residuals, freedom = _centred(rows, measure)
    return float(np.sqrt((residuals**2).sum() / freedom))


def correlation(first: pd.DataFrame, second: pd.DataFrame, measure: str = "sos") -> float:
    """rho of two arms on the same games, within powers; 0 where an arm does not vary. ValueError if
    the games differ.
    """
    a, b = (rows.sort_values("game") for rows in (first, second))
    if a["game"].tolist() != b["game"].tolist() or a["power"].tolist() != b["power"].tolist():
        raise ValueError("a correlation needs the same games and seats in both tables")
    (x, _), (y, _) = _centred(a, measure), _centred(b, measure)
    scale = sqrt(float((x**2).sum() * (y**2).sum()))
    return float((x * y).sum() / scale) if scale else 0.0


def standard_error(
    sd: float, games: float, rho: float | None = None, other: float | None = None
) -> float:
    """SE of a mean of `games` games; with rho that of the difference of two arms, of which the
    second has the sd `other` (default the same).
    """
    if rho is None:
        return sd / sqrt(games)
    second = sd if other is None else other
    return sqrt(max(sd**2 + second**2 - 2 * rho * sd * second, 0.0) / games)


def smallest_gap(
    sd: float,
    games: float,
    rho: float | None = None,
    other: float | None = None,
    power: float = POWER,
) -> float:
    """The gap that `games` games find with probability `power`: against a fixed bound, as par, or
    with rho between two arms.
    """
    return factor(power) * standard_error(sd, games, rho, other)


def games_needed(
    gap: float,
    sd: float,
    rho: float | None = None,
    other: float | None = None,
    power: float = POWER,
) -> float:
    """Games of each arm that find `gap` with probability `power`, a multiple of 7; at least 14, so
    that a power has two. Infinite for a gap of 0. ValueError below 0.
    """
    if gap < 0:
        raise ValueError(f"a gap of {gap}: need 0 or more")
    if gap == 0:
        return inf
    wanted = (smallest_gap(sd, 1, rho, other, power) / gap) ** 2
    return max(14, 7 * ceil(round(wanted / 7, 9)))


def errors_table(sds: Sequence[float], games: Sequence[int] = GAMES) -> pd.DataFrame:
    """Standard errors of a mean in points (%): games, then a column for each sd."""
    columns = {f"sd {sd:g}": [100 * standard_error(sd, n) for n in games] for sd in sds}
    return pd.DataFrame({"games": list(games)} | columns)


def gaps_table(gaps: Sequence[float], sd: float, rho: float, power: float = POWER) -> pd.DataFrame:
    """Games of each arm by gap: gap (points), against a bound, unpaired, paired (at rho)."""
    rows = []
    for gap in gaps:
        needed = [games_needed(gap, sd, r, power=power) for r in (None, 0.0, rho)]
        rows.append({"gap": 100 * gap} | dict(zip(("bound", "unpaired", "paired"), needed)))
    return pd.DataFrame(rows)


def measured(
    rows: pd.DataFrame, reference: str | None = None, measure: str = "sos"
) -> pd.DataFrame:
    """What the games of each pairing can resolve, in points (%): one, six, games, sd (of a game),
    se (of the mean), gap (smallest one found against a fixed bound), and with a `reference` agent
    also rho (with its games against the same six), paired and unpaired (smallest gaps of the
    difference to it); NaN where it has not played the same games, and for the reference itself.
    """
    out = []
    for (one, six), own in rows.groupby(["one", "six"], sort=False):
        sd, n = spread(own, measure), len(own)
        row = {"one": one, "six": six, "games": n, "sd": 100 * sd}
        row |= {"se": 100 * standard_error(sd, n), "gap": 100 * smallest_gap(sd, n)}
        if reference is not None:
            base = rows[(rows["one"] == reference) & (rows["six"] == six) & (one != reference)]
            row |= _against(own, base, measure)
        out.append(row)
    return pd.DataFrame(out)


def _against(own: pd.DataFrame, base: pd.DataFrame, measure: str) -> Mapping[str, float]:
    """rho and the smallest gaps of `measured`, on the games that both have."""
    common = np.intersect1d(own["game"], base["game"])
    if len(common) < 2:
        return dict.fromkeys(("rho", "paired", "unpaired"), float("nan"))
    a, b = (part[part["game"].isin(common)] for part in (own, base))
    rho, sds = correlation(a, b, measure), [spread(part, measure) for part in (a, b)]
    gaps = [smallest_gap(sds[0], len(common), r, sds[1]) for r in (rho, 0.0)]
    return {"rho": rho, "paired": 100 * gaps[0], "unpaired": 100 * gaps[1]}
