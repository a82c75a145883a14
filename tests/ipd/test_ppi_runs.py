"""Blocks of seeds: kept after each phase, resumed, and started from a shared pre-training."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.ipd import ppi_runs, ppi_settings, tabular
from dipllm_lib.ipd.batch_play import MemoryOne
from dipllm_lib.ipd.evaluate import ProbeSettings
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.ipd.ppi import PPI
from dipllm_lib.run import parallel

SETTINGS = replace(
    ppi_settings.SMOKE,
    model=ModelSettings(hidden=8, rounds=20),
    first_games=60,
    games=20,
    first_steps=4,
    steps=2,
    batch=16,
)
TASK = ppi_runs.Task(SETTINGS, (0, 1), ProbeSettings(rounds=20, games=5), (1, 3))


def equal(a, b):
    return all(getattr(a, name).equals(getattr(b, name)) for name in ("phases", "probes", "rounds"))


def test_results_have_every_seed_phase_and_probe():
    found = ppi_runs.train(TASK)
    assert len(found.phases) == 3 * 4 and len(found.probes) == 2 * 4 * 5 * 3
    assert set(found.probes.phase) == {1, 3} and set(found.probes.noise) == {"on", "half", "off"}
    assert len(found.rounds) == len(found.probes) * 20
    assert len(found.seconds) == 4 and (found.seconds > 0).all()


def test_a_stopped_block_goes_on_and_gives_the_unbroken_result(tmp_path, monkeypatch):
    whole = ppi_runs.train(TASK)
    kept = replace(TASK, folder=tmp_path / "block")
    advance, calls = PPI.advance, []

    def stops(run):
        calls.append(run.phase)
        if calls.count(1) == 1 and run.phase == 1:
            raise KeyboardInterrupt
        return advance(run)

    monkeypatch.setattr(PPI, "advance", stops)
    with pytest.raises(KeyboardInterrupt):
        ppi_runs.train(kept)
    assert equal(ppi_runs.train(kept), whole)
    assert calls == [0, 1, 1, 2]  # phase 1 was not played again
    assert equal(ppi_runs.train(kept), whole) and len(calls) == 4  # all is kept
    names = {path.name for path in kept.folder.iterdir()}
    assert names == {f"data.{k}.npz" for k in range(4)} | {
        "probe.1.npz",
        "probe.3.npz",
        "state.npz",
    }


def test_pretraining_is_shared_by_runs_with_other_phases(tmp_path):
    first = replace(TASK, folder=tmp_path / "first")
    gaps = ppi_runs.pretrain(first).gap
    assert gaps.shape == (4,)
    longer = replace(TASK, settings=replace(SETTINGS, games=30, phases=2), probe_phases=(2,))
    found = ppi_runs.train(replace(longer, first=first.folder, folder=tmp_path / "own"))
    assert equal(found, ppi_runs.train(longer))
    assert sorted(path.name for path in first.folder.iterdir()) == ["data.0.npz", "state.npz"]
    with pytest.raises(ValueError, match="own holds phases, not a pre-training"):
        ppi_runs.train(replace(TASK, first=tmp_path / "own"))


@pytest.mark.slow
def test_blocks_are_tasks_of_parallel_map():
    """In this process or in two workers: the same tables."""
    tasks = [replace(TASK, seeds=(seed,)) for seed in (0, 1)]
    here = parallel.map(ppi_runs.train, tasks, workers=1, task_threads=1)
    there = parallel.map(functools.partial(ppi_runs.train), tasks, workers=2, task_threads=1)
    assert all(equal(a, b) for a, b in zip(here, there, strict=True))
    assert not np.array_equal(here[0].probes.reward, here[1].probes.reward)


def rival(phase, purpose):
    return MemoryOne(tabular.named("AllD" if purpose == "games" else "TFT"))


def test_frozen_agents_take_the_place_of_the_partners(tmp_path, monkeypatch):
    """AllD in the games of the phases, TFT in the probes, and the same after a stop."""
    settings = replace(SETTINGS, tabular_share=0.0)
    probe = ProbeSettings(rounds=20, games=5, opponents=("frozen", "TFT"))
    task = replace(TASK, settings=settings, probe=probe, rival=rival)
    whole = ppi_runs.train(task)
    assert (whole.phases["learner_other_cooperation"] == 0).all()
    assert whole.phases["tabular_reward"].isna().all()
    frozen = whole.probes[whole.probes["opponent"] == "frozen"]
    assert (frozen["other_cooperation"] > 0).all()  # TFT opens with C
    kept, advance = replace(task, folder=tmp_path / "block"), PPI.advance

    def stops(run):
        if run.phase == 1:
            raise KeyboardInterrupt
        return advance(run)

    monkeypatch.setattr(PPI, "advance", stops)
    with pytest.raises(KeyboardInterrupt):
        ppi_runs.train(kept)
    monkeypatch.undo()
    assert equal(ppi_runs.train(kept), whole)


def test_a_task_can_begin_with_any_state_of_phase_0(tmp_path):
    """The pre-training of a run, placed: the run itself. A task that has begun stays as it is."""
    run = PPI(SETTINGS, TASK.agents)
    run.pretrain()
    task = replace(TASK, folder=tmp_path / "block")
    ppi_runs.place(task, run.state())
    found = ppi_runs.train(task)
    assert equal(found, ppi_runs.train(TASK)) and len(found.seconds) == 3
    ppi_runs.place(task, run.state())
    assert equal(ppi_runs.train(task), found)
    assert int(ppi_runs.state(task.folder)["phase"]) == 3
    run.advance()
    with pytest.raises(ValueError, match="a state of phase 0"):
        ppi_runs.place(replace(task, folder=tmp_path / "new"), run.state())
    with pytest.raises(ValueError, match="a state of phase 0"):
        ppi_runs.place(TASK, run.state())


def test_games_of_another_run_can_stand_for_d0():
    """D_0 itself as given games: the same weights. Another number of games is refused."""
    own, given = PPI(SETTINGS, TASK.agents), PPI(SETTINGS, TASK.agents)
    own.pretrain()
    games = own.state()["data.0"]
    given.pretrain(games)
    a, b = own.state(), given.state()
    assert all(np.array_equal(a[name], b[name], equal_nan=True) for name in a) and set(a) == set(b)
    with pytest.raises(ValueError, match="got 10 games, first_games is 60"):
        PPI(SETTINGS, TASK.agents).pretrain(games[:, :10])
