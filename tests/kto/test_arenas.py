"""Games of the tabular league: exact values two ways, labels, swapped roles, play."""

import numpy as np
import pytest

from dipllm_lib.kto import (
    arena_bargaining,
    arena_repeated,
    arenas,
    bargainers,
    bargaining_exact,
    humans,
    league_members,
    prospect,
    repeated,
)
from dipllm_lib.kto.arena_bargaining import BargainingArena
from dipllm_lib.kto.arena_repeated import RepeatedArena
from dipllm_lib.kto.arena_ultimatum import UltimatumArena, responder
from dipllm_lib.kto.repeaters import Repeaters
from dipllm_lib.run import seeding

ULTIMATUM, REPEATED, BARGAINING = UltimatumArena(), RepeatedArena(0.9), BargainingArena(5, 10, 0.9)
ALL = (ULTIMATUM, REPEATED, BARGAINING)


def random_player(arena, *names):
    rng = seeding.child(0, "arena", arena.name, *names)
    return tuple(rng.dirichlet(np.ones(shape[1]), size=shape[0]) for shape in arena.shapes)


def test_ultimatum_by_hand():
    people = responder(humans.ultimatum_responder(humans.OFFERS))
    assert people[0][0].argmax() == 2  # .20 is taken by 58.5 %, .10 by 39.9 %
    fair = (arenas.point(5, 11)[None], arenas.answers(np.ones(11)))
    # in seat 0: half of .9909; in seat 1 people offer .20, and everything is taken
    assert ULTIMATUM.payoffs(fair, people) == pytest.approx([0.5 * (1 - 13 / 1430), 0.2])
    assert ULTIMATUM.best(people) == pytest.approx([0.6 * (1 - 60 / 1430), 0.2])
    assert arenas.regret(ULTIMATUM, fair, people) == pytest.approx(
        (0.57483 - 0.49545) / 2, abs=1e-5
    )


def test_ultimatum_roles_swapped():
    people = responder(humans.ultimatum_responder(humans.OFFERS))
    swapped = ULTIMATUM.swapped(people)
    assert swapped[1][:, 0].tolist() == [0, 0, *[1.0] * 9]  # takes what it offered, .20, or more
    assert np.cumsum(swapped[0][0])[:6] == pytest.approx(people[1][:6, 0] / people[1][5, 0])


def test_repeated_values_agree_with_the_chain_and_with_a_long_game():
    one = random_player(REPEATED, "one")
    partners = np.stack([random_player(REPEATED, str(k))[0][:, 0] for k in range(3)])
    quality, worth = REPEATED.values(one, partners)
    exact, _ = repeated.pair_values(REPEATED.game, one[0][:, 0], partners)
    assert worth[:, 0] == pytest.approx(exact, abs=1e-12)
    assert (one[0] * quality).sum(axis=2) == pytest.approx(worth, abs=1e-12)
    assert REPEATED.visits(one, partners).sum(axis=1) == pytest.approx(np.ones(3))
    # the mean over the rounds of a long game is the limit of the discounted mean for delta -> 1
    slow, rounds = RepeatedArena(0.999), 4000
    long = Repeaters(partners, rounds).visits(np.tile(one[0], (3 * rounds, 1))).mean(axis=1)
    assert slow.visits(one, partners) == pytest.approx(long, abs=2e-3)


def test_the_best_repeated_action_is_the_dynamic_programme_s():
    tit_for_tat = arena_repeated.member(np.array([1.0, 1, 0, 1, 0]))
    always = arena_repeated.member(np.ones(5))
    quality, _ = REPEATED.values(always, tit_for_tat[0][None, :, 0])
    exact = repeated.action_values(REPEATED.game, tit_for_tat[0][:, 0])[0]
    assert quality[0] * 10 == pytest.approx(exact)  # to go on with AllC is best from everywhere
    assert REPEATED.best(tit_for_tat) == pytest.approx([3.0, 3.0])


def test_repeated_data_are_the_policy_gradient_of_the_mean_over_partners():
    own, partners = random_player(REPEATED, "own"), [random_player(REPEATED, n) for n in "ab"]
    neutral = RepeatedArena(0.9, prospect.NEUTRAL)
    data = neutral.data(own, partners, np.array([0.3, 0.7]), 0, None)[0]
    assert data.mass.sum() == pytest.approx(1.0)
    weight = np.zeros((5, 2))
    np.add.at(weight, (data.rows, data.actions), data.mass * data.values)

    def value(table):
        both = [neutral.payoffs((table,), p)[0] for p in partners]
        return (0.3 * both[0] + 0.7 * both[1]) / neutral.scale

    step = 1e-6
    for row in range(5):
        up, down = own[0].copy(), own[0].copy()
        up[row] += [step, -step]
        down[row] -= [step, -step]
        slope = (value(up) - value(down)) / (2 * step)
        # dJ/dp of C minus of D is sum d(o) (Q_C - Q_D), in scaled payoffs over 1 - delta
        advantage = weight[row, 0] / own[0][row, 0] - weight[row, 1] / own[0][row, 1]
        assert slope * 0.1 == pytest.approx(advantage, rel=1e-5)


def test_swapped_repeated_player_answers_the_mirror_image():
    player = arena_repeated.member(np.array([0.5, 0.9, 0.2, 0.7, 0.1]))
    assert REPEATED.swapped(player)[0][:, 0] == pytest.approx([0.5, 0.9, 0.7, 0.2, 0.1])


def test_bargaining_agrees_with_the_pairs_and_with_backward_induction():
    one, two = random_player(BARGAINING, "one"), random_player(BARGAINING, "two")
    keep, accept = np.empty((5, 1, 11)), np.empty((5, 1, 11))
    for t in range(5):
        first, second = (one, two) if t % 2 == 0 else (two, one)
        keep[t, 0], accept[t, 0] = first[0][t], second[1][:, 0].reshape(5, 11)[t]
    pairs = bargainers.Pairs([BARGAINING.game], [(prospect.ARTICLE,) * 2])
    paid = bargainers.payoffs(pairs, bargainers.Learned(keep, accept))[0]
    assert BARGAINING.payoffs(one, two)[0] == pytest.approx(paid[0])
    assert BARGAINING.payoffs(two, one)[1] == pytest.approx(paid[1])
    accepts = two[1][:, 0].reshape(5, 11)
    for seat in (0, 1):
        values = bargaining_exact.reply_values(BARGAINING.game, seat, two[0], accepts)
        most = values.keep[0].max() if seat == 0 else two[0][0] @ values.answer[0].max(axis=1)
        assert BARGAINING.best(two)[seat] == pytest.approx(most)


def test_bargaining_labels_have_mean_zero_in_every_row_under_neutral_values():
    neutral = BargainingArena(3, 10, 0.9, prospect.NEUTRAL)
    own, other = random_player(neutral, "own"), random_player(neutral, "other")
    for data, table in zip(neutral.data(own, [other], np.ones(1), 0, None), own, strict=True):
        assert data.mass.sum() == pytest.approx(1.0)
        gain = np.bincount(data.rows, data.mass * data.values)
        assert gain == pytest.approx(np.zeros(len(table)), abs=1e-15)


def test_swapped_bargainer():
    tough = arena_bargaining.bargainer(BARGAINING, 0.7, 0.6)
    keeps, takes = BARGAINING.swapped(tough)
    assert takes[:11, 0].tolist() == [1.0] * 8 + [0.0] * 3  # lets the other keep up to .7
    assert keeps[0].argmax() == 4 and keeps[0].max() == 1.0  # what it let the other keep


@pytest.mark.parametrize("arena", ALL, ids=lambda a: a.name)
def test_play_agrees_with_the_exact_payoffs(arena):
    players = [random_player(arena, str(k)) for k in range(3)]
    paid = arena.play(players, 4000, seeding.child(0, "play"))
    exact = np.array([[arena.payoffs(a, b) for b in players] for a in players])
    error = paid.std(axis=2).max() / np.sqrt(4000)
    assert paid[..., 0].mean(axis=2) == pytest.approx(exact[..., 0], abs=4.5 * error)
    assert paid[..., 1].mean(axis=2) == pytest.approx(exact[..., 1].T, abs=4.5 * error)


@pytest.mark.parametrize("arena", ALL, ids=lambda a: a.name)
def test_every_member_and_its_swap_fit_the_game(arena):
    members = league_members.scripted(arena) + league_members.held_out(arena)
    for member in members:
        arenas.check(arena, member.player)
        arenas.check(arena, arena.swapped(member.player))
        for data in arena.blind(member.player):
            assert data.unit and data.mass.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="need"):
        arenas.check(arena, members[0].player[:0])
    broken = tuple(2 * table for table in members[0].player)
    with pytest.raises(ValueError, match="distribution"):
        arenas.check(arena, broken)
