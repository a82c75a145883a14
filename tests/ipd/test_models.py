"""Sequence models: sizes, two ways to run them, causality, layouts, weights set by hand."""

import itertools

import numpy as np
import pytest
import torch
from torch.nn.functional import silu

from dipllm_lib.ipd import models
from dipllm_lib.ipd.models import ModelSettings
from dipllm_lib.run import seeding

S0, CC, CD, DC, DD = range(5)
LAYOUTS = ["joint", "interleaved", "summed", "concat"]
KINDS = [{"core": c, "input": i} for c in ("gru", "transformer") for i in LAYOUTS]
KINDS += [{"core": c, "learner": "a2c"} for c in ("gru", "transformer")]
IDENTIFIED = [
    k | {"z": 10, "z_at": at}
    for k, at in itertools.product(KINDS[:2] + KINDS[4:6], ("first", "every"))
]


def built(agents: int = 2, **fields) -> models.Stack:
    names = [seeding.child(5, "models", i) for i in range(agents)]
    return models.build(ModelSettings(**({"hidden": 16} | fields)), names)


def episodes(agents: int = 2, n: int = 3, rounds: int = 6) -> torch.Tensor:
    obs = seeding.child(5, "episodes").integers(1, 5, (agents, n, rounds))
    obs[:, :, 0] = S0
    return torch.from_numpy(obs)


def identities(stack, n: int = 3) -> torch.Tensor | None:
    size = (stack.agents, n, stack.settings.z)
    draws = seeding.child(5, "z").normal(size=size).astype(np.float32)
    return torch.from_numpy(draws) if stack.settings.z else None


def stepped(stack, obs, z=None) -> torch.Tensor:
    state, rounds = stack.start(obs.shape[1], z), []
    for t in range(obs.shape[2]):
        features, state = stack.step(state, obs[:, :, t])
        rounds.append(features)
    return torch.stack(rounds, 2)


def same(a, b, tolerance: float = 1e-5) -> bool:
    return torch.allclose(a, b, rtol=0.0, atol=tolerance)


SIZES = [
    (3_845, {"hidden": 32}),
    (8_069, {"hidden": 48}),
    (52_229, {"hidden": 128}),
    (63_336, {"hidden": 128, "input": "interleaved", "q_head": False}),
    (63_336, {"hidden": 128, "input": "summed", "q_head": False}),
    (87_912, {"hidden": 128, "input": "concat", "q_head": False}),
    (62_531, {"hidden": 128, "input": "interleaved", "learner": "a2c"}),
    (29_029, {"core": "transformer", "hidden": 32, "rounds": 100}),
    (107_205, {"core": "transformer", "hidden": 64, "heads": 4, "rounds": 100}),
]


@pytest.mark.parametrize("size, fields", SIZES)
def test_parameters_of_one_agent(size, fields):
    assert built(**fields).parameters_per_agent() == size


@pytest.mark.parametrize("fields", KINDS + IDENTIFIED)
def test_an_unrolled_episode_is_its_steps(fields):
    stack, obs = built(**fields), episodes()
    z = identities(stack)
    features = stack.unroll(obs, z)
    assert features.shape == (2, 3, 6, stack.features)
    assert same(features, stepped(stack, obs, z))


@pytest.mark.parametrize("fields", KINDS)
def test_an_observation_changes_nothing_before_it_and_something_from_it_on(fields):
    stack, obs = built(**fields), episodes()
    before = stack.unroll(obs)
    for t in range(1, 6):
        changed = obs.clone()
        changed[:, :, t] = obs[:, :, t] % 4 + 1
        after = stack.unroll(changed)
        moved = (after - before).abs().amax((0, 1, 3))
        assert moved[:t].max() == 0.0 and moved[t:].min() > 1e-7


@pytest.mark.parametrize("fields", KINDS)
def test_an_episode_and_an_agent_know_nothing_of_the_others(fields):
    stack, obs = built(**fields), episodes()
    before, changed = stack.unroll(obs), obs.clone()
    changed[1, 2] = obs[1, 2] % 4 + 1
    moved = (stack.unroll(changed) - before).abs().amax((2, 3)) > 0
    assert moved.tolist() == [[False] * 3, [False, False, True]]


@pytest.mark.parametrize("fields", IDENTIFIED)
def test_an_identity_is_seen_from_the_first_round_on(fields):
    stack, obs = built(**fields), episodes()
    z = identities(stack)
    moved = stack.unroll(obs, z) - stack.unroll(obs, torch.zeros_like(z))
    assert (moved.abs().amax(3) > 1e-7).all()


@pytest.mark.parametrize("at", ["first", "every"])
@pytest.mark.parametrize("fields", KINDS[:2] + KINDS[4:6])
def test_an_identity_that_says_nothing_shifts_nothing(fields, at):
    """The same weights with and without z: first, a token that writes nothing (update gate 1) or
    that nobody listens to (no attention); every, an addition of zero.
    """
    told, plain, obs = built(z=10, z_at=at, **fields), built(**fields), episodes()
    with torch.no_grad():
        for name, weight in told.named_parameters():
            if "identity" in name:
                weight.zero_()
            if "blocks" in name and ".out." in name:
                weight.zero_()
        if at == "first" and fields["core"] == "gru":
            silence(told.core)
    plain.load_state_dict({k: v for k, v in told.state_dict().items() if "identity" not in k})
    assert same(told.unroll(obs, identities(told)), plain.unroll(obs), 1e-6)


def silence(core) -> None:
    """Let the token of z close the update gate: in the gates themselves or through dimension 31 of
    the shared space, which no other modality uses.
    """
    if core.tokens is None:
        core.identity.bias[:, 16:32] = 100.0
        return
    for layer in (core.tokens.observation, core.tokens.action, core.tokens.reward):
        layer.weight[..., 31] = 0.0
        layer.bias[..., 31] = 0.0
    core.identity.bias[:, 31] = 1.0
    core.input[:, 31, 16:32] = 100.0


def test_the_gru_is_that_of_torch_with_one_set_of_biases():
    stack, obs = built(), episodes()
    core, peer = stack.core, torch.nn.GRU(5, 16, batch_first=True)
    hot = torch.eye(5)[obs]
    for agent in range(2):
        with torch.no_grad():
            peer.weight_ih_l0.copy_(core.input[agent].T)
            peer.bias_ih_l0.copy_(core.bias[agent])
            peer.weight_hh_l0.copy_(core.hidden[agent].T)
            peer.bias_hh_l0.zero_()[32:] = core.candidate[agent]
        assert same(stack.unroll(obs)[agent], silu(peer(hot[agent])[0]), 1e-6)


def test_two_rounds_of_one_unit_by_hand():
    """W_r = 0, W_z = log 3, W_n = 1 at s0 and 2 at CC; U = 1, b = 0, c = 1; h_0 = 0, so
    r = 1/2, z = 3/4, n = tanh(1 + 1/2) and h_1 = n/4; then r and z are the sigmoids of h_1 and of
    log 3 + h_1.
    """
    stack = built(1, hidden=1)
    core = stack.core
    with torch.no_grad():
        core.input.zero_()
        core.input[0, :, 1] = np.log(3.0)
        core.input[0, S0, 2], core.input[0, CC, 2] = 1.0, 2.0
        core.bias.zero_()
        core.hidden.fill_(1.0)
        core.candidate.fill_(1.0)
    first = np.tanh(1.5) / 4
    r, z = 1 / (1 + np.exp(-first)), 1 / (1 + np.exp(-np.log(3.0) - first))
    n = np.tanh(2 + r * (first + 1))
    second = n + z * (first - n)
    found = stack.unroll(torch.tensor([[[S0, CC]]])).flatten().tolist()
    assert found == pytest.approx([h / (1 + np.exp(-h)) for h in (first, second)], abs=1e-6)


def test_the_transformer_is_that_of_torch():
    stack, obs = built(core="transformer", layers=1, heads=2), episodes()
    core, block = stack.core, stack.core.blocks[0]
    peer = torch.nn.TransformerEncoderLayer(
        16, 2, 64, 0.0, "gelu", batch_first=True, norm_first=True
    )
    mask = torch.nn.Transformer.generate_square_subsequent_mask(6)
    pairs = {
        peer.self_attn.out_proj: block.out,
        peer.linear1: block.up,
        peer.linear2: block.down,
    }
    for agent in range(2):
        with torch.no_grad():
            peer.self_attn.in_proj_weight.copy_(block.projection.weight[agent].T)
            peer.self_attn.in_proj_bias.copy_(block.projection.bias[agent])
            for theirs, ours in pairs.items():
                theirs.weight.copy_(ours.weight[agent].T)
                theirs.bias.copy_(ours.bias[agent])
            embedding = core.tokens.observation
            x = embedding.weight[agent][obs[agent]] + embedding.bias[agent]
            expected = core_norm(peer(x + core.positions[agent, :6], src_mask=mask))
        assert same(stack.unroll(obs)[agent], expected)


def core_norm(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def test_interleaved_and_joint_give_equal_replies_on_a_hand_set_weight():
    """An opponent that repeats the last own action, log-odds of C +3 or -3 (TFT, kind at first),
    and is nicer by 1 to an own C than to an own D of the same round.
    """
    joint, three = built(1), built(1, input="interleaved")
    side = torch.tensor([1.0, 1.0, 1.0, -1.0, -1.0])
    high, low = (silu(torch.tanh(torch.tensor(x))) for x in (2.0, -2.0))
    slope, shift = 6 / (high - low), 3 - 6 * high / (high - low)
    with torch.no_grad():
        for weight in itertools.chain(joint.parameters(), three.parameters()):
            weight.zero_()
        core, heads = joint.core, joint.readout["heads"]
        core.bias[:, 16:32] = -100.0  # nothing is kept
        core.input[0, :, 32] = 2 * side
        heads.weight[0, 0, 1:3] = slope
        heads.bias[0, 1:3] = shift + torch.tensor([0.5, -0.5])
        hand_set_three(three, side, slope, shift, high, low)
    obs = episodes(1, 4, 12)
    expected = 3 * side[obs].unsqueeze(-1) + torch.tensor([0.5, -0.5])
    for stack in (joint, three):
        assert same(stack.read(stack.unroll(obs))["reply"], expected)


def hand_set_three(stack, side, slope, shift, high, low) -> None:
    """Unit 0 is written by the observation's token only, unit 1 by the action's; each lets the
    other's be. Dimensions of the shared space: 0, 1 what to write, 2, 3 that it is such a token.
    """
    core, tokens = stack.core, stack.core.tokens
    tokens.observation.weight[0, :, 0] = 2 * side
    tokens.observation.bias[0, 2] = 1.0
    tokens.action.weight[0, :, 1] = torch.tensor([2.0, -2.0])
    tokens.action.bias[0, 3] = 1.0
    core.bias[:, 16:32] = 100.0
    for unit in (0, 1):
        core.input[0, 2 + unit, 16 + unit] = -200.0
        core.input[0, unit, 32 + unit] = 1.0
    head = stack.readout["part2"]
    head.weight[0, 0, [CC, DC]] = slope
    head.weight[0, 1, [CC, DC]] = 1 / (high - low)
    head.bias[0, [CC, DC]] = shift + 0.5 - high / (high - low)


def test_raw_heads_of_the_paper_give_the_log_odds():
    """own = action C - D; without branches reply is the next observation given the own action."""
    heads = (stack := built(input="summed")).read(stack.unroll(episodes()))
    assert same(heads["own"], heads["action"][..., 0] - heads["action"][..., 1])
    chance = heads["next"].softmax(-1)
    given = [chance[..., [CC, CD]], chance[..., [DC, DD]]]
    odds = torch.stack([(p[..., 0] / p[..., 1]).log() for p in given], -1)
    assert same(heads["reply"], odds)
    assert heads["q"].shape == (2, 3, 6, 2) and heads["reward"].shape == (2, 3, 6)


@pytest.mark.parametrize("core", ["gru", "transformer"])
def test_a_branch_knows_the_actions_that_led_to_it(core):
    """Parts of a round's features: observation, reward, C, D. By their gradients, C in round 1 has
    read the token of C, D that of D, and D in round 2 after an own C both.
    """
    stack = built(core=core, input="interleaved")
    weight = stack.core.tokens.action.weight  # (A, C and D, width)
    parts = stack.unroll(torch.tensor([[[S0, CC]]] * 2)).unflatten(-1, (4, 16))
    read = {}
    for name, t, part in (("C", 0, 2), ("D", 0, 3), ("CD", 1, 3), ("", 0, 1), ("C-", 1, 0)):
        found = parts[:, 0, t, part, 0].sum()
        grad = torch.autograd.grad(found, weight, retain_graph=True, allow_unused=True)[0]
        read[name] = (grad != 0).any(2).tolist()
    assert read["C"] == [[True, False]] * 2 and read["D"] == [[False, True]] * 2
    assert read["CD"] == [[True, True]] * 2
    assert read[""] == [[False, False]] * 2 and read["C-"] == [[True, False]] * 2


def test_rewards_are_an_input_of_the_published_layouts():
    """Another payoff for DD moves what follows DD, and nothing else; `joint` reads no rewards."""
    obs = torch.tensor([[[S0, CC, DD, CC]]])
    for layout in LAYOUTS:
        known = [built(1, input=layout, rewards=(0, 1, -1, 2, p)).unroll(obs) for p in (0.0, 0.5)]
        moved = ((known[0] - known[1]).abs().amax((0, 1, 3)) > 1e-7).tolist()
        assert moved == ([False] * 4 if layout == "joint" else [False, False, True, True])


BAD = [
    ({"core": "lstm"}, "unknown core 'lstm' of a model: use gru or transformer"),
    ({"input": "both"}, "unknown input 'both'"),
    ({"z_at": "last"}, "unknown z_at"),
    ({"learner": "dqn"}, "unknown learner"),
    ({"hidden": 0}, "hidden of a model is 0: use an integer >= 1"),
    ({"z": -1}, "z of a model is -1"),
    ({"core": "transformer", "hidden": 20, "heads": 3}, "3 heads do not divide a width of 20"),
    ({"rewards": (0.0, 1.0)}, "give one for each of s0"),
]


@pytest.mark.parametrize("fields, message", BAD)
def test_bad_settings(fields, message):
    with pytest.raises(ValueError, match=message):
        ModelSettings(**fields)


def test_bad_arrays():
    stack, told, obs = built(), built(z=10), episodes()
    for wrong in (obs[:1], obs[0], obs.float()):
        with pytest.raises(ValueError, match=r"give integers \(A, n, T\) with A = 2"):
            stack.unroll(wrong)
    with pytest.raises(ValueError, match="from 1 to 6: the codes are 0 to 4"):
        stack.unroll(torch.full_like(obs, 6).index_fill(2, torch.tensor([0]), 1))
    with pytest.raises(ValueError, match=r"give integers \(A, n\) with A = 2"):
        stack.step(stack.start(3), obs)
    with pytest.raises(ValueError, match=r"identity vectors None: this model needs \(2, 3, 10\)"):
        told.unroll(obs)
    with pytest.raises(ValueError, match="this model needs None"):
        stack.start(3, torch.zeros(2, 3, 10))
    with pytest.raises(ValueError, match="no agent 2 in a stack of 2"):
        stack.slice(2)
    with pytest.raises(ValueError, match="round 6 of a transformer with positions for 5"):
        built(core="transformer", rounds=5).unroll(obs)
    with pytest.raises(ValueError, match="same settings"):
        models.join([stack, told])
    with pytest.raises(ValueError, match="at least one agent"):
        models.build(ModelSettings(), [])
