"""Training of one adapter, or of all weights: AdamW, a schedule that ends at 0, accumulation,
checkpoint, resume.

    step s of S:  g = gradient of (1 / n) sum over the n items of the logical batch;
                  g <- g min(1, clip / |g|);  AdamW (Loshchilov and Hutter 2019), no weight decay by
                  default;  with W warm-up steps and x = (s - W) / (S - W)
                  lr_s = lr (s + 1) / (W + 1)           for s < W, then
                  lr_s = lr (1 - x)                     `linear`
                  lr_s = lr (1 + cos(pi x)) / 2         `cosine` (Loshchilov and Hutter 2017)

`bounded` has three given rates: it rises in a line from `first` at step 0 to lr at step W and falls
by a cosine to `last` at step S - 1, each of them exactly.

A logical batch may be cut into parts whose gradients add up; the sum equals that of the whole
batch. Dropout draws from a generator seeded by (seed, name, step), so a run that is stopped and
resumed gives the same weights bit for bit.

A checkpoint is one safetensors file (weights, both moments) whose metadata carries the step and the
caller's record; it is written beside its place and renamed.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from dipllm_lib.lm import adapters
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding

SCHEDULES = ("linear", "cosine")  # of the rates that end at 0; `bounded` has ends of its own


def rate(step: int, steps: int, schedule: str = "linear", warmup: int = 0) -> float:
    """Share of the learning rate at `step` (from 0) of `steps`; see the module's text."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    x = (step - warmup) / (steps - warmup)
    return 1 - x if schedule == "linear" else (1 + math.cos(math.pi * x)) / 2


def bounded(step: int, steps: int, warmup: int, rates: tuple[float, float, float]) -> float:
    """Learning rate at `step` (from 0) of `steps`; rates: first, peak, last, which are met exactly
    at steps 0, `warmup` and `steps` - 1. ValueError unless 1 <= warmup < steps - 1.
    """
    if not 1 <= warmup < steps - 1:
        raise ValueError(
            f"a bounded schedule has its peak at step {warmup} of {steps}: the peak must lie"
            " behind the first and before the last step"
        )
    first, peak, last = rates
    if step < warmup:
        share, low = step / warmup, first
    else:
        share = (1 + math.cos(math.pi * (step - warmup) / (steps - 1 - warmup))) / 2
        low = last
    return share * peak + (1 - share) * low


class Trainer:
    """Steps the active adapter (or all weights) of one backbone."""

    def __init__(
        self,
        backbone: Backbone,
        name: str,
        lr: float,
        steps: int,
        seed: int,
        *,
        clip: float = 1.0,
        weight_decay: float = 0.0,
        checkpointing: bool = False,
        schedule: str = "linear",
        warmup: int = 0,
        ends: tuple[float, float] | None = None,
    ):
        """
        name: the adapter that was attached; lr: the largest; steps: S, where it reaches 0
        clip: largest norm of the gradient; checkpointing: recompute activations in the backward
            pass, less memory; schedule: `linear` or `cosine`; warmup: W, steps of rising lr
        ends: first and last rate of the schedule `bounded`, which takes the place of `schedule`
        """
        if steps < 1:
            raise ValueError(f"a training needs at least one step, got {steps}")
        if schedule not in SCHEDULES or not 0 <= warmup < steps:
            raise ValueError(
                f"schedule {schedule!r} with {warmup} warm-up steps of {steps}: use one of"
                f" {', '.join(SCHEDULES)} and fewer warm-up steps than steps"
            )
        self.backbone, self.name, self.lr, self.steps, self.seed = backbone, name, lr, steps, seed
        self.clip, self.done, self.schedule, self.warmup = clip, 0, schedule, warmup
        self.ends = ends
        self._rate(0)  # refuses a bad schedule now
        if adapters.names(backbone):
            adapters.switch(backbone, name)
        self.parameters = adapters.trainable(backbone)
        if not self.parameters:
            raise ValueError(f"nothing to train under {name!r}: call adapters.attach first")
        weights = [p for _, p in self.parameters]
        self.optimiser = torch.optim.AdamW(weights, lr=lr, weight_decay=weight_decay)
        if checkpointing:
            backbone.causal.activation_checkpointing_enable({"use_reentrant": False})
        else:
            backbone.causal.activation_checkpointing_disable()

    def step(
        self,
        loss: Callable[[Sequence], torch.Tensor],
        items: Sequence,
        part: int = 0,
        count: int = 0,
    ) -> dict[str, float]:
        """One optimiser step on the mean over `items`.

        loss: the SUM of the losses of the items it is given; part: items per backward pass, 0 = all
            at once; count: what the sum is divided by, 0 = the number of items.
        Returns loss (mean over items), norm (of the gradient before clipping), lr. Raises
        FloatingPointError when the loss is not finite; the weights are then unchanged.
        """
        part, count = part or len(items), count or len(items)
        total = 0.0
        self.optimiser.zero_grad(set_to_none=True)
        self.backbone.model.train()
        with seeding.torch_seed(self.seed, "dropout", self.name, self.done):
            for first in range(0, len(items), part):
                value = loss(items[first : first + part]) / count
                if value.requires_grad:  # not where every answer is forced
                    value.backward()
                total += value.item()
        self.backbone.model.eval()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in self.parameters], self.clip).item()
        if not (torch.isfinite(torch.tensor(total)) and torch.isfinite(torch.tensor(norm))):
            raise FloatingPointError(
                f"step {self.done}: loss {total}, gradient norm {norm}: lower lr"
            )
        now = self._rate(self.done)
        for group in self.optimiser.param_groups:
            group["lr"] = now
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.done += 1
        return {"loss": total, "norm": norm, "lr": now}

    def _rate(self, step: int) -> float:
        """Learning rate of `step`."""
        if self.ends is None:
            return self.lr * rate(step, self.steps, self.schedule, self.warmup)
        first, last = self.ends
        return bounded(step, self.steps, self.warmup, (first, self.lr, last))

    def _plan(self) -> list:
        """What a checkpoint must agree on."""
        plan = [self.name, self.steps, self.lr, self.schedule, self.warmup, self.seed]
        return plan if self.ends is None else [*plan, list(self.ends)]

    def save(self, path: Path, record: dict) -> None:
        """Write the checkpoint file `path`; record: anything JSON-able that the caller needs to go
        on.

        Raises ValueError before the first step: there is nothing to keep yet.
        """
        if not self.done:
            raise ValueError("a checkpoint before the first step holds nothing: save after a step")
        tensors = {}
        for name, parameter in self.parameters:
            tensors[f"weight.{name}"] = parameter.detach().cpu().contiguous()
            for key, value in sorted(self.optimiser.state[parameter].items()):
                tensors[f"{key}.{name}"] = value.detach().cpu().contiguous()
        facts = {"done": self.done, "plan": self._plan(), "record": record}
        text = json.dumps(facts, sort_keys=True, allow_nan=False)
        temporary = path.with_suffix(".tmp")
        save_file(tensors, temporary, metadata={"trainer": text})
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        os.replace(temporary, path)

    def resume(self, path: Path) -> dict:
        """Take weights, moments and step from `path`; returns the record given to `save`.

        Raises ValueError for a checkpoint of another training.
        """
        with safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["trainer"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}
        missing = [n for n, p in self.parameters if f"weight.{n}" not in tensors]
        if missing or facts.get("plan") != self._plan():
            raise ValueError(f"{path.name} belongs to another training: remove it to start anew")
        with torch.no_grad():
            for name, parameter in self.parameters:
                parameter.copy_(tensors[f"weight.{name}"])
                self.optimiser.state[parameter] = {
                    "step": tensors[f"step.{name}"],
                    "exp_avg": tensors[f"exp_avg.{name}"].to(parameter.device),
                    "exp_avg_sq": tensors[f"exp_avg_sq.{name}"].to(parameter.device),
                }
        self.done = facts["done"]
        return facts["record"]


def read_record(path: Path) -> dict:
    """The caller's record of a checkpoint, without its tensors."""
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["trainer"])["record"]


def resumed(trainer: Trainer, checkpoint: Path | None, key: str) -> list[dict]:
    """The history that a checkpoint of the same training keeps in its record, after the trainer has
    taken its state; [] if there is none. One of another key is removed.
    """
    if checkpoint is None or not checkpoint.is_file():
        return []
    if read_record(checkpoint)["key"] != key:
        checkpoint.unlink()
        return []
    return trainer.resume(checkpoint)["history"]


def run(
    trainer: Trainer,
    row: Callable[[list[dict]], dict],
    history: list[dict],
    checkpoint: Path | None = None,
    key: str = "",
    every: int = 20,
) -> list[dict]:
    """Step until the end; `row(history)` takes one step and returns its line of the history.

    history: what `resumed` gave, or a first line; checkpoint: written every `every` steps and at
        the end, with key and history in its record.
    """
    while trainer.done < trainer.steps:
        history.append(row(history))
        if checkpoint and (trainer.done % every == 0 or trainer.done == trainer.steps):
            trainer.save(checkpoint, {"key": key, "history": history})
    return history
