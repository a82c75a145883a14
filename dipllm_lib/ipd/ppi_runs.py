"""A block of seeds from D_0 to the last phase, with probes: one task of `parallel.map`.

A process takes a block of seeds and steps all their agents in one stack. After pre-training and
after every phase the block is kept in its folder, so a stopped task goes on with the next phase and
returns what an unbroken one would:

    data.K.npz     games of phase K, 0 for D_0
    probe.K.npz    means of the probe at phase K
    state.npz      everything else; written last, its phase says which of the others count

Pre-training can be shared: a task whose own folder is empty starts from `first`, the folder that
`pretrain` filled for the same seeds, learners, pool, model and D_0, whatever its phases. `place`
gives a task any other beginning, as the data or the weights of another run.
"""

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.ipd import evaluate
from dipllm_lib.ipd.batch_play import Actor
from dipllm_lib.ipd.evaluate import Probe, ProbeSettings
from dipllm_lib.ipd.ppi import PPI, pairs
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.run import files

DATA = ("data.", "z.")  # names of arrays that are kept phase by phase


@dataclass(frozen=True)
class Task:
    """probe_phases: when probes are played, at the named levels of evaluate.NOISE · folder: where
    the block is kept, None keeps nothing · first: folder of a shared pre-training, or None · rival:
    (phase, purpose) -> the frozen agents that take the place of the partners in the games of that
    phase, with generators of their own where they need any; also the opponent `frozen` of probes.
    """

    settings: PPISettings
    seeds: tuple[int, ...]
    probe: ProbeSettings
    probe_phases: tuple[int, ...] = ()
    learners: int = 2
    levels: tuple[str, ...] = tuple(evaluate.NOISE)
    folder: Path | None = None
    first: Path | None = None
    rival: Callable[[int, str], Actor] | None = None

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
        if task.rival is not None:
            run.rival = task.rival(run.phase + 1, "games")
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
    frozen = None if task.rival is None else task.rival(run.phase, "probe")
    return evaluate.probe(actors, run.agents, run.phase, task.probe, frozen)


def state(folder: Path) -> dict[str, np.ndarray]:
    """All that a folder keeps of a run, as `PPI.state`, and `seconds`."""
    found = load(folder / "state.npz")
    for k in range(int(found["phase"]) + 1):
        found |= load(folder / f"data.{k}.npz")
    return found


def place(task: Task, beginning: dict[str, np.ndarray], seconds: Sequence[float] = ()) -> None:
    """Let a task whose folder is empty begin with this state of phase 0; one that has begun stays.
    seconds: CPU seconds that the beginning took, for the table of costs.

    ValueError for a task without a folder, or a state of another phase.
    """
    if task.folder is None or int(beginning["phase"]) != 0:
        raise ValueError("a beginning is a state of phase 0, placed in the folder of a task")
    if not (task.folder / "state.npz").exists():
        _write(task.folder, dict(beginning), 0, np.array(seconds, dtype=np.float64))


def _begin(task: Task) -> tuple[PPI, np.ndarray]:
    """The run where it stands, and its CPU seconds so far."""
    rival = None if task.rival is None else task.rival(0, "games")
    for folder in (task.folder, task.first):
        if folder is not None and (folder / "state.npz").exists():
            kept = state(folder)
            seconds = kept.pop("seconds")
            if folder == task.first and kept["phase"] > 0:
                raise ValueError(f"{folder.name} holds phases, not a pre-training alone")
            run = PPI.resume(task.settings, task.agents, kept, rival)
            if folder == task.first:
                _keep(task, run, seconds, [])
            return run, seconds
    run, start = PPI(task.settings, task.agents, rival), time.process_time()
    run.pretrain()
    seconds = np.array([time.process_time() - start])
    _keep(task, run, seconds, [])
    return run, seconds


def _keep(task: Task, run: PPI, seconds: np.ndarray, probes: list[Probe]) -> None:
    """Write what is new since the phase before."""
    if task.folder is None:
        return
    if probes and probes[-1].phase == run.phase:
        save(task.folder / f"probe.{run.phase}.npz", probes[-1].arrays())
    _write(task.folder, run.state(games=(run.phase,)), run.phase, seconds)


def _write(folder: Path, found: dict[str, np.ndarray], phase: int, seconds: np.ndarray) -> None:
    """The games of a phase, then everything else."""
    data = {name: found.pop(name) for name in list(found) if name.startswith(DATA)}
    save(folder / f"data.{phase}.npz", data)
    save(folder / "state.npz", found | {"seconds": seconds})


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
