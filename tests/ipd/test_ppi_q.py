"""Eq. 1 by hand, and rollouts against exact values on models that are hand-set to memory one."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import batch_play, game, models, ppi_q, ppi_settings, tabular
from dipllm_lib.ipd.batch_play import Table
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.run import seeding

HEAD = ppi_settings.CPU
MC = replace(ppi_settings.CPU_MC, rollouts=200, common=False)
OWN = np.array([0.2, 0.9, 0.4, 0.7, 0.1])  # P(own C) after s0, CC, CD, DC, DD
REPLY = np.array([[0.5, 0.3], [0.9, 0.8], [0.2, 0.6], [0.7, 0.4], [0.1, 0.3]])  # given own C, D


def logit(p):
    return np.log(p) - np.log1p(-np.asarray(p))


def hand_set(own=OWN, reply=REPLY, q=np.zeros((5, 2)), agents=1):
    """A GRU that has no memory: unit o is on after observation o, and the heads read it off."""
    settings = ModelSettings(hidden=8)
    stack = models.build(settings, [seeding.child(0, i) for i in range(agents)])
    with torch.no_grad():
        for weight in stack.parameters():
            weight.zero_()
        stack.core.input[:, :, 8:16] = -60.0  # gate z = 0: nothing of the old state stays
        stack.core.input[:, range(5), range(16, 21)] = 60.0  # n = 1
        on = torch.nn.functional.silu(torch.ones(()))
        heads = np.column_stack([logit(own), logit(reply), q])
        stack.readout["heads"].weight[:, :5] = torch.from_numpy(heads).float() / on
    return stack


def exact_q(own, reply, horizon, payoffs=game.Payoffs(), discount=1.0):
    """(5, 2) Q of C and D after each observation, by backward induction over the rounds left.

    reply (5, 2): P(other C) given own C, own D.
    """
    value = np.zeros(5)
    for _ in range(horizon):
        q = np.zeros((5, 2))
        for o in range(5):
            for k, a in enumerate((game.C, game.D)):
                for b, chance in ((1, reply[o, k]), (0, 1 - reply[o, k])):
                    code = game.DD - 2 * a - b
                    q[o, k] += chance * (payoffs.matrix[a, b] + discount * value[code])
        value = own * q[:, 0] + (1 - own) * q[:, 1]
    return q


def estimates(stack, settings, opponents=None, learners=0, games=40, agents=1):
    """Q(C) - Q(D) (A, 5, games) of rollouts after one round that showed each observation."""
    actor = ppi_q.Improved(stack, settings, streams=[seeding.child(1, i) for i in range(agents)])
    n = 5 * games
    vectors = torch.zeros((agents, 0, 5)) if opponents is None else opponents
    obs = torch.arange(5).repeat_interleave(games).expand(agents, -1)
    with torch.inference_mode():
        state = actor.start(Table(learners or n - vectors.shape[1], vectors))
        features, state = stack.step(state, obs)
        found = actor.difference(state, stack.read(features), obs, None)
    return found.view(agents, 5, games).numpy()


def within(found, exact, errors=4.0):
    """Whether the mean over games is `errors` standard errors or less from the exact value."""
    se = found.std(axis=-1, ddof=1) / np.sqrt(found.shape[-1])
    return np.all(np.abs(found.mean(axis=-1) - exact) <= errors * se)


def test_equation_1_by_hand_in_both_readings():
    """Prior 1/4, Q(C) - Q(D) = 0.02: beta = 100 moves the log-odds by 2, beta = 0.01 by 0.0002."""
    prior, gain = torch.tensor([math.log(1 / 3)]), torch.tensor([0.02])
    found = torch.sigmoid(ppi_q.improve(prior, gain, HEAD)).item()
    assert found == pytest.approx(math.exp(2) / (math.exp(2) + 3), abs=1e-6)
    literal = replace(HEAD, improvement="literal")
    found = torch.sigmoid(ppi_q.improve(prior, gain, literal)).item()
    assert found == pytest.approx(0.25 * math.exp(2e-4) / (0.25 * math.exp(2e-4) + 0.75), abs=1e-6)
    assert ppi_q.improve(torch.tensor([-30.0]), torch.tensor([0.1]), HEAD).item() == pytest.approx(
        2.0
    )  # clamped to -8, then + 10


def test_returns_by_hand():
    """Rewards 1, -1, 2, 0, 1 over windows of three rounds, discount 1 and 1/2."""
    codes = np.array([[game.CC, game.CD, game.DC, game.DD, game.CC]], dtype=np.uint8)
    three = replace(HEAD, horizon=3)
    assert ppi_q.returns(codes, three).tolist() == [[2.0, 1.0, 3.0]]
    halved = replace(three, discount=0.5)
    assert ppi_q.returns(codes, halved).tolist() == [[1.0, 0.0, 2.25]]


def test_hand_set_weights_are_the_model_they_should_be():
    stack = hand_set(q=np.arange(10.0).reshape(5, 2))
    with torch.inference_mode():
        features, _ = stack.step(stack.start(5), torch.arange(5)[None])
        heads = stack.read(features)
    assert torch.sigmoid(heads["own"])[0].numpy() == pytest.approx(OWN, abs=1e-5)
    assert torch.sigmoid(heads["reply"])[0].numpy() == pytest.approx(REPLY, abs=1e-5)
    assert heads["q"][0].numpy() == pytest.approx(np.arange(10.0).reshape(5, 2), abs=1e-5)


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("horizon, discount", [(1, 1.0), (15, 1.0), (6, 0.8)])
def test_rollouts_inside_the_model_have_its_exact_q(common, horizon, discount):
    settings = replace(MC, common=common, horizon=horizon, discount=discount)
    q = exact_q(OWN, REPLY, horizon, discount=discount)
    found = estimates(hand_set(), settings)
    assert within(found[0], q[:, 0] - q[:, 1])


def test_common_random_numbers_cut_the_noise():
    """At horizon 1 against a coin that ignores the action they leave none: always -1. Independent
    ones leave an SD of 2 sqrt(2 * 1/4 / K) = 1/2 at K = 8."""
    one = replace(MC, horizon=1, rollouts=8, common=True)
    coin = hand_set(reply=np.full((5, 2), 0.5))
    assert np.allclose(estimates(coin, one), -1.0)
    found = estimates(coin, replace(one, common=False), games=400)
    assert found.mean() == pytest.approx(-1.0, abs=4 * 0.5 / math.sqrt(2000))
    assert found.std() == pytest.approx(0.5, rel=0.1)


def test_noise_of_rollouts_is_that_of_the_specification():
    """Random play: one 15-round return has SD sqrt(15 * 1.25) = 4.33, a difference of two means
    over K has 4.33 sqrt(2 / K)."""
    half = np.full(5, 0.5), np.full((5, 2), 0.5)
    found = estimates(hand_set(*half), replace(MC, rollouts=8), games=400)
    first = found.std() * math.sqrt(8 / 2)
    # The present action is fixed, so its variance of 1/4 is missing from one of the 15 rounds.
    assert first == pytest.approx(math.sqrt(15 * 1.25 - 0.25), rel=0.05)


def test_rollouts_in_the_environment_use_the_true_opponent():
    """The model's replies are wrong here; what counts is the opponent's own vector."""
    agent = np.array([0.3, 0.8, 0.1, 0.6, 0.2])
    truth = np.repeat(agent[[0, 1, 3, 2, 4]][:, None], 2, axis=1)  # in our view, whatever we play
    q = exact_q(OWN, truth, 15)
    vectors = torch.from_numpy(np.tile(agent.astype(np.float32), (1, 200, 1)))
    found = estimates(hand_set(), replace(MC, q="env"), vectors)
    assert within(found[0], q[:, 0] - q[:, 1])


def test_rollouts_in_the_environment_ask_the_partner():
    """Agent 0 plays OWN, agent 1 another policy; each one's Q is that against the other's prior."""
    other = np.array([0.6, 0.5, 0.3, 0.9, 0.2])
    stack = models.join([hand_set(), hand_set(own=other)])
    found = estimates(stack, replace(MC, q="env"), agents=2)
    # Both agents are shown the same observation here, as if both had just seen their own CD.
    for i, (own, theirs) in enumerate(((OWN, other), (other, OWN))):
        seen = theirs[[0, 1, 3, 2, 4]]  # from the second round on, views are swapped
        q = exact_q(own, np.repeat(seen[:, None], 2, axis=1), 14)
        value = own * q[:, 0] + (1 - own) * q[:, 1]
        gain = [-1.0 + theirs[o] * (value[1] - value[3]) for o in range(5)]
        gain = [g + (1 - theirs[o]) * (value[2] - value[4]) for o, g in enumerate(gain)]
        assert within(found[i], np.array(gain))


@pytest.mark.parametrize("sigma, floor", [(1.2, 0.202), (0.6, 0.048), (2.0, 0.309)])
def test_noise_floor_against_an_unresponsive_opponent(sigma, floor):
    """Q(C) - Q(D) = -1 whatever is seen: what cooperates is the noise."""
    assert ppi_q.noise_floor(sigma) == pytest.approx(floor, abs=5e-4)
    cost = ppi_q.SCALE * np.tile([-1.0, 0.0], (5, 1))
    actor = ppi_q.Improved(hand_set(np.full(5, 0.5), q=cost), replace(HEAD, noise=sigma))
    assert played(actor).mean() == pytest.approx(floor, abs=4 * math.sqrt(floor / 40_000))


def played(actor, games=800):
    """Own actions (games, 50) against random opponents."""
    rngs = [[seeding.child(2, name)] for name in ("own", "noise", "replies")]
    table = Table(0, torch.full((1, games, 5), 0.5))
    codes = batch_play.play(actor, table, batch_play.draws(*rngs, table, 50))
    return batch_play.own_actions(codes)[0]


def test_without_noise_the_arg_max_never_cooperates_and_half_is_a_scale():
    cost = ppi_q.SCALE * np.tile([-1.0, 0.0], (5, 1))
    stack = hand_set(np.full(5, 0.5), q=cost)
    assert ppi_q.noise_floor(0.0) == 0.0
    assert not played(ppi_q.Improved(stack, HEAD, scale=0.0)).any()
    half = ppi_q.Improved(stack, HEAD, scale=0.5)
    assert np.array_equal(played(half), played(ppi_q.Improved(stack, replace(HEAD, noise=0.6))))


def test_literal_beta_is_a_null():
    """With the same random numbers the literal policy is the prior in almost every action, though
    Q says D by a wide margin."""
    stack = hand_set(q=ppi_q.SCALE * np.tile([-2.0, 0.0], (5, 1)))
    prior = played(ppi_q.Improved(stack, replace(HEAD, behaviour="prior")))
    literal = played(ppi_q.Improved(stack, replace(HEAD, improvement="literal")))
    assert np.mean(prior != literal) < 0.02
    assert abs(literal.mean() - prior.mean()) < 0.02
    assert played(ppi_q.Improved(stack, replace(HEAD, noise=0.0))).mean() < 0.001 < prior.mean()


def test_rewards_of_rollouts_from_the_model_head_equal_the_payoff_where_the_head_is_right():
    """A model of layout `summed` whose reward head reads the observation without error."""
    shape = replace(MC.model, input="summed", hidden=8)
    stack = models.build(shape, [seeding.child(0)])
    with torch.no_grad():
        for weight in stack.parameters():
            weight.zero_()
        tokens = stack.core.tokens
        tokens.observation.weight[0, range(5), range(5)] = 1.0
        stack.core.input[:, :5, 8:16] = -60.0
        stack.core.input[:, range(5), range(16, 21)] = 60.0
        on = torch.nn.functional.silu(torch.ones(()))
        paid = torch.tensor([0.0, 1.0, -1.0, 2.0, 0.0])
        stack.readout["heads"].weight[0, :5, -1] = paid / on
    payoff = replace(MC, model=shape, rollouts=20)
    head = estimates(stack, replace(payoff, rollout_reward="head"))
    assert head == pytest.approx(estimates(stack, payoff), abs=1e-4) and head.std() > 0.1


def test_rollouts_are_never_without_noise():
    with pytest.raises(ValueError, match="rollouts are never without noise"):
        ppi_q.Improved(hand_set(), MC, scale=0.0)
    assert ppi_q.Improved(hand_set(), MC, scale=0.5).settings.rollouts == 4 * MC.rollouts


def test_games_of_a_state_are_cut_and_branched():
    stack = hand_set()
    state = stack.step(stack.start(3), torch.tensor([[1, 2, 3]]))[1]
    twice = ppi_q.branch(state, 2).hidden
    assert twice.shape[1] == 6 and torch.equal(twice[:, 0], twice[:, 1])
    assert torch.equal(twice[:, 4], state.hidden[:, 2])
    assert torch.equal(ppi_q.first_games(state, 2).hidden, state.hidden[:, :2])


def test_tabular_vectors_are_what_the_environment_shows():
    """Against AllD every rollout of `env` with a cooperating prior costs exactly one a C."""
    always = hand_set(own=np.full(5, 1 - 1e-9))
    vectors = torch.from_numpy(np.tile(tabular.named("AllD").astype(np.float32), (1, 10, 1)))
    found = estimates(always, replace(MC, q="env", rollouts=2), vectors, games=2)
    assert np.allclose(found, -1.0)
