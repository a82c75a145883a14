"""Batches of one, two and three samples and of one label: what trips implementations of KTO."""

import pytest
import torch

from dipllm_lib.kto import loss

KL = [0.2, 0.05, 0.4]
R = [0.5, -0.2, 0.1]


@pytest.mark.parametrize("form", loss.Z0_FORMS)
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("label", ["all desirable", "none desirable", "the first alone"])
def test_loss_and_gradient_are_finite(form, n, label):
    r = torch.tensor(R[:n], dtype=torch.float64, requires_grad=True)
    labels = {"all desirable": [1] * n, "none desirable": [0] * n}.get(label, [1] + [0] * (n - 1))
    neighbours = r[loss.rotated(n)]
    point = loss.z0(form, kl=torch.tensor(KL[:n]), r_mismatched=neighbours)
    total = loss.pt_kto(r, torch.tensor(labels), torch.ones(n), point, 0.1)
    total.backward()
    assert torch.isfinite(total) and torch.isfinite(r.grad).all()
    assert (torch.sign(r.grad).tolist()) == [-1.0 if good else 1.0 for good in labels]


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_mismatched_pair_is_never_the_pair_itself(n):
    """Each prompt meets the answer of another one, and each answer is used once."""
    order = loss.rotated(n)
    assert all(answer != prompt for prompt, answer in enumerate(order))
    assert sorted(order) == list(range(n))
    assert loss.rotated(1) == [0]  # nobody else is there
