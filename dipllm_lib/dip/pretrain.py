"""Next-token training of a language model on recorded games, before it sees any search.

Rows are positions of whole games (`gametext`), the loss is the cross-entropy of their orders, and
the measures are taken on games that are never trained on (`gameloss`). AdamW, warmed up for one
step in twenty, then to 0 by a cosine.

All weights are trained, in float32; with `bfloat16` the products are computed in that precision.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pandas as pd
import torch

from dipllm_lib.dip import gameloss, gametext
from dipllm_lib.dip.gametext import Row
from dipllm_lib.lm import adapters, steps
from dipllm_lib.lm.backbones import DTYPES, Backbone
from dipllm_lib.run import seeding

PART = 4  # rows of one pass; those of a batch go by length, so there is little padding
WARMUP = 20  # one step of so many is warm-up
EVERY = 50  # steps between checkpoints
NAME = "pretrained"  # under which the weights are attached
HISTORY = {
    "step": int,
    "loss": float,
    "norm": float,
    "lr": float,
    "tokens": int,
    "heldout": float,
    "masked": float,
}  # fmt: skip


@dataclass(frozen=True)
class PretrainSettings:
    """Size of the training; ValueError for a value that makes no sense.

    positions, heldout: rows of the games to train on and of those set aside · epochs · batch: rows
    per optimiser step · lr: of AdamW, warmed up, then by cosine to 0 · targets: `orders`,
    `legal` or `text` · precision: of the products · evaluations: held-out measurements besides the
    first.
    """

    positions: int
    heldout: int
    epochs: int = 1
    batch: int = 16
    lr: float = 1e-3
    targets: str = "orders"
    precision: str = "float32"
    evaluations: int = 4

    def __post_init__(self):
        for name, known in (("targets", gameloss.TARGETS), ("precision", tuple(DTYPES))):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(f"unknown pretrain_{name} {value!r}: use {' or '.join(known)}")
        for name in ("positions", "heldout", "epochs", "batch", "evaluations"):
            if getattr(self, name) < 1:
                raise ValueError(f"pretrain_{name} is {getattr(self, name)}: need at least 1")

    @classmethod
    def of(cls, settings) -> "PretrainSettings":
        """The pretrain_* fields of a profile's settings; a PretrainSettings as it is."""
        if isinstance(settings, cls):
            return settings
        names = [f.name for f in fields(cls) if hasattr(settings, f"pretrain_{f.name}")]
        return cls(**{name: getattr(settings, f"pretrain_{name}") for name in names})


def batches(count: int, epochs: int, batch: int, seed: int) -> list[list[int]]:
    """Numbers of the rows of every optimiser step; a new order each epoch, a function of the seed
    alone.
    """
    plan = []
    for epoch in range(epochs):
        order = seeding.child(seed, "pretrain", "order", epoch).permutation(count).tolist()
        plan += [order[i : i + batch] for i in range(0, count, batch)]
    return plan


def train(
    backbone: Backbone,
    name: str,
    rows: Sequence[Row],
    heldout: Sequence[Row],
    settings: PretrainSettings,
    seed: int,
    checkpoint: Path | None = None,
) -> pd.DataFrame:
    """Train what was attached under `name` (rank 0: all weights); returns the history.

    checkpoint: file to resume from and to save to, every EVERY steps and at the end; one of other
        settings, seed or data is started over.
    History, one row per step and one for step 0: step, loss (nats per target token), norm, lr,
    tokens (columns read so far), heldout and masked (nats per order token, NaN where not measured).
    """
    plan = batches(len(rows), settings.epochs, settings.batch, seed)
    trainer = steps.Trainer(
        backbone, name, settings.lr, len(plan), seed,
        schedule="cosine", warmup=len(plan) // WARMUP,
    )  # fmt: skip
    key = _key(rows, settings, seed)
    history = steps.resumed(trainer, checkpoint, key)
    if not history:
        history = [_history_row(0, 0, *gameloss.nats(backbone, heldout))]
    measured = {
        round(len(plan) * (i + 1) / settings.evaluations) for i in range(settings.evaluations)
    }

    def loss(part: Sequence[Row]) -> torch.Tensor:
        return -gameloss.log_probs(backbone, part, settings.targets, settings.precision).sum()

    def row(history: list[dict]) -> dict:
        batch = sorted((rows[i] for i in plan[trainer.done]), key=lambda row: row.length)
        targets = sum(gameloss.targets_of(row, settings.targets) for row in batch)
        facts = trainer.step(loss, batch, PART, max(targets, 1))
        tokens = history[-1]["tokens"] + sum(row.length for row in batch)
        values = gameloss.nats(backbone, heldout) if trainer.done in measured else (None, None)
        return _history_row(trainer.done, tokens, *values, **facts)

    history = steps.run(trainer, row, history, checkpoint, key, EVERY)
    return pd.DataFrame(history, columns=list(HISTORY)).astype(HISTORY)


def run(
    backbone: Backbone,
    games: Sequence[Mapping],
    settings: PretrainSettings,
    seed: int,
    checkpoint: Path | None = None,
) -> tuple[pd.DataFrame, list[gametext.Place]]:
    """Train all weights of `backbone` on saved games; (history, held-out places).

    Afterwards the backbone's source says so, and `adapters.attach` goes on from these weights.
    Raises what `gametext.split` and `adapters.attach` raise: rank 0 needs a bare float32 model.
    """
    rng = seeding.child(seed, "pretrain", "split")
    places, heldout = gametext.split(games, settings.positions, settings.heldout, rng)
    rows, unseen = (gametext.rows(games, part, backbone.encode) for part in (places, heldout))
    adapters.attach(backbone, NAME, 0)
    history = train(backbone, NAME, rows, unseen, settings, seed, checkpoint)
    count = len({n for n, _ in places})
    backbone.source["pretrained"] = f"{len(rows)} positions of {count} recorded games"
    return history, heldout


def card(backbone: Backbone, settings: PretrainSettings, history: pd.DataFrame, made: str) -> str:
    """Five true lines for the folder of the trained weights; made: the notebook that trains."""
    first, last = history["masked"].iloc[0], history["masked"].dropna().iloc[-1]
    lines = [
        f"# {NAME}\n",
        f"- Base model: {backbone.name}, {backbone.origin}.",
        "- Task and data: next token of no-press Diplomacy orders in our compact text; recorded"
        f" games; made by notebooks/{made}.ipynb.",
        f"- Trained: all {backbone.parameters()} weights, {len(history) - 1} steps of AdamW from"
        f" {settings.lr}, {history['tokens'].iloc[-1]} tokens, targets {settings.targets}.",
        f"- Result: {first:.3f} nats per order token on unseen games among the legal tokens before,"
        f" {last:.3f} after.",
        "- Limits: it imitates the players of the games, good or bad; the decoder, not the model,"
        " keeps orders legal.",
    ]
    return "\n".join(lines) + "\n"


def _history_row(step: int, tokens: int, heldout, masked, loss=None, norm=None, lr=None) -> dict:
    return dict(zip(HISTORY, (step, loss, norm, lr, tokens, heldout, masked), strict=True))


def _key(rows: Sequence[Row], settings: PretrainSettings, seed: int) -> str:
    """What a checkpoint must agree on: settings, seed and the training data. 16 hex digits."""
    digest = hashlib.sha256(json.dumps([asdict(settings), seed], sort_keys=True).encode("utf-8"))
    for row in rows:
        digest.update(json.dumps([row.board, row.branches]).encode("utf-8"))
    return digest.hexdigest()[:16]
