"""Grades by hand, with every border."""

import math

import pandas as pd
import pytest

from dipllm_lib.ipd import contrasts
from dipllm_lib.run import grades
from dipllm_lib.run.grades import Claim, Effect, Found, Region, Told


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (1.0, 3.0, "reproduced"),  # holds 2
        (2.0, 3.0, "reproduced"),  # touches it
        (0.5, 2.0, "reproduced"),
        (0.5, 1.9, "same direction"),
        (2.1, 3.0, "same direction"),
        (0.0, 3.0, "not supported"),  # an end on the bound does not exclude it
        (-1.0, 3.0, "not supported"),
        (0.0, 0.0, "not supported"),
        (-1.0, 0.0, "not supported"),
        (-2.0, -0.1, "contradicted"),
    ],
)
def test_an_effect_above_zero_that_is_stated_as_two(low, high, found):
    assert Effect(stated=2.0).grade(low, high) == found


def test_below_a_bound_everything_is_mirrored():
    cheaper = Effect(1.0, -1, (0.1, 0.2))
    assert cheaper.grade(0.15, 0.4) == "reproduced" == cheaper.grade(0.2, 0.9)
    assert cheaper.grade(0.3, 0.9) == "same direction" == cheaper.grade(0.01, 0.09)
    assert cheaper.grade(0.3, 1.0) == "not supported"
    assert cheaper.grade(1.1, 3.0) == "contradicted"
    assert cheaper.number == pytest.approx(0.15)


def test_without_a_stated_number_it_is_at_best_the_same_direction():
    assert Effect().grade(0.1, 9.0) == "same direction" and math.isnan(Effect().number)


def test_what_lies_within_the_margin_is_no_effect():
    small = Effect(margin=0.01)
    assert small.grade(0.005, 0.009) == "not supported" == small.grade(0.01, 0.5)
    assert small.grade(-0.01, -0.002) == "not supported"
    assert small.grade(0.011, 0.5) == "same direction"
    assert small.grade(-0.5, -0.011) == "contradicted"


@pytest.mark.parametrize(
    ("region", "low", "high", "found"),
    [
        (Region(0, 1), 0.0, 1.0, "reproduced"),
        (Region(0, 1), 0.5, 1.1, "not supported"),
        (Region(0, 1), 1.0, 2.0, "not supported"),  # touches
        (Region(0, 1), 1.1, 2.0, "contradicted"),
        (Region(0, 1), -2.0, -0.1, "contradicted"),
        (Region(last=800), 228.0, 228.0, "reproduced"),
        (Region(last=800), 700.0, 900.0, "not supported"),
        (Region(first=0.9), 0.95, 1.0, "reproduced"),
        (Region(0, 1e-12), 2e-16, 2e-16, "reproduced"),
    ],
)
def test_a_region_is_where_the_whole_interval_must_lie(region, low, high, found):
    assert region.grade(low, high) == found


def test_the_border_that_is_named():
    assert (
        Region(0, 0.5).bound == 0.5 and Region(last=3).bound == 3 and Region(first=-1).bound == -1
    )
    assert Region(-0.03, 0.03).bound == -0.03


def test_what_a_notebook_judged_itself():
    words = {"shown": "same direction", "open": "not supported", "reversed": "contradicted"}
    assert {word: Told(word).grade(0, 0) for word in words} == words
    with pytest.raises(ValueError, match="unknown verdict 'not measured'"):
        Told("not measured")


@pytest.mark.parametrize(
    "wrong",
    [lambda: Effect(side=0), lambda: Effect(margin=-1), lambda: Region(), lambda: Region(2, 1)],
)
def test_claims_that_say_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match="must be 1 or -1|is no region"):
        wrong()


CLAIM = Claim(
    "C9", "it helps", "Table 6", "points", Effect(stated=1.4), "10_lifts", "1.4", note="n"
)


def test_a_row_has_the_columns_and_the_grade():
    row = grades.row("1", CLAIM, Found(1.5, 1.0, 2.0, "42 games", 1))
    assert tuple(row) == grades.COLUMNS
    assert (row["verdict"], row["kind"], row["bound"], row["number"]) == (
        "reproduced", "effect", 0.0, 1.4,
    )  # fmt: skip
    assert (row["n"], row["seeds"], row["note"]) == ("42 games", 1, "n")


def test_a_reason_comes_before_any_number():
    row = grades.row("1", CLAIM, Found(1.5, 1.0, 2.0, "2 seeds", 2, grades.FEW))
    assert row["verdict"] == "not testable here"
    assert row["note"] == "fewer than 3 trainings; n" and row["mean"] == 1.5
    empty = Claim("N", "t", "w", "–", None, "–")
    row = grades.row("1", empty, Found(math.nan, math.nan, math.nan, "–", reason="no weights"))
    assert row["verdict"] == "not testable here" and row["kind"] == "–"


@pytest.mark.parametrize("found", [(math.nan,) * 3, (3.0, 0.0, 2.0)])
def test_a_number_without_its_interval_or_a_reason_is_refused(found):
    with pytest.raises(ValueError, match="C9: .* is no mean with its interval"):
        grades.row("1", CLAIM, Found(*found, "42 games"))


def test_a_wide_interval_that_holds_the_stated_number_says_so():
    wide = grades.row("1", CLAIM, Found(1.5, 0.1, 1.6, "42 games"))
    assert (wide["verdict"], wide["note"]) == ("reproduced", f"n; {grades.WIDE}")
    other = grades.row("1", CLAIM, Found(1.5, 0.3, 1.6, "42 games"))
    assert other["note"] == "n"  # 1.3 wide, 1.4 stated


def test_counts_by_study_and_speaker():
    table = pd.DataFrame({
        "study": ["1", "1", "2"],
        "of": ["text", "beside", "text"],
        "verdict": ["reproduced", "contradicted", "reproduced"],
    })
    found = grades.counts(table)
    assert list(found.index) == list(grades.GRADES)
    assert list(found.columns) == ["1, beside", "1, text", "2, text"]
    assert found.loc["reproduced"].tolist() == [0, 1, 1]
    assert found.loc["not supported"].tolist() == [0, 0, 0]


def test_too_few_is_the_same_number_in_the_contrasts_of_study_2():
    assert grades.FEWEST == contrasts.FEWEST
