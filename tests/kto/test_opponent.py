"""Forecasts of the modeller: prompts, baselines by hand, the Bayes ceiling, measures."""

import numpy as np
import pytest

from dipllm_lib.kto import opponent, partner_types, pool, repeated
from dipllm_lib.kto.opponent import Decision
from dipllm_lib.kto.policies import TabularPolicy

WATCHED = pool.watched(10)
STATE = repeated.State(100, repeated.WORDS_LABELS, history=((0, 0), (0, 1)))


def decision(round_, action, last, bayes=0.5, name="TFT"):
    return Decision(STATE, 1, round_, action, last, bayes, name)


def test_prompts_show_the_rounds_as_the_opponent_sees_them():
    own = opponent.next_context(WATCHED, STATE, 1)
    assert own.prompt.endswith("Goes on with chance 90. Mine first CC DC. I")
    assert own.legal == (" cooperate.", " defect.")
    asked = opponent.type_context(WATCHED, STATE, 1)
    assert asked.prompt.endswith("Mine first CC DC. Partner?") and asked.legal == opponent.TYPES
    long = repeated.State(100, repeated.WORDS_LABELS, history=((0, 0),) * 20)
    assert opponent.next_context(WATCHED, long, 0).prompt.count("CC") == 8


def test_decisions_are_those_of_the_member():
    episodes = opponent.unseen(2, 10, 0)
    found = opponent.decisions(episodes, WATCHED)
    assert len(episodes) == 16 and {one.seat for one in found} == {1}
    for one in found:
        q = pool.VECTORS[one.name][repeated.last_outcome(one.state, 1)]
        assert one.action == repeated.DEFECT or q > 0
        exact = partner_types.posterior(opponent.MATRIX, one.state, 0)
        assert exact[opponent.PARTNERS.index(one.name)] > 0
        assert one.last == (one.state.history[-1][1] if one.round > 1 else -1)
    items = opponent.items(episodes, WATCHED)
    assert {item.game for item in items} == {opponent.NEXT, opponent.TYPE}
    count = sum(len(item.actions) for item in items if item.game == opponent.NEXT)
    assert count == len(found)


def test_baselines_by_hand():
    """Of four decisions three cooperate; of the three with a past two repeat."""
    training = [decision(1, 0, -1), decision(2, 0, 0), decision(3, 1, 0), decision(4, 0, 0)]
    test = [decision(1, 0, -1), decision(2, 1, 0), decision(3, 1, 1, bayes=0.1)]
    found = opponent.baselines(training, test)
    assert found["majority"].tolist() == [0.75] * 3
    assert found["repeat last"] == pytest.approx([0.75, 2 / 3, 1 / 3])
    assert found["Bayes"].tolist() == [0.5, 0.5, 0.1]


def test_measures_by_hand():
    test = [decision(1, 0, -1), decision(2, 1, 0)]
    table = opponent.measures(np.array([0.8, 0.3]), test)
    assert table["top1"].tolist() == [1.0, 1.0]
    assert table["brier"].to_numpy() == pytest.approx([0.04, 0.09])
    assert table["log_loss"].to_numpy() == pytest.approx(-np.log([0.8, 0.7]))


def test_bayes_beats_the_baselines_and_rises_over_rounds():
    test = opponent.decisions(opponent.unseen(10, 10, 0), WATCHED)
    found = opponent.baselines(test, test)
    found["uniform"] = opponent.forecasts(TabularPolicy(), test, WATCHED)
    table = opponent.by_round(found, test, 0, 50)
    whole = table[table["rounds"] == "all"].set_index("forecast")
    for other in ("majority", "repeat last", "uniform"):
        assert whole["brier"]["Bayes"] < whole["brier"][other]
        assert whole["top1"]["Bayes"] > whole["top1"][other] - 1e-9
    bayes = table[table["forecast"] == "Bayes"].set_index("rounds")["brier"]
    assert bayes["9 to 16"] < bayes["1"]
    assert whole["decisions"].nunique() == 1
    exact = opponent.posteriors(test)
    named = opponent.named(np.full((len(test), 8), 1 / 8), exact, test).set_index("rounds")
    assert named["right_Bayes"]["9 to 16"] > named["right_Bayes"]["1"]
    assert named["log_loss_opponent"]["all"] == pytest.approx(np.log(8))


def test_calibration_counts_every_decision_once():
    test = [decision(1, a, -1) for a in (0, 0, 1, 1)]
    table = opponent.calibration(np.array([0.9, 1.0, 0.0, 0.5]), test)
    assert table["decisions"].sum() == 4
    assert table["happened"].tolist() == [0.0, 0.0, 1.0]
