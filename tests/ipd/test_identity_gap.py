"""What the learned Q of Opponent ID costs: exact values by hand, and players that miss nothing."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from dipllm_lib.ipd import best_response, exact, identity_gap, mixed_pool, tabular
from dipllm_lib.run import profiles, seeding

SMOKE = replace(profiles.load("smoke", 0).ipd, probe_games=6)
OWN = mixed_pool.ppi(SMOKE, "identity")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The finished training of Opponent ID of the smoke profile."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("pool")
    (task,) = mixed_pool.tasks("ppi", ("identity",), SMOKE, 0, folder)
    mixed_pool.run(task)
    return task


def test_action_values_by_hand():
    """TFT over two rounds, then coin flips: C costs 1 now and brings 2 later; AllD never pays."""
    seen = exact.as_seen(np.stack([tabular.named("TFT"), tabular.named("AllD")]))
    half, two = np.full((2, 5), 0.5), replace(OWN, horizon=2)
    tft, all_d = identity_gap.action_values(seen, half, two)
    # after CC it plays C: 1 + (1.5 after CC) or 2 + (-0.5 after DC, when it plays D)
    assert tft[1].tolist() == [2.5, 1.5]
    assert all_d.tolist() == [[-1.5, -0.5]] * 5
    three = identity_gap.action_values(seen, half, replace(OWN, horizon=3))
    # 1 + mean(2.5, 1.5) after CC; 2 + mean of what D after DC is worth, (-1 + 1.5), (0 - 0.5)
    assert three[0, 1].tolist() == [3.0, 2.0] and (three[1, :, 0] < three[1, :, 1]).all()


def test_the_operator_finds_what_pays():
    """TFT, GRIM and the like are answered with C, an opponent that does not respond with D; never
    above the best response, and far above AllD on the pool."""
    named = np.stack([tabular.named(x) for x in ("TFT", "AllD", "AllC", "random")])
    policy = identity_gap.operator(named, mixed_pool.ppi(profiles.load("cpu", 0).ipd, "identity"))
    assert policy[0].all() and not policy[1:].any()
    drawn = tabular.sample("uniform", 500, seeding.child(0, "operator"))
    missing, cooperation = identity_gap._operator_row(drawn, OWN)
    all_d = exact.finite(tabular.named("AllD"), drawn, OWN.rounds)[0]
    best = best_response.best_response(drawn, OWN.rounds)
    gain = (best.value - all_d).mean()
    assert 0.0 <= missing < 0.4 * gain and 0.02 < cooperation < 0.2
    assert cooperation == pytest.approx(best.cooperation.mean(), abs=0.05)


def test_the_best_response_misses_nothing_and_all_c_what_is_exact():
    agents, n = [(0, 0), (1, 0)], 300
    vectors = identity_gap.opponents(agents, OWN, n)
    plan = best_response.best_response(vectors.reshape(-1, 5), OWN.rounds).policy
    best = identity_gap.seats.Seated(best_response.Planned(plan), chunk=n)
    found = identity_gap._played(best, agents, vectors, OWN)
    assert [missing for missing, _ in found] == [0.0, 0.0]
    all_c = identity_gap.batch_play.MemoryOne(tabular.named("AllC"))
    for (missing, share), row in zip(
        identity_gap._played(all_c, agents, vectors, OWN), vectors, strict=True
    ):
        value = exact.finite(tabular.named("AllC"), row, OWN.rounds)[0]
        lost = best_response.best_response(row, OWN.rounds).value - value
        assert share == 1.0 and missing == pytest.approx(lost.mean(), abs=0.08)


def test_best_actions_are_those_of_the_plan():
    vectors = np.stack([tabular.named("TFT"), tabular.named("AllC")])
    obs = np.array([[0, 1, 4], [0, 3, 1]], dtype=np.uint8)
    own = replace(OWN, rounds=3, horizon=3)
    # TFT over three rounds: C, C, then D; the other one is never answered with C
    assert identity_gap.best_actions(vectors, obs, own).tolist() == [
        [True, True, False],
        [False, False, False],
    ]


def test_every_player_of_a_finished_training(trained):
    tasks = identity_gap.tasks(SMOKE, [trained, replace(trained, arm="mixed")])
    assert [task.kind for task in tasks] == [
        "operator", "distilled", "head", "rollouts", "opponents",
    ]  # fmt: skip
    assert len({task.key for task in tasks}) == 5 and {task.seeds for task in tasks} == {(0, 1)}
    rows = [row for task in tasks for row in identity_gap.run(task)]
    json.dumps(rows, allow_nan=False)
    assert rows[4:6] == identity_gap.run(tasks[2])  # the same chance once more
    found = identity_gap.table(pd.DataFrame(rows), 0.05, seeding.child(0, "rows"), 100)
    assert found["player"].tolist() == [task.player for task in tasks]
    assert found["reward"].to_numpy() == pytest.approx(1.05 - found["missing"].to_numpy())
    assert set(found["seeds"]) == {2} and found["cooperation"].between(0, 1).all()


def test_causes_are_what_a_change_of_q_earns():
    players = [identity_gap.NAMES[kind] for kind in ("head", "operator")]
    rows = [
        {"player": player, "seed": seed, "missing": missing, "cooperation": 0.1}
        for player, pair in zip(players, ((0.03, 0.02), (0.01, 0.005)), strict=True)
        for seed, missing in enumerate(pair)
    ]
    found = identity_gap.causes(pd.DataFrame(rows))
    assert list(found) == [*(f"{p}: missing" for p in players), f"{players[1]} − learned Q"]
    assert found[f"{players[0]}: missing"].tolist() == [0.03, 0.02]
    assert found[f"{players[1]} − learned Q"].tolist() == pytest.approx([0.02, 0.015])
    assert list(identity_gap.causes(pd.DataFrame(rows[2:]))) == [f"{players[1]}: missing"]


def test_unknown_player():
    with pytest.raises(ValueError, match="unknown kind 'oracle' of a player"):
        identity_gap.Task("oracle", SMOKE, (0,), "")
