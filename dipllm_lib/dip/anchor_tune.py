"""The anchor net fine-tuned on the policies of the search: the second curve of Fig. 6.

    loss of a batch = - mean over its power-turns of  sum over k of  w_k log p(a_k)

with w the target pi* over its most probable joint orders, as many as the language model's loss
keeps, renormalised: the cross-entropy to the searched policy (Bakhtin et al. 2021). So the net and
the language model learn the same targets from the same power-turns, and differ in what they are and
in what they knew before.

A batch holds positions of one kind of phase; every position is encoded once, whatever the number of
its powers and joint orders. AdamW with a warm-up, then linear to 0, dropout of channels. A step
draws its dropout from its own number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from dipllm_lib.dip import anchor_net, arms, atlas, boards, collect, layout, orders, samples, states
from dipllm_lib.dip.anchor import NeuralAnchor
from dipllm_lib.dip.arm_list import SHARES, Arm
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.imitate import scores
from dipllm_lib.lm.steps import rate
from dipllm_lib.run import files, seeding

CLIP = 1.0
GROUP = "anchor net"
ALL = "anchor net, all games"


@dataclass(frozen=True)
class TuneSettings:
    """Size of a training; `of` reads the fields tune_* of a profile's settings.

    steps, batch (positions), lr, warmup (steps), decay, dropout, dtype; joint_orders: kept of pi*.
    """

    steps: int = 200
    batch: int = 8
    lr: float = 2e-4
    warmup: int = 20
    decay: float = 0.02
    dropout: float = 0.05
    dtype: str = "float32"
    joint_orders: int = 4

    @classmethod
    def of(cls, settings) -> "TuneSettings":
        """The tune_* fields of a profile's settings, defaults for what it lacks, joint_orders as in
        the loss of the language model; a TuneSettings as it is.
        """
        if isinstance(settings, cls):
            return settings
        names = [f.name for f in fields(cls) if hasattr(settings, f"tune_{f.name}")]
        found = {name: getattr(settings, f"tune_{name}") for name in names}
        return cls(**{"joint_orders": settings.finetune_joint_orders} | found)


@dataclass(frozen=True)
class Target:
    """What is learned on one position: powers (T,), kept joint orders and weights of each."""

    boards: Boards
    powers: list[int]
    joints: list[list[orders.Joint]]
    weights: list[np.ndarray]


def targets(rows: Sequence[dict], joint_orders: int) -> list[Target]:
    """The positions of rows of 02_samples.jsonl, powers in order."""
    found: dict[tuple[str, str], Target] = {}
    for row in sorted(rows, key=lambda row: atlas.POWERS.index(row["power"])):
        key = row["game"], row["phase"]
        if key not in found:
            found[key] = Target(states.from_state(row["state"]), [], [], [])
        target = np.asarray(row["target"], np.float64)
        kept = samples.largest(samples.log_of(target), joint_orders)
        joints = samples.row_joints(row)
        found[key].powers.append(atlas.POWERS.index(row["power"]))
        found[key].joints.append([joints[k] for k in kept])
        found[key].weights.append(target[kept] / target[kept].sum())
    return [found[key] for key in sorted(found)]


def batch(some: Sequence[Target]) -> tuple[anchor_net.Batch, torch.Tensor]:
    """(batch of positions of one kind of phase, weight of each of its slots (S,))."""
    positions = Boards.concat([target.boards for target in some])
    lay = layout.of_positions(positions)
    turns, joints, weights = [], [], []
    for i, target in enumerate(some):
        for power, own, shares in zip(target.powers, target.joints, target.weights, strict=True):
            turn = int(np.flatnonzero((lay.board == i) & (lay.power == power))[0])
            turns += [turn] * len(own)
            joints += own
            weights += shares.tolist()
    given = np.array([order for joint in joints for order in joint], np.int32)
    found = anchor_net.of_turns(positions, repeated(lay, turns), given)
    slots = np.repeat(np.array(weights, np.float32), [len(joint) for joint in joints])
    return found, torch.from_numpy(slots)


def repeated(lay: layout.Layout, turns: Sequence[int]) -> layout.Layout:
    """The layout of `turns` of a layout, in this order, the same one several times if need be."""
    slots = np.concatenate([np.arange(lay.first[t], lay.first[t + 1]) for t in turns])
    first = np.r_[0, np.cumsum(np.diff(lay.first)[turns])].astype(np.int32)
    own = (field[turns] for field in (lay.board, lay.power, lay.adjusts))
    return layout.Layout(*own, first, lay.place[slots], lay.low[slots], lay.high[slots], lay.ids)


def plan(found: Sequence[Target], settings: TuneSettings, seed: int) -> list[list[int]]:
    """Numbers of the positions of every step: epochs in an order of their own, each batch of one
    kind of phase.
    """
    phase = np.array([int(target.boards.phase[0]) for target in found])
    kind = np.where(phase == boards.ADJUSTMENTS, 2, np.isin(phase, boards.RETREATS))
    steps: list[list[int]] = []
    epoch = 0
    while len(steps) < settings.steps:
        rng = seeding.child(seed, "anchor tune", epoch)
        order, cut = rng.permutation(len(found)), []
        for one in range(3):
            own = order[kind[order] == one].tolist()
            cut += [own[i : i + settings.batch] for i in range(0, len(own), settings.batch)]
        steps += [cut[i] for i in rng.permutation(len(cut))]
        epoch += 1
    return steps[: settings.steps]


def fit(
    rows: Sequence[dict], start: NeuralAnchor, settings: TuneSettings, seed: int
) -> tuple[NeuralAnchor, pd.DataFrame]:
    """The anchor after the training, and its history: step, loss (nats per power-turn), norm, lr.

    The same input gives the same weights in one thread.
    """
    found = targets(rows, settings.joint_orders)
    steps, history = plan(found, settings, seed), []
    net = anchor_net.of_anchor(start, settings.dropout)
    weights = list(net.parameters())
    groups = [
        {"params": [p for p in weights if p.ndim > 1], "weight_decay": settings.decay},
        {"params": [p for p in weights if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=settings.lr)
    for step, numbers in enumerate(steps):
        some = [found[i] for i in numbers]
        now = settings.lr * rate(step, len(steps), "linear", min(settings.warmup, len(steps) - 1))
        for group in optimiser.param_groups:
            group["lr"] = now
        net.train()
        with seeding.torch_seed(seed, "anchor tune", step):
            loss = _loss(net, some, settings.dtype)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights, CLIP).item()
        if not np.isfinite(loss.item() + norm):
            raise FloatingPointError(f"step {step}: the loss is {loss.item()}: lower the rate")
        optimiser.step()
        history.append({"step": step + 1, "loss": loss.item(), "norm": norm, "lr": now})
    return net.eval().export(), pd.DataFrame(history)


def _loss(net: anchor_net.Net, some: Sequence[Target], dtype: str) -> torch.Tensor:
    """Mean over the power-turns of some positions."""
    given, weights = batch(some)
    log_prob, _ = scores(net, given, dtype)
    return -(weights * log_prob).sum() / sum(len(target.powers) for target in some)


# arms


def listed() -> list[Arm]:
    """The net at the same shares of the games as the language model."""
    shares = [Arm(f"anchor net, {a}/{b}", GROUP, ALL, games=a / b) for a, b in SHARES]
    return [Arm(ALL, GROUP, ALL), Arm("anchor net, no games", GROUP, ALL, games=0.0), *shares]


def run(job: arms.Job) -> dict:
    """Task: fine-tune the anchor on the rows of an arm; the result has the keys of `arms.run`, and
    `arms.table` reads both.
    """
    train, aside = arms.split(job)
    net, history = collect.tau(job.sources.anchor), pd.DataFrame()
    if train:
        settings = TuneSettings.of(job.settings)
        net, history = fit(train, net, settings, job.seed)
    facts = {"arm": job.arm.name, "group": job.arm.group, "against": job.arm.against}
    files.write_bytes(_path(job), net.to_bytes())
    facts["games"] = len({row["game"] for row in train})
    facts |= {"steps": len(history), "history": history.to_dict("records")}
    facts |= {name: [row[name] for row in aside] for name in ("game", "phase", "power")}
    found = net.log_probs(*zip(*((samples.row_turn(r), samples.row_joints(r)) for r in aside)))
    facts["covered"] = [float(np.exp(own).sum()) for own in found]
    facts["kl"] = samples.policy_kl(aside, net).tolist()
    return facts | {"offered": [1.0] * len(aside)}


def _path(job: arms.Job) -> Path:
    return Path(job.folder) / f"{job.arm.key}.net.safetensors"


def player(job: arms.Job, name: str | None = None) -> NeuralAnchor:
    """The tuned net as a policy at the anchor's temperature of play."""
    net = collect.tau(_path(job))
    return net.at(job.settings.anchor_play, name or job.arm.name)
