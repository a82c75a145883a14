"""Compare a run's tables with those of the reference run, each by the rule that the graph names.

The rules are described at `graph.Rule`. On an equal machine (processor, threads, Python minor
version, lock) every rule but `timing` is `exact`, since there equal bytes are promised. An interval
is recognised as in `tables.triples`; a statistical table without one (a row per game) is judged by
the normal interval of each float column's mean.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.run import files, places, tables
from dipllm_lib.run.graph import EXACT, Rule, Run

FINGERPRINT = ("cpu", "threads", "task_threads", "python", "lock")
NORMAL = 1.959963984540054  # 97.5 % quantile of the normal distribution


@dataclass(frozen=True)
class Verdict:
    """The comparison of one table: its worst column and what is wrong with it."""

    table: str
    rule: str
    passed: bool
    column: str
    text: str

    def line(self) -> str:
        """One line for the terminal."""
        mark = "same" if self.passed else "DIFFERS"
        return f"{self.table:<20} {self.rule:<12} {mark:<8} {self.column}: {self.text}"


def same_machine(own: dict, reference: dict) -> bool:
    """Whether two `run` parts of manifests promise equal bytes."""
    return all(own["machine"].get(key) == reference["machine"].get(key) for key in FINGERPRINT)


def compare(name: str, own: pd.DataFrame, reference: pd.DataFrame, rule: Rule) -> Verdict:
    """The verdict on one table."""
    if rule.kind == "timing":
        return Verdict(name, rule.kind, True, *_timing(own, reference))
    if list(own.columns) != list(reference.columns):
        return Verdict(name, rule.kind, False, "columns", f"{list(own.columns)}")
    if len(own) != len(reference):
        return Verdict(name, rule.kind, False, "rows", f"{len(own)}, reference {len(reference)}")
    judge = {"exact": _exact, "close": _close, "statistical": _statistical}[rule.kind]
    excess, column, text = max(judge(own, reference, rule), key=lambda finding: finding[0])
    return Verdict(name, rule.kind, excess <= 1, column, text)


def _numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _unequal(own: pd.Series, reference: pd.Series) -> int:
    """Number of cells that differ; two missing values are equal."""
    same = (own == reference) | (own.isna() & reference.isna())
    return int((~same).sum())


def _cells(name: str, own: pd.Series, reference: pd.Series) -> tuple[float, str, str]:
    """The exact finding of one column."""
    count = _unequal(own, reference)
    return (math.inf if count else 0.0), name, f"{count} of {len(own)} cells differ"


def _exact(own, reference, rule):
    """A finding (excess, column, text) per column; an excess above 1 fails."""
    return [_cells(name, own[name], reference[name]) for name in own.columns]


def tolerance(rule: Rule, column: str) -> tuple[float, float]:
    """(rtol, atol) of a column."""
    return rule.columns.get(column, (rule.rtol, rule.atol))


def _gaps(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> tuple[float, float]:
    """(largest |a - b|, largest share of its tolerance) over pairs (n,); two NaN are equal."""
    differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not differ.any():
        return 0.0, 0.0
    a, b = a[differ], b[differ]
    gap, allowed = np.abs(a - b), atol + rtol * np.abs(b)
    shares = np.full(len(gap), np.inf)
    np.divide(gap, allowed, out=shares, where=(allowed > 0) & np.isfinite(gap))
    return float(np.nan_to_num(gap, nan=np.inf).max()), float(shares.max())


def _close(own, reference, rule):
    """Numbers within their tolerance, all else equal."""
    findings = []
    for name in own.columns:
        a, b = own[name], reference[name]
        if not (_numeric(a) and _numeric(b)):
            findings.append(_cells(name, a, b))
            continue
        gap, excess = _gaps(a.to_numpy(float), b.to_numpy(float), *tolerance(rule, name))
        findings.append((excess, name, f"largest difference {gap:.3g}"))
    return findings


def _interval_findings(own, reference, triple, factor):
    """One finding per row: where the reference's mean lies in the own, widened interval."""
    mean, low, high = triple
    for row in range(len(own)):
        m, lo, hi = (float(own[name].iloc[row]) for name in triple)
        other = float(reference[mean].iloc[row])
        if math.isnan(m) and math.isnan(other):  # a row that only the paper has
            continue
        half = factor * (hi - m if other > m else m - lo)
        gap = abs(other - m)
        excess = 0.0 if gap == 0 else gap / half if half > 0 else math.inf
        yield excess, mean, f"reference {other:.4g}, own {m:.4g} [{lo:.4g}, {hi:.4g}]"


def _statistical(own, reference, rule):
    """Means against intervals; texts, integers, seeds equal; a summary's lone floats are free."""
    triples = tables.triples(own.columns)
    inside = {name for triple in triples for name in triple}
    findings = []
    for name in own.columns:
        floats = pd.api.types.is_float_dtype(own[name]) or pd.api.types.is_float_dtype(
            reference[name]
        )
        if not floats and name not in inside and (triples or not _numeric(own[name])):
            findings.append(_cells(name, own[name], reference[name]))
        elif not triples and "seed" in name:
            findings.append(_cells(name, own[name], reference[name]))
        elif not triples:
            findings += _column_finding(name, own[name], reference[name], rule.factor)
    for triple in triples:
        findings += _interval_findings(own, reference, triple, rule.factor)
    return findings


def _column_finding(name, own, reference, factor):
    """The finding on a column's mean, from the normal interval of the own values."""
    mean, n = float(own.mean()), own.notna().sum()
    half = NORMAL * float(own.std()) / math.sqrt(n) if n > 1 else 0.0
    row = {"mean": [mean], "low": [mean - half], "high": [mean + half]}
    other = pd.DataFrame({"mean": [float(reference.mean())]})
    triple = ("mean", "low", "high")
    return [
        (e, name, text)
        for e, _, text in _interval_findings(pd.DataFrame(row), other, triple, factor)
    ]


def _timing(own: pd.DataFrame, reference: pd.DataFrame) -> tuple[str, str]:
    """(column, text): the ratio of the first float column's sums, or how many cells differ."""
    shared = [name for name in own.columns if name in reference.columns]
    for name in shared:
        if pd.api.types.is_float_dtype(own[name]) and reference[name].sum() > 0:
            return name, f"{own[name].sum() / reference[name].sum():.2f} times the reference"
    changed = len(own) != len(reference) or sum(_unequal(own[n], reference[n]) for n in shared)
    return "all", "other than the reference" if changed else "as the reference"


def verify(run: Run, reference: Path | None = None) -> int:
    """Print a line per table; 0 if all agree, else 1. Raises Refused without a reference run."""
    reference = places.reference() if reference is None else reference
    manifest = reference / "MANIFEST.json"
    if not manifest.exists():
        raise places.Refused(
            "there is no reference run in data/reference yet: nothing to compare with"
        )
    theirs, own = files.read_json(manifest)["run"], run.manifest.read()["run"]
    _check_runs(run, own, theirs)
    exact = same_machine(own, theirs)
    print(
        "equal machine: every table must be exact" if exact else "another machine: rule per table"
    )
    verdicts = []
    for notebook in run.graph:
        for name, rule in notebook.tables.items():
            rule = EXACT if exact and rule.kind != "timing" else rule
            verdicts.append(_verdict(run.data, reference, name, rule))
            print(verdicts[-1].line())
    failed = sum(not verdict.passed for verdict in verdicts)
    print(f"{len(verdicts) - failed} of {len(verdicts)} tables agree with the reference run")
    return 1 if failed else 0


def _check_runs(run: Run, own: dict, theirs: dict) -> None:
    """Raises Refused unless both are whole runs of one profile and seed."""
    if not own:
        raise places.Refused(
            f"there is no whole run of profile {run.profile.name}: "
            f"run `python -m dipllm_lib reproduce --profile {run.profile.name}` first"
        )
    for key in ("profile", "seed"):
        if own[key] != theirs[key]:
            raise places.Refused(
                f"the reference run has {key} {theirs[key]}, this one {own[key]}: not comparable"
            )


def _verdict(data: Path, reference: Path, name: str, rule: Rule) -> Verdict:
    """The verdict on one table by name, also when a file is missing."""
    frames = []
    for folder in (data, reference):
        path = folder / f"{name}.csv"
        if not path.exists():
            which = "own" if folder == data else "reference"
            return Verdict(name, rule.kind, False, "file", f"{which} {path.name} is missing")
        frames.append(tables.from_csv(path.read_text(encoding="utf-8")))
    return compare(name, *frames, rule)
