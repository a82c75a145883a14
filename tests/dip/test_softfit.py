"""The fit of SoftDumbBot's temperature: it finds the one that made the data."""

import numpy as np
import pytest

from dipllm_lib.dip import boards, game, softfit
from dipllm_lib.dip.softbot import SoftDumbBot

END = game.EndRules(1903)


@pytest.fixture(scope="module")
def played():
    return softfit.sample(150, 4, END, 0)


def test_sample_has_turns_of_all_phases_with_legal_orders(played):
    assert len(played) == 150
    for turn, joint in played:
        turn.check(joint)
    phases = {int(turn.boards.phase[0]) for turn, _ in played}
    assert phases >= {boards.SPRING_MOVES, boards.FALL_MOVES, boards.ADJUSTMENTS}
    again = softfit.sample(150, 4, END, 0)
    assert [joint for _, joint in again] == [joint for _, joint in played]
    with pytest.raises(ValueError, match="1 games have .* turns, not 5000: play more games"):
        softfit.sample(5000, 1, END, 0)


def test_curve_peaks_at_the_fit(played):
    table = softfit.curve(played, 0.02, [0.02, 0.05, 0.1, 0.3])
    best = softfit.fit(played, 0.02)
    assert 0.04 < best < 0.2
    at_best = softfit.curve(played, 0.02, [best]).iloc[0]
    assert at_best["nats per turn"] >= table["nats per turn"].max()
    orders = sum(turn.slots for turn, _ in played)
    assert at_best["nats per order"] == pytest.approx(at_best["nats per turn"] * 150 / orders)
    low, high = softfit.interval(played, 0.02, np.random.default_rng(0), 200)
    assert low <= best * 1.13 and best / 1.13 <= high


def test_fit_finds_the_temperature_that_made_the_data(played):
    policy, rng = SoftDumbBot(0.25, 0.02), np.random.default_rng(1)
    drawn = [(turn, joint) for turn, _ in played for joint in policy.sample(turn, 4, rng)]
    assert softfit.fit(drawn, 0.02) == pytest.approx(0.25, rel=0.1)


def test_an_end_of_the_grid_is_no_fit(played):
    drawn = [(t, SoftDumbBot(20.0, 0.02).sample(t, 1, np.random.default_rng(0))[0])
             for t, _ in played]  # fmt: skip
    with pytest.raises(ValueError, match="at the end 1 of the grid"):
        softfit.fit(drawn, 0.02)
