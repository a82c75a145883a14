"""The tabular policy: rows, normalisation, the chain rule, and sampling."""

import numpy as np
import pytest
import torch

from dipllm_lib.kto.policies import Context, TabularPolicy, expected, log_softmax, modal, sample

OFFER = Context(("Ultimatum", "A"), "Pie 100. I offer", (" 0.", " 40.", " 100."))
ANSWER = Context(("Ultimatum", 40, "A"), "They offer 40. I", (" accept.", " refuse."))


def test_a_new_key_is_uniform_and_contexts_may_differ_in_size():
    rows = TabularPolicy().log_probs([OFFER, ANSWER])
    assert np.exp(rows[0]) == pytest.approx([1 / 3] * 3)
    assert np.exp(rows[1]) == pytest.approx([0.5, 0.5])


def test_an_update_is_autograd_through_the_softmax():
    start = np.array([0.3, -0.2, 0.1])
    policy = TabularPolicy({OFFER.key: start})
    by_log_prob = np.array([1.0, -2.0, 0.5])
    logits = torch.tensor(start, requires_grad=True)
    (torch.log_softmax(logits, 0) * torch.tensor(by_log_prob)).sum().backward()
    policy.update([OFFER], [by_log_prob], 0.7)
    assert policy.rows[OFFER.key] == pytest.approx(start - 0.7 * logits.grad.numpy())


def test_contexts_of_one_key_add_up_from_the_same_start():
    one, two = TabularPolicy(), TabularPolicy()
    one.update([ANSWER, ANSWER], [[1.0, 0.0], [0.5, 0.0]], 1.0)
    two.update([ANSWER], [[1.5, 0.0]], 1.0)
    assert one.rows[ANSWER.key] == pytest.approx(two.rows[ANSWER.key])


def test_a_copy_is_independent():
    policy = TabularPolicy()
    reference = policy.copy()
    policy.update([ANSWER], [[-1.0, 0.0]], 1.0)
    assert reference.rows == {} and policy.log_probs([ANSWER])[0][0] > np.log(0.5)


def test_sampling_has_the_frequencies_and_the_seed_decides():
    policy = TabularPolicy({OFFER.key: np.log([0.2, 0.5, 0.3])})
    picks = sample(policy, [OFFER] * 4000, np.random.default_rng(3))
    assert np.bincount(picks) / 4000 == pytest.approx([0.2, 0.5, 0.3], abs=0.03)
    assert picks == sample(policy, [OFFER] * 4000, np.random.default_rng(3))
    never = TabularPolicy({OFFER.key: np.array([-np.inf, 0.0, -np.inf])})
    assert set(sample(never, [OFFER] * 100, np.random.default_rng(0))) == {1}


def test_expected_and_modal():
    policy = TabularPolicy({OFFER.key: np.log([0.2, 0.5, 0.3])})
    assert expected(policy, [OFFER], [[1.0, 2.0, 3.0]]) == pytest.approx([2.1])
    assert modal(policy, [OFFER, ANSWER]) == [1, 0]


def test_log_softmax_stands_large_numbers_and_illegal_actions():
    assert np.exp(log_softmax([1000.0, 1000.0, -np.inf])) == pytest.approx([0.5, 0.5, 0.0])


def test_what_is_refused():
    with pytest.raises(ValueError, match="must be distinct"):
        Context("k", "p", (" a.", " a."))
    with pytest.raises(ValueError, match="3 logits for 2 legal texts"):
        TabularPolicy({ANSWER.key: np.zeros(3)}).log_probs([ANSWER])
