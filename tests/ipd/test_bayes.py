"""Bayes-adaptive programs against a plain recursion, and the values that they must give."""

from functools import cache

import pytest

from dipllm_lib.ipd import bayes, best_response, game, tabular
from dipllm_lib.run import seeding


def recursion(rounds, a, pay):
    """Total value by the definition: beliefs as a tuple of counts, no ranks, no closed ends."""
    matrix = pay.matrix

    @cache
    def value(left, last, counts):
        if left == 0:
            return 0.0
        if last is None:
            mean = 0.5
        else:
            c, d = counts[last]
            mean = (a + c) / (2 * a + c + d) if 2 * a + c + d > 0 else 0.5
        totals = []
        for own in (1, 0):
            total = 0.0
            for other, weight in ((1, mean), (0, 1 - mean)):
                if weight == 0:
                    continue
                told = list(counts)
                if last is not None:
                    c, d = counts[last]
                    told[last] = (c + other, d + 1 - other)
                outcome = 3 - 2 * own - other
                later = value(left - 1, outcome, tuple(told))
                total += weight * (matrix[own, other] + later)
            totals.append(total)
        return max(totals)

    return value(rounds, None, ((0, 0),) * 4)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("a", [1.0, 0.3])
def test_beta_value_against_the_plain_recursion(rounds, a):
    for pay in (game.Payoffs(), game.Payoffs(3, 0, 3.5, 1)):
        expected = recursion(rounds, a, pay) / rounds
        assert bayes.beta_value(rounds, a, pay) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rounds", [1, 2, 5, 8])
def test_corners_value_against_the_plain_recursion(rounds):
    for pay in (game.Payoffs(), game.Payoffs(3, 0, 3.5, 1)):
        expected = recursion(rounds, 0.0, pay) / rounds
        assert bayes.corners_value(rounds, pay).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "rounds, a, value, digits",
    [
        (5, 1.0, 1.0, 1e-12),
        (10, 1.0, 1.00035, 5e-6),
        (20, 1.0, 1.0075, 5e-5),
        (20, 0.5, 1.0323, 5e-5),
    ],
)
def test_values_of_the_beta_pools(rounds, a, value, digits):
    assert bayes.beta_value(rounds, a) == pytest.approx(value, abs=digits)


@pytest.mark.slow
def test_value_of_the_uniform_pool_at_thirty_rounds():
    assert bayes.beta_value(30) == pytest.approx(1.0123, abs=5e-5)


@pytest.mark.parametrize("rounds, value", [(5, 1.025), (20, 1.1656), (50, 1.1975), (100, 1.2081)])
def test_values_of_the_corners(rounds, value):
    assert bayes.corners_value(rounds).value == pytest.approx(value, abs=5e-5)


def test_cooperation_against_the_corners():
    assert bayes.corners_value(100).cooperation == pytest.approx(0.094, abs=5e-4)


def test_corners_value_by_hand():
    """Up to four rounds nothing beats D: what a C finds out comes too late."""
    for rounds in (1, 2, 4):
        assert bayes.corners_value(rounds) == (1.0, 0.0)
    # At five rounds .125 is won in all, by a C in some of the cases.
    assert bayes.corners_value(5).value == 1.025 and bayes.corners_value(5).cooperation > 0


def test_small_priors_approach_the_corners():
    gap = bayes.corners_value(12).value - bayes.beta_value(12, 1e-6)
    assert abs(gap) < 1e-4
    assert bayes.beta_value(12, 0.1) < bayes.corners_value(12).value
    assert bayes.beta_value(12, 1.0) < bayes.beta_value(12, 0.5) < bayes.beta_value(12, 0.1)


def test_knowing_the_opponent_is_worth_more():
    for a, rounds in ((1.0, 15), (0.5, 15)):
        q = tabular.sample("beta", 20_000, seeding.child(0, "known", str(a)), a)
        known = best_response.pool_value(q, rounds)
        assert 1 + known.gain - 4 * known.se > bayes.beta_value(rounds, a) > 1
    known = best_response.pool_value(tabular.corners(), 40)
    assert 1 + known.gain > bayes.corners_value(40).value > 1


def test_bad_input():
    for rounds in (0, 51):
        with pytest.raises(ValueError, match="the exact program takes 1 to 50"):
            bayes.beta_value(rounds)
    for a in (0.0, -1.0, float("inf")):
        with pytest.raises(ValueError, match="need a finite a > 0"):
            bayes.beta_value(10, a)
    with pytest.raises(ValueError, match="at least one round"):
        bayes.corners_value(0)
