"""Everything of notebook 09c that is repeated over seeds, as one list of tasks for `shelf.tasks`.

    memory     one part of one seed (`memory_study`)
    influence  tables of one game and seed under every setting (`influence_cases`)
    league     one league of a game, an arm and a seed (`league_study`)

One list keeps all workers busy to the end, and starts them once: the longest tasks come first.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dipllm_lib.kto import influence_cases, league_study, memory_study
from dipllm_lib.run.profiles_kto import KTOSettings

STUDIES = {"memory": memory_study, "influence": influence_cases, "league": league_study}


class Task(NamedTuple):
    """study: one of STUDIES · task: as its `run` takes it."""

    study: str
    task: object


def tasks(settings: KTOSettings, seed: int) -> tuple[list[Task], list[str]]:
    """All tasks with their keys."""
    wanted, keys = [], []
    for name, study in STUDIES.items():
        own, names = study.tasks(settings, seed)
        wanted += [Task(name, task) for task in own]
        keys += names
    return wanted, keys


def run(task: Task) -> object:
    """What the study makes of its task; JSON-able."""
    return STUDIES[task.study].run(task.task)


def of(study: str, wanted: Sequence[Task], results: Sequence) -> tuple[list, list]:
    """(tasks, results) of one study. ValueError for an unknown one."""
    if study not in STUDIES:
        raise ValueError(f"unknown study {study!r}: use one of {', '.join(STUDIES)}")
    pairs = [(w.task, r) for w, r in zip(wanted, results, strict=True) if w.study == study]
    return [task for task, _ in pairs], [result for _, result in pairs]
