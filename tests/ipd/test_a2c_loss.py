"""Actor-critic by hand: (7) for three rounds, normalisation, (8) and its gradients."""

import math

import pytest
import torch

from dipllm_lib.ipd import a2c_loss
from dipllm_lib.run import seeding

TWO = torch.float64


def tensor(values):
    return torch.tensor(values, dtype=TWO)


def noise(*shape):
    return torch.from_numpy(seeding.child(1, "a2c loss").normal(size=shape))


def test_three_rounds_by_hand_with_two_lambdas():
    """delta = .66, .14, .4. With lambda_td = 1 a return is the discounted sum of rewards."""
    rewards, values = tensor([0.5, 0.0, 1.0]), tensor([0.2, 0.4, 0.6])
    advantage, returns = a2c_loss.advantages(rewards, values, 0.9, 0.5, 1.0)
    assert advantage.tolist() == pytest.approx([0.66 + 0.45 * 0.32, 0.14 + 0.45 * 0.4, 0.4])
    assert returns.tolist() == pytest.approx([0.5 + 0.81, 0.9, 1.0])
    advantage, returns = a2c_loss.advantages(rewards, values, 0.9, 0.0, 0.5)
    assert advantage.tolist() == pytest.approx([0.66, 0.14, 0.4])
    assert returns.tolist() == pytest.approx([0.2 + 0.804, 0.4 + 0.32, 1.0])


def test_sums_agree_with_the_backward_recursion():
    delta, found = noise(2, 3, 40), torch.zeros(2, 3)
    sums = a2c_loss.discounted_sums(delta, 0.93)
    for t in reversed(range(40)):
        found = delta[..., t] + 0.93 * found
        assert torch.allclose(sums[..., t], found, atol=1e-12)


def test_normalisation_by_hand():
    """Kinds (1, 3) and (10, 30, 50): z-scores -1, 1 and -sqrt 1.5, 0, sqrt 1.5 per kind."""
    values = tensor([1, 3, 10, 30, 50]).reshape(1, 5, 1)
    found = a2c_loss.normalise(values, "per_kind", 2)
    root = math.sqrt(1.5)
    assert found.flatten().tolist() == pytest.approx([-1, 1, -root, 0, root], abs=1e-6)
    found = a2c_loss.normalise(values, "batch", 2).flatten()
    assert found.mean() == pytest.approx(0) and found.std(correction=0) == pytest.approx(1)
    assert found[1] - found[0] == pytest.approx(2 / values.std(correction=0).item())
    assert a2c_loss.normalise(values, "none", 2) is values
    for learners in (0, 5):  # with one kind only the two are the same
        one = a2c_loss.normalise(values, "per_kind", learners).flatten()
        assert one.tolist() == found.tolist()
    with pytest.raises(ValueError, match="'kind': use one of batch"):
        a2c_loss.normalise(values, "kind", 2)


def test_agents_are_normalised_apart_and_equal_advantages_give_zero():
    values = torch.stack([noise(4, 3), noise(4, 3) * 7 + 2, torch.full((4, 3), 5.0, dtype=TWO)])
    found = a2c_loss.normalise(values, "batch", 2)
    assert torch.allclose(found[0], found[1], atol=1e-7) and not found[2].any()


def test_floor_by_hand():
    """Log-odds ln 3 are pi = 3/4; with eps = .2 it is .7; the floor itself is eps / 2."""
    odds = tensor([math.log(3), 40.0, -40.0])
    assert a2c_loss.floored(odds, 0.2).tolist() == pytest.approx([0.7, 0.9, 0.1])
    log_c, log_d = a2c_loss.log_floored(odds, 0.2)
    assert log_c.tolist() == pytest.approx([math.log(p) for p in [0.7, 0.9, 0.1]])
    assert log_d.tolist() == pytest.approx([math.log(p) for p in [0.3, 0.1, 0.9]])
    log_c, log_d = a2c_loss.log_floored(tensor([-800.0]), 0.0)
    assert log_c.item() == -800.0 and log_d.item() == 0.0


def test_loss_by_hand():
    """Two rounds at pi = 3/4: C with advantage 2, then D with advantage -1."""
    odds = torch.full((1, 1, 2), math.log(3), dtype=TWO)
    own, values = tensor([[[1.0, 0.0]]]), tensor([[[0.5, 0.0]]])
    found = a2c_loss.parts(odds, values, own, tensor([[[2.0, -1.0]]]), tensor([[[1.0, 2.0]]]))
    assert found["policy"].item() == pytest.approx(-2 * math.log(0.75) + math.log(0.25))
    assert found["value"].item() == pytest.approx(0.25 + 4.0)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found["entropy"].item() == pytest.approx(2 * entropy)
    found = a2c_loss.prediction(odds, own)
    assert found.item() == pytest.approx(-math.log(0.75) - math.log(0.25))


def test_gradient_is_the_score_function():
    """d/d(log-odds) of -A log pi(a) is -A (a - pi), whatever the floor does it shrinks it."""
    odds = torch.tensor([[[math.log(3)]]], dtype=TWO, requires_grad=True)
    one, zero = torch.ones(1, 1, 1, dtype=TWO), torch.zeros(1, 1, 1, dtype=TWO)
    a2c_loss.parts(odds, zero, one, 2 * one, zero)["policy"].sum().backward()
    assert odds.grad.item() == pytest.approx(-2 * 0.25)
    odds.grad = None
    a2c_loss.parts(odds, zero, one, 2 * one, zero, 0.2)["policy"].sum().backward()
    assert odds.grad.item() == pytest.approx(-2 * 0.8 * 0.75 * 0.25 / 0.7)
