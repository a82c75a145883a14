"""Notebook 04's trainings: settings of the profiles are the presets, tasks resume, tables join."""

import json
from dataclasses import fields, replace

import pytest
import torch

from dipllm_lib.ipd import a2c_settings, mixed_pool, pool_contrasts, ppi_settings
from dipllm_lib.run import profiles

SMOKE = replace(profiles.load("smoke", 0).ipd, probe_games=6)
CPU = profiles.load("cpu", 0).ipd


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", profiles.NAMES)
def test_the_profiles_are_the_presets(name):
    settings = profiles.load(name, 0).ipd
    pairs = [
        (mixed_pool.ppi(settings), ppi_settings.PRESETS[name]),
        (mixed_pool.a2c(settings), a2c_settings.PRESETS[name]),
    ]
    if name == "cpu":
        pairs.append((mixed_pool.mc(settings), ppi_settings.PRESETS["cpu_mc"]))
    for own, preset in pairs:
        for one in fields(own):
            assert getattr(own, one.name) == getattr(preset, one.name), one.name


def test_arms_differ_in_one_argument():
    mixed, identity, alone = (mixed_pool.ppi(SMOKE, arm) for arm in ppi_settings.ARMS)
    assert alone == replace(mixed, pool=ppi_settings.NO_POOL)
    model = replace(mixed.model, z=identity.model.z)
    assert identity == replace(mixed, model=model, identity="opponent")
    longer = mixed_pool.ppi(replace(SMOKE, identity_phases=7), "identity")
    assert longer.phases == 7 and mixed.phases == SMOKE.phases
    assert mixed_pool.a2c(SMOKE, "no_tabular").tabular == 0.0
    printed = mixed_pool.literal(SMOKE)
    assert printed == replace(mixed, improvement="literal", phases=SMOKE.literal_phases)


def test_blocks_of_seeds_and_their_names(tmp_path):
    settings = replace(SMOKE, seeds=5, seeds_together=2)
    tasks = mixed_pool.tasks("ppi", ("mixed", "identity"), settings, 3, tmp_path)
    assert [task.seeds for task in tasks[:3]] == [(3000, 3001), (3002, 3003), (3004,)]
    assert len({task.key for task in tasks}) == len(tasks) == 6
    assert [t.seeds for t in mixed_pool.tasks("mc", ("mixed",), settings, 0, tmp_path)] == [(0,)]
    own = mixed_pool.tasks("a2c", ("mixed",), settings, 2, tmp_path)
    assert [t.seeds for t in own] == [(2010,)]  # its recipe was tuned on seed 0
    with pytest.raises(ValueError, match="unknown learner 'dqn'"):
        mixed_pool.Task("dqn", "mixed", settings, (0,), "")


def test_remedies_change_what_they_say():
    """One field or a few of the recipe each; the first is the published column at this size."""
    recipe, paper = mixed_pool.a2c(CPU), a2c_settings.PAPER["mixed"]
    changed = {}
    for name in a2c_settings.REMEDIES:
        own = mixed_pool.remedy(CPU, name)
        changed[name] = {
            f.name for f in fields(own) if getattr(own, f.name) != getattr(recipe, f.name)
        }
    column = {"lr", "lam_gae", "lam_td", "reward_scale", "entropy", "advantage_norm", "pool"}
    assert changed == {
        "published": column | {"prediction"},
        "no_prediction": {"prediction"},
        "entropy": {"entropy"},
        "uniform": {"pool"},
        "floor": {"epsilon"},
    }
    own = mixed_pool.remedy(CPU, "published")
    assert all(getattr(own, name) == getattr(paper, name) for name in column)
    with pytest.raises(ValueError, match="unknown remedy 'hope'"):
        mixed_pool.remedy(CPU, "hope")


@pytest.mark.parametrize("learner", mixed_pool.LEARNERS)
def test_a_task_that_was_stopped_goes_on_to_the_same_result(learner, tmp_path, monkeypatch):
    """Killed in the middle: the rest is trained, and the tables are those of an unbroken run."""
    settings = replace(SMOKE, mc_phases=3, literal_phases=3)
    arm = "floor" if learner == "remedy" else "mixed"
    (whole,) = mixed_pool.tasks(learner, (arm,), settings, 0, tmp_path / "whole")
    (parted,) = mixed_pool.tasks(learner, (arm,), settings, 0, tmp_path / "parted")
    expected = mixed_pool.run(whole)
    json.dumps(expected, allow_nan=False)
    probe, calls = mixed_pool.evaluate.probe, []

    def failing(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return probe(*given)

    monkeypatch.setattr(mixed_pool.evaluate, "probe", failing)
    with pytest.raises(KeyboardInterrupt):
        mixed_pool.run(parted)
    found = mixed_pool.run(parted)
    assert len(calls) == 1 + len(set(_probes(expected))) and found["tables"] == expected["tables"]
    assert found["steps"] == expected["steps"] > 0 and found["seconds"] > 0


def _probes(result):
    """When its probes were."""
    table = mixed_pool.joined([result], "probes")
    return table["phase" if "phase" in table else "iteration"]


def test_tables_of_all_learners_read_alike(tmp_path):
    """Rounds of all agents are counted; reward is 2 c_Y - c_X in every table."""
    found = []
    for learner, arms in (("ppi", ("mixed", "no_tabular")), ("a2c", ("mixed",))):
        for task in mixed_pool.tasks(learner, arms, SMOKE, 0, tmp_path):
            found.append(mixed_pool.run(task))
    for part in (found[:2], found[2:]):
        for name in ("training", "probes"):
            table = mixed_pool.joined(part, name)
            reward = 2 * table["other_cooperation"] - table["cooperation"]
            assert table["reward"].to_numpy(float) == pytest.approx(
                reward.to_numpy(float), abs=1e-5
            )
            assert {"arm", "seed", "seat", "opponent", "noise"} <= set(table)
    alone = mixed_pool.joined(found[1:2], "training")
    assert set(alone["opponent"]) == {"learner"} and set(alone["arm"]) == {"no_tabular"}
    cost = mixed_pool.cost(found).set_index(["learner", "arm"])
    assert cost.loc[("ppi", "mixed"), "steps"] == 2 * 2 * 20 * (200 + 3 * 100)
    assert cost.loc[("a2c", "mixed"), "steps"] == 2 * 20 * 32 * 20
    probes = mixed_pool.joined(found[:2], "probes")
    assert pool_contrasts.half_height(probes) in set(probes["phase"])
