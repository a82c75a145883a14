"""The results table of the README, written from a table of claims (13_claims.csv), in Markdown.

One line per claim whose `readme` is set (`claim_rows.SHOWN`): what is said and where, the notebook
and the table with the number, what is stated, measured, its interval, the verdict. The block stands
between BEGIN and END; `replaced` puts a new one there. Numbers have three significant digits.
"""

import math
from collections.abc import Iterable

import pandas as pd

from dipllm_lib.run.places import number

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
HEAD = ("claim", "where", "notebook", "file", "stated", "measured", "interval", "verdict")


def results_table(claims: pd.DataFrame) -> str:
    """The Markdown table of the flagged rows of `claims`, in their order. ValueError if none is."""
    shown = claims[claims["readme"].astype(bool)]
    if shown.empty:
        raise ValueError("no claim is flagged for the README")
    lines = [_line(HEAD), _line("---" for _ in HEAD)]
    lines += [_line(_cells(row)) for row in shown.to_dict("records")]
    return "\n".join(lines) + "\n"


def replaced(readme: str, claims: pd.DataFrame) -> str:
    """`readme` with the table of `claims` between BEGIN and END. ValueError unless both stand there
    once, in this order."""
    if (
        readme.count(BEGIN) != 1
        or readme.count(END) != 1
        or readme.index(BEGIN) > readme.index(END)
    ):
        raise ValueError(f"README.md needs one line {BEGIN} and after it one line {END}")
    before, rest = readme.split(BEGIN)
    return f"{before}{BEGIN}\n\n{results_table(claims)}\n{END}{rest.split(END)[1]}"


def _line(cells: Iterable[str]) -> str:
    """One line of the table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _cells(row: dict) -> tuple[str, ...]:
    """The texts of one line."""
    measured = interval = "–"
    if not math.isnan(row["mean"]):
        measured = _number(row["mean"])
    if not math.isnan(row["mean"]) and row["low"] != row["high"]:
        interval = f"{_number(row['low'])} to {_number(row['high'])}"
    notebook = number(row["table"]) if row["table"][:2].isdigit() else "–"
    file = f"`{row['table']}`" if notebook != "–" else row["table"]
    said = f"{row['claim']} {row['text']}"
    unit = f" {row['unit']}" if measured != "–" else ""
    source = said, row["where"], notebook, file, row["stated"]
    return *source, measured + unit, interval, row["verdict"]


def _number(value: float) -> str:
    """Three significant digits; what is not above 1e-9 is 0."""
    return "0" if abs(value) <= 1e-9 else f"{value:.3g}"
