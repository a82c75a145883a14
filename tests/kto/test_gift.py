"""The gift dilemma: payoffs, prompts and exact values."""

import numpy as np
import pytest

from dipllm_lib.kto import gift
from dipllm_lib.kto.gift import GiftPD, State
from dipllm_lib.run import seeding


def test_payoffs_by_hand():
    game = GiftPD()
    assert game.payoffs(State(10, gift.GIVE)) == (2.0, 2.0)
    assert game.payoffs(State(0, gift.KEEP)) == (1.0, 1.0)
    assert game.payoffs(State(10, gift.KEEP)) == (0.0, 3.0)
    assert game.payoffs(State(0, gift.GIVE)) == (3.0, 0.0)
    assert game.payoffs(State(3, gift.GIVE)) == pytest.approx((2.7, 0.6))


@pytest.mark.parametrize("m", [2, 3])
def test_the_sum_is_what_was_held_and_what_gifts_add(m):
    for i in range(11):
        for h in (0, 1):
            total = sum(GiftPD(m).payoffs(State(i, h)))
            assert total == pytest.approx(2 + (m - 1) * (i / 10 + h))


def test_prompts():
    game, start = GiftPD(), GiftPD().reset(seeding.child(0, "kto"))
    rules = "Gift. Each holds 100. A gift grows 2 times."
    assert game.observe(start, 0) == rules + " I give"
    seen = game.step(start, (4,))
    assert game.observe(seen, 1) == rules + " They gave 40. I"
    text = rules + " Setting C. Forecast keep 20. They gave 40. I"
    assert game.observe(seen, 1, "C", "Forecast keep 20.") == text
    assert game.legal(seen, 1) == (" keep.", " give.")


def test_keeping_is_dominant_and_the_exact_solution_of_nobody_giving():
    values = gift.choice_values(GiftPD())
    assert np.all(values[:, 0] - values[:, 1] == pytest.approx(1.0))
    assert values[10].tolist() == [3.0, 2.0]
    assert gift.subgame_perfect(GiftPD()) == (1.0, 1.0)


def test_first_gifts_against_people():
    gives = [0.165, 0.199, 0.191, 0.206, 0.258, 0.745, 0.742, 0.799, 0.781, 0.807, 0.837]
    values = gift.gift_values(GiftPD(), np.array(gives))
    assert values.argmax() == 5 and values[5] == pytest.approx(0.5 + 2 * 0.745)


def test_bad_input():
    with pytest.raises(ValueError, match="multiplier 1"):
        GiftPD(1)
    with pytest.raises(ValueError, match="P.give"):
        gift.gift_values(GiftPD(), np.ones(3))
