"""Exact lines beside step 1: by hand, against simulation, and their sums against the values."""

import numpy as np
import pytest

from dipllm_lib.ipd import bayes, best_response, game, tabular
from dipllm_lib.ipd import reference_curves as references
from dipllm_lib.ipd.best_response import Planned
from dipllm_lib.run import seeding


def test_best_response_to_named_strategies():
    """TFT: C until the last round. AllC: D throughout. AllD: nothing to gain."""
    own, other = references.best_rounds(tabular.named("TFT"), 6)
    assert own.tolist() == [1, 1, 1, 1, 1, 0] and other.tolist() == [1] * 6
    own, other = references.best_rounds(tabular.named("AllC"), 4)
    assert own.tolist() == [0] * 4 and other.tolist() == [1] * 4
    assert references.best_rounds(tabular.named("AllD"), 3).tolist() == [[0] * 3] * 2


def test_rounds_add_up_to_the_value_and_agree_with_play():
    drawn = tabular.sample("uniform", 300, seeding.child(0, "curves"))
    own, other = references.best_rounds(drawn, 20)
    found = best_response.best_response(drawn, 20)
    assert own.mean() == pytest.approx(found.cooperation.mean(), abs=1e-12)
    assert (2 * other - own).mean() == pytest.approx(found.value.mean(), abs=1e-12)
    n = 40
    streams = seeding.child(0, "x"), seeding.child(0, "y")
    policy = np.repeat(found.policy, n, axis=0)
    opponents = tabular.Tabular(np.repeat(drawn, n, axis=0))
    played = game.play(Planned(policy), opponents, len(policy), 20, streams)
    assert played.left.mean(axis=0) == pytest.approx(own, abs=0.02)
    assert played.right.mean(axis=0) == pytest.approx(other, abs=0.02)


def test_table_of_curves():
    table = references.curves(0, 8, "uniform", ("TFT", "tabular"), games=50)
    assert len(table) == 2 * 2 * 8
    assert not table.duplicated(["player", "opponent", "round"]).any()
    reward = 2 * table["other_cooperation"] - table["cooperation"]
    assert table["reward"].to_numpy() == pytest.approx(reward.to_numpy())
    player = table[(table["player"] == references.BAYES) & (table["opponent"] == "TFT")]
    assert set(player["cooperation"]) <= {0.0, 1.0}


def test_values_are_in_order():
    """AllD <= Bayes player <= Bayes-optimal <= best response, within four standard errors."""
    table = references.values(0, 20, "uniform", draws=4000, games=1000).set_index("player")
    reward, se = table["reward"], table["se"]
    assert reward["AllD"] == 1.0 and reward["Bayes-optimal"] == pytest.approx(1.0075, abs=5e-5)
    for k in ("0.5", "1"):
        name = f"Bayes player, k = {k}"
        assert reward[name] <= reward["Bayes-optimal"] + 4 * se[name]
    known = "best response, opponent known"
    assert reward[known] - 4 * se[known] > reward["Bayes-optimal"]
    assert list(references.values(0, 8, "human", 50, 50)["player"])[-2:] == [
        "Bayes player, k = 1",
        known,
    ]
    corners = references.values(0, 50, "corners", 500, 50).set_index("player")
    assert corners.loc["Bayes-optimal", "reward"] == pytest.approx(1.1975, abs=5e-5)


def test_values_that_take_long_are_known():
    assert bayes.optimal(50) == 1.0187 and bayes.optimal(50, 0.5) == 1.0586
    assert np.isnan(bayes.optimal(100)) and bayes.optimal(5) == bayes.beta_value(5)


@pytest.mark.slow
def test_the_shortest_of_them_is_right():
    assert bayes.beta_value(30) == pytest.approx(bayes.KNOWN[30, 1.0], abs=5e-5)
