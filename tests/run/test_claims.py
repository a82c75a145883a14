"""Verdicts by hand."""

import pytest

from dipllm_lib.run import claims


@pytest.mark.parametrize(
    ("interval", "bound", "found"),
    [
        ((16.0, 15.0, 17.0), {"above": 14.3}, "holds"),
        ((14.5, 14.0, 17.0), {"above": 14.3}, "not resolved"),
        ((12.0, 11.0, 14.3), {"above": 14.3}, "fails"),
        ((0.3, 0.2, 0.4), {"below": 0.5}, "holds"),
        ((0.3, 0.2, 0.6), {"below": 0.5}, "not resolved"),
        ((0.6, 0.5, 0.7), {"below": 0.5}, "fails"),
        ((0.0, 0.0, 0.0), {"below": 1e-12}, "holds"),
    ],
)
def test_a_verdict_is_where_the_whole_interval_lies(interval, bound, found):
    assert claims.verdict(*interval, **bound) == found


def test_a_verdict_needs_one_bound_and_a_mean_inside():
    with pytest.raises(ValueError, match="exactly one bound"):
        claims.verdict(1.0, 0.0, 2.0)
    with pytest.raises(ValueError, match="does not hold the mean"):
        claims.verdict(3.0, 0.0, 2.0, above=1.0)
