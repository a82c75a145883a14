"""A round of the league with a tiny language model: exact tables, weights, episodes, learning."""

import dataclasses

import numpy as np
import pytest

from dipllm_lib.kto import (
    arenas,
    fitting,
    league_figures,
    league_lm,
    league_members,
    lm_scores,
    roles,
)
from dipllm_lib.kto.arena_ultimatum import responder
from dipllm_lib.kto.league_members import Member
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import TabularPolicy
from dipllm_lib.kto.trajectories import Trajectory
from dipllm_lib.run import plotting, profiles

SETTINGS = dataclasses.replace(
    profiles.load("smoke", 0).kto,
    league_lm_rounds=2,
    league_lm_steps=6,
    league_lm_batches=5,
    league_lm_episodes=6,
    league_lm_rate=0.01,
)


@pytest.fixture
def backbone(tiny):
    found = tiny()
    roles.attach(found, 2, ("q_proj", "v_proj"), 0)
    return found


def test_a_policy_is_read_as_tables(backbone):
    policy = LMPolicy(backbone, roles.EXECUTOR)
    own = league_lm.player(policy)
    assert [table.shape for table in own] == [(1, 11), (11, 2)]
    one = lm_scores.offers(policy)
    people = next(m for m in league_members.scripted(league_lm.ARENA) if m.name == "people")
    assert league_lm.ARENA.payoffs(own, people.player)[0] == pytest.approx(one["payoff"])
    even = league_lm.player(TabularPolicy())
    for table, uniform in zip(even, arenas.base(league_lm.ARENA), strict=True):
        assert table == pytest.approx(uniform)


def test_members_and_their_weights(backbone):
    members = league_lm.opening(backbone)
    kinds = [member.kind for member in members]
    assert kinds == ["scripted"] * 5 + ["base", "snapshot", "swapped", "swapped"]
    own = members[6].player  # new adapters change nothing, so the base is the snapshot
    assert all(np.array_equal(a, b) for a, b in zip(own, members[5].player))
    weights = league_lm.chances(members, own, 0.15)
    assert weights.sum() == pytest.approx(1.0) and weights[6:].sum() <= 0.15 + 1e-12
    regrets = np.array([arenas.regret(league_lm.ARENA, own, m.player) for m in members])
    free = league_lm.chances(members, own, 1.0)
    expected = 0.9 * regrets**2 / (regrets**2).sum() + 0.1 / len(members)
    assert free == pytest.approx(expected)


def test_episodes_are_played_from_both_seats():
    """An offer of 40 to a taker of 30, and back: payoffs follow from the tables."""
    point = np.eye(11)[4][None]
    own = point, arenas.answers(np.ones(11))
    taker = Member("taker", "scripted", responder((np.arange(11) >= 3).astype(float)))
    played = league_lm.collect(own, taker, 10, 4, 0.0, 0, 1)
    assert [one.episode for one in played] == [10, 11, 12, 13]
    assert [one.seats for one in played] == [("", "taker"), ("taker", "")] * 2
    assert played[0].actions == ((4,), (0,)) and played[0].payoffs == pytest.approx((0.6, 0.4))
    assert played[1].actions == ((3,), (0,)) and played[1].payoffs == pytest.approx((0.7, 0.3))
    assert league_lm.collect(own, taker, 12, 1, 0.0, 0, 1) == played[2:3]
    free = league_lm.collect(own, taker, 0, 200, 1.0, 0, 1)
    assert {one.actions[0][0] for one in free if one.learner == 0} == set(range(11))
    assert {one.actions[0][0] for one in free if one.learner == 1} == {3}


def test_members_in_their_weights_are_one_partner(backbone):
    members = league_lm.opening(backbone)
    own, weights = members[6].player, np.arange(9.0) / 36
    met = league_lm.mixture(members, weights)
    payoffs = [league_lm.ARENA.payoffs(own, m.player) for m in members]
    expected = weights @ np.array(payoffs)
    assert league_lm.ARENA.payoffs(own, met) == pytest.approx(expected)
    assert arenas.check(league_lm.ARENA, met)


def test_two_rounds_end_where_they_began_and_are_the_same_again(backbone, tmp_path):
    kept, folder = tmp_path / "kept", tmp_path / "folder"
    kept.mkdir(), folder.mkdir()
    before = roles.state(backbone, roles.EXECUTOR)
    other = roles.state(backbone, roles.OPPONENT)
    found = league_lm.run(backbone, SETTINGS, 0, kept, folder)
    for name, weights in ((roles.EXECUTOR, before), (roles.OPPONENT, other)):
        now = roles.state(backbone, name)
        assert all(np.array_equal(now[key], weights[key]) for key in weights)
    again = league_lm.run(backbone, SETTINGS, 0, kept, folder)  # from its checkpoints
    assert again.members.equals(found.members) and again.games == found.games
    assert again.history.equals(found.history) and len(found.history) == 12
    assert list(found.history.columns) == ["round", *fitting.HISTORY]
    last = found.members[found.members["round"] == 2]
    assert last["member"].tolist()[-2:] == ["snapshot 1", "envious, tougher"]
    assert last["weight"].sum() == pytest.approx(1.0) and last["drawn"].sum() == 5
    assert found.members.groupby("round")["drawn"].sum().tolist() == [5, 5]
    assert len(found.games) == 2 * 5 * 6 and {row["round"] for row in found.games} == {1, 2}
    assert {
        Trajectory.of({k: v for k, v in row.items() if k != "round"}).game for row in found.games
    } == {"ultimatum"}
    first = found.members[found.members["round"] == 1].set_index("member")
    moved = last.set_index("member").loc[first.index[:9]]
    assert moved["regret_before"].tolist() == first["regret_after"][:9].tolist()
    gap = first["best"] - first["payoff_after"]
    assert first["regret_after"].to_numpy() == pytest.approx(gap.to_numpy())
    assert (folder / "adapter_model.safetensors").is_file()
    plotting.render(league_figures.executor_round(found.members, "one seed"))


def test_learning_lowers_regret_against_who_is_met(backbone, tmp_path):
    """Many steps against one taker: the offer moves to what it takes."""
    own = league_lm.player(LMPolicy(backbone, roles.EXECUTOR))
    taker = Member("taker", "scripted", responder((np.arange(11) >= 3).astype(float)))
    rows = [one.row() for one in league_lm.collect(own, taker, 0, 200, 0.0, 0, 1)]
    settings = dataclasses.replace(SETTINGS, league_lm_steps=30)
    history = league_lm.learn(backbone, rows, settings, 0, tmp_path / "one.safetensors")
    after = league_lm.player(LMPolicy(backbone, roles.EXECUTOR))
    assert len(history) == 30 and max(line["lr"] for line in history) == 0.01
    for seat in (0, 1):
        gaps = [
            league_lm.ARENA.best(taker.player) - league_lm.ARENA.payoffs(p, taker.player)
            for p in (own, after)
        ]
        assert gaps[1][seat] < gaps[0][seat]
