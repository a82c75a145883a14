"""The compiled rounds of a GRU against the torch form: values, gradients, states."""

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import gru_cell, models
from dipllm_lib.ipd.models import ModelSettings
from dipllm_lib.run import seeding

KINDS = [{}, {"z": 10}, {"input": "concat"}, {"learner": "a2c", "input": "summed"}]


def both(agents: int = 2, **fields) -> list[models.Stack]:
    """The same stack twice: compiled, and as written in torch."""
    names = [seeding.child(6, "cell", i) for i in range(agents)]
    stack = models.build(ModelSettings(**({"hidden": 20} | fields)), names)
    written = models.join([stack])
    written.core.compiled = False
    return [stack, written]


def episodes(agents: int = 2, n: int = 3, rounds: int = 6) -> torch.Tensor:
    return torch.from_numpy(seeding.child(6, "episodes").integers(0, 5, (agents, n, rounds)))


def told(stack: models.Stack) -> torch.Tensor | None:
    draws = seeding.child(6, "z").normal(size=(stack.agents, 3, stack.settings.z))
    return torch.from_numpy(draws.astype(np.float32)) if stack.settings.z else None


def near(a, b) -> bool:
    return torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_the_hyperbolic_tangent_is_exact_to_3e_7():
    """Absolute and, near 0, relative; cut at 9, where tanh is 1 but for 3e-8."""
    x = np.concatenate([np.linspace(-20, 20, 20_001), np.logspace(-30, 1, 500)]).astype(np.float32)
    out = np.empty_like(x)
    gru_cell._tanh_of(x, out)
    wanted = np.tanh(x.astype(np.float64))
    assert np.abs(out - wanted).max() < 3e-7 and np.abs(out).max() <= 1.0
    some = x != 0
    assert np.abs(out[some] / wanted[some] - 1).max() < 6e-7


def test_what_is_no_number_stays_none():
    x, out = np.array([np.nan, np.inf, -np.inf], np.float32), np.empty(3, np.float32)
    gru_cell._tanh_of(x, out)
    assert np.isnan(out[0]) and out[1:].tolist() == pytest.approx([1.0, -1.0], abs=1e-6)


@pytest.mark.parametrize("fields", KINDS)
def test_values_and_gradients_are_those_of_the_torch_form(fields):
    stacks, obs = both(**fields), episodes()
    weights = torch.from_numpy(seeding.child(6, "w").normal(size=(2, 3, 6, 20)).astype(np.float32))
    for stack in stacks:
        features = stack.unroll(obs, told(stack))
        stack.found = features.detach()
        (features * weights + features**2).sum().backward()
    assert near(stacks[0].found, stacks[1].found)
    for (name, a), b in zip(stacks[0].core.named_parameters(), stacks[1].core.parameters()):
        assert near(a.grad, b.grad), name
        assert a.grad.abs().max() > 1e-3, name


def test_gradients_of_steps_are_those_of_the_episode():
    """The graph goes through the state; the loss is on the last features only."""
    stack, obs = both()[0], episodes()
    stack.unroll(obs)[:, :, -1].sum().backward()
    whole = [w.grad.clone() for w in stack.core.parameters()]
    stack.zero_grad()
    state = stack.start(3)
    for t in range(6):
        features, state = stack.step(state, obs[:, :, t])
    features.sum().backward()
    for a, weight in zip(whole, stack.core.parameters(), strict=True):
        assert near(a, weight.grad)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_without_gradients_the_numbers_are_the_same(context):
    stack, obs = both()[0], episodes()
    with_graph = stack.unroll(obs)
    with context():
        assert torch.equal(stack.unroll(obs), with_graph)
        state = stack.start(3)
        for t in range(6):
            features, state = stack.step(state, obs[:, :, t])
        assert torch.equal(features, with_graph[:, :, -1])


def test_a_gradient_by_differences():
    """Central differences in two weights of one agent."""
    stack, obs = both(1)[0], episodes(1)
    stack.unroll(obs).sum().backward()
    for weight, place in ((stack.core.hidden, (0, 3, 25)), (stack.core.candidate, (0, 7))):
        values = []
        for shift in (0.01, -0.01):
            with torch.no_grad():
                weight[place] += shift
                values.append(stack.unroll(obs).double().sum().item())
                weight[place] -= shift
        slope = (values[0] - values[1]) / 0.02
        assert weight.grad[place].item() == pytest.approx(slope, rel=1e-2, abs=1e-4)
