"""Hand values, identities of Tversky and Kahneman 1992, gradients at 0, and lotteries by hand."""

import numpy as np
import pytest
import torch

from dipllm_lib.kto import prospect
from dipllm_lib.kto.prospect import ARTICLE, NEGOTIATION, NEUTRAL, TK92, ProspectParams


def test_hand_values_of_the_presets():
    found = prospect.value(np.array([0.5, -0.5, 1.0, -1.0, 0.0]), ARTICLE)
    np.testing.assert_allclose(found, [0.5434, -1.1891, 1.0, -2.25, 0.0], atol=5e-5)
    assert prospect.value(-1.0, NEGOTIATION) == pytest.approx(-3.2)
    assert TK92.alpha == TK92.beta == 0.88 and TK92.lam == 2.25
    x = np.linspace(-2, 2, 41)
    np.testing.assert_array_equal(prospect.value(x, NEUTRAL), x)


def test_weights_rise_from_0_to_1_and_have_the_printed_values():
    p = np.linspace(0, 1, 1001)
    for gamma in (0.28, 0.61, 0.69, 1.0, 1.5, 2.0):
        found = prospect.weight(p, gamma)
        assert found[0] == 0.0 and found[-1] == 1.0
        assert (np.diff(found) > 0).all(), gamma
    assert prospect.weight(0.5, 0.61) == pytest.approx(0.4206, abs=5e-5)
    assert prospect.weight(0.5, 0.69) == pytest.approx(0.4540, abs=5e-5)
    np.testing.assert_allclose(prospect.weight(p, 1.0), p, atol=1e-15)


def test_a_smaller_gamma_would_not_rise():
    p = np.linspace(1e-4, 1 - 1e-4, 2000)
    w = p**0.25 / (p**0.25 + (1 - p) ** 0.25) ** 4
    assert (np.diff(w) < 0).any()
    with pytest.raises(ValueError, match=r"gamma 0.25: need 0.28 <= gamma <= 2.0"):
        prospect.weight(0.5, 0.25)


def test_identities_of_tk92():
    """Sections 4.6: 100 for sure, 200 with .71, and a loss of 200 with .64 are worth the same."""
    sure = prospect.value(100.0, TK92)
    gain = prospect.prospect([200.0, 0.0], [0.71, 0.29], TK92)
    loss = prospect.prospect([-200.0, 0.0], [0.64, 0.36], TK92) / -TK92.lam
    assert sure == pytest.approx(57.54, abs=5e-3)
    assert gain == pytest.approx(57.23, abs=5e-3)
    assert loss == pytest.approx(57.72, abs=5e-3)


@pytest.mark.parametrize("preset", list(prospect.PRESETS.values()))
def test_gradients_are_finite_at_and_beside_0(preset):
    x = torch.tensor([-1.0, -1e-9, 0.0, 1e-9, 1.0], dtype=torch.float64, requires_grad=True)
    v = prospect.value_torch(x, preset)
    v.sum().backward()
    assert torch.isfinite(x.grad).all() and (x.grad > 0).all()
    assert v[2] == 0.0
    assert x.grad[[0, 4]].tolist() == pytest.approx([preset.lam * preset.beta, preset.alpha])


def test_a_plain_power_has_no_gradient_at_0():
    """Why `value_torch` clamps: both branches of a `where` enter the gradient."""
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    torch.where(x >= 0, x.abs() ** 0.88, -2.25 * x.abs() ** 0.92).sum().backward()
    assert not torch.isfinite(x.grad).all()


def test_the_two_versions_agree():
    x = np.concatenate([np.linspace(-3, 3, 101), [1e-7, -1e-7]])
    found = prospect.value_torch(torch.tensor(x), ARTICLE).numpy()
    np.testing.assert_allclose(found[:-2], prospect.value(x[:-2], ARTICLE), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found, prospect.value(x, ARTICLE), atol=1e-5)


def test_loss_aversion_depends_on_the_scale_unless_the_exponents_agree():
    ratio = prospect.loss_gain_ratio(np.array([1.0, 100.0]), ARTICLE)
    np.testing.assert_allclose(ratio, [2.25, 2.71], atol=5e-3)
    np.testing.assert_allclose(prospect.loss_gain_ratio(np.array([0.01, 100.0]), TK92), 2.25)
    x = np.array([0.3, 7.0])
    ratio = -prospect.value(-x, ARTICLE) / prospect.value(x, ARTICLE)
    np.testing.assert_allclose(prospect.loss_gain_ratio(x, ARTICLE), ratio)


def test_two_gains_by_hand():
    """w(p) v(x1) + (1 - w(p)) v(x2), with x1 the better."""
    w = prospect.weight(0.3, 0.61)
    by_hand = w * prospect.value(80.0, TK92) + (1 - w) * prospect.value(20.0, TK92)
    assert prospect.prospect([20.0, 80.0], [0.7, 0.3], TK92) == pytest.approx(by_hand)


def test_a_mixed_lottery_by_hand():
    """Gains -10, -4, 0, 3, 9: losses weighted from the worst, gains from the best."""
    x, p = np.array([3.0, -10.0, 9.0, 0.0, -4.0]), np.array([0.2, 0.1, 0.25, 0.15, 0.3])
    gain, loss = ARTICLE.gamma_gain, ARTICLE.gamma_loss
    best = prospect.weight(0.25, gain)
    second = prospect.weight(0.45, gain) - best
    worst = prospect.weight(0.1, loss)
    next_worst = prospect.weight(0.4, loss) - worst
    by_hand = best * 9**0.88 + second * 3**0.88
    by_hand -= 2.25 * (worst * 10**0.92 + next_worst * 4**0.92)
    assert prospect.prospect(x, p, ARTICLE) == pytest.approx(by_hand, rel=1e-12)


def test_without_weighting_a_prospect_is_the_expected_value():
    x, p = np.array([3.0, -10.0, 9.0, 0.0]), np.array([0.2, 0.1, 0.25, 0.45])
    assert prospect.prospect(x, p, NEUTRAL) == pytest.approx(x @ p)
    plain = ProspectParams(0.88, 0.92, 2.25, 1.0, 1.0)
    assert prospect.prospect(x, p, plain) == pytest.approx(prospect.value(x, plain) @ p)


def test_equal_outcomes_are_one_outcome():
    once = prospect.prospect([5.0, -2.0], [0.6, 0.4], ARTICLE)
    twice = prospect.prospect([5.0, -2.0, 5.0, -2.0], [0.1, 0.3, 0.5, 0.1], ARTICLE)
    assert twice == pytest.approx(once, rel=1e-12)


@pytest.mark.parametrize("x", [-30.0, -0.2, 0.0, 0.2, 30.0])
def test_a_sure_thing_is_worth_v_and_v_is_inverted(x):
    v = prospect.prospect([x], [1.0], ARTICLE)
    assert v == pytest.approx(float(prospect.value(x, ARTICLE)))
    assert prospect.certainty_equivalent(v, ARTICLE) == pytest.approx(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ProspectParams(0.0, 1, 1), "alpha 0.0: need a finite number above 0"),
        (lambda: ProspectParams(1, 1, np.nan), "lam nan: need a finite number above 0"),
        (lambda: ProspectParams(1, 1, 1, 0.1), "gamma_gain 0.1: need 0.28 <= gamma <= 2.0"),
        (lambda: prospect.weight(1.2, 0.6), "every probability must lie in"),
        (lambda: prospect.value(np.inf, ARTICLE), "every x must be finite"),
        (lambda: prospect.loss_gain_ratio(0.0, ARTICLE), "finite and above 0"),
        (lambda: prospect.certainty_equivalent(np.nan, ARTICLE), "every v must be finite"),
        (lambda: prospect.prospect([1, 2], [1.0], ARTICLE), "as many outcomes as probabilities"),
        (lambda: prospect.prospect([1, 2], [0.5, 0.6], ARTICLE), "sum to 1"),
        (lambda: prospect.prospect([1, np.nan], [0.5, 0.5], ARTICLE), "finite outcomes"),
    ],
)
def test_bad_input_gets_one_clear_line(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
