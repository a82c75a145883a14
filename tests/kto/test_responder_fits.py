"""Fits to the human tables: the printed summaries, and what own payoff alone cannot do."""

import numpy as np
import pytest

from dipllm_lib.kto import humans, responder_fits
from dipllm_lib.kto.humans import GIFTS, REJECTIONS
from dipllm_lib.kto.prospect import TK92
from dipllm_lib.run import seeding


def test_zoom_finds_a_minimum_and_stays_in_its_box():
    def bowl(points):
        return ((points - [0.3, -2.0]) ** 2).sum(axis=1)

    np.testing.assert_allclose(responder_fits.zoom(bowl, (0, -5), (1, 5)), [0.3, -2.0], atol=1e-7)
    np.testing.assert_allclose(responder_fits.zoom(bowl, (0.5, -5), (1, 5)), [0.5, -2], atol=1e-7)


def test_zoom_tells_two_minima_apart():
    def two(points):
        x = points[:, 0]
        return np.minimum(np.abs(x - 0.2), np.abs(x - 0.8) - 0.01)

    assert responder_fits.zoom(two, (0.0,), (1.0,))[0] == pytest.approx(0.8, abs=1e-9)


def test_the_logit_summary():
    """Section 4.3: -8.837 + 10.429 x share kept, half at offer .153, largest error .036."""
    found = responder_fits.logit()
    a, b = found.parameters["a"], found.parameters["b"]
    assert (a, b) == pytest.approx((-8.837, 10.429), rel=2e-3)
    assert 1 + a / b == pytest.approx(0.153, abs=1e-3)
    assert np.abs(found.rates - REJECTIONS.rates).max() == pytest.approx(0.036, abs=5e-4)
    assert humans.likeness(REJECTIONS, found.rates) == pytest.approx(0.0034, abs=5e-5)


def test_log_normal_envy():
    """Section 4.3: of the nine columns below one half, median .190, log-sd 1.66, within .054."""
    offers, rates = np.array(REJECTIONS.x[:-1]), REJECTIONS.rates[:-1]

    def loss(points):
        found = responder_fits.refusals(points[:, :1], points[:, 1:], offers)
        return humans.divergence(rates, found).mean(axis=1)

    median, log_sd = responder_fits.zoom(loss, (0.02, 0.3), (1.0, 4.0))
    assert (median, log_sd) == pytest.approx((0.190, 1.66), abs=1e-3)
    found = responder_fits.refusals(median, log_sd, offers)
    assert np.abs(found - rates).max() == pytest.approx(0.054, abs=5e-4)


def test_refusals_at_the_ends():
    found = responder_fits.refusals(0.2, 1.5, np.array([0.0, 0.1, 0.49, 0.5, 1.0]))
    assert found[0] == 1 and 0 < found[2] < found[1] < 1 and found[3:].tolist() == [0, 0]
    half = humans.threshold(0.2)
    assert responder_fits.refusals(0.2, 1.5, half) == pytest.approx(0.5)


def test_a_population_of_responders_is_its_distribution_function():
    envy = np.exp(np.log(0.2) + 1.5 * seeding.child(0, "test", "envy").standard_normal(40_000))
    offers = np.array([0.05, 0.2, 0.4])
    drawn = 1 - humans.fehr_schmidt(offers, envy[:, None]).mean(axis=0)
    np.testing.assert_allclose(responder_fits.refusals(0.2, 1.5, offers), drawn, atol=0.01)


def test_envy_beats_own_payoff_whatever_lambda_is():
    envious = humans.likeness(REJECTIONS, responder_fits.envious().rates)
    assert envious < 0.0034
    for lam in (1.0, 2.25, 3.2, 10.0):
        for params in (TK92, responder_fits.ARTICLE):
            found = responder_fits.prospect_responder(lam, params)
            assert (found.rates < 0.5).all()
            assert humans.likeness(REJECTIONS, found.rates) > 10 * envious
            assert humans.likeness(REJECTIONS, found.rates) > humans.HUMAN_LIKE


def test_own_payoff_never_gives_more_often_than_not():
    for lam in (1.0, 3.2):
        found = responder_fits.prospect_giver(lam)
        assert (found.rates < 0.5).all()
        assert humans.likeness(GIFTS, found.rates) > 5 * humans.HUMAN_LIKE
    step = responder_fits.matching()
    assert tuple(step.parameters.values()) == pytest.approx((0.204, 0.785), abs=5e-4)
    assert humans.likeness(GIFTS, step.rates) == pytest.approx(0.0031, abs=5e-5)


def test_tables():
    found = responder_fits.models((2.25,))
    compared = responder_fits.compare(found)
    assert compared["model"].tolist() == [
        *("logit", "Fehr-Schmidt", "prospect, λ = 2.25", "one rate", "coin", "never (1%)"),
        *("matching", "prospect, λ = 2.25", "one rate", "coin", "never (1%)"),
    ]
    near = compared.set_index(["game", "model"])["human_like"]
    assert near[near == "yes"].index.tolist() == [
        ("ultimatum", "logit"),
        ("ultimatum", "Fehr-Schmidt"),
        ("gift PD", "matching"),
    ]
    lines = responder_fits.rates(found)
    people = lines[lines["model"] == "people"]
    assert len(people) == 21 and len(lines) == 10 * 7 + 11 * 6
