"""Tables as csv (for machines and `verify`) and tex (for a paper), and how an interval is written.

An estimate with an interval is three columns: `x`, `x_low`, `x_high`, or `mean`, `low`, `high`. csv
has 6 significant digits and one line per row; tex has 3 decimals and writes the three columns as
one, `value ± half-width`.
"""

import io
import math

import pandas as pd

DIGITS = 6


def triples(columns) -> list[tuple[str, str, str]]:
    """The (value, low, high) columns among `columns`, in their order."""
    names = [str(column) for column in columns]
    found = [(name, f"{name}_low", f"{name}_high") for name in names] + [("mean", "low", "high")]
    return [triple for triple in found if set(triple) <= set(names)]


def to_csv(table: pd.DataFrame, digits: int = DIGITS) -> str:
    """csv text without index.

    Raises ValueError for nested or repeated column names or an empty table.
    """
    columns = list(table.columns)
    if not all(isinstance(column, str) for column in columns) or len(set(columns)) != len(columns):
        raise ValueError(f"columns of a table must be distinct texts, got {columns}")
    if table.empty:
        raise ValueError(f"a table must have at least one row; columns {columns}")
    return table.to_csv(index=False, lineterminator="\n", float_format=f"%.{digits}g")


def from_csv(text: str) -> pd.DataFrame:
    """The table of `to_csv`; an empty field is a missing value, the text `None` is a text."""
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


def to_tex(table: pd.DataFrame) -> str:
    """A `tabular` with booktabs lines."""
    merged = table.copy()
    for value, low, high in triples(table.columns):
        half = (table[high] - table[low]) / 2
        merged[value] = [
            "" if math.isnan(v) else f"{v:.3f} ± {h:.3f}"
            for v, h in zip(table[value], half, strict=True)
        ]
        merged = merged.drop(columns=[low, high])
    return merged.to_latex(index=False, escape=True, float_format="%.3f", na_rep="")
