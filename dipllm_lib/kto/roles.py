"""Three roles as LoRA adapters on one base, and one update of all of them from trajectories.

    executor      which legal text to say: `pt_kto` on immediate prospect value
    opponent      what the other will do and which member of the pool it is: cross-entropy
    coordinator   which of the six settings the executor is told: `pt_kto`, reference = the payoff
                  under setting A

`StrategyTrainer.update` takes one optimiser step per role on all trajectories, each exactly once.
They are dealt to a fixed number of shards; a task gives the sum of the gradients of one role on one
shard; sums are added in the order of the shards, so this process and any number of worker
processes agree. Workers build the base themselves and receive adapter weights only.

Sizes: an adapter of rank r on layers (in, out) has r (in + out) weights each, about half a per cent
of the base.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from dipllm_lib.kto import fitting
from dipllm_lib.kto.fitting import Item, Objective, Rates, Role
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.lm import adapters
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import parallel

EXECUTOR, OPPONENT, COORDINATOR = NAMES = ("executor", "opponent", "coordinator")
OBJECTIVES = {
    EXECUTOR: Objective(),
    OPPONENT: Objective("ce"),
    COORDINATOR: Objective(),
}
ALPHA = 32  # LoRA's scale is ALPHA / r


def attach(
    backbone: Backbone, rank: int, targets: Sequence[str], seed: int, names: Sequence[str] = NAMES
) -> dict[str, int]:
    """One adapter per role on a frozen base; name -> number of its weights."""
    for parameter in backbone.model.parameters():
        parameter.requires_grad_(False)
    sizes = (rank, ALPHA, 0.0, seed, targets)
    return {name: adapters.attach(backbone, name, *sizes) for name in names}


def share(backbone: Backbone, name: str) -> float:
    """Weights of an adapter as a share of those of its base, which holds no adapter's."""
    own = sum(p.numel() for n, p in backbone.model.named_parameters() if f".{name}." in n)
    every = sum(p.numel() for n, p in backbone.model.named_parameters() if ".lora_" in n)
    return own / (backbone.parameters() - every)


def state(backbone: Backbone, name: str) -> dict[str, np.ndarray]:
    """Copies of the weights of one adapter, float32, by parameter name."""
    return {
        n: p.detach().cpu().numpy().copy()
        for n, p in backbone.model.named_parameters()
        if f".{name}." in n
    }


def put(backbone: Backbone, weights: Mapping[str, np.ndarray]) -> None:
    """Write what `state` gave into the adapter it came from. ValueError for unknown names."""
    known = dict(backbone.model.named_parameters())
    missing = sorted(set(weights) - set(known))
    if missing:
        raise ValueError(f"no weight {missing[0]!r} in this model: attach the adapter first")
    with torch.no_grad():
        for name, value in weights.items():
            known[name].copy_(torch.from_numpy(value))


@dataclass(frozen=True)
class Shard:
    """A task: the gradient of `role` on `items`. build: module-level function that makes a base
    with all adapters · point: z0 of the whole update, None to ask for the KL of this shard."""

    build: Callable[[], Backbone]
    role: str
    weights: Mapping[str, np.ndarray]
    items: tuple[Item, ...]
    objective: Objective
    point: float | None = None


@functools.lru_cache(maxsize=1)
def _base(build: Callable[[], Backbone]) -> Backbone:
    """The base of a worker, built once."""
    return build()


def shard_gradient(task: Shard) -> dict:
    """kl: sum of KL_h over the contexts; or value and gradients: sums over the samples."""
    backbone = _base(task.build)
    put(backbone, task.weights)
    policy = LMPolicy(backbone, task.role)
    adapters.switch(backbone, task.role)
    contexts = [item.context for item in task.items]
    if task.point is None:
        with torch.no_grad():
            rows = policy.scores(contexts)
        each = fitting.reference_point(rows, task.items, "exact_context")
        return {"kl": float(each.sum())}
    rows = policy.scores(contexts)
    value = fitting.terms(rows, task.items, torch.tensor(task.point), task.objective)
    wanted = [p for _, p in adapters.trainable(backbone)]
    found = torch.autograd.grad(value, wanted)
    return {"value": float(value.detach()), "gradients": [g.numpy().copy() for g in found]}


def deal(count: int, shards: int) -> list[list[int]]:
    """Indices of `count` trajectories for each shard; every index in exactly one."""
    if shards < 1:
        raise ValueError(f"shards {shards}: need at least one")
    return [list(range(k, count, shards)) for k in range(shards)]


class StrategyTrainer:
    """Updates of the three roles from trajectories, in this process or in workers.

    build: makes the base with its adapters, importable by workers · readers: role -> function that
    turns one trajectory into items with their reference · shards: into which trajectories are
    dealt, whatever the number of workers.
    """

    def __init__(
        self,
        build: Callable[[], Backbone],
        readers: Mapping[str, Callable[[object], Sequence[Item]]],
        count: int,
        rates: Rates,
        seed: int,
        *,
        shards: int = 8,
        workers: int = 1,
        threads: int = 1,
    ):
        self.build, self.readers = build, dict(readers)
        self.shards, self.workers, self.threads = shards, workers, threads
        self.backbone = build()
        self.roles = {
            name: Role(LMPolicy(self.backbone, name), name, count, rates, seed)
            for name in self.readers
        }

    def update(self, trajectories: Sequence[object]) -> dict[str, dict]:
        """One step of every role on the mean over its samples of all trajectories.

        Returns role -> loss, norm, lr, z0, contexts, samples, trajectories. ValueError for none.
        """
        if not trajectories:
            raise ValueError("an update needs at least one trajectory")
        dealt = deal(len(trajectories), self.shards)
        tasks: list[Shard] = []
        for name, read in self.readers.items():
            weights = state(self.backbone, name)
            parts = [tuple(item for i in own for item in read(trajectories[i])) for own in dealt]
            tasks += [
                Shard(self.build, name, weights, part, OBJECTIVES[name]) for part in parts if part
            ]
        points = self._points(tasks)
        tasks = [replace(task, point=points[task.role]) for task in tasks]
        sums = self._map(tasks)
        found = {}
        for name in self.readers:
            own = [(t, s) for t, s in zip(tasks, sums, strict=True) if t.role == name]
            found[name] = self._step(name, own, points[name])
        return {name: one | {"trajectories": len(trajectories)} for name, one in found.items()}

    def _points(self, tasks: Sequence[Shard]) -> dict[str, float]:
        """z0 of every role: the mean KL over all of its contexts, 0 for cross-entropy."""
        asked = [task for task in tasks if task.objective.name != "ce"]
        points = dict.fromkeys(self.readers, 0.0)
        found = self._map(asked)
        for name in points:
            own = [(t, f) for t, f in zip(asked, found, strict=True) if t.role == name]
            if own:
                mean = sum(f["kl"] for _, f in own) / sum(len(t.items) for t, _ in own)
                points[name] = max(0.0, mean)
        return points

    def _step(self, name: str, own: Sequence[tuple[Shard, dict]], point: float) -> dict:
        """One optimiser step from the sums of the shards, added in their order."""
        if not own:
            raise ValueError(f"no trajectory has a decision of the {name}: give it some")
        count = sum(len(item.actions) for task, _ in own for item in task.items)
        role = self.roles[name]
        role.activate()
        gradients = [
            torch.from_numpy(np.sum([one["gradients"][k] for _, one in own], axis=0))
            for k in range(len(own[0][1]["gradients"]))
        ]
        value = sum(one["value"] for _, one in own)
        facts = role.trainer.step(_given(role, gradients, value), [0], count=count)
        contexts = sum(len(task.items) for task, _ in own)
        return facts | {"z0": point, "contexts": contexts, "samples": count}

    def _map(self, tasks: Sequence[Shard]) -> list[dict]:
        return parallel.map(shard_gradient, tasks, self.workers, self.threads)


def _given(role: Role, gradients: Sequence[torch.Tensor], value: float):
    """A loss of known value and gradient: a sum of weights times constants."""

    def loss(_: Sequence) -> torch.Tensor:
        pairs = zip(role.trainer.parameters, gradients, strict=True)
        dot = sum((p * g.to(p)).sum() for (_, p), g in pairs)
        return dot + (value - dot.detach())

    return loss
