"""Executed copies as they are kept, and their tables against the csv."""

import copy

import pandas as pd
import pytest

from dipllm_lib.run import copies, tables, widgets
from dipllm_lib.run.places import Refused

TABLE = pd.DataFrame({"agent": ["lm", "anchor & co"], "share": [0.123456789, None], "n": [4, 5]})
BAR = {"data": {widgets.WIDGET: {"model_id": "1"}, "text/plain": ["Loading: 0%"]}}
VIEWER = {"data": {widgets.WIDGET: {"model_id": "2"}, "image/png": "iVBOR"}}
MARKS = {"papermill": {"start_time": "2026"}, "execution": {"iopub": "2026"}, "tags": []}


def code(source, outputs=(), **marks):
    cell = {"cell_type": "code", "id": "x", "execution_count": 1, "source": source.splitlines(True)}
    return cell | {"metadata": {**MARKS, **marks}, "outputs": [dict(o) for o in outputs]}


def page(table):
    kinds = {"text/html": [table.to_html()], "text/plain": [str(table)]}
    return {"output_type": "execute_result", "data": kinds, "metadata": {}}


def notebook(*cells):
    metadata = {"kernelspec": {"name": "python3"}, "papermill": {"input_path": "/x"}, "widgets": {}}
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def test_what_a_copy_loses_and_keeps():
    whole = notebook(
        {"cell_type": "markdown", "id": "m", "metadata": dict(MARKS), "source": ["text"]},
        code("# Parameters\nseed = 0\n", tags=[copies.INJECTED]),
        code("x", [BAR, VIEWER, page(TABLE)]),
    )
    before = copy.deepcopy(whole)
    found = copies.stripped(whole, "cpu", 0, "abc")
    assert whole == before
    assert found["metadata"] == {
        "kernelspec": {"name": "python3"},
        "dipllm": {"profile": "cpu", "seed": 0, "source": "abc"},
    }
    assert [cell["metadata"] for cell in found["cells"]] == [
        {"tags": []},
        {"tags": [copies.INJECTED]},
        {"tags": []},
    ]
    assert found["cells"][1]["id"] == copies.INJECTED
    assert found["cells"][1]["source"] == "# Parameters\nseed = 0"
    assert [list(o["data"]) for o in found["cells"][2]["outputs"]] == [
        ["image/png"],
        ["text/html", "text/plain"],
    ]
    assert [cell.get("execution_count") for cell in found["cells"]] == [None, 1, 1]
    assert copies.code_of(found) == ["x"]


def test_texts_are_all_that_can_be_read():
    stream = {"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]}
    found = copies.texts(notebook(code("x = 1", [stream, VIEWER, page(TABLE)])))
    assert [place for place, _ in found] == ["cell 1", *["the output of cell 1"] * 4]
    assert found[0][1] == "x = 1" and found[1][1] == "a\nb\n"
    assert "anchor &amp; co" in found[3][1]


SAVE = 'shelf.save_table(table, "01_x")'


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (SAVE, "01_x"),
        (f"{SAVE}\ntable", "01_x"),
        (f"shown = {SAVE}\nshown", "01_x"),
        (f"shown = {SAVE}\nshown = shown[:1]\nshown", None),
        (f"{SAVE}\nother", None),
        (f"{SAVE}\ntable.head()", None),
        (f"shown = {SAVE}", None),
        ("shelf.save_figure(figure, '01_x')", None),
        ("", None),
    ],
)
def test_which_table_a_cell_shows(source, name):
    found = copies.shown(notebook(code(source, [page(TABLE)])))
    assert list(found) == ([name] if name else [])


def shown(table):
    return copies.shown(notebook(code(SAVE, [page(table)])))["01_x"]


def test_a_table_that_is_not_shown():
    with pytest.raises(Refused, match="does not show the table 01_x"):
        copies.shown(notebook(code(SAVE)))


def test_shown_tables():
    rows = shown(TABLE)
    assert rows[0] == ["agent", "share", "n"]
    assert copies.table_fault(rows, tables.to_csv(TABLE)) is None
    other = tables.to_csv(TABLE.assign(share=[0.123458, None]))
    fault = "row 1, column share: shown '0.123457', in the csv '0.123458'"
    assert copies.table_fault(rows, tables.to_csv(TABLE.assign(share=[0.1236, None]))) is not None
    assert copies.table_fault(rows, tables.to_csv(TABLE.assign(n=[4, 6]))).startswith("row 2")
    assert copies.table_fault(rows, other.replace("0.123458", "0.123468")) == fault.replace(
        "0.123458", "0.123468"
    )
    assert "1 rows are shown, 2 are in" in copies.table_fault(rows[:2], tables.to_csv(TABLE))
    wider = tables.to_csv(TABLE.assign(more=1))
    assert copies.table_fault(rows, wider) == "3 columns are shown, 4 are in the csv"


def test_tables_that_are_cut():
    """100 rows and 30 columns: the first and the last of both are shown and compared."""
    table = pd.DataFrame({f"c{k}": range(100) for k in range(30)})
    with pd.option_context("display.max_rows", 10, "display.max_columns", 6):
        html = table._repr_html_()
    output = {"data": {"text/html": html}, "metadata": {}}
    rows = copies.shown(notebook(code(SAVE, [output])))["01_x"]
    assert (len(rows), len(rows[0])) == (12, 7)
    assert copies.table_fault(rows, tables.to_csv(table)) is None
    last = table.copy()
    last.loc[99, "c29"] = 0
    assert copies.table_fault(rows, tables.to_csv(last)) == (
        "row 100, column c29: shown '99', in the csv '0'"
    )
    hidden = table.copy()
    hidden.loc[50, "c15"] = 0
    assert copies.table_fault(rows, tables.to_csv(hidden)) is None


@pytest.mark.parametrize(
    ("cell", "stored", "same"),
    [
        ("0.12", "0.1249", True),
        ("0.12", "0.1251", False),
        ("1.2e-05", "0.0000123", True),
        ("1234567.9", "1.23457e+06", True),
        ("True", "True", True),
        ("NaN", "", True),
        ("NaN", "0", False),
        ("inf", "inf", True),
        ("inf", "1", False),
        ("a long text that is...", "a long text that is cut", True),
        ("a  text\nof two lines", "a text of two lines", True),
        ("lm", "anchor", False),
        ("4", "lm", False),
    ],
)
def test_cells(cell, stored, same):
    assert copies.same_cell(cell, stored) is same
