"""PFSP weights by hand, and the share of the members that learned."""

import numpy as np
import pytest

from dipllm_lib.kto import league_weights
from dipllm_lib.kto.league_weights import capped, pfsp_weights


def test_squared_by_hand():
    # f = .01, .04, .25 of .30; .9 f / .30 + .1 / 3
    expected = np.array([0.03, 0.12, 0.75]) + 1 / 30
    assert pfsp_weights(np.array([0.1, 0.2, 0.5])) == pytest.approx(expected)


def test_even_and_uniform_by_hand():
    # x (1 - x) = .09, .16, .25 of .50
    even = pfsp_weights(np.array([0.1, 0.2, 0.5]), form="even")
    assert even == pytest.approx(np.array([0.162, 0.288, 0.45]) + 1 / 30)
    assert pfsp_weights(np.array([0.1, 0.2, 0.5]), form="uniform") == pytest.approx([1 / 3] * 3)
    assert pfsp_weights(np.zeros(4)) == pytest.approx([0.25] * 4)


def test_learned_members_get_at_most_fifteen_per_cent():
    # uncut: .0633, .1533, .7833 with the last one learned; .85 is shared in the ratio of the others
    cut = pfsp_weights(np.array([0.1, 0.2, 0.5]), [False, False, True])
    ratio = np.array([0.03 + 1 / 30, 0.12 + 1 / 30])
    assert cut == pytest.approx([*(0.85 * ratio / ratio.sum()), 0.15])
    small = pfsp_weights(np.array([0.5, 0.5, 0.0]), [False, False, True])
    assert small == pytest.approx([0.45 + 1 / 30, 0.45 + 1 / 30, 1 / 30])
    assert capped(np.array([0.5, 0.5]), [True, False], 0.0) == pytest.approx([0.0, 1.0])


def test_regrets_from_best_replies_or_from_the_best_member():
    payoffs = np.array([[1.0, 4.0], [3.0, 2.0]])
    best = league_weights.best_of_members(payoffs)
    assert best.tolist() == [3.0, 4.0]
    assert league_weights.normalised(payoffs[0], best, 5.0) == pytest.approx([0.4, 0.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 1.2],), "numbers in \\[0, 1\\]"),
        (([],), "at least one"),
        (([0.5], [False], "cubed"), "unknown form 'cubed'"),
        (([0.5], [True]), "all 1 members learned"),
        (([0.5], [True, False]), "a mark for each"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        pfsp_weights(*arguments)
