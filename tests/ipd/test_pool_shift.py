"""Regret against exact best responses, cross-play of seeds, players of longer memory."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import (
    axelrod_players,
    best_response,
    certainty,
    exact,
    lola,
    pool_shift,
    ppi,
    ppi_settings,
    seats,
    tabular,
)
from dipllm_lib.ipd.batch_play import MemoryOne
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.ipd.pool_shift import Rearranged, ShiftSettings
from dipllm_lib.run import seeding

AGENTS = [(0, 0), (0, 1), (1, 0), (1, 1)]
SETTINGS = ShiftSettings(rounds=20, games=40)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def memory_one(name):
    return MemoryOne(tabular.named(name))


def test_regret_of_deterministic_pairs_is_exact():
    """AllD against TFT over 20 rounds earns 2/20; the best response 19 + 2 of 20."""
    found = pool_shift.regret(
        {"off": memory_one("AllD")}, AGENTS, pool_shift.strategies(), SETTINGS
    )
    one = found.set_index(["opponent", "seed", "seat"]).sort_index()
    assert one.loc[("TFT", 1, 1), "reward"] == pytest.approx(0.1)
    assert one.loc[("TFT", 1, 1), "best"] == pytest.approx(1.05)
    assert one.loc[("TFT", 1, 1), "regret"] == pytest.approx(0.95)
    assert one.loc["AllC", "regret"].to_numpy() == pytest.approx(0.0)
    np.testing.assert_allclose(one.loc["AllD", "alld"], 0.0)
    # a reward of AllD is AllD's exact value but for chance
    np.testing.assert_allclose(found["reward"], found["alld"], atol=0.35)
    np.testing.assert_allclose(
        found["reward"], 2 * found["other_cooperation"] - found["cooperation"], atol=1e-12
    )


def test_sets_hold_what_they_say():
    known = pool_shift.strategies()
    for chi in pool_shift.CHIS:
        vector = known[f"ZD {chi:g}"]
        assert vector[0, 0] == 0.0
        s_x, s_y = exact.stationary(vector, tabular.named("AllC"))
        assert s_x == pytest.approx(chi * s_y)
    np.testing.assert_allclose(known["TFT, tremble 0.05"], [[0.95, 0.95, 0.05, 0.95, 0.05]])
    np.testing.assert_array_equal(known["human"], [tabular.HUMAN])
    drawn = pool_shift.pools(7, seeding.child(0, "pools"))
    assert {name: len(v) for name, v in drawn.items()} == {
        "uniform": 7, "beta 0.5": 7, "beta 0.25": 7, "beta 0.1": 7, "families": 7, "corners": 32,
    }  # fmt: skip


def test_means_agree_with_the_exact_payoff_of_every_pool():
    """Memory-one agents on sampled pools: simulated within 4 standard errors of the chain."""
    drawn = pool_shift.pools(20, seeding.child(1, "pools"))
    settings = replace(SETTINGS, games=1600)
    found = pool_shift.regret({"off": memory_one("WSLS")}, AGENTS[:1], drawn, settings)
    for name, vectors in drawn.items():
        row = found[found["opponent"] == name].iloc[0]
        value, _ = exact.finite(tabular.named("WSLS"), vectors, 20)
        assert abs(row["reward"] - value.mean()) < 4 * 1.5 / np.sqrt(row["games"])
        best = best_response.best_response(vectors, 20).value.mean()
        assert row["best"] == pytest.approx(best) and row["regret"] > -0.1


def test_a_player_in_the_seats_of_agents():
    """The counting player has less regret than TFT on the uniform pool, both above zero."""
    drawn = {"uniform": tabular.sample("uniform", 400, seeding.child(2, "pool"))}
    actors = {
        "Bayes": seats.Seated(certainty.CertaintyEquivalent(20, k=0.5)),
        "TFT": memory_one("TFT"),
    }
    found = pool_shift.regret(actors, [(0, 0)], drawn, ShiftSettings(20, 400))
    by_player = found.set_index("noise")["regret"]
    assert 0.0 < by_player["Bayes"] < by_player["TFT"]


def trained():
    model = ModelSettings(hidden=8, rounds=20)
    settings = replace(ppi_settings.SMOKE, model=model, first_games=60, first_steps=4, batch=16)
    run = ppi.PPI(settings, ppi.pairs([0, 1, 2]))
    run.pretrain()
    return run


def test_cross_play_of_seeds_meets_the_right_agent():
    """Agents that are vectors: seat s of seed k plays (k, s); every pair has its exact mean."""

    class Six:
        """Agent i plays C with probability i/5 in every round."""

        chunk = 16

        def start(self, table):
            return None

        def act(self, state, obs, u, noise):
            return u < torch.arange(6)[:, None] / 5, state

    agents = ppi.pairs([10, 11, 12])
    found = pool_shift.crossplay(Six(), agents, ShiftSettings(20, 100))
    assert len(found) == 6 * 3
    for row in found.itertuples():
        own = 2 * (row.seed - 10) + row.seat
        other = 2 * (row.other_seed - 10) + 1 - row.seat
        assert abs(row.cooperation - own / 5) < 0.05
        assert abs(row.other_cooperation - other / 5) < 0.05
    table = pool_shift.matrix(found)
    assert table.shape == (3, 3) and list(table.index) == list(table.columns) == [10, 11, 12]
    assert table.loc[12, 10] == pytest.approx(4 / 5, abs=0.05)
    with pytest.raises(ValueError, match="side by side"):
        pool_shift.crossplay(Six(), agents[::-1], SETTINGS)


def test_trained_agents_and_their_order():
    """A sequence model in another seat acts as it does in its own."""
    run = trained()
    actor = run.actor(1, 0.0)
    found = pool_shift.crossplay(actor, run.agents, ShiftSettings(20, 8))
    assert len(found) == 18 and found["cooperation"].between(0, 1).all()
    with pytest.raises(ValueError, match="no permutation"):
        Rearranged(actor, (0, 0, 1))
    order = (2, 0, 1, 5, 4, 3)
    other = Rearranged(actor, order)
    opponents = {"one": tabular.sample("uniform", 1, seeding.child(0, "one"))}
    same = [(0, 0)] * 6  # the same opponents and random numbers for all seats
    first, second = (
        pool_shift.regret({"off": x}, same, opponents, ShiftSettings(20, 8)) for x in (actor, other)
    )
    np.testing.assert_allclose(second["reward"], first["reward"].to_numpy()[list(order)])


def test_sequence_models_against_frozen_lola_policies():
    """Policies of exact learners are a set of opponents like any other."""
    run = trained()
    learned = lola.learn(
        lola.LolaSettings(updates=20), [seeding.child(0, "ipd", "lola", k) for k in range(4)]
    )
    found = pool_shift.regret(
        {"half": run.actor(1, 0.5)}, run.agents, {"LOLA": learned.vectors[0]}, SETTINGS
    )
    assert len(found) == 6 and (found["games"] == 40).all()
    best = best_response.best_response(learned.vectors[0], 20).value.mean()
    np.testing.assert_allclose(found["best"], best)


def test_players_of_longer_memory_have_no_reference():
    class Alternating:
        """C, D, C, D, …"""

        def start(self, n):
            return 0

        def act(self, state, obs, u):
            return np.full(len(obs), 1 - state % 2, dtype=np.uint8), state + 1

    found = pool_shift.meet({"off": memory_one("TFT")}, AGENTS, {"alt": Alternating()}, SETTINGS)
    # TFT opens with C and then copies: C, C, D, C, D, …; it is suckered in 9 of 20 rounds
    assert (found["cooperation"] == 11 / 20).all() and (found["other_cooperation"] == 0.5).all()
    np.testing.assert_allclose(found["reward"], 1.0 - 11 / 20)
    assert found[["best", "regret", "alld"]].isna().all().all()


@pytest.mark.parametrize("name, ours", [("TitForTat", "TFT"), ("Grudger", "GRIM")])
def test_axelrod_strategies_play_as_ours(name, ours):
    pytest.importorskip("axelrod")
    players = {name: axelrod_players.Axelrod(name, 20)}
    found = pool_shift.meet({"off": memory_one("random")}, AGENTS[:2], players, SETTINGS)
    vectors = {name: tabular.named(ours)}
    expected = pool_shift.regret({"off": memory_one("random")}, AGENTS[:2], vectors, SETTINGS)
    for column in ("cooperation", "reward", "other_cooperation"):
        np.testing.assert_allclose(found[column], expected[column])


def test_axelrod_strategies_by_hand():
    """Tit for two tats forgives one defection: against D, D, D, … it gives two rounds."""
    pytest.importorskip("axelrod")
    players = {name: axelrod_players.Axelrod(name, 20) for name in ("TitFor2Tats", "Random")}
    found = pool_shift.meet({"off": memory_one("AllD")}, AGENTS[:1], players, SETTINGS)
    by_name = found.set_index("opponent")["other_cooperation"]
    assert by_name["TitFor2Tats"] == pytest.approx(2 / 20)
    assert by_name["Random"] == pytest.approx(0.5, abs=0.1)
    again = pool_shift.meet({"off": memory_one("AllD")}, AGENTS[:1], players, SETTINGS)
    assert again.equals(found)
    with pytest.raises(ValueError, match="no strategy 'Nobody'"):
        axelrod_players.Axelrod("Nobody", 20)


def test_bad_settings():
    with pytest.raises(ValueError, match="rounds and games"):
        ShiftSettings(20, 0)
    with pytest.raises(ValueError, match="unknown identity"):
        ShiftSettings(20, 10, identity="name")
