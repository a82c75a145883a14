"""Lessons, labels by hand, what training moves, resume, and the section on small games."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from dipllm_lib.kto import (
    fitting,
    press_arms,
    press_figures,
    press_lessons,
    press_lm_figures,
    press_lm_study,
    press_training,
    prospect,
    roles,
)
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import TabularPolicy
from dipllm_lib.kto.press_settings import SceneSettings
from dipllm_lib.run import profiles, store

SETTINGS = profiles.load("smoke", 0).kto
SCENE = SceneSettings(4, 12, 6, 0.01, 0.1, 0.02)
V = prospect.value
OFFER = {
    "kind": "proposal", "prompt": "p", "legal": [" nothing.", " peace.", " a.", " b."],
    "chosen": 1, "own": [0, 0.02, -0.03, 0.5], "other": [0, 0.0, 0.01, -1e-9],
}  # fmt: skip
HURT = {
    "kind": "reply", "prompt": "r", "legal": [" yes.", " no."], "chosen": 1, "own": [-0.02, 0.0],
    "other": [0.1, 0.0],
}  # fmt: skip
IDLE = HURT | {"prompt": "i", "own": [0.0, 0.0]}


@pytest.fixture(scope="module")
def rows():
    return press_lessons.play_one((1, 0, SCENE, 1902))


def test_payoffs_by_hand():
    assert press_lessons.payoffs(OFFER).tolist() == [0, 0.02, -0.03, 0]  # the last is refused
    assert press_lessons.payoffs(HURT).tolist() == [-0.02, 0]
    assert press_lessons.differences(OFFER).tolist() == [0, 0.02, -0.03, 0]
    assert press_lessons.differences(HURT).tolist() == [-0.02, 0.02]
    with pytest.raises(ValueError, match="a forecast has no payoff"):
        press_lessons.payoffs(HURT | {"kind": "forecast"})


def test_labels_and_weights_by_hand():
    reference = [np.log([0.4, 0.3, 0.2, 0.1]), np.log([0.75, 0.25]), np.log([0.5, 0.5])]
    items = press_lessons.labelled([OFFER, HURT, IDLE], reference)
    assert [item.context.prompt for item in items] == ["p", "r"]  # nothing depends on the third
    first, second = items
    assert first.actions.tolist() == [1, 2] and first.desirable.tolist() == [True, False]
    assert second.actions.tolist() == [0, 1] and second.desirable.tolist() == [False, True]
    gain, loss = V(0.02, press_lessons.PARAMS), -V(-0.02, press_lessons.PARAMS)
    sizes = np.array([0.3 * gain, -0.2 * V(-0.03, press_lessons.PARAMS), 0.75 * loss, 0.25 * gain])
    weights = np.concatenate([first.omega, second.omega])
    np.testing.assert_allclose(weights, sizes / sizes.mean(), rtol=1e-12)
    with pytest.raises(ValueError, match="worth anything"):
        press_lessons.labelled([IDLE], reference[2:])


def test_lessons_are_those_of_the_scripts(rows):
    assert rows == press_lessons.play_one((1, 0, SCENE, 1902))
    assert json.loads(json.dumps(rows)) == rows
    kinds = {k: [r for r in rows if r["kind"] == k] for k in ("proposal", "reply", "forecast")}
    rule = set(range(7)) - {1, 3, 5}
    assert {r["power"] for r in kinds["proposal"]} == {r["power"] for r in kinds["reply"]} == rule
    assert {r["power"] for r in kinds["forecast"]} == set(range(7))
    assert {r["chosen"] for r in kinds["forecast"]} == {0, 1}
    for row in kinds["proposal"]:
        both = np.minimum(row["own"], row["other"])
        assert row["legal"][row["chosen"]] == " nothing." or both[row["chosen"]] > 0
    for row in kinds["reply"]:
        assert row["own"][0] >= 0 or row["chosen"] == 1  # it never accepts what hurts
    told = press_lessons.example(rows)
    assert told.startswith("proposal: From ") and "\nforecast: From " in told


def expected_value(policy, rows) -> float:
    """sum_a pi(a) V(a), mean over rows."""
    rows = [row for row in rows if press_lessons.differences(row).any()]
    found = policy.log_probs([press_lessons.context(row) for row in rows])
    values = [V(press_lessons.differences(row), press_lessons.PARAMS) for row in rows]
    return float(np.mean([np.exp(p) @ v for p, v in zip(found, values, strict=True)]))


def test_training_moves_messages_the_right_way(rows):
    torch.set_num_threads(1)
    backbone = press_training.base(SETTINGS, 0)
    before = roles.state(backbone, "opponent")
    policy, rates = LMPolicy(backbone, "executor"), fitting.Rates(5e-3, 2e-2, 1e-3)
    some = [row for row in rows if row["kind"] != "forecast"][:24]
    chosen = press_lessons.imitation(some)
    start = press_training.measured(policy, some[:6])
    role = fitting.Role(policy, "executor", 30, rates, 0)
    fitting.fit(role, chosen, fitting.Objective("ce"), 8, 0)
    after = press_training.measured(policy, some[:6])
    assert after["loss"] < start["loss"] - 0.1 and start["uniform"] == after["uniform"]
    moving = [row for row in some if press_lessons.differences(row).any()]
    reference = policy.log_probs([press_lessons.context(row) for row in moving])
    labelled = press_lessons.labelled(moving, reference)
    value = expected_value(policy, some)
    role = fitting.Role(policy, "executor", 30, rates, 0)
    fitting.fit(role, labelled, fitting.Objective("pt_kto"), 8, 0)
    assert expected_value(policy, some) > value + 1e-3
    good, bad = 0.0, 0.0
    now = policy.log_probs([item.context for item in labelled])
    for item, row in zip(labelled, now, strict=True):
        moved = item.omega * (row - item.reference)[item.actions]
        good, bad = good + moved[item.desirable].sum(), bad + moved[~item.desirable].sum()
    assert good > 0 > bad
    left = roles.state(backbone, "opponent")
    assert all((left[name] == before[name]).all() for name in before)


def test_measures_by_hand():
    policy = TabularPolicy()
    found = press_training.measured(policy, [HURT, IDLE | {"own": [0.04, 0.0]}])
    assert found["loss"] == found["uniform"] == pytest.approx(np.log(2))
    assert found["worth"] == pytest.approx(100 * (-0.01 + 0.02) / 2) and found["rule"] == 0
    assert found["best"] == pytest.approx(2) and found["decisions"] == 2
    told = press_training.measured(policy, [HURT | {"kind": "forecast", "own": []}])
    assert told["worth"] is None and told["kind"] == "forecast"


class Stop(Exception):
    """The plug is pulled."""


@pytest.mark.slow
def test_resume_equals_a_run_without_a_break(home, monkeypatch, rows):
    torch.set_num_threads(1)
    settings = dataclasses.replace(SETTINGS, press_lm_steps=(13, 12))
    profile = dataclasses.replace(profiles.load("smoke", 0), workers=1)
    whole = store.Shelf("09b_kto_negotiation", profile, settings)
    first = press_training.train(whole, rows[:60], rows[60:120])
    states = [roles.state(first.backbone, name) for name in ("executor", "opponent")]
    store.files.remove(home / "data/smoke/partial")
    real, count = fitting.Role.step, [0]

    def step(role, *given):
        count[0] += 1
        if count[0] in (12, 26):  # behind a checkpoint of the first and of the second training
            raise Stop
        return real(role, *given)

    monkeypatch.setattr(fitting.Role, "step", step)
    for _ in range(2):
        with pytest.raises(Stop):
            press_training.train(whole, rows[:60], rows[60:120])
    second = press_training.train(whole, rows[:60], rows[60:120])
    assert second.history.equals(first.history) and second.measures.equals(first.measures)
    assert len(first.history) == 13 + 12 + 12
    for state, name in zip(states, ("executor", "opponent"), strict=True):
        other = roles.state(second.backbone, name)
        assert all((other[k] == state[k]).all() for k in state)


@pytest.mark.slow
def test_the_section_on_a_small_table(home):
    torch.set_num_threads(1)
    settings = dataclasses.replace(SETTINGS, press_lm_games=2, press_lm_last_year=1902)
    profile = dataclasses.replace(profiles.load("smoke", 0), workers=1)
    shelf = store.Shelf("09b_kto_negotiation", profile, settings)
    lessons, held_out = press_training.lessons(shelf)
    learned = press_training.train(shelf, lessons, held_out)
    study = press_lm_study.play_all(shelf, learned)
    again = press_lm_study.play_all(shelf, learned)
    assert study.games.letters.equals(again.games.letters) and study.notes.equals(again.notes)
    games, seats = press_lm_study.overview(study), press_lm_study.behaviour(study)
    assert games["arm"].tolist() == list(press_lm_study.ARMS) and set(games["games"]) == {2}
    assert (games["parsed"] == games["proposals"]).all()
    own = study.games.own(study.games.letters)
    assert set(own["negotiator"]) <= {"LMNegotiator", "RuleNegotiator"}
    assert all(own["sender"] == own["game"] % 7)
    spoken = press_lm_study.said(study).set_index("kind")["decisions"]
    assert spoken["proposal"] == 2 * 4 * 6
    told = seats.set_index(["arm", "metric"])["value"]
    assert 0 <= told["LM seat", "LM forecast Brier"] <= 1 and "says yes" in told["Rule seat"].index
    assert (seats["definition"] != "").all() and seats["definition"].notna().all()
    difference = press_lm_study.differences(study)
    lm, rule, silent = (press_lm_study.seat_shares(study.games.ends, a) for a in games["arm"])
    assert difference["value"].tolist() == pytest.approx([
        (lm - silent).mean(),
        (lm - rule).mean(),
        (rule - silent).mean(),
    ])
    figure = press_lm_figures.learned(learned.history, learned.measures, difference)
    assert len(figure.axes) == 3
    told = press_lm_study.summary(learned.measures, seats, difference).splitlines()
    assert len(told) == 6 and told[0].startswith("worth of a proposal, points: base ")
    assert "LM forecast Brier" in told[2] and "Rule seat - Silent seat" in told[5]
    assert len(press_figures.phases(press_lm_study.phases(study), games["arm"]).axes) == 3


def test_a_control_is_the_same_game_as_ever():
    """Partner is RuleNegotiator by another name."""
    who = press_lm_study.RuleNegotiator()
    arm = press_arms.Arm("x", "one", who, press_lm_study.Partner(), "priced", 7)
    every = press_arms.Arm("x", "all", who, who, "priced", 7)
    logs = [press_arms.play_one((one, 2, 0, SCENE, 1901)) for one in (arm, every)]
    assert logs[0]["letters"] == logs[1]["letters"] and logs[0]["centres"] == logs[1]["centres"]
    assert logs[0]["negotiators"].count("Partner") == 6
