"""Experiments beyond the paper as tasks: one question each, one setting at a time, from a base run.

    shift        what is it worth against others than those of the training?
    diversity    does diversity of the pool that pays drive cooperation?
    mixing       which share of games against memory-one agents?
    exploration  what explores: the temperature, the decision noise, old data, new weights?
    sizes        how large must the model be?
    payoffs      what do the benefit, and benefits that differ, change?
    cost         what does PPI cost?
    goods        does it hold for a public good of three?

Each function takes the settings of the base run and a plan, and returns tasks for `Shelf.tasks`:
`social_runs.run` trains one setting for a block of seeds and keeps it after every phase, so a
question can be left out, and a stopped one goes on. `social_tables` reads the results.

The gate of pre-training does not stop these runs: the gap to the limit of prediction is measured
where the base has a gate, and stands in the tables.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dipllm_lib.ipd import public_goods_ppi
from dipllm_lib.ipd.a2c_settings import A2CSettings
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.ipd.ppi_settings import PPISettings

QUESTIONS = {
    "shift": "What is it worth against others than those of the training?",
    "diversity": "Does diversity of the pool that pays drive cooperation?",
    "mixing": "Which share of the games must be against memory-one agents?",
    "exploration": "What explores?",
    "sizes": "How large must the model be?",
    "payoffs": "What do the benefit, and benefits that differ, change?",
    "cost": "What does PPI cost?",
    "goods": "Does it hold for a public good of three?",
}
# Pools by name: the sampler and its a.
POOLS = {
    "uniform": ("uniform", 0.5),
    "beta 0.5": ("beta", 0.5),
    "beta 0.25": ("beta", 0.25),
    "beta 0.1": ("beta", 0.1),
    "corners": ("corners", 0.5),
    "families": ("families", 0.5),
}
SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)
EXPLORATION = {
    "base": {},
    "beta literal": {"improvement": "literal"},
    "temperature 1": {"beta": 1.0},
    "sigma 0": {"noise": 0.0},
    "sigma 0.6": {"noise": 0.6},
    "sigma 2": {"noise": 2.0},
    "sigma 1.2 to 0.4": {"last_noise": 0.4},
    "window 6": {"window": 6},
    "reinit": {"reinit": True},
}
WIDTHS = (8, 16, 32, 64, 128)
RATIOS = (1.25, 1.5, 2.0, 3.0, 4.0)
UNEQUAL = (2.0, 3.0)  # benefits of learner 0 and learner 1
ROLLOUTS = (4, 8, 16)
FACTORS = (1.6, 2.0, 2.4)
MEASURED = 1e3  # nats: a gate that is never missed, so the gap is measured


@dataclass(frozen=True)
class Plan:
    """Of an experiment: the seeds · together: seeds of one task · probe_games: of a learner per
    opponent and noise level · probe_every: phases between two probes · shift_games: of a learner
    with each opponent set of `pool_shift` after the last phase, 0 none · axelrod: strategies of
    `axelrod_players` among these · folder: where tasks keep what they need to go on."""

    seeds: tuple[int, ...]
    folder: str
    together: int = 5
    probe_games: int = 200
    probe_every: int = 1
    shift_games: int = 0
    axelrod: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"need one or more distinct seeds, got {self.seeds}")
        if min(self.together, self.probe_games, self.probe_every) < 1 or self.shift_games < 0:
            raise ValueError("together, probe_games and probe_every must be at least 1")

    @property
    def blocks(self) -> list[tuple[int, ...]]:
        """The seeds of each task."""
        size = self.together
        return [self.seeds[i : i + size] for i in range(0, len(self.seeds), size)]


@dataclass(frozen=True)
class Task:
    """One setting of a question for a block of seeds. own: of PPI, for two players or three, or of
    A2C."""

    question: str
    setting: str
    own: PPISettings | A2CSettings
    seeds: tuple[int, ...]
    plan: Plan

    def __post_init__(self) -> None:
        if self.question not in QUESTIONS:
            known = ", ".join(QUESTIONS)
            raise ValueError(f"unknown question {self.question!r}: use one of {known}")
        if self.plan.shift_games and not self._alike:
            raise ValueError(
                f"{self.question}, {self.setting}: shift_games measures two PPI learners with the"
                " same payoffs, use 0"
            )

    @property
    def _alike(self) -> bool:
        """Whether these are two learners of PPI with the same payoffs."""
        own = self.own
        ppi = isinstance(own, PPISettings)
        return ppi and own.model.players == 2 and own.other_payoffs is None

    @property
    def key(self) -> str:
        """A name for files and tasks."""
        setting = re.sub(r"[^A-Za-z0-9.]+", "_", self.setting)
        return f"{self.question}.{setting}.{self.seeds[0]}-{self.seeds[-1]}"

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return Path(self.plan.folder) / self.key


def tasks(question: str, settings: dict[str, PPISettings | A2CSettings], plan: Plan) -> list[Task]:
    """All blocks of seeds of all settings, name -> settings; a gate only measures."""
    found = []
    for name, own in settings.items():
        if isinstance(own, PPISettings) and math.isfinite(own.gate):
            own = replace(own, gate=MEASURED)
        found += [Task(question, name, own, seeds, plan) for seeds in plan.blocks]
    return found


def with_pool(base: PPISettings, name: str) -> PPISettings:
    """The settings with a pool of POOLS; no gap is measured where the limit has no closed form."""
    if name not in POOLS:
        raise ValueError(f"unknown pool {name!r}: use one of {', '.join(POOLS)}")
    pool, a = POOLS[name]
    return replace(base, pool=pool, a=a, gate=math.inf if pool == "families" else base.gate)


def diversity(base: PPISettings, plan: Plan, pools: Sequence[str] = tuple(POOLS)) -> list[Task]:
    """One run for each pool, names of POOLS."""
    return tasks("diversity", {name: with_pool(base, name) for name in pools}, plan)


def mixing(base: PPISettings, plan: Plan, shares: Sequence[float] = SHARES) -> list[Task]:
    """One run for each share of games against memory-one agents; D_0 is the same in all."""
    return tasks("mixing", {f"{s:g}": replace(base, tabular_share=s) for s in shares}, plan)


def exploration(
    base: PPISettings, plan: Plan, names: Sequence[str] = tuple(EXPLORATION)
) -> list[Task]:
    """The base run and others that differ in one thing, names of EXPLORATION.

    With new weights in every phase each fit has the length of the first one, which is dear.
    """
    unknown = set(names) - set(EXPLORATION)
    if unknown:
        known = ", ".join(EXPLORATION)
        raise ValueError(f"unknown settings {sorted(unknown)}: use some of {known}")
    found = {}
    for name in names:
        own = replace(base, **EXPLORATION[name])
        found[name] = replace(own, steps=own.first_steps) if own.reinit else own
    return tasks("exploration", found, plan)


def sizes(
    base: PPISettings, plan: Plan, widths: Sequence[int] = WIDTHS, transformer: int = 32
) -> list[Task]:
    """GRUs of some widths and a Transformer, 0 for none; the gap is always measured."""
    found = {f"GRU {h}": replace(base.model, core="gru", hidden=h) for h in widths}
    if transformer:
        model = replace(base.model, core="transformer", hidden=transformer)
        found[f"Transformer {transformer}"] = model
    settings = {name: replace(base, model=model, gate=MEASURED) for name, model in found.items()}
    return tasks("sizes", settings, plan)


def payoffs(
    base: PPISettings,
    plan: Plan,
    ratios: Sequence[float] = RATIOS,
    unequal: tuple[float, float] = UNEQUAL,
) -> list[Task]:
    """The donation game at cost 1 with some benefits, and one with a benefit for each learner."""
    found = {f"b {b:g}": replace(base, payoffs=Payoffs.donation(b, 1.0)) for b in ratios}
    if unequal:
        own, other = (Payoffs.donation(b, 1.0) for b in unequal)
        name = f"b {unequal[0]:g} and {unequal[1]:g}"
        found[name] = replace(base, payoffs=own, other_payoffs=other)
    return tasks("payoffs", found, plan)


def cost(
    base: PPISettings,
    plan: Plan,
    a2c: A2CSettings | None = None,
    rollouts: Sequence[int] = ROLLOUTS,
) -> list[Task]:
    """PPI with K rollouts inside the model, with the learned Q, and A2C if given; base: with q
    `head`, of which the runs with rollouts have no head."""
    model = replace(base.model, q_head=False)
    found = {f"rollouts {k}": replace(base, model=model, q="mc", rollouts=k) for k in rollouts}
    found["head"] = base
    return tasks("cost", found | ({} if a2c is None else {"A2C": a2c}), plan)


def goods(base: PPISettings, plan: Plan, factors: Sequence[float] = FACTORS) -> list[Task]:
    """The public goods game of three for some factors r."""
    found = {f"r {r:g}": public_goods_ppi.setting(base, r) for r in factors}
    return tasks("goods", found, plan)
