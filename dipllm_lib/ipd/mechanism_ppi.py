"""The three steps with PPI, and the pre-training before them: the work of one task.

Fixed-ICL, the frozen agent of step 2, has its own model, Q and decision noise. With rollouts its
generators are named by phase, so a stopped task goes on as if it had not been.
"""

import time
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from dipllm_lib.ipd import (
    evaluate,
    extorters,
    mechanism_task,
    mixed_pool,
    ppi,
    ppi_data,
    ppi_q,
    ppi_runs,
    steps,
)
from dipllm_lib.ipd.a2c import repeated
from dipllm_lib.ipd.mechanism_task import Task
from dipllm_lib.ipd.models import Stack, build
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.ipd.steps import PRETRAIN

WEIGHTS = ("weight.", "first.", "second.")  # names of arrays of a state


def work(task: Task) -> dict:
    """Train and measure; the result of `mechanism.run` with tables as DataFrames."""
    own = steps.ppi(task.settings, task.sizes, task.step)
    if task.step == PRETRAIN:
        return _pretrained(task, own)
    frozen = _FixedICL(task) if task.step == "step2" else None
    wanted = _training(task, own, frozen)
    if not (task.own / "state.npz").exists():
        start = time.process_time()
        state = _step3_state(task, own) if task.step == "step3" else _first_state(task)
        ppi_runs.place(wanted, state, [time.process_time() - start])
    found = ppi_runs.train(wanted)
    tables = _measured(task, own, found, wanted.levels)
    if frozen is not None:
        tables |= _meters(task, own, frozen)
    count = len(task.agents) * own.rounds * own.games * own.phases
    return {"steps": count, "seconds": float(found.seconds.sum()), "gap": None, "tables": tables}


def _training(task: Task, own: PPISettings, frozen: "_FixedICL | None") -> ppi_runs.Task:
    """The training of a step as a task of `ppi_runs`; rollouts are never without noise."""
    phases = {1, *range(1, own.phases + 1, task.settings.probe_every), own.phases}
    return ppi_runs.Task(
        own, task.seeds, steps.probes(task.settings, own.pool, task.step),
        probe_phases=tuple(sorted(phases)),
        learners=steps.learners(task.step),
        levels=tuple(evaluate.NOISE) if own.q == "head" else ("on",),
        folder=task.own,
        rival=frozen,
    )  # fmt: skip


def _measured(task: Task, own: PPISettings, found: ppi_runs.Result, levels: Sequence[str]) -> dict:
    """Tables of a finished training, with the further evaluators and panel F."""
    training = mixed_pool.training(found.phases)
    if task.step == "step2":
        training = training.replace({"opponent": {evaluate.LEARNER: evaluate.FROZEN}})
    last = _improved(task, task.step, own.phases, levels)
    probed = [(found.probes, found.rounds), *mechanism_task.extra(task, own.pool, last, own.phases)]
    if task.step == "step3":
        before = _improved(task, "step2", 0, levels)
        wanted = steps.probes(task.settings, own.pool, "step3")
        probed.append(mechanism_task.probe(before, task, 0, wanted))
    return mechanism_task.tables(training, probed, "phase", own.phases)


def _meters(task: Task, own: PPISettings, frozen: "_FixedICL") -> dict:
    """Tables `line` and `fits`."""
    extorter = _improved(task, task.step, own.phases, ("on",))["on"]
    copies = [frozen.copy(i, task.sizes.copies) for i in range(task.sizes.copies)]
    whom = extorter, frozen(own.phases, "meters"), copies
    return mechanism_task.meters(task, own.pool, *whom, own.phases)


def _pretrained(task: Task, own: PPISettings) -> dict:
    """D_0, the first fit and its gap, for two agents of each seed."""
    probe = steps.probes(task.settings, own.pool, "step1")
    gaps = ppi_runs.pretrain(ppi_runs.Task(own, task.seeds, probe, folder=task.own)).gap
    seconds = ppi_runs.load(task.own / "state.npz")["seconds"]
    table = pd.DataFrame(task.agents, columns=["seed", "seat"]).assign(gap=gaps)
    count = len(task.agents) * own.rounds * own.first_games
    known = gaps[np.isfinite(gaps)]
    gap = float(known.max()) if len(known) else None
    return {"steps": count, "seconds": float(seconds.sum()), "gap": gap, "tables": {"gaps": table}}


def _first_state(task: Task) -> dict[str, np.ndarray]:
    """The pre-training of this step's agents: in step 1 the first of each seed."""
    state = ppi_runs.state(task.earlier(PRETRAIN))
    state.pop("seconds", None)
    if task.step == "step1":
        state = {k: v if k in ("phase", "step") else v[::2].copy() for k, v in state.items()}
    return state


def _step3_state(task: Task, own: PPISettings) -> dict[str, np.ndarray]:
    """What step 3 takes over from step 2."""
    old = ppi_runs.state(task.earlier("step2"))
    count = int(old["phase"]) + 1
    if task.start == "weights":
        data = old["data.0"]
    else:
        data = np.concatenate([old[f"data.{k}"] for k in range(count)], axis=1)
    if task.start == "data":
        fresh = ppi.PPI(own, task.agents)
        fresh.pretrain(data)
        return fresh.state()
    kept = {k: v for k, v in old.items() if k.startswith(WEIGHTS)}
    rows = {"rows": np.empty((len(task.agents), 0, 0)), "gap": np.full(len(task.agents), np.nan)}
    return kept | rows | {"phase": np.array(0), "step": old["step"], "data.0": data}


@torch.no_grad()
def weights(own: PPISettings, state: dict[str, np.ndarray], agents: Sequence) -> Stack:
    """The stack of a PPI state. ValueError where the state has other agents."""
    stack = build(own.model, ppi_data.generators(agents, "weights", 0))
    for name, weight in stack.named_parameters():
        given = torch.from_numpy(state[f"weight.{name}"])
        if given.shape != weight.shape:
            raise ValueError(f"weights {name} are {tuple(given.shape)}, not {tuple(weight.shape)}")
        weight.copy_(given)
    return stack


def _weights_of(task: Task, step: str, agents: Sequence = ()) -> Stack:
    """The trained stack of this step or an earlier one; agents: those of the task if empty."""
    own = steps.ppi(task.settings, task.sizes, step)
    folder = task.own if step == task.step else task.earlier(step)
    return weights(own, ppi_runs.load(folder / "state.npz"), agents or task.agents)


def _improved(
    task: Task, step: str, phase: int, levels: Sequence[str]
) -> dict[str, ppi_q.Improved]:
    """The agents that `step` has trained at each noise level, with generators for rollouts."""
    own, stack = steps.ppi(task.settings, task.sizes, step), _weights_of(task, step, task.agents)
    found = {}
    for level in levels:
        streams = ppi_data.generators(task.agents, f"end {level}", phase)
        found[level] = ppi_q.Improved(stack, own, evaluate.NOISE[level], streams)
    return found


def actors(task: Task) -> dict[tuple[int, int], ppi_q.Improved]:
    """(seed, seat) -> a trained agent alone, with its decision noise."""
    own, stack = steps.ppi(task.settings, task.sizes, task.step), _weights_of(task, task.step)
    return {
        agent: ppi_q.Improved(
            stack.slice(i), own, 1.0, ppi_data.generators([agent], "alone", own.phases)
        )
        for i, agent in enumerate(task.agents)
    }


class _FixedICL:
    """(phase, purpose) -> the frozen agents: that of step 1 once for each extorter of its seed."""

    def __init__(self, task: Task):
        self.agents = task.agents
        self.settings = steps.ppi(task.settings, task.sizes, "step1")
        self.alone = _weights_of(task, "step1", self.agents[::2])
        self.stack = repeated(self.alone, 2)

    def __call__(self, phase: int, purpose: str) -> ppi_q.Improved:
        streams = ppi_data.generators(self.agents, f"frozen {purpose}", phase)
        return ppi_q.Improved(self.stack, self.settings, 1.0, streams)

    def copy(self, i: int, count: int) -> ppi_q.Improved:
        """Perturbed copy i of `count`, the same for both extorters of a seed."""
        streams = ppi_data.generators(self.agents[::2], "copy", i)
        moved = extorters.perturbed(self.alone, extorters.size(i, count), streams)
        rollouts = ppi_data.generators(self.agents, "copy", i, "rollouts")
        return ppi_q.Improved(repeated(moved, 2), self.settings, 1.0, rollouts)
