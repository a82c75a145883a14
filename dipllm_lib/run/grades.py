"""How a claim of a text is graded: a number with its interval against what the text says.

Two kinds of claim, and a third, `Told`, for what a notebook judged itself:

    Effect   "A is above (or below) a bound", with or without a stated size
    Region   "the value lies in this region": an equality with its tolerance, or an inequality

    grade                Effect                                        Region
    reproduced           the bound is excluded on the claimed side     the interval lies inside
                         and the interval meets the stated number
    same direction       the bound is excluded on the claimed side,    -
                         but the stated number too, or none is stated
    not supported        the interval meets the bound                  it crosses a border
    contradicted         the bound is excluded on the other side       it lies outside
    not testable here    nothing was measured, or too few trainings; the note says which

A claim without a number is therefore at best `same direction`, unless it is a region. The bound of
an effect may have a width, `margin`: what lies within it counts as no effect. An end of an interval
that lies on the bound, or on the stated number, meets it. Intervals are those of the tables: 95 %.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

REPRODUCED, DIRECTION = "reproduced", "same direction"
OPEN, CONTRADICTED, UNTESTED = "not supported", "contradicted", "not testable here"
GRADES = (REPRODUCED, DIRECTION, OPEN, CONTRADICTED, UNTESTED)
SAID = {"shown": DIRECTION, "open": OPEN, "reversed": CONTRADICTED}  # of a notebook
FEWEST = 3  # trainings whose interval over trainings says something
WIDE = "the interval is wider than the stated effect"
FEW = f"fewer than {FEWEST} trainings"
COLUMNS = (
    "claim", "study", "of", "text", "where", "stated", "mean", "low", "high", "unit", "n", "seeds",
    "kind", "bound", "number", "table", "verdict", "note",
)  # fmt: skip
# who says it: one of the three texts; this artifact or other work; a text, at another noise level
TEXT, OURS, AGAIN = "text", "beside", "again"
Load = Callable[[str], pd.DataFrame]


@dataclass(frozen=True)
class Effect:
    """A claim that a value lies above `bound` (side 1) or below it (side -1).

    stated: a number or a (low, high) band of the text, in the unit of the value; None without.
    ValueError for another side, a negative margin, or a stated number that is no effect.
    """

    bound: float = 0.0
    side: int = 1
    stated: float | tuple[float, float] | None = None
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.side not in (1, -1) or self.margin < 0:
            raise ValueError(f"side {self.side} must be 1 or -1, margin {self.margin} >= 0")

    @property
    def number(self) -> float:
        """What the text states, the middle of a band; nan without."""
        return math.nan if self.stated is None else sum(_band(self.stated)) / 2

    def grade(self, low: float, high: float) -> str:
        """One of GRADES for the interval [low, high]."""
        near, far = (low, high) if self.side == 1 else (-high, -low)
        bound = self.side * self.bound
        if near > bound + self.margin:
            return REPRODUCED if self._meets(low, high) else DIRECTION
        return CONTRADICTED if far < bound - self.margin else OPEN

    def _meets(self, low: float, high: float) -> bool:
        """Whether the interval and what is stated have a point in common."""
        if self.stated is None:
            return False
        first, last = _band(self.stated)
        return low <= last and high >= first


@dataclass(frozen=True)
class Region:
    """A claim that a value lies in [first, last]; inf for no border. number: what the text states,
    nan without."""

    first: float = -math.inf
    last: float = math.inf
    number: float = math.nan

    def __post_init__(self) -> None:
        if not self.first <= self.last or math.isinf(self.first) and math.isinf(self.last):
            raise ValueError(f"[{self.first}, {self.last}] is no region")

    @property
    def bound(self) -> float:
        """The border, of two the one that is not 0 if the other is, else the lower."""
        if math.isinf(self.first) or self.first == 0 and not math.isinf(self.last):
            return self.last
        return self.first

    def grade(self, low: float, high: float) -> str:
        """One of GRADES for the interval [low, high]."""
        if self.first <= low and high <= self.last:
            return REPRODUCED
        return CONTRADICTED if high < self.first or low > self.last else OPEN


@dataclass(frozen=True)
class Told:
    """A claim that its notebook judged itself: shown, open or reversed; see SAID. ValueError for
    another word."""

    word: str
    bound: float = math.nan
    number: float = math.nan

    def __post_init__(self) -> None:
        if self.word not in SAID:
            raise ValueError(f"unknown verdict {self.word!r}: use one of {', '.join(SAID)}")

    def grade(self, low: float, high: float) -> str:
        """One of GRADES; the interval was looked at by the notebook."""
        return SAID[self.word]


def _band(stated: float | tuple[float, float]) -> tuple[float, float]:
    return stated if isinstance(stated, tuple) else (stated, stated)


class Found(NamedTuple):
    """What was measured. n: what was counted, in words · seeds: trainings behind it, nan if nothing
    is trained · reason: why it cannot be graded, empty if it can."""

    mean: float
    low: float
    high: float
    n: str
    seeds: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class Claim:
    """One checkable sentence. key: unique, its letters and number name the claim, a letter behind
    them the part · where: place in the text · table: where the number comes from · of: TEXT,
    OURS or AGAIN."""

    key: str
    text: str
    where: str
    unit: str
    judge: Effect | Region | Told | None
    table: str
    stated: str = "–"
    of: str = TEXT
    note: str = ""


def row(study: str, said: Claim, found: Found) -> dict:
    """One row of the table of claims, columns COLUMNS. ValueError if nothing was measured and no
    reason is given, or if the interval does not hold the mean."""
    if not found.reason and not found.low <= found.mean <= found.high:
        raise ValueError(f"{said.key}: {found[:3]} is no mean with its interval, and has no reason")
    judge = said.judge
    verdict = UNTESTED if found.reason else judge.grade(found.low, found.high)
    notes = [found.reason, said.note, _wide(judge, verdict, found)]
    line = {
        "study": study,
        "claim": said.key,
        "of": said.of,
        "text": said.text,
        "where": said.where,
        "stated": said.stated,
        **{name: getattr(found, name) for name in ("mean", "low", "high", "n", "seeds")},
        "unit": said.unit,
        "kind": type(judge).__name__.lower() if judge else "–",
        "bound": judge.bound if judge else math.nan,
        "number": judge.number if judge else math.nan,
        "table": said.table,
        "verdict": verdict,
        "note": "; ".join(filter(None, notes)),
    }
    return {name: line[name] for name in COLUMNS}


def _wide(judge: Effect | Region | Told | None, verdict: str, found: Found) -> str:
    """A remark where an interval holds the stated number and is wider than the stated effect."""
    if verdict != REPRODUCED or not isinstance(judge, Effect):
        return ""
    return WIDE if found.high - found.low > abs(judge.number - judge.bound) else ""


def counts(table: pd.DataFrame) -> pd.DataFrame:
    """Index GRADES, columns studies and who says it, for example `1, text`: how many rows."""
    who = table["study"].astype(str) + ", " + table["of"]
    found = pd.crosstab(table["verdict"], who)
    return found.reindex(GRADES, fill_value=0).rename_axis(None, axis=1)
