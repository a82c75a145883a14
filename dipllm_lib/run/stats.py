"""Means with 95 % percentile bootstrap intervals, also stratified and paired.

The estimate is the mean over strata of the means within each stratum, so an unbalanced number of
values does not move it; resampling happens within strata (Efron and Tibshirani 1993, sections 13.3
and 8.4). Without strata all values form one. Shapes: n values, S strata, R resamples.
"""

import numpy as np

LEVEL = 0.95
BLOCK = (
    2_000_000  # indices drawn at once: bounds memory, has no influence on the result's distribution
)


def _checked(values, name: str) -> np.ndarray:
    """`values` as float64 (n,). Raises ValueError if empty, not flat, or not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"{name} must be a flat sequence with at least one value, got {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has {(~np.isfinite(array)).sum()} values that are not finite")
    return array


def _groups(values: np.ndarray, strata) -> list[np.ndarray]:
    """The values of each stratum, strata in sorted order."""
    if strata is None:
        return [values]
    labels = np.asarray(strata)
    if labels.shape != values.shape:
        raise ValueError(f"strata must have one label per value: {labels.shape} != {values.shape}")
    return [values[labels == label] for label in np.unique(labels)]


def _resampled_means(group: np.ndarray, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """Means (R,) of R samples with replacement of `group` (n,), each of size n."""
    rows = max(1, BLOCK // group.size)
    means = np.empty(resamples)
    for first in range(0, resamples, rows):
        count = min(rows, resamples - first)
        picks = rng.integers(0, group.size, size=(count, group.size))
        means[first : first + count] = group[picks].mean(axis=1)
    return means


def mean_interval(
    values, rng: np.random.Generator, resamples: int, strata=None
) -> tuple[float, float, float]:
    """(mean, low, high) of `values` (n,), a 95 % percentile interval.

    strata: one label per value; resampling stays within a stratum and each stratum has the same
    weight. Of a single value the interval is that value. Raises ValueError for empty or non-finite
    input or resamples < 1.
    """
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    groups = _groups(_checked(values, "values"), strata)
    mean = float(np.mean([group.mean() for group in groups]))
    means = np.mean([_resampled_means(group, rng, resamples) for group in groups], axis=0)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return mean, float(low), float(high)


def paired_interval(
    a, b, rng: np.random.Generator, resamples: int, strata=None
) -> tuple[float, float, float]:
    """(mean, low, high) of the differences a - b of pairs (n,), resampled as pairs."""
    first, second = _checked(a, "a"), _checked(b, "b")
    if first.shape != second.shape:
        raise ValueError(f"a and b must be pairs, got {first.size} and {second.size} values")
    return mean_interval(first - second, rng, resamples, strata)
