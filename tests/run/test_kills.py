"""The kill table: whatever ends a run, nothing lives on or is half written, the next run heals.

Each case runs the small chain in a process of its own; 02_second waits in two worker processes
while a marker file exists, and by then it has saved a table.
"""

import os
import time

import pytest

pytestmark = pytest.mark.slow

WAIT = """
import os, time
from dipllm_lib.run import parallel
seconds = 60 if os.path.exists({marker!r}) else 0.01
done = parallel.map(time.sleep, [seconds, seconds], 2, 1)
"""
FULL = """
import errno, os
from dipllm_lib.run import files
def full(number):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
if os.path.exists({marker!r}):
    os.fsync = full
"""
COUNT = """
import os
value = shelf.task("slow", lambda: open({log!r}, "a", encoding="utf-8").write("x"))
"""


@pytest.fixture
def marker(tmp_path):
    """While this file is there, the fault happens."""
    path = tmp_path / "marker"
    path.write_text("on", encoding="utf-8")
    return path


def reached(helpers, run):
    """The processes below the runner once the kernel and two workers are at work."""
    found = helpers.wait_for(lambda: len(helpers.descendants(run.pid)) >= 4, 60, "two workers")
    assert found
    time.sleep(1)
    return helpers.descendants(run.pid)


def check_nothing_half(chain):
    """No complete entry of 02, and each of its files is whole."""
    entry = chain.manifest()["notebooks"]["02_second"]
    assert entry["state"] in ("running", "failed")
    for name, record in chain.manifest()["files"].items():
        assert (chain.home / name).stat().st_size == record["bytes"]
    declared = [p for p in chain.data.iterdir() if p.name.startswith("02_")]
    assert all(str(p.relative_to(chain.home)) in chain.manifest()["files"] for p in declared)


def check_heals(chain, marker, hashes_of_quiet_run):
    """The next run takes up 02 and gives the files of a quiet run."""
    marker.unlink()
    run = chain.start()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, out + err
    assert "01_first  skipped, unchanged" in out
    assert "02_second  done" in out
    assert chain.hashes() == hashes_of_quiet_run
    assert not list(chain.home.rglob("*.tmp"))
    assert not (chain.data / "partial" / "02").exists()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """A place to keep the hashes of the quiet run, made once."""
    return {}


@pytest.fixture
def quiet_hashes(chain, quiet, tmp_path):
    """Hashes of a run that nothing disturbed."""
    if not quiet:
        home = tmp_path / "quiet"
        run = chain.start(home=home)
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0, out + err
        loud, chain.home, chain.data = (chain.home, chain.data), home, home / "data" / "smoke"
        quiet.update(chain.hashes())
        chain.home, chain.data = loud
    return dict(quiet)


@pytest.mark.parametrize(
    ("name", "code"), [("INT", 130), ("TERM", 130), ("KILL", -9)], ids=["ctrl-c", "term", "kill"]
)
def test_runner_stopped(chain, marker, quiet_hashes, helpers, name, code):
    chain.write("02_second", {5: WAIT.format(marker=str(marker))})
    run = chain.start()
    below = reached(helpers, run)
    os.kill(run.pid, getattr(helpers, name))
    out, err = run.communicate(timeout=10)
    helpers.all_gone(below, 5)
    assert run.returncode == code
    if code == 130:
        assert out.splitlines()[-1] == "stopped in 02_second; run the same command to go on"
        assert "dipllm_lib" not in err  # a dying kernel may have its own words there
    assert chain.states()["02_second"] == "cut off"
    check_nothing_half(chain)
    check_heals(chain, marker, quiet_hashes)


def test_kernel_killed(chain, marker, quiet_hashes, helpers):
    chain.write("02_second", {5: WAIT.format(marker=str(marker))})
    run = chain.start()
    below = reached(helpers, run)
    kernel = next(p for p in below if p.ppid() == run.pid)
    began = time.monotonic()
    kernel.kill()
    out, err = run.communicate(timeout=30)
    assert time.monotonic() - began < 30
    helpers.all_gone(below, 5)
    assert run.returncode == 1
    lines = out.splitlines()[1:]
    assert lines[0].startswith("02_second  failed in cell 13 (import os, time")
    assert lines[1:3] == [
        "  the kernel died: killed, or out of memory",
        "  free memory and run the same command to go on",
    ]
    assert lines[3] == f"  executed copy: {chain.data}/executed/02_second.ipynb"
    assert len(lines) == 4 and "dipllm_lib" not in err
    assert chain.states()["02_second"] == "failed"
    check_nothing_half(chain)
    check_heals(chain, marker, quiet_hashes)


def test_worker_killed(chain, marker, quiet_hashes, helpers):
    chain.write("02_second", {5: WAIT.format(marker=str(marker))})
    run = chain.start()
    below = reached(helpers, run)
    worker = next(p for p in below if "--multiprocessing-fork" in p.cmdline())
    worker.kill()
    out, _ = run.communicate(timeout=30)
    helpers.all_gone(below, 5)
    assert run.returncode == 1
    assert "a worker process died during time.sleep: out of memory, or killed" in out
    check_heals(chain, marker, quiet_hashes)


def test_full_disk(chain, marker, quiet_hashes):
    chain.write("02_second", {4: FULL.format(marker=str(marker))})
    run = chain.start()
    out, _ = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "02_second  failed in cell 13 (shelf.save_table(scores, '02_scores'))" in out
    assert "no space left while writing 02_scores.csv" in out
    assert not list(chain.home.rglob("*.tmp"))
    check_nothing_half(chain)
    check_heals(chain, marker, quiet_hashes)


def test_finished_tasks_are_kept(chain, marker, quiet_hashes, helpers, tmp_path):
    log = tmp_path / "log"
    extra = {3: COUNT.format(log=str(log)), 4: WAIT.format(marker=str(marker))}
    chain.write("01_first", extra)
    run = chain.start()
    reached(helpers, run)
    run.kill()
    run.communicate(timeout=10)
    assert (chain.data / "partial" / "01" / "slow.json").exists()
    marker.unlink()
    run = chain.start()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, out + err
    assert "01_first  done" in out and "was cut off" in out
    assert log.read_text(encoding="utf-8") == "x"
    assert chain.hashes() == quiet_hashes
