"""Rounds of the league: shares, held-out players, arms, and going on after a stop."""

import json

import numpy as np
import pytest

from dipllm_lib.kto import arenas, league, league_members, proposers
from dipllm_lib.kto.arena_ultimatum import responder
from dipllm_lib.kto.league import League, Sizes
from dipllm_lib.kto.tabular import Learner, Objective
from dipllm_lib.run import seeding

SIZES = Sizes(12, 2, 100, objective=Objective(rate=0.2, steps=3))


def arena(game="repeated"):
    return league_members.arena(game, 10, (3, 10), 0.9)


def tables(own):
    return [table.tolist() for table in own.logits]


@pytest.mark.parametrize("game", league_members.GAMES)
def test_going_on_is_the_same_as_never_stopping(game):
    whole = League(arena(game), "pool", 3, SIZES)
    for _ in range(4):
        whole.play_round()
    part = League(arena(game), "pool", 3, SIZES)
    part.play_round()
    part.play_round()
    kept = json.loads(json.dumps(part.state()))
    rest = league.resumed(arena(game), "pool", 3, SIZES, kept)
    assert rest.weights().tolist() == part.weights().tolist()
    rest.play_round()
    rest.play_round()
    assert rest.state() == whole.state() and rest.round == 4


def test_held_out_players_are_never_met(monkeypatch):
    game, met = arena(), []
    original = type(game).data

    def watched(self, player, partners, *rest):
        met.extend(partners)
        return original(self, player, partners, *rest)

    monkeypatch.setattr(type(game), "data", watched)
    own = League(game, "pool", 0, SIZES)
    weights = [own.play_round() for _ in range(3)]
    names = {m.name for m in league_members.held_out(game)}
    assert met and not any(names & set(w) for w in weights)
    for unseen in league_members.held_out(game):
        assert not any(np.array_equal(p[0], unseen.player[0]) for p in met)


@pytest.mark.parametrize("game", league_members.GAMES)
def test_learned_members_get_their_share_and_no_more(game):
    own = League(arena(game), "pool, uniform", 1, Sizes(20, 1, 50, objective=SIZES.objective))
    for _ in range(4):
        own.play_round()
    learned = np.array([m.learned for m in own.members])
    assert {m.kind for m in own.members} >= {"snapshot", "swapped", "exploiter", "scripted", "base"}
    weights = own.weights()
    assert weights.sum() == pytest.approx(1.0)
    assert learned.mean() > 0.15 and weights[learned].sum() == pytest.approx(0.15)


def test_an_exploiter_gains_more_from_its_target_than_the_reference_did():
    game = arena()
    own = League(game, "pool", 0, Sizes(12, 10, 500, objective=Objective(rate=0.5)))
    start = own.logits
    target = league_members.scripted(game)[0].player  # AllC
    found = own.exploiter(target, start)
    assert arenas.regret(game, found, target) < 0.5 * arenas.regret(game, own.player, target)
    assert [t.tolist() for t in own.logits] == [t.tolist() for t in start]


def test_self_play_meets_itself_and_no_play_meets_nobody(monkeypatch):
    game, met = arena(), []
    original = type(game).data

    def watched(self, player, partners, shares, *rest):
        met.append((player, partners, shares.tolist()))
        return original(self, player, partners, shares, *rest)

    monkeypatch.setattr(type(game), "data", watched)
    own = League(game, "self-play", 0, SIZES)
    assert own.play_round() == {} and own.members == []
    assert len(met) == 2 and all(partners == [me] and s == [1.0] for me, partners, s in met)
    blind = League(game, "no play", 0, SIZES)
    blind.play_round()
    assert len(met) == 2
    like = blind.player[0][:, 0] > 0.5
    assert like.tolist() == [True, True, False, True, False]


def test_seeds_and_arms_differ_and_a_seed_repeats():
    def after(arm, seed):
        own = League(arena(), arm, seed, SIZES)
        own.play_round()
        return tables(own)

    assert after("pool", 0) == after("pool", 0)
    assert after("pool", 0) != after("pool", 1)
    assert after("pool", 0) != after("pool, uniform", 0)
    assert after("no play", 0) == after("no play", 1)


@pytest.mark.parametrize(("share", "offer"), [(0.15, 0.4), (0.6, 0.3), (0.705, 0.2), (0.8, 0.1)])
def test_the_offer_follows_the_share_of_partners_that_take_everything(share, offer):
    game = arena("ultimatum")
    found = {m.name: m.player for m in league_members.scripted(game)}
    partners = [found["people"], responder(proposers.OFFERS > 0)]
    learners = [Learner(np.zeros(shape)) for shape in game.shapes]
    for _ in range(60):
        own = tuple(learner.probs for learner in learners)
        data = game.data(own, partners, np.array([1 - share, share]), 0, None)
        learners[0].optimise(data[0], Objective())
    learned = float(proposers.OFFERS[learners[0].probs[0].argmax()])
    assert learned == offer
    assert learned == proposers.best_offer(share, 0.5, game.params)


def test_matches_are_drawn_by_weight():
    weights = np.array([0.7, 0.3, 0.0])
    shares = league._drawn(weights, 1000, seeding.child(0, "drawn"))
    assert shares.sum() == pytest.approx(1.0) and shares[2] == 0
    assert shares[0] == pytest.approx(0.7, abs=0.05)
    assert league._drawn(weights, 0, seeding.child(0, "drawn")) is weights


def test_a_round_starts_with_a_share_of_uniform_play():
    logits = (np.log(np.array([[0.98, 0.02]] * 5)),)
    own = League(arena(), "pool", 0, SIZES, logits)
    assert own._learners(logits)[0].probs[0] == pytest.approx([0.932, 0.068])  # .9 p + .05
    assert own.player[0][0] == pytest.approx([0.98, 0.02])  # it is judged as it is


def test_refused():
    with pytest.raises(ValueError, match="unknown arm 'solo'"):
        League(arena(), "solo", 0)
    with pytest.raises(ValueError, match="at least 1"):
        Sizes(updates=0)
    with pytest.raises(ValueError, match="share 1.0 of uniform play"):
        Sizes(mix=1.0)
