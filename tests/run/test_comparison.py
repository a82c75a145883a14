"""Each of the four rules passes on equal tables and fails on a planted change, with its rows."""

import pandas as pd
import pytest

from dipllm_lib.run import comparison
from dipllm_lib.run.graph import CLOSE, EXACT, STATISTICAL, TIMING, Rule

SUMMARY = pd.DataFrame({
    "agent": ["lm", "anchor"],
    "SoS": [0.20, 0.10],
    "SoS_low": [0.15, 0.08],
    "SoS_high": [0.27, 0.12],
    "games": [42, 42],
    "seeds": [1, 1],
    "seconds": [3.0, 1.0],
})


def verdict(own, reference, rule):
    return comparison.compare("t", own, reference, rule)


def changed(table, row, column, value):
    copy = table.copy()
    copy.loc[row, column] = value
    return copy


@pytest.mark.parametrize("rule", [EXACT, CLOSE, STATISTICAL, TIMING])
def test_equal_tables_pass(rule):
    assert verdict(SUMMARY, SUMMARY.copy(), rule).passed


@pytest.mark.parametrize("rule", [EXACT, CLOSE, STATISTICAL])
@pytest.mark.parametrize(
    ("row", "column", "value"), [(0, "agent", "other"), (1, "games", 43), (1, "seeds", 2)]
)
def test_texts_and_integers_must_be_equal(rule, row, column, value):
    found = verdict(SUMMARY, changed(SUMMARY, row, column, value), rule)
    assert not found.passed and found.column == column


def test_exact():
    found = verdict(SUMMARY, changed(SUMMARY, 1, "SoS", 0.1000001), EXACT)
    assert not found.passed
    assert (found.column, found.text) == ("SoS", "1 of 2 cells differ")


def test_close_at_the_edge():
    """|own - reference| <= atol + rtol |reference|: at 0.10 with rtol 1 % and atol 0.001, 0.002."""
    rule = Rule("close", rtol=0.01, atol=0.001)
    own = pd.DataFrame({"x": [0.10], "y": [5.0]})
    assert verdict(own, pd.DataFrame({"x": [0.10195], "y": [5.0]}), rule).passed
    found = verdict(own, pd.DataFrame({"x": [0.1021], "y": [5.0]}), rule)
    assert not found.passed and found.column == "x"
    per_column = Rule("close", columns={"x": (0.0, 0.01), "y": (0.1, 0.0)})
    assert verdict(own, pd.DataFrame({"x": [0.109], "y": [5.4]}), per_column).passed
    assert not verdict(own, pd.DataFrame({"x": [0.111], "y": [5.4]}), per_column).passed
    assert not verdict(own, pd.DataFrame({"x": [0.109], "y": [5.6]}), per_column).passed


def test_close_with_zero_tolerance_and_missing_values():
    own = pd.DataFrame({"x": [0.0, float("nan")]})
    assert verdict(own, own.copy(), Rule("close")).passed
    assert not verdict(own, pd.DataFrame({"x": [0.0, 1.0]}), CLOSE).passed
    assert not verdict(own, pd.DataFrame({"x": [1e-9, float("nan")]}), Rule("close")).passed


def test_statistical_at_the_edge():
    """Own 0.20 [0.15, 0.27], factor 2: the reference may lie in [0.10, 0.34]."""
    for value, passed in ((0.101, True), (0.099, False), (0.339, True), (0.341, False)):
        found = verdict(SUMMARY, changed(SUMMARY, 0, "SoS", value), STATISTICAL)
        assert found.passed is passed
    once = Rule("statistical", factor=1.0)
    assert not verdict(SUMMARY, changed(SUMMARY, 0, "SoS", 0.28), once).passed
    assert verdict(SUMMARY, changed(SUMMARY, 0, "seconds", 99.0), STATISTICAL).passed
    point = SUMMARY.assign(SoS_low=SUMMARY["SoS"], SoS_high=SUMMARY["SoS"])
    assert verdict(point, point.copy(), STATISTICAL).passed
    assert not verdict(point, changed(point, 0, "SoS", 0.21), STATISTICAL).passed


def test_statistical_rows_of_games():
    """Values 0, 1, 0, 1: mean 1/2, sd 0.577, half-width 1.96 * 0.577 / 2 = 0.566, doubled 1.13."""
    own = pd.DataFrame({"seed": [0, 0, 1, 1], "share": [0.0, 1.0, 0.0, 1.0]})
    assert verdict(own, own.assign(share=[1.6, 1.6, 1.6, 1.6]), STATISTICAL).passed
    assert not verdict(own, own.assign(share=[1.7, 1.7, 1.7, 1.7]), STATISTICAL).passed
    assert not verdict(own, own.assign(seed=[0, 0, 1, 2]), STATISTICAL).passed


def test_timing_never_fails():
    found = verdict(SUMMARY, SUMMARY.assign(agent="x", SoS=0.6), TIMING)
    assert found.passed and found.text == "0.25 times the reference"
    texts = pd.DataFrame({"package": ["numpy"], "version": ["2"]})
    assert verdict(texts, texts.assign(version="3"), TIMING).text == "other than the reference"
    assert verdict(texts, texts.copy(), TIMING).text == "as the reference"
    assert verdict(texts, SUMMARY, TIMING).passed


@pytest.mark.parametrize("rule", [EXACT, CLOSE, STATISTICAL])
def test_shape(rule):
    assert verdict(SUMMARY, SUMMARY[:1], rule).column == "rows"
    found = verdict(SUMMARY.rename(columns={"SoS": "sos"}), SUMMARY, rule)
    assert not found.passed
    assert (found.column, found.text) == ("columns", "SoS missing; sos new")
    found = verdict(SUMMARY, SUMMARY.drop(columns=["SoS", "games"]), rule)
    assert not found.passed and found.text == "SoS, games new"
    found = verdict(SUMMARY, SUMMARY[SUMMARY.columns[::-1]], rule)
    assert not found.passed and found.text == "in another order"


@pytest.mark.parametrize("rule", [EXACT, CLOSE, STATISTICAL])
def test_seeds_of_games_must_be_equal(rule):
    """A table without intervals: a seed is no quantity that could be close."""
    own = pd.DataFrame({"seed": [0.0, 1.0], "share": [0.4, 0.5]})
    assert verdict(own, own.copy(), rule).passed
    assert verdict(own, own.assign(seed=[0.0, 2.0]), rule).column == "seed"


# naming rows

GAMES = pd.DataFrame({
    "one": ["lm", "lm", "anchor", "anchor"],
    "seed": [0, 1, 0, 1],
    "map": ["standard"] * 4,
    "share": [0.25, 0.5, 0.75, 1.0],
})


def test_rows_are_named_by_the_first_texts_and_integers_that_tell_them_apart():
    other = changed(changed(GAMES, 2, "share", 0.7), 3, "share", float("nan"))
    found = verdict(GAMES, other, EXACT)
    assert found.text == "2 of 4 cells differ"
    assert found.rows == (
        "line 4, one anchor, seed 0: share 0.75, reference 0.7",
        "line 5, one anchor, seed 1: share 1, reference nan",
    )


def test_floats_are_keys_where_texts_do_not_tell_rows_apart():
    own = pd.DataFrame({"game": ["a", "a"], "x": [1.0, 2.0], "lam": [0.5, 1.5], "n": [7, 7]})
    rows = verdict(own, own.assign(x=[1.0, 3.0]), EXACT).rows
    assert rows == ("line 3, game a, n 7, lam 1.5: x 2, reference 3",)
    alike = own.assign(lam=0.5, x=2.0)
    rows = verdict(alike, changed(alike, 1, "x", 3.0), EXACT).rows
    assert rows == ("line 3, game a, n 7: x 2, reference 3",)


def test_all_columns_of_a_row_are_named_and_a_key_that_differs_is_no_key():
    other = changed(changed(GAMES, 1, "one", "search"), 1, "share", 0.1)
    assert verdict(GAMES, other, EXACT).rows == (
        "line 3, seed 1, map standard: one lm, reference search; share 0.5, reference 0.1",
    )


def test_close_names_only_rows_outside_the_tolerance():
    other = GAMES.assign(share=[0.2501, 0.6, 0.75, 1.0])
    found = verdict(GAMES, other, Rule("close", rtol=0.01))
    assert found.rows == ("line 3, one lm, seed 1: share 0.5, reference 0.6",)


def test_statistical_names_the_row_of_an_interval():
    """Own 0.10 [0.08, 0.12], factor 2: [0.06, 0.14]."""
    found = verdict(SUMMARY, changed(SUMMARY, 1, "SoS", 0.2), STATISTICAL)
    assert found.text == "reference 0.2, own 0.1 [0.08, 0.12]"
    assert found.rows == ("line 3, agent anchor: SoS 0.1, reference 0.2",)
    games = verdict(GAMES, GAMES.assign(share=GAMES["share"] + 9), STATISTICAL)
    assert not games.passed and games.rows == ()  # the mean of a column belongs to no row


def test_at_most_five_rows_are_named_and_long_texts_are_cut():
    own = pd.DataFrame({"text": [f"{k}{'x' * 60}" for k in range(8)], "n": range(8)})
    found = verdict(own, own.assign(n=own["n"] + 1), EXACT)
    assert len(found.rows) == 6 and found.rows[-1] == "and 3 more rows"
    assert found.rows[0] == f"line 2, text 0{'x' * 36}...: n 0, reference 1"


def test_rows_that_one_side_lacks():
    found = verdict(GAMES[:3], GAMES, CLOSE)
    assert (found.column, found.text) == ("rows", "3, reference 4")
    assert found.rows == ("only in the reference: one anchor, seed 1, map standard",)
    twice = pd.concat([GAMES, GAMES[:1]], ignore_index=True)
    assert verdict(twice, GAMES, EXACT).rows == ("only in this run: one lm, seed 0, map standard",)
    numbers = pd.DataFrame({"x": [0.5, 0.6]})
    assert verdict(numbers, numbers[:1], CLOSE).rows == ()


@pytest.mark.parametrize("rule", [EXACT, CLOSE, STATISTICAL])
def test_a_number_beside_a_text_or_nothing(rule):
    """A column that is a number here and a text there, or empty there."""
    own = pd.DataFrame({"x": [1.0, 2.0]})
    assert not verdict(own, pd.DataFrame({"x": ["1.0", "many"]}), rule).passed
    assert not verdict(own, pd.DataFrame({"x": [float("nan")] * 2}), rule).passed


def test_a_missing_mean_fails_wherever_it_stands():
    both = pd.DataFrame({"a": [0.0, 1.0], "b": [2.0, 3.0]})
    for name in both.columns:
        assert verdict(both, both.assign(**{name: float("nan")}), STATISTICAL).column == name
    found = verdict(SUMMARY, changed(SUMMARY, 0, "SoS", float("nan")), STATISTICAL)
    assert not found.passed and found.rows == ("line 2, agent lm: SoS 0.2, reference nan",)
    paper = changed(SUMMARY, 0, "SoS", float("nan"))
    assert verdict(paper, paper.copy(), STATISTICAL).passed
