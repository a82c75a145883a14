"""Variants of a search side by side, and the alarms of a search that finds nothing."""

import dataclasses

import numpy as np
import pytest

from dipllm_lib.dip import boards, game, policies, search, search_checks, value
from dipllm_lib.run import profiles

ANCHOR = policies.SoftDumbBot(0.07, 0.02)
SETTINGS = search.SearchSettings.of(profiles.load("smoke", 0).dip)


@pytest.fixture(scope="module")
def positions():
    every = game.play([[ANCHOR] * 7], 5, [("checks",)], game.EndRules(1901))[0].positions()
    return [every.take([k]) for k in np.flatnonzero(np.isin(every.phase, boards.MOVES))]


def test_lam_sweep(positions):
    """The larger lam, the nearer to the anchor and the smaller the gain."""
    settings = dataclasses.replace(SETTINGS, iterations=40)
    variants = search_checks.lam_variants(settings, [1e-4, 1e-2, 10.0])
    assert list(variants) == ["0.0001", "0.01", "10"]
    table = search_checks.compare(positions, ANCHOR, value.heuristic, variants, seed=1)
    assert len(table) == 3 * 7 * len(positions)
    mean = table.groupby("variant", sort=False)[["kl_anchor", "gain", "candidates"]].mean()
    assert mean.kl_anchor.is_monotonic_decreasing and mean.gain.is_monotonic_decreasing
    assert mean.candidates.nunique() == 1 and {"regret", "effective", "sd_q"} <= set(table)


def test_noise_is_the_difference_of_two_searches(positions):
    """By hand: q of (0.1, 0.3) and (0.2, 0.2) differ by 0.1 each, so the noise is 0.1 / sqrt 2."""

    def record(q):
        half = np.array([0.5, 0.5])
        return search.PowerRecord(0, [(1,), (2,)], np.log(half), np.array(q), half, half, half, 0.0)

    row = search_checks._signal_row(record([0.1, 0.3]), record([0.2, 0.2]))
    assert row["noise"] == pytest.approx(0.1 / np.sqrt(2))
    assert row["signal"] == pytest.approx(0.05)  # mean q (0.15, 0.25)
    assert row["headroom"] == pytest.approx(0.25 - 0.2) and row["entropy"] == pytest.approx(1)


def test_signal_of_a_search(positions):
    long, short = (
        search_checks.signal(
            positions, ANCHOR, value.heuristic, dataclasses.replace(SETTINGS, iterations=n), seed=2
        )
        for n in (200, 4)
    )
    assert long[["position", "power", "candidates"]].equals(
        short[["position", "power", "candidates"]]
    )
    assert (long.candidates > 1).all() and (long.headroom >= 0).all()
    assert long.noise.mean() < 0.5 * short.noise.mean()

    def flat(after):
        return np.full((after.n, 7), 1 / 7, np.float32)

    nothing = search_checks.signal(positions[:1], ANCHOR, flat, SETTINGS, seed=2)
    assert np.allclose(nothing.headroom, 0) and np.allclose(nothing.signal, 0)
