"""A block of seeds of A2C from the first iteration to the last, with probes: one task of
`parallel.map`.

A process takes a block of seeds and steps all their agents in one stack. After every block of
iterations the training is kept in its folder, so a stopped task goes on with the next block and
returns what an unbroken one would:

    probe.K.npz    means of the probe after iteration K
    state.npz      everything else; written last, so a probe without it counts for nothing
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.ipd import a2c, evaluate
from dipllm_lib.ipd.a2c import A2C
from dipllm_lib.ipd.a2c_settings import A2CSettings
from dipllm_lib.ipd.batch_play import Actor
from dipllm_lib.ipd.evaluate import Probe, ProbeSettings
from dipllm_lib.ipd.models import Stack
from dipllm_lib.ipd.ppi_runs import load, save


@dataclass(frozen=True, eq=False)
class Task:
    """probe_blocks: after which blocks (from 1) probes are played, at all levels of evaluate.NOISE
    · stream, frozen: of A2C, frozen also as an opponent of probes · start, heads: of a2c.start_from
    · folder: where the training is kept, None keeps nothing. The folder belongs to one task: frozen
    and start are not part of the state.
    """

    settings: A2CSettings
    seeds: tuple[int, ...]
    probe: ProbeSettings
    probe_blocks: tuple[int, ...] = ()
    stream: str = "main"
    frozen: Actor | None = None
    start: Stack | None = None
    heads: bool = True
    folder: Path | None = None


@dataclass(frozen=True, eq=False)
class Result:
    """training: A2C.table · losses: A2C.losses · probes: Probe.table and rounds: Probe.by_round of
    all probes, their phase named iteration · seconds: CPU seconds of each block without its probe,
    no part of what is repeatable · trained: the training at its end.
    """

    training: pd.DataFrame
    losses: pd.DataFrame
    probes: pd.DataFrame
    rounds: pd.DataFrame
    seconds: np.ndarray
    trained: A2C


def train(task: Task) -> Result:
    """Run the task to its last iteration."""
    run, seconds = _begin(task)
    block, last = task.settings.block, task.settings.iterations
    wanted = [min(k * block, last) for k in sorted(task.probe_blocks)]
    probes = [_load_probe(task, done) for done in wanted if done <= run.done]
    while run.done < last:
        start = time.process_time()
        run.train()
        seconds = np.append(seconds, time.process_time() - start)
        if run.done in wanted:
            actors = run.actors()
            probes.append(evaluate.probe(actors, run.agents, run.done, task.probe, task.frozen))
        _keep(task, run, seconds, probes)
    joined = [
        pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
        for tables in ([p.table() for p in probes], [p.by_round() for p in probes])
    ]
    named = [table.rename(columns={"phase": "iteration"}) for table in joined]
    return Result(run.table(), run.losses(), *named, seconds, run)


def _begin(task: Task) -> tuple[A2C, np.ndarray]:
    """The training where it stands, and the CPU seconds of its blocks so far."""
    run = A2C(task.settings, task.seeds, task.stream, task.frozen)
    if task.folder is not None and (task.folder / "state.npz").exists():
        state = load(task.folder / "state.npz")
        seconds = state.pop("seconds")
        return run.load(state), seconds
    if task.start is not None:
        a2c.start_from(run, task.start, task.heads)
    return run, np.empty(0)


def _keep(task: Task, run: A2C, seconds: np.ndarray, probes: list[Probe]) -> None:
    if task.folder is None:
        return
    if probes and probes[-1].phase == run.done:
        save(task.folder / f"probe.{run.done}.npz", probes[-1].arrays())
    save(task.folder / "state.npz", run.state() | {"seconds": seconds})


def _load_probe(task: Task, done: int) -> Probe:
    agents = [(seed, seat) for seed in task.seeds for seat in range(task.settings.learners)]
    arrays = load(task.folder / f"probe.{done}.npz")
    return Probe(task.probe, agents, done, tuple(evaluate.NOISE), **arrays)
