"""Tables and figures from a few real games and searches."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from dipllm_lib.dip import anchor, arena, atlas, collect, figures, game, report, value
from dipllm_lib.dip.search import Record
from dipllm_lib.dip.value import ValueNet
from dipllm_lib.run import parallel, profiles

SETTINGS = dataclasses.replace(
    profiles.load("smoke", 0).dip, selfplay_last_year=1903, data_last_year=1901, gate_last_year=1901
)
PATH = str(anchor.human_path())


@pytest.fixture(scope="module")
def net() -> ValueNet:
    """A net that has learned nothing: its last layer is zero, so it values by its prior."""
    sizes = ((value.FEATURES, 4), (4, 4), (4, 7))
    pairs = [(np.zeros(s, np.float32), np.zeros(s[1], np.float32)) for s in sizes]
    return ValueNet(*(value.Layer(*pair) for pair in pairs))


@pytest.fixture(scope="module")
def selfplay() -> list[dict]:
    return [collect.anchor_game((SETTINGS, 0, number, PATH)) for number in range(3)]


def test_a_task_is_the_same_game_in_another_process_and_another_game_under_another_seed(selfplay):
    tasks = [(SETTINGS, 0, number, PATH) for number in range(3)]
    assert parallel.map(collect.anchor_game, tasks, workers=2, task_threads=1) == selfplay
    assert collect.anchor_game((SETTINGS, 1, 0, PATH))["phases"] != selfplay[0]["phases"]


def test_the_games_table_counts_phases_and_centres(selfplay):
    games = [game.Game.from_saved(saved) for saved in selfplay]
    table = report.games_table(games)
    assert list(table["game"]) == ["0-selfplay-0", "0-selfplay-1", "0-selfplay-2"]
    assert list(table["phases"]) == [len(saved["phases"]) - 1 for saved in selfplay]
    for played, row in zip(games, table.to_dict("records"), strict=True):
        assert [row[name] for name in atlas.POWERS] == played.final_centres.tolist()
    assert report.replay_table(games)["phases"].sum() == table["phases"].sum()


def test_a_search_game_keeps_the_record_of_every_phase(net):
    found = collect.search_game((SETTINGS, 0, 0, PATH, collect.layers(net)))
    records = [Record.from_json(row) for row in found["records"]]
    names = [phase["name"] for phase in found["game"]["phases"][:-1]]
    assert [record.phase for record in records] == names
    assert {row["game"] for row in found["records"]} == {found["game"]["id"]}
    regret = report.regret_table(records, np.random.default_rng(0), 20)
    assert regret["iteration"].iloc[[0, -1]].tolist() == [1, SETTINGS.search_iterations]
    moves = [r for r in records if r.phase.endswith("M")]
    last = np.concatenate([r.regret[-1] for r in moves])
    assert regret["regret"].iloc[-1] == pytest.approx(last.mean())
    turns = sum(len(record.powers) for record in records)
    assert report.diagnostics_table(records)["turns"].sum() == turns


def test_a_gate_game_seats_the_searcher_by_its_number(net):
    saved = collect.gate_game((SETTINGS, 0, 4, PATH, collect.layers(net)))
    assert saved["agents"] == ["anchor"] * 4 + ["search"] + ["anchor"] * 2


def test_scores_are_in_per_cent_and_average_over_seats():
    player = collect.anchor(SETTINGS, PATH)
    table = arena.one_vs_six(player, player, 7, game.EndRules(1901), 0)
    (row,) = report.scores([table], np.random.default_rng(0), 50).to_dict("records")
    assert (row["agent"], row["opponents"], row["games"]) == ("anchor", "anchor", 7)
    assert row["sos"] == pytest.approx(100 * table["sos"].mean())
    assert row["centres"] == pytest.approx(table["centres"].mean())
    assert row["sos_low"] < row["sos"] < row["sos_high"]


def test_reliability_bins_hold_all_positions(selfplay):
    games = [game.Game.from_saved(saved) for saved in selfplay]
    predictors = {"heuristic": value.heuristic}
    table = report.reliability(predictors, games, 4, np.random.default_rng(0), 20)
    assert table["positions"].sum() == 7 * sum(g.positions().n for g in games)
    # both sides of the curve are shares: over all power-positions their means are 1/7
    weights = table["positions"] / table["positions"].sum()
    assert (table["predicted"] * weights).sum() == pytest.approx(1 / 7, abs=1e-6)
    assert (table["realised"] * weights).sum() == pytest.approx(1 / 7, abs=1e-6)


def test_legality_finds_an_illegal_order(selfplay):
    played = game.Game.from_saved(selfplay[0])
    table = report.legality_table({"anchor": [played]})
    assert (table["orders"] == table["legal"]).all()
    assert set(table["phase"]) <= {"movement", "retreats", "adjustments"}
    played.orders[0]["AUSTRIA"][0] = "A PAR - BUR"  # the unit of another power
    table = report.legality_table({"anchor": [played]})
    assert (table["orders"] - table["legal"]).sum() == 1


def test_free_text_shares_by_hand():
    table = pd.DataFrame({
        "slots": [3, 1],
        "legal_orders": [2, 1],
        "all_legal": [False, True],
    })
    (row,) = report.free_text_table({"lm": table}).to_dict("records")
    assert row == {"agent": "lm", "turns": 2, "whole": 0.5, "orders": 0.75}


def test_figures_draw_from_their_tables_and_name_their_axes():
    scores = pd.DataFrame({"agent": ["lm"], "sos": [15.0], "sos_low": [14.0], "sos_high": [16.0]})
    history = pd.DataFrame({"step": [0, 1], "loss": [np.nan, 2.0], "kl": [3.0, 1.0]})
    kl = pd.DataFrame({"policy": ["anchor"], "kl": [0.5]})
    opening = pd.DataFrame({"unit": ["A MUN"] * 2, "order": ["A MUN H", "A MUN - BUR"]})
    for name in ("anchor", "before", "after", "target"):
        opening[name] = [0.25, 0.75]
    rule = {"rule": ["normalised"] * 2, "lam": [0.01, 0.1], "gain": [0.1, 0.2]}
    theory = pd.DataFrame(rule | {"gain_low": [0.1] * 2, "gain_high": [0.2] * 2, "bound": [0.1, 1]})
    drawn = [
        figures.scores(scores),
        figures.loss(history, kl),
        figures.openings(opening),
        figures.exploitability(theory),
    ]
    for figure in drawn:
        assert all(ax.get_xlabel() or ax.get_title() for ax in figure.axes)
    bars = drawn[2].axes[0].containers[0]
    assert [bar.get_height() for bar in bars] == [0.75, 0.25, 0.0]  # target first, then `other`
    ticks = [text.get_text() for text in drawn[2].axes[0].get_xticklabels()]
    assert ticks == ["BUR", "H", "other"]
    for figure in drawn:
        plt.close(figure)


def test_an_agent_without_a_colour_is_an_error():
    table = pd.DataFrame({"agent": ["nobody"], "sos": [1.0], "sos_low": [1.0], "sos_high": [1.0]})
    with pytest.raises(KeyError):
        figures.scores(table)
    plt.close("all")
