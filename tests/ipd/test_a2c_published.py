"""A2C at the published sizes; a file of its own, since it takes half a minute beside the others."""

from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.ipd import a2c
from dipllm_lib.ipd.a2c_settings import PAPER

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


def test_the_first_ten_iterations_of_the_mixed_pool():
    """One pair, 4,096 games of 100 rounds: it begins at one half, and both learn to defect, from
    which more reward against the pool follows. Seen: .499 to .438 and .505 to .557, by .01 to .03
    from row to row.
    """
    training = a2c.A2C(replace(PAPER["mixed"], block=2), [0])
    table = training.train(5).table().set_index(["opponent", "iteration"])
    assert training.done == 10 and len(table) == 5 * 2 * 2
    assert np.isfinite(training.losses().to_numpy(float)).all()
    found = table.groupby(level=[0, 1])[["cooperation", "reward"]].mean()
    for opponent in ("learner", "tabular"):
        rows = found.loc[opponent, "cooperation"]
        assert rows[2] == pytest.approx(0.5, abs=0.01)
        assert rows.is_monotonic_decreasing and rows[10] < rows[2] - 0.03
    assert found.loc[("tabular", 10), "reward"] > found.loc[("tabular", 2), "reward"] + 0.03
