"""A2C at the published sizes; a file of its own, since it takes six minutes beside the others."""

from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.ipd import a2c
from dipllm_lib.ipd.a2c_settings import PAPER

pytestmark = pytest.mark.slow


def test_the_first_fifty_iterations_of_the_mixed_pool():
    """One pair, 4,096 games of 100 rounds: it begins at one half, and both learn to defect, from
    which more reward against the pool follows."""
    training = a2c.A2C(replace(PAPER["mixed"], block=10), [0])
    table = training.train(5).table().set_index(["opponent", "iteration"])
    assert training.done == 50 and len(table) == 5 * 2 * 2
    assert np.isfinite(training.losses().to_numpy(float)).all()
    found = table.groupby(level=[0, 1])[["cooperation", "reward"]].mean()
    for opponent in ("learner", "tabular"):
        assert found.loc[(opponent, 10), "cooperation"] == pytest.approx(0.5, abs=0.1)
        assert found.loc[(opponent, 50), "cooperation"] < found.loc[(opponent, 10), "cooperation"]
    assert found.loc[("tabular", 50), "reward"] > found.loc[("tabular", 10), "reward"]
