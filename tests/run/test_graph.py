"""The house rules of the graph, and the one graph."""

import dataclasses
from pathlib import Path

import pytest

from dipllm_lib.run import graph, pipeline, places, skip
from dipllm_lib.run.graph import EXACT, Notebook

FIRST = Notebook("01_a", minutes=(1, 2, 3), files=("01_x.jsonl", "01_m"), tables={"01_t": EXACT})
SECOND = Notebook("02_b", minutes=(1, 2, 3), reads=("01_x.jsonl", "01_t"), figures=("02_f",))


def test_outputs():
    d, f = Path("d"), Path("f")
    assert FIRST.outputs(d, f) == [
        d / "01_x.jsonl",
        d / "01_m",
        d / "01_provenance.json",
        d / "01_t.csv",
        d / "01_t.tex",
    ]
    assert SECOND.outputs(d, f) == [d / "02_provenance.json", f / "02_f.png", f / "02_f.pdf"]
    assert dataclasses.replace(FIRST, figures=("01_t",)).writes == ("01_x.jsonl", "01_m", "01_t")


def test_inputs(home):
    run = pipeline.plan("smoke", 0, (FIRST, SECOND), Path("n"))
    assert run.input("01_x.jsonl") == home / "data" / "smoke" / "01_x.jsonl"
    assert run.input("01_t") == home / "data" / "smoke" / "01_t.csv"
    assert run.input("01_m") == home / "data" / "smoke" / "01_m"


def test_files_of_the_repository(home, tmp_path, monkeypatch):
    """They are read from data/inputs, hashed as they are, and missed by name."""
    monkeypatch.setattr(places, "root", lambda: tmp_path)
    third = Notebook("03_c", minutes=(1, 2, 3), reads=("inputs/a.bin",))
    graph.check((FIRST, third))
    run = pipeline.plan("smoke", 0, (FIRST, third), Path("n"))
    path = tmp_path / "data" / "inputs" / "a.bin"
    assert run.input("inputs/a.bin") == path
    assert skip.input_hash(run, "inputs/a.bin", {}) is None
    assert skip.missing_input(run, third) == (
        "data/inputs/a.bin is missing",
        "git checkout data/inputs",
    )
    path.parent.mkdir(parents=True)
    path.write_bytes(b"one")
    assert skip.missing_input(run, third) is None
    before = skip.input_hash(run, "inputs/a.bin", {})
    path.write_bytes(b"two")
    assert len(before) == 16 and skip.input_hash(run, "inputs/a.bin", {}) != before


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        ((SECOND, FIRST), "rising, distinct numbers"),
        ((FIRST, dataclasses.replace(SECOND, name="01_b", figures=())), "rising, distinct"),
        ((dataclasses.replace(FIRST, files=("02_x",)),), "names of another number"),
        ((FIRST, dataclasses.replace(SECOND, reads=("01_y",))), "no notebook that writes 01_y"),
        ((dataclasses.replace(FIRST, reads=("01_t",)),), "which is written later"),
    ],
)
def test_broken_graphs(chain, message):
    with pytest.raises(ValueError, match=message):
        graph.check(chain)


def test_a_letter_stands_between_two_numbers(home):
    """10b reads what 10 writes and is read by 11; the files of 10 are none of its own."""
    chain = (
        Notebook("10_a", minutes=(1, 2, 3), tables={"10_t": EXACT}),
        Notebook("10b_b", minutes=(1, 2, 3), reads=("10_t",), tables={"10b_t": EXACT}),
        Notebook("11_c", minutes=(1, 2, 3), reads=("10b_t",)),
    )
    graph.check(chain)
    run = pipeline.plan("smoke", 0, chain, Path("n"))
    assert [n.number for n in pipeline.chosen(run, "10b", None)] == ["10b", "11"]
    for name in ("10_t.csv", "10b_t.csv"):
        run.data.mkdir(parents=True, exist_ok=True)
        (run.data / name).write_text("x", encoding="utf-8")
    found = [[path.name for path in skip.leftovers(run, one)] for one in chain]
    assert found == [["10_t.csv"], ["10b_t.csv"], []]


def test_table_of_the_graph():
    table = pipeline.table("cpu").set_index("notebook")
    assert list(table.index) == [notebook.name for notebook in pipeline.GRAPH]
    assert table.loc["02_q_decomposition", "reads"] == "01_search.jsonl"
    assert "02_samples.jsonl" in table.loc["02_q_decomposition", "writes"].split(", ")
    assert table["minutes"].sum() <= 150


def test_the_graph():
    graph.check(pipeline.GRAPH)
    kinds = {rule.kind for notebook in pipeline.GRAPH for rule in notebook.tables.values()}
    assert kinds == {"exact", "close", "statistical", "timing"}
    for notebook in pipeline.GRAPH:
        assert len(notebook.minutes) == 3 and list(notebook.minutes) == sorted(notebook.minutes)
        assert all(0 < minutes for minutes in notebook.minutes)
    assert sum(notebook.minutes[0] for notebook in pipeline.GRAPH) <= 8
    assert sum(notebook.minutes[1] for notebook in pipeline.GRAPH) <= 150
