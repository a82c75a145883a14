"""Tasks of A2C: probes at fixed iterations, kept after each block, resumed as if never stopped."""

from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.ipd import a2c, a2c_runs, a2c_settings
from dipllm_lib.ipd.a2c import A2C
from dipllm_lib.ipd.evaluate import ProbeSettings
from dipllm_lib.run import parallel

SMOKE = a2c_settings.SMOKE
SETTINGS = replace(
    SMOKE,
    model=replace(SMOKE.model, hidden=8, rounds=20),
    epsilon=a2c_settings.Linear(0.1, 0.02, 15),
    games=8,
    iterations=5,
    block=2,
)
TASK = a2c_runs.Task(SETTINGS, (0, 1), ProbeSettings(rounds=20, games=6), (1, 3))
TABLES = ("training", "losses", "probes", "rounds")


def equal(a, b):
    return all(getattr(a, name).equals(getattr(b, name)) for name in TABLES)


def test_results_have_every_seed_block_and_probe():
    found = a2c_runs.train(TASK)
    assert len(found.training) == 3 * 4 * 2 and len(found.losses) == 3 * 4
    assert set(found.training["iteration"]) == {2, 4, 5}
    assert set(found.probes["iteration"]) == {2, 5} and len(found.probes) == 2 * 4 * 5 * 3
    assert len(found.rounds) == len(found.probes) * 20
    assert len(found.seconds) == 3 and (found.seconds > 0).all()
    rewards = 2 * found.probes["other_cooperation"] - found.probes["cooperation"]
    assert np.allclose(found.probes["reward"], rewards)


def test_noise_levels_are_shares_of_the_floor():
    training = A2C(replace(SETTINGS, iterations=20), [0]).train(2)  # epsilon .1 - .08 * 3 / 15
    found = {name: actor.epsilon for name, actor in training.actors().items()}
    assert found == pytest.approx({"on": 0.084, "half": 0.042, "off": 0.0})


@pytest.mark.parametrize("arm", ["mixed", "identity"])
def test_a_stopped_task_goes_on_and_gives_the_unbroken_result(tmp_path, monkeypatch, arm):
    settings = a2c_settings.arm(SETTINGS, arm)
    probe = replace(TASK.probe, identity=settings.identity)
    task = replace(TASK, settings=settings, probe=probe)
    whole, kept = a2c_runs.train(task), replace(task, folder=tmp_path / "task")
    train, calls = A2C.train, []

    def stops(run, blocks=1):
        calls.append(run.done)
        if calls.count(2) == 1 and run.done == 2:
            raise KeyboardInterrupt
        return train(run, blocks)

    monkeypatch.setattr(A2C, "train", stops)
    with pytest.raises(KeyboardInterrupt):
        a2c_runs.train(kept)
    assert equal(a2c_runs.train(kept), whole) and calls == [0, 2, 2, 4]
    assert equal(a2c_runs.train(kept), whole) and len(calls) == 4  # all is kept
    names = {path.name for path in kept.folder.iterdir()}
    assert names == {"probe.2.npz", "probe.5.npz", "state.npz"}


@pytest.mark.slow
def test_workers_give_what_one_process_gives():
    tasks = [replace(TASK, seeds=(seed,)) for seed in (0, 1)]
    ours, theirs = (parallel.map(a2c_runs.train, tasks, workers, 1) for workers in (1, 2))
    assert all(equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_steps_follow_each_other():
    """Step 2 against the frozen agent of Step 1, Step 3 with the weights of Step 2."""
    one = replace(SETTINGS, tabular=1.0, learners=1)
    step1 = a2c_runs.train(replace(TASK, settings=one, probe_blocks=())).trained
    assert step1.stack.agents == 2 and step1.agents == [(0, 0), (1, 0)]
    each = a2c.repeated(step1.stack, 2)
    two = replace(TASK, settings=replace(SETTINGS, tabular=0.0), probe_blocks=())
    frozen = a2c.a2c_games.Actor(each)
    step2 = a2c_runs.train(replace(two, frozen=frozen, stream="step 2")).trained
    step3 = replace(two, settings=replace(two.settings, iterations=2), start=step2.stack)
    assert not np.allclose(
        a2c_runs.train(step3).trained.state()["weight/core.bias"],
        a2c_runs.train(replace(step3, start=None)).trained.state()["weight/core.bias"],
        atol=0.05,
    )
