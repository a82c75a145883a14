"""One task of the mechanism: what it is, where it is kept, and the measurements of both learners.

A task keeps its training in `folder/key`; a step reads the state of the one before from the folder
that it was kept in or copied to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dipllm_lib.ipd import evaluate, extorters, ppi, steps
from dipllm_lib.ipd.batch_play import Actor
from dipllm_lib.ipd.steps import PRETRAIN, STEPS, Sizes
from dipllm_lib.run.profiles import IPDSettings

LEARNERS = ("ppi", "a2c")


@dataclass(frozen=True)
class Task:
    """One step of one learner for some seeds. folder: where it is kept · before: where the steps
    before it are, the same folder if empty. ValueError for an unknown learner or step."""

    learner: str
    step: str
    settings: IPDSettings
    sizes: Sizes
    seeds: tuple[int, ...]
    folder: str
    before: str = ""

    def __post_init__(self) -> None:
        known = (PRETRAIN, *STEPS) if self.learner == "ppi" else STEPS
        if self.learner not in LEARNERS or self.step not in known:
            raise ValueError(
                f"no step {self.step!r} of {self.learner!r}: learners are {', '.join(LEARNERS)},"
                f" steps {', '.join(known)}"
            )

    @property
    def start(self) -> str:
        """Where step 3 of PPI begins; empty for all else."""
        if (self.learner, self.step) != ("ppi", "step3"):
            return ""
        return self.sizes.start_of(steps.ppi(self.settings, self.sizes, self.step))

    @property
    def key(self) -> str:
        """A name for files and tasks."""
        return self._key(self.step) if not self.start else self._key(f"{self.step}-{self.start}")

    def _key(self, step: str) -> str:
        return f"{self.learner}.{step}.{self.seeds[0]}-{self.seeds[-1]}"

    @property
    def own(self) -> Path:
        """The folder of this task."""
        return Path(self.folder) / self.key

    def earlier(self, step: str) -> Path:
        """The folder of an earlier step of the same seeds. FileNotFoundError if it is not there."""
        path = Path(self.before or self.folder) / self._key(step)
        if not (path / "state.npz").exists():
            raise FileNotFoundError(f"{self.key} needs {path.name}: run {step} of {self.learner}")
        return path

    @property
    def agents(self) -> list[tuple[int, int]]:
        """(seed, seat) of each agent."""
        return ppi.pairs(self.seeds, steps.learners(self.step))


def probe(actors: dict[str, Actor], task: Task, at: int, settings) -> tuple:
    """(table, rounds) of a probe outside the training."""
    found = evaluate.probe(actors, task.agents, at, settings)
    return found.table(), found.by_round()


def extra(task: Task, pool: str, last: dict[str, Actor], at: int) -> list[tuple]:
    """The further evaluators, at the end."""
    return [probe(last, task, at, steps.probes(task.settings, pool, task.step, further=True))]


def tables(training: pd.DataFrame, probed: Sequence[tuple], axis: str, end: int) -> dict:
    """training, probes, and rounds at the first and last probe and before the training."""
    joined = [
        pd.concat([t.rename(columns={"phase": axis}) for t in parts], ignore_index=True)
        for parts in zip(*probed, strict=True)
    ]
    known = joined[1].loc[joined[1][axis] > 0, axis]
    shown = joined[1][axis].isin({0, int(known.min()), end})
    return {"training": training, "probes": joined[0], "rounds": joined[1][shown]}


def meters(
    task: Task, pool: str, actor: Actor, frozen: Actor, copies: Sequence[Actor], end: int
) -> dict:
    """Tables `line` and `fits` of the extorters."""
    sizes = extorters.Games(
        task.settings.rounds, pool, task.sizes.opponents, task.sizes.line_games,
        task.settings.probe_games,
    )  # fmt: skip
    return extorters.measure(actor, task.agents, frozen, copies, sizes, end)
