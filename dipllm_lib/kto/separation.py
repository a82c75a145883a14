"""Is it worth to keep the roles apart, and to train adapters in place of models? On the tiny base.

    three    one adapter of rank r for the executor, one for the modeller
    one      a single adapter of rank 2 r that takes their batches in turn: the sum of both losses
    full     a copy of all weights for each of the two roles

Each arm sees the same batches in the same order. Quality of the executor is its payoff in the gift
game and as a responder (share of the best, mean of both); that of the modeller its top-1 and Brier
score of the next action on unseen episodes. The unit of every interval is the seed. The scratch
model is used in every profile: with it several seeds take seconds, and full copies fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.kto import (
    fitting,
    language,
    lm_labels,
    lm_scores,
    opponent,
    pool,
    roles,
    stages,
    trajectories,
)
from dipllm_lib.kto.fitting import Objective, Role
from dipllm_lib.kto.language import Recipe
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.lm import adapters
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.profiles_kto import KTOSettings

ARMS = THREE, ONE, FULL = ("three", "one", "full")
MEASURES = ("executor", "top1", "brier")
ROUNDS = 10
RANK = 2
TARGETS = ("q_proj", "v_proj")
FACTOR = 500.0  # of the three rates on the tiny base, in every profile
FULL_FACTOR = 0.1  # of the rates where all weights learn: an adapter takes ten times as much


@dataclass(frozen=True)
class Task:
    """One seed. folder: where its stage 1 is written."""

    settings: KTOSettings
    seed: int
    folder: str


def run(task: Task) -> list[dict]:
    """All arms of one seed: rows arm, seed, weights, executor, top1, brier."""
    settings, seed, folder = task.settings, task.seed, Path(task.folder)
    tiny = replace(settings, lm_base="scratch", lm_dtype="float32", lm_pretrain_rank=0)
    tiny = replace(tiny, lm_pretrain_rate=3e-3, ipd_rounds=ROUNDS, lm_rate_factor=FACTOR)
    recipe = Recipe("scratch", "", "float32", seed, RANK, TARGETS)
    folder.mkdir(parents=True, exist_ok=True)
    reading, _ = stages.split(stages.transcripts(tiny, seed), tiny, seed)
    stages.pretrain(recipe, reading, tiny, seed, folder)
    recipe = replace(recipe, stage=str(folder))
    base = LMPolicy(language.shared(recipe))
    rows = stages.collect(base, tiny, seed)
    good = lm_labels.executor_items(stages.label(rows, tiny, seed))
    good = [item for item in good if item.game in ("gift giver", "ultimatum responder")]
    played = [trajectories.Trajectory.of(row) for row in rows]
    asked = [i for i in opponent.items(played, pool.watched(ROUNDS)) if i.game == opponent.NEXT]
    data = {roles.EXECUTOR: fitting.referred(good, base), roles.OPPONENT: asked}
    return [_arm(arm, recipe, data, tiny, seed) for arm in ARMS]


def _arm(arm: str, recipe: Recipe, data, settings: KTOSettings, seed: int) -> dict:
    """Train one arm and measure it."""
    names = {roles.EXECUTOR: roles.EXECUTOR, roles.OPPONENT: roles.OPPONENT}
    names = dict.fromkeys(names, ONE) if arm == ONE else names
    steps, rates = settings.lm_opponent_steps, language.rates(settings)
    weights, policies = 0, {}
    made: dict[str, Role] = {}
    backbone = language.shared(recipe)
    for role, name in names.items():
        if name not in made:
            if arm == FULL and made:
                backbone = language.shared(recipe)
            policy = LMPolicy(backbone, BASE)
            if arm == FULL:
                weights += adapters.attach(backbone, name, 0)
            else:
                rank = 2 * RANK if arm == ONE else RANK
                weights += roles.attach(backbone, rank, TARGETS, seed, [name])[name]
                policy = LMPolicy(backbone, name)
            count = 2 * steps if arm == ONE else steps
            own = rates.scaled(FULL_FACTOR) if arm == FULL else rates
            made[name] = Role(policy, name, count, own, seed)
        policies[role] = made[name].policy
    _train({role: made[name] for role, name in names.items()}, data, steps, settings, seed)
    return {"arm": arm, "seed": seed, "weights": weights} | _quality(policies, seed)


def _train(found, data, steps: int, settings: KTOSettings, seed: int) -> None:
    """Batches of both roles in turn."""
    plans = {
        role: fitting.plan(items, steps, settings.contexts, seed, role)
        for role, items in data.items()
    }
    objectives = {roles.EXECUTOR: Objective("pt_kto", settings.lm_kappa)}
    objectives[roles.OPPONENT] = Objective("ce")
    for step in range(steps):
        for role, items in data.items():
            found[role].step([items[i] for i in plans[role][step]], objectives[role])


def _quality(policies, seed: int) -> dict:
    executor, modeller = policies[roles.EXECUTOR], policies[roles.OPPONENT]
    scores = [lm_scores.giving(executor), lm_scores.answers(executor)]
    watched = pool.watched(ROUNDS)
    test = opponent.decisions(opponent.unseen(2, ROUNDS, seed), watched)
    table = opponent.measures(opponent.forecasts(modeller, test, watched), test)
    share = float(np.mean([one["payoff"] / one["best"] for one in scores]))
    return {"executor": share} | {name: float(table[name].mean()) for name in MEASURES[1:]}


def table(rows: Sequence[dict], seed: int, resamples: int) -> pd.DataFrame:
    """Rows arm, measure, mean with its 95 % interval over seeds, and the difference from `three`,
    paired by seed; weights that were trained; seeds."""
    found, every = [], pd.DataFrame(rows)
    for arm in ARMS:
        own = every[every["arm"] == arm].sort_values("seed")
        first = every[every["arm"] == THREE].sort_values("seed")
        for name in MEASURES:
            rng = seeding.child(seed, "kto", "separation", arm, name)
            mean, low, high = stats.mean_interval(own[name], rng, resamples)
            gap = stats.paired_interval(own[name], first[name], rng, resamples)
            row = {"arm": arm, "measure": name, "mean": mean, "low": low, "high": high}
            row |= dict(zip(("gap", "gap_low", "gap_high"), gap, strict=True))
            found.append(row | {"weights": int(own["weights"].iloc[0]), "seeds": len(own)})
    return pd.DataFrame(found)
