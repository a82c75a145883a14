"""Steps of one language-model role on logical batches: `pt_kto`, `kto` or cross-entropy.

A logical batch has n contexts of one game, each with any number of samples: one pass gives the
log-probabilities of all legal texts, so a context costs the same with one sample or fifty. With N
samples in the batch, r = log pi - log pi_ref and the terms of `kto.loss`

    pt_kto   L = (1/N) sum_i omega_i lambda_y (1 - sigma(kappa e_i (r_i - z0)))
    kto      the same with omega = 1
    ce       L = - sum_i omega_i log pi(a_i|h_i) / N      next action, type, or answer tokens

z0 is the mean of KL_h over the contexts of the LOGICAL batch. If the batch is cut into passes, it
is computed in a pass without gradient before the first of them, so accumulation is exact; if it
fits one pass, that pass gives it. pi_ref is a number per legal text, computed once and kept with
the data: there is no second model in memory.

Shapes: n contexts, N samples, A legal texts of a context.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from dipllm_lib.kto import loss
from dipllm_lib.kto.labels import Sample
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import Context, Policy
from dipllm_lib.lm import adapters, steps
from dipllm_lib.run import seeding

OBJECTIVES = ("pt_kto", "kto", "ce")
HISTORY = ("step", "game", "loss", "norm", "lr", "z0", "contexts", "samples")
TURN = 100  # contexts of a game per turn
WARMUP = 10  # one step of so many is warm-up


@dataclass(frozen=True)
class Item:
    """One context with its samples. actions int (m,), omega float (m,) >= 0, desirable bool (m,) ·
    reference (A,) log pi_ref, None where the objective has none."""

    context: Context
    actions: np.ndarray
    omega: np.ndarray
    desirable: np.ndarray
    game: str
    reference: np.ndarray | None = None


@dataclass(frozen=True)
class Objective:
    """name: one of OBJECTIVES · kappa > 0 · z0: `exact_batch`, `exact_context` or `zero` ·
    lam_d, lam_u: class weights. ValueError for anything else."""

    name: str = "pt_kto"
    kappa: float = 0.1
    z0: str = "exact_batch"
    lam_d: float = 1.0
    lam_u: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in OBJECTIVES:
            raise ValueError(f"unknown objective {self.name!r}: use {', '.join(OBJECTIVES)}")
        if self.z0 not in ("exact_batch", "exact_context", "zero"):
            raise ValueError(f"z0 {self.z0!r}: use exact_batch, exact_context or zero")


@dataclass(frozen=True)
class Rates:
    """Learning rates of the first step, the peak and the last step; the article's by default."""

    first: float = 5e-6
    peak: float = 2e-5
    last: float = 1e-6

    def scaled(self, factor: float) -> "Rates":
        """All three times `factor`: the shape of the schedule stays."""
        return Rates(self.first * factor, self.peak * factor, self.last * factor)


def items(samples: Sequence[Sample], unit: bool = False) -> list[Item]:
    """The samples by prompt, in the order in which prompts first occur. unit: omega = 1."""
    groups: dict[tuple, list[Sample]] = {}
    for sample in samples:
        name = sample.game, sample.context.prompt, sample.context.legal
        groups.setdefault(name, []).append(sample)
    found = []
    for own in groups.values():
        omega = np.array([1.0 if unit else s.omega for s in own])
        actions, desirable = np.array([[s.action, s.desirable] for s in own]).T
        first = own[0]
        found.append(Item(first.context, actions, omega, desirable.astype(bool), first.game))
    return found


def referred(given: Sequence[Item], policy: Policy) -> list[Item]:
    """The items with log pi_ref of `policy`: the snapshot before a round of training."""
    rows = policy.log_probs([item.context for item in given])
    return [replace(item, reference=row) for item, row in zip(given, rows, strict=True)]


def plan(
    given: Sequence[Item], count: int, contexts: int, seed: int, *names, turn: int = TURN
) -> list[list[int]]:
    """Indices of the items of `count` logical batches of at most `contexts` contexts of one game.

    Games take turns, one for every `turn` contexts begun; within a game an order is drawn anew when
    all of its contexts were seen.
    """
    queues: dict[str, list[int]] = {}
    kinds = sorted({item.game for item in given})
    if not kinds or count < 1 or contexts < 1:
        raise ValueError(f"a training needs items, steps and contexts, got {len(given)}, {count}")
    batches, epochs = [], dict.fromkeys(kinds, 0)
    sizes = {kind: sum(item.game == kind for item in given) for kind in kinds}
    turns = [k for go in range(len(given)) for k in kinds if go * turn < sizes[k]]
    for step in range(count):
        kind = turns[step % len(turns)]
        if not queues.get(kind):
            own = [i for i, item in enumerate(given) if item.game == kind]
            rng = seeding.child(seed, "kto", "order", *names, kind, epochs[kind])
            queues[kind] = [own[k] for k in rng.permutation(len(own)).tolist()]
            epochs[kind] += 1
        batches.append(queues[kind][:contexts])
        queues[kind] = queues[kind][contexts:]
    return batches


def terms(
    rows: Sequence[torch.Tensor], batch: Sequence[Item], point: torch.Tensor, objective: Objective
) -> torch.Tensor:
    """Sum over the samples of omega times the term of the objective, with gradient.

    rows: log-probabilities of each item's legal texts · point: z0, a number or one per item.
    """
    total = rows[0].new_zeros(())
    for k, (row, item) in enumerate(zip(rows, batch, strict=True)):
        actions = torch.from_numpy(item.actions.astype(np.int64)).to(row.device)
        omega = torch.from_numpy(item.omega).to(row)
        if objective.name == "ce":
            total = total - (omega * row[actions]).sum()
            continue
        r = row[actions] - torch.from_numpy(item.reference).to(row)[actions]
        z0 = point[k] if point.ndim else point
        good = torch.from_numpy(item.desirable).to(row.device)
        part = loss.kto_terms(r, good, z0, objective.kappa, objective.lam_d, objective.lam_u)
        total = total + ((omega if objective.name == "pt_kto" else 1.0) * part).sum()
    return total


def reference_point(rows: Sequence[torch.Tensor], batch: Sequence[Item], form: str) -> torch.Tensor:
    """z0 of a logical batch from its log-probabilities: a scalar, or one per item; no gradient."""
    kl = None
    if form != "zero":
        own = [row.detach().double().cpu() for row in rows]
        kl = loss.z0_exact(own, [item.reference for item in batch])
    return loss.z0(form, kl=kl)


class Role:
    """One adapter and what steps it. Its parameters are collected by the adapter's name, once.

    `set_adapter` of peft switches gradients on and off, so every step first makes its own adapter
    the active one. part: contexts of one pass, 0 for the whole logical batch.
    """

    def __init__(
        self,
        policy: LMPolicy,
        name: str,
        count: int,
        rates: Rates,
        seed: int,
        *,
        checkpointing: bool = False,
        part: int = 0,
    ):
        warmup = max(1, min(count // WARMUP, count - 2))
        self.policy, self.name, self.part = policy, name, part
        self.trainer = steps.Trainer(
            policy.backbone, name, rates.peak, count, seed, warmup=warmup,
            ends=(rates.first, rates.last), checkpointing=checkpointing,
        )  # fmt: skip

    def activate(self) -> None:
        """Make this role's adapter the one that computes and learns; nothing for full weights."""
        if self.name in adapters.names(self.policy.backbone):
            adapters.switch(self.policy.backbone, self.name)

    def step(self, batch: Sequence[Item], objective: Objective) -> dict:
        """One optimiser step on a logical batch: loss, norm, lr, z0, contexts, samples."""
        self.activate()
        part = self.part or len(batch)
        groups = [list(batch[i : i + part]) for i in range(0, len(batch), part)]
        count = sum(len(item.actions) for item in batch)
        points: list[torch.Tensor] = [torch.zeros(())] if objective.name == "ce" else []
        if len(groups) > 1 and not points:
            points.append(self._point(groups, batch, objective))

        def one(given: Sequence[list[Item]]) -> torch.Tensor:
            (group,) = given
            rows = self.policy.scores([item.context for item in group])
            if not points:
                points.append(reference_point(rows, group, objective.z0))
            point = points[0]
            if point.ndim:
                first = next(i for i, item in enumerate(batch) if item is group[0])
                point = point[first : first + len(group)]
            return terms(rows, group, point, objective)

        facts = self.trainer.step(one, groups, part=1, count=count)
        z0 = float(points[0].mean())
        return facts | {"z0": z0, "contexts": len(batch), "samples": count, "game": batch[0].game}

    def _point(self, groups, batch: Sequence[Item], objective: Objective) -> torch.Tensor:
        with torch.no_grad():
            rows = [r for g in groups for r in self.policy.scores([item.context for item in g])]
        return reference_point(rows, batch, objective.z0)


def fit(
    role: Role,
    given: Sequence[Item],
    objective: Objective,
    contexts: int,
    seed: int,
    checkpoint: Path | None = None,
    key: str = "",
    every: int = 10,
    turn: int = TURN,
) -> list[dict]:
    """Train a role to the end of its schedule; returns one row of HISTORY per step.

    checkpoint: file to resume from and to save to; of another key it is started over.
    """
    names = role.name, objective.name
    order = plan(given, role.trainer.steps, contexts, seed, *names, turn=turn)

    def row(history: list[dict]) -> dict:
        batch = [given[i] for i in order[role.trainer.done]]
        facts = role.step(batch, objective)
        return {name: facts.get(name, role.trainer.done) for name in HISTORY}

    history = steps.resumed(role.trainer, checkpoint, key)
    return steps.run(role.trainer, row, history, checkpoint, key, every)
