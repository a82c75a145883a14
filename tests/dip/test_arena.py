"""Outcome measures by hand, seats, pairing, fairness, intervals."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.dip import arena, atlas, game, policies
from dipllm_lib.run import seeding

ANCHOR = policies.SoftDumbBot(0.07, 0.02)
END = game.EndRules(1903)


def outcome(*held, power=0):
    return arena.outcome(np.array(held), power)


def test_measures_by_hand():
    ahead = outcome(10, 8, 6, 5, 5, 0, 0)
    assert ahead["sos"] == ahead["sos_solo"] == pytest.approx(100 / 250)
    assert (ahead["win"], ahead["most_sc"], ahead["survived"], ahead["defeated"]) == (0, 1, 1, 0)
    assert ahead["centres"] == 10
    second = outcome(8, 10, 6, 5, 5, 0, 0)
    assert (second["most_sc"], second["survived"]) == (0, 1)
    tied = outcome(10, 10, 6, 4, 4, 0, 0)
    assert tied["most_sc"] == 1
    winner = outcome(18, 16, 0, 0, 0, 0, 0)
    assert winner["sos"] == pytest.approx(324 / 580) and winner["sos_solo"] == 1
    assert (winner["win"], winner["most_sc"], winner["survived"], winner["defeated"]) == (
        1,
        0,
        0,
        0,
    )
    beaten = outcome(18, 16, 0, 0, 0, 0, 0, power=1)
    assert beaten["sos_solo"] == 0 and beaten["sos"] == pytest.approx(256 / 580)
    assert (beaten["most_sc"], beaten["survived"], beaten["defeated"]) == (0, 1, 0)
    gone = outcome(18, 16, 0, 0, 0, 0, 0, power=2)
    assert (gone["survived"], gone["defeated"], gone["sos"]) == (0, 1, 0)


def test_outcomes_are_exclusive_and_complete():
    rng = np.random.default_rng(0)
    for _ in range(200):
        held = rng.multinomial(34, rng.dirichlet(np.full(7, 0.5)))
        for power in range(7):
            found = arena.outcome(held, power)
            assert found["win"] + found["survived"] + found["defeated"] == 1


def test_unbalanced_seats_are_refused():
    assert arena.seats(14) == list(range(7)) * 2
    for games in (0, 6, 8):
        with pytest.raises(ValueError, match=f"{games} games leave seats unbalanced"):
            arena.one_vs_six(ANCHOR, ANCHOR, games, END, 0)
    rows = pd.DataFrame({"one": "a", "six": "b", "power": ["FRANCE"] * 7})
    with pytest.raises(ValueError, match="seats are unbalanced"):
        arena.summary(rows, np.random.default_rng(0), 10)


def test_an_agent_under_two_names_plays_identical_games():
    other = policies.SoftDumbBot(0.07, 0.02, name="twin")
    first = arena.play(ANCHOR, policies.Hold(), 7, END, 4)
    second = arena.play(other, policies.Hold(), 7, END, 4)
    for a, b in zip(first, second):
        saved, again = a.to_saved(), b.to_saved()
        assert saved["phases"] == again["phases"]
        assert saved["agents"] != again["agents"]
    one = arena.table(first, "x", "y").drop(columns=["one", "six"])
    two = arena.table(second, "p", "q").drop(columns=["one", "six"])
    pd.testing.assert_frame_equal(one, two)
    gap = arena.difference(one, two, "sos", np.random.default_rng(0), 100)
    assert gap == (0, 0, 0)


def test_an_agent_against_itself_gives_par():
    rows = arena.one_vs_six(ANCHOR, policies.SoftDumbBot(0.07, 0.02, name="twin"), 105, END, 0)
    error = rows.groupby("power")["sos"].std().pow(2).sum() ** 0.5 / 7 / np.sqrt(15)
    assert abs(rows["sos"].mean() - arena.PAR) < 3 * error
    assert rows["centres"].mean() == pytest.approx(34 / 7, abs=0.5)


def test_rotation_and_table():
    rows = arena.one_vs_six(ANCHOR, policies.Hold(), 14, END, 0)
    assert rows["power"].tolist() == list(atlas.POWERS) * 2
    assert rows["seed_index"].tolist() == [0] * 7 + [1] * 7
    assert rows["one"].eq("SoftDumbBot").all() and rows["six"].eq("Hold").all()
    assert rows["year"].eq(1903).all() and rows["end"].eq("last_year").all()
    assert rows["sos"].mean() > 0.2  # a mover against six that hold
    swapped = arena.one_vs_six(policies.Hold(), ANCHOR, 7, END, 0)
    assert swapped["one"].eq("Hold").all() and swapped["sos"].mean() < arena.PAR


def test_one_game_alone_is_the_same_game():
    together = arena.play(ANCHOR, policies.DumbBot(), 7, END, 1)
    alone = arena.play_one(ANCHOR, policies.DumbBot(), 5, END, 1)
    assert alone.to_saved() == together[5].to_saved()


def test_seats_hold_the_right_agents():
    played = arena.play(ANCHOR, policies.Hold(), 7, END, 0)
    for seat, record in enumerate(played):
        expected = ["Hold"] * 7
        expected[seat] = "SoftDumbBot"
        assert list(record.agents) == expected


def test_summary_has_means_over_powers_and_intervals():
    rows = arena.one_vs_six(ANCHOR, ANCHOR, 14, END, 2)
    table = arena.summary(rows, seeding.child(0, "test"), 200)
    assert table["measure"].tolist() == list(arena.MEASURES)
    sos = table.set_index("measure").loc["sos"]
    assert sos["mean"] == pytest.approx(rows["sos"].mean())
    assert sos["low"] <= sos["mean"] <= sos["high"] and sos["games"] == 14
    again = arena.summary(rows, seeding.child(0, "test"), 200)
    pd.testing.assert_frame_equal(table, again)


def test_paired_difference_needs_the_same_games():
    a = arena.one_vs_six(ANCHOR, policies.Hold(), 7, END, 0)
    b = arena.one_vs_six(policies.Hold(), policies.Hold(), 7, END, 0)
    mean, low, high = arena.difference(a, b, "sos", np.random.default_rng(0), 500)
    assert mean == pytest.approx(a["sos"].mean() - b["sos"].mean()) and low > 0
    with pytest.raises(ValueError, match="same games"):
        arena.difference(a, b[:6], "sos", np.random.default_rng(0), 10)
    with pytest.raises(ValueError, match="name one power per game"):
        arena.score([], [0])
