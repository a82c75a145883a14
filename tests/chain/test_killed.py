"""Every notebook of the real chain killed at its work, then taken up by hand with doubled cells.

The runner gets SIGKILL as soon as the notebook has kept a task or saved a file. Then nothing is
half written and nothing counts as complete. Plain papermill takes the notebook up, in the root of
the file system, under another hash seed and with every code cell twice in a row: cells are
idempotent, no notebook needs the runner or a certain folder, and the bytes are those of the quiet
run. 01 and 03 are also killed among their tasks and taken up by the runner.
"""

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


def kill_when(home, reached, *words: str) -> str:
    """Start a run and kill the runner once `reached()`; what it printed. Nothing lives on."""
    run = home.start(1, *words)
    until = time.monotonic() + 600
    while not reached():
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < until, "it never came so far"
        time.sleep(0.02)
    below = psutil.Process(run.pid).children(recursive=True)
    run.send_signal(signal.SIGKILL)
    out = run.communicate()[0]
    _, alive = psutil.wait_procs(below, timeout=20)  # five seconds on an idle machine
    assert not alive
    return out


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def at_work(home, notebook) -> bool:
    """Whether this run of the notebook has kept or saved something."""
    if home.manifest()["notebooks"].get(notebook.name, {}).get("state") != "running":
        return False
    partial = home.data / "partial" / notebook.number
    return any(partial.glob("*")) or any(path.exists() for path in home.outputs(notebook))


def nothing_half(home, notebook) -> None:
    """The notebook does not count; each file that counts is whole. One that came into its place
    when its kernel ended may not be listed yet: readers refuse it."""
    manifest = home.manifest()
    assert manifest["notebooks"][notebook.name] == {"state": "running"}
    assert manifest["run"] == {}
    for name, entry in manifest["files"].items():
        file = home.path / name
        assert (file.stat().st_size, digest(file)) == (entry["bytes"], entry["sha256"]), name


def doubled(source: Path, target: Path) -> Path:
    """A copy of a notebook with every code cell twice in a row, but the one of the parameters."""
    content = nbformat.read(source, as_version=4)
    cells = []
    for cell in content.cells:
        cells.append(cell)
        if cell.cell_type == "code" and "parameters" not in cell.metadata.get("tags", []):
            cells.append(nbformat.v4.new_code_cell(cell.source, id=f"{cell.id}-again"))
    content.cells = cells
    nbformat.write(content, target)
    return target


def papermill(home, path: Path, seed: int) -> None:
    command = [sys.executable, "-m", "papermill", str(path), str(path.with_name("out.ipynb"))]
    command += ["-p", "profile", "smoke", "-p", "seed", str(seed), "--no-progress-bar"]
    env = home.environment(1) | {"DIPLLM_PROGRESS": "plain"}
    done = subprocess.run(
        command, cwd="/", env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_killed_at_work_then_by_hand_with_every_cell_doubled(quiet, copy, notebook, tmp_path):
    before = quiet.steady()
    kill_when(copy, lambda: at_work(copy, notebook), "--only", notebook.number, "--force")
    nothing_half(copy, notebook)
    name = f"{notebook.name}.ipynb"
    papermill(copy, doubled(copy.ROOT / "notebooks" / name, tmp_path / name), 0)
    assert copy.steady() == before


def test_killed_among_tasks_the_runner_takes_up_01_and_03(quiet, copy):
    """Killed among the games of 01 and in the training of 03, from a home without both."""
    partial, before = copy.data / "partial", quiet.steady()
    kill_when(copy, lambda: any(partial.glob("01/data3_*.json")), "--only", "01", "--force")
    assert any(partial.glob("01/selfplay*.json"))
    out = copy.reproduce(1, "--only", "01")
    assert "01_data_collection  done" in out and "cut off" in out
    training = partial / "03/dipllm/dipllm.safetensors"
    kill_when(copy, training.exists, "--only", "03", "--force")
    out = copy.reproduce(1, "--only", "03")
    assert "03_fine_tuning  done" in out and "cut off" in out
    assert copy.steady() == before


def test_another_seed_gives_other_tables(quiet, copy, tmp_path):
    name = "08_kto_prospect_theory.ipynb"
    target = tmp_path / name
    target.write_bytes((copy.ROOT / "notebooks" / name).read_bytes())
    papermill(copy, target, 1)
    first, other = quiet.steady(), copy.steady()
    own = [n for n in first if Path(n).name.startswith("08_") and n.endswith(".csv")]
    assert own and any(first[n] != other[n] for n in own)
