"""Experiments beyond the paper: what settings change, runs that resume, shared pre-training."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import a2c_settings, ppi, ppi_runs, ppi_settings, social, social_runs
from dipllm_lib.ipd import social_tables as st
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.ipd.social import Plan

BASE = replace(
    ppi_settings.SMOKE,
    model=ModelSettings(hidden=8, rounds=20),
    first_games=60,
    games=20,
    phases=2,
    first_steps=4,
    steps=2,
    batch=16,
)
A2C = replace(
    a2c_settings.SMOKE,
    model=replace(a2c_settings.SMOKE.model, hidden=8),
    games=8,
    iterations=4,
    block=2,
)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def plan(folder, **changes):
    return replace(Plan((0, 1, 2), str(folder), together=2, probe_games=4), **changes)


def changed(own, base):
    """Names of the fields in which settings differ from those of the base."""
    return {name for name in vars(base) if getattr(own, name) != getattr(base, name)}


def test_blocks_names_and_pickles(tmp_path):
    made = social.mixing(BASE, plan(tmp_path), (0.0, 0.5))
    assert [(t.setting, t.seeds) for t in made] == [
        ("0", (0, 1)), ("0", (2,)), ("0.5", (0, 1)), ("0.5", (2,)),
    ]  # fmt: skip
    assert [t.key for t in made][:2] == ["mixing.0.0-1", "mixing.0.2-2"]
    assert pickle.loads(pickle.dumps(made[0])) == made[0]
    with pytest.raises(ValueError, match="unknown question 'luck'"):
        social.Task("luck", "", BASE, (0,), plan(tmp_path))
    with pytest.raises(ValueError, match="distinct seeds"):
        plan(tmp_path, seeds=(1, 1))


def test_every_setting_changes_what_it_says(tmp_path):
    one = plan(tmp_path, seeds=(0,))
    found = {t.setting: changed(t.own, BASE) for t in social.exploration(BASE, one)}
    assert found.pop("base") == set()
    assert found == {
        "beta literal": {"improvement"},
        "temperature 1": {"beta"},
        "sigma 0": {"noise"},
        "sigma 0.6": {"noise"},
        "sigma 2": {"noise"},
        "sigma 1.2 to 0.4": {"last_noise"},
        "window 6": {"window"},
        "reinit": {"reinit", "steps"},
    }
    assert [t.own.tabular_games for t in social.mixing(BASE, one)] == [0, 2, 5, 10, 15, 18]
    models = {t.setting: t.own.model for t in social.sizes(BASE, one, (8, 16))}
    assert {n: (m.core, m.hidden) for n, m in models.items()} == {
        "GRU 8": ("gru", 8), "GRU 16": ("gru", 16), "Transformer 32": ("transformer", 32),
    }  # fmt: skip
    paid = {t.setting: t.own for t in social.payoffs(BASE, one, (2.0, 4.0))}
    np.testing.assert_array_equal(paid["b 4"].payoffs.by_state, [3, -1, 4, 0])
    assert changed(paid["b 2"], BASE) == set()
    assert paid["b 2 and 3"].payoffs_of(1).temptation == 3.0
    rolled = {t.setting: t.own for t in social.cost(BASE, one, A2C, (4, 8))}
    assert list(rolled) == ["rollouts 4", "rollouts 8", "head", "A2C"]
    assert rolled["rollouts 8"].q == "mc" and not rolled["rollouts 8"].model.q_head
    assert [t.own.payoffs.r for t in social.goods(BASE, one)] == [1.6, 2.0, 2.4]
    pools = {t.setting: (t.own.pool, t.own.a) for t in social.diversity(BASE, one)}
    assert pools == social.POOLS
    with pytest.raises(ValueError, match="unknown pool 'people'"):
        social.diversity(BASE, one, ("people",))
    for make in (social.payoffs, social.goods):
        with pytest.raises(ValueError, match="with the same payoffs, use 0"):
            make(BASE, plan(tmp_path, shift_games=3))
    with pytest.raises(ValueError, match="unknown settings"):
        social.exploration(BASE, one, ("luck",))


def test_a_gate_only_measures(tmp_path):
    """The base would stop at its gate; here the gap is a number of the result."""
    strict = replace(BASE, gate=1e-6, gate_games=20)
    (task,) = social.mixing(strict, plan(tmp_path, seeds=(0,)), (0.5,))
    found = social_runs.run(task)
    assert found["gap"] > 0.01
    (task,) = social.diversity(strict, plan(tmp_path, seeds=(0,)), ("families",))
    assert social_runs.run(task)["gap"] is None


@pytest.mark.parametrize("question", ["exploration", "goods", "cost"])
def test_a_task_that_was_stopped_goes_on_to_the_same_result(question, tmp_path, monkeypatch):
    make = {
        "exploration": lambda p: social.exploration(BASE, p, ("base",)),
        "goods": lambda p: social.goods(BASE, p, (2.0,)),
        "cost": lambda p: social.cost(replace(BASE, games=4), p, rollouts=(2,)),
    }[question]
    whole = make(plan(tmp_path / "whole", seeds=(0,)))[0]
    parted = make(plan(tmp_path / "parted", seeds=(0,)))[0]
    expected = social_runs.run(whole)
    json.dumps(expected, allow_nan=False)
    advance, calls = ppi.PPI.advance, []

    def stops(run):
        calls.append(run.phase)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return advance(run)

    monkeypatch.setattr(ppi.PPI, "advance", stops)
    with pytest.raises(KeyboardInterrupt):
        social_runs.run(parted)
    found = social_runs.run(parted)
    assert calls == [0, 1, 1]  # what was done is not done again
    assert found["tables"] == expected["tables"] and len(found["seconds"]) == 1 + 2
    again = social_runs.run(parted)
    assert again == found and len(calls) == 3


def test_settings_that_begin_alike_share_their_pretraining(tmp_path, monkeypatch):
    """Two settings of one question train one; the result is that of a training of its own."""
    pretrain, calls = ppi.PPI.pretrain, []
    monkeypatch.setattr(
        ppi.PPI, "pretrain", lambda run, *given: (calls.append(1), pretrain(run, *given))[1]
    )
    made = social.exploration(BASE, plan(tmp_path, seeds=(0,)), ("base", "sigma 2", "window 6"))
    found = [social_runs.run(task) for task in made]
    assert len(calls) == 1 and len(list((tmp_path / "first").iterdir())) == 1
    own = ppi_runs.train(
        ppi_runs.Task(made[1].own, (0,), social_runs.ProbeSettings(20, 4, social_runs.OPPONENTS))
    )
    trained = st.joined(found[1:2], "training").query("opponent == 'learner'")
    np.testing.assert_allclose(trained["cooperation"], own.phases["learner_cooperation"])
    social_runs.run(social.diversity(BASE, plan(tmp_path, seeds=(0,)), ("corners",))[0])
    assert len(calls) == 3  # one above, without a folder, and another pool


def test_shifted_pools_cross_play_and_rates_are_tables_of_a_run(tmp_path):
    wanted = plan(tmp_path, seeds=(0, 1), shift_games=3)
    (task,) = social.diversity(BASE, wanted, ("uniform",))
    found = [social_runs.run(task)]
    shift = st.joined(found, "shift")
    assert {"TFT", "ZD 5", "corners", "human", "TFT, tremble 0.05"} <= set(shift["opponent"])
    assert set(shift["noise"]) == {"on", "half", "off"} and shift["regret"].notna().all()
    cross = st.joined(found, "cross")
    assert len(cross) == 4 * 2 and set(cross["level"]) == {"half"}
    assert len(st.joined(found, "rates")) == 4
    assert social_runs.run(task) == found[0]
    json.dumps(found, allow_nan=False)


def test_a2c_is_a_setting_of_the_cost(tmp_path):
    task = social.cost(BASE, plan(tmp_path, seeds=(0,)), A2C, ())[-1]
    found = social_runs.run(task)
    assert found["learner"] == "a2c" and found["phases"] == 4 and len(found["seconds"]) == 2
    table = st.cost([found])
    assert list(table["phase"]) == [2, 4] and table["seconds"].is_monotonic_increasing
    assert table["seconds"].iloc[-1] == pytest.approx(sum(found["seconds"]))
