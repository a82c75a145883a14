"""Landmarks of the paper: consistent with its own payoffs, and read off our tables by hand."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.ipd import published


def value(panel, column, opponent, first, last):
    return next(
        x.value for x in published.landmarks(panel)
        if x[1:5] == (column, opponent, first, last) and x.source == published.READ
    )  # fmt: skip


@pytest.mark.parametrize("panel, window", [("2C", (10, -1)), ("2D", (-1, -1)), ("4C", (-1, -1))])
def test_rewards_follow_from_cooperation(panel, window):
    """r = 2 c_Y - c_X within the accuracy of reading a plot, for both players."""
    own, other = (value(panel, f"{x}cooperation", "frozen", *window) for x in ("", "other_"))
    assert value(panel, "reward", "frozen", *window) == pytest.approx(2 * other - own, abs=0.03)
    theirs = value(panel, "other_reward", "frozen", *window)
    assert theirs == pytest.approx(2 * own - other, abs=0.03)


def test_contrasts_of_the_paper():
    assert published.contrast("2C", "share") == pytest.approx(0.64)
    assert published.contrast("2C", "chi") == pytest.approx(3.67 - 1, abs=0.01)
    assert published.contrast("2E", "seat 1") == pytest.approx(0.82)
    assert np.isnan(published.contrast("4C", "chi"))  # the victim is below P
    with pytest.raises(ValueError, match="no landmarks of panel '3A'"):
        published.landmarks("3A")


def test_windows():
    rounds = pd.Series([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])

    def chosen(first, last):
        return rounds[published.window(rounds, first, last)].tolist()

    assert chosen(1, -1) == list(range(1, 11)) and chosen(-1, -1) == [10]
    assert chosen(9, 9) == [9] and chosen(50, 50) == [] and chosen(-5, -1) == [6, 7, 8, 9, 10]
    assert chosen(0.4, 0.5) == [4, 5] and chosen(10, -1) == [10]


def test_ours_beside_the_paper_s():
    """Panel 2F: seeds with .2 and .6 in round 3, .5 in round 50; nothing at 25, nor half noise."""
    rows = [
        (seed, 0, r, seat, "learner", noise, c)
        for seed, start in ((0, 0.2), (1, 0.6)) for seat in (0, 1)
        for r, c in ((3, start), (50, 0.5)) for noise, c in (("on", c), ("half", 0.9))
    ]  # fmt: skip
    names = ["seed", "phase", "round", "seat", "opponent", "noise", "cooperation"]
    found = published.beside(pd.DataFrame(rows, columns=names), "2F")
    assert found["ours"].tolist() == pytest.approx([0.4, np.nan, 0.5], nan_ok=True)
    assert found["paper"].tolist() == [0.03, 0.14, 0.17] and set(found["axis"]) == {"round"}
    with pytest.raises(ValueError, match="no rows against learner"):
        published.beside(pd.DataFrame(rows, columns=names).assign(opponent="TFT"), "2F")
