"""The run of the chain of notebooks, which `chain.GRAPH` states.

`reproduce` goes through it in order, one kernel at a time: an unchanged notebook is skipped,
another runs, is judged, and only then enters the manifest as complete. The first failure stops the
run in at most four lines; finished notebooks stay, so the same command goes on.
"""

import dataclasses
import math
import time
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from dipllm_lib.run import (
    execute,
    files,
    graph,
    guards,
    places,
    profiles,
    provenance,
    skip,
    sources,
)
from dipllm_lib.run.chain import GRAPH
from dipllm_lib.run.graph import Notebook, Run


def plan(
    profile: str,
    seed: int,
    chain: tuple[Notebook, ...] = GRAPH,
    folder: Path | None = None,
    package: Path = sources.PACKAGE,
) -> Run:
    """The checked run of `chain` with notebooks in `folder`; raises what `profiles.load` does."""
    graph.check(chain)
    folder = places.root() / "notebooks" if folder is None else folder
    return Run(profiles.load(profile, seed), chain, folder, package)


def table(profile: str) -> pd.DataFrame:
    """The graph for 00: columns notebook, reads, writes, minutes under `profile`."""
    place = profiles.NAMES.index(profile)
    rows = [
        {
            "notebook": notebook.name,
            "reads": ", ".join(notebook.reads),
            "writes": ", ".join(notebook.writes),
            "minutes": notebook.minutes[place],
        }
        for notebook in GRAPH
    ]
    return pd.DataFrame(rows)


def chosen(run: Run, first: str | None, only: str | None) -> list[Notebook]:
    """Notebooks from number `first` on, or `only` one. Raises Refused for an unknown number."""
    numbers = [notebook.number for notebook in run.graph]
    for wish in (first, only):
        if wish is not None and wish not in numbers:
            raise places.Refused(f"there is no notebook {wish}: {', '.join(numbers)}")
    return [
        notebook
        for notebook in run.graph
        if (only is None or notebook.number == only) and (first is None or notebook.number >= first)
    ]


def reproduce(
    run: Run, first: str | None = None, only: str | None = None, force: bool = False
) -> int:
    """Run the chain; returns the exit code 0, 1 or 130. Raises Refused before anything is run."""
    began = time.monotonic()
    notebooks = chosen(run, first, only)
    with guards.lock(run.data, f"data/{run.profile.name}"), guards.stoppable():
        guards.disk(run.data, guards.NEED_MB[run.profile.name])
        for folder in (run.data, run.figures):
            files.remove_leftovers(folder)
        code = _steps(run, notebooks, force)
        if code == 0 and len(notebooks) == len(run.graph):
            _enter_run(run)
    if code == 0:
        print(_total(time.monotonic() - began), flush=True)
    return code


def _total(seconds: float) -> str:
    """`total 212 s, peak memory 812 MB`; memory only if a kernel has run."""
    peak = provenance.peak_mb(children_only=True)
    return f"total {seconds:.0f} s" + (f", peak memory of a process {peak} MB" if peak else "")


def _steps(run: Run, notebooks: list[Notebook], force: bool) -> int:
    """One line per notebook; stops at the first failure or signal."""
    for notebook in notebooks:
        try:
            line = _step(run, notebook, force)
        except execute.Failed as failure:
            run.manifest.enter(notebook.name, {"state": "failed"})
            print(f"{notebook.name}  failed in {failure.where}", flush=True)
            print(f"  {failure.cause}\n  {failure.remedy}", flush=True)
            if _copy(run, notebook).exists():
                print(f"  executed copy: {_copy(run, notebook)}", flush=True)
            return 1
        except KeyboardInterrupt:
            print(f"stopped in {notebook.name}; run the same command to go on", flush=True)
            return 130
        print(f"{notebook.name}  {line}", flush=True)
    return 0


def _copy(run: Run, notebook: Notebook) -> Path:
    return run.data / "executed" / f"{notebook.name}.ipynb"


def _step(run: Run, notebook: Notebook, force: bool) -> str:
    """Skip or run one notebook; returns its line. Raises Failed."""
    reason = skip.reason(run, notebook)
    if reason is None and not force:
        return "skipped, unchanged"
    missing = skip.missing_input(run, notebook)
    if missing:
        raise execute.Failed("its inputs", *missing)
    # whatever refuses the run comes before the removal of what is there
    parameters = {"profile": run.profile.name, "seed": run.profile.seed}
    execute.check(run.source(notebook), parameters)
    marks = skip.fingerprint(run, notebook, run.manifest.read())
    skip.clear(run, notebook)
    files.remove(_copy(run, notebook))
    run.manifest.enter(notebook.name, {"state": "running"})
    start = time.time()
    execute.run(run.source(notebook), parameters, _copy(run, notebook), run.profile)
    return _complete(run, notebook, start, marks) + (", was cut off" * (reason == "cut off"))


def _complete(run: Run, notebook: Notebook, start: float, marks: dict) -> str:
    """Check the outputs and enter the notebook as complete; returns `done 212 s, 6 files`."""
    fault = skip.output_fault(run, notebook, start)
    if fault:
        remedy = "make the notebook and its line in chain.py agree"
        raise execute.Failed("its outputs", fault, remedy)
    seconds = time.time() - start
    outputs = notebook.outputs(run.data, run.figures)
    peak = files.read_json(run.data / f"{notebook.number}_provenance.json")["peak_mb"]
    entry = {"state": "complete", **marks, "seconds": round(seconds, 1), "peak_mb": peak}
    run.manifest.enter(notebook.name, entry)
    files.remove(run.data / "partial" / notebook.number)
    return f"done {seconds:.0f} s, {len(outputs)} files"


def _enter_run(run: Run) -> None:
    """All notebooks are complete and unchanged: say what the whole run was made of."""
    with run.manifest.change() as content:
        entries = [content["notebooks"][notebook.name] for notebook in run.graph]
        content["run"] = {
            "profile": run.profile.name,
            "seed": run.profile.seed,
            "source": sources.package_hash(run.package),
            "settings": {
                s: dataclasses.asdict(getattr(run.profile, s)) for s in ("dip", "ipd", "kto")
            },
            "versions": provenance.versions(),
            "machine": provenance.machine(run.profile, places.root()),
            "seconds": round(math.fsum(entry["seconds"] for entry in entries), 1),
        }


def lines(run: Run) -> Iterable[str]:
    """The graph with states and minutes, a line per notebook, for `list`."""
    holder = guards.holding(run.data / ".lock")
    width = max(len(notebook.name) for notebook in run.graph)
    for notebook in run.graph:
        state = skip.reason(run, notebook) or "complete"
        if state == "cut off" and holder is not None:
            state = "running"
        reads = ", ".join(notebook.reads) or "nothing"
        minutes = f"{run.minutes(notebook):g} min"
        yield f"{notebook.name:<{width}}  {state:<16}  {minutes:<10}  reads {reads}"
        yield f"{'':<{width}}  writes {', '.join(notebook.writes)}"


def clean(run: Run, cache: bool = False) -> None:
    """Name and remove a profile's outputs, with `cache` also what was made from packages."""
    with guards.lock(run.data, f"data/{run.profile.name}"):
        for folder in [run.data, run.figures] + [places.cache()] * cache:
            found = files.inside(folder) if folder.exists() else []
            size = sum(path.stat().st_size for path in found)
            print(f"removing {run.manifest.key(folder)}: {len(found)} files, {size / 1e6:.1f} MB")
            files.remove(folder)
