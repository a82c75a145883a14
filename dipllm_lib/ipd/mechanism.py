"""Tasks of the mechanism in three steps: each trains a block of seeds and measures what came out.

A task keeps what it needs to go on after every phase (PPI) or block of iterations (A2C) in
`folder/key`, and returns plain lists, like those of `mixed_pool`. A step reads the state of the one
before from the folder that it was kept in or copied to (`hand_over`): step 1 of PPI and step 2 the
pre-training, step 2 also the agent of step 1, step 3 the extorters of step 2.

The frozen agent of step 2 (Fixed-ICL) plays its improved policy with its own model and Q and with
its training noise; without that noise it would probe nobody. It is the same at every noise level
of the learner who meets it.

Tables of `run`, all with seed, seat, opponent, noise and phase or iteration:

    training   games of every phase or block, noise on
    probes     fixed evaluators at the probes; the further ones once, at the end
    rounds     curves inside a game, at the first and the last probe; step 3 begins with phase 0,
               the extorters before any training against each other
    line, fits step 2 only: the extorters against many opponents, see `extorters`
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dipllm_lib.ipd import mechanism_a2c, mechanism_ppi, mixed_pool, ppi_runs
from dipllm_lib.ipd.mechanism_task import Task
from dipllm_lib.ipd.steps import Sizes
from dipllm_lib.run.profiles import IPDSettings

__all__ = ["Task", "hand_over", "run", "tasks"]
WORK = {"ppi": mechanism_ppi.work, "a2c": mechanism_a2c.work}


def tasks(
    learner: str,
    step: str,
    settings: IPDSettings,
    sizes: Sizes,
    seed: int,
    folder: Path | str,
    before: Path | str = "",
) -> list[Task]:
    """The tasks of a step, blocks of `seeds_together` seeds each."""
    count = settings.a2c_seeds if learner == "a2c" else settings.seeds
    seeds = [seed * mixed_pool.SEEDS + k for k in range(count)]
    size = settings.seeds_together
    blocks = [tuple(seeds[i : i + size]) for i in range(0, count, size)]
    more = str(folder), str(before)
    return [Task(learner, step, settings, sizes, block, *more) for block in blocks]


def run(task: Task) -> dict:
    """Train and measure; {learner, step, start, steps, seconds, gap, tables}: environment steps of
    all agents, CPU seconds of the training, largest gap to the prediction limit (pre-training, else
    None), and tables as columns and data."""
    found = WORK[task.learner](task)
    parts = {name: mixed_pool.plain(table) for name, table in found.pop("tables").items()}
    named = {"learner": task.learner, "step": task.step, "start": task.start}
    return named | found | {"tables": parts}


def hand_over(done: Sequence[Task], folder: Path) -> None:
    """Copy what later steps need of finished tasks into `folder`, compressed, without probes.

    FileNotFoundError for a task that has not begun.
    """
    for task in done:
        if not (task.own / "state.npz").exists():
            raise FileNotFoundError(f"{task.key} has no state to hand over: run it first")
        (folder / task.key).mkdir(parents=True, exist_ok=True)
        for path in sorted(task.own.glob("*.npz")):
            if not path.name.startswith("probe."):
                np.savez_compressed(folder / task.key / path.name, **ppi_runs.load(path))
