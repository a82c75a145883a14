"""Rewards instead of a target: PPO on joint orders that the model draws itself.

PPO (Schulman et al. 2017, Eq. 7), masked to legal orders as at play, on positions of the data
games:

    L = - min( r A, clip(r, 1 - eps, 1 + eps) A ),     r = pi(a) / pi_old(a)
    R(a) = Q(a) - kappa log( pi_old(a) / pi_ref(a) )               (Ziegler et al. 2019, Eq. 2)
    A    = (R - mean R of the other draws of the turn) / standard deviation over the batch

Q(a) is the value net's mean after the phase against `ppo_others` joint orders of the other powers,
drawn from their average policies in the recorded search: what the search itself estimates for its
candidates, by one rule for draws on and off them. All draws on a position meet the same others. A
game is one decision here, so there is no critic. kappa = 0.01 is the search's lambda: both hold the
policy to its start by as much value per nat. pi_ref is the model as it is given. Draws are
functions of the seed and the number of the batch alone.

Shapes: M draws of a power-turn.
"""

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from dipllm_lib.dip import atlas, finetune, orders, preference, rules, text
from dipllm_lib.dip.arm_list import ArmSettings
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.payoffs import ValueFunction
from dipllm_lib.dip.records import Record
from dipllm_lib.dip.samples import Sample
from dipllm_lib.lm import scoring, steps
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.choices import Tries, path
from dipllm_lib.run import seeding


def worth(
    record: Record,
    drawn: Sequence[tuple[int, Sequence[orders.Joint]]],
    others: int,
    value_fn: ValueFunction,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Q (M,) of joint orders of powers: mean value after the phase against `others` draws of the
    other powers from the recorded search. drawn: (power, its M joint orders).
    """
    table: list[Sequence[orders.Joint]] = [[] for _ in range(atlas.N_POWERS)]
    base = np.full((others, atlas.N_POWERS), -1, np.int16)
    for own in record.powers:
        table[own.power] = list(own.candidates)
        policy = own.average / own.average.sum()
        base[:, own.power] = rng.choice(len(policy), others, p=policy)
    picks = []
    for power, joints in drawn:
        first = len(table[power])
        table[power] = [*table[power], *joints]
        for m in range(len(joints)):
            picks.append(base.copy())
            picks[-1][:, power] = first + m
    given = orders.expand_picks(orders.joint_table(table), np.concatenate(picks))
    values = value_fn(rules.resolve(record.boards, given)[0]).reshape(len(picks), others, -1)
    means, found, at = values.mean(axis=1, dtype=np.float64), [], 0
    for power, joints in drawn:
        found.append(means[at : at + len(joints), power])
        at += len(joints)
    return found


def advantages(rewards: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A (M,) of every power-turn from its rewards (M,): minus the mean of the other draws, divided
    by the standard deviation of all (1 if they are all equal).
    """
    gaps = [len(r) / (len(r) - 1) * (r - r.mean()) for r in rewards]
    scale = float(np.concatenate(gaps).std()) or 1.0
    return [gap / scale for gap in gaps]


def ppo_loss(
    new: torch.Tensor, old: torch.Tensor, gain: torch.Tensor, clip: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(mean loss of draws, which are clipped (M,)); log-probabilities and advantages (M,)."""
    ratio = torch.exp(new - old)
    kept = torch.clamp(ratio, 1 - clip, 1 + clip)
    return -torch.minimum(ratio * gain, kept * gain).mean(), (ratio != kept).detach()


def ppo(
    backbone: Backbone,
    name: str,
    records: Sequence[Record],
    value_fn: ValueFunction,
    settings: FinetuneSettings,
    sizes: ArmSettings,
    seed: int,
    checkpoint: Path | None = None,
) -> pd.DataFrame:
    """Train what was attached under `name` on recorded positions. History, a row per batch: step,
    loss, norm, lr, tokens (of the batch), reward (mean Q of the draws), kl (their mean log pi_old /
    pi_ref, nats per power-turn), clipped (share of the draws in the last pass).
    """
    reference = copy.deepcopy(backbone)
    sized = replace(settings, steps=sizes.ppo_batches, batch=sizes.ppo_batch)
    plan = finetune.batch_plan(records, sized, seed)
    trainer = steps.Trainer(backbone, name, sizes.ppo_lr, len(plan) * sizes.ppo_epochs, seed)

    def batch(number: int) -> dict:
        rng = seeding.child(seed, "ppo", number)
        some = [records[i] for i in plan[number]]
        drawn = draws(backbone, some, sizes.ppo_draws, rng)
        return _ppo_batch(trainer, reference, some, drawn, value_fn, settings, sizes, rng)

    names = [[record.phase, len(record.powers), record.resolved] for record in records]
    return preference.train(
        trainer, batch, sizes.ppo_epochs, checkpoint, [names, asdict(sizes), seed]
    )


@dataclass(frozen=True)
class Draws:
    """M joint orders of one power-turn. sample: the distinct ones as its paths; index (M,): which
    of them each is; old (M,): log-probabilities when they were drawn.
    """

    sample: Sample
    power: int
    joints: list[orders.Joint]
    index: list[int]
    old: np.ndarray


def draws(
    backbone: Backbone, records: Sequence[Record], count: int, rng: np.random.Generator
) -> list[list[Draws]]:
    """`count` joint orders of the model, masked to legal ones, for every power-turn with two
    candidates or more, by position.
    """
    turns = [_open_turns(record) for record in records]
    choices = [[text.OrderChoice(turn, backbone.encode) for turn in own] for own in turns]
    prompts = [[backbone.encode(text.prompt(turn)) for turn in own] for own in turns]
    flat = [(p, c) for ps, cs in zip(prompts, choices, strict=True) for p, c in zip(ps, cs)]
    many = [one for one in flat for _ in range(count)]
    said = iter(scoring.sample(backbone, *zip(*many), rng.spawn(len(many)), 1.0))
    found = []
    for i, own in enumerate(turns):
        rows = []
        for turn, prompt, choice in zip(own, prompts[i], choices[i], strict=True):
            chosen, old = zip(*(next(said) for _ in range(count)), strict=True)
            rows.append(_drawn(str(i), turn, prompt, choice, chosen, np.array(old)))
        found.append(rows)
    return found


def _open_turns(record: Record) -> list[orders.Turn]:
    some = {own.power for own in record.powers if len(own.candidates) > 1}
    return [turn for turn in record.turns if turn.power in some]


def _drawn(game: str, turn: orders.Turn, prompt, choice, chosen, old: np.ndarray) -> Draws:
    distinct, tries = list(dict.fromkeys(chosen)), Tries(choice)
    paths = tuple(path(tries, one) for one in distinct)
    share = np.full(len(paths), 1 / len(paths))
    keys = game, turn.phase, turn.name
    sample = Sample(*keys, tuple(prompt), paths, share, tuple(range(len(paths))), share)
    joints = [choice.joint(one) for one in chosen]
    return Draws(sample, turn.power, joints, [distinct.index(one) for one in chosen], old)


def _ppo_batch(
    trainer: steps.Trainer,
    reference: Backbone,
    records: Sequence[Record],
    drawn: Sequence[list[Draws]],
    value_fn: ValueFunction,
    settings: FinetuneSettings,
    sizes: ArmSettings,
    rng: np.random.Generator,
) -> dict:
    """`ppo_epochs` optimiser steps on the draws of a batch of positions."""
    values = []
    for record, own in zip(records, drawn, strict=True):
        wanted = [(draw.power, draw.joints) for draw in own]
        values += worth(record, wanted, sizes.ppo_others, value_fn, rng)
    every = [draw for own in drawn for draw in own]
    parts, tokens = finetune.passes([draw.sample for draw in every], settings)
    before = {}
    for part in parts:
        rows = finetune.packed_rows(part, settings.pack)
        found = preference.fixed(reference, rows, "legal")
        before |= {id(s): v for s, v in zip((s for row in rows for s in row), found, strict=True)}
    kls = [draw.old - before[id(draw.sample)].numpy()[draw.index] for draw in every]
    gains = advantages([q - sizes.ppo_kl * kl for q, kl in zip(values, kls, strict=True)])
    known = {id(draw.sample): (draw, gain) for draw, gain in zip(every, gains, strict=True)}
    clipped: list[torch.Tensor] = []

    def loss(items: Sequence[list[Sample]]) -> torch.Tensor:
        rows, total = finetune.packed_rows(items[0], settings.pack), 0.0
        found = preference.log_probs(trainer.backbone, rows, "legal")
        for sample, new in zip((s for row in rows for s in row), found, strict=True):
            draw, gain = known[id(sample)]
            old, gain = (torch.from_numpy(x).to(new) for x in (draw.old, gain))
            value, cut = ppo_loss(new[draw.index], old, gain, sizes.ppo_clip)
            total = total + value
            clipped.append(cut)
        return total

    for _ in range(sizes.ppo_epochs):
        clipped.clear()
        facts = trainer.step(loss, parts, part=1, count=len(every))
    told = {"reward": np.concatenate(values).mean(), "kl": np.concatenate(kls).mean()}
    told["clipped"] = torch.cat(clipped).double().mean()
    return facts | {"tokens": tokens} | {name: float(value) for name, value in told.items()}
