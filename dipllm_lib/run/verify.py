"""Compare a run with the reference run: its tables by the rule that the graph names for each.

On an equal machine (processor, threads, Python minor version, lock) every rule but `timing` is
`exact` and the figures must have equal bytes, since there that is promised; elsewhere each table
has its own tolerance (`graph.Rule`) and figures are not compared. Notebooks that are not complete,
or have changed since they ran, are named and not compared; then the run as a whole has not passed.
"""

from pathlib import Path

from dipllm_lib.run import comparison, files, places, skip, sources, swap, tables
from dipllm_lib.run import reference as reference_run
from dipllm_lib.run import reference_files as kept
from dipllm_lib.run.comparison import Verdict
from dipllm_lib.run.graph import EXACT, Notebook, Rule, Run

FINGERPRINT = ("cpu", "threads", "task_threads", "python", "lock")
RENEW = "put it back with `git checkout data/reference`"


def same_machine(own: dict, reference: dict) -> bool:
    """Whether the `machine` parts of two runs promise equal bytes."""
    return all(own.get(key) == reference.get(key) for key in FINGERPRINT)


def verify(run: Run, reference: Path | None = None) -> int:
    """Print a line per table; 0 if all agree, else 1. Raises Refused without a reference run."""
    reference = places.reference() if reference is None else reference
    manifest = _manifest(reference)
    _check_runs(run, manifest["run"])
    states = {notebook.name: skip.reason(run, notebook) for notebook in run.graph}
    complete = tuple(notebook for notebook in run.graph if states[notebook.name] is None)
    if not complete:
        raise places.Refused(
            f"no notebook of profile {run.profile.name} is complete: "
            f"run `python -m dipllm_lib reproduce --profile {run.profile.name}` first"
        )
    exact = _equal_machines(run, complete, manifest["run"])
    verdicts = _verdicts(run, complete, reference, exact)
    if exact:
        verdicts.append(_figures(run, complete, manifest["figures"]))
    _print(verdicts)
    return _conclude(verdicts, {name: why for name, why in states.items() if why})


def _manifest(reference: Path) -> dict:
    """The reference run's manifest. Raises Refused without one, or if a kept file has changed."""
    path = reference / "MANIFEST.json"
    if swap.pending(reference):
        raise places.Refused(
            "data/reference was being replaced when that was stopped: "
            "run `python -m dipllm_lib reference` again, which puts it in order"
        )
    if not path.exists():
        raise places.Refused(
            "there is no reference run in data/reference yet: nothing to compare with"
        )
    manifest = files.read_json(path)
    for name, entry in manifest["kept"].items():
        folder, _, rest = name.partition("/reference/")
        file = reference / rest
        if folder == "data" and (not file.is_file() or files.sha256(file) != entry["sha256"]):
            raise places.Refused(f"{name} is not as the reference run left it: {RENEW}")
    return manifest


def _check_runs(run: Run, theirs: dict) -> None:
    """Raises Refused unless both are runs of one profile and seed."""
    for key in ("profile", "seed"):
        own = {"profile": run.profile.name, "seed": run.profile.seed}[key]
        if own != theirs[key]:
            raise places.Refused(
                f"the reference run has {key} {theirs[key]}, this one {own}: not comparable"
            )


def _equal_machines(run: Run, complete: tuple[Notebook, ...], theirs: dict) -> bool:
    """Whether all notebooks ran on a machine like the reference run's; says so, and what
    else is not as there: code, versions.
    """
    origins = [files.read_json(run.data / f"{n.number}_provenance.json") for n in complete]
    exact = all(same_machine(origin["machine"], theirs["machine"]) for origin in origins)
    if exact:
        print("equal machine: every table and figure must be exact")
    else:
        print("another machine: each table within its rule, figures are not compared")
    if sources.package_hash(run.package) != theirs["source"]:
        print("note: dipllm_lib is not the code of the reference run")
    own = origins[-1]["versions"]
    for name, version in theirs["versions"].items():
        if own.get(name) != version:
            print(f"note: {name} {own.get(name)}, reference {version}")
    return exact


def _verdicts(
    run: Run, complete: tuple[Notebook, ...], reference: Path, exact: bool
) -> list[Verdict]:
    """One per table of the complete notebooks, and per table that only the reference has."""
    found = []
    for notebook in complete:
        for name, rule in notebook.tables.items():
            strict = exact and rule.kind != "timing"
            verdict = _verdict(run.data, reference, name, EXACT if strict else rule)
            found.append(_with_own_rule(verdict, run.data, reference, rule))
    stated = {name for notebook in run.graph for name in notebook.tables}
    for name in kept.kept_tables(reference):
        if name not in stated:
            text = "only the reference has this table"
            found.append(Verdict(name, "exact", False, "file", text))
    return found


def _with_own_rule(verdict: Verdict, data: Path, reference: Path, rule: Rule) -> Verdict:
    """A failed exact comparison, with a word on whether the table's own rule would pass."""
    if verdict.passed or verdict.rule == rule.kind or not verdict.rows:
        return verdict
    passes = _verdict(data, reference, verdict.table, rule).passed
    word = f"{'within' if passes else 'outside'} its rule for other machines, {rule.kind}"
    text = f"{verdict.text}; {word}"
    return Verdict(verdict.table, verdict.rule, False, verdict.column, text, verdict.rows)


def _verdict(data: Path, reference: Path, name: str, rule: Rule) -> Verdict:
    """The verdict on one table by name, also when the reference lacks it."""
    theirs = kept.table_text(reference, name)
    if theirs is None:
        return Verdict(name, rule.kind, False, "file", "the reference run has no such table")
    own = (data / f"{name}.csv").read_text(encoding="utf-8")
    return comparison.compare(name, tables.from_csv(own), tables.from_csv(theirs), rule)


def _figures(run: Run, complete: tuple[Notebook, ...], theirs: dict[str, str]) -> Verdict:
    """One verdict on the bytes of all figures that show no times."""
    own = reference_run.picture_hashes(run, complete)
    numbers = {notebook.number for notebook in complete}
    wanted = {name: h for name, h in theirs.items() if places.number(name) in numbers}
    bad = sorted(n for n in {**own, **wanted} if own.get(n) != wanted.get(n))
    text = f"{len(bad)} of {len({**own, **wanted})} differ"
    rows = tuple(f"{name}.png has other bytes" for name in bad)
    return Verdict("figures", "exact", not bad, "bytes", text, rows)


def _print(verdicts: list[Verdict]) -> None:
    """The lines of all verdicts; below a failed one the rows that differ."""
    for verdict in verdicts:
        print(verdict.line())
        for row in verdict.rows:
            print(f"    {row}")


def _conclude(verdicts: list[Verdict], left: dict[str, str]) -> int:
    """Say how many agree and what was not compared; the exit code."""
    for name, why in left.items():
        print(f"{name}  not compared: {why}")
    failed = [verdict for verdict in verdicts if not verdict.passed]
    count = sum(verdict.table != "figures" for verdict in verdicts)
    bad = sum(verdict.table != "figures" for verdict in failed)
    print(f"{count - bad} of {count} tables agree with the reference run")
    return 1 if failed or left else 0
