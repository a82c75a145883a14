"""`roles.StrategyTrainer` fed from the stages: one update of all roles, here and in workers.

A trajectory is an episode of the repeated game or the ultimatum (executor and opponent learn from
it) or a payoff window of the coordinator. Every one is dealt to exactly one shard. The check trains
two copies from the same trajectories, in this process and in worker processes, and compares the
weights; the scratch model is used in every profile, since what is checked is the distribution.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from dipllm_lib.kto import (
    coordinator,
    fitting,
    labels,
    language,
    lm_labels,
    opponent,
    pool,
    prospect,
    roles,
    trajectories,
)
from dipllm_lib.kto.fitting import Item
from dipllm_lib.kto.language import Recipe
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.kto.policies import Policy
from dipllm_lib.kto.pool import Match
from dipllm_lib.kto.roles import StrategyTrainer
from dipllm_lib.kto.trajectories import Trajectory
from dipllm_lib.run.profiles_kto import KTOSettings

STEPS = 4  # of the schedule; one is taken
ROUNDS = 10  # mean length of the repeated game here
SHARDS = 4


@dataclass(frozen=True)
class Window:
    """What the coordinator chose for a window and what that earned. reward, reference: share of
    the game's scale, under the chosen letter and under A."""

    variant: coordinator.Variant
    letter: str
    reward: float
    reference: float


@dataclass(frozen=True)
class Readers:
    """Turns one trajectory into the items of a role. base: gives pi_ref."""

    base: Policy
    seed: int

    def executor(self, one: Trajectory | Window) -> list[Item]:
        """All decisions of the learner, labelled; omega is |V|, without the mean of a split."""
        if isinstance(one, Window):
            return []
        found = lm_labels.label([one], pool.catalogue(ROUNDS), self.seed)
        weighed = [replace(sample, omega=abs(sample.value)) for sample in found]
        return fitting.referred(fitting.items(weighed), self.base)

    def opponent(self, one: Trajectory | Window) -> list[Item]:
        """Next action and type, of an episode of the repeated game."""
        if isinstance(one, Window) or one.game != "repeated":
            return []
        return opponent.items([one], pool.watched(ROUNDS))

    def coordinator(self, one: Trajectory | Window) -> list[Item]:
        """The letter of a window."""
        if isinstance(one, Trajectory):
            return []
        value = float(prospect.value(one.reward - one.reference, labels.SETTINGS["A"].params))
        own = coordinator.context(one.variant, one.reference)
        action = np.array([coordinator.LETTERS.index(one.letter)])
        item = Item(own, action, np.array([abs(value)]), np.array([value > 0]), one.variant.kind)
        return fitting.referred([item], self.base)


def sample(seed: int, episodes: int = 2) -> list[Trajectory | Window]:
    """Episodes of uniform play and windows: what the check trains on."""
    matches = [
        Match("ultimatum", ("", "people"), 0, episodes),
        Match("repeated", ("", "TFT"), 0, episodes),
    ]
    played = trajectories.collect(matches, ROUNDS, seed, "updates", {}, mix=1.0)
    variants = coordinator.variants(ROUNDS)[:episodes]
    return [*played, *(Window(v, "C", 0.6, 0.5) for v in variants)]


def trainer(recipe: Recipe, settings: KTOSettings, seed: int, workers: int) -> StrategyTrainer:
    """A StrategyTrainer of all three roles on the recipe's base."""
    readers = Readers(LMPolicy(recipe(), BASE), seed)
    found = {name: getattr(readers, name) for name in roles.NAMES}
    rates = language.rates(settings)
    return StrategyTrainer(recipe, found, STEPS, rates, seed, shards=SHARDS, workers=workers)


def check(
    settings: KTOSettings, seed: int, workers: Sequence[int] = (1, 2)
) -> tuple[pd.DataFrame, dict[int, float]]:
    """Rows role, trajectories, contexts, samples, loss, moved (largest change of a weight), apart
    (largest difference between numbers of workers); and seconds by number of workers."""
    recipe = Recipe("scratch", "", "float32", seed, 2, ("q_proj", "v_proj"))
    given = sample(seed)
    states, facts, seconds = {}, {}, {}
    for count in workers:
        own, start = trainer(recipe, settings, seed, count), time.perf_counter()
        before = {name: roles.state(own.backbone, name) for name in roles.NAMES}
        facts[count] = own.update(given)
        seconds[count] = time.perf_counter() - start
        states[count] = {name: roles.state(own.backbone, name) for name in roles.NAMES}
    rows = []
    for name in roles.NAMES:
        first, last = states[workers[0]][name], states[workers[-1]][name]
        moved = max(float(np.abs(first[k] - before[name][k]).max()) for k in first)
        apart = max(float(np.abs(first[k] - last[k]).max()) for k in first)
        one = {
            k: facts[workers[0]][name][k] for k in ("trajectories", "contexts", "samples", "loss")
        }
        rows.append({"role": name} | one | {"moved": moved, "apart": apart})
    return pd.DataFrame(rows), seconds


def rows(settings: KTOSettings, seed: int) -> list[dict]:
    """The table of `check` as JSON-able rows, this process against two workers."""
    return check(settings, seed)[0].to_dict("records")
