"""Which notebooks need not run: the rule that compares the manifest with code, settings and files.

A notebook is unchanged if its entry says complete and the hash of its code with all modules it
imports, the hash of its settings, its seed and the hashes of its inputs are as recorded, and its
outputs have their recorded hashes. A rerun that gives equal bytes leaves what reads them unchanged.
"""

import hashlib
from pathlib import Path

from dipllm_lib.run import execute, files, sources
from dipllm_lib.run.graph import Notebook, Run, producer, shipped


def source_hash(run: Run, notebook: Notebook) -> str:
    """Hash of the code cells and of the modules that they import."""
    return sources.code_hash(execute.code(run.source(notebook)), run.package)


def settings_hash(run: Run, notebook: Notebook) -> str:
    """Hash of the settings of the notebook's study under the profile."""
    return getattr(run.profile, notebook.study).hash()


def input_hash(run: Run, name: str, content: dict) -> str | None:
    """Hash of what the manifest records for a name that is read; None if it records nothing. Of a
    file of the repository its own.
    """
    if shipped(name):
        path = run.input(name)
        return files.sha256(path)[:16] if path.is_file() else None
    entries = run.manifest.below(run.input(name), content)
    kept = [f"{key} {e['sha256']}" for key, e in entries.items() if not e["volatile"]]
    return hashlib.sha256("\n".join(kept).encode("utf-8")).hexdigest()[:16] if kept else None


def fingerprint(run: Run, notebook: Notebook, content: dict) -> dict:
    """The part of a notebook's entry that decides whether it must run."""
    return {
        "source": source_hash(run, notebook),
        "settings": settings_hash(run, notebook),
        "seed": run.profile.seed,
        "inputs": {name: input_hash(run, name, content) for name in notebook.reads},
    }


def reason(run: Run, notebook: Notebook) -> str | None:
    """Why the notebook must run, or None if it is unchanged."""
    content = run.manifest.read()
    entry = content["notebooks"].get(notebook.name)
    if entry is None:
        present = any(path.exists() for path in notebook.outputs(run.data, run.figures))
        return "not checked" if present else "not run"
    if entry["state"] != "complete":
        return {"running": "cut off", "failed": "failed"}[entry["state"]]
    for key, value in fingerprint(run, notebook, content).items():
        if entry[key] != value:
            return f"{key} changed"
    profile, seed = run.profile.name, run.profile.seed
    for path in notebook.outputs(run.data, run.figures):
        fault = run.manifest.fault(path, profile, seed)
        if fault:
            return f"{path.name} {fault}"
    return None


def missing_input(run: Run, notebook: Notebook) -> tuple[str, str] | None:
    """(fault, remedy) of the first input that cannot be read, or None."""
    for name in notebook.reads:
        if shipped(name):
            if not run.input(name).is_file():
                return f"data/{name} is missing", "git checkout data/inputs"
            continue
        fault = run.manifest.fault(run.input(name), run.profile.name, run.profile.seed)
        if fault:
            writer = producer(run.graph, name).name
            remedy = f"run notebooks/{writer} with profile {run.profile.name} and seed "
            return f"{name} {fault}", f"{remedy}{run.profile.seed}"
    return None


def leftovers(run: Run, notebook: Notebook) -> list[Path]:
    """Everything in the profile's folders that carries the notebook's number."""
    pattern = f"{notebook.number}_*"
    return sorted([*run.data.glob(pattern), *run.figures.glob(pattern)])


def clear(run: Run, notebook: Notebook) -> None:
    """Remove the outputs of earlier runs and their entries."""
    paths = leftovers(run, notebook)
    content = run.manifest.read()
    run.manifest.forget(
        [key for path in paths for key in run.manifest.below(path, content)], notebook.name
    )
    for path in paths:
        files.remove(path)


def output_fault(run: Run, notebook: Notebook, start: float) -> str | None:
    """What is wrong with the outputs of a run that began at `start` (seconds since 1970)."""
    declared = notebook.outputs(run.data, run.figures)
    for path in declared:
        fault = run.manifest.fault(path, run.profile.name, run.profile.seed)
        if fault:
            return f"{path.name} {fault}"
        for file in files.inside(path) if path.is_dir() else [path]:
            # one second: file systems and clocks round differently
            if file.stat().st_size == 0 or file.stat().st_mtime < start - 1:
                return f"{file.name} is empty or older than the run"
    extra = set(leftovers(run, notebook)) - set(declared)
    return f"{min(extra).name} is not declared in chain.py" if extra else None
