"""Fine-tuning a language model toward the joint targets of the search.

The sum over units of the KL of Eq. 5 (Xu et al. 2025), with prefixes weighted by pi*, is KL(pi* ||
pi_phi) over joint orders. Its gradient is that of a weighted likelihood, so `exact_kl` is

    L = - sum over the kept joint orders k of  w_k log p(text_k),    w = pi* over the K' kept ones

with log p summed over the tokens of the joint order's text: over the whole vocabulary (`tokens`),
or over the legal next tokens as at play (`legal`). The measure of success is computed over all
stored candidates, with the model masked as at play:

    KL(pi* || pi_phi) = sum_k pi*_k (log pi*_k - log pi_phi(a_k))      nats per power-turn

Samples are made in `samples.py`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from dipllm_lib.dip import text
from dipllm_lib.dip.samples import Sample, build, row_turn, split
from dipllm_lib.lm import adapters, backbones, packing, scoring, steps
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.choices import Path as TokenPath
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.profiles import DiplomacySettings

__all__ = [
    "Sample", "backbone", "batches", "build", "evaluate", "loss", "model_card", "row_turn", "split",
    "train", "training_key",
]  # fmt: skip

OBJECTIVES = ("exact_kl",)
SOFTMAX = ("tokens", "legal")
HISTORY = {"step": int, "loss": float, "norm": float, "lr": float, "tokens": int, "kl": float}


def backbone(settings: DiplomacySettings, seed: int, offline: bool = True) -> Backbone:
    """The bare backbone that `settings` name; `scratch` gets the words of codec `compact`."""
    return backbones.load(
        settings.backbone,
        base_model=settings.base_model,
        dtype=settings.dtype,
        hidden=settings.scratch_hidden,
        layers=settings.scratch_layers,
        heads=settings.scratch_heads,
        words=text.WORDS,
        seed=seed,
        offline=offline,
    )


def loss(backbone: Backbone, samples: Sequence[Sample], softmax: str) -> torch.Tensor:
    """Sum over `samples` of L; see the module's text. softmax: `tokens` or `legal`."""
    kept = [[s.paths[k] for k in s.kept] for s in samples]
    prompts = [s.prompt for s in samples]
    if softmax == "legal":
        logits, branch, rank = scoring.legal_logits(backbone, prompts, kept)
        if not branch:
            return backbone.head.sum() * 0.0
        found = torch.log_softmax(logits, -1).gather(1, rank[:, None])[:, 0]
    else:
        found, branch = _token_log_probs(backbone, prompts, kept)
    weights = [samples[row].weights[k] for row, k in branch]
    return -(found * torch.tensor(weights, dtype=found.dtype, device=found.device)).sum()


def _token_log_probs(
    backbone: Backbone, prompts: Sequence[Sequence[int]], paths: Sequence[Sequence[TokenPath]]
) -> tuple[torch.Tensor, list[tuple[int, int]]]:
    """Log-probability (N,) float32 of every token of every path over the whole vocabulary, and its
    (row, path).
    """
    packed = packing.pack(prompts, [[p.tokens for p in row] for row in paths], backbone.device)
    where = [
        (row, k, packed.predictor(row, k, t), token)
        for row, parts in enumerate(paths)
        for k, part in enumerate(parts)
        for t, token in enumerate(part.tokens)
    ]
    rows, _, columns, tokens = (torch.tensor(x, device=backbone.device) for x in zip(*where))
    logits = packing.hidden(backbone, packed)[rows, columns] @ backbone.head.T
    found = -torch.nn.functional.cross_entropy(logits.float(), tokens, reduction="none")
    return found, [(row, k) for row, k, *_ in where]


def evaluate(backbone: Backbone, samples: Sequence[Sample]) -> pd.DataFrame:
    """One row per sample: game, phase, power, kl (nats, model masked as at play), covered (model's
    mass on the candidates).
    """
    log_probs = scoring.path_log_prob(
        backbone, [s.prompt for s in samples], [s.paths for s in samples]
    )
    rows = []
    for sample, found in zip(samples, log_probs, strict=True):
        positive = sample.target > 0
        target = sample.target[positive]
        kl = float(target @ (np.log(target) - found[positive]))
        covered = float(np.exp(found).sum())
        rows.append((sample.game, sample.phase, sample.power, kl, covered))
    return pd.DataFrame(rows, columns=["game", "phase", "power", "kl", "covered"])


def divergence_table(
    found: Mapping[str, Sequence[float]], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """One row per policy: policy, kl (nats, mean with interval over power-turns), turns."""
    rows = []
    for name, values in found.items():
        mean, low, high = stats.mean_interval(np.asarray(values), rng, resamples)
        row = {"policy": name, "kl": mean, "kl_low": low, "kl_high": high}
        rows.append(row | {"turns": len(values)})
    return pd.DataFrame(rows)


def training_key(samples: Sequence[Sample], settings: DiplomacySettings, seed: int) -> str:
    """What a checkpoint must agree on: settings, seed and the training data. 16 hex digits."""
    digest = hashlib.sha256(json.dumps([settings.hash(), seed]).encode("utf-8"))
    for sample in samples:
        digest.update(json.dumps([sample.prompt, [p.tokens for p in sample.paths]]).encode("utf-8"))
        digest.update(sample.target.tobytes())
    return digest.hexdigest()[:16]


def batches(samples: Sequence, epochs: int, batch: int, seed: int) -> list[list[int]]:
    """Indices of the samples of every optimiser step; a new order each epoch, a function of the
    seed alone.
    """
    plan = []
    for epoch in range(epochs):
        order = seeding.child(seed, "finetune", "order", epoch).permutation(len(samples)).tolist()
        plan += [order[i : i + batch] for i in range(0, len(order), batch)]
    return plan


def train(
    backbone: Backbone,
    name: str,
    samples: Sequence[Sample],
    heldout: Sequence[Sample],
    settings: DiplomacySettings,
    seed: int,
    checkpoint: Path | None = None,
    every: int = 20,
    part: int = 2,
) -> pd.DataFrame:
    """Train what was attached under `name`; returns the history.

    checkpoint: file to resume from and to save to, every `every` steps and at the end; one of other
        settings, seed or data is started over. part: see `steps.Trainer.step`. History, one row per
        step and one for step 0: step, loss, norm, lr, tokens (so far), kl (NaN where not measured).
    """
    if settings.finetune_objective not in OBJECTIVES or settings.finetune_softmax not in SOFTMAX:
        raise ValueError(
            f"unknown objective {settings.finetune_objective!r} or softmax"
            f" {settings.finetune_softmax!r}: use {OBJECTIVES} and {SOFTMAX}"
        )
    plan = batches(samples, settings.finetune_epochs, settings.finetune_batch, seed)
    trainer = steps.Trainer(backbone, name, settings.finetune_lr, len(plan), seed)
    key = training_key(samples, settings, seed)
    history = _resume(trainer, checkpoint, key)
    if not history:
        history = [_history_row(0, tokens=0, kl=_mean_kl(backbone, heldout))]
    parts = settings.finetune_evaluations
    measured = {round(len(plan) * (i + 1) / parts) for i in range(parts)}
    while trainer.done < len(plan):
        batch = [samples[i] for i in plan[trainer.done]]
        facts = trainer.step(
            lambda part: loss(backbone, part, settings.finetune_softmax), batch, part
        )
        tokens = history[-1]["tokens"] + sum(map(_length, batch))
        kl = _mean_kl(backbone, heldout) if trainer.done in measured else None
        history.append(_history_row(trainer.done, tokens=tokens, kl=kl, **facts))
        if checkpoint and (trainer.done % every == 0 or trainer.done == len(plan)):
            trainer.save(checkpoint, {"key": key, "history": history})
    return pd.DataFrame(history, columns=list(HISTORY)).astype(HISTORY)


def _resume(trainer: steps.Trainer, checkpoint: Path | None, key: str) -> list[dict]:
    """History of a checkpoint of the same training, whose state the trainer takes; [] if there is
    none.
    """
    if checkpoint is None or not checkpoint.is_file():
        return []
    if steps.read_record(checkpoint)["key"] != key:
        checkpoint.unlink()
        return []
    return trainer.resume(checkpoint)["history"]


def _history_row(step: int, tokens: int, kl, loss=None, norm=None, lr=None) -> dict:
    return {"step": step, "loss": loss, "norm": norm, "lr": lr, "tokens": tokens, "kl": kl}


def _mean_kl(backbone: Backbone, heldout: Sequence[Sample]) -> float:
    return float(evaluate(backbone, heldout)["kl"].mean())


def _length(sample: Sample) -> int:
    return packing.row_length(sample.prompt, [sample.paths[k].tokens for k in sample.kept])


def model_card(
    backbone: Backbone, name: str, settings: DiplomacySettings, history: pd.DataFrame, notebook: str
) -> str:
    """Five true lines for the folder of an adapter: base, data, weights, result, limits."""
    source, first, last = backbone.source, history["kl"].iloc[0], history["kl"].dropna().iloc[-1]
    trained = sum(p.numel() for _, p in adapters.trainable(backbone))
    origin = source.get("sha256") or f"random weights, seed {source.get('seed')}"
    what = f"LoRA of rank {settings.lora_rank}, peft {metadata.version('peft')}"
    what = what if settings.lora_rank else "no adapter, all weights"
    lines = [
        f"# {name}\n",
        f"- Base model: {backbone.name}, {settings.dtype}, {origin}.",
        "- Task and data: no-press Diplomacy orders in our compact text; targets of the equilibrium"
        f" search; made by notebooks/{notebook}.ipynb.",
        f"- Trained: {what}; {trained} weights, {len(history) - 1} steps of AdamW from"
        f" {settings.finetune_lr}, objective {settings.finetune_objective}.",
        f"- Result: KL(target || model) on unseen games {first:.3f} before, {last:.3f} nats per"
        " power-turn after.",
        "- Limits: learned from games of rule-based players; the decoder, not the model, keeps"
        " orders legal.",
    ]
    return "\n".join(lines) + "\n"
