"""The contrasts of Fig. 2 (PPI) and Fig. 4 (A2C): directions of the paper, one number per seed.

Unit is the seed, the mean of its two learners where their roles are the same. Each is stated to be
positive, except two of panel B: what the learner concedes to AllD and to the average tabular agent
at the end of a game, minus what the certainty-equivalent player concedes, is expected not to be
above 0, so `reversed` or `open` is as expected. `late` is the last third of the training, `early`
the first 5 and `late in a game` the last 20 rounds. The column `paper` has the difference that the
published landmarks imply, nan where they do not show both ends.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dipllm_lib.ipd import contrasts, evaluate, published
from dipllm_lib.ipd import mechanism_tables as panels

COLUMNS = ("panel", "key", "contrast", "noise", "mean", "low", "high", "seeds", "verdict", "paper")
SKIPPED = 2  # rounds at the begin of a game that panel F leaves out


class Contrast(NamedTuple):
    """panel: as 2C · key: its name in `published` · label · noise · values: index seed."""

    panel: str
    key: str
    label: str
    noise: str
    values: pd.Series


def _mean(table: pd.DataFrame, column: str) -> pd.Series:
    """Mean of each seed; ValueError where seeds have different numbers of rows."""
    return contrasts.by_seed(table, column, {})


def _noises(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["noise"]))


def step1(found: Sequence[dict], conceded: Mapping[str, float]) -> list[Contrast]:
    """Panels A and B. conceded: of reference_chain.late_cooperation, `AllD` and `tabular`."""
    figure, made = panels.FIGURES[found[0]["learner"]], []
    table = panels.evaluators(found)
    for noise in _noises(table):
        own = {name: rows for name, rows in table[table["noise"] == noise].groupby("opponent")}
        tft, pool = own["TFT"], own[evaluate.POOL]
        label = "TFT: cooperation late in a game − early"
        values = _mean(tft, "late") - _mean(tft, "early")
        made.append(Contrast(f"{figure}B", "TFT", label, noise, values))
        for name, counted in conceded.items():
            label = f"{name}: cooperation late in a game − Bayes player's (expected ≤ 0)"
            values = _mean(own[name], "late") - counted
            made.append(Contrast(f"{figure}B", f"late {name}", label, noise, values))
        values = _mean(pool, "reward") - _mean(pool, "alld")
        made.append(Contrast(f"{figure}A", "alld", "reward − AllD's, tabular", noise, values))
    return made


def against(found: Sequence[dict], values: Mapping[str, float]) -> list[Contrast]:
    """Step 1's reward on the pool, 1 + its gain over AllD in the same games, minus each exact value
    (label -> reward), as those of the Bayes-optimal player and of the known best response."""
    figure, made = panels.FIGURES[found[0]["learner"]], []
    table = panels.evaluators(found)
    for noise in _noises(table):
        pool = table[(table["noise"] == noise) & (table["opponent"] == evaluate.POOL)]
        gain = 1.0 + _mean(pool, "reward") - _mean(pool, "alld")
        for name, value in values.items():
            made.append(Contrast(f"{figure}A", name, f"reward − {name}", noise, gain - value))
    return made


def step2(found: Sequence[dict]) -> list[Contrast]:
    """Panels C and D: shares, and the cooperation of Fixed-ICL."""
    figure, made = panels.FIGURES[found[0]["learner"]], []
    c, d = panels.panel_c(found), panels.panel_d(found)
    last = d[d["round"] > d["round"].max() - evaluate.LATE]
    first = d[d["round"] <= evaluate.EARLY]
    for noise in _noises(c):
        own = c[c["noise"] == noise]
        late, start = panels.late(own), own[own[panels.axis(own)] == own[panels.axis(own)].min()]
        end, begin = last[last["noise"] == noise], first[first["noise"] == noise]
        gap = _mean(late, "reward") - _mean(late, "other_reward")
        made.append(Contrast(f"{figure}C", "share", "s_X − s_Y, late", noise, gap))
        grown = _mean(late, "other_cooperation") - _mean(start, "other_cooperation")
        label = "cooperation of Fixed-ICL: late in training − first"
        made.append(Contrast(f"{figure}C", "victim", label, noise, grown))
        gap = _mean(end, "reward") - _mean(end, "other_reward")
        made.append(Contrast(f"{figure}D", "share", "s_X − s_Y, late in a game", noise, gap))
        grown = _mean(end, "other_cooperation") - _mean(begin, "other_cooperation")
        label = "cooperation of Fixed-ICL: late in a game − early"
        made.append(Contrast(f"{figure}D", "victim", label, noise, grown))
    return made


def step3(found: Sequence[dict]) -> list[Contrast]:
    """Panels E and F; E for each seat, with its drift after the middle of the training."""
    figure, made = panels.FIGURES[found[0]["learner"]], []
    e, f = panels.panel_e(found), panels.panel_f(found)
    for noise in _noises(e):
        for seat in sorted(e["seat"].unique()):
            own = e[(e["noise"] == noise) & (e["seat"] == seat)]
            x = panels.axis(own)
            late, start = panels.late(own), own[own[x] == own[x].min()]
            grown = _mean(late, "cooperation") - _mean(start, "cooperation")
            label = f"cooperation of seat {seat}: late − first"
            made.append(Contrast(f"{figure}E", f"seat {seat}", label, noise, grown))
        own = e[e["noise"] == noise]
        made += _drift(figure, own, noise)
        made.append(_within(figure, f[f["noise"] == noise], noise))
    return made


def _drift(figure: str, own: pd.DataFrame, noise: str) -> list[Contrast]:
    """Last third minus the middle one; none where there are less than three phases."""
    x = panels.axis(own)
    known = sorted(own[x].unique())
    if len(known) < 3:
        return []
    late = panels.late(own)
    size = late[x].nunique()
    middle = own[own[x].isin(known[-2 * size : -size])]
    drift = _mean(late, "cooperation") - _mean(middle, "cooperation")
    label = "cooperation: last third − middle third (below 0: it falls back)"
    return [Contrast(f"{figure}E", "drift", label, noise, drift)]


def _within(figure: str, own: pd.DataFrame, noise: str) -> Contrast:
    """Panel F: the last quarter of a game minus its rounds 3 … T/10 (at least round 3)."""
    length = int(own["round"].max())
    last = own[own["round"] > 3 * length / 4]
    first = own[(own["round"] > SKIPPED) & (own["round"] <= max(SKIPPED + 1, length // 10))]
    grown = _mean(last, "cooperation") - _mean(first, "cooperation")
    label = "before training: cooperation in the last quarter of a game − rounds 3 … T/10"
    return Contrast(f"{figure}F", "within", label, noise, grown)


def judged(made: Sequence[Contrast], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """COLUMNS, a row per contrast: mean and 95 % interval over seeds, verdict, and the paper's."""
    rows = []
    for one in made:
        (row,) = contrasts.judged({one.label: one.values}, rng, resamples).to_dict("records")
        named = {"panel": one.panel, "key": one.key, "noise": one.noise}
        rows.append(row | named | {"paper": published.contrast(one.panel, one.key)})
    return pd.DataFrame(rows)[list(COLUMNS)]


def chi(shares: pd.DataFrame, learner: str, seeds: int) -> pd.DataFrame:
    """Rows of `judged` for χ − 1, from mechanism_tables.shares; nan and `open` where it is not
    defined, as the victim is not above P by two standard errors."""
    rows = []
    for one in shares.to_dict("records"):
        panel = panels.FIGURES[learner] + {"late": "C", "game end": "D"}[one["window"]]
        low, high = one["low"] - 1.0, one["high"] - 1.0
        told = contrasts.verdict(low, high) if seeds >= contrasts.FEWEST else "open"
        row = {"panel": panel, "key": "chi", "contrast": f"χ − 1, {one['window']}"}
        row |= {"noise": one["noise"], "mean": one["chi"] - 1.0, "low": low, "high": high}
        row |= {"seeds": seeds, "verdict": told, "paper": published.contrast(panel, "chi")}
        rows.append(row)
    return pd.DataFrame(rows)[list(COLUMNS)]


def per_seed(made: Sequence[Contrast]) -> pd.DataFrame:
    """Columns panel, key, noise, contrast, seed, value: all that is behind `judged`."""
    parts = [
        pd.DataFrame({
            "panel": one.panel, "key": one.key, "noise": one.noise, "contrast": one.label,
            "seed": one.values.index, "value": one.values.to_numpy(dtype=np.float64),
        })
        for one in made
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def with_noise(table: pd.DataFrame, noises: Sequence[str]) -> pd.DataFrame:
    """Rows of `judged` or `per_seed` at these levels of noise, which enter the contrasts' names."""
    own = table[table["noise"].isin(noises)]
    return own.assign(contrast=own["contrast"] + ", noise " + own["noise"])
