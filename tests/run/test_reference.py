"""The command that makes a finished run the reference run of a repository."""

import json
import os
import shutil
import subprocess
import types

import pandas as pd
import pytest

from dipllm_lib import __main__ as cli
from dipllm_lib.run import claims_table, files, provenance, reference, sources, swap
from dipllm_lib.run import reference_files as kept
from dipllm_lib.run.places import Refused

pytestmark = pytest.mark.slow
README = "# A\n\n| profile | what | time | memory | disk |\n|---|---|---|---|---|\n"
README += "| `smoke` | s | 1 min | 1 GB | 1 MB |\n| `cpu` | c | - | - | - |\n"
KEPT = {
    "data/reference": {"01_sum.csv", "02_scores.csv", "03_end.csv", "MANIFEST.json"}
    | {f"0{k}_provenance.json" for k in (1, 2, 3)},
    "figures/reference": {"02_scores.png"},
    "notebooks/reference": {"01_first.ipynb", "02_second.ipynb", "03_third.ipynb"},
}


def git(root, *words):
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", "-C", str(root), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def root(finished):
    """The repository of the finished chain: notebooks and README are committed."""
    folder = finished.folder.parent
    files.write_text(folder / "README.md", README)
    files.write_text(folder / ".gitignore", "home/\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "chain")
    return folder


def replace(chain, root):
    return reference.replace(chain.run(), root)


def tree(root):
    """Path -> bytes of all that the command may touch, hidden leftovers included."""
    skipped = {".git", "home"}
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in files.inside(root)
        if path.relative_to(root).parts[0] not in skipped
    }


def refused(chain, root, match):
    """The command must refuse in one line that holds `match`, and leave the tree as it was."""
    before = tree(root)
    with pytest.raises(Refused, match=match) as refusal:
        replace(chain, root)
    assert "\n" not in str(refusal.value)
    assert tree(root) == before


# what is kept


def test_what_is_kept(finished, root, capsys):
    assert replace(finished, root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "data/reference: 7 files",
        "figures/reference: 1 files",
        "notebooks/reference: 3 files",
    ]
    for name, wanted in KEPT.items():
        assert {path.name for path in files.inside(root / name)} == wanted
    for name in ("01_sum", "02_scores", "03_end"):
        own = (finished.data / f"{name}.csv").read_bytes()
        assert (root / "data" / "reference" / f"{name}.csv").read_bytes() == own


def test_the_cost_table_stays_and_is_listed(finished, root):
    place = root / "data" / "reference" / "bench.csv"
    files.write_text(place, "bench,name\nrules,movement\n")
    replace(finished, root)
    assert place.read_text(encoding="utf-8") == "bench,name\nrules,movement\n"
    listed = files.read_json(place.parent / "MANIFEST.json")["kept"]["data/reference/bench.csv"]
    assert listed == {"bytes": 26, "sha256": files.sha256(place)}


def test_the_manifest(finished, root):
    replace(finished, root)
    folder = root / "data" / "reference"
    found = files.read_json(folder / "MANIFEST.json")
    own = finished.manifest()
    run, machine = found["run"], found["run"]["machine"]
    assert run["commit"] == git(root, "rev-parse", "HEAD").strip()
    assert (run["source"], run["seed"]) == (sources.package_hash(), 0)
    assert run["versions"] == provenance.versions()
    assert {key: machine[key] for key in own["run"]["machine"]} == own["run"]["machine"]
    assert machine["memory_gb"] > 0.5
    assert run["seconds"] == own["run"]["seconds"]
    entries = own["notebooks"]
    assert run["peak_mb"] == max(entry["peak_mb"] for entry in entries.values())
    starts = [files.read_json(p)["start"] for p in folder.glob("*_provenance.json")]
    assert run["date"] in {start[:10] for start in starts}
    for name, entry in found["notebooks"].items():
        assert entry == {k: v for k, v in entries[name].items() if k != "state"}
    png = own["files"]["figures/smoke/02_scores.png"]
    assert found["figures"] == {"02_scores": png["sha256"]}
    named = {f"{place}/{name}" for place, names in KEPT.items() for name in names}
    assert set(found["kept"]) == named - {"data/reference/MANIFEST.json"}
    for name, entry in found["kept"].items():
        path = root / name
        assert entry == {"bytes": path.stat().st_size, "sha256": files.sha256(path)}


def test_all_carry_one_source_hash(finished, root):
    replace(finished, root)
    source = sources.package_hash()
    assert kept.picture_source(root / "figures" / "reference" / "02_scores.png") == source
    for path in files.inside(root / "notebooks" / "reference"):
        copy = files.read_json(path)
        assert copy["metadata"]["dipllm"] == {"profile": "smoke", "seed": 0, "source": source}
        counts = [c["execution_count"] for c in copy["cells"] if c["cell_type"] == "code"]
        assert counts == list(range(1, len(counts) + 1))
        text = path.read_text(encoding="utf-8")
        assert "papermill" not in text and "iopub" not in text and str(finished.home) not in text


def test_a_second_call_writes_the_same_bytes(finished, root):
    replace(finished, root)
    before = tree(root)
    replace(finished, root)
    assert tree(root) == before
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "reference run")
    replace(finished, root)
    assert tree(root) == before
    assert git(root, "status", "--porcelain") == ""


def test_readme(finished, root):
    replace(finished, root)
    run = files.read_json(root / "data" / "reference" / "MANIFEST.json")["run"]
    assert 0 <= run["disk_mb"] < 10
    measured = f"{run['seconds'] / 60:.0f} min | {run['peak_mb'] / 1000:.1f} GB | 0.0 GB |"
    text = (root / "README.md").read_text(encoding="utf-8")
    assert text == README.replace("| - | - | - |", f"| {measured}")


def test_readme_text():
    manifest = {"run": {"seconds": 8467.2, "peak_mb": 6411, "disk_mb": 1027}}
    row = "| `cpu` | c | 141 min | 6.4 GB | 1.0 GB |\n"
    measured = README.replace("| `cpu` | c | - | - | - |\n", row)
    assert reference.readme_text(README, manifest, None) == measured
    for text in ("no table", README + README):
        with pytest.raises(Refused, match="rows for the profile `cpu` in its table, not one"):
            reference.readme_text(text, manifest, None)


def test_readme_text_with_claims():
    """The block of the results is that of `claims_table`, and README must have a place for it."""
    manifest = {"run": {"seconds": 60, "peak_mb": 1000, "disk_mb": 1000}}
    row = {"claim": "C1", "text": "a", "where": "b", "stated": "c", "unit": "", "mean": 1.0}
    row |= {"low": 1.0, "high": 1.0, "verdict": "reproduced", "table": "02_x", "readme": True}
    claims = pd.DataFrame([row])
    block = f"{claims_table.BEGIN}\n{claims_table.END}\n"
    found = reference.readme_text(README + block, manifest, claims)
    assert claims_table.results_table(claims) in found
    assert reference.readme_text(found, manifest, claims) == found
    with pytest.raises(Refused, match="README.md needs one line"):
        reference.readme_text(README, manifest, claims)


# what is refused


def test_no_whole_run(chain, root, finished):
    with finished.run().manifest.change() as content:
        content["run"] = {}
    refused(finished, root, "no whole run of profile smoke: run `python -m dipllm_lib reproduce")


@pytest.mark.parametrize("name", ["notebooks/01_first.ipynb", "data/inputs/new.md", "module.py"])
def test_a_dirty_tree(finished, root, name):
    path = root / name
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    files.write_text(path, text + "\n")
    refused(finished, root, rf"{name.split('/')[0]}.* is not as it was committed")


def test_no_repository(finished, root):
    shutil.rmtree(root / ".git")
    refused(finished, root, "in a git repository only")


def test_the_package_has_changed(finished, root, tmp_path):
    package = tmp_path / "home" / "dipllm_lib"
    shutil.copytree(sources.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    files.write_text(package / "new.py", "x = 1\n")
    with pytest.raises(Refused, match="dipllm_lib has changed since the whole run"):
        reference.replace(finished.run(package=package), root)


def test_a_stale_notebook(finished, root):
    finished.write("02_second", {2: "y = 1"})
    git(root, "commit", "-q", "-a", "-m", "change")
    refused(finished, root, r"02_second is not up to date \(source changed\)")


def test_a_missing_table(finished, root):
    (finished.data / "01_sum.csv").unlink()
    refused(finished, root, "01_first is not up to date")


def test_a_missing_copy(finished, root):
    (finished.data / "executed" / "03_third.ipynb").unlink()
    refused(finished, root, "the executed copy of 03_third is missing: run .* --only 03 --force")


def change_copy(finished, name, change):
    path = finished.data / "executed" / f"{name}.ipynb"
    copy = files.read_json(path)
    change(copy["cells"])
    files.write_text(path, json.dumps(copy))


def test_a_copy_that_is_not_whole(finished, root):
    change_copy(finished, "02_second", lambda cells: cells[-2].update(execution_count=None))
    refused(finished, root, "the executed copy of 02_second is not whole: cell .* ended early")


def test_a_copy_of_other_code(finished, root):
    change_copy(finished, "02_second", lambda cells: cells[1].update(source="import pandas as pd"))
    refused(finished, root, "the executed copy of 02_second has other code")


def table_output(cells):
    """The output that shows 02_scores."""
    return next(o for c in cells for o in c.get("outputs", ()) if "text/html" in o.get("data", {}))


def test_a_copy_that_shows_another_table(finished, root):
    def change(cells):
        data = table_output(cells)["data"]
        data["text/html"] = "".join(data["text/html"]).replace("anchor", "target")

    change_copy(finished, "02_second", change)
    refused(
        finished, root, "02_second shows another table 02_scores than the csv: row 2, column agent"
    )


@pytest.mark.parametrize(
    "text", [*(f"/{name}/x" for name in ("home", "Users", "root", "tmp")), "C:\\Users\\a", "HOME"]
)
def test_a_copy_that_names_a_place_of_the_machine(finished, root, text):
    text = str(finished.home / "x") if text == "HOME" else text
    stream = {"output_type": "stream", "name": "stdout", "text": [f"saved in {text}\n"]}
    change_copy(finished, "03_third", lambda cells: cells[1]["outputs"].append(stream))
    refused(finished, root, "03_third, the output of cell 2, line 1 names a place of this machine")


def test_a_run_of_two_machines(finished, root, monkeypatch):
    origin = reference._origin

    def other(run, notebook):
        found = origin(run, notebook)
        return found | {"versions": {**found["versions"], "numpy": "1.0"}}

    monkeypatch.setattr(reference, "_origin", other)
    refused(finished, root, "01_first ran with another numpy than the whole run")


def test_another_machine_than_that_of_the_run(finished, root, monkeypatch):
    machine = provenance.machine
    monkeypatch.setattr(provenance, "machine", lambda *words: machine(*words) | {"cores": 999})
    refused(finished, root, "the run was made on another machine")


def test_while_the_run_is_going_on(finished, root):
    files.write_text(finished.data / ".lock", str(os.getppid()))
    refused(finished, root, f"data/smoke is being written by process {os.getppid()}")


def test_limits(finished, root, monkeypatch):
    monkeypatch.setattr(kept, "LIMIT_PICTURE", 1000)
    refused(finished, root, r"02_scores.png has \d+ bytes, above the limit of 1000")
    monkeypatch.undo()
    monkeypatch.setenv("DIPLLM_HOME", str(finished.home))
    monkeypatch.setattr(kept, "LIMIT_COPY", 1000)
    refused(finished, root, r"01_first.ipynb has \d+ bytes, above the limit of 1000")
    monkeypatch.setattr(kept, "LIMIT_COPY", 10**6)
    monkeypatch.setattr(kept, "LIMIT_SMALL", 1000)
    refused(finished, root, r"tables and figures have \d+ bytes, above the limit of 1000")


# together or not at all


def test_a_failure_at_every_rename_leaves_the_old_set(finished, root, monkeypatch):
    """First none of the folders is there, then all of them with other bytes."""
    monkeypatch.setattr(reference, "check", lambda run, root: None)  # it has tests of its own
    monkeypatch.setattr(kept, "COLOURS", 16)
    for there, renames in ((False, 5), (True, 8)):
        if there:
            replace(finished, root)
            monkeypatch.setattr(kept, "COLOURS", 128)
        before = tree(root)
        for number in range(1, renames + 1):
            calls = iter(range(1, 99))

            def rename(source, target, number=number, calls=calls):
                if next(calls) == number:
                    raise OSError(5, "input/output error")
                os.replace(source, target)

            monkeypatch.setattr(swap, "os", types.SimpleNamespace(replace=rename))
            with pytest.raises(OSError, match="input/output error"):
                replace(finished, root)
            assert tree(root) == before
        monkeypatch.setattr(swap, "os", os)
    replace(finished, root)
    after = tree(root)
    assert set(after) == set(before)
    assert {name for name in after if after[name] != before[name]} == {
        "data/reference/MANIFEST.json",
        "figures/reference/02_scores.png",
    }


# the command


def test_the_command(monkeypatch):
    calls = []
    monkeypatch.setattr(reference, "replace", lambda run: calls.append(run.profile) or 0)
    assert cli.main(["reference"]) == 0
    assert [(profile.name, profile.seed) for profile in calls] == [("cpu", 0)]
    for flag in (["--profile", "smoke"], ["--seed", "1"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["reference", *flag])
        assert stop.value.code == 2


def test_a_refusal_of_the_command_is_one_line(home, capsys):
    assert cli.main(["reference"]) == 1
    line = "error: there is no whole run of profile cpu: "
    line += "run `python -m dipllm_lib reproduce --profile cpu` first\n"
    assert capsys.readouterr() == ("", line)
