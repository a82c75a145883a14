"""The reference run: what of one whole run of `cpu` becomes part of the repository.

    data/reference         tables, cards, provenance, MANIFEST.json; bench.csv stays as it was
    figures/reference      one PNG per figure
    notebooks/reference    the executed copies
    README.md              the row of `cpu` in the table of minutes, memory and disk; the results

All four are replaced together or not at all (`swap`). The run must be whole, unchanged, of one
machine and one set of versions; code, notebooks, inputs and the lock must be as they were
committed. What is kept depends only on the run and the commit, so a second call writes the same
bytes. `MANIFEST.json`:

    run         profile, seed, source (hash of the package), settings, versions, machine, commit
                (the last that changed what a run depends on), date, seconds, peak_mb, disk_mb
    notebooks   name -> source, settings, inputs (hashes), seed, seconds, peak_mb
    figures     name -> sha256 of the PNG of the run, of those that show no times
    kept        path -> bytes, sha256 of each kept file
"""

import os
import re
import subprocess
from pathlib import Path

import pandas as pd

from dipllm_lib.run import (
    claims_table,
    copies,
    execute,
    files,
    guards,
    places,
    provenance,
    skip,
    sources,
    swap,
)
from dipllm_lib.run import reference_files as kept
from dipllm_lib.run.graph import Notebook, Run
from dipllm_lib.run.places import Refused

FOLDERS = ("data/reference", "figures/reference", "notebooks/reference")
TARGETS = (*FOLDERS, "README.md")
# what a run depends on, as git pathspecs
DEPENDS = ("dipllm_lib", ":(glob)notebooks/*.ipynb", "data/inputs", "requirements.lock")
CLAIMS = "13_claims"
CPU_ROW = re.compile(r"^(\| `cpu` \|[^|\n]*\|)[^|\n]*\|[^|\n]*\|[^|\n]*\|$", flags=re.M)


def replace(run: Run, root: Path | None = None) -> int:
    """Keep the finished `run` as the reference run of the repository `root`; returns 0.

    Raises Refused, with nothing changed, if the run or the repository is not in order.
    """
    root = places.root() if root is None else root
    targets = [root / name for name in TARGETS]
    with guards.lock(run.data, f"data/{run.profile.name}"):
        swap.recover(targets)
        check(run, root)
        with swap.together(targets) as new:
            _make(run, root, *new)
    for target in targets[:3]:
        found = files.inside(target)
        size = sum(path.stat().st_size for path in found)
        print(f"{target.relative_to(root).as_posix()}: {len(found)} files, {size / 1e6:.1f} MB")
    return 0


# what is checked


def check(run: Run, root: Path) -> None:
    """Raises Refused unless the run is whole and unchanged, and the tree is as committed."""
    again = f"run `python -m dipllm_lib reproduce --profile {run.profile.name}` first"
    whole = run.manifest.read()["run"]
    if not whole:
        raise Refused(f"there is no whole run of profile {run.profile.name}: {again}")
    if (whole["profile"], whole["seed"]) != (run.profile.name, run.profile.seed):
        raise Refused(f"the run is of profile {whole['profile']} and seed {whole['seed']}")
    changed = uncommitted(root)
    if changed:
        raise Refused(f"{changed[0]} is not as it was committed: commit it, or put it back")
    if whole["source"] != sources.package_hash(run.package):
        raise Refused(f"dipllm_lib has changed since the whole run: {again}")
    for notebook in run.graph:
        state = skip.reason(run, notebook)
        if state is not None:
            raise Refused(f"{notebook.name} is not up to date ({state}): {again}")
        _check_copy(run, notebook, again)
        _check_origin(run, notebook, whole)
    here = provenance.machine(run.profile, places.root())
    if here != whole["machine"]:
        raise Refused("the run was made on another machine: give this command on that one")


def git(root: Path, *words: str) -> str:
    """What a git command prints. Raises Refused without git or outside a repository."""
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        raise Refused("a reference run is kept in a git repository only: use a clone") from error
    return done.stdout


def uncommitted(root: Path) -> list[str]:
    """Paths that differ from the last commit; the targets do not count, for they are replaced."""
    exclude = [f":(exclude){name}" for name in TARGETS]
    lines = git(root, "status", "--porcelain", "--", ".", *exclude).splitlines()
    return [line[3:] for line in lines]


def _copy(run: Run, notebook: Notebook) -> dict:
    """The executed copy. Raises Refused if it is missing."""
    path = run.data / "executed" / f"{notebook.name}.ipynb"
    if not path.exists():
        remedy = f"run `python -m dipllm_lib reproduce --only {notebook.number} --force`"
        raise Refused(f"the executed copy of {notebook.name} is missing: {remedy}")
    return files.read_json(path)


def _check_copy(run: Run, notebook: Notebook, again: str) -> None:
    """Raises Refused unless the executed copy is whole and has the code of the notebook."""
    copy = _copy(run, notebook)
    try:
        execute.judge(copy)
    except execute.Failed as failure:
        raise Refused(f"the executed copy of {notebook.name} is not whole: {failure}") from failure
    if copies.code_of(copy) != copies.code_of(files.read_json(run.source(notebook))):
        raise Refused(f"the executed copy of {notebook.name} has other code: {again}")


def _check_origin(run: Run, notebook: Notebook, whole: dict) -> None:
    """Raises Refused if a notebook ran on another machine or with other versions than the run."""
    origin = _origin(run, notebook)
    for part in ("machine", "versions"):
        differs = sorted(
            key
            for key in {**whole[part], **origin[part]}
            if whole[part].get(key) != origin[part].get(key)
        )
        if differs:
            raise Refused(
                f"{notebook.name} ran with another {differs[0]} than the whole run: "
                f"run `python -m dipllm_lib reproduce --profile {run.profile.name} --force`"
            )


def _origin(run: Run, notebook: Notebook) -> dict:
    """The provenance of a notebook's run."""
    return files.read_json(run.data / f"{notebook.number}_provenance.json")


# what is made


def _make(run: Run, root: Path, data: Path, figures: Path, notebooks: Path, readme: Path) -> None:
    """Fill the new folders and the new README, which are to replace those of `root`."""
    source = run.manifest.read()["run"]["source"]
    words = kept.machine_words(places.root(), places.home())
    for folder in (data, figures, notebooks):
        folder.mkdir()
    bench = root / FOLDERS[0] / kept.BENCH
    if bench.exists():
        files.write_bytes(data / kept.BENCH, bench.read_bytes())
    for notebook in run.graph:
        _keep_data(run, notebook, data)
        for name in notebook.figures:
            png = (run.figures / f"{name}.png").read_bytes()
            files.write_bytes(figures / f"{name}.png", kept.picture(png, source))
        _keep_copy(run, notebook, data, notebooks / f"{notebook.name}.ipynb", source, words)
    for name, text in kept.texts(data):
        kept.check_text(text, name, words)
    manifest = _manifest(run, root, dict(zip(FOLDERS, (data, figures, notebooks), strict=True)))
    files.write_text(data / "MANIFEST.json", files.to_json(manifest, indent=1) + "\n")
    small = [*files.inside(data), *files.inside(figures)]
    kept.check_sizes(small, files.inside(notebooks))
    claims = [name for notebook in run.graph for name in notebook.tables if name == CLAIMS]
    found = kept.read_table(data, CLAIMS) if claims else None
    files.write_text(readme, readme_text((root / "README.md").read_text("utf-8"), manifest, found))


def _keep_data(run: Run, notebook: Notebook, data: Path) -> None:
    """The tables, cards and the provenance of one notebook."""
    for name in notebook.tables:
        kept.write_table(data, name, (run.data / f"{name}.csv").read_bytes())
    cards = [name for name in notebook.files if name.endswith(".md")]
    for name in [*cards, f"{notebook.number}_provenance.json"]:
        files.write_bytes(data / name, (run.data / name).read_bytes())


def _keep_copy(
    run: Run, notebook: Notebook, data: Path, target: Path, source: str, words: re.Pattern
) -> None:
    """The executed copy of one notebook, whose shown tables are those in `data`."""
    copy = copies.stripped(_copy(run, notebook), run.profile.name, run.profile.seed, source)
    for place, text in copies.texts(copy):
        kept.check_text(text, f"{notebook.name}, {place}", words)
    for name, rows in copies.shown(copy).items():
        fault = copies.table_fault(rows, kept.table_text(data, name))
        if fault:
            raise Refused(f"{notebook.name} shows another table {name} than the csv: {fault}")
    files.write_text(target, files.to_json(copy, indent=1) + "\n")


def _manifest(run: Run, root: Path, folders: dict[str, Path]) -> dict:
    """The content of MANIFEST.json; `folders`: final name -> where its files lie now."""
    content = run.manifest.read()
    entries = {notebook.name: content["notebooks"][notebook.name] for notebook in run.graph}
    whole = content["run"] | {
        "commit": git(root, "log", "-1", "--format=%H", "--", *DEPENDS).strip(),
        "date": max(_origin(run, notebook)["start"] for notebook in run.graph)[:10],
        "peak_mb": max(entry["peak_mb"] for entry in entries.values()),
        "disk_mb": _disk_mb(run),
    }
    whole["machine"] = whole["machine"] | {"memory_gb": _memory_gb()}
    return {
        "run": whole,
        "notebooks": {
            name: {key: value for key, value in entry.items() if key != "state"}
            for name, entry in entries.items()
        },
        "figures": picture_hashes(run),
        "kept": {
            f"{name}/{path.relative_to(folder).as_posix()}": {
                "bytes": path.stat().st_size,
                "sha256": files.sha256(path),
            }
            for name, folder in folders.items()
            for path in files.inside(folder)
        },
    }


def picture_hashes(run: Run, chosen: tuple[Notebook, ...] | None = None) -> dict[str, str]:
    """Figure -> sha256 of its PNG in the run's folder, of those that show no times."""
    entries = run.manifest.read()["files"]
    found = {}
    for notebook in run.graph if chosen is None else chosen:
        for name in notebook.figures:
            path = run.figures / f"{name}.png"
            entry = entries.get(run.manifest.key(path))
            if entry is not None and not entry["volatile"]:
                found[name] = files.sha256(path)
    return found


def _disk_mb(run: Run) -> int:
    """MB of the run's folders and of the base model's copy."""
    folders = [folder for folder in (run.data, run.figures, places.cache()) if folder.exists()]
    return round(sum(p.stat().st_size for f in folders for p in files.inside(f)) / 1e6)


def _memory_gb() -> float:
    """Memory of this machine in GB, to one decimal."""
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)


def readme_text(text: str, manifest: dict, claims: pd.DataFrame | None) -> str:
    """README with what the reference run took in the row of `cpu`, and with its table of claims.

    claims: the table 13_claims; a chain without one has no table of results.
    """
    run = manifest["run"]
    measured = f" {run['seconds'] / 60:.0f} min | {run['peak_mb'] / 1000:.1f} GB |"
    measured += f" {run['disk_mb'] / 1000:.1f} GB |"
    new, count = CPU_ROW.subn(lambda row: row[1] + measured, text)
    if count != 1:
        raise Refused(f"README.md has {count} rows for the profile `cpu` in its table, not one")
    try:
        return new if claims is None else claims_table.replaced(new, claims)
    except ValueError as error:
        raise Refused(str(error)) from error
