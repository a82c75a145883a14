"""Every player is asked the same, warm; seconds, ratios and intervals by hand."""

import pandas as pd
import pytest

from dipllm_lib.dip import decision_cost, game, policies
from dipllm_lib.run import seeding


class Noted(policies.RandomLegal):
    """RandomLegal that notes what it was asked and how its generators begin."""

    def __init__(self, name):
        self.name, self.calls = name, []

    def act(self, turns, rngs):
        self.calls.append((turns, [rng.random() for rng in rngs]))
        return super().act(turns, rngs)


@pytest.fixture(scope="module")
def played():
    seats = [policies.RandBot()] * 7
    return game.play([seats] * 2, 0, [("cost", k) for k in range(2)], game.EndRules(1903))


def test_recorded_turns_are_of_different_positions_and_all_powers(played):
    turns = decision_cost.recorded(played, 14, seeding.child(0, "turns"))
    assert [turn.power for turn in turns] == list(range(7)) * 2
    places = {(tuple(turn.boards.owner[0]), turn.phase) for turn in turns}
    assert len(places) > 8  # two games may share an early position
    assert {turn.phase[-1] for turn in turns} > {"M"}
    again = decision_cost.recorded(played, 14, seeding.child(0, "turns"))
    assert [turn.phase for turn in again] == [turn.phase for turn in turns]
    with pytest.raises(ValueError, match="not 900"):
        decision_cost.recorded(played, 900, seeding.child(0, "turns"))


def test_all_players_get_the_same_calls_warm_and_on_positions_they_have_not_seen(played):
    turns = decision_cost.recorded(played, 9, seeding.child(0, "turns"))
    players = [Noted("a"), Noted("b")]
    found = decision_cost.measure(players, turns, 3, 5)
    assert list(found.columns) == ["agent", "call", "turns", "seconds"]
    assert found["agent"].tolist() == ["a", "b"] * 2 and found["call"].tolist() == [1, 1, 2, 2]
    assert (found["turns"] == 3).all() and (found["seconds"] > 0).all()
    first, second = players
    assert [asked for asked, _ in first.calls] == [turns[:3], turns[3:6], turns[:3], turns[6:]]
    assert first.calls == second.calls  # the same turns, the same random numbers
    assert first.calls[0][1] == first.calls[2][1] != first.calls[1][1] != first.calls[3][1]
    for together in (4, 9, 0):
        with pytest.raises(ValueError, match=f"9 turns do not make two or more .* {together}"):
            decision_cost.measure(players, turns, together, 5)


def test_the_seconds_are_those_of_one_power_turn(monkeypatch):
    monkeypatch.setattr(decision_cost, "seconds", lambda act, passes: 6.0)
    found = decision_cost.measure([policies.Hold()], [None] * 6, 3, 0)
    assert found["seconds"].tolist() == [2.0]


def test_a_constant_ratio_has_no_width_though_the_calls_vary():
    spent = {"search": [1.0, 2.0, 6.0], "lm": [2.0, 4.0, 12.0], "Hold": [0.3, 0.3, 0.3]}
    measured = pd.DataFrame([
        {"agent": name, "call": call, "turns": 7, "seconds": value}
        for name, values in spent.items()
        for call, value in enumerate(values)
    ])
    found = decision_cost.table(measured, "search", seeding.child(0, "x"), 500).set_index("agent")
    assert found.index.tolist() == ["search", "lm", "Hold"]
    lm = found.loc["lm"]
    assert lm["seconds"] == pytest.approx(6.0) and lm["turns"] == 21 and lm["calls"] == 3
    assert lm["seconds_low"] < 6.0 < lm["seconds_high"]
    assert lm[["ratio", "ratio_low", "ratio_high"]].tolist() == pytest.approx([2.0] * 3)
    assert found.loc["Hold", ["seconds_low", "seconds_high"]].tolist() == pytest.approx([0.3] * 2)
    assert found.loc["Hold", "ratio_low"] < 0.1 < found.loc["Hold", "ratio_high"]
    with pytest.raises(ValueError, match="and 'teacher'"):
        decision_cost.table(measured, "teacher", seeding.child(0, "x"), 10)
    with pytest.raises(ValueError, match="1 calls"):
        decision_cost.table(measured[measured["call"] == 0], "lm", seeding.child(0, "x"), 10)
