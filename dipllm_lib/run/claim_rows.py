"""From the tables of the chain to rows of claims: reading, picking, and differences of two rows.

A `Ledger` collects the rows of one study. Tables are loaded once, by name. Nothing is computed here
but differences of two intervals, where no paired difference is at hand: low - high and high - low,
which is wider than any interval of the difference, so it never resolves too much.
"""

import math
import re
from collections.abc import Iterable

import pandas as pd

from dipllm_lib.run import grades
from dipllm_lib.run.grades import Claim, Found, Load

Interval = tuple[float, float, float]
SHOWN = (  # what the README shows: the main statement of each part, whatever its verdict
    "C1", "C2a", "C2b", "C3a", "C4a", "C4b", "C5a", "C6d", "C7a", "C7i", "C8a", "C8b", "C8c",
    "C9b", "C10.16", "C13a", "I1 half", "I2a", "I3 half", "I4 half", "I5b", "I6", "I7a on",
    "I8a on", "I8g", "I9a on", "I9e", "K1a", "K3a", "K4a", "K6a", "K6.1", "K7", "K8b", "K9a",
    "K11.1", "K12a", "K14",
)  # fmt: skip


def one(table: pd.DataFrame, **where: object) -> pd.Series:
    """The only row with these values. ValueError if there is none or more than one."""
    found = every(table, **where)
    if len(found) != 1:
        raise ValueError(f"{where} selects {len(found)} rows, one is wanted")
    return found.iloc[0]


def every(table: pd.DataFrame, **where: object) -> pd.DataFrame:
    """All rows with these values."""
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def interval(row: pd.Series, value: str = "mean") -> Interval:
    """(mean, low, high) of a row: columns mean, low, high, or x, x_low, x_high."""
    names = ("mean", "low", "high") if value == "mean" else (value, f"{value}_low", f"{value}_high")
    low_high = names[1:] if names[1] in row.index else ("low", "high")
    return tuple(float(row[name]) for name in (names[0], *low_high))


def minus(first: Interval, second: Interval) -> Interval:
    """Difference of two unpaired intervals: wide, see the module."""
    return first[0] - second[0], first[1] - second[2], first[2] - second[1]


def negative(found: Interval) -> Interval:
    """The interval of the value with the other sign."""
    return -found[0], -found[2], -found[1]


def turned(found: Found) -> Found:
    """The same measurement with the other sign."""
    mean, low, high = negative(found[:3])
    return found._replace(mean=mean, low=low, high=high)


def exact(value: float) -> Interval:
    """A number without an interval."""
    return (float(value),) * 3


def over_seeds(row: pd.Series, value: str = "mean", of: str = "seeds") -> Found:
    """What a row with an interval over trainings says; too few trainings are a reason."""
    seeds = int(row["seeds"])
    few = grades.FEW if seeds < grades.FEWEST else ""
    return Found(*interval(row, value), f"{seeds} {of}", seeds, few)


def games(row: pd.Series, value: str = "mean", seeds: float = 1) -> Found:
    """What a row with an interval over games says."""
    return Found(*interval(row, value), f"{int(row['games'])} games", seeds)


def turns(row: pd.Series, value: str = "mean", seeds: float = 1) -> Found:
    """What a row with an interval over power-turns says."""
    return Found(*interval(row, value), f"{int(row['turns'])} power-turns", seeds)


class Ledger:
    """The rows of a study."""

    def __init__(self, study: str, load: Load):
        self.study, self._load, self.rows = study, load, []
        self._tables: dict[str, pd.DataFrame] = {}

    def table(self, name: str) -> pd.DataFrame:
        """A table of the chain."""
        if name not in self._tables:
            self._tables[name] = self._load(name)
        return self._tables[name]

    def add(self, said: Claim, found: Found) -> None:
        """A row more."""
        self.rows.append(grades.row(self.study, said, found))


def frame(rows: Iterable[dict]) -> pd.DataFrame:
    """The table of claims, by number, and readme: whether in SHOWN. ValueError for a key twice."""
    rows = list(rows)
    series = list(dict.fromkeys(_place(row["claim"])[0] for row in rows))
    rows.sort(key=lambda row: (series.index(_place(row["claim"])[0]), _place(row["claim"])[1]))
    table = pd.DataFrame(rows, columns=list(grades.COLUMNS))
    twice = sorted(table["claim"][table["claim"].duplicated()])
    if twice:
        raise ValueError(f"claims have keys of their own, but {twice} occur twice")
    return table.astype({"seeds": float}).assign(readme=table["claim"].isin(SHOWN))


def _place(key: str) -> tuple[str, int]:
    """Letter and number of a claim: C10.16 -> C, 10; a key without a number has 0."""
    letter, number = re.match(r"([A-Z]+)(\d*)", key).groups()
    return letter, int(number or 0)


def untested(said: Claim, reason: str) -> tuple[Claim, Found]:
    """A claim without a measurement and why."""
    return said, Found(math.nan, math.nan, math.nan, "–", reason=reason)
