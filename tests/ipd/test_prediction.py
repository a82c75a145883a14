"""The prediction limit: Beta-Bernoulli losses by hand, and the numbers of the pools."""

import numpy as np
import pytest

from dipllm_lib.ipd import game, prediction, tabular
from dipllm_lib.run import seeding


def limit(pool, rounds, n=4000, a=0.5):
    return prediction.prediction_limit(pool, rounds, n, seeding.child(0, "limit", pool), a)


def test_losses_by_hand():
    """Own CCD against C always: s0 -> C at 1/2, CC -> C at 1/2, CC -> D at 1/3."""
    own, other = np.array([[1, 1, 0]], np.uint8), np.array([[1, 1, 1]], np.uint8)
    expected = -np.log([1 / 2, 1 / 2, 1 / 3]).sum() / 3
    np.testing.assert_allclose(prediction.losses(own, other, 1.0), [expected])
    expected = -np.log([1 / 2, 1 / 2, 0.5 / 2]).sum() / 3
    np.testing.assert_allclose(prediction.losses(own, other, 0.5), [expected])
    own = np.array([[1, 1, 1]], np.uint8)  # deterministic agents: each new state costs log 2
    np.testing.assert_allclose(prediction.losses(own, other, 0.0), [2 * np.log(2) / 3])


@pytest.mark.parametrize(
    "pool, rounds, nats",
    [
        ("uniform", 50, 0.5646),
        ("uniform", 100, 0.5394),
        ("beta", 50, 0.4529),
        ("beta", 100, 0.4206),
    ],
)
def test_limits_of_random_pairs(pool, rounds, nats):
    got = limit(pool, rounds)
    assert got.se < 0.0025
    assert abs(got.unknown - nats) < 4 * got.se + 5e-5
    assert got.known < got.unknown - 0.03


def test_one_round_costs_log_two():
    got = limit("uniform", 1)
    assert got.unknown == pytest.approx(np.log(2), abs=1e-12)
    assert got.known == pytest.approx(0.5, abs=0.01)  # E H(q) = 1/2 for uniform q


def test_told_the_agents_the_loss_is_their_entropy():
    assert limit("uniform", 50).known == pytest.approx(0.49, abs=0.01)
    assert limit("corners", 50).known == 0.0
    np.testing.assert_allclose(
        prediction._entropy(np.array([0.0, 0.5, 0.25, 1.0])), [0, np.log(2), 0.562335, 0], atol=1e-6
    )


def test_no_other_prior_predicts_the_pool_better():
    agents = [tabular.sample("uniform", 4000, seeding.child(0, "prior", i)) for i in range(2)]
    streams = seeding.child(0, "prior", 2), seeding.child(0, "prior", 3)
    games = game.play(*map(tabular.Tabular, agents), 4000, 50, streams)
    losses = {a: prediction.losses(*games.view(1), a).mean() for a in (0.5, 1.0, 2.0)}
    assert losses[1.0] < min(losses[0.5], losses[2.0])


def test_bad_input():
    for pool in ("families", "human", "normal"):
        with pytest.raises(ValueError, match="use one of uniform, beta, corners"):
            limit(pool, 10, 10)
