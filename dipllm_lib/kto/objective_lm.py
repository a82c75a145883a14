"""Notebook 10c, the language model: objectives of the three studies on the same kind of data.

    study 1   `wmle, mean V`: cross-entropy to pi_ref exp(E[V]/tau), as `dip` fits its targets
    study 2   `a2c`: policy gradient with a baseline, as the step of `ipd.a2c`
    study 3   `sft`, `wmle`, `kto`, `pt_kto`, `pt_pair`

The proposer of the ultimatum reads its setting: A (reference one half) and F (reference 0). A round
draws episodes from the policy of now, takes it as reference, and makes a few AdamW steps on one
adapter of the untrained base. The loss is the one of the tables: `tabular.by_log_prob` gives its
derivative by every log pi(a|h), and the model is stepped along the sum of derivative times
log-probability, whose gradient is that of the loss. Payoffs are exact, over A(h).

One seed of each: a demonstration that the same code moves a language model. `pt_kto` has several,
which differ in adapter and draws: `by_seed`.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from dipllm_lib.kto import language, objective_tasks, proposers, tabular
from dipllm_lib.kto.labels import SETTINGS
from dipllm_lib.kto.language import Recipe
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import Context
from dipllm_lib.kto.ultimatum import PROPOSER, Ultimatum
from dipllm_lib.lm import adapters, steps
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.profiles_kto import KTOSettings

ARMS = ("sft", "wmle", "wmle, mean V", "a2c", "kto", "pt_kto", "pt_pair")
LETTERS = ("A", "F")
DEFAULT = "equal_split"  # reference of the ultimatum
NAME = "objective"  # of the adapter
MAIN = "pt_kto"  # the arm of several seeds


@dataclass(frozen=True)
class Task:
    """One arm with the settings of the profile."""

    arm: str
    seed: int
    settings: KTOSettings


def tasks(settings: KTOSettings, seed: int) -> tuple[list[Task], list[str]]:
    """One task per arm, further seeds of `pt_kto` behind them, with their keys."""
    found = [Task(arm, seed, settings) for arm in ARMS]
    found += [Task(MAIN, seed + k, settings) for k in range(1, settings.objective_lm_seeds)]
    names = [one.arm.replace(", ", "_").replace(" ", "_") for one in found]
    return found, [f"lm-{name}-{one.seed}" for name, one in zip(names, found, strict=True)]


def contexts() -> list[Context]:
    """The proposer's decision under each setting."""
    game, rng = Ultimatum(), seeding.child(0, "kto", "10c", "rules")
    state = game.reset(rng)
    legal = game.legal(state, PROPOSER)
    return [
        Context((game.infoset(state, PROPOSER), x), game.observe(state, PROPOSER, x), legal)
        for x in LETTERS
    ]


def problem(expected: bool) -> proposers.Proposers:
    """The same decisions with what people answer, V under each setting."""
    own = [SETTINGS[letter] for letter in LETTERS]
    references = [0.5 if s.reference_of(DEFAULT) == DEFAULT else 0.0 for s in own]
    values = proposers.prospect_values(references, [s.params for s in own])
    accept = np.tile(proposers.people(), (len(own), 1))
    return proposers.Proposers(accept, values, expected)


def run(task: Task) -> list[dict]:
    """Rows arm, seed, setting, step, value, offer, mean_offer of a training; step 0 is the base."""
    own = task.settings
    backbone = language.bare(Recipe.of(own, task.seed), "float32")
    for parameter in backbone.model.parameters():
        parameter.requires_grad_(False)
    size = (own.lora_rank, 32, 0.0, task.seed, tuple(own.lm_targets))
    adapters.attach(backbone, NAME, *size)
    policy, asked = LMPolicy(backbone, NAME), contexts()
    count = own.objective_lm_rounds * own.objective_lm_steps
    trainer = steps.Trainer(backbone, NAME, own.objective_lm_rate, count, task.seed)
    name, expected = objective_tasks.ARMS[task.arm]
    used = replace(objective_tasks.objective(own, name), steps=own.objective_lm_steps)
    game, rows = problem(expected), []
    rows += _rows(task, policy, asked, game, 0)
    for k in range(own.objective_lm_rounds):
        reference = np.stack(policy.log_probs(asked))
        # the same generator for every arm; draws part only when the policies do
        rng = seeding.child(task.seed, "kto", "10c", "lm", k)
        data = game.data(np.exp(reference), own.objective_lm_episodes, rng)
        prepared = tabular.prepare(data, used)
        for _ in range(own.objective_lm_steps):
            trainer.step(lambda group: _loss(policy, group, prepared, reference, used), asked)
            rows += _rows(task, policy, asked, game, trainer.done)
    return rows


def _loss(policy, asked, prepared, reference, used) -> torch.Tensor:
    """Sum of derivative times log-probability."""
    scores = torch.stack(policy.scores(asked))
    own = scores.detach().double().cpu().numpy()
    slope = tabular.by_log_prob(prepared, own, reference, used) * tabular.first(used)
    return (torch.from_numpy(slope).to(scores) * scores).sum()


def _rows(task, policy, asked, game, step: int) -> list[dict]:
    """What the policy is worth now, under each setting."""
    probs = np.exp(np.stack(policy.log_probs(asked)))
    values = game.score(probs)
    return [
        {
            "arm": task.arm,
            "seed": task.seed,
            "setting": letter,
            "step": step,
            "value": float(values[k]),
            "offer": float(proposers.OFFERS[probs[k].argmax()]),
            "mean_offer": float(probs[k] @ proposers.OFFERS),
        }
        for k, letter in enumerate(LETTERS)
    ]


def by_seed(rows: pd.DataFrame, rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Where `pt_kto` ends, over seeds: columns setting, share (of the best payoff, mean) with low
    and high (95 %), lowest, best_offer (seeds whose most likely offer is the best one), seeds."""
    own = rows[(rows["arm"] == MAIN) & (rows["step"] == rows["step"].max())]
    worth = (1 - proposers.OFFERS) * proposers.people()
    found = []
    for letter, ends in own.groupby("setting", sort=False):
        share = ends["value"] / worth.max()
        mean, low, high = stats.mean_interval(share, rng, resamples)
        right = int((ends["offer"] == proposers.OFFERS[worth.argmax()]).sum())
        row = {"setting": letter, "share": mean, "low": low, "high": high}
        found.append(row | {"lowest": share.min(), "best_offer": right, "seeds": len(ends)})
    return pd.DataFrame(found)
