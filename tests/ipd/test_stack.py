"""Agents in a stack share a pass and not a number: slices, training, clipping, gradients."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from dipllm_lib.ipd import models
from dipllm_lib.ipd.models import ModelSettings
from dipllm_lib.run import seeding

S0, CC, CD, DC, DD = range(5)
LAYOUTS = ["joint", "interleaved", "summed", "concat"]
KINDS = [{"core": c, "input": i} for c in ("gru", "transformer") for i in LAYOUTS]
KINDS += [{"core": c, "learner": "a2c"} for c in ("gru", "transformer")]


def built(agents: int = 2, **fields) -> models.Stack:
    names = [seeding.child(5, "models", i) for i in range(agents)]
    return models.build(ModelSettings(**({"hidden": 16} | fields)), names)


def episodes(agents: int = 2, n: int = 3, rounds: int = 6) -> torch.Tensor:
    obs = seeding.child(5, "episodes").integers(1, 5, (agents, n, rounds))
    obs[:, :, 0] = S0
    return torch.from_numpy(obs)


def same(a, b, tolerance: float = 1e-5) -> bool:
    return torch.allclose(a, b, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("fields", KINDS)
def test_an_agent_is_the_same_in_any_stack(fields):
    """A slice of three, and the agent built alone from its generator."""
    stack, obs = built(3, **fields), episodes(3)
    settings = ModelSettings(**({"hidden": 16} | fields))
    for i in range(3):
        alone = models.build(settings, [seeding.child(5, "models", i)])
        cut = stack.slice(i)
        for (name, a), b in zip(alone.named_parameters(), cut.parameters(), strict=True):
            assert torch.equal(a, b), name
        assert same(cut.unroll(obs[i : i + 1]), stack.unroll(obs)[i : i + 1])
    again = models.join([stack.slice(i) for i in range(3)])
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), stack.parameters()))


def test_a_slice_is_a_copy():
    stack = built()
    before = stack.core.hidden.clone()
    with torch.no_grad():
        stack.slice(1).core.hidden.zero_()
    assert torch.equal(stack.core.hidden, before)


def losses(stack, obs) -> torch.Tensor:
    """(A,) a mean over each agent's rounds that every head has a part in."""
    heads = stack.read(stack.unroll(obs)[:, :, :-1])
    seen = obs[:, :, 1:]
    own, other = (seen <= CD).float(), ((seen == CC) | (seen == DC)).float()
    if "policy" in heads:
        rounds = -heads["policy"].log_softmax(-1)[..., 0] * own + (heads["value"] - other) ** 2
        return rounds.mean((1, 2))
    taken = torch.where(own > 0, heads["reply"][..., 0], heads["reply"][..., 1])
    pairs = ((heads["own"], own), (taken, other))
    found = sum(binary_cross_entropy_with_logits(*p, reduction="none") for p in pairs)
    return (found + (heads["q"].sum(-1) - own) ** 2).mean((1, 2))


def trained(stack, obs, updates: int = 10) -> torch.Tensor:
    """(updates, A) losses of AdamW on the sum over agents, gradients clipped in every update."""
    adam = torch.optim.AdamW(stack.parameters(), 4e-3, (0.9, 0.98), weight_decay=1e-2)
    history = []
    for _ in range(updates):
        adam.zero_grad()
        found = losses(stack, obs)
        found.sum().backward()
        assert (stack.clip_per_agent(0.05) > 0.05).all()
        adam.step()
        history.append(found.detach())
    return torch.stack(history)


@pytest.mark.parametrize("fields", KINDS)
def test_all_seeds_in_one_pass_train_as_each_seed_alone(fields):
    """Ten updates: losses to 1e-5, weights to 1e-4. A bias of the keys adds the same to every score
    of a query, so it changes nothing; its gradient is rounding, which Adam scales to whole steps.
    """
    stack, obs = built(4, **fields), episodes(4, 8, 12)
    alone = [stack.slice(i) for i in range(4)]
    together = trained(stack, obs)
    assert (together[-1] < together[0]).all()
    for i, single in enumerate(alone):
        assert same(trained(single, obs[i : i + 1])[:, 0], together[:, i])
        ours = dict(stack.slice(i).named_parameters())
        for name, weight in single.named_parameters():
            off = (weight - ours[name]).abs()
            if name.endswith("projection.bias"):
                off[:, 16:32] = 0.0
            assert off.max() < 1e-4, name


def test_gradients_are_clipped_agent_by_agent():
    """Norms 5 (3 and 4 in two weights) and .5 against 1: the first is scaled by 1/5."""
    stack = built()
    weights = list(stack.parameters())[:2]
    for weight, first, second in zip(weights, (3.0, 4.0), (0.3, 0.4)):
        weight.grad = torch.zeros_like(weight)
        weight.grad.flatten(1)[:, 0] = torch.tensor([first, second])
    assert stack.clip_per_agent(1.0).tolist() == pytest.approx([5.0, 0.5])
    found = [w.grad.flatten(1)[:, 0].tolist() for w in weights]
    assert found[0] == pytest.approx([0.6, 0.3], rel=1e-5)
    assert found[1] == pytest.approx([0.8, 0.4], rel=1e-5)


def test_clipping_is_the_rule_of_torch():
    stack, obs = built(), episodes()
    losses(stack, obs).sum().backward()
    singles = [stack.slice(i) for i in range(2)]
    for i, single in enumerate(singles):
        losses(single, obs[i : i + 1]).sum().backward()
        torch.nn.utils.clip_grad_norm_(single.parameters(), 0.2)
    stack.clip_per_agent(0.2)
    for i, single in enumerate(singles):
        for a, b in zip(single.parameters(), stack.parameters(), strict=True):
            assert same(a.grad[0], b.grad[i], 1e-6)


@pytest.mark.parametrize("core", ["gru", "transformer"])
def test_a2c_starts_with_half_and_zero(core):
    heads = (stack := built(core=core, learner="a2c")).read(stack.unroll(episodes()))
    assert heads["policy"].shape == (2, 3, 6, 2) and not heads["policy"].any()
    assert heads["value"].shape == (2, 3, 6) and not heads["value"].any()
    ppi = dict(built(core=core).core.named_parameters())
    assert all(torch.equal(w, ppi[name]) for name, w in stack.core.named_parameters())


def graph(tensor: torch.Tensor) -> list:
    """All nodes behind a tensor."""
    todo, seen = [tensor.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [parent for parent, _ in node.next_functions]
    return list(seen)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_round_is_cut_out_of_a_tensor_of_all_rounds(layout):
    """Its backward pass would fill a zero tensor of that size, once a round: quadratic in T."""
    stack = built(input=layout)
    stack.core.compiled = False
    for node in graph(stack.unroll(episodes(rounds=8))):
        if node.name() in ("SliceBackward0", "SelectBackward0", "IndexBackward0"):
            assert 8 not in node._saved_self_sym_sizes, node.name()


@pytest.mark.parametrize("core", ["gru", "transformer"])
def test_a_state_can_be_gone_on_from_twice(core):
    stack = built(core=core, input="interleaved")
    _, state = stack.step(stack.start(3), torch.zeros(2, 3, dtype=torch.int64))
    obs = episodes()[:, :, 1:4]
    first = [stack.step(state, obs[:, :, t])[0] for t in range(3)]
    again = [stack.step(state, obs[:, :, t])[0] for t in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(first, again))
