"""Preferences instead of a target: DPO on pairs of the search's candidates.

DPO (Rafailov et al. 2023, Eq. 7), of a chosen joint order w and a rejected one l of a power-turn:

    L = - log sigma( beta [ log pi(w) / pi_ref(w) - log pi(l) / pi_ref(l) ] )

w is drawn from the search's target pi*, l from the anchor tau over the same candidates (or
uniformly), w left out; `dpo_pairs` pairs of each power-turn and step. log pi is the likelihood of
the text as in fine-tuning, pi_ref the model as it is given. Draws are functions of the seed and the
step alone. `ppo` has the rewards.
"""

import copy
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.nn import functional

from dipllm_lib.dip import finetune, objectives
from dipllm_lib.dip.arm_list import ArmSettings
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.hedge import softmax
from dipllm_lib.dip.samples import Sample
from dipllm_lib.lm import steps, tree_scores
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding

EVERY = 20  # batches between checkpoints
FACTS = ("step", "loss", "norm", "lr", "tokens")
TAU = FinetuneSettings(1, 1, 1.0, 1, 1, 1, objective="bc_sample", bc_source="tau")
Pair = tuple[int, int]
"""Numbers of the chosen and of the rejected candidate."""


def log_probs(
    backbone: Backbone, rows: Sequence[Sequence[Sample]], likelihood: str
) -> list[torch.Tensor]:
    """Log-probabilities (K',) of the kept paths of every sample, row by row, differentiable.

    likelihood: over all `tokens` or the `legal` ones.
    """
    branches = [[(s.prompt, [s.paths[k] for k in s.kept]) for s in row] for row in rows]
    found = tree_scores.score(backbone, branches, likelihood)
    return [
        torch.stack([found.values[entries].sum() for entries in paths])
        for row in found.entries
        for paths in row
    ]


def fixed(backbone: Backbone, rows, likelihood: str) -> list[torch.Tensor]:
    """`log_probs` without gradients."""
    with torch.no_grad():
        return log_probs(backbone, rows, likelihood)


def train(
    trainer: steps.Trainer,
    batch: Callable[[int], dict],
    per: int,
    checkpoint: Path | None,
    facts: list,
) -> pd.DataFrame:
    """The history of a training of batches of `per` optimiser steps each; goes on from a checkpoint
    of equal `facts`.
    """
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode("utf-8")).hexdigest()[:16]
    history = steps.resumed(trainer, checkpoint, key)
    while trainer.done < trainer.steps:
        found = batch(trainer.done // per)
        history.append({"step": trainer.done} | found)
        last = trainer.done == trainer.steps
        if checkpoint and (len(history) % EVERY == 0 or last):
            trainer.save(checkpoint, {"key": key, "history": history})
    table = pd.DataFrame(history)
    return table[[*FACTS, *sorted(set(table.columns) - set(FACTS))]]


def pairs(sample: Sample, count: int, rejected: str, rng: np.random.Generator) -> list[Pair]:
    """`count` pairs of candidates: the chosen one of pi*, the rejected one of `tau` or `uniform`,
    never the same. ValueError if the sample has no log_tau and it is needed.
    """
    logs = np.zeros(len(sample.target))
    if rejected == "tau":
        logs = objectives.log_weights(sample, TAU)
    found = []
    for chosen in rng.choice(len(logs), count, p=sample.target).tolist():
        others = softmax(np.where(np.arange(len(logs)) == chosen, -np.inf, logs))
        found.append((chosen, int(rng.choice(len(logs), p=others))))
    return found


def dpo_loss(
    new: torch.Tensor, old: torch.Tensor, wanted: Sequence[Pair], beta: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(mean loss of the pairs, margins (pairs,)); new, old: log-probabilities that pairs index."""
    gain = new - old.to(new)
    margins = torch.stack([gain[chosen] - gain[rejected] for chosen, rejected in wanted])
    return -functional.logsigmoid(beta * margins).mean(), margins.detach()


def dpo(
    backbone: Backbone,
    name: str,
    samples: Sequence[Sample],
    settings: FinetuneSettings,
    sizes: ArmSettings,
    seed: int,
    checkpoint: Path | None = None,
) -> pd.DataFrame:
    """Train what was attached under `name`. History, a row per step: step, loss (nats per
    power-turn), norm, lr, tokens (of the step), margin (nats), right (share of pairs with a margin
    above 0).
    """
    reference = copy.deepcopy(backbone)
    rows = finetune.packed_rows(samples, settings.pack)
    plan = finetune.batch_plan(rows, settings, seed)
    trainer = steps.Trainer(backbone, name, sizes.dpo_lr, len(plan), seed)

    def batch(step: int) -> dict:
        rng = seeding.child(seed, "dpo", step)
        drawn = [
            (s, pairs(s, sizes.dpo_pairs, sizes.dpo_rejected, rng))
            for i in plan[step]
            for s in rows[i]
        ]
        return _dpo_step(trainer, reference, drawn, settings, sizes.dpo_beta)

    facts = [finetune.training_key(samples, settings, seed), asdict(sizes)]
    return train(trainer, batch, 1, checkpoint, facts)


def _dpo_step(
    trainer: steps.Trainer,
    reference: Backbone,
    drawn: Sequence[tuple[Sample, list[Pair]]],
    settings: FinetuneSettings,
    beta: float,
) -> dict:
    """One optimiser step on the mean over power-turns, in the passes of a fine-tuning."""
    wanted, margins = {}, []
    for sample, own in drawn:
        kept = sorted({k for pair in own for k in pair})
        small = replace(sample, kept=tuple(kept))
        wanted[id(small)] = small, [(kept.index(a), kept.index(b)) for a, b in own]
    parts, tokens = finetune.passes([s for s, _ in wanted.values()], settings)

    def loss(items: Sequence[list[Sample]]) -> torch.Tensor:
        rows = finetune.packed_rows(items[0], settings.pack)
        scores = (log_probs(trainer.backbone, rows, settings.softmax),
                  fixed(reference, rows, settings.softmax))  # fmt: skip
        total = 0.0
        for sample, new, old in zip((s for row in rows for s in row), *scores, strict=True):
            value, margin = dpo_loss(new, old, wanted[id(sample)][1], beta)
            total = total + value
            margins.append(margin)
        return total

    facts = trainer.step(loss, parts, part=1, count=len(drawn))
    table = torch.cat(margins)
    right = float((table > 0).float().mean())
    return facts | {"tokens": tokens, "margin": float(table.mean()), "right": right}
