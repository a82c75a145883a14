"""Derivatives by differences, both kinds of interval, refusals, and recovery of the truth."""

import numpy as np
import pytest

from dipllm_lib.kto import choice_fits, choice_model, choices
from dipllm_lib.kto.prospect import TK92, ProspectParams
from dipllm_lib.run import seeding

SLOPE = 0.3
TRUTH = np.array([0.88, 0.88, 2.25, 0.61, 0.69, SLOPE])


def some(n: int, *names: str | int) -> choices.Choices:
    return choices.simulate(n, TK92, SLOPE, seeding.child(0, "test", "fits", *names))


def test_score_and_information_by_differences():
    task = choice_model.prepare(some(300))
    theta = np.log([0.7, 0.8, 1.5, 0.7, 0.8, 0.2])
    steps = np.eye(6) * 1e-6
    value = [choice_model.likelihood(task, theta + s)[0] for s in (*steps, *-steps)]
    by_differences = (np.array(value[:6]) - np.array(value[6:])) / 2e-6
    _, score, information = choice_model.likelihood(task, theta)
    np.testing.assert_allclose(score, by_differences, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(information, information.T)
    assert (np.linalg.eigvalsh(information) > 0).all()


def test_the_model_is_that_of_prospect():
    own = some(200)
    x = np.array([0.7, 0.9, 1.7, 0.6, 0.8, 1.0])
    params = ProspectParams(*x[:5])
    for lotteries in (own.a, own.b):
        found, _ = choice_model.worth(choice_model._prepare(lotteries), x)
        np.testing.assert_allclose(found, choices.values(lotteries, params), atol=1e-11)
    z = 0.4 * (choices.values(own.a, params) - choices.values(own.b, params))
    p = 1 / (1 + np.exp(-z))
    by_hand = np.log(np.where(own.chose_a, p, 1 - p)).sum()
    assert choice_model.log_likelihood(own, params, 0.4) == pytest.approx(by_hand)


def test_a_fit_has_no_slope_left_and_beats_the_truth():
    own = some(600)
    for tied in (False, True):
        found = choice_fits.fit(own, one_exponent=tied)
        truth = choice_model.log_likelihood(own, TK92, SLOPE)
        assert found.log_likelihood >= truth and found.n == 600 and found.at_edge == ()
        score = choice_model.likelihood(choice_model.prepare(own), np.log(found.values))[1]
        pull = score[:2].sum() if tied else np.abs(score[:2]).max()
        assert abs(pull) < 1e-4 and np.abs(score[2:]).max() < 1e-4
        assert (found.params.alpha == found.params.beta) == tied


def test_starts_lead_to_one_maximum():
    task = choice_model.prepare(some(600))
    groups = choice_fits._groups({}, False)
    found = [
        choice_fits._climb(task, choice_fits._start(task, start, {}), groups)[0]
        for start in (*choice_fits.STARTS, (1.2, 0.5, 4.0, 1.0, 0.5))
    ]
    np.testing.assert_allclose(found[1:], found[:1] * 2, atol=1e-6)


def test_intervals_of_both_kinds_agree():
    """The information and 150 resamples: standard errors within a third of each other."""
    own = some(1000)
    found = choice_fits.fit(own, one_exponent=True)
    drawn = choice_fits.bootstrap(own, seeding.child(0, "test", "boot"), 150, one_exponent=True)
    ratio = np.log(drawn).std(axis=0) / found.errors
    assert ((ratio > 0.75) & (ratio < 4 / 3)).all(), ratio
    tables = choice_fits.intervals(found), choice_fits.intervals(found, drawn)
    for table in tables:
        assert table["parameter"].tolist() == list(choice_model.NAMES)
        inside = (table["low"] < table["estimate"]) & (table["estimate"] < table["high"])
        assert inside.all()
    width = [np.log(t["high"] / t["low"]) for t in tables]
    np.testing.assert_allclose(width[0], width[1], rtol=0.35)


def test_loss_aversion_is_sharper_at_the_stakes_than_at_1():
    found = choice_fits.fit(some(1000))
    assert choice_fits.loss_aversion(found, 1.0)[0] == pytest.approx(found.params.lam)
    widths = []
    for size in (1.0, 100.0):
        estimate, low, high = choice_fits.loss_aversion(found, size)
        assert low < estimate < high
        widths.append(np.log(high / low))
    assert widths[1] < widths[0] / 2
    at_1 = choice_fits.intervals(found).set_index("parameter").loc["lam"]
    assert choice_fits.loss_aversion(found, 1.0)[1:] == pytest.approx((at_1.low, at_1.high))


def test_fixed_parameters_stay():
    fixed = {"gamma_gain": 0.61, "gamma_loss": 0.69}
    found = choice_fits.fit(some(300), fixed)
    assert found.params.gamma_gain == pytest.approx(0.61)
    assert found.params.gamma_loss == pytest.approx(0.69)
    assert np.isnan(found.errors[[3, 4]]).all() and np.isfinite(found.errors[[0, 1, 2, 5]]).all()
    free = choice_fits.fit(some(300))
    assert free.log_likelihood >= found.log_likelihood


def test_choices_without_noise_have_no_slope():
    own = choices.simulate(60, TK92, 1e6, seeding.child(0, "test", "sharp"))
    given = {name: value for name, value in zip(choice_model.NAMES[:5], TRUTH[:5], strict=True)}
    with pytest.raises(ValueError, match="the slope has no end, fix it"):
        choice_fits.fit(own, given)
    found = choice_fits.fit(own, {"slope": SLOPE})
    assert found.slope == pytest.approx(SLOPE) and np.isnan(found.errors[5])


def test_an_estimate_at_the_edge_is_named_and_has_no_interval():
    """Somebody who weighs losses 60 times as much lies outside the box."""
    own = choices.simulate(900, ProspectParams(0.88, 0.88, 60.0), SLOPE, seeding.child(0, "edge"))
    found = choice_fits.fit(own, one_exponent=True)
    assert found.at_edge == ("lam",) and found.params.lam == pytest.approx(20)
    assert np.isnan(choice_fits.intervals(found).set_index("parameter").loc["lam", "low"])


@pytest.mark.parametrize(
    ("fixed", "tied", "message"),
    [
        ({"lambda": 2}, False, "unknown parameter 'lambda': use alpha, beta, lam"),
        ({"lam": 90}, False, "lam 90: a fixed value must lie in [0.1, 20]"),
        ({"beta": 0.9}, True, "one exponent is fitted for both"),
        (dict(zip(choice_model.NAMES, TRUTH)), False, "every parameter is fixed"),
        ({}, False, "no choice has a loss: fix beta, lam, gamma_loss"),
    ],
)
def test_what_cannot_be_fitted(fixed, tied, message):
    own = some(90)
    gains = np.arange(90) % 3 == 0
    only = choices.Choices(own.a[gains], own.b[gains], own.chose_a[gains])
    with pytest.raises(ValueError) as caught:
        choice_fits.fit(only, fixed, tied)
    assert message in str(caught.value)


def test_gains_alone_can_be_fitted():
    own = some(1500)
    gains = np.arange(1500) % 3 == 0
    only = choices.Choices(own.a[gains], own.b[gains], own.chose_a[gains])
    found = choice_fits.fit(only, {"beta": 0.88, "lam": 2.25, "gamma_loss": 0.69})
    assert np.all(np.abs(np.log(found.values / TRUTH))[[0, 3]] < 3 * found.errors[[0, 3]])


@pytest.mark.slow
def test_recovery_of_the_truth_from_1000_choices():
    """With one exponent alpha comes within .05 and lambda within .3 in at least 90 % of 40 fits,
    and every parameter within 3 standard errors in at least 90 %. With two exponents the same holds
    of alpha and of loss aversion at the size of the stakes."""
    one = [choice_fits.fit(some(1000, r), one_exponent=True) for r in range(40)]
    values = np.array([found.values for found in one])
    hit = (np.abs(values[:, 0] - 0.88) < 0.05) & (np.abs(values[:, 2] - 2.25) < 0.3)
    assert hit.mean() >= 0.9
    z = np.log(values / TRUTH) / np.array([found.errors for found in one])
    assert ((np.abs(z) < 3).mean(axis=0) >= 0.9).all()
    two = [choice_fits.fit(some(1000, r)) for r in range(40)]
    alpha = np.array([found.params.alpha for found in two])
    stakes = np.array([choice_fits.loss_aversion(found, 100.0)[0] for found in two])
    assert ((np.abs(alpha - 0.88) < 0.05) & (np.abs(stakes - 2.25) < 0.3)).mean() >= 0.9


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """95 % intervals from the information: at least 85 % of 100 fits of 500 choices."""
    hits = np.zeros(6)
    for r in range(100):
        table = choice_fits.intervals(choice_fits.fit(some(500, "cover", r), one_exponent=True))
        hits += (table["low"].to_numpy() <= TRUTH) & (TRUTH <= table["high"].to_numpy())
    assert (hits >= 85).all(), hits
