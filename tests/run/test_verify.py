"""Each of the four rules passes on equal tables and fails on a planted change."""

import json
import shutil

import pandas as pd
import pytest

from dipllm_lib.run import files, graph, pipeline, verify
from dipllm_lib.run.graph import CLOSE, EXACT, STATISTICAL, TIMING, Notebook, Rule
from dipllm_lib.run.places import Refused

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
    return verify.compare("t", own, reference, rule)


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
    found = verdict(SUMMARY, SUMMARY.rename(columns={"SoS": "sos"}), rule)
    assert not found.passed and found.column == "columns"


# the command


GRAPH = (
    Notebook(
        "01_a",
        minutes=(1, 1, 1),
        tables={"01_e": EXACT, "01_c": CLOSE, "01_s": STATISTICAL, "01_t": TIMING},
    ),
)
MACHINE = {"cpu": "A", "threads": 2, "task_threads": 1, "python": "3.11", "lock": "1"}


@pytest.fixture
def runs(home, tmp_path):
    """An own run and a reference run with equal tables on one machine."""
    plan = pipeline.plan("smoke", 0, GRAPH, tmp_path)
    reference = tmp_path / "reference"
    for name in GRAPH[0].tables:
        files.write_text(plan.data / f"{name}.csv", SUMMARY.to_csv(index=False))
    manifest = {"files": {}, "notebooks": {}, "run": {"profile": "smoke", "seed": 0}}
    manifest["run"]["machine"] = MACHINE
    files.write_text(plan.data / "MANIFEST.json", json.dumps(manifest))
    shutil.copytree(plan.data, reference)
    return plan, reference


def change_run(folder, **changes):
    path = folder / "MANIFEST.json"
    manifest = files.read_json(path)
    manifest["run"] |= changes
    files.write_text(path, json.dumps(manifest))


def test_equal_runs(runs, capsys):
    assert verify.verify(*runs) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "equal machine: every table must be exact"
    assert len(lines) == 6 and lines[-1] == "4 of 4 tables agree with the reference run"


@pytest.mark.parametrize(
    ("table", "value", "here", "elsewhere"),
    [("01_e", 0.21, 1, 1), ("01_c", 0.2000001, 1, 0), ("01_s", 0.21, 1, 0), ("01_t", 9.0, 0, 0)]
    + [("01_c", 0.21, 1, 1), ("01_s", 0.5, 1, 1)],
)
def test_planted_change(runs, table, value, here, elsewhere):
    plan, reference = runs
    text = changed(SUMMARY, 0, "SoS", value).to_csv(index=False)
    files.write_text(plan.data / f"{table}.csv", text)
    if table == "01_s":  # the rule looks at the own interval: plant it in the reference
        files.write_text(plan.data / f"{table}.csv", SUMMARY.to_csv(index=False))
        files.write_text(reference / f"{table}.csv", text)
    assert verify.verify(plan, reference) == here
    change_run(reference, machine=MACHINE | {"threads": 1})
    assert verify.verify(plan, reference) == elsewhere


def test_missing_table(runs, capsys):
    plan, reference = runs
    (plan.data / "01_c.csv").unlink()
    assert verify.verify(plan, reference) == 1
    assert "own 01_c.csv is missing" in capsys.readouterr().out


def test_nothing_to_compare(runs, tmp_path):
    plan, reference = runs
    with pytest.raises(Refused, match="there is no reference run in data/reference yet"):
        verify.verify(plan, tmp_path / "nowhere")
    change_run(reference, profile="cpu")
    with pytest.raises(Refused, match="reference run has profile cpu, this one smoke"):
        verify.verify(plan, reference)
    files.write_text(plan.data / "MANIFEST.json", '{"files": {}, "notebooks": {}, "run": {}}')
    with pytest.raises(Refused, match="no whole run of profile smoke: run `python -m dipllm_lib"):
        verify.verify(plan, reference)


def test_rules_are_known():
    assert {r.kind for r in (EXACT, CLOSE, STATISTICAL, TIMING)} == {
        "exact",
        "close",
        "statistical",
        "timing",
    }
    assert graph.STATISTICAL.factor >= 1
