"""The objectives: hand values, exact checks of the first step, and what is refused."""

import numpy as np
import pytest
import torch

from dipllm_lib.kto import humans, loss, prospect

R, LABELS = torch.tensor([0.5, -0.2], dtype=torch.float64), torch.tensor([1, 0])
OFFERS = np.array(humans.OFFERS)


def t(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_hand_value():
    assert float(loss.kto(R, LABELS, 0.1, 0.1)) == pytest.approx(0.4912509, abs=5e-8)
    terms = loss.kto_terms(R, LABELS, 0.1, 0.1)
    assert terms.tolist() == pytest.approx([0.4900013, 0.4925006], abs=5e-8)


def test_omega_of_one_is_plain_kto_and_class_weights_multiply():
    plain = loss.kto(R, LABELS, 0.1, 0.1, 0.7, 1.0)
    assert float(loss.pt_kto(R, LABELS, t(1, 1), 0.1, 0.1, 0.7, 1.0)) == float(plain)
    assert float(plain) == pytest.approx((0.7 * 0.4900013 + 0.4925006) / 2, abs=5e-8)
    half = loss.pt_kto(R, LABELS, t(0.5, 1.5), 0.1, 0.1)
    assert float(half) == pytest.approx((0.5 * 0.4900013 + 1.5 * 0.4925006) / 2, abs=5e-8)


def test_pairs_by_hand_and_the_literal_sign_is_one_minus_the_right_one():
    plus, minus = t(0.4, 0.0), t(0.1, 0.2)
    s = 1 / (1 + np.exp(-np.array([0.03, -0.02])))
    assert float(loss.literal_sign(plus, minus, 0.1)) == pytest.approx(s.mean())
    right = loss.pt_pair(plus, minus, t(1.0, 1.0), 0.1)
    assert float(right) == pytest.approx(1 - s.mean())
    weighted = loss.pt_pair(plus, minus, t(1.0, 3.0), 0.1)
    assert float(weighted) == pytest.approx((0.5 * (1 - s[0]) + 1.5 * (1 - s[1])) / 2)
    assert float(loss.pt_pair(plus, minus, t(1.0, 3.0), 0.1, mean=4.0)) == pytest.approx(
        float(weighted) / 2
    )


def test_pairs_do_not_see_normaliser_and_reference_point():
    """A constant added to both log-ratios, as a normaliser of the context is, changes nothing."""
    plus, minus, gap = t(0.4, 0.0), t(0.1, 0.2), t(1.0, 2.0)
    moved = loss.pt_pair(plus + 7.0, minus + 7.0, gap, 0.1)
    assert float(moved) == pytest.approx(float(loss.pt_pair(plus, minus, gap, 0.1)), abs=1e-12)


def test_likelihoods_by_hand():
    logs = torch.log(t(0.5, 0.25, 0.125))
    assert float(loss.sft(logs, t(1, 0, 1))) == pytest.approx(-np.log(0.0625) / 2)
    w = np.exp(np.array([0.0, 1.0, 2.0]) / 0.5)
    expected = -(w / w.mean() * np.log([0.5, 0.25, 0.125])).mean()
    assert float(loss.wmle(logs, t(0, 1, 2), 0.5)) == pytest.approx(expected)
    with pytest.raises(ValueError, match="no desirable sample"):
        loss.sft(logs, t(0, 0, 0))


def test_z0_is_the_enumerated_divergence_without_gradient():
    own = torch.log(t(0.7, 0.2, 0.1)).requires_grad_(True)
    ref = torch.log(t(0.2, 0.3, 0.5))
    kl = loss.z0_exact([own, ref], [ref, ref])
    by_hand = 0.7 * np.log(0.7 / 0.2) + 0.2 * np.log(0.2 / 0.3) + 0.1 * np.log(0.1 / 0.5)
    assert kl.tolist() == pytest.approx([by_hand, 0.0])
    assert not kl.requires_grad
    assert float(loss.z0("exact_batch", kl)) == pytest.approx(by_hand / 2)
    assert loss.z0("exact_context", kl).tolist() == pytest.approx([by_hand, 0.0])
    assert float(loss.z0("zero")) == 0.0
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = (torch.log_softmax(torch.tensor(rng.normal(size=11)), -1) for _ in range(2))
        assert float(loss.z0_exact([a], [b])[0]) >= 0


def test_an_impossible_text_adds_nothing_to_z0():
    own = torch.log(t(1.0, 0.0))
    assert loss.z0_exact([own], [torch.log(t(0.5, 0.5))]).tolist() == pytest.approx([np.log(2)])


def test_mismatched_is_clamped_and_on_one_action_it_is_the_own_reward():
    assert float(loss.z0("mismatched", r_mismatched=t(-1.0, 0.2))) == 0.0
    r = t(0.3, 0.3)  # one legal text: the neighbour's answer is the own one
    assert float(loss.z0_mismatched(r[loss.rotated(2)])) == pytest.approx(0.3)


def test_what_z0_refuses():
    with pytest.raises(ValueError, match="unknown z0 'batch'"):
        loss.z0("batch")
    with pytest.raises(ValueError, match="mismatched needs r_mismatched"):
        loss.z0("mismatched", kl=t(0.1))


def test_the_reference_point_has_no_gradient_and_cannot_be_negative():
    r = R.clone().requires_grad_(True)
    point = torch.tensor(0.1, requires_grad=True)
    loss.kto(r, LABELS, point, 0.1).backward()
    assert point.grad is None
    assert float(loss.kto(R, LABELS, -5.0, 0.1)) == float(loss.kto(R, LABELS, 0.0, 0.1))


def test_mean_weight_is_one_and_the_guard_binds_at_four():
    values = [0.5, -1.0, 2.0, 0.0]
    mean = loss.mean_size(values)
    weights = loss.omega(t(*values), mean)
    assert float(weights.mean()) == pytest.approx(1.0)
    assert weights.tolist() == pytest.approx([0.5 / 0.875, 1 / 0.875, 2 / 0.875, 0.0])
    assert float(loss.omega(t(9.0), 1.0)[0]) == 4.0
    with pytest.raises(ValueError, match="mean .V. is 0.0"):
        loss.mean_size([0.0, 0.0])


def test_class_weights_balance_labels_and_refuse_outcomes():
    labels = [True] * 12 + [False] * 8
    lam_d, lam_u = loss.class_weights(labels, "selector")
    assert (lam_d, lam_u) == pytest.approx((8 / 12, 1.0))
    assert lam_d * 12 == pytest.approx(lam_u * 8)
    with pytest.raises(ValueError, match="labels from outcomes are not balanced"):
        loss.class_weights(labels, "outcome")
    with pytest.raises(ValueError, match="need some of both"):
        loss.class_weights([True, True], "selector")


def test_a_hand_set_ratio_warns_outside_the_published_range():
    labels = [True] * 12 + [False] * 8
    assert loss.check_class_weights(0.7, 1.0, labels) == pytest.approx(1.05)  # the paper's
    with pytest.warns(UserWarning, match=r"outside \[1, 4/3\]"):
        assert loss.check_class_weights(1.0, 1.0, labels) == pytest.approx(1.5)


def test_the_first_step_is_the_policy_gradient_of_prospect_value():
    """At theta = theta_ref: -dL/d log pi(a) = kappa/4 p(a) E[V|a] / mean|V|, by enumeration."""
    kappa, accept = 0.1, humans.ultimatum_responder(OFFERS)
    chance = np.stack([accept, 1 - accept], axis=1)
    own = np.exp(np.linspace(0, 1, 11))
    own /= own.sum()
    payoff = np.stack([1 - OFFERS, np.zeros(11)], axis=1)
    value = prospect.value(payoff - 0.5, prospect.ARTICLE)
    mass = own[:, None] * chance
    mean = float((mass * np.abs(value)).sum())
    log_p = torch.log(torch.tensor(own)).requires_grad_(True)
    reference = log_p.detach()
    r = (log_p - reference)[:, None].expand(-1, 2).flatten()
    flat = torch.tensor(value).flatten()
    kl = loss.z0_exact([log_p], [reference])
    weights = loss.omega(flat, mean) * torch.tensor(mass).flatten() * len(flat)
    loss.pt_kto(r, flat > 0, weights, loss.z0("exact_batch", kl), kappa).backward()
    expected = kappa / 4 * own * (chance * value).sum(axis=1) / mean
    assert np.abs(-log_p.grad.numpy() - expected).max() < 1e-8


def test_bad_shapes_and_temperatures_are_refused():
    with pytest.raises(ValueError, match="equally long"):
        loss.kto(R, t(1.0), 0.0, 0.1)
    with pytest.raises(ValueError, match="kappa 0"):
        loss.kto(R, LABELS, 0.0, 0)
    with pytest.raises(ValueError, match="weights must be >= 0"):
        loss.pt_kto(R, LABELS, t(-1.0, 1.0), 0.0, 0.1)
    with pytest.raises(ValueError, match="leave equal values out"):
        loss.pt_pair(t(0.1), t(0.0), t(0.0), 0.1)
