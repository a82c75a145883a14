"""The answers of notebook 10b: contrasts that are stated to be positive, one value per seed.

Each question has its own; `judged` gives their intervals and verdicts. The meter is that of
`social_tables`: cooperation of the learners with each other at half noise, its mean over the last
third of phases (plateau) and the phase in which it passes one half (onset; a seed that never gets
there counts as the phase after the last, so a gain in onset is a lower bound).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.ipd import beyond, contrasts, lola, social_tables
from dipllm_lib.ipd.game import STATES

UNIT = 0.1  # of gain, for slopes
HALF = "0.5"  # the published share of games against memory-one agents
Lines = dict[str, pd.Series]


def lines(found: Sequence[dict], gain: pd.DataFrame, pool: str) -> dict[str, Lines]:
    """Question -> contrast -> value of each seed, for the questions that have results.

    gain: of `social_tables.gains` · pool: that of the base run, a name of social.POOLS.
    """
    made: dict[str, Callable[[list[dict]], Lines]] = {
        "diversity": lambda own: diversity(own, gain),
        "mixing": lambda own: less(own, HALF),
        "exploration": lambda own: less(own, "base"),
        "payoffs": payoffs,
        "goods": goods,
        "sizes": sizes,
        "cost": lambda own: less(own, "head"),
    }
    kept = {"shift": shift(beyond.shifted(beyond.of(found, beyond.BASE))[pool], pool)}
    asked = dict.fromkeys(one["question"] for one in found)
    return kept | {name: made[name](beyond.of(found, name)) for name in asked if name in made}


def judged(
    of: Mapping[str, Lines], rng: np.random.Generator, resamples: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`contrasts.judged` and `contrasts.per_seed` of all questions, with a first column asked;
    questions without a contrast are left out."""
    tables: tuple[list, list] = ([], [])
    for name, own in of.items():
        if own:
            parts = contrasts.judged(own, rng, resamples), contrasts.per_seed(own)
            for kept, part in zip(tables, parts, strict=True):
                part.insert(0, "asked", name)
                kept.append(part)
    answers, values = (pd.concat(parts, ignore_index=True) for parts in tables)
    return answers, values


def diversity(found: Sequence[dict], gain: pd.DataFrame) -> Lines:
    """Slopes over the pools on what the best response to a known opponent gains."""
    x = {row.pool: row.gain / UNIT for row in gain.itertuples()}
    settings = {one["setting"] for one in found}
    if len(settings) < 2:
        return {}
    plateau = social_tables.slopes(found, x)["slope of plateau"]
    later = social_tables.slopes(found, x, "bound")["slope of bound"]
    return {
        f"plateau, per {UNIT:g} of gain": plateau,
        f"phases sooner, per {UNIT:g} of gain": -later,
    }


def less(found: Sequence[dict], baseline: str) -> Lines:
    """The baseline minus every other setting: plateau. None where the baseline was not run."""
    if baseline not in {one["setting"] for one in found}:
        return {}
    differences = social_tables.differences(found, baseline)
    names = {f"{one['setting']} − {baseline}: plateau": one["setting"] for one in found}
    return {f"{baseline} − {names[name]}": -values for name, values in differences.items()}


def payoffs(found: Sequence[dict]) -> Lines:
    """Slope on the benefit where both have the same; with unequal ones, who gives more."""
    same = {one["setting"]: _number(one) for one in found if " and " not in one["setting"]}
    lines: Lines = {}
    if len(same) > 1:
        own = [one for one in found if one["setting"] in same]
        slope = social_tables.slopes(own, same)["slope of plateau"]
        lines["plateau, per unit of benefit"] = slope
    unequal = [one for one in found if one["setting"] not in same]
    if unequal:
        first, second = unequal[0]["setting"].removeprefix("b ").split(" and ")
        one, two = (social_tables.late_of_seat(unequal, seat) for seat in range(2))
        lines[f"who gets {second} gives more than who gets {first}"] = two - one
    return lines


def _number(one: dict) -> float:
    """2.0 of the setting `b 2`."""
    return float(one["setting"].split()[1])


def goods(found: Sequence[dict]) -> Lines:
    """Of each factor: plateau minus the noise floor; over factors: the slope."""
    seeds, lines = social_tables.per_seed(found), {}
    for name, own in seeds.groupby("setting", sort=False):
        floor = social_tables.floor_of(found, name)
        lines[f"{name}: plateau − noise floor"] = own.set_index("seed")["plateau"] - floor
    x = {one["setting"]: _number(one) for one in found}
    if len(x) > 1:
        lines["plateau, per unit of r"] = social_tables.slopes(found, x)["slope of plateau"]
    return lines


def sizes(found: Sequence[dict]) -> Lines:
    """Slope of the plateau on the doublings of the width of the GRU."""
    x = {
        one["setting"]: float(np.log2(int(one["setting"].split()[1])))
        for one in found
        if one["setting"].startswith("GRU")
    }
    if len(x) < 2:
        return {}
    own = [one for one in found if one["setting"] in x]
    return {"plateau, per doubling of the width": social_tables.slopes(own, x)["slope of plateau"]}


def shift(tables: Mapping[str, pd.DataFrame], pool: str, level: str = "half") -> Lines:
    """Of the base run: regret elsewhere, LOLA, strangers, and the order of its four rates."""
    table = tables["shift"][tables["shift"]["noise"] == level]
    wide = table.pivot_table(index="seed", columns="opponent", values="regret")
    others = [name for name in ("uniform", "beta 0.5", "corners", "families") if name != pool]
    paid = table.assign(more=table["reward"] - table["alld"])
    more = paid.pivot_table(index="seed", columns="opponent", values="more")
    lines = {f"regret: {name} − {pool}": wide[name] - wide[pool] for name in others}
    lines |= {f"reward from {name} − AllD's": more[name] for name in lola.FROZEN}
    cross = tables["cross"]
    met = cross["seed"] == cross["other_seed"]
    if not met.all():
        own, strange = (cross[part].groupby("seed")["cooperation"].mean() for part in (met, ~met))
        lines["cooperation: own partner − partners of other seeds"] = own - strange
    rates = tables["rates"].groupby("seed")[list(STATES)].mean()
    for one, other in (("CC", "CD"), ("CD", "DC"), ("DC", "DD")):
        values = (rates[one] - rates[other]).dropna()
        if len(values):
            lines[f"P(C) after {one} − after {other}"] = values
    return lines
