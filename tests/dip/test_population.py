"""Population games: balance, swapped names, chunks, equal agents, scores by hand, both readings."""

import copy
import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.dip import arena, atlas, boards, chunks, game, policies, population, states
from dipllm_lib.dip.population import Population
from dipllm_lib.run import profiles, seeding, store

END = game.EndRules(1903)


def named(policy, name):
    """The same player under another name."""
    other = copy.copy(policy)
    other.name = name
    return other


POOL = (policies.Hold(), policies.DumbBot(), policies.RandomLegal())


@pytest.fixture(scope="module")
def played():
    """(a pool of three, its six games, their rows)"""
    plan = Population(POOL, 6, END, 5)
    games = plan.play(range(6))
    return plan, games, plan.table(games, range(6))


def by_hand(*held):
    """A game that ended with these numbers of centres."""
    over = boards.start(1)
    over.owner[0], over.phase[0], over.year[0] = -1, boards.OVER, 1908
    over.owner[0, np.flatnonzero(atlas.CENTRE)] = np.repeat(np.arange(7), held)
    return game.Game("by hand", (), None, over, [{}], [{}], "last_year")


def test_every_agent_has_every_power_once_in_a_block(played):
    plan, games, rows = played
    assert len(rows) == 42 and (rows.groupby(["block", "agent", "power"]).size() == 1).all()
    for g, one in enumerate(games):
        own = rows[rows["game"] == g]
        assert tuple(own["agent"]) == one.agents and own["power"].tolist() == list(atlas.POWERS)
        assert own["sos"].sum() == pytest.approx(1) and own["copies"].sum() >= 7
        assert own["copies"].tolist() == [one.agents.count(a) for a in one.agents]
    wide = Population(tuple(named(POOL[0], str(k)) for k in range(9)), 18, END, 0)
    seats = np.array([wide.seating(g) for g in range(18)])
    assert (np.sort(seats.reshape(2, 9, 7), axis=1) == np.arange(9)[:, None]).all()
    assert (seats[:9] != seats[9:]).any()


def test_unbalanced_pools_are_refused(played):
    _, _, rows = played
    with pytest.raises(ValueError, match="7 games leave seats unbalanced.*multiple of 3"):
        Population(POOL, 7, END, 0)
    for pool in (POOL[:1], (POOL[0], POOL[0])):
        with pytest.raises(ValueError, match="distinct names"):
            Population(pool, 6, END, 0)
    with pytest.raises(ValueError, match="seats are unbalanced"):
        population.summary(rows[rows["game"] != 2], np.random.default_rng(0), 10)


def test_games_are_the_same_in_whatever_chunks(played, home):
    plan, games, rows = played
    profile = replace(profiles.load("smoke", 0), workers=1)
    shelf = store.Shelf("11_evaluation", profile, profile.dip)
    pd.testing.assert_frame_equal(chunks.rows(shelf, [plan], 4), rows)
    assert plan.play([4])[0].to_saved() == games[4].to_saved()
    (found,) = chunks.games(shelf, [plan], 5, "again ")
    assert [g.to_saved() for g in found] == [g.to_saved() for g in games]


def test_swapping_two_names_permutes_the_table_and_nothing_else(played):
    plan, _, rows = played
    swap = {"Hold": "DumbBot", "DumbBot": "Hold", "RandomLegal": "RandomLegal"}
    other = replace(plan, agents=tuple(named(a, swap[a.name]) for a in plan.agents))
    again = other.table(other.play(range(6)), range(6))
    pd.testing.assert_frame_equal(rows.assign(agent=rows["agent"].map(swap)), again)
    tables = [population.summary(r, seeding.child(0, "x"), 200) for r in (rows, again)]
    renamed = tables[0].assign(agent=tables[0]["agent"].map(swap))
    pd.testing.assert_frame_equal(renamed, tables[1])


def test_one_agent_more_or_less_leaves_seats_and_random_numbers_alone(played):
    plan, games, rows = played
    other = replace(plan, agents=(*POOL[:2], named(policies.RandBot(), "other")))
    again = other.table(other.play(range(2)), range(2))
    same = rows[rows["game"] < 2]
    assert (again["agent"].eq("other") == same["agent"].eq("RandomLegal")).all()
    twin = replace(plan, agents=(*POOL[:2], named(POOL[2], "twin")))
    assert twin.play([1])[0].orders == games[1].orders


def test_seven_equal_agents_get_a_seventh_each():
    bots = tuple(policies.SoftDumbBot(0.07, 0.02, name=f"bot {k}") for k in range(7))
    plan = Population(bots, 77, game.EndRules(1902), 1)
    table = plan.table(plan.play(range(77)), range(77))
    found = population.summary(table, seeding.child(0, "equal"), 1000)
    sos = found[found["measure"] == "sos"]
    assert sos["mean"].mean() == pytest.approx(arena.PAR)
    assert ((sos["low"] < arena.PAR) & (arena.PAR < sos["high"])).sum() >= 6
    assert (sos["high"] - sos["low"]).max() < 0.06
    gaps = population.differences(table, "bot 0", seeding.child(0, "gaps"), 1000)
    assert gaps["verdict"].eq("not resolved").sum() >= 5


def test_scores_by_hand():
    pool = (named(POOL[0], "a"), named(POOL[0], "b"))
    plan = Population(pool, 4, END, 0)
    seats = [plan.seating(g) for g in range(4)]
    held = [(10, 8, 6, 5, 5, 0, 0), (20, 14, 0, 0, 0, 0, 0)]
    held = [held[0], held[1], held[1], held[0]]
    rows = plan.table([by_hand(*h) for h in held], range(4))
    squares = {10: 100 / 250, 8: 64 / 250, 6: 36 / 250, 5: 25 / 250, 0: 0}
    squares |= {20: 400 / 596, 14: 196 / 596}
    own = [squares[h[p]] for h, s in zip(held, seats) for p in range(7) if s[p] == 0]
    wins = [h[p] >= 18 for h, s in zip(held, seats) for p in range(7) if s[p] == 0]
    found = population.summary(rows, np.random.default_rng(0), 100).set_index(["agent", "measure"])
    assert len(own) == 14
    assert found.loc[("a", "sos"), "mean"] == pytest.approx(np.mean(own))
    assert found.loc[("b", "sos"), "mean"] == pytest.approx(2 / 7 - np.mean(own))
    assert found.loc[("a", "win"), "mean"] == pytest.approx(np.mean(wins))
    assert found.loc[("a", "centres"), "mean"] + found.loc[("b", "centres"), "mean"] == (
        pytest.approx(2 * 34 / 7)
    )
    assert found["games"].eq(4).all() and found["blocks"].eq(2).all()
    gap = population.difference(rows, "a", "b", np.random.default_rng(0), 100)
    assert gap[0] == pytest.approx(2 * np.mean(own) - 2 / 7)
    austria = population.by_power(rows, np.random.default_rng(0), 100).set_index(["agent", "power"])
    mean = np.mean([squares[h[0]] for h, s in zip(held, seats) if s[0] == 0])
    assert austria.loc[("a", "AUSTRIA"), "mean"] == pytest.approx(mean)


def pairings(names, games=14):
    """Rows of every pairing with made-up scores, in which the seat counts most."""
    rows = []
    for i, one in enumerate(names):
        for j, six in enumerate(names):
            seats = [(i + 1) * 0.01 + j * 0.001 + 0.05 * (g % 7) for g in range(games)]
            values = [0.0001 * g + value for g, value in enumerate(seats)]
            powers = [atlas.POWERS[g % 7] for g in range(games)]
            frame = pd.DataFrame(dict.fromkeys(arena.MEASURES, values))
            rows.append(frame.assign(one=one, six=six, game=range(games), power=powers))
    return pd.concat(rows, ignore_index=True)


def test_the_population_table_is_the_mean_of_the_pairings():
    rows = pairings("abc")
    rng = np.random.default_rng
    table = population.as_one(rows, rng(0), 300, measures=("sos",)).set_index("agent")
    matrix = arena.square(arena.summary(rows, rng(0), 10, ("sos",)), list("abc")).to_numpy()
    off = ~np.eye(3, dtype=bool)
    by_row = [matrix[k][off[k]].mean() for k in range(3)]
    by_column = [matrix[:, k][off[:, k]].mean() for k in range(3)]
    assert table["mean"].tolist() == pytest.approx(by_row)
    assert table["mean"].tolist()[0] == pytest.approx(0.01 + 0.0015 + 0.15 + 0.00065)
    assert table["games"].eq(14).all() and table["opponents"].eq(2).all()
    left = population.as_six(rows, rng(0), 300, measures=("sos",)).set_index("agent")
    assert left["mean"].tolist() == pytest.approx(by_column)
    # games of one number move together in all pairings: within a power the two means differ by
    # 7 x 0.0001, so a stratum's mean is 0 or +-0.00035 away
    assert (table["high"] - table["low"]).max() < 0.0007
    fewer = rows[(rows["one"] != "a") | (rows["six"] != "b") | (rows["game"] < 7)]
    short = population.as_one(fewer, rng(0), 10).set_index("agent")["games"]
    assert short.loc["a"].eq(7).all() and short.loc["b"].eq(14).all()
    with pytest.raises(ValueError, match="a: need whole pairings with .*missing \\['b'\\]"):
        population.as_one(rows[(rows["one"] != "a") | (rows["six"] != "b")], rng(0), 10)


def test_saved_games_open_in_the_package_and_replay(played):
    _, games, _ = played
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from diplomacy.utils.export import from_saved_game_format
    loaded = from_saved_game_format(json.loads(json.dumps(games[0].to_saved())))
    units = {name: sorted(loaded.get_units(name)) for name in atlas.POWERS}
    assert units == states.to_state(games[0].boards, -1)["units"]
    assert set(game.replay_on_package(games[0])["cause"]) <= {"B1", "B2", "B3", "B4", "B5", "C1"}
