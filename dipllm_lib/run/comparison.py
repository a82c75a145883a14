"""Compare one table with that of the reference run by a rule, and name each row that differs.

The rules are described at `graph.Rule`. Each gives, for every column it looks at, a share per row:
how much of the allowance the difference takes. 0 is equal, above 1 fails, infinite is a difference
where none is allowed. An interval is recognised as in `tables.triples`; a statistical table without
one (a row per game) is judged by the normal interval of each float column's mean, so that its
findings belong to no row.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.run import tables
from dipllm_lib.run.graph import Rule

NORMAL = 1.959963984540054  # 97.5 % quantile of the normal distribution
SHOWN = 5  # rows that are named of one table
CUT = 40  # characters of a text in such a line


@dataclass(frozen=True)
class Verdict:
    """The comparison of one table: its worst column, what is wrong with it, rows that differ."""

    table: str
    rule: str
    passed: bool
    column: str
    text: str
    rows: tuple[str, ...] = ()

    def line(self) -> str:
        """One line for the terminal."""
        mark = "same" if self.passed else "DIFFERS"
        return f"{self.table:<20} {self.rule:<12} {mark:<8} {self.column}: {self.text}"


@dataclass(frozen=True)
class Finding:
    """One column: `shares` (rows,) of the allowance, or (1,) for the whole column; the worst."""

    column: str
    shares: np.ndarray
    text: str

    @property
    def worst(self) -> float:
        """The largest share."""
        return float(self.shares.max())


def compare(name: str, own: pd.DataFrame, reference: pd.DataFrame, rule: Rule) -> Verdict:
    """The verdict on one table."""
    if rule.kind == "timing":
        return Verdict(name, rule.kind, True, *_timing(own, reference))
    if list(own.columns) != list(reference.columns):
        return Verdict(name, rule.kind, False, "columns", _columns(own, reference))
    if len(own) != len(reference):
        text = f"{len(own)}, reference {len(reference)}"
        return Verdict(name, rule.kind, False, "rows", text, _surplus(own, reference))
    judge = {"exact": _exact, "close": _close, "statistical": _statistical}[rule.kind]
    findings = judge(own, reference, rule)
    worst = max(findings, key=lambda finding: finding.worst)
    passed = worst.worst <= 1
    rows = () if passed else named_rows(own, reference, findings)
    return Verdict(name, rule.kind, passed, worst.column, worst.text, rows)


def _columns(own: pd.DataFrame, reference: pd.DataFrame) -> str:
    """What is different about the names of columns."""
    lost = [name for name in reference.columns if name not in own.columns]
    new = [name for name in own.columns if name not in reference.columns]
    parts = [f"{', '.join(lost)} missing"] * bool(lost) + [f"{', '.join(new)} new"] * bool(new)
    return "; ".join(parts) or "in another order"


# rows and their names


def _numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _equal(own: pd.Series, reference: pd.Series) -> np.ndarray:
    """(rows,) whether cells are equal; two missing values are."""
    return ((own == reference) | (own.isna() & reference.isna())).to_numpy(bool)


def _short(value: object) -> str:
    """A cell in few characters."""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= CUT else text[: CUT - 3] + "..."


def _keys(own: pd.DataFrame, reference: pd.DataFrame) -> list[str]:
    """The first columns, equal in both, that tell all rows apart: texts and integers, then floats.

    Without such columns the texts and integers.
    """
    equal = [name for name in own.columns if _equal(own[name], reference[name]).all()]
    words = [name for name in equal if not pd.api.types.is_float_dtype(own[name])]
    names = words + [name for name in equal if name not in words]
    for count in range(1, len(names) + 1):
        if not own.duplicated(names[:count]).any():
            return names[:count]
    return words


def named_rows(
    own: pd.DataFrame, reference: pd.DataFrame, findings: list[Finding]
) -> tuple[str, ...]:
    """At most SHOWN lines `line 3, agent lm: SoS 0.2, reference 0.3`; a line of the csv each."""
    keys, bad = _keys(own, reference), [f for f in findings if f.worst > 1]
    by_row = [f for f in bad if len(f.shares) == len(own)]
    rows = np.flatnonzero(np.any([f.shares > 1 for f in by_row], axis=0)) if by_row else []
    lines = []
    for row in rows[:SHOWN]:
        place = [f"line {row + 2}", *(f"{key} {_short(own[key].iloc[row])}" for key in keys)]
        cells = [
            f"{f.column} {_short(own[f.column].iloc[row])}, "
            f"reference {_short(reference[f.column].iloc[row])}"
            for f in by_row
            if f.shares[row] > 1
        ]
        lines.append(f"{', '.join(place)}: {'; '.join(dict.fromkeys(cells))}")
    return (*lines, *_more(len(rows)))


def _more(count: int) -> list[str]:
    """The line that stands for the rows that are not named."""
    return [f"and {count - SHOWN} more rows"] if count > SHOWN else []


def _surplus(own: pd.DataFrame, reference: pd.DataFrame) -> tuple[str, ...]:
    """Rows of one table whose texts and integers the other does not have so often."""
    keys = [
        name
        for name in own.columns
        if not (
            pd.api.types.is_float_dtype(own[name]) or pd.api.types.is_float_dtype(reference[name])
        )
    ]
    if not keys:
        return ()
    counts = [table.groupby(keys, sort=False).size() for table in (own, reference)]
    gaps = counts[0].sub(counts[1], fill_value=0).astype(int)
    lines = [
        f"only in {'this run' if gap > 0 else 'the reference'}: "
        + ", ".join(f"{k} {_short(v)}" for k, v in zip(keys, _tuple(values), strict=True))
        for values, gap in gaps[gaps != 0].items()
    ]
    return (*lines[:SHOWN], *_more(len(lines)))


def _tuple(values: object) -> tuple:
    return values if isinstance(values, tuple) else (values,)


# the rules


def _cells(name: str, own: pd.Series, reference: pd.Series) -> Finding:
    """The exact finding of one column."""
    same = _equal(own, reference)
    text = f"{int((~same).sum())} of {len(own)} cells differ"
    return Finding(name, np.where(same, 0.0, np.inf), text)


def _exact(own, reference, rule):
    return [_cells(name, own[name], reference[name]) for name in own.columns]


def tolerance(rule: Rule, column: str) -> tuple[float, float]:
    """(rtol, atol) of a column."""
    return rule.columns.get(column, (rule.rtol, rule.atol))


def _gaps(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> tuple[np.ndarray, np.ndarray]:
    """(|a - b|, its share of the tolerance) of pairs (rows,); two NaN are equal."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):  # inf - inf of equal ones
        gap = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))
    allowed = atol + rtol * np.abs(b)
    shares = np.where(same, 0.0, np.inf)
    np.divide(gap, allowed, out=shares, where=~same & (allowed > 0) & np.isfinite(gap))
    return gap, shares


def _close(own, reference, rule):
    """Numbers within their tolerance, all else equal."""
    findings = []
    for name in own.columns:
        a, b = own[name], reference[name]
        if not (_numeric(a) and _numeric(b)):
            findings.append(_cells(name, a, b))
            continue
        gap, shares = _gaps(a.to_numpy(float), b.to_numpy(float), *tolerance(rule, name))
        findings.append(Finding(name, shares, f"largest difference {gap.max():.3g}"))
    return findings


def _interval(own, reference, triple, factor) -> Finding:
    """Where the reference's mean lies in the own interval, widened by `factor`, row by row."""
    mean, low, high = (own[name].to_numpy(float) for name in triple)
    other = reference[triple[0]].to_numpy(float)
    shares = np.array([_share(*row, factor) for row in zip(mean, low, high, other, strict=True)])
    worst = int(shares.argmax())
    text = f"reference {other[worst]:.4g}, own {mean[worst]:.4g}"
    return Finding(triple[0], shares, f"{text} [{low[worst]:.4g}, {high[worst]:.4g}]")


def _share(mean: float, low: float, high: float, other: float, factor: float) -> float:
    """|other - mean| in half-widths of the widened interval on that side."""
    if math.isnan(mean) and math.isnan(other):  # a row that only the paper has
        return 0.0
    if math.isnan(mean) or math.isnan(other):
        return math.inf
    half = factor * (high - mean if other > mean else mean - low)
    gap = abs(other - mean)
    return 0.0 if gap == 0 else gap / half if half > 0 else math.inf


def _statistical(own, reference, rule):
    """Means against intervals; texts, integers, seeds equal; a summary's lone floats are free."""
    triples = tables.triples(own.columns)
    inside = {name for triple in triples for name in triple}
    findings = []
    for name in own.columns:
        floats = any(pd.api.types.is_float_dtype(table[name]) for table in (own, reference))
        numbers = _numeric(own[name]) and _numeric(reference[name])
        if name in inside:
            continue
        if not numbers or (not floats if triples else "seed" in name):
            findings.append(_cells(name, own[name], reference[name]))
        elif not triples:
            findings.append(_column(name, own[name], reference[name], rule.factor))
    return findings + [_interval(own, reference, triple, rule.factor) for triple in triples]


def _column(name, own, reference, factor) -> Finding:
    """The finding on a column's mean, from the normal interval of the own values."""
    mean, count = float(own.mean()), own.notna().sum()
    half = NORMAL * float(own.std()) / math.sqrt(count) if count > 1 else 0.0
    row = pd.DataFrame({"mean": [mean], "low": [mean - half], "high": [mean + half]})
    other = pd.DataFrame({"mean": [float(reference.mean())]})
    found = _interval(row, other, ("mean", "low", "high"), factor)
    return Finding(name, found.shares, found.text)


def _timing(own: pd.DataFrame, reference: pd.DataFrame) -> tuple[str, str]:
    """(column, text): the ratio of the first float column's sums, or whether cells differ."""
    shared = [name for name in own.columns if name in reference.columns]
    for name in shared:
        if pd.api.types.is_float_dtype(own[name]) and reference[name].sum() > 0:
            return name, f"{own[name].sum() / reference[name].sum():.2f} times the reference"
    same = len(own) == len(reference) and all(_equal(own[n], reference[n]).all() for n in shared)
    return "all", "as the reference" if same else "other than the reference"
