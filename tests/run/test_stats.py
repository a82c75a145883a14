"""Bootstrap intervals against numbers worked out by hand or by enumeration."""

import itertools

import numpy as np
import pytest

from dipllm_lib.run import seeding, stats


def rng(name: str = "stats"):
    return seeding.child(0, name)


def test_two_values():
    """Of (0, 1) the resampled mean is 0, 1/2, 1 with 1/4, 1/2, 1/4: the whole range."""
    assert stats.mean_interval([0, 1], rng(), 2000) == (0.5, 0.0, 1.0)


def test_rare_value():
    """Of 3 zeros and a 4, P(mean = 0) = (3/4)^4 = 0.316, P(mean >= 3) = 13/256 = 0.051,
    P(mean = 4) = 1/256 = 0.004: the 97.5 % point is 3."""
    assert stats.mean_interval([0, 0, 0, 4], rng(), 20_000) == (1.0, 0.0, 3.0)


def test_against_enumeration():
    values = [1.0, 2.0, 4.0, 7.0, 11.0]
    means = [np.mean(sample) for sample in itertools.product(values, repeat=5)]
    expected = np.quantile(means, [0.025, 0.975])
    mean, low, high = stats.mean_interval(values, rng(), 100_000)
    assert mean == 5.0
    assert [low, high] == pytest.approx(expected, abs=0.21)  # one step of the lattice of means


def test_single_value():
    assert stats.mean_interval([3.5], rng(), 10) == (3.5, 3.5, 3.5)


def test_strata_have_equal_weight():
    """Strata a (0, 0, 0) and b (10): mean of means 5, and constant strata leave no spread."""
    assert stats.mean_interval([0, 0, 0, 10], rng(), 100, list("aaab")) == (5.0, 5.0, 5.0)


def test_resampling_stays_within_strata():
    """a (0, 1) and b (10): the mean is (0, 1/2 or 1, + 10) / 2."""
    result = stats.mean_interval([0, 10, 1], rng(), 2000, ["a", "b", "a"])
    assert result == (5.25, 5.0, 5.5)


def test_paired():
    assert stats.paired_interval([3, 5, 8], [1, 3, 6], rng(), 100) == (2.0, 2.0, 2.0)
    assert stats.paired_interval([0, 3], [0, 2], rng(), 2000) == (0.5, 0.0, 1.0)


def test_same_seed_same_interval():
    values = rng("values").normal(size=50)
    first = stats.mean_interval(values, rng("a"), 500)
    assert stats.mean_interval(values, rng("a"), 500) == first
    assert stats.mean_interval(values, rng("b"), 500) != first


def test_coverage():
    """Of 400 samples of 30 normal values about 93-95 % of the intervals hold the true mean."""
    hits = 0
    for k in range(400):
        values = seeding.child(0, "coverage", k).normal(size=30)
        _, low, high = stats.mean_interval(values, seeding.child(0, "boot", k), 300)
        hits += low <= 0 <= high
    assert 0.90 <= hits / 400 <= 0.975


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "at least one value"),
        ([[1, 2]], {}, "flat sequence"),
        ([1, np.nan, np.inf], {}, "2 values that are not finite"),
        ([1, 2], {"resamples": 0}, "resamples must be at least 1"),
        ([1, 2], {"strata": ["a"]}, "one label per value"),
    ],
)
def test_bad_input(values, options, message):
    with pytest.raises(ValueError, match=message):
        stats.mean_interval(values, rng(), **{"resamples": 10, **options})


def test_pairs_must_match():
    with pytest.raises(ValueError, match="got 2 and 1 values"):
        stats.paired_interval([1, 2], [1], rng(), 10)
