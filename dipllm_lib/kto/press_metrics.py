"""How powers negotiate, in numbers with 95 % bootstrap intervals over whole games.

A rate is a ratio of two counts over the games of an arm, so games are resampled and both counts
summed again (the ratio estimator; Efron and Tibshirani 1993, section 10.4). Tables have the columns
arm, negotiator, what the rows are by, then value, low, high, n (the denominator), games, unit; a
rate of nothing is missing. `definitions` says in words what each metric is.

None of these numbers is published: grammar, thresholds and metrics are ours.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dipllm_lib.run.stats import LEVEL

DEFINITIONS = {
    "proposals": "proposals sent per power and movement phase",
    "acceptance": "yes / proposals; silence counts as no",
    "silence": "proposals left without an answer / proposals",
    "promise keeping": "kept / exposed; exposed: a legal order breaks it, or fulfils its duty",
    "keeping where possible": "as promise keeping, without duties that no candidate could meet",
    "double dealing": "alliances against a power with which one is at peace / alliances in force",
    "agreement length": "movement phases that an agreement is in force, renewals joined",
    "change after a breach": "SoS change in the year after the first own breach, minus that of the "
    "same power and phase without a breach so far",
    "forecast top-1": "answers that the sign of the recipient's worth tells / answers",
    "base rate top-1": "share of the more frequent answer",
    "forecast Brier": "mean squared error of that forecast as 1 or 0",
    "base rate Brier": "the same of the acceptance rate as the forecast",
}


class Rate(NamedTuple):
    """Sum of `top` over sum of `below`, columns of a table of rows."""

    top: str
    below: str
    unit: str = "share"


def definitions() -> pd.DataFrame:
    """Columns metric, definition, published (nothing is)."""
    rows = [{"metric": k, "definition": v, "published": "–"} for k, v in DEFINITIONS.items()]
    return pd.DataFrame(rows)


def ratio(
    top: np.ndarray, below: np.ndarray, rng: np.random.Generator, resamples: int
) -> tuple[float, float, float]:
    """(ratio, low, high) of the sums of two counts (G,) of G games. NaN where `below` sums to 0;
    resamples without a denominator are left out.
    """
    if len(top) != len(below) or not len(top):
        raise ValueError(f"a ratio needs two counts of each game, got {len(top)} and {len(below)}")
    if below.sum() == 0:
        return (float("nan"),) * 3
    weights = rng.multinomial(len(top), np.full(len(top), 1 / len(top)), size=resamples)
    sums = weights @ np.column_stack([top, below])
    some = sums[:, 1] > 0
    found = sums[some, 0] / sums[some, 1]
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(top.sum() / below.sum()), float(low), float(high)


def rates(
    rows: pd.DataFrame,
    games: pd.DataFrame,
    by: Sequence[str],
    rate: Rate,
    rng: np.random.Generator,
    resamples: int,
) -> pd.DataFrame:
    """A rate for each arm and value of `by`. games: columns arm, game of all games played, also of
    those without such a row, since those are resampled too.
    """
    every = {arm: np.unique(part) for arm, part in games.groupby("arm", sort=False)["game"]}
    out = []
    for keys, part in rows.groupby(["arm", *by], sort=True):
        numbers = every[keys[0]]
        sums = part.groupby("game")[[rate.top, rate.below]].sum().reindex(numbers, fill_value=0)
        top, below = (sums[name].to_numpy(np.float64) for name in (rate.top, rate.below))
        found = ratio(top, below, rng, resamples)
        row = dict(zip(("arm", *by), keys)) | dict(zip(("value", "low", "high"), found))
        out.append(row | {"n": below.sum(), "games": len(numbers), "unit": rate.unit})
    return pd.DataFrame(out)


def sending(
    letters: pd.DataFrame, seats: pd.DataFrame, by: Sequence[str], rng, resamples: int
) -> pd.DataFrame:
    """Proposals per power and movement phase. by: `negotiator`, and `kind` or `year`. The powers
    and phases of a kind are all that its negotiator had, whether it sent such a one or not.
    """
    group = [name for name in by if name != "kind"]
    base = seats.groupby(["arm", "game", *group]).size().rename("below").reset_index()
    sent = letters.groupby(["arm", "game", *by]).size().rename("top").reset_index()
    if "kind" in by:
        base = base.merge(letters[["arm", "kind"]].drop_duplicates(), on="arm")
    rows = base.merge(sent, on=["arm", "game", *by], how="left").fillna({"top": 0})
    return rates(rows, seats, by, Rate("top", "below", "proposals"), rng, resamples)


def answers(letters: pd.DataFrame, games, by: Sequence[str], rng, resamples: int) -> pd.DataFrame:
    """Share of proposals that were accepted: column value; `silence` is the share unanswered."""
    rows = letters.assign(one=1, yes=letters["answer"] == "yes")
    found = rates(rows, games, by, Rate("yes", "one"), rng, resamples)
    quiet = (letters["answer"] == "silence").groupby([letters["arm"], *(letters[b] for b in by)])
    return found.assign(silence=quiet.mean().to_numpy())


def keeping(
    terms: pd.DataFrame, games, by: Sequence[str], rng, resamples: int, possible: bool = False
) -> pd.DataFrame:
    """Promise keeping: kept / exposed. possible: without duties that no candidate could meet."""
    rows = terms[terms["exposed"] & ~(possible & terms["fell"])]
    rows = rows.assign(one=1, kept=~rows["broken"])
    return rates(rows, games, by, Rate("kept", "one"), rng, resamples)


def double_dealing(terms: pd.DataFrame, games, by, rng, resamples: int) -> pd.DataFrame:
    """Share of alliances in force against a power with which their holder is at peace."""
    place = ["arm", "game", "phase", "power"]
    peace = terms.loc[terms["kind"] == "peace", [*place, "partner"]]
    peace = peace.drop_duplicates().rename(columns={"partner": "against"}).assign(both=1)
    allied = terms[terms["kind"] == "alliance"].merge(peace, on=[*place, "against"], how="left")
    allied = allied.assign(one=1, both=allied["both"].fillna(0))
    return rates(allied, games, by, Rate("both", "one"), rng, resamples)


def lengths(terms: pd.DataFrame, games, by, rng, resamples: int) -> pd.DataFrame:
    """Mean movement phases that an agreement lasts; one renewed without a gap is one."""
    who = ["arm", "game", "text", "power", "partner"]
    rows = terms.drop_duplicates([*who, "phase"]).sort_values([*who, "phase"])
    fresh = (rows.groupby(who)["phase"].diff() != 1).astype(int)
    rows = rows.assign(start=fresh, one=1)
    return rates(rows, games, by, Rate("one", "start", "movement phases"), rng, resamples)


def after_breach(
    terms: pd.DataFrame, seats: pd.DataFrame, by, rng, resamples: int, chosen: bool = True
) -> pd.DataFrame:
    """SoS change in the year after a power's first own breach of a game, minus the mean change of
    the same arm, power and phase where it was exposed and had broken nothing so far.

    chosen: only breaches that could have been avoided. Breaches without a match are left out.
    """
    place = ["arm", "game", "phase", "power"]
    bad = terms["broken"] & ~(chosen & terms["fell"])
    each = terms.assign(bad=bad).groupby(place)[["bad", "exposed"]].any().reset_index()
    rows = seats.merge(each, on=place, how="inner").sort_values(place)
    so_far = rows.groupby(["arm", "game", "power"])["bad"].cumsum()
    rows = rows.assign(change=rows["later"] - rows["sos"], so_far=so_far)
    first = rows[rows["bad"] & (rows["so_far"] == 1)]
    calm = rows[rows["exposed"] & (rows["so_far"] == 0)]
    cells = calm.groupby(["arm", "power", "phase"])["change"].mean().rename("matched").reset_index()
    pairs = first.merge(cells, on=["arm", "power", "phase"])
    pairs = pairs.assign(one=1, difference=pairs["change"] - pairs["matched"])
    if pairs.empty:
        return pd.DataFrame(columns=["arm", *by, "value", "low", "high", "n", "games", "unit"])
    return rates(pairs, seats, by, Rate("difference", "one", "share of SoS"), rng, resamples)


def forecasts(
    letters: pd.DataFrame, games, by, rng, resamples: int, chance: str = ""
) -> pd.DataFrame:
    """How well the sign of the recipient's worth tells its answer, beside the base rate: columns
    metric, then as the other tables. Silence is left out. chance: a column with P(yes) to be used
    instead of the sign."""
    rows = letters[letters["answer"] != "silence"]
    yes = (rows["answer"] == "yes").astype(float)
    told = rows[chance] if chance else (rows["worth_recipient"] >= 0).astype(float)
    usual = yes.groupby([rows["arm"], *(rows[b] for b in by)]).transform("mean")
    columns = {
        "forecast top-1": (told >= 0.5) == (yes > 0),
        "base rate top-1": (usual >= 0.5) == (yes > 0),
        "forecast Brier": (told - yes) ** 2,
        "base rate Brier": (usual - yes) ** 2,
    }
    parts = [
        rates(rows.assign(one=1, hit=hit), games, by, Rate("hit", "one"), rng, resamples).assign(
            metric=name
        )
        for name, hit in columns.items()
    ]
    return pd.concat(parts, ignore_index=True)
