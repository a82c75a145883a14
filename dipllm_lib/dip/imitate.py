"""Training of the neural anchor by imitation of recorded games.

    loss of a batch = - sum of log p(order | position, power, orders before it) / max(orders, 8 N)

Every batch holds N positions of one kind of phase, all labelled powers of each at once. AdamW,
warm-up, then a linear schedule to 0, dropout of channels, gradient clipping. A step draws its batch
and its dropout from its own number, so a run that is stopped and resumed gives the same weights bit
for bit (in one thread on one machine). An epoch is all movement positions and a share of the rest.

Refit the `human` anchor from a folder of saved games (see `human` for their forms):

    python -m dipllm_lib.dip.imitate --games FOLDER --out FILE
        [--epochs N] [--lr RATE] [--seed S] [--start FILE] [--resume FOLDER]

--start goes on from the weights of an earlier fit with a new schedule; the seed must be the same,
so that its test games stay unseen.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save

from dipllm_lib.dip import anchor, anchor_card, anchor_net, boards, human
from dipllm_lib.dip.anchor import NeuralAnchor
from dipllm_lib.dip.human import Examples
from dipllm_lib.run import files, seeding

KINDS = (boards.MOVES, boards.RETREATS, (boards.ADJUSTMENTS,))
CLIP = 1.0
WATCHED, EVERY = 300, 400  # validation positions, and steps between two looks at them
SOURCE = "saved games of the folder that was given."
FEW = 8  # batches with fewer orders per position than this count less, as their gradient is noisy
HISTORY = ("step", "epoch", "loss", "accuracy", "lr", "valid_loss", "valid_accuracy")


@dataclass(frozen=True)
class Fit:
    """What `fit` reads of a settings object; values of the `human` anchor's first fit."""

    anchor_width: int = 128
    anchor_layers: int = 4
    anchor_heads: int = 8
    anchor_hidden: int = 128
    anchor_dropout: float = 0.05
    anchor_epochs: int = 4
    anchor_batch: int = 32
    anchor_lr: float = 1.5e-3
    anchor_warmup: int = 300
    anchor_decay: float = 0.02
    anchor_others: float = 0.2  # share of the retreat and adjustment positions seen in an epoch
    anchor_dtype: str = "bfloat16"


def kinds(examples: Examples) -> list[np.ndarray]:
    """Numbers of the positions of movement, retreat and adjustment phases."""
    return [np.flatnonzero(np.isin(examples.boards.phase, phases)) for phases in KINDS]


def plan(examples: Examples, settings, epoch: int, seed: int) -> list[np.ndarray]:
    """The batches of an epoch, each of one kind of phase, in an order that the seed decides."""
    rng = seeding.child(seed, "dip", "anchor", "order", epoch)
    result = []
    for kind, rows in enumerate(kinds(examples)):
        share = settings.anchor_others if kind else 1.0
        rows = rng.permutation(rows)[: round(share * len(rows))]
        cuts = range(0, len(rows), settings.anchor_batch)
        result += [np.sort(rows[i : i + settings.anchor_batch]) for i in cuts]
    return [result[i] for i in rng.permutation(len(result))]


def scores(
    net: anchor_net.Net, batch: anchor_net.Batch, dtype: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """(log-probabilities (S,), correct (S,)) of a batch under autocast to `dtype`."""
    low = dtype == "bfloat16"
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        found = net(batch)
    return anchor_net.log_probs(found.float(), batch)


class Trainer:
    """One training: its net, its optimiser, the steps it has done, its history."""

    def __init__(
        self, examples: Examples, settings, seed: int, start: NeuralAnchor | None = None
    ):  # start: weights to begin with, else random ones
        self.examples, self.settings, self.seed, self.start = examples, settings, seed, start
        self.net = anchor_net.Net(settings, seed)
        if start is not None:
            arrays = {name: torch.from_numpy(array) for name, array in start.weights.items()}
            self.net.load_state_dict(arrays)
        self.weights = dict(self.net.named_parameters())
        decay = settings.anchor_decay
        groups = [
            {"params": [p for p in self.weights.values() if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in self.weights.values() if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=settings.anchor_lr, fused=True)
        self.per_epoch = len(plan(examples, settings, 0, seed))
        self.steps = settings.anchor_epochs * self.per_epoch
        self.done, self.history, self._epoch = 0, [], (-1, [])

    def rate(self) -> float:
        """Learning rate of the next step."""
        rise = min((self.done + 1) / max(self.settings.anchor_warmup, 1), 1.0)
        return self.settings.anchor_lr * rise * (1 - self.done / self.steps)

    def step(self) -> tuple[float, float]:
        """One step; returns the mean loss and accuracy over the orders of its batch."""
        epoch, number = divmod(self.done, self.per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, plan(self.examples, self.settings, epoch, self.seed))
        batch = anchor_net.batch(self.examples.take(self._epoch[1][number]))
        self.net.train()
        with seeding.torch_seed(self.seed, "dip", "anchor", "dropout", self.done):
            log_prob, correct = scores(self.net, batch, self.settings.anchor_dtype)
        loss = -log_prob.sum() / max(len(log_prob), FEW * batch.local.shape[0])
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), CLIP)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        if not torch.isfinite(loss):
            raise FloatingPointError(f"step {self.done}: the loss is {loss.item()}: lower the rate")
        self.optimiser.step()
        self.net.eval()
        self.done += 1
        return -log_prob.mean().item(), correct.float().mean().item()

    def key(self) -> str:
        """What a checkpoint must agree on: settings, seed, data, start. 16 hex digits."""
        names = sorted(Fit.__dataclass_fields__)
        values = [[name, getattr(self.settings, name)] for name in names]
        digest = hashlib.sha256(json.dumps([values, self.seed]).encode("utf-8"))
        digest.update(self.examples.orders.tobytes())
        digest.update(self.examples.boards.unit.tobytes())
        digest.update(self.start.to_bytes() if self.start is not None else b"")
        return digest.hexdigest()[:16]

    def save(self, path: Path) -> None:
        """Write the checkpoint, whole or not at all."""
        tensors = {}
        for name, weight in self.weights.items():
            tensors[f"weight.{name}"] = weight.detach()
            for key, value in self.optimiser.state[weight].items():
                tensors[f"{key}.{name}"] = value
        record = {"key": self.key(), "done": self.done, "history": self.history}
        files.write_bytes(path, save(tensors, {"record": files.to_json(record)}))

    def resume(self, path: Path) -> bool:
        """Take over the state of a checkpoint; False if it is not there or of another training."""
        if not path.is_file():
            return False
        with safe_open(path, framework="pt") as content:
            record = json.loads(content.metadata()["record"])
            if record["key"] != self.key():
                return False
            for name, weight in self.weights.items():
                with torch.no_grad():
                    weight.copy_(content.get_tensor(f"weight.{name}"))
                moments = {x: content.get_tensor(f"{x}.{name}") for x in ("exp_avg", "exp_avg_sq")}
                step = content.get_tensor(f"step.{name}")
                self.optimiser.state[weight] = moments | {"step": step}
        self.done, self.history = record["done"], record["history"]
        return True


def mean_scores(net: anchor_net.Net, examples: Examples, size: int = 128) -> tuple[float, float]:
    """(- log p, accuracy) per order of movement phases, means over all orders; float32."""
    net.eval()
    rows, sums = kinds(examples)[0], np.zeros(3)
    for first in range(0, len(rows), size):
        batch = anchor_net.batch(examples.take(rows[first : first + size]))
        with torch.no_grad():
            log_prob, correct = scores(net, batch, "float32")
        sums += [-float(log_prob.sum()), float(correct.sum()), len(correct)]
    return float(sums[0] / sums[2]), float(sums[1] / sums[2])


def fit(
    examples: Examples,
    settings,
    seed: int,
    valid: Examples | None = None,
    checkpoint: Path | None = None,
    every: int = 200,
    say: Callable[[str], None] = lambda line: None,
    start: NeuralAnchor | None = None,
) -> tuple[NeuralAnchor, pd.DataFrame]:
    """Train a net on `examples`; returns it for numpy, and the history.

    settings: has the fields of `Fit`. valid: examples whose movement phases are measured every
    `every` steps and at the end. checkpoint: file to resume from and to keep every `every` steps;
    one of another training is started over. start: an anchor to go on from, of the same size.
    The same input gives the same weights in one thread.
    """
    trainer = Trainer(examples, settings, seed, start)
    if checkpoint is not None and trainer.resume(checkpoint):
        say(f"resumed after step {trainer.done}")
    sums: list[tuple[float, float]] = []
    while trainer.done < trainer.steps:
        sums.append(trainer.step())
        if trainer.done % every == 0 or trainer.done == trainer.steps:
            loss, accuracy = np.mean(sums, axis=0)
            measured = mean_scores(trainer.net, valid) if valid is not None else (None, None)
            facts = (trainer.done, trainer.done / trainer.per_epoch, loss, accuracy, trainer.rate())
            trainer.history.append(dict(zip(HISTORY, (*map(float, facts), *measured))))
            say(json.dumps(trainer.history[-1]))
            sums = []
            if checkpoint is not None:
                trainer.save(checkpoint)
    return trainer.net.export(), pd.DataFrame(trainer.history, columns=list(HISTORY))


def parts_of(examples: Examples, seed: int) -> list[Examples]:
    """Training, validation and test examples, split by whole games."""
    return [human.part(examples, games) for games in human.split(len(examples.names), seed)]


def refit(
    games: Path, out: Path, settings, seed: int, work: Path | None, source: str, start: Path | None
) -> None:
    """Fit an anchor to the games below `games`; writes `out` and its card beside it (.md).

    work: folder that keeps the compiled games and checkpoints, so that the fit can be resumed.
    start: file of an anchor of the same seed to go on from. ValueError for one of another seed.
    """
    before = None if start is None else anchor.load(start)
    if before is not None and before.card.get("seed") != seed:
        raise ValueError(f"--start {start.name}: fitted with another seed than {seed}")
    if work is None:
        examples, counts = human.examples(human.read(games))
    else:
        examples, counts = human.load(games, work)
    train, valid, test = parts = parts_of(examples, seed)
    rows = seeding.child(seed, "dip", "anchor", "valid").permutation(kinds(valid)[0])[:WATCHED]
    checkpoint = None if work is None else work / "checkpoint.safetensors"
    watched = valid.take(np.sort(rows))
    fitted, history = fit(train, settings, seed, watched, checkpoint, EVERY, print, before)
    if work is not None:
        files.write_text(work / "history.csv", history.to_csv(index=False))
    publish(fitted, parts, dict(counts), settings, seed, out, source, before)


def publish(
    fitted: NeuralAnchor, parts: list[Examples], counts: dict, settings, seed: int, out: Path,
    source: str, start: NeuralAnchor | None = None,
) -> None:  # fmt: skip
    """Measure an anchor on the test games and write its file and its card."""
    train, _, test = parts
    metrics = anchor_card.measured(fitted, train, test, seed)
    values = {name: getattr(settings, name) for name in Fit.__dataclass_fields__}
    facts = anchor_card.facts(counts, parts, values, seed, metrics, source)
    commands = [] if start is None else list(start.card["commands"])
    command = (
        "python -m dipllm_lib.dip.imitate --games FOLDER --out FILE"
        f" --epochs {settings.anchor_epochs} --lr {settings.anchor_lr} --seed {seed}"
    )
    facts["commands"] = [*commands, command + (" --start FILE" if start is not None else "")]
    named = NeuralAnchor(fitted.weights, out.stem, facts)
    data = named.to_bytes()
    files.write_bytes(out, data)
    digest = hashlib.sha256(data).hexdigest()
    text = anchor_card.text(out.stem, named, metrics, len(data), digest)
    files.write_text(out.with_suffix(".md"), text)


def check_paths(games: Path, out: Path) -> None:
    """ValueError unless `games` is a folder and `out` is named *.safetensors."""
    if not games.is_dir():
        raise ValueError(f"--games {games}: no such folder")
    if out.suffix != ".safetensors":
        raise ValueError(f"--out {out}: the name must end in .safetensors")


def main(arguments: list[str] | None = None, settings: Fit = Fit()) -> int:
    """The command of the module's text. Returns the exit status, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m dipllm_lib.dip.imitate")
    parser.add_argument("--games", type=Path, required=True, help="folder of saved games")
    parser.add_argument("--out", type=Path, required=True, help="file to write, .safetensors")
    parser.add_argument("--epochs", type=int, default=settings.anchor_epochs)
    parser.add_argument("--lr", type=float, default=settings.anchor_lr)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="file of an anchor to go on from")
    parser.add_argument("--resume", type=Path, help="folder that keeps what is needed to go on")
    parser.add_argument("--source", default=SOURCE, help="origin of the games, for the card")
    asked = parser.parse_args(arguments)
    try:
        check_paths(asked.games, asked.out)
        if asked.start is not None and not asked.start.is_file():
            raise ValueError(f"--start {asked.start}: no such file")
        if asked.epochs < 1 or asked.seed < 0 or not asked.lr > 0:
            raise ValueError("--epochs must be at least 1, --seed at least 0, --lr above 0")
        settings = replace(settings, anchor_epochs=asked.epochs, anchor_lr=asked.lr)
        places_ = (asked.resume, asked.source, asked.start)
        with seeding.torch_threads(1):
            refit(asked.games, asked.out, settings, asked.seed, *places_)
    except ValueError as error:
        print(f"imitate: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
