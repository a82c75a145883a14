"""The three phases of negotiation as statistics, the same for every negotiator (spec. 10.5).

    goodwill     share of balanced symmetric proposals (peace or zone, worths of both sides within
                 0.01 of SoS of each other) among all proposals, by year; `drift`: that of the last
                 year minus that of the first
    punishment   P(alliance against X within two phases | X has just refused two reasonable
                 proposals of i in a row) - P(the same | no such trigger, same year); reasonable: a
                 peace or zone worth 0 or more to X. Once for alliances that i proposed, once for
                 alliances that it made
    avalanche    phases with two or more own breaches that could be avoided and two or more centres
                 gained by the next adjustment, per power, game and year

Controls: Random for the first two (flat over years; about 0), `binding` and Silent for the third
(0 by construction). Intervals are over whole games; the difference of punishment weighs each year
by its triggers.
"""

import numpy as np
import pandas as pd

from dipllm_lib.kto.negotiators import BALANCE
from dipllm_lib.kto.press_metrics import Rate, rates
from dipllm_lib.run.stats import LEVEL

WITHIN = 2  # movement phases after the one of the trigger
BREACHES, CENTRES = 2, 2  # of an avalanche


def goodwill(letters: pd.DataFrame, games, rng, resamples: int) -> pd.DataFrame:
    """Balanced symmetric proposals / proposals: arm, negotiator, year, value, low, high, n."""
    rows = letters.assign(one=1, balanced=balanced(letters))
    return rates(rows, games, ["negotiator", "year"], Rate("balanced", "one"), rng, resamples)


def drift(letters: pd.DataFrame, games, rng, resamples: int) -> pd.DataFrame:
    """The share of `goodwill` in the last year minus that in the first, both of the same resampled
    games: arm, negotiator, value, low, high, n (proposals of the two years), games. Missing where
    there is one year only.
    """
    rows, out = letters.assign(one=1, balanced=balanced(letters)), []
    for (arm, name), part in rows.groupby(["arm", "negotiator"], sort=True):
        numbers = np.unique(games.loc[games["arm"] == arm, "game"])
        weights = rng.multinomial(len(numbers), np.full(len(numbers), 1 / len(numbers)), resamples)
        values, ends, total, shares = np.nan, (np.nan, np.nan), 0, []
        for year in (part["year"].min(), part["year"].max()):
            own = part[part["year"] == year].groupby("game")[["balanced", "one"]].sum()
            counts = own.reindex(numbers, fill_value=0).to_numpy(np.float64)
            sums = np.vstack([counts.sum(axis=0), weights @ counts])
            total += int(sums[0, 1])
            with np.errstate(invalid="ignore"):
                shares.append(sums[:, 0] / sums[:, 1])
        if part["year"].nunique() > 1:
            change = shares[1] - shares[0]
            values, ends = change[0], np.nanquantile(change[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        row = {"arm": arm, "negotiator": name, "value": values, "low": ends[0], "high": ends[1]}
        out.append(row | {"n": total, "games": len(numbers)})
    return pd.DataFrame(out)


def balanced(letters: pd.DataFrame) -> pd.Series:
    """Which proposals are symmetric and worth nearly the same to both."""
    gap = (letters["worth_sender"] - letters["worth_recipient"]).abs()
    return letters["kind"].isin(("peace", "zone")) & (gap <= BALANCE)


def triggers(letters: pd.DataFrame, seats: pd.DataFrame) -> pd.DataFrame:
    """A row for every power i, other power X and movement phase: arm, game, phase, year, power,
    other, negotiator, trigger (X refused in this phase, for at least the second time in a row),
    proposed, made (an alliance of i against X in one of the next two phases). Rows whose next
    phases are not in the game are left out.
    """
    keys = ["arm", "game", "phase", "power"]
    rows = seats[[*keys, "year", "negotiator"]].merge(
        seats[keys].rename(columns={"power": "other"}), on=["arm", "game", "phase"]
    )
    rows = rows[rows["power"] != rows["other"]]
    last = seats.groupby(["arm", "game"])["phase"].max().rename("last").reset_index()
    rows = rows.merge(last, on=["arm", "game"])
    rows = rows[rows["phase"] + 1 <= rows["last"]].drop(columns="last")
    refused = _refusals(letters)
    rows = rows.merge(refused, on=[*keys, "other"], how="left").fillna({"row": 0})
    rows = rows.assign(trigger=rows["row"] >= 2).drop(columns="row")
    allied = letters[letters["kind"] == "alliance"]
    yes = allied[allied["answer"] == "yes"]
    both = pd.concat([yes, yes.rename(columns={"sender": "recipient", "recipient": "sender"})])
    return rows.assign(proposed=_follows(rows, allied), made=_follows(rows, both))


def _refusals(letters: pd.DataFrame) -> pd.DataFrame:
    """Refusals in a row at each reasonable proposal: arm, game, phase, power, other, row."""
    fair = letters["kind"].isin(("peace", "zone")) & (letters["worth_recipient"] >= 0)
    rows = letters[fair].rename(columns={"sender": "power", "recipient": "other"})
    who = ["arm", "game", "power", "other"]
    rows = rows.sort_values([*who, "phase"])
    yes = rows["answer"] == "yes"
    run = yes.groupby([rows[name] for name in who]).cumsum()
    count = (~yes).groupby([*(rows[name] for name in who), run]).cumsum()
    return rows.assign(row=count)[["arm", "game", "phase", "power", "other", "row"]]


def _follows(rows: pd.DataFrame, allied: pd.DataFrame) -> np.ndarray:
    """For each row whether its power has an alliance against `other` within the next phases."""
    columns = ["arm", "game", "phase", "sender", "against"]
    known = set(allied[columns].itertuples(index=False, name=None))
    places = zip(rows["arm"], rows["game"], rows["phase"], rows["power"], rows["other"])
    return np.array([
        any((arm, game, phase + step, own, other) in known for step in range(1, WITHIN + 1))
        for arm, game, phase, own, other in places
    ])


def punishment(
    letters: pd.DataFrame, seats: pd.DataFrame, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """arm, negotiator, alliance (proposed or made), triggered, otherwise (the two probabilities,
    both weighted by the years of the triggers), value (their difference), low, high, n (triggers),
    games. Missing where nothing was triggered.
    """
    rows, out = triggers(letters, seats), []
    for (arm, name), part in rows.groupby(["arm", "negotiator"], sort=True):
        numbers = np.unique(seats.loc[seats["arm"] == arm, "game"])
        weights = rng.multinomial(len(numbers), np.full(len(numbers), 1 / len(numbers)), resamples)
        for alliance in ("proposed", "made"):
            counts = _by_year(part, alliance, numbers)
            first, second = _difference(counts.sum(axis=0, keepdims=True))
            draws = np.subtract(*_difference(np.tensordot(weights.astype(float), counts, 1)))
            ends = (np.nan, np.nan)
            if np.isfinite(draws).any():
                ends = np.nanquantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
            row = {"arm": arm, "negotiator": name, "alliance": alliance}
            row |= {"triggered": first[0], "otherwise": second[0], "value": first[0] - second[0]}
            row |= {"low": ends[0], "high": ends[1], "n": int(part["trigger"].sum())}
            out.append(row | {"games": len(numbers)})
    return pd.DataFrame(out)


def _by_year(part: pd.DataFrame, alliance: str, numbers: np.ndarray) -> np.ndarray:
    """(G, Y, 4) counts of each game and year: triggers, alliances after them, other rows,
    alliances after those."""
    years = np.unique(part["year"])
    counts = np.zeros((len(numbers), len(years), 4))
    at = (np.searchsorted(numbers, part["game"]), np.searchsorted(years, part["year"]))
    trigger, after = part["trigger"].to_numpy(bool), part[alliance].to_numpy(bool)
    for column, which in enumerate((trigger, trigger & after, ~trigger, ~trigger & after)):
        np.add.at(counts[:, :, column], at, which)
    return counts


def _difference(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities after a trigger and otherwise (R,), from counts (R, Y, 4); years without both
    kinds of rows do not count."""
    usable = (counts[:, :, 0] > 0) & (counts[:, :, 2] > 0)
    weight = np.where(usable, counts[:, :, 0], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = [
            np.where(usable, counts[:, :, a] / counts[:, :, b], 0) for a, b in ((1, 0), (3, 2))
        ]
        total = weight.sum(axis=1)
        first, second = ((weight * share).sum(axis=1) / total for share in shares)
    return first, second


def avalanche(terms: pd.DataFrame, seats: pd.DataFrame, rng, resamples: int) -> pd.DataFrame:
    """Avalanches per power, game and year: arm, negotiator, year, value, low, high, n (powers times
    games in which they had a unit that year), games, unit."""
    place = ["arm", "game", "phase", "power"]
    bad = terms.assign(bad=terms["broken"] & ~terms["fell"]).groupby(place)["bad"].sum()
    rows = seats.merge(bad.rename("bad").reset_index(), on=place, how="left").fillna({"bad": 0})
    storm = (rows["bad"] >= BREACHES) & (rows["gained"] >= CENTRES)
    first = ~rows.duplicated(["arm", "game", "power", "year"])
    rows = rows.assign(storm=storm.astype(int), one=first.astype(int))
    rate = Rate("storm", "one", "phases per power, game and year")
    return rates(rows, seats, ["negotiator", "year"], rate, rng, resamples)
