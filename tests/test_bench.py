"""The cost table: its rows, and that the rules engine earns its place."""

import json

import pytest

from dipllm_lib.__main__ import main


def rows(capsys, *words) -> list[dict]:
    assert main(["bench", *words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_rows_are_json_objects_with_their_ratio(capsys):
    found = rows(capsys, "games", "--quick")
    assert [list(row) for row in found] == [["name", "ours", "peer", "unit", "ratio"]]
    assert found[0]["ratio"] == pytest.approx(found[0]["ours"] / found[0]["peer"])


@pytest.mark.slow
def test_the_engine_is_two_orders_of_magnitude_faster(capsys):
    """A ratio of the same run; about 250 when it was written."""
    assert min(row["ratio"] for row in rows(capsys, "rules")) > 100
