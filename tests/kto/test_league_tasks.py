"""One list for three studies: every task once, its key, its result, in any process."""

import pytest

from dipllm_lib.kto import influence_cases, league_study, league_tasks, memory_study
from dipllm_lib.run import profiles

SETTINGS = profiles.load("smoke", 0).kto


def test_every_task_of_the_three_studies_once():
    wanted, keys = league_tasks.tasks(SETTINGS, 5)
    assert len(wanted) == len(keys) == len(set(keys))
    for name, study in league_tasks.STUDIES.items():
        own, names = study.tasks(SETTINGS, 5)
        assert [t.task for t in wanted if t.study == name] == own
        assert set(names) <= set(keys)
    parts = [task.task.part for task in wanted if task.study == "memory"]
    assert parts == [part for part in memory_study.PARTS for _ in range(SETTINGS.memory_seeds)]


def test_a_result_belongs_to_its_task():
    wanted, keys = league_tasks.tasks(SETTINGS, 5)
    tasks, found = league_tasks.of("league", wanted, keys)
    assert (tasks, found) == league_study.tasks(SETTINGS, 5)
    with pytest.raises(ValueError, match="unknown study 'press': use one of memory"):
        league_tasks.of("press", wanted, keys)
    first = next(task for task in wanted if task.study == "influence")
    assert league_tasks.run(first) == influence_cases.run(first.task)
    assert first.task == ("ultimatum", SETTINGS.influence_tabular_rounds, 400, 5)
