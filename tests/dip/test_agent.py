"""The language model as a player: legal in every phase type, exact probabilities, raw texts."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from dipllm_lib.dip import boards, game, generate, orders, rules, states, text
from dipllm_lib.dip.agent import LMAgent, raw_legality
from dipllm_lib.lm import adapters, backbones, scoring


@pytest.fixture(scope="module")
def backbone():
    torch.set_num_threads(1)
    return backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)


@pytest.fixture(scope="module")
def turns():
    """Turns of all kinds of phases from random play."""
    played = generate.played(400, np.random.default_rng(5), orders=generate.coherent)
    every = [turn for b, _ in played for i in range(0, b.n, 7) for turn in orders.turns(b, i)]
    by_kind = {kind: [t for t in every if t.phase[-1] == kind] for kind in "MRA"}
    return by_kind


def generators(n):
    return [np.random.default_rng([9, i]) for i in range(n)]


def every_joint(turn, prefix=()):
    if len(prefix) == turn.slots:
        return [prefix]
    options = turn.options(prefix).tolist()
    return list(itertools.chain(*(every_joint(turn, (*prefix, o)) for o in options)))


def small(turns, kind, most=400):
    """A turn with 2 to `most` joint orders."""
    for turn in turns[kind]:
        if turn.slots <= 2 and 1 < len(every_joint(turn)) <= most:
            return turn
    raise AssertionError(f"no small turn of kind {kind}")


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_acts_are_legal_and_do_not_depend_on_the_other_turns(backbone, turns, kind):
    agent = LMAgent(backbone, 1.0)
    some = turns[kind][:25]
    found = agent.act(some, generators(len(some)))
    assert len(found) == len(some) > 3
    for turn, joint in zip(some, found, strict=True):
        turn.check(joint)
    assert agent.act(some[3:4], generators(4)[3:]) == found[3:4]
    assert agent.act([], []) == []


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_probabilities_of_a_small_turn_sum_to_one(backbone, turns, kind):
    turn = small(turns, kind)
    for agent in (
        LMAgent(backbone, 1.0),
        LMAgent(backbone, 0.3),
        LMAgent(backbone, 1.0, top_p=0.8),
    ):
        assert np.exp(agent.log_prob(turn, every_joint(turn))).sum() == pytest.approx(1, abs=1e-5)


def test_samples_follow_log_prob(backbone, turns):
    turn, agent = small(turns, "R", most=6), LMAgent(backbone, 1.0)
    joints = every_joint(turn)
    drawn = agent.sample(turn, 600, np.random.default_rng(0))
    shares = np.array([drawn.count(joint) for joint in joints]) / 600
    assert np.abs(shares - np.exp(agent.log_prob(turn, joints))).max() < 0.08


def test_plays_whole_games(backbone):
    """Seven copies of the model, two games to the end of 1902: game.play refuses illegal orders."""
    agent = LMAgent(backbone, 1.0, name="scratch")
    games = game.play([[agent] * 7] * 2, 0, [("lm", g) for g in range(2)], game.EndRules(1902))
    phases = {
        boards.phase_name(p, i)[-1] for g in games for p in [g.positions()] for i in range(p.n)
    }
    assert {"M", "A"} <= phases
    again = game.play([[agent] * 7], 0, [("lm", 1)], game.EndRules(1902))
    assert again[0].orders == games[1].orders


def test_adapters_are_switched():
    backbone = backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)
    turn = orders.turn(rules.start(), 0, 4)
    joint = [tuple(turn.options(())[0] if d == 0 else turn.lists[d][0] for d in range(3))]
    base = LMAgent(backbone, 1.0).log_prob(turn, joint)
    for seed, name in enumerate(("first", "second")):
        adapters.attach(backbone, name, 2)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for _, p in adapters.trainable(backbone):
                p.add_(0.3 * torch.randn(p.shape, generator=generator))
    found = {
        n: LMAgent(backbone, 1.0, adapter=n).log_prob(turn, joint) for n in ("first", "second", "")
    }
    assert found[""] == base
    assert len({float(x[0]) for x in found.values()}) == 3


def test_raw_legality_counts_by_hand(backbone, monkeypatch):
    """Three orders are due; the model's texts are given: all legal, one legal, none, no end."""
    turn = orders.turn(rules.start(), 0, 3)
    texts = [
        " A Ber Kie ; A Mun H ; F Kie Den\n",
        " A Ber Kie ; A Mun Par ; F Kie Den\n",
        " A Ber Mos\n",
        " A Ber H ; A Mun H ; F Kie H ;",
    ]
    monkeypatch.setattr(scoring, "sample_text", lambda *_: [backbone.encode(t) for t in texts])
    table = raw_legality(backbone, [turn] * 4, generators(4))
    wanted = {
        "phase": ["S1901M"] * 4,
        "power": ["GERMANY"] * 4,
        "slots": [3] * 4,
        "legal_orders": [3, 1, 0, 2],
        "all_legal": [True, False, False, False],
    }
    pd.testing.assert_frame_equal(table, pd.DataFrame(wanted))


def test_raw_legality_of_an_untrained_model(backbone, turns):
    table = raw_legality(backbone, turns["M"][:5], generators(5))
    assert len(table) == 5 and (table.legal_orders <= table.slots).all()


def test_bad_temperature(backbone):
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        LMAgent(backbone, 0)


def test_state_and_board_prompt_agree(backbone):
    """The agent reads what the samples of fine-tuning are made of."""
    turn = orders.turn(rules.start(), 0, 0)
    saved = states.from_state(states.to_state(rules.start()))
    assert text.prompt(turn) == text.prompt(orders.turn(saved, 0, 0))
