"""Games of stacked agents: the same games as `game.play`, shared between partners, in any chunk."""

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import batch_play, game, tabular
from dipllm_lib.ipd.batch_play import Draws, MemoryOne, Table
from dipllm_lib.run import seeding

TFT, WSLS, ALLD = (tabular.named(name) for name in ("TFT", "WSLS", "AllD"))


def streams(agents, name):
    return [seeding.child(4, name, i) for i in range(agents)]


def seats(agents=4, learners=30, others=20, rounds=12):
    drawn = [tabular.sample("uniform", others, rng) for rng in streams(agents, "pool")]
    table = Table(learners, torch.from_numpy(np.stack(drawn).astype(np.float32)))
    names = ("own", "noise", "replies")
    return table, batch_play.draws(*(streams(agents, name) for name in names), table, rounds)


class Given:
    """A generator that gives the numbers it was handed, once each."""

    def __init__(self, numbers):
        self.numbers = numbers

    def random(self, size):
        assert size == self.numbers.shape
        return self.numbers


def test_a_batch_is_the_games_of_game_play():
    """Two ways, the same uniform numbers: every seat of every game, action by action."""
    table, chance = seats()
    noisy = tabular.tremble(TFT, 0.2)[0]
    codes = batch_play.play(MemoryOne(noisy), table, chance)
    own, replies = (x.permute(1, 2, 0).numpy() for x in (chance.own, chance.tabular))
    player = tabular.Tabular(noisy.astype(np.float32))
    for i in range(4):
        shared = (Given(own[i, :30]), Given(own[i ^ 1, :30]))
        met = game.play(player, player, 30, 12, shared)
        assert np.array_equal(codes[i, :30], game.outcome(met.left, met.right))
        others = tabular.Tabular(table.vectors[i].numpy())
        met = game.play(player, others, 20, 12, (Given(own[i, 30:]), Given(replies[i])))
        assert np.array_equal(codes[i, 30:], game.outcome(met.left, met.right))


def test_partners_see_one_game_from_two_seats():
    table, chance = seats()
    codes = batch_play.play(MemoryOne(tabular.tremble(WSLS, 0.3)[0]), table, chance)[:, :30]
    assert np.array_equal(codes[[1, 0, 3, 2]], game.swap(codes))
    assert len(np.unique(codes)) == 4


def test_exact_sequences_against_a_rival():
    """TFT against AllD: CD, then DD. Only the games against learners meet the rival."""
    table, chance = seats(agents=3, learners=2, others=1, rounds=5)
    table = Table(2, torch.from_numpy(np.tile(WSLS.astype(np.float32), (3, 1, 1))))
    luck = Draws(chance.own[:, :, :2], chance.noise[:, :, :2], chance.tabular[:, :, :0])
    codes = batch_play.play(MemoryOne(TFT), table, chance, rival=(MemoryOne(ALLD), luck))
    assert (codes[:, :2] == [game.CD, game.DD, game.DD, game.DD, game.DD]).all()
    assert (codes[:, 2] == game.CC).all()


def test_chunks_do_not_change_a_game():
    table, chance = seats()
    actor = MemoryOne(tabular.tremble(TFT, 0.2)[0])
    whole = batch_play.play(actor, table, chance)
    for chunk in (7, 30, 49):
        actor.chunk = chunk
        assert np.array_equal(batch_play.play(actor, table, chance), whole)


def test_draws_of_an_agent_depend_on_its_generators_only():
    """Another stack size or another share of tabular games leaves own numbers as they are."""
    small, large = seats(agents=2)[1], seats(agents=4)[1]
    assert torch.equal(small.own, large.own[:, :2]) and torch.equal(small.noise, large.noise[:, :2])
    other_share = seats(learners=10, others=40)[1]
    assert torch.equal(other_share.own, large.own)


def test_codes_are_taken_apart_and_moved():
    codes = np.array([[game.CC, game.CD, game.DC, game.DD]], dtype=np.uint8)
    assert batch_play.own_actions(codes).tolist() == [[1, 1, 0, 0]]
    assert batch_play.other_actions(codes).tolist() == [[1, 0, 1, 0]]
    assert batch_play.before(codes).tolist() == [[game.S0, game.CC, game.CD, game.DC]]


def test_agents_without_a_partner_are_refused():
    with pytest.raises(ValueError, match="3 agents cannot be paired"):
        batch_play.play(MemoryOne(TFT), *seats(agents=3))
