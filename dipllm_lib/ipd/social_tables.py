"""What the experiments of `social` found: onset, plateau and intervals, one row per setting.

The meter is cooperation of the learners of a seed with each other at half of the decision noise
(the mean of both; `on` for runs with rollouts, which have no half):

    onset     the first probed phase at which it is above one half. A seed that never gets there is
              censored: it stays in every table, and in means of the onset it counts as the phase
              after the last, so these means are lower bounds
    plateau   its mean over the last third of the probed phases

Intervals are bootstraps over seeds. A question is answered by contrasts, seed by seed: settings
minus a baseline, or the slope over the settings of a number that belongs to each.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.ipd import bayes, best_response, contrasts, evaluate, mixed_pool, ppi_q, tabular
from dipllm_lib.ipd.social import POOLS, QUESTIONS
from dipllm_lib.run import stats

HIGH = 0.5  # cooperation that is an onset
DRAWS = 20_000  # opponents behind the exact gain of a pool
BAYES_ROUNDS = 25  # of the exact Bayes-adaptive value, which takes half a second there


def joined(found: Sequence[dict], name: str) -> pd.DataFrame:
    """Table `name` of all results of `social_runs.run` that have it, and question, setting."""
    parts = [
        pd.DataFrame(one["tables"][name]["data"], columns=one["tables"][name]["columns"]).assign(
            question=one["question"], setting=one["setting"]
        )
        for one in found
        if name in one["tables"]
    ]
    if not parts:
        raise ValueError(f"no result has a table {name!r}")
    return pd.concat(parts, ignore_index=True)


def _curve(one: dict, opponent: str, noise: str, measure: str = "cooperation") -> pd.DataFrame:
    """(phase or iteration) x seed of the mean over seats; `on` where the noise is not probed."""
    probes = mixed_pool.joined([one], "probes")
    x = "phase" if "phase" in probes else "iteration"
    noise = noise if noise in set(probes["noise"]) else "on"
    own = probes[(probes["opponent"] == opponent) & (probes["noise"] == noise)]
    return own.pivot_table(index=x, columns="seed", values=measure).astype(float)


def learners(one: dict, noise: str = "half") -> pd.DataFrame:
    """(phase or iteration) x seed: cooperation of the learners with each other, mean of seats."""
    return _curve(one, _rival(one), noise)


def late_of_seat(found: Sequence[dict], seat: int, noise: str = "half") -> pd.Series:
    """Plateau of one seat of each seed, for results of one setting."""
    probes = mixed_pool.joined(found, "probes")
    late = contrasts.last_third(list(probes["phase"]))
    where = {"opponent": _rival(found[0]), "noise": noise, "phase": late, "seat": seat}
    return contrasts.by_seed(probes, "cooperation", where)


def floor_of(found: Sequence[dict], setting: str, noise: str = "half") -> float:
    """Cooperation in a setting that the noise alone gives, NaN where unknown."""
    return _floor(next(one for one in found if one["setting"] == setting), noise)


def _rival(one: dict) -> str:
    return "learner, tabular" if one["players"] > 2 else "learner"


def per_seed(found: Sequence[dict], noise: str = "half") -> pd.DataFrame:
    """One row per setting and seed: question, setting, seed, onset (NaN if censored), bound (onset,
    or the phase after the last), censored, plateau, off (the plateau without noise), tft
    (cooperation with TFT, last third; NaN for three players), tabular (reward against memory-one
    agents, last third), last (the last phase).
    """
    rows = []
    for one in found:
        curve = _curve(one, _rival(one), noise)
        late = contrasts.last_third(list(curve.index))
        tables = {
            "plateau": curve,
            "off": _curve(one, _rival(one), "off"),
            "tft": _curve(one, "TFT", noise),
            "tabular": _curve(one, _beaten(one), noise, "reward"),
        }
        if "off" not in set(mixed_pool.joined([one], "probes")["noise"]):
            tables["off"] = tables["off"].iloc[:, :0]
        for seed in curve.columns:
            above = curve.index[curve[seed] > HIGH]
            onset = float(above[0]) if len(above) else float("nan")
            row = {"question": one["question"], "setting": one["setting"], "seed": int(seed)}
            row |= {"onset": onset, "censored": not len(above), "last": int(curve.index[-1])}
            row["bound"] = onset if len(above) else float(curve.index[-1] + 1)
            for name, table in tables.items():
                row[name] = float(table[seed].loc[late].mean()) if seed in table else float("nan")
            rows.append(row)
    return pd.DataFrame(rows)


def _beaten(one: dict) -> str:
    return "tabular, tabular" if one["players"] > 2 else "tabular"


def summary(
    found: Sequence[dict], rng: np.random.Generator, resamples: int, noise: str = "half"
) -> pd.DataFrame:
    """One row per setting, in order of first appearance: question (in words), setting, seeds,
    reached (seeds with an onset), onset with onset_low and onset_high (mean of the bounds),
    plateau with low and high, off, tft, tabular (means, NaN where not probed), floor (cooperation
    that the noise alone gives, NaN where unknown), gap (largest, nats above the limit)."""
    seeds, rows = per_seed(found, noise), []
    for name, own in seeds.groupby("setting", sort=False):
        onset = stats.mean_interval(own["bound"], rng, resamples)
        plateau = stats.mean_interval(own["plateau"], rng, resamples)
        of = [one for one in found if one["setting"] == name]
        row = {"question": QUESTIONS[of[0]["question"]], "setting": name, "seeds": len(own)}
        row["reached"] = int((~own["censored"]).sum())
        row |= dict(zip(("onset", "onset_low", "onset_high"), onset, strict=True))
        row |= dict(zip(("plateau", "low", "high"), plateau, strict=True))
        row |= {column: float(own[column].mean()) for column in ("off", "tft", "tabular")}
        gaps = [one["gap"] for one in of if one["gap"] is not None]
        row["floor"] = _floor(of[0], noise)
        row["gap"] = max(gaps, default=float("nan"))
        rows.append(row)
    return pd.DataFrame(rows)


def _floor(one: dict, noise: str) -> float:
    """P(C) that the decision noise gives where a C costs its price, 1 or in public goods 1 - r/3,
    and is never answered."""
    if one["noise"] is None:
        return float("nan")
    price = 1.0 - float(one["setting"].split()[1]) / 3 if one["players"] > 2 else 1.0
    return ppi_q.noise_floor(one["noise"] * evaluate.NOISE[noise] / price)


def differences(
    found: Sequence[dict], baseline: str, measure: str = "plateau", noise: str = "half"
) -> dict[str, pd.Series]:
    """Each setting minus the baseline, seed by seed, for `contrasts.judged`. measure: a column of
    `per_seed`, of the onset `bound`. ValueError for an unknown baseline."""
    wide = per_seed(found, noise).pivot(index="seed", columns="setting", values=measure)
    if baseline not in wide:
        raise ValueError(f"no setting {baseline!r}: use one of {', '.join(wide)}")
    order = dict.fromkeys(one["setting"] for one in found)
    return {
        f"{name} − {baseline}: {measure}": contrasts.difference(wide[name], wide[baseline])
        for name in order
        if name != baseline
    }


def slopes(
    found: Sequence[dict], x: Mapping[str, float], measure: str = "plateau", noise: str = "half"
) -> dict[str, pd.Series]:
    """Least-squares slope of `measure` on the number x of each setting, one per seed; settings
    without a number are left out. ValueError for fewer than two different numbers."""
    wide = per_seed(found, noise).pivot(index="seed", columns="setting", values=measure)
    names = [name for name in wide if name in x and np.isfinite(x[name])]
    at = np.array([x[name] for name in names], dtype=np.float64)
    if len(set(at.tolist())) < 2:
        raise ValueError(f"a slope needs two settings with different numbers, got {names}")
    centred = at - at.mean()
    slope = wide[names].to_numpy() @ centred / (centred @ centred)
    return {f"slope of {measure}": pd.Series(slope, index=wide.index)}


def gains(
    pools: Sequence[str],
    rounds: int,
    rng: np.random.Generator,
    draws: int = DRAWS,
    bayes_rounds: int = BAYES_ROUNDS,
) -> pd.DataFrame:
    """What inference pays in each of social.POOLS: pool, gain of the best response to a known
    opponent over AllD, se (0 for the 32 corners, which are all of them), cooperation of the best
    response, share of opponents with a gain above .05, bayes: gain of the Bayes-optimal player over
    AllD, exact at bayes_rounds rounds (of the corners at all), NaN where no program is known.
    """
    rows = []
    for name in pools:
        pool, a = POOLS[name]
        corners = pool == "corners"
        q = tabular.corners() if corners else tabular.sample(pool, draws, rng, a)
        known, short = best_response.pool_value(q, rounds), min(rounds, bayes_rounds)
        value = float("nan")
        if corners:
            value, short = bayes.corners_value(rounds).value - 1.0, rounds
        elif pool in ("uniform", "beta"):
            value = bayes.beta_value(short, 1.0 if pool == "uniform" else a) - 1.0
        rows.append({
            "pool": name, "gain": known.gain, "se": 0.0 if corners else known.se,
            "cooperation": known.cooperation, "share": known.share,
            "bayes": value, "bayes_rounds": short,
        })  # fmt: skip
    return pd.DataFrame(rows)


def diversity(
    found: Sequence[dict], gain: pd.DataFrame, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """`summary` of the diversity experiment with the columns of `gains` beside each pool."""
    table = summary(found, rng, resamples)
    wanted = ["pool", "gain", "se", "bayes", "bayes_rounds"]
    return table.merge(gain[wanted].rename(columns={"pool": "setting"}), on="setting", how="left")


def cost(found: Sequence[dict]) -> pd.DataFrame:
    """Cooperation against CPU seconds of a seed: setting, seed, phase (or iteration), seconds (of
    the block so far, probes excluded, over its seeds), cooperation and tft at training noise, each
    the mean over seats."""
    rows = []
    for one in found:
        own, tft = (_curve(one, name, "on") for name in (_rival(one), "TFT"))
        spent = np.cumsum(one["seconds"]) / len(own.columns)
        blocks = one["learner"] == "a2c"
        for at in own.index:
            # PPI lists pre-training and then its phases, A2C blocks of iterations only
            index = round(len(spent) * at / one["phases"]) - 1 if blocks else int(at)
            for seed in own.columns:
                rows.append({
                    "setting": one["setting"], "seed": int(seed), "phase": int(at),
                    "seconds": float(spent[index]),
                    "cooperation": float(own.loc[at, seed]),
                    "tft": float(tft.loc[at, seed]) if seed in tft else float("nan"),
                })  # fmt: skip
    return pd.DataFrame(rows)


def price(table: pd.DataFrame, level: float = HIGH) -> pd.DataFrame:
    """From `cost`: setting, seeds, reached, seconds (median CPU seconds of a seed until cooperation
    passes `level`; inf where more than half of the seeds never do)."""
    rows = []
    for name, own in table.groupby("setting", sort=False):
        first = [
            part.loc[part["cooperation"] > level, "seconds"].min()
            for _, part in own.groupby("seed")
        ]
        until = np.where(np.isnan(first), np.inf, first)
        row = {"setting": name, "seeds": len(first), "reached": int(np.isfinite(until).sum())}
        rows.append(row | {"seconds": float(np.quantile(until, 0.5, method="higher"))})
    return pd.DataFrame(rows)
