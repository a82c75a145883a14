"""Human rates: the exact numbers of the specification, rates by hand and against known players."""

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import human, ppi, tabular
from dipllm_lib.ipd.batch_play import MemoryOne
from dipllm_lib.ipd.pool_shift import ShiftSettings


def test_exact_numbers_of_the_human_player():
    """Section 11: at T = 100 against itself .267, AllD earns .213, TFT .346, its best response .548
    with 97.5 % cooperation."""
    found = human.player(100).set_index("opponent")
    assert found["opponent_reward"].round(3).to_dict() == {
        "human": 0.267,
        "AllD": 0.213,
        "TFT": 0.346,
        "best response": 0.548,
    }
    assert found.loc["best response", "opponent_cooperation"] == pytest.approx(0.975, abs=5e-4)
    assert found.loc["human", "reward"] == pytest.approx(0.267, abs=5e-4)
    assert found.loc["AllD", "reward"] == pytest.approx(-0.213 / 2, abs=5e-4)


def test_rates_by_hand():
    """CC, CD, DD, DC: C first, C after CC, D after CD, D after DD."""
    codes = np.array([[[1, 2, 4, 3]]], dtype=np.uint8)
    np.testing.assert_array_equal(human.rates_of(codes), [[1, 1, 0, np.nan, 0, 0.5]])


def test_rates_of_a_memory_one_player_are_its_probabilities():
    torch.set_num_threads(1)
    vector = np.array(tabular.HUMAN)
    found = human.rates(MemoryOne(vector), ppi.pairs([0, 1]), ShiftSettings(50, 400))
    table = human.beside(found)
    np.testing.assert_allclose(table["agents"][:5], vector, atol=0.03)
    assert list(table["human"]) == [*tabular.HUMAN, 0.449] and len(found) == 4
