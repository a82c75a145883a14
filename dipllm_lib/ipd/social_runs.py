"""One task of `social`: train a setting for a block of seeds, and measure what it has become.

After every phase (PPI) or block of iterations (A2C) the training is kept in the task's folder, so a
stopped task goes on and returns what an unbroken one would. Tasks of the same plan that begin with
the same pre-training, as those of `exploration`, share it: the first to come trains it.
"""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.ipd import (
    a2c_runs,
    axelrod_players,
    evaluate,
    human,
    lola,
    mixed_pool,
    pool_shift,
    ppi_runs,
    public_goods_ppi,
)
from dipllm_lib.ipd.a2c_settings import A2CSettings
from dipllm_lib.ipd.evaluate import ProbeSettings
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.ipd.pool_shift import ShiftSettings
from dipllm_lib.ipd.ppi import PPI
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.ipd.social import Plan, Task
from dipllm_lib.run import seeding

OPPONENTS = ("learner", "TFT", "tabular")
# What a pre-training does not depend on.
AFTER = (
    "games", "phases", "tabular_share", "window", "steps", "reinit", "improvement", "beta", "clamp",
    "behaviour", "noise", "last_noise", "rollouts", "common",
)  # fmt: skip


def run(task: Task) -> dict:
    """Train; plain lists: question, setting, learner, players, rounds, phases (the last), noise,
    gap (largest over agents, None where not measured), seconds (CPU, pre-training first, for A2C
    by block), and tables `training`, `probes`, `shift`, `cross`, `rates`, the last three if wanted.
    """
    if isinstance(task.own, A2CSettings):
        found = _a2c(task)
    elif task.own.model.players > 2:
        found = _goods(task)
    else:
        found = _ppi(task)
    tables = {name: mixed_pool.plain(table) for name, table in found.pop("tables").items()}
    return {"question": task.question, "setting": task.setting, "tables": tables} | found


def _phases(own: PPISettings, plan: Plan) -> tuple[int, ...]:
    return tuple(sorted({*range(1, own.phases + 1, plan.probe_every), own.phases}))


def _ppi(task: Task) -> dict:
    own, plan = task.own, task.plan
    probe = ProbeSettings(
        own.rounds,
        plan.probe_games,
        OPPONENTS,
        own.pool,
        own.a,
        payoffs=own.payoffs,
        other_payoffs=own.other_payoffs,
    )
    levels = tuple(evaluate.NOISE) if own.q == "head" else ("on",)
    first = _pretrained(task, probe)
    wanted = ppi_runs.Task(
        own, task.seeds, probe, _phases(own, plan), levels=levels, folder=task.folder, first=first
    )
    found = ppi_runs.train(wanted)
    tables = {"training": mixed_pool.training(found.phases), "probes": found.probes}
    if plan.shift_games:
        tables |= _shift(task, wanted)
    gap = found.phases["gap"].max()
    return _facts(task, "ppi", found.seconds, None if gap != gap else float(gap)) | {
        "tables": tables
    }


def _facts(task: Task, learner: str, seconds: np.ndarray, gap: float | None) -> dict:
    own = task.own
    return {
        "learner": learner,
        "players": own.model.players,
        "rounds": own.model.rounds if learner == "a2c" else own.rounds,
        "phases": own.iterations if learner == "a2c" else own.phases,
        "noise": None if learner == "a2c" or own.q != "head" else own.noise_at(own.phases),
        "gap": gap,
        "seconds": [float(x) for x in seconds],
    }


def _pretrained(task: Task, probe: ProbeSettings) -> Path:
    """The folder of the pre-training that this task begins with, filled if it is empty."""
    usual = PPISettings(ModelSettings())
    same = {name: getattr(usual, name) for name in AFTER}
    what = hashlib.sha256(repr(replace(task.own, **same)).encode("utf-8")).hexdigest()[:16]
    folder = Path(task.plan.folder) / "first" / f"{what}.{task.seeds[0]}-{task.seeds[-1]}"
    if not (folder / "state.npz").exists():
        ppi_runs.pretrain(ppi_runs.Task(task.own, task.seeds, probe, folder=folder))
    return folder


def _shift(task: Task, wanted: ppi_runs.Task) -> dict:
    """Tables of the trained agents with other opponents, other seeds, and their rates of C."""
    kept = ppi_runs.state(task.folder)
    kept.pop("seconds")
    trained = PPI.resume(task.own, wanted.agents, kept)
    settings = ShiftSettings(task.own.rounds, task.plan.shift_games, task.own.payoffs)
    drawn = pool_shift.pools(task.plan.shift_games, seeding.child(0, "ipd", "shift", "pools"))
    opponents = pool_shift.strategies() | drawn | lola.populations(task.plan.shift_games)
    end = task.own.phases
    actors = {
        level: trained.actor(end, evaluate.NOISE[level], f"shift {level}")
        for level in wanted.levels
    }
    level = "half" if "half" in actors else "on"
    found = {"shift": pool_shift.regret(actors, trained.agents, opponents, settings)}
    names, payoffs = task.plan.axelrod, task.own.payoffs
    players = {n: axelrod_players.Axelrod(n, task.own.rounds, payoffs) for n in names}
    if players:
        met = pool_shift.meet(actors, trained.agents, players, settings)
        found["shift"] = pd.concat([found["shift"], met], ignore_index=True)
    found["cross"] = pool_shift.crossplay(actors[level], trained.agents, settings)
    found["rates"] = human.rates(actors[level], trained.agents, settings)
    return {name: table.assign(level=level) for name, table in found.items()}


def _goods(task: Task) -> dict:
    plan = task.plan
    wanted = public_goods_ppi.Task(
        task.own, task.seeds, plan.probe_games, _phases(task.own, plan), task.folder
    )
    found = public_goods_ppi.train(wanted)
    tables = {"training": mixed_pool.training(found.phases), "probes": found.probes}
    return _facts(task, "ppi", found.seconds, None) | {"tables": tables}


def _a2c(task: Task) -> dict:
    own, plan = task.own, task.plan
    blocks = -(-own.iterations // own.block)
    probe = ProbeSettings(
        own.model.rounds, plan.probe_games, OPPONENTS, own.pool, payoffs=own.payoffs
    )
    at = tuple(sorted({*range(plan.probe_every, blocks, plan.probe_every), blocks}))
    found = a2c_runs.train(a2c_runs.Task(own, task.seeds, probe, at, folder=task.folder))
    tables = {"training": found.training, "probes": found.probes}
    return _facts(task, "a2c", found.seconds, None) | {"tables": tables}
