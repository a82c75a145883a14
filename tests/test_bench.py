"""The cost table: its rows, and that the rules engine earns its place."""

import json

import pytest

from dipllm_lib.__main__ import main
from dipllm_lib.run import ray_connect

FIELDS = ["bench", "name", "ours", "peer", "unit", "ratio", "machine"]
RULES = [
    "movement, uniform orders",
    "movement, uniform orders, set up too",
    "movement, uniform orders, one a call",
    "legal orders, uniform play",
    "movement, coherent orders",
    "movement, coherent orders, set up too",
    "movement, coherent orders, one a call",
    "legal orders, coherent play",
    "whole random games",
]


def rows(capsys, *words) -> tuple[list[dict], str]:
    """The rows, and what was said about the measurement."""
    assert main(["bench", *words, "--json"]) == 0
    shown = capsys.readouterr()
    return [json.loads(line) for line in shown.out.splitlines()], shown.err


def test_rows_are_json_objects_with_their_ratio(capsys):
    found, _ = rows(capsys, "games", "--quick")
    assert [list(row) for row in found] == [FIELDS]
    assert found[0]["name"] == "whole random games, recorded"
    assert found[0]["ratio"] == pytest.approx(found[0]["ours"] / found[0]["peer"])
    assert found[0]["ratio"] > 1


@pytest.mark.slow
def test_the_engine_is_two_orders_of_magnitude_faster(capsys):
    """Ratios of one short run: when they were written 235 to 280 for movement and 130 to 190 for
    whole games. The bounds leave room for a busy machine; `python -m dipllm_lib bench rules` takes
    its time.
    """
    found, notes = rows(capsys, "rules", "--quick")
    assert [row["name"] for row in found] == RULES
    assert all(list(row) == FIELDS for row in found)
    ratio = {row["name"]: row["ratio"] for row in found}
    for kind in ("uniform", "coherent"):
        name = f"movement, {kind} orders"
        assert ratio[name] > 150 and ratio[f"{name}, set up too"] > ratio[name]
        assert ratio[f"{name}, one a call"] > 10 and ratio[f"legal orders, {kind} play"] > 20
    assert ratio["whole random games"] > 60
    lines = notes.splitlines()
    assert len(lines) == 4 and all(line.startswith("# ") for line in lines)
    assert "diplomacy 1.1.2" in lines[0] and "units a board" in lines[1]


@pytest.mark.slow
def test_a_search_costs_a_sixtieth_of_its_phases_on_the_package(capsys):
    found, notes = rows(capsys, "search", "--quick")
    assert [row["name"] for row in found] == ["search as in cpu"]
    assert found[0]["ratio"] > 60
    assert "224 candidates, 96 iterations" in notes


@pytest.mark.slow
def test_two_workers_play_the_games_of_one(capsys):
    """Rows only: how much a second worker is worth depends on the machine."""
    found, notes = rows(capsys, "parallel", "--quick")
    expected = ["2 processes, one worker beside"]
    expected += ["2 workers of Ray, one worker beside"] * ray_connect.installed()
    assert [row["name"] for row in found] == expected
    assert all(list(row) == FIELDS and row["unit"] == "games/s" for row in found)
    assert "300 games to 1908: " in notes and "2 processes: " in notes
