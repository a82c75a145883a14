"""Outcome measures by hand, seats, pairing, fairness, intervals, games in chunks."""

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.dip import agent, arena, atlas, boards, chunks, game, policies, text
from dipllm_lib.lm import backbones
from dipllm_lib.run import profiles, seeding, store

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


def named(policy, name):
    """The same player under another name."""
    other = copy.copy(policy)
    other.name = name
    return other


def by_hand(*held, year=1908, end="last_year"):
    """A game that ended with these numbers of centres, given out in order of the map."""
    over = boards.start(1)
    over.owner[0], over.phase[0], over.year[0] = -1, boards.OVER, year
    over.owner[0, np.flatnonzero(atlas.CENTRE)] = np.repeat(np.arange(7), held)
    return game.Game("by hand", (), None, over, [{}], [{}], end)


def rows_by_hand(one, six, *own_centres):
    """Game g leaves the one own_centres[g] and the others 27, 1, 1, 1, 1, 1 minus what he has."""
    played = []
    for g, own in enumerate(own_centres):
        held = [1] * 7
        held[(g + 1) % 7] = 29 - own
        held[g % 7] = own
        played.append(by_hand(*held))
    return arena.table(played, one, six)


def test_games_by_hand_have_scores_by_hand():
    rows = rows_by_hand("x", "y", 0, 1, 3, 14, 18, 20, 29)
    shares = [0, 1 / 790, 9 / 690, 196 / 426, 324 / 450, 400 / 486, 841 / 846]
    assert rows["sos"].tolist() == pytest.approx(shares)
    assert rows["sos_solo"].tolist() == pytest.approx([0, 0, 0, 196 / 426, 1, 1, 1])
    assert rows["win"].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert rows["defeated"].tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert rows["survived"].tolist() == [0, 1, 1, 1, 0, 0, 0]
    assert rows["most_sc"].tolist() == [0, 0, 0, 0, 0, 0, 0]  # 14 against 15
    table = arena.summary(rows, np.random.default_rng(0), 200, ("win", "sos"))
    assert table["measure"].tolist() == ["win", "sos"]
    assert table["mean"].tolist() == pytest.approx([3 / 7, sum(shares) / 7])


@pytest.fixture(scope="module")
def played():
    """14 games of DumbBot against six Holds and of Hold against six DumbBots, as rows."""
    dumb, hold, end = policies.DumbBot(), policies.Hold(), game.EndRules(1904)
    pairs = [arena.Pairing(dumb, hold, 14, end, 3), arena.Pairing(hold, dumb, 14, end, 3)]
    return [(pair, pair.play(range(14))) for pair in pairs]


def test_swapping_two_names_permutes_the_table_and_nothing_else(played):
    swap = {"DumbBot": "Hold", "Hold": "DumbBot"}
    before = pd.concat([pair.table(games, range(14)) for pair, games in played])
    after = []
    for pair, _ in played:
        one, six = (named(p, swap[p.name]) for p in (pair.one, pair.six))
        swapped = replace(pair, one=one, six=six)
        after.append(swapped.table(swapped.play(range(14)), range(14)))
    after = pd.concat(after)
    tables = [arena.summary(rows, seeding.child(0, "x"), 200) for rows in (before, after)]
    for old, new in ((before, after), tables):
        renamed = old.assign(one=old["one"].map(swap), six=old["six"].map(swap))
        pd.testing.assert_frame_equal(renamed, new)
    squares = [arena.square(t[t["measure"] == "sos"], ["DumbBot", "Hold"]) for t in tables]
    assert squares[0].notna().to_numpy().tolist() == [[False, True], [True, False]]
    np.testing.assert_array_equal(squares[0].to_numpy(), squares[1].to_numpy().T)


def test_games_are_the_same_in_whatever_chunks(played, home):
    pair, together = played[0]
    profile = replace(profiles.load("smoke", 0), workers=1)
    wanted = [json.dumps(g.to_saved()) for g in together]
    shelf = store.Shelf("11_evaluation", profile, profile.dip)
    (found,) = chunks.games(shelf, [pair], 5)
    assert [json.dumps(g.to_saved()) for g in found] == wanted
    two = chunks.games(shelf, [p for p, _ in played], 4, "both ")
    assert [[g.to_saved() for g in own] for own in two] == [
        [g.to_saved() for g in own] for _, own in played
    ]
    assert [r.stop - r.start for r in chunks.ranges(14, 5)] == [5, 5, 4]
    rows = chunks.rows(shelf, [p for p, _ in played], 6)
    pd.testing.assert_frame_equal(rows[:14], pair.table(together, range(14)))
    assert rows["one"].tolist() == ["DumbBot"] * 14 + ["Hold"] * 14
    sent = pickle.loads(pickle.dumps((pair, range(3, 5))))
    assert chunks.chunk_rows(sent)["data"] == rows[3:5].to_numpy().tolist()
    with pytest.raises(ValueError, match="a chunk of 0 games"):
        chunks.games(shelf, [pair], 0)
    with pytest.raises(ValueError, match="distinct key"):
        chunks.rows(shelf, [pair, pair], 6)


def test_a_stopped_notebook_goes_on_with_the_next_chunk(played, home):
    pair, together = played[0]
    asked = []

    class Stops:
        name, games = "DumbBot vs Hold", 14

        def play(self, numbers):
            asked.append(list(numbers))
            if len(asked) == 2:
                raise KeyboardInterrupt
            return [together[g] for g in numbers]

    profile = profiles.load("smoke", 0)
    for _ in range(2):
        shelf = store.Shelf("11_evaluation", profile, profile.dip)
        if not asked:
            with pytest.raises(KeyboardInterrupt):
                chunks.games(shelf, [Stops()], 7, workers=1)
    (found,) = chunks.games(shelf, [Stops()], 7, workers=1)
    assert asked == [list(range(7)), list(range(7, 14)), list(range(7, 14))]
    assert [g.to_saved() for g in found] == [g.to_saved() for g in together]


def test_a_language_model_plays_the_same_game_alone():
    model = backbones.load("scratch", hidden=16, layers=1, heads=2, words=text.WORDS, seed=3)
    player = agent.LMAgent(model, 1.0, "lm")
    pair = arena.Pairing(player, policies.Hold(), 7, game.EndRules(1901), 2)
    together, alone = pair.play(range(7)), pair.play([4])
    assert together[4].to_saved() == alone[0].to_saved()
    assert len({json.dumps(g.to_saved()["phases"][0]["orders"]) for g in together}) == 7


def test_a_game_that_stops_when_the_one_is_dead_has_the_same_measures():
    bot = policies.DumbBot()
    pair = arena.Pairing(bot, named(bot, "six"), 14, game.EndRules(1908), 3)
    whole, early = pair.play(range(14)), replace(pair, stop=True).play(range(14))
    rows = [pair.table(games, range(14)) for games in (whole, early)]
    pd.testing.assert_frame_equal(rows[0][list(arena.MEASURES)], rows[1][list(arena.MEASURES)])
    stopped = rows[1]["end"].eq("defeated")
    assert 0 < stopped.sum() < 7 and (rows[1]["defeated"] == stopped).all()
    assert (rows[1]["year"] < rows[0]["year"])[stopped].all()
    for long, short in zip(whole, early):
        assert long.orders[: short.boards.n - 1] == short.orders[:-1]
    shares = arena.ends(rows[1]).loc[0]
    assert shares["defeated"] == stopped.mean() and shares["games"] == 14
    dead = early[int(np.flatnonzero(stopped)[0])]
    assert game.Game.from_saved(dead.to_saved()).to_saved() == dead.to_saved()
    game.replay_on_package(dead)
    with pytest.raises(ValueError, match="1 games but 2 watched powers"):
        game.play([[pair.one] * 7], 0, [("x",)], END, [0, 1])


def test_both_ways_and_differences_by_hand():
    rng = np.random.default_rng
    up = rows_by_hand("x", "y", 0, 1, 3, 14, 18, 20, 29)
    down = rows_by_hand("y", "x", 0, 1, 3, 14, 18, 20, 0)
    other = rows_by_hand("z", "y", 0, 1, 3, 14, 18, 20, 0)
    rows = pd.concat([up, down, other])
    found = arena.both_ways(rows, "x", "y", rng(0), 500)
    assert found["up"] == pytest.approx(up["sos"].mean())
    assert found["gap"] == pytest.approx(841 / 846 / 7) and found["games"] == 7
    assert found["gap_low"] == 0 and found["verdict"] == "not resolved"
    table = arena.differences(rows[rows["six"] == "y"], "z", rng(0), 500)
    assert table["one"].tolist() == ["x"] and table["games"].tolist() == [7]
    assert table["mean"][0] == pytest.approx(841 / 846 / 7)
    better = up.assign(one="w", sos=up["sos"] + 0.01)
    table = arena.differences(pd.concat([up, better]), "x", rng(0), 500)
    assert table["verdict"].tolist() == ["holds"] and table["low"][0] == pytest.approx(0.01)
    with pytest.raises(ValueError, match="z has no game against six x"):
        arena.differences(rows, "z", rng(0), 10)
    powers = arena.by_power(up, rng(0), 10)
    assert powers["power"].tolist() == list(atlas.POWERS)
    assert powers["mean"].tolist() == up["sos"].tolist() == powers["low"].tolist()
