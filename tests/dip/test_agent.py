"""The language model as a player: legal in every phase type, exact probabilities, raw texts."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from dipllm_lib.dip import (
    boards,
    candidates,
    game,
    generate,
    orders,
    policies,
    rules,
    search,
    states,
    text,
    value,
)
from dipllm_lib.dip.agent import LMAgent, legality_by_kind, raw_legality, with_search
from dipllm_lib.lm import adapters, backbones, decoding, scoring


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


def test_legality_by_kind_by_hand():
    found = pd.DataFrame({
        "phase": ["W1902A", "S1902M", "F1902M", "S1903M"],
        "power": ["ITALY"] * 4,
        "slots": [1, 4, 2, 2],
        "legal_orders": [1, 4, 0, 1],
        "all_legal": [True, True, False, False],
    })
    wanted = pd.DataFrame(
        {
            "turns": [3, 1],
            "orders": [8, 1],
            "legal_orders": [5 / 8, 1.0],
            "all_legal": [1 / 3, 1.0],
        },
        index=pd.Index(["movement", "adjustments"], name="phase"),
    )
    pd.testing.assert_frame_equal(legality_by_kind(found), wanted)


def test_raw_texts_of_the_most_probable_tokens(backbone, turns):
    """Temperature 0 does not depend on the generators."""
    first, second = (
        raw_legality(backbone, turns["A"][:3], rngs, temperature=0)
        for rngs in (generators(3), generators(5)[2:])
    )
    pd.testing.assert_frame_equal(first, second)


def test_many_turns_at_once_as_a_search_asks(backbone, turns):
    """Turns of one position share a generator; what each is given equals what it says alone."""
    agent, own = LMAgent(backbone, 1.0), orders.turns(turns["M"][0].boards)
    assert isinstance(agent, candidates.Batched)
    drawn = agent.samples(own, 5, [np.random.default_rng(4)] * len(own))
    again = agent.samples(own, 5, [np.random.default_rng(4)] * len(own))
    assert drawn == again and len({tuple(joints) for joints in drawn}) == len(own)
    assert agent.samples(own[:1], 5, [np.random.default_rng(4)]) == drawn[:1]
    found = agent.log_probs(own, drawn)
    for turn, joints, logs in zip(own, drawn, found, strict=True):
        assert np.allclose(logs, agent.log_prob(turn, joints), atol=1e-5)
    assert agent.log_probs([], []) == [] and agent.samples([], 3, []) == []


def test_search_on_top(backbone):
    """The model is the anchor and gives the candidates; with 0 iterations it plays itself."""
    agent, start = LMAgent(backbone, 0.1, adapter=None), rules.start()
    settings = search.SearchSettings(iterations=9, candidates=4, ratio=2.0, draws=8, lam=0.01)
    assert with_search(agent, value.heuristic, settings, 0) is agent
    player = with_search(agent, value.heuristic, settings, 3)
    player.keep = True
    for turn, joint in zip(
        orders.turns(start), player.act(orders.turns(start), generators(7)), strict=True
    ):
        turn.check(joint)
    (record,) = player.records
    mine = {turn.power: turn for turn in orders.turns(start)}
    assert len(record.regret) == 3
    for power in record.powers:
        logs = LMAgent(backbone, 1.0).log_prob(mine[power.power], power.candidates)
        shares = np.exp(logs) / np.exp(logs).sum()
        assert np.allclose(np.exp(power.log_tau), shares, atol=1e-5)


def test_others_play_what_is_not_movement(backbone, turns):
    hold = policies.Hold()
    agent = LMAgent(backbone, 1.0, others=hold)
    mixed = [turns["M"][0], turns["R"][0], turns["M"][1], turns["A"][0]]
    found = agent.act(mixed, generators(4))
    alone = LMAgent(backbone, 1.0).act(mixed, generators(4))
    assert [found[0], found[2]] == [alone[0], alone[2]]
    for k in (1, 3):
        assert found[k] == hold.act([mixed[k]], generators(4)[k : k + 1])[0]


def test_a_power_without_units_is_not_asked(backbone):
    """Italy has lost everything: six turns, and no draw of Italy's generator."""
    state = states.to_state(rules.start())
    state["units"]["ITALY"], state["centers"]["ITALY"] = [], []
    own = orders.turns(states.from_state(state))
    assert [turn.name for turn in own].count("ITALY") == 0 and len(own) == 6
    for turn, joint in zip(own, LMAgent(backbone, 1.0).act(own, generators(6)), strict=True):
        turn.check(joint)


def test_no_legal_order_is_one_line(backbone):
    """An order that is no beginning of a joint order, and an empty list of a unit."""
    turn = orders.turn(rules.start(), 0, 0)
    empty = dataclasses.replace(turn, lists=(turn.lists[0][:0], *turn.lists[1:]))
    with pytest.raises(ValueError, match="no legal order for slot 0"):
        LMAgent(backbone, 1.0).act([empty], generators(1))


def test_one_option_in_each_slot_costs_no_pass(backbone, monkeypatch):
    turn = orders.turn(rules.start(), 0, 0)
    forced = dataclasses.replace(turn, lists=tuple(ids[:1] for ids in turn.lists))
    monkeypatch.setattr(decoding.Cache, "read", lambda *_: pytest.fail("a pass"))
    (joint,) = LMAgent(backbone, 1.0).act([forced], generators(1))
    assert joint == tuple(int(ids[0]) for ids in turn.lists)
