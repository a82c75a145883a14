"""Next-token training of a language model on recorded games, before it sees any search.

A row is one position with the orders of all powers as branches (`gametext`); no branch sees
another one, since orders are given at the same time. The loss is the cross-entropy per token

    L = - (1 / T) sum over the T target tokens t of a batch of log p(t | board, branch up to t)

Targets are the tokens of the orders with their separators (`orders`), or all tokens of the row but
the first (`text`). The measure is taken on games that are never trained on, in nats per order
token, whatever the targets.

All weights are trained, in float32; with `bfloat16` the products are computed in that precision.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from dipllm_lib.dip import gametext, text
from dipllm_lib.dip.gametext import Row
from dipllm_lib.dip.policies import Explicit
from dipllm_lib.lm import adapters, packing, scoring, steps
from dipllm_lib.lm.backbones import DTYPES, Backbone
from dipllm_lib.run import seeding, stats

TARGETS = ("orders", "text")
PART = 4  # rows of one pass; those of a batch go by length, so there is little padding
EVALUATED = 8  # rows of one pass of a measurement
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
}  # fmt: skip


@dataclass(frozen=True)
class PretrainSettings:
    """Size of the training; ValueError for a value that makes no sense.

    positions, heldout: rows of the games to train on and of those set aside · epochs · batch: rows
    per optimiser step · lr: of AdamW, warmed up, then by cosine to 0 · targets: `orders` or
    `text` · precision: of the products · evaluations: held-out measurements besides the first.
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
        for name, known in (("targets", TARGETS), ("precision", tuple(DTYPES))):
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


def log_probs(
    backbone: Backbone, rows: Sequence[Row], targets: str, precision: str = "float32"
) -> torch.Tensor:
    """Log-probability (N,) float32 of every target token of `rows`, in their order."""
    packed = packing.pack([r.board for r in rows], [r.branches for r in rows], backbone.device)
    where = [place for i, row in enumerate(rows) for place in _places(packed, i, row, targets)]
    found, columns, tokens = (torch.tensor(x, device=backbone.device) for x in zip(*where))
    with torch.autocast(backbone.device.type, DTYPES[precision], enabled=precision != "float32"):
        logits = packing.hidden(backbone, packed)[found, columns] @ backbone.head.T
    return -torch.nn.functional.cross_entropy(logits.float(), tokens, reduction="none")


def _places(packed: packing.Packed, i: int, row: Row, targets: str) -> list[tuple[int, int, int]]:
    """(row of the batch, predicting column, token) of the target tokens of row i."""
    whole = targets == "text"
    places = [(i, t - 1, row.board[t]) for t in range(1, len(row.board))] if whole else []
    for b, (branch, task) in enumerate(zip(row.branches, row.tasks, strict=True)):
        first = 0 if whole else task
        places += [(i, packed.predictor(i, b, t), branch[t]) for t in range(first, len(branch))]
    return places


def nats(backbone: Backbone, rows: Sequence[Row]) -> float:
    """Cross-entropy of the orders of `rows` in nats per order token, over the whole vocabulary."""
    ordered = sorted(rows, key=lambda row: row.length)
    total = 0.0
    with torch.inference_mode():
        for first in range(0, len(ordered), EVALUATED):
            part = ordered[first : first + EVALUATED]
            total -= log_probs(backbone, part, "orders").double().sum().item()
    return total / sum(row.order_tokens for row in rows)


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
    tokens (columns read so far), heldout (nats per order token, NaN where not measured).
    """
    plan = batches(len(rows), settings.epochs, settings.batch, seed)
    trainer = steps.Trainer(
        backbone, name, settings.lr, len(plan), seed,
        schedule="cosine", warmup=len(plan) // WARMUP,
    )  # fmt: skip
    key = _key(rows, settings, seed)
    history = _resume(trainer, checkpoint, key)
    if not history:
        history = [_history_row(0, 0, nats(backbone, heldout))]
    measured = {
        round(len(plan) * (i + 1) / settings.evaluations) for i in range(settings.evaluations)
    }

    def loss(part: Sequence[Row]) -> torch.Tensor:
        return -log_probs(backbone, part, settings.targets, settings.precision).sum()

    while trainer.done < len(plan):
        batch = sorted((rows[i] for i in plan[trainer.done]), key=lambda row: row.length)
        targets = sum(_targets(row, settings.targets) for row in batch)
        facts = trainer.step(loss, batch, PART, targets)
        tokens = history[-1]["tokens"] + sum(row.length for row in batch)
        value = nats(backbone, heldout) if trainer.done in measured else None
        history.append(_history_row(trainer.done, tokens, value, **facts))
        if checkpoint and (trainer.done % EVERY == 0 or trainer.done == len(plan)):
            trainer.save(checkpoint, {"key": key, "history": history})
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
    backbone.source["pretrained"] = (
        f"{len(rows)} positions of {len({n for n, _ in places})} recorded games"
        f" ({history['heldout'].iloc[-1]:.3f} nats per order token on unseen games)"
    )
    return history, heldout


def card(backbone: Backbone, settings: PretrainSettings, history: pd.DataFrame, made: str) -> str:
    """Five true lines for the folder of the trained weights; made: the notebook that trains."""
    first, last = history["heldout"].iloc[0], history["heldout"].dropna().iloc[-1]
    lines = [
        f"# {NAME}\n",
        f"- Base model: {backbone.name}, {backbone.origin}.",
        "- Task and data: next token of no-press Diplomacy orders in our compact text; recorded"
        f" games; made by notebooks/{made}.ipynb.",
        f"- Trained: all {backbone.parameters()} weights, {len(history) - 1} steps of AdamW from"
        f" {settings.lr}, {history['tokens'].iloc[-1]} tokens, targets {settings.targets}.",
        f"- Result: {first:.3f} nats per order token on unseen games before, {last:.3f} after.",
        "- Limits: it imitates the players of the games, good or bad; the decoder, not the model,"
        " keeps orders legal.",
    ]
    return "\n".join(lines) + "\n"


def _targets(row: Row, targets: str) -> int:
    """Number of target tokens of a row."""
    whole = len(row.board) - 1 + sum(map(len, row.branches))
    return row.order_tokens if targets == "orders" else whole


def _history_row(step: int, tokens: int, heldout, loss=None, norm=None, lr=None) -> dict:
    return dict(zip(HISTORY, (step, loss, norm, lr, tokens, heldout), strict=True))


def _key(rows: Sequence[Row], settings: PretrainSettings, seed: int) -> str:
    """What a checkpoint must agree on: settings, seed and the training data. 16 hex digits."""
    digest = hashlib.sha256(json.dumps([asdict(settings), seed], sort_keys=True).encode("utf-8"))
    for row in rows:
        digest.update(json.dumps([row.board, row.branches]).encode("utf-8"))
    return digest.hexdigest()[:16]


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


def divergence(
    backbone: Backbone,
    games: Sequence[Mapping],
    places: Sequence[gametext.Place],
    policy: Explicit,
    rng: np.random.Generator,
    resamples: int,
) -> pd.DataFrame:
    """How far players are from the policy that played some places of saved games.

    One row each for the uniform choice among the legal orders of each unit, the model masked to
    legal orders as at play, and `policy` itself: player, nats (mean of -log p of the recorded
    joint orders), kl (mean of log policy - log p, an estimate of KL(policy || player) in nats per
    power-turn, with interval), turns.
    """
    decided = [pair for listed in gametext.decided(games, places) for pair in listed]
    turns, joints = zip(*decided)
    choices = [text.OrderChoice(turn, backbone.encode) for turn in turns]
    own = np.array([policy.log_prob(t, [joint])[0] for t, joint in decided])
    found = {
        "uniform": np.array([_uniform(t, joint) for t, joint in decided]),
        "model": _model(backbone, turns, choices, joints),
        "policy": own,
    }
    rows = []
    for name, values in found.items():
        kl, low, high = stats.mean_interval(own - values, rng, resamples)
        row = {"player": name, "nats": -values.mean(), "kl": kl, "kl_low": low, "kl_high": high}
        rows.append(row | {"turns": len(values)})
    return pd.DataFrame(rows)


def _uniform(turn, joint) -> float:
    """log-probability of a joint order when every unit chooses uniformly among its legal orders."""
    return -sum(float(np.log(len(turn.options(joint[:d])))) for d in range(turn.slots))


def _model(backbone, turns, choices, joints) -> np.ndarray:
    prompts = [backbone.encode(text.prompt(turn)) for turn in turns]
    sequences = [[c.sequence(joint)] for c, joint in zip(choices, joints, strict=True)]
    found = scoring.log_prob(backbone, prompts, choices, sequences)
    return np.array([values[0] for values in found])
