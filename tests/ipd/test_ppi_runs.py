"""Blocks of seeds: kept after each phase, resumed, and started from a shared pre-training."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.ipd import ppi_runs, ppi_settings
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
