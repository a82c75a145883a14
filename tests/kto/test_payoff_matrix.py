"""Payoff matrices: exact entries, pairing of seats and episodes, intervals."""

import numpy as np
import pytest

from dipllm_lib.kto import league_members, payoff_matrix
from dipllm_lib.kto.arena_bargaining import BargainingArena
from dipllm_lib.kto.arena_repeated import RepeatedArena
from dipllm_lib.kto.arena_ultimatum import UltimatumArena
from dipllm_lib.run import seeding

ARENAS = (UltimatumArena(), RepeatedArena(0.75), BargainingArena(4, 10, 0.9))


@pytest.mark.parametrize("arena", ARENAS, ids=lambda a: a.name)
def test_played_means_lie_near_the_exact_ones(arena):
    members = league_members.scripted(arena)
    table = payoff_matrix.table(arena, members, 600, 300, seeding.child(0, "matrix"))
    assert len(table) == len(members) ** 2 and (table["episodes"] == 600).all()
    assert (table["low"] <= table["mean"] + 1e-12).all()
    assert (table["mean"] <= table["high"] + 1e-12).all()
    inside = table["exact"].between(table["low"] - 1e-9, table["high"] + 1e-9)
    assert inside.mean() > 0.8
    assert (table["exact"] - table["mean"]).abs().max() < 0.2 * arena.scale


def test_known_entries_of_the_repeated_dilemma():
    arena = RepeatedArena(0.75)
    members = [m for m in league_members.scripted(arena) if m.name in ("AllC", "AllD", "TFT")]
    exact = payoff_matrix.exact(arena, members)
    # AllD gets 5 once and 1 ever after from TFT: .25 * 5 + .75; TFT 0 and then 1
    assert exact == pytest.approx(np.array([[3, 0, 3], [5, 1, 2.0], [3, 0.75, 3]]))
    paid = payoff_matrix.played(arena, members, 50, seeding.child(1, "matrix"))
    assert paid.shape == (3, 3, 50)
    # all pairs of an episode have the same length, and a pair with itself the same payoff
    length = paid[0, 0] / 3
    assert paid[1, 1] == pytest.approx(length) and paid[1, 0] == pytest.approx(5 * length)


def test_both_seats_enter_and_pairs_meet_the_same_numbers():
    arena = UltimatumArena()
    members = league_members.scripted(arena)
    paid = payoff_matrix.played(arena, members, 40, seeding.child(2, "matrix"))
    raw = arena.play([m.player for m in members], 40, seeding.child(2, "matrix"))
    assert paid[1, 3] == pytest.approx((raw[1, 3, :, 0] + raw[3, 1, :, 1]) / 2)
    twin = arena.play([members[0].player] * 2, 40, seeding.child(2, "matrix"))
    assert (twin[0, 1] == twin[1, 0]).all()


def test_intervals_cover_the_mean_of_normal_numbers():
    rng = seeding.child(3, "matrix")
    low, high = payoff_matrix.intervals(rng.standard_normal((200, 100)), rng, 400)
    assert low.shape == (200,) and 0.88 < ((low < 0) & (high > 0)).mean() < 0.99
    low, high = payoff_matrix.intervals(np.full((1, 5), 2.0), rng, 10)
    assert (low, high) == (2.0, 2.0)
    with pytest.raises(ValueError, match="resamples"):
        payoff_matrix.intervals(np.zeros((1, 5)), rng, 0)
    with pytest.raises(ValueError, match="episodes"):
        payoff_matrix.played(ARENAS[0], league_members.scripted(ARENAS[0]), 0, rng)
