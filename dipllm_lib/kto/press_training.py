"""The learned negotiator is trained: messages imitated, then labelled; replies forecast.

    base        of the profile, without stage 1 of notebook 09, with two new adapters
    imitation   executor: cross-entropy on what RuleNegotiators proposed and replied
    pt_kto      executor, from there (= pi_ref): labels and weights of `press_lessons`
    forecast    opponent: cross-entropy on the replies of RuleNegotiators

The base of study 3 has read the texts of four other games in its stage 1; here imitation takes that
place, so nothing of notebook 09 is needed. The small base of `smoke` has a tokenizer of one token a
word, with the words of `press_prompts`.

What training changed is measured on games that it did not see (`measured`), exactly: sums over all
legal texts, nothing drawn.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dipllm_lib.kto import fitting, language, press_lessons, press_prompts, roles, stages
from dipllm_lib.kto.fitting import Item, Objective, Rates, Role
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import Policy
from dipllm_lib.kto.press_prompts import FORECAST, PROPOSAL, REPLY
from dipllm_lib.kto.press_settings import SceneSettings
from dipllm_lib.kto.roles import EXECUTOR, OPPONENT
from dipllm_lib.lm import adapters, backbones
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding
from dipllm_lib.run.profiles_kto import KTOSettings
from dipllm_lib.run.store import Shelf

HELD_OUT = 2  # games of lessons that nothing is trained on
PROBED = 30  # decisions of each kind that a policy is measured on, at most
STAGES = "imitation", "pt_kto", "forecast"
MEASURES = ("kind", "decisions", "loss", "uniform", "top1", "worth", "rule", "best")


class Learned(NamedTuple):
    """backbone with its two adapters · history: stage, then `fitting.HISTORY`, a row per step ·
    measures: stage, then MEASURES."""

    backbone: Backbone
    history: pd.DataFrame
    measures: pd.DataFrame

    @property
    def executor(self) -> LMPolicy:
        """Says proposals and replies."""
        return LMPolicy(self.backbone, EXECUTOR)

    @property
    def opponent(self) -> LMPolicy:
        """Forecasts replies."""
        return LMPolicy(self.backbone, OPPONENT)


def base(settings: KTOSettings, seed: int) -> Backbone:
    """The base of a profile with a new executor and opponent."""
    backbone = backbones.load(
        settings.lm_base,
        base_model=settings.lm_folder,
        dtype=settings.lm_dtype,
        words=press_prompts.words(),
        seed=seed,
        **language.SCRATCH,
    )
    names = EXECUTOR, OPPONENT
    roles.attach(backbone, settings.lora_rank, tuple(settings.lm_targets), seed, names)
    return backbone


def lessons(shelf: Shelf) -> tuple[list[dict], list[dict]]:
    """(rows to learn from, rows of HELD_OUT further games), resumable by game."""
    settings, seed = shelf.settings, shelf.profile.seed
    scene, count = SceneSettings.of(settings), settings.press_lm_logs
    tasks = [(g, seed, scene, settings.press_lm_last_year) for g in range(count + HELD_OUT)]
    keys = [f"lessons.{task[0]}" for task in tasks]
    found = shelf.tasks(press_lessons.play_one, tasks, keys, "games of lessons")
    parts = found[:count], found[count:]
    return tuple([row for rows in part for row in rows] for part in parts)


def train(shelf: Shelf, rows: Sequence[dict], held_out: Sequence[dict]) -> Learned:
    """All three trainings on a new base; each goes on from its checkpoint."""
    settings, seed = shelf.settings, shelf.profile.seed
    backbone, kept = base(settings, seed), shelf.training("negotiator")
    executor, opponent = LMPolicy(backbone, EXECUTOR), LMPolicy(backbone, OPPONENT)
    probes = probe(held_out, seed)
    said = [row for row in rows if row["kind"] != FORECAST]
    replies = [row for row in rows if row["kind"] == FORECAST]
    history, measures = [], []

    def measure(stage: str) -> None:
        """Rows of what a policy does after a stage, kept like a task."""
        policies = {PROPOSAL: executor, REPLY: executor, FORECAST: opponent}
        kinds = [k for k in policies if (k == FORECAST) == (stage == "forecast") or stage == "base"]
        own = shelf.task(f"measured.{stage}", lambda: _measured(policies, kinds, probes))
        measures.extend({"stage": stage} | row for row in own)

    measure("base")
    given = {
        "imitation": lambda: press_lessons.imitation(said),
        "pt_kto": lambda: referred(said, executor, settings, seed),
        "forecast": lambda: press_lessons.imitation(replies),
    }
    for stage in STAGES:
        policy = opponent if stage == "forecast" else executor
        lines = _fit(policy, stage, given[stage](), settings, seed, kept / f"{stage}.safetensors")
        history += [{"stage": stage} | line for line in lines]
        measure(stage)
    tables = (history, fitting.HISTORY), (measures, MEASURES)
    return Learned(
        backbone, *(pd.DataFrame(own, columns=["stage", *names]) for own, names in tables)
    )


def referred(rows: Sequence[dict], policy: Policy, settings: KTOSettings, seed: int) -> list[Item]:
    """Labelled items with their pi_ref: as many contexts as the training will see, drawn without
    replacement among those with something to gain or lose."""
    moving = [row for row in rows if press_lessons.differences(row).any()]
    count = min(len(moving), settings.press_lm_steps[1] * settings.press_lm_contexts)
    rng = seeding.child(seed, "kto", "press", "labelled")
    some = [moving[i] for i in sorted(rng.permutation(len(moving))[:count])]
    return press_lessons.labelled(some, policy.log_probs([*map(press_lessons.context, some)]))


def _fit(
    policy: LMPolicy, stage: str, items, settings: KTOSettings, seed: int, file: Path
) -> list[dict]:
    """One training to the end of its schedule. The forecasts take as many steps as `pt_kto`, at the
    rate of imitation."""
    first, second = zip(settings.press_lm_steps, settings.press_lm_rate, strict=True)
    count, peak = {"imitation": first, "pt_kto": second, "forecast": (second[0], first[1])}[stage]
    name = stage if stage == "pt_kto" else "ce"
    rates = Rates(peak / 4, peak, peak / 20)
    role = Role(policy, policy.adapter, count, rates, seed)
    objective = Objective(name, settings.lm_kappa)
    key = stages.digest(items, settings.hash(), seed, stage)
    contexts = settings.press_lm_contexts
    return fitting.fit(role, items, objective, contexts, seed, file, key)


def probe(rows: Sequence[dict], seed: int) -> list[dict]:
    """At most PROBED rows of each kind, drawn."""
    found = []
    for kind in press_prompts.KINDS:
        own = [row for row in rows if row["kind"] == kind]
        rng = seeding.child(seed, "kto", "press", "probe", kind)
        found += [own[i] for i in sorted(rng.permutation(len(own))[:PROBED])]
    return found


def _measured(policies: Mapping[str, Policy], kinds, probes: Sequence[dict]) -> list[dict]:
    parts = [(kind, [row for row in probes if row["kind"] == kind]) for kind in kinds]
    return [measured(policies[kind], own) for kind, own in parts if own]


def measured(policy: Policy, rows: Sequence[dict]) -> dict:
    """Of decisions of one kind: kind, decisions, loss (nats of what was said), uniform (the same of
    a uniform choice), top1 (share in which what was said is most probable), worth (mean over
    decisions of sum_a pi(a) u, points of SoS), rule (u of what was said), best (the largest u);
    the last three are None for forecasts.
    """
    log_probs = policy.log_probs([press_lessons.context(row) for row in rows])
    pairs = list(zip(rows, log_probs, strict=True))
    row = {"kind": rows[0]["kind"], "decisions": len(rows)}
    row["loss"] = -_mean(log_prob[one["chosen"]] for one, log_prob in pairs)
    row["uniform"] = _mean(np.log(len(log_prob)) for _, log_prob in pairs)
    row["top1"] = _mean(np.argmax(log_prob) == one["chosen"] for one, log_prob in pairs)
    if rows[0]["kind"] == FORECAST:
        return row | dict.fromkeys(("worth", "rule", "best"))
    gains = [100 * press_lessons.payoffs(one) for one in rows]
    row["worth"] = _mean(np.exp(p) @ u for (_, p), u in zip(pairs, gains, strict=True))
    row["rule"] = _mean(u[one["chosen"]] for one, u in zip(rows, gains, strict=True))
    return row | {"best": _mean(u.max() for u in gains)}


def _mean(values) -> float:
    return float(np.mean([float(value) for value in values]))


def save(shelf: Shelf, learned: Learned) -> None:
    """Both adapters in peft's format, with a card each."""
    for name in (EXECUTOR, OPPONENT):
        with shelf.save_folder(f"09b_{name}") as folder:
            adapters.save(learned.backbone, name, folder, _card(learned, name))


def _card(learned: Learned, name: str) -> str:
    steps = int(((learned.history["stage"] == "forecast") == (name == OPPONENT)).sum())
    lines = [
        f"# {name} of negotiation\n",
        f"- Base model: {learned.backbone.name}, {learned.backbone.origin}.",
        "- Task and data: proposals and replies of scripted negotiators in Diplomacy; made by"
        " notebooks/09b_kto_negotiation.ipynb.",
        f"- Trained: {steps} steps of AdamW, one seed.",
        "- Limits: a demonstration on a small model; it answers only in the texts of a menu.",
    ]
    return "\n".join(lines) + "\n"
