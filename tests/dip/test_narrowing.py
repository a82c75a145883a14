"""Candidates of a language model: of an anchor given the orders so far, of a search."""

import numpy as np
import pytest

from dipllm_lib.dip import anchor, generate, orders, policies, text
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.dip.narrowing import Narrowing
from dipllm_lib.dip.search_settings import SearchSettings
from dipllm_lib.lm import backbones

SEARCH = SearchSettings(iterations=2, candidates=4, ratio=3.0, draws=12, lam=0.01)


@pytest.fixture(scope="module")
def backbone():
    return backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)


@pytest.fixture(scope="module")
def soft():
    return policies.SoftDumbBot(0.2, 0.05)


@pytest.fixture(scope="module")
def turns():
    """Turns of all kinds of phases from random play."""
    played = generate.played(300, np.random.default_rng(5), orders=generate.coherent)
    every = [turn for b, _ in played for i in range(0, b.n, 7) for turn in orders.turns(b, i)]
    return {kind: [t for t in every if t.phase[-1] == kind][:12] for kind in "MRA"}


def generators(n):
    return [np.random.default_rng([9, i]) for i in range(n)]


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_conditionals_multiply_to_the_joint_probability(turns, soft, kind):
    for player in (soft, anchor.human()):
        for turn in turns[kind][:4]:
            joint = player.sample(turn, 1, np.random.default_rng(0))[0]
            total = 0.0
            for slot, order in enumerate(joint):
                shares = player.conditional(turn, joint[:slot])
                options = turn.options(joint[:slot]).tolist()
                assert shares.sum() == pytest.approx(1) and len(shares) == len(options)
                total += np.log(shares[options.index(order)])
            assert total == pytest.approx(player.log_prob(turn, [joint])[0], abs=1e-5)


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_anchor_leaves_the_most_probable(turns, soft, kind):
    narrowing = Narrowing("anchor", soft, limit=3)
    for turn, left in zip(turns[kind], narrowing.turns(turns[kind], None), strict=True):
        prefix: orders.Joint = ()
        while len(prefix) < turn.slots:
            legal, kept = turn.options(prefix), left.options(prefix)
            shares = dict(zip(legal.tolist(), soft.conditional(turn, prefix), strict=True))
            assert len(kept) == min(3, len(legal)) and (np.diff(kept) > 0).all()
            worst = min(shares[order] for order in kept.tolist())
            assert all(shares[o] <= worst for o in set(legal.tolist()) - set(kept.tolist()))
            prefix += (int(kept[0]),)


@pytest.mark.parametrize("kind", ["M", "R", "A"])
def test_the_model_keeps_to_the_candidates(backbone, turns, soft, kind):
    agent = LMAgent(backbone, 1.0, narrowing=Narrowing("anchor", soft, limit=2))
    found = agent.act(turns[kind], generators(len(turns[kind])))
    for turn, joint in zip(turns[kind], found, strict=True):
        turn.check(joint)
        for slot, order in enumerate(joint):
            shares = soft.conditional(turn, joint[:slot])
            rank = np.argsort(-shares, kind="stable").tolist()
            assert rank.index(turn.options(joint[:slot]).tolist().index(order)) < 2
        logs = agent.log_prob(turn, [joint])
        assert np.isfinite(logs).all()


def test_orders_taken_away_have_probability_zero(backbone, turns, soft):
    turn = next(t for t in turns["M"] if len(t.options()) > 2)
    agent = LMAgent(backbone, 1.0, narrowing=Narrowing("anchor", soft, limit=1))
    best: orders.Joint = ()
    while len(best) < turn.slots:
        best += (int(turn.options(best)[np.argmax(soft.conditional(turn, best))]),)
    other = next(int(o) for o in turn.options() if o != best[0])
    assert agent.log_prob(turn, [best, (other, *best[1:])]).tolist() == [0.0, -np.inf]
    with pytest.raises(ValueError, match="illegal order"):
        agent.log_prob(turn, [(orders.WAIVE_ID, *best[1:])])


def test_search_candidates_agree_with_the_orders_so_far(backbone, turns, soft):
    """What is said is one of the candidates of the search, which are drawn from a child."""
    narrowing = Narrowing("search", soft, settings=SEARCH)
    some = turns["M"][:5]
    agent = LMAgent(backbone, 1.0, narrowing=narrowing)
    found = agent.act(some, generators(5))
    left = narrowing.turns(some, generators(5))
    for joint, own in zip(found, left, strict=True):
        assert own.offers(joint)
    assert agent.act(some[2:3], generators(5)[2:3]) == found[2:3]
    with pytest.raises(ValueError, match="drawn anew"):
        agent.log_prob(some[0], [found[0]])
    with pytest.raises(ValueError, match="no candidate for slot 1"):
        left[0].options((-5,))


def test_bad_narrowings_are_one_line(soft):
    for arguments, message in (
        (("paper",), "unknown candidates 'paper'"),
        (("anchor",), "need an anchor"),
        (("search", soft), "need the settings of a search"),
        (("anchor", soft, 0), "at least one"),
    ):
        with pytest.raises(ValueError, match=message):
            Narrowing(*arguments)
