"""Fine-tuning a language model toward the joint targets of the search.

The sum over units of the KL of Eq. 5 (Xu et al. 2025), with prefixes weighted by pi*, is KL(pi* ||
pi_phi) over joint orders. Its gradient is that of a weighted likelihood, so `exact_kl` is

    L = - sum over the kept joint orders k of  w_k log p(text_k),    w = pi* over the K' kept ones

with log p summed over the tokens of the joint order's text: over the whole vocabulary (`tokens`),
or over the legal next tokens as at play (`legal`). All units of all kept joint orders are learned
in one pass over a trie (`tree_scores`): a node weighs what the leaves below it weigh, which is
Eq. 5 at unit level. A row of the batch is one power-turn, or one position with its powers as
branches (`pack`). The other objectives change w only (`objectives`). A logical batch is the mean
over its power-turns, however it is cut into passes.

The measure of success is computed over all stored candidates, with the model masked as at play:

    KL(pi* || pi_phi) = sum_k pi*_k (log pi*_k - log pi_phi(a_k))      nats per power-turn

Samples are made in `samples.py`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from dipllm_lib.dip import objectives, text
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.samples import Sample, build, row_turn, split
from dipllm_lib.lm import adapters, backbones, packing, steps, tree_scores
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.profiles import DiplomacySettings

__all__ = [
    "Sample", "backbone", "batch_plan", "batches", "build", "evaluate", "fit", "loss", "model_card",
    "row_turn", "split", "train", "training_key",
]  # fmt: skip

HISTORY = {
    "step": int, "loss": float, "norm": float, "lr": float, "tokens": int, "turns": float,
    "effective": float, "mass": float, "kl": float,
}  # fmt: skip
TOKENS = 1024  # padded tokens of one pass of `evaluate`


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
        device_map=settings.device_map,
    )


def packed_rows(samples: Sequence[Sample], pack: str) -> list[list[Sample]]:
    """The samples of each row of a batch: one (`turn`), or all of one position (`position`)."""
    if pack == "turn":
        return [[sample] for sample in samples]
    rows: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        rows.setdefault(sample.position, []).append(sample)
    return list(rows.values())


def _kept(row: Sequence[Sample]) -> list[tree_scores.Branches]:
    return [(s.prompt, [s.paths[k] for k in s.kept]) for s in row]


def loss(
    backbone: Backbone, samples: Sequence[Sample], softmax: str, pack: str = "turn"
) -> torch.Tensor:
    """Sum over `samples` of L; see the module's text. softmax: `tokens` or `legal`."""
    rows = packed_rows(samples, pack)
    found = tree_scores.score(backbone, [_kept(row) for row in rows], softmax)
    return -found.weighted([[s.weights for s in row] for row in rows])


@torch.inference_mode()
def evaluate(backbone: Backbone, samples: Sequence[Sample]) -> pd.DataFrame:
    """One row per sample: game, phase, power, kl (nats, model masked as at play), covered (model's
    mass on the candidates).
    """
    packed = packed_rows(samples, "position")
    branches = [[(s.prompt, s.paths) for s in row] for row in packed]
    log_probs: dict[int, np.ndarray] = {}
    for chunk in packing.chunks(list(map(tree_scores.length, branches)), TOKENS):
        found = tree_scores.score(backbone, [branches[i] for i in chunk], "legal").paths()
        for i, row in zip(chunk, found, strict=True):
            log_probs |= {id(s): own for s, own in zip(packed[i], row, strict=True)}
    rows = [_divergence(s, log_probs[id(s)]) for s in samples]
    return pd.DataFrame(rows, columns=["game", "phase", "power", "kl", "covered"])


def _divergence(sample: Sample, log_probs: np.ndarray) -> tuple:
    positive = sample.target > 0
    target = sample.target[positive]
    kl = float(target @ (np.log(target) - log_probs[positive]))
    return sample.game, sample.phase, sample.power, kl, float(np.exp(log_probs).sum())


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


def training_key(
    samples: Sequence[Sample], settings: DiplomacySettings | FinetuneSettings, seed: int
) -> str:
    """What a checkpoint must agree on: settings, seed and the training data. 16 hex digits."""
    wanted = FinetuneSettings.of(settings)
    digest = hashlib.sha256(json.dumps([settings.hash(), wanted.hash(), seed]).encode("utf-8"))
    for sample in samples:
        digest.update(json.dumps([sample.prompt, [p.tokens for p in sample.paths]]).encode("utf-8"))
        for column in (sample.target, sample.log_tau, sample.f):
            digest.update(b"-" if column is None else column.tobytes())
    return digest.hexdigest()[:16]


def batches(items: Sequence, epochs: int, batch: int, seed: int) -> list[list[int]]:
    """Indices of the items of every optimiser step; a new order each epoch, a function of the seed
    alone.
    """
    plan = []
    for epoch in range(epochs):
        order = seeding.child(seed, "finetune", "order", epoch).permutation(len(items)).tolist()
        plan += [order[i : i + batch] for i in range(0, len(order), batch)]
    return plan


def batch_plan(items: Sequence, settings: FinetuneSettings, seed: int) -> list[list[int]]:
    """`batches` of as many epochs as the settings say, or as its steps need."""
    if not settings.steps:
        return batches(items, settings.epochs, settings.batch, seed)
    epochs = -(-settings.steps // -(-len(items) // settings.batch))
    return batches(items, epochs, settings.batch, seed)[: settings.steps]


def train(
    backbone: Backbone,
    name: str,
    samples: Sequence[Sample],
    heldout: Sequence[Sample],
    settings: DiplomacySettings | FinetuneSettings,
    seed: int,
    checkpoint: Path | None = None,
    every: int = 20,
) -> pd.DataFrame:
    """Train what was attached under `name`; returns the history.

    checkpoint: file to resume from and to save to, every `every` steps and at the end; one of other
        settings, seed or data is started over. History, one row per step and one for step 0: step,
        loss (mean over power-turns), norm, lr, tokens (read so far), turns, effective, mass (see
        `objectives.facts`), kl (NaN where not measured). ValueError for samples that lack what the
        objective needs.
    """
    wanted = FinetuneSettings.of(settings)
    rows, factor = packed_rows(samples, wanted.pack), objectives.log_factor(samples, wanted)
    plan = batch_plan(rows, wanted, seed)
    trainer = steps.Trainer(
        backbone, name, wanted.lr, len(plan), seed, checkpointing=wanted.checkpointing,
        schedule=wanted.schedule, warmup=wanted.warmup,
    )  # fmt: skip
    key = training_key(samples, settings, seed)
    history = steps.resumed(trainer, checkpoint, key)
    if not history:
        history = [_history_row(0, tokens=0, kl=_mean_kl(backbone, heldout))]
    parts = wanted.evaluations
    measured = {round(len(plan) * (i + 1) / parts) for i in range(parts)}

    def row(history: list[dict]) -> dict:
        rng = seeding.child(seed, "finetune", "draws", trainer.done)
        batch = [s for i in plan[trainer.done] for s in rows[i]]
        facts = step(trainer, objectives.weigh(batch, wanted, rng, factor), wanted)
        facts["tokens"] += history[-1]["tokens"]
        kl = _mean_kl(backbone, heldout) if trainer.done in measured else None
        return _history_row(trainer.done, kl=kl, **facts)

    history = steps.run(trainer, row, history, checkpoint, key, every)
    return pd.DataFrame(history, columns=list(HISTORY)).astype(HISTORY)


def step(trainer: steps.Trainer, batch: Sequence[Sample], settings: FinetuneSettings) -> dict:
    """One optimiser step on the mean over the power-turns of `batch`, in passes of at most
    settings.tokens padded tokens (a longer row stands alone). Returns what `Trainer.step` does,
    `objectives.facts`, and tokens: what was read, without padding.
    """
    parts, tokens = passes(batch, settings)

    def part(items: Sequence[list[Sample]]) -> torch.Tensor:
        return loss(trainer.backbone, items[0], settings.softmax, settings.pack)

    facts = trainer.step(part, parts, part=1, count=len(batch))
    return facts | objectives.facts(batch) | {"tokens": tokens}


def passes(batch: Sequence[Sample], settings: FinetuneSettings) -> tuple[list[list[Sample]], int]:
    """The samples of each pass over a logical batch, and the tokens of all without padding."""
    rows = packed_rows(batch, settings.pack)
    lengths = [tree_scores.length(_kept(row)) for row in rows]
    chunks = packing.chunks(lengths, settings.tokens)
    return [[s for i in chunk for s in rows[i]] for chunk in chunks], sum(lengths)


@dataclass(frozen=True)
class Fitted:
    """A trained model; before, after: tables of `evaluate` on the held-out power-turns."""

    backbone: Backbone
    history: pd.DataFrame
    before: pd.DataFrame
    after: pd.DataFrame


def fit(
    rows: Sequence[dict],
    heldout: Sequence[dict],
    settings: DiplomacySettings,
    seed: int,
    *,
    name: str = "dipllm",
    start: Backbone | None = None,
    checkpoint: Path | None = None,
    offline: bool = True,
) -> Fitted:
    """From rows of 02_samples.jsonl to a trained model, whatever its backbone: two backbones at the
    same rows, settings and seed are compared at equal data.

    start: a bare backbone to begin with, for instance one that has read game text; None loads the
    one that the settings name.
    """
    model = start or backbone(settings, seed, offline)
    adapters.attach(
        model, name, settings.lora_rank, settings.lora_alpha, settings.lora_dropout, seed
    )
    parts = [build(part, model, settings) for part in (rows, heldout)]
    before = evaluate(model, parts[1])
    history = train(model, name, *parts, settings, seed, checkpoint)
    return Fitted(model, history, before, evaluate(model, parts[1]))


def _history_row(step: int, **facts) -> dict:
    return {name: facts.get(name) for name in HISTORY} | {"step": step}


def _mean_kl(backbone: Backbone, heldout: Sequence[Sample]) -> float | None:
    return float(evaluate(backbone, heldout)["kl"].mean()) if heldout else None


def model_card(
    backbone: Backbone, name: str, settings: DiplomacySettings, history: pd.DataFrame, notebook: str
) -> str:
    """Five true lines for the folder of an adapter: base, data, weights, result, limits."""
    first, last = history["kl"].iloc[0], history["kl"].dropna().iloc[-1]
    lines = [
        f"# {name}\n",
        f"- Base model: {backbone.name}, {settings.dtype}, {backbone.origin}.",
        "- Task and data: no-press Diplomacy orders in our compact text; targets of the equilibrium"
        f" search; made by notebooks/{notebook}.ipynb.",
        f"- Trained: {adapters.words(backbone, name)}; {len(history) - 1} steps of AdamW from"
        f" {settings.finetune_lr}, objective {settings.finetune_objective}.",
        f"- Result: KL(target || model) on unseen games {first:.3f} before, {last:.3f} nats per"
        f" power-turn after; intervals: table {notebook[: notebook.index('_')]}_kl.",
        "- Limits: learned from searches of one anchor; the decoder, not the model, keeps orders"
        " legal.",
    ]
    return "\n".join(lines) + "\n"
