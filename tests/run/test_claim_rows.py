"""Reading tables, and differences of two intervals, by hand."""

import math

import pandas as pd
import pytest

from dipllm_lib.run import claim_rows, grades
from dipllm_lib.run.grades import Claim, Effect, Found

TABLE = pd.DataFrame({
    "agent": ["lm", "lm", "anchor"],
    "games": [14, 28, 28],
    "mean": [2.0, 3.0, 4.0],
    "low": [1.0, 2.0, 3.0],
    "high": [3.0, 4.0, 5.0],
    "sos": [20.0, 30.0, 40.0],
    "sos_low": [10.0, 20.0, 30.0],
    "sos_high": [30.0, 40.0, 50.0],
    "seeds": [2, 3, 10],
})  # fmt: skip


def test_one_row_and_its_intervals():
    row = claim_rows.one(TABLE, agent="lm", games=28)
    assert claim_rows.interval(row) == (3.0, 2.0, 4.0)
    assert claim_rows.interval(row, "sos") == (30.0, 20.0, 40.0)
    assert claim_rows.games(row, "sos") == (30.0, 20.0, 40.0, "28 games", 1, "")
    with pytest.raises(ValueError, match="selects 2 rows, one is wanted"):
        claim_rows.one(TABLE, agent="lm")
    with pytest.raises(ValueError, match="selects 0 rows"):
        claim_rows.one(TABLE, agent="search")


def test_a_value_column_with_plain_ends():
    row = pd.Series({"value": 0.8, "low": 0.6, "high": 1.0})
    assert claim_rows.interval(row, "value") == (0.8, 0.6, 1.0)


def test_differences_take_the_far_ends():
    assert claim_rows.minus((5.0, 4.0, 7.0), (2.0, 1.0, 4.0)) == (3.0, 0.0, 6.0)
    assert claim_rows.negative((3.0, 0.0, 6.0)) == (-3.0, -6.0, 0.0)
    found = claim_rows.turned(Found(3.0, 0.0, 6.0, "5 seeds", 5))
    assert found == (-3.0, -6.0, 0.0, "5 seeds", 5, "")


def test_too_few_trainings_are_a_reason():
    rows = [claim_rows.over_seeds(TABLE.iloc[k]) for k in range(3)]
    assert [found.reason for found in rows] == ["fewer than 3 trainings", "", ""]
    assert [found.n for found in rows] == ["2 seeds", "3 seeds", "10 seeds"]


def test_a_ledger_loads_a_table_once_and_two_rows_need_two_keys():
    asked = []
    ledger = claim_rows.Ledger("1", lambda name: asked.append(name) or TABLE)
    for _ in range(2):
        ledger.table("11_population")
        said = Claim("C1", "t", "w", "u", Effect(), "11_population")
        ledger.add(said, claim_rows.games(TABLE.iloc[0]))
    assert asked == ["11_population"]
    with pytest.raises(ValueError, match=r"\['C1'\] occur twice"):
        claim_rows.frame(ledger.rows)
    table = claim_rows.frame(ledger.rows[:1])
    assert table["readme"].tolist() == [True] and table["study"].tolist() == ["1"]


def test_rows_stand_by_number_and_parts_in_their_order():
    found = claim_rows.games(TABLE.iloc[0])
    keys = ["G0", "C10.1", "C2b", "C2a", "La", "C9"]
    rows = [grades.row("1", Claim(k, "t", "w", "u", Effect(), "–"), found) for k in keys]
    assert claim_rows.frame(rows)["claim"].tolist() == ["G0", "C2b", "C2a", "C9", "C10.1", "La"]


def test_nothing_measured_and_why():
    said, found = claim_rows.untested(Claim("N", "t", "w", "–", None, "–"), "no weights")
    assert math.isnan(found.mean) and found.reason == "no weights" and said.key == "N"


def test_what_the_readme_shows_is_no_list_of_successes():
    """Of each study parts of all kinds; chain/test_smoke.py holds that all keys exist."""
    assert len(set(claim_rows.SHOWN)) == len(claim_rows.SHOWN) <= 40
    assert {"C4a", "C7i", "C10.16", "I6", "I9e", "K1a", "K3a"} <= set(claim_rows.SHOWN)
