"""Executed copies of notebooks as they are kept, and the tables that they show.

A kept copy has the outputs and the counts of the run. It loses the marks of papermill and of the
kernel (paths, times), widgets, and progress bars that were widgets. It carries profile, seed and
source hash of its run.

A cell whose last line is a table that it saves shows the whole of it; `table_fault` holds what is
shown against the csv, number by number, to the digits that are shown.
"""

import ast
import csv
import io
from decimal import Decimal, InvalidOperation
from html.parser import HTMLParser

from dipllm_lib.run import execute, widgets
from dipllm_lib.run.places import Refused

LOST = ("papermill", "execution")
INJECTED = "injected-parameters"
MARK = "dipllm"
DOTS = "..."
ROUNDING = Decimal("0.00001")  # relative; a csv has 6 significant digits


def stripped(notebook: dict, profile: str, seed: int, source: str) -> dict:
    """The copy as it is kept."""
    notebook = widgets.without(notebook)
    metadata = {k: v for k, v in notebook["metadata"].items() if k not in LOST}
    metadata[MARK] = {"profile": profile, "seed": seed, "source": source}
    cells = [_cell(cell) for cell in notebook["cells"]]
    return {**notebook, "cells": cells, "metadata": metadata}


def _cell(cell: dict) -> dict:
    """A cell without marks of the run; the one that papermill adds has a random id."""
    kept = cell | {"metadata": {k: v for k, v in cell["metadata"].items() if k not in LOST}}
    if INJECTED in cell["metadata"].get("tags", ()):
        kept |= {"id": INJECTED, "source": execute.source(cell).rstrip("\n")}
    return kept


def code_of(notebook: dict) -> list[str]:
    """The code cells of a notebook, without the one that papermill adds."""
    return [
        execute.source(cell)
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and INJECTED not in cell["metadata"].get("tags", ())
    ]


def texts(notebook: dict) -> list[tuple[str, str]]:
    """(place, text) of everything that a reader can read in a copy; pictures left out."""
    found = []
    for number, cell in enumerate(notebook["cells"], 1):
        found.append((f"cell {number}", execute.source(cell)))
        for output in cell.get("outputs", ()):
            parts = [output["text"]] if "text" in output else []
            parts += [v for k, v in output.get("data", {}).items() if not k.startswith("image/")]
            found += [(f"the output of cell {number}", "".join(part)) for part in parts]
    return found


class _Table(HTMLParser):
    """The rows of the first table of an HTML text, each a list of cell texts."""

    def __init__(self):
        super().__init__()
        self.rows, self.open, self.tables = [], False, 0

    def handle_starttag(self, tag, attrs):
        self.tables += tag == "table"
        if self.tables == 1 and tag == "tr":
            self.rows.append([])
        if self.tables == 1 and tag in ("td", "th"):
            self.open = True
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.open = False

    def handle_data(self, data):
        if self.open:
            self.rows[-1][-1] += data


def _saved(code: str) -> str | None:
    """NAME if the last line of a cell shows the table that the cell saves as NAME.

    It ends with `shelf.save_table(table, "NAME")`, or with `table`, which it has saved so or which
    is what that call returned.
    """
    body = ast.parse(code).body
    if not body or not isinstance(body[-1], ast.Expr):
        return None
    last = body[-1].value
    if isinstance(last, ast.Call):
        return _name(last)
    for place, line in enumerate(body[:-1]):
        call = getattr(line, "value", None)
        if isinstance(last, ast.Name) and isinstance(call, ast.Call) and _name(call):
            told = line.targets[0] if isinstance(line, ast.Assign) else call.args[0]
            if ast.unparse(told) == last.id and not _assigned(last.id, body[place + 1 :]):
                return _name(call)
    return None


def _assigned(name: str, lines: list[ast.stmt]) -> bool:
    """Whether one of the `lines` gives `name` another value."""
    nodes = [node for line in lines for node in ast.walk(line) if isinstance(node, ast.Name)]
    return any(node.id == name and isinstance(node.ctx, ast.Store) for node in nodes)


def _name(call: ast.Call) -> str | None:
    """NAME of `shelf.save_table(..., "NAME")`, None for another call."""
    named = len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
    return call.args[1].value if named and ast.unparse(call.func) == "shelf.save_table" else None


def shown(notebook: dict) -> dict[str, list[list[str]]]:
    """Table name -> header and rows as a copy shows them, without the column of row numbers.

    Raises Refused if a cell that should show a table does not.
    """
    found = {}
    for cell in notebook["cells"]:
        name = _saved(execute.source(cell)) if cell["cell_type"] == "code" else None
        if name is None:
            continue
        pages = ["".join(o["data"]["text/html"]) for o in cell["outputs"] if _has_html(o)]
        if not pages:
            raise Refused(f"the executed copy does not show the table {name}")
        parser = _Table()
        parser.feed(pages[-1])
        found[name] = [row[1:] for row in parser.rows]
    return found


def _has_html(output: dict) -> bool:
    return "text/html" in output.get("data", {})


def _picked(count: int, cells: list[str]) -> list[int]:
    """Which of `count` places the shown `cells` stand for; -1 for the dots of a cut."""
    if DOTS not in cells:
        return list(range(len(cells)))
    cut = cells.index(DOTS)
    behind = len(cells) - cut - 1
    return [*range(cut), -1, *range(count - behind, count)]


def table_fault(rows: list[list[str]], text: str) -> str | None:
    """Where the shown `rows` (the header first) and the csv `text` differ, or None.

    Long tables are shown cut, with dots in place of the rows or columns between.
    """
    stored = list(csv.reader(io.StringIO(text)))
    across = _picked(len(stored[0]), rows[0])
    down = _picked(len(stored), [row[0] if set(row) == {DOTS} else "" for row in rows])
    if len(down) != len(rows) or (-1 not in down and len(rows) != len(stored)):
        return f"{len(rows) - 1} rows are shown, {len(stored) - 1} are in the csv"
    for row, i in zip(rows, down, strict=True):
        if len(row) != len(across) or (-1 not in across and len(row) != len(stored[0])):
            return f"{len(row)} columns are shown, {len(stored[0])} are in the csv"
        for cell, j in zip(row, across, strict=True):
            if -1 not in (i, j) and not same_cell(cell, stored[i][j]):
                return (
                    f"row {i}, column {stored[0][j]}: shown {cell!r}, in the csv {stored[i][j]!r}"
                )
    return None


def same_cell(cell: str, stored: str) -> bool:
    """Whether a shown cell stands for the stored one: numbers to the digits that are shown."""
    cell, stored = " ".join(cell.split()), " ".join(stored.split())
    if cell == stored or (stored == "" and cell in ("NaN", "None", "nan", "")):
        return True
    if cell.endswith(DOTS):  # a long text
        return stored.startswith(cell[: -len(DOTS)])
    try:
        a, b = Decimal(cell), Decimal(stored)
    except InvalidOperation:
        return False
    if not (a.is_finite() and b.is_finite()):
        return a == b
    half = Decimal(1).scaleb(a.as_tuple().exponent) / 2
    return abs(a - b) <= half + ROUNDING * abs(b)
