"""The cost of a full search is counted in real searches; games are the same on any processes."""

import dataclasses

import numpy as np
import pytest

from dipllm_lib.dip import anchor, atlas, boards, collect, policies, search_cost, value, vocabulary
from dipllm_lib.run import parallel, profiles

SMOKE = profiles.load("smoke", 0).dip


def test_cost_of_a_small_search():
    """Seven powers with four candidates each; the package's time is scaled to the same phases."""
    settings = dataclasses.replace(SMOKE, search_candidates=4, search_draws=100)
    found = search_cost.cost(settings, passes=1, sample=4)
    assert found["candidates"] == 7 * 4 and found["lookups"] == 28 * settings.search_iterations
    assert 28 <= found["resolved"] <= found["lookups"]
    assert found["package_seconds"] == found["package_phase"] * found["resolved"] > 0
    assert found["ratio"] == pytest.approx(found["package_seconds"] / found["seconds"])


def test_sampled_plays_follow_the_policies():
    settings = search_cost.full_settings(SMOKE)
    position = boards.start()
    anchor = policies.SoftDumbBot(0.3, 0.1)
    record, _ = search_cost.timed(position, anchor, value.heuristic, settings, 0, 1)
    given = search_cost.plays(record, 400, np.random.default_rng(0))
    power = record.of(atlas.power("RUSSIA"))
    moscow = atlas.location("MOS")
    moves = boards.MOVE == given.kind[:, moscow]
    rows = vocabulary.VOCABULARY[[joint[0] for joint in power.candidates]]
    assert (rows[:, 1] == moscow).all()  # Moscow is Russia's first slot
    wanted = power.average @ (rows[:, 2] == boards.MOVE)
    assert moves.mean() == pytest.approx(wanted, abs=0.08)


@pytest.mark.slow
def test_full_search_costs_a_sixtieth_of_the_package():
    for name in ("cpu", "paper"):
        assert search_cost.cost(profiles.load(name, 0).dip, passes=1)["ratio"] >= 60


@pytest.mark.slow
def test_one_process_or_two_give_the_same_games_and_records():
    settings = dataclasses.replace(
        SMOKE, search_iterations=4, search_candidates=3, data_last_year=1901, gate_last_year=1901
    )
    path = str(anchor.human_path())
    net = collect.layers(search_cost.untrained(8, np.random.default_rng(0)))
    for function in (collect.search_game, collect.gate_game):
        tasks = [(settings, 3, number, path, net) for number in range(3)]
        one, two = (parallel.map(function, tasks, workers, 1) for workers in (1, 2))
        assert one == two and len({str(result) for result in one}) == 3
