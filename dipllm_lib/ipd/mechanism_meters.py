"""The four meters of extortion side by side, of trained extorters and of players that are known.

    1   share: χ = s_X / s_Y (P is 0) against Fixed-ICL, only where Fixed-ICL earns something
    2   line: slope and R² of s_X on s_Y over many opponents; R² 1 if X enforces the line
    3   fit: how many extorters a memory-one fit accepts as zero-determinant, and its error
    4   identity: a ZD player has |s_X - χ s_Y| <= 1/(φ T) against Fixed-ICL too, network or not

Meter 4 cannot be asked of a network; it says what a fixed extorter gets out of the same victim.
Unit of every interval is the seed.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.ipd import contrasts, exact, extortion, published, tabular
from dipllm_lib.ipd.mechanism_tables import FIGURES
from dipllm_lib.run import seeding, stats

COLUMNS = ("meter", "learner", "what", "value", "low", "high", "seeds", "verdict", "paper")
KNOWN = ("TFT", "ZD3", "GTFT", "WSLS", "AllD", "AllC")
STRAIGHT = 0.9  # R² from which a line is called one
AGAINST = {"frozen": "against Fixed-ICL", "tabular": "against tabular agents"}


def known(rounds: int, pool: str, seed: int, resamples: int, opponents: int = 200) -> pd.DataFrame:
    """Meters 2 and 3 of memory-one players, from exact payoffs against agents of the pool: columns
    player, slope, r2, phi, chi, sse, accepted, kappa, as of `extortion`."""
    rng = seeding.child(seed, "ipd", "meters", "known")
    drawn, rows = tabular.sample(pool, opponents, rng), []
    for name in KNOWN:
        vector = tabular.named(name)
        x, y = exact.finite(vector, drawn, rounds)
        line = extortion.line(x, y, rng, resamples)
        two, three = (extortion.fit(vector, constant=constant) for constant in (False, True))
        rows.append({"player": name, "slope": line.slope, "r2": line.r2, "phi": two.phi,
                     "chi": two.chi, "sse": two.sse, "accepted": two.accepted,
                     "kappa": three.kappa})  # fmt: skip
    return pd.DataFrame(rows)


def identity(
    evaluators: pd.DataFrame, rounds: int, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Meter 4 from what ZD players earn against the learner of step 1 (mechanism_tables.evaluators,
    noise on): columns chi, s_x, s_y, factor, gap, low, high, bound, within. gap: s_X - χ s_Y ·
    bound: 1/(φ T) · within: the interval of the gap reaches into ± bound."""
    own = evaluators[(evaluators["noise"] == "on") & evaluators["opponent"].str.startswith("ZD")]
    rows = []
    for name, part in own.groupby("opponent", sort=False):
        chi, means = float(name[2:]), part.groupby("seed")[["other_reward", "reward"]].mean()
        x, y = means["other_reward"], means["reward"]
        gap, low, high = stats.mean_interval(x - chi * y, rng, resamples)
        bound = (1.0 + 2.0 * chi) / rounds
        row = {"chi": chi, "s_x": x.mean(), "s_y": y.mean(), "factor": x.mean() / y.mean()}
        row |= {"gap": gap, "low": low, "high": high, "bound": bound}
        rows.append(row | {"within": bool(low <= bound and high >= -bound)})
    return pd.DataFrame(rows)


def side_by_side(
    learner: str,
    shares: pd.DataFrame,
    lines: pd.DataFrame,
    fits: pd.DataFrame,
    zd: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
) -> pd.DataFrame:
    """Rows of COLUMNS of one learner, noise on. shares, lines, fits: of mechanism_tables · zd: of
    `identity` · paper: its number, nan where it has none. Fewer than three seeds leave it open."""
    rows = [*_shares(learner, shares), *_lines(lines, rng, resamples)]
    rows += [*_fits(fits, rng, resamples), *_identity(zd)]
    table = pd.DataFrame(rows).assign(learner=learner)
    seeds = lines["seed"].nunique()
    table["seeds"] = seeds
    if seeds < contrasts.FEWEST:
        table["verdict"] = table["verdict"].where(table["verdict"] == "", extortion.OPEN)
    return table.reindex(columns=list(COLUMNS))


def _shares(learner: str, shares: pd.DataFrame) -> list[dict]:
    rows = []
    for one in shares[shares["noise"] == "on"].itertuples():
        panel = FIGURES[learner] + {"late": "C", "game end": "D"}[one.window]
        row = {"meter": 1, "what": f"χ, {one.window}", "value": one.chi, "low": one.low}
        row |= {"high": one.high, "verdict": one.verdict}
        rows.append(row | {"paper": published.contrast(panel, "chi") + 1.0})
    return rows


def _lines(lines: pd.DataFrame, rng: np.random.Generator, resamples: int) -> list[dict]:
    rows = []
    for kind, text in (("all", "all opponents"), ("tabular", "tabular agents")):
        means = lines[lines["kind"] == kind].groupby("seed")[["slope", "r2"]].mean()
        slope, r2 = (stats.mean_interval(means[c], rng, resamples) for c in ("slope", "r2"))
        told = "line" if r2[1] > STRAIGHT else "no line" if r2[2] < STRAIGHT else "open"
        for name, found in (("slope", slope), ("R²", r2)):
            verdict = told if name == "R²" else "above 1" if found[1] > 1.0 else "not above 1"
            rows.append(_row(2, f"{name}, {text}", found, verdict))
    return rows


def _fits(fits: pd.DataFrame, rng: np.random.Generator, resamples: int) -> list[dict]:
    rows = []
    for against, text in AGAINST.items():
        own = fits[fits["against"] == against].astype({"accepted": float})
        means = own.groupby("seed")[["accepted", "sse"]].mean()
        share, error = (stats.mean_interval(means[c], rng, resamples) for c in ("accepted", "sse"))
        told = "extortion" if share[1] > 0.5 else "neither" if share[2] < 0.5 else "open"
        rows.append(_row(3, f"accepted as ZD, {text}", share, told))
        rows.append(_row(3, f"squared error, {text}", error, ""))
    return rows


def _identity(zd: pd.DataFrame) -> list[dict]:
    rows = []
    for one in zd.itertuples():
        found = one.gap, one.low, one.high
        told = "within" if one.within else "outside"
        what = f"s_X − χ s_Y of ZD, χ = {one.chi:g}, bound {one.bound:.2f}"
        rows.append(_row(4, what, found, told))
    return rows


def _row(meter: int, what: str, found: Sequence[float], verdict: str) -> dict:
    mean, low, high = found
    row = {"meter": meter, "what": what, "value": mean, "low": low, "high": high}
    return row | {"verdict": verdict, "paper": float("nan")}
