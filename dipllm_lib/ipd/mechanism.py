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
from dipllm_lib.ipd.batch_play import Actor
from dipllm_lib.ipd.mechanism_task import Task
from dipllm_lib.ipd.steps import Sizes
from dipllm_lib.run.profiles import IPDSettings

__all__ = ["Task", "actors", "hand_over", "run", "tasks"]
WORK = {"ppi": mechanism_ppi.work, "a2c": mechanism_a2c.work}
AGENTS = {"ppi": mechanism_ppi.actors, "a2c": mechanism_a2c.actors}


def tasks(
    learner: str,
    step: str,
    settings: IPDSettings,
    sizes: Sizes,
    seed: int,
    folder: Path | str,
    before: Path | str = "",
) -> list[Task]:
    """The tasks of a step, blocks of `seeds_together` (A2C: `a2c_seeds_together`) seeds each."""
    counts = {"a2c": (settings.a2c_seeds, settings.a2c_seeds_together)}
    count, size = counts.get(learner, (settings.seeds, settings.seeds_together))
    seeds = [seed * mixed_pool.SEEDS + k for k in range(count)]
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
    """Copy what later steps need of finished tasks into `folder`, compressed: the state without its
    seconds, so that equal trainings give equal bytes, and, but of step 1, the games; no probes.

    FileNotFoundError for a task that has not begun.
    """
    for task in done:
        if not (task.own / "state.npz").exists():
            raise FileNotFoundError(f"{task.key} has no state to hand over: run it first")
        (folder / task.key).mkdir(parents=True, exist_ok=True)
        names = ["state.npz"]
        if task.step != "step1":  # nobody trains on its games again
            names += sorted(path.name for path in task.own.glob("data.*.npz"))
        for name in names:
            kept = ppi_runs.load(task.own / name)
            kept.pop("seconds", None)
            np.savez_compressed(folder / task.key / name, **kept)


def actors(task: Task) -> dict[tuple[int, int], Actor]:
    """(seed, seat) -> what a finished task has trained, a stack of one agent that plays as in its
    last training games: PPI with its decision noise, A2C with its floor."""
    return AGENTS[task.learner](task)
