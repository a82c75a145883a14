"""Ratings: known strengths, order, reseeding, and what is refused."""

import numpy as np
import pytest

from dipllm_lib.kto import exploitability, league_toy, ratings
from dipllm_lib.run import seeding


def drawn(strengths, count, *names):
    """Zero-sum games of random pairs of players with these strengths in Elo."""
    rng, players = seeding.child(0, "ratings", *names), list(strengths)
    games = []
    for _ in range(count):
        one, two = rng.choice(len(players), 2, replace=False)
        gap = strengths[players[one]] - strengths[players[two]]
        won = 1.0 if rng.random() < 1 / (1 + 10 ** (-gap / 400)) else -1.0
        games.append({players[one]: won, players[two]: -won})
    return games


def test_two_players_by_hand():
    # three wins of four and half a win each against strength 0; symmetric, so s and -s with
    # 4 (3/4 - sigma(2 s)) + 1/2 - sigma(s) = 0
    games = [{"a": 1.0, "b": -1.0}] * 3 + [{"a": -1.0, "b": 1.0}]
    table = ratings.rate(games, "zero-sum", seeding.child(0, "r"), 50)
    s = (table["rating"][0] - 1500) * np.log(10) / 400
    assert list(table["player"]) == ["a", "b"] and list(table["games"]) == [4, 4]
    assert table["rating"].sum() == pytest.approx(3000)
    assert 4 * (0.75 - 1 / (1 + np.exp(-2 * s))) + 0.5 - 1 / (1 + np.exp(-s)) == pytest.approx(0)


def test_ties_are_half_a_win_and_ranks_count_not_margins():
    tied = ratings.rate([{"a": 0.0, "b": 0.0}] * 5, "zero-sum", seeding.child(0, "r"), 20)
    assert tied["rating"].tolist() == pytest.approx([1500, 1500])
    near = [{"a": 0.34, "b": 0.33, "c": 0.33}] * 4
    far = [{"a": 1.0, "b": 0.0, "c": 0.0}] * 4
    both = [ratings.rate(g, "SoS", seeding.child(0, "r"), 20) for g in (near, far)]
    assert both[0].equals(both[1])


def test_stable_under_reseeding_and_order():
    strengths = {"a": 1700.0, "b": 1550.0, "c": 1450.0, "d": 1300.0}
    games = drawn(strengths, 600, "one")
    first = ratings.rate(games, "zero-sum", seeding.child(0, "r"), 400)
    again = ratings.rate(games[::-1], "zero-sum", seeding.child(1, "r"), 400)
    assert list(first["player"]) == ["a", "b", "c", "d"] == list(again["player"])
    assert first["rating"].to_numpy() == pytest.approx(again["rating"].to_numpy(), abs=1e-6)
    width = (first["high"] - first["low"]).mean()
    for end in ("low", "high"):
        assert (first[end] - again[end]).abs().max() < 0.25 * width
    other = ratings.rate(drawn(strengths, 600, "two"), "zero-sum", seeding.child(0, "r"), 400)
    assert list(other["player"]) == ["a", "b", "c", "d"]
    assert (first["rating"] - other["rating"]).abs().max() < 2 * width
    assert all(
        low < strengths[p] < high
        for p, low, high in zip(*first[["player", "low", "high"]].T.to_numpy(), strict=True)
    )


def test_general_sum_games_are_refused():
    rng = seeding.child(0, "r")
    with pytest.raises(ValueError, match="no ratings of 'repeated' games: only zero-sum"):
        ratings.rate([{"AllD": 5.0, "AllC": 0.0}], "repeated", rng, 10)
    with pytest.raises(ValueError, match="game 0 has scores that add up to 5, not 0"):
        ratings.rate([{"AllD": 5.0, "AllC": 0.0}], "zero-sum", rng, 10)
    split = {"one": 0.6, "two": 0.4}
    with pytest.raises(ValueError, match="game 1 has scores that add up to 0, not 1"):
        ratings.rate([split, {"one": 0.0, "two": 0.0}], "SoS", rng, 10)
    with pytest.raises(ValueError, match="two players or more"):
        ratings.rate([{"one": 0.0}], "zero-sum", rng, 10)
    with pytest.raises(ValueError, match="resamples"):
        ratings.rate([{"a": 0.0, "b": 0.0}], "zero-sum", rng, 0)


def test_the_toy_is_zero_sum_and_its_best_rated_player_can_be_exploited():
    table = league_toy.table(60, seeding.child(0, "toy"), 50).set_index("player")
    assert table["rating"].idxmax() == "mostly paper"  # in a company of rocks
    assert table.loc["even", "exploitability"] == pytest.approx(0, abs=1e-12)
    assert table.loc["always rock", "exploitability"] == pytest.approx(2.0)
    x = np.array(league_toy.PLAYERS["mostly paper"])
    gaps = exploitability.matrix_game(league_toy.PAYOFFS, -league_toy.PAYOFFS, x, x)
    assert table.loc["mostly paper", "exploitability"] == pytest.approx(gaps.sum())


def test_reseeding_gives_other_games_and_the_same_order():
    rngs = [seeding.child(seed, "toy again") for seed in (0, 1)]
    table = league_toy.reseeded(150, rngs, 100).set_index("player")
    first = league_toy.table(150, seeding.child(0, "toy again"), 100).set_index("player")
    second = league_toy.table(150, seeding.child(1, "toy again"), 100).set_index("player")
    assert table["rating"].equals(first["rating"])
    assert table["again"].to_dict() == second["rating"].to_dict()
    assert not np.allclose(table["rating"], table["again"])
    apart = (first["low"] > second["high"]) | (second["low"] > first["high"])
    assert (table["overlap"] == "no").to_dict() == apart.to_dict()
    same = [seeding.child(0, "toy again") for _ in range(2)]
    assert set(league_toy.reseeded(20, same, 20)["overlap"]) == {"yes"}
