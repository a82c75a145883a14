"""Opening probabilities: a joint policy of four joint orders, worked out by hand."""

import numpy as np
import pytest

from dipllm_lib.dip import openings, orders, policies, rules, states

GERMANY = 3
JOINTS = [
    ["A BER - KIE", "A MUN - RUH", "F KIE - DEN"],
    ["A BER - KIE", "A MUN - BUR", "F KIE - DEN"],
    ["A BER - KIE", "A MUN - RUH", "F KIE - HOL"],
    ["A BER H", "A MUN - BUR", "F KIE - HOL"],
]


def row(target: list[float], joints=JOINTS) -> dict:
    state = states.to_state(rules.start(1))
    return {
        "game": "g",
        "phase": "S1901M",
        "power": "GERMANY",
        "state": state,
        "joints": joints,
        "target": target,
    }


def test_marginals_sum_over_the_other_units():
    turn, target = openings.mixture([row([0.1, 0.2, 0.3, 0.4])], "GERMANY")
    table = openings.marginals(turn, {"target": target}).set_index(["unit", "order"])["target"]
    assert list(turn.units) == ["A BER", "A MUN", "F KIE"]
    assert table["A BER", "A BER - KIE"] == pytest.approx(0.6)
    assert table["A MUN", "A MUN - BUR"] == pytest.approx(0.6)
    assert table["A MUN", "A MUN - RUH"] == pytest.approx(0.4)
    assert table["F KIE", "F KIE - HOL"] == pytest.approx(0.7)
    assert list(table["F KIE"].index) == ["F KIE - HOL", "F KIE - DEN"]


def test_a_mixture_is_the_mean_over_searches():
    second = row([1.0], [["A BER H", "A MUN - BUR", "F KIE - HOL"]])
    _, target = openings.mixture([row([0.1, 0.2, 0.3, 0.4]), second], "GERMANY")
    assert sorted(target.values()) == pytest.approx([0.05, 0.1, 0.15, 0.7])


def test_distances_are_total_variations():
    turn, target = openings.mixture([row([0.1, 0.2, 0.3, 0.4])], "GERMANY")
    other = {joint: 1.0 for joint in list(target)[:1]}
    table = openings.marginals(turn, {"other": other, "target": target})
    # A BER 1 against .6: .4; A MUN - RUH 1 against .4: .6; F KIE - DEN 1 against .3: .7
    assert openings.distances(table) == {"other": pytest.approx((0.4 + 0.6 + 0.7) / 3)}


def test_shares_of_draws_come_near_the_probabilities():
    turn = orders.turn(rules.start(1), 0, GERMANY)
    player = policies.RandomLegal()
    found = openings.sampled(player, turn, 4000, np.random.default_rng(0))
    table = openings.marginals(turn, {"random": found})
    part = table[table["unit"] == "A MUN"]["random"]
    size = len(turn.options((0,)))
    assert sum(found.values()) == pytest.approx(1)
    assert len(part) == size
    assert np.abs(part - 1 / size).max() < 0.03


def test_a_missing_opening_is_named():
    with pytest.raises(ValueError, match="no sample of FRANCE in S1901M"):
        openings.mixture([row([0.25] * 4)], "FRANCE")


def test_a_move_toward_the_target_has_an_interval_of_its_draws():
    turn, target = openings.mixture([row([0.1, 0.2, 0.3, 0.4])], "GERMANY")
    far = {joint: 1.0 for joint in list(target)[:1]}
    table = openings.marginals(turn, {"before": far, "after": target, "target": target})
    value, low, high = openings.moved(table, 400, np.random.default_rng(0), 500)
    assert value == pytest.approx((0.4 + 0.6 + 0.7) / 3)
    # resampled shares miss the target by about the noise of 400 draws, so the fall looks smaller
    assert value - 0.05 < low < high <= value
    same = table.assign(after=table["before"])
    assert openings.moved(same, 400, np.random.default_rng(0), 500) == (0, 0, 0)
