"""The ultimatum: payoffs, prompts, exact values against the published responder table."""

import numpy as np
import pytest

from dipllm_lib.kto import ultimatum
from dipllm_lib.kto.ultimatum import State, Ultimatum
from dipllm_lib.run import seeding

# Rejections of Heffner and FeldmanHall 2022 at offers .05, .10, …, .50.
REJECTS = [0.7168, 0.6007, 0.5126, 0.4147, 0.2916, 0.2105, 0.1371, 0.0420, 0.0252, 0.0091]
COLUMNS = np.arange(1, 11) / 20
VALUES = [0.2832, 0.3594, 0.4682, 0.5526, 0.5748, 0.4954, 0.3964, 0.2973, 0.1982, 0.0991, 0.0]


def human(offers):
    return 1.0 - np.interp(offers, COLUMNS, REJECTS)


@pytest.mark.parametrize("grid", ultimatum.GRIDS)
def test_accepted_adds_to_the_pie_and_refused_is_nothing(grid):
    game = Ultimatum(grid)
    for i in range(grid + 1):
        assert sum(game.payoffs(State(i, 0))) == pytest.approx(1.0, abs=1e-15)
        assert game.payoffs(State(i, 1)) == (0.0, 0.0)
        assert game.payoffs(State(i, 0)) == pytest.approx(game.payoffs(State(grid - i, 0))[::-1])


def test_prompts():
    game, start = Ultimatum(), Ultimatum().reset(seeding.child(0, "kto"))
    rules = "Ultimatum. Pie 100. If refused, both get 0."
    assert game.observe(start, 0) == rules + " I offer"
    full = game.observe(start, 0, "A", "Forecast accept 75.")
    assert full == rules + " Setting A. Forecast accept 75. I offer"
    offered = game.step(start, (4,))
    assert game.observe(offered, 1, "B") == rules + " Setting B. They offer 40. I"
    assert game.legal(offered, 1) == (" accept.", " refuse.")
    assert game.legal(start, 0)[::5] == (" 0.", " 50.", " 100.")
    assert Ultimatum(20).legal(start, 0)[:3] == (" 0.", " 5.", " 10.")
    assert game.to_move(game.step(offered, (1,))) == ()


def test_values_against_people_are_those_of_the_table():
    values = ultimatum.offer_values(Ultimatum(), human)
    assert np.round(values, 4).tolist() == VALUES
    assert values.argmax() == 4 and round(values.mean(), 4) == 0.3386
    assert values[3] / values.max() == pytest.approx(0.96, abs=0.005)
    fine = ultimatum.offer_values(Ultimatum(100), human)
    assert 0.38 <= Ultimatum(100).offers[fine.argmax()] <= 0.40


def test_subgame_perfect_by_hand():
    assert ultimatum.subgame_perfect(Ultimatum()) == (0.0, 1.0)
    assert ultimatum.subgame_perfect(Ultimatum(), "refuse") == (0.1, 0.9)
    assert ultimatum.subgame_perfect(Ultimatum(100), "refuse") == (0.01, 0.99)
    assert ultimatum.answer_values(Ultimatum())[4].tolist() == [0.4, 0.0]


def test_bad_input():
    with pytest.raises(ValueError, match="grid 7"):
        Ultimatum(7)
    with pytest.raises(ValueError, match=r"need \(11,\) numbers in \[0, 1\]"):
        ultimatum.offer_values(Ultimatum(), np.full(11, 2.0))
    with pytest.raises(ValueError, match="ties"):
        ultimatum.subgame_perfect(Ultimatum(), "drop")
