"""A block of seeds from D_0 to the last phase, with probes: one task of `parallel.map`.

A process takes a block of seeds and steps all their agents in one stack. After pre-training and
after every phase the block is kept in its folder, so a stopped task goes on with the next phase and
returns what an unbroken one would:

    data.K.npz     games of phase K, 0 for D_0
    probe.K.npz    means of the probe at phase K
    state.npz      everything else; written last, its phase says which of the others count

Pre-training can be shared: a task whose own folder is empty starts from `first`, the folder that
`pretrain` filled for the same seeds, learners, pool, model and D_0, whatever its phases.
"""

import io
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.ipd import evaluate
from dipllm_lib.ipd.evaluate import Probe, ProbeSettings
from dipllm_lib.ipd.ppi import PPI, pairs
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.run import files

DATA = ("data.", "z.")  # names of arrays that are kept phase by phase


@dataclass(frozen=True)
class Task:
    """probe_phases: when probes are played, at the named levels of evaluate.NOISE · folder: where
    the block is kept, None keeps nothing · first: folder of a shared pre-training, or None."""

    settings: PPISettings
    seeds: tuple[int, ...]
    probe: ProbeSettings
    probe_phases: tuple[int, ...] = ()
    learners: int = 2
    levels: tuple[str, ...] = tuple(evaluate.NOISE)
    folder: Path | None = None
    first: Path | None = None

    @property
    def agents(self) -> list[tuple[int, int]]:
        """(seed, learner) of each agent."""
        return pairs(self.seeds, self.learners)


@dataclass(frozen=True, eq=False)
class Result:
    """phases: PPI.table · probes: Probe.table and rounds: Probe.by_round of all probes · seconds:
    CPU seconds of pre-training and of each phase without its probe; no part of what is repeatable.
    """

    phases: pd.DataFrame
    probes: pd.DataFrame
    rounds: pd.DataFrame
    seconds: np.ndarray


def pretrain(task: Task) -> PPI:
    """The run after its pre-training, which is kept in task.folder for others to start from."""
    return _begin(task)[0]


def train(task: Task) -> Result:
    """Run the block to its last phase."""
    run, seconds = _begin(task)
    probes = [_load_probe(task, k) for k in task.probe_phases if k <= run.phase]
    while run.phase < task.settings.phases:
        start = time.process_time()
        run.advance()
        seconds = np.append(seconds, time.process_time() - start)
        if run.phase in task.probe_phases:
            probes.append(probe(run, task))
        _keep(task, run, seconds, probes)
    probes = sorted(probes, key=lambda found: found.phase)
    tables = [found.table() for found in probes], [found.by_round() for found in probes]
    joined = [pd.concat(t, ignore_index=True) if t else pd.DataFrame() for t in tables]
    return Result(run.table(), *joined, seconds)


def probe(run: PPI, task: Task) -> Probe:
    """The probe of a run at its present phase."""
    actors = {
        level: run.actor(run.phase, evaluate.NOISE[level], f"probe {level}")
        for level in task.levels
    }
    return evaluate.probe(actors, run.agents, run.phase, task.probe)


def _begin(task: Task) -> tuple[PPI, np.ndarray]:
    """The run where it stands, and its CPU seconds so far."""
    for folder in (task.folder, task.first):
        if folder is not None and (folder / "state.npz").exists():
            state = load(folder / "state.npz")
            for k in range(int(state["phase"]) + 1):
                state |= load(folder / f"data.{k}.npz")
            seconds = state.pop("seconds")
            if folder == task.first and state["phase"] > 0:
                raise ValueError(f"{folder.name} holds phases, not a pre-training alone")
            run = PPI.resume(task.settings, task.agents, state)
            if folder == task.first:
                _keep(task, run, seconds, [])
            return run, seconds
    run, start = PPI(task.settings, task.agents), time.process_time()
    run.pretrain()
    seconds = np.array([time.process_time() - start])
    _keep(task, run, seconds, [])
    return run, seconds


def _keep(task: Task, run: PPI, seconds: np.ndarray, probes: list[Probe]) -> None:
    """Write what is new since the phase before."""
    if task.folder is None:
        return
    state = run.state(games=(run.phase,))
    data = {name: state.pop(name) for name in list(state) if name.startswith(DATA)}
    save(task.folder / f"data.{run.phase}.npz", data)
    if probes and probes[-1].phase == run.phase:
        save(task.folder / f"probe.{run.phase}.npz", probes[-1].arrays())
    save(task.folder / "state.npz", state | {"seconds": seconds})


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays to an npz file, whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    files.write_bytes(path, buffer.getvalue())


def load(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file."""
    with np.load(path, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _load_probe(task: Task, phase: int) -> Probe:
    arrays = load(task.folder / f"probe.{phase}.npz")
    return Probe(task.probe, task.agents, phase, task.levels, **arrays)
