"""Lock, disk, kernel, signals."""

import os
import signal
import subprocess
import sys

import pytest

from dipllm_lib.run import guards
from dipllm_lib.run.places import Refused


def test_lock_holds_the_process_id(tmp_path):
    with guards.lock(tmp_path / "smoke", "data/smoke"):
        assert (tmp_path / "smoke" / ".lock").read_text(encoding="utf-8") == str(os.getpid())
    assert list((tmp_path / "smoke").iterdir()) == []


def test_second_lock_is_refused(tmp_path):
    message = f"data/smoke is being written by process {os.getpid()}: wait for it, or stop it"
    with guards.lock(tmp_path, "data/smoke"):
        with pytest.raises(Refused, match=message):
            with guards.lock(tmp_path, "data/smoke"):
                pass
        assert [p.name for p in tmp_path.iterdir()] == [".lock"]  # the first still holds it
    with guards.lock(tmp_path, "data/smoke"):
        pass


def test_lock_of_a_dead_process_is_taken_over(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / ".lock").write_text(str(dead.pid), encoding="utf-8")
    assert guards.holding(tmp_path / ".lock") is None
    with guards.lock(tmp_path, "data/smoke"):
        assert guards.holding(tmp_path / ".lock") == os.getpid()


def test_lock_is_released_on_an_error(tmp_path):
    with pytest.raises(KeyError):
        with guards.lock(tmp_path, "data/smoke"):
            raise KeyError
    assert not (tmp_path / ".lock").exists()


def test_disk(tmp_path, monkeypatch):
    guards.disk(tmp_path, 1)
    usage = type("Usage", (), {"free": 99_999_999})
    monkeypatch.setattr(guards.shutil, "disk_usage", lambda path: usage)
    guards.disk(tmp_path, 99)
    with pytest.raises(Refused) as error:
        guards.disk(tmp_path, 100)
    assert str(error.value) == (
        "not enough disk: 100 MB needed, 99 MB free; make room, "
        "or set DIPLLM_HOME to a folder on another disk"
    )


def kernelspec(folder, command: str, monkeypatch) -> None:
    """Makes `command` the interpreter of the kernel python3 for this process."""
    path = folder / "kernels" / "python3"
    path.mkdir(parents=True)
    text = '{"argv": ["%s", "-m", "ipykernel_launcher"], "display_name": "p", "language": "python"}'
    (path / "kernel.json").write_text(text % command, encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(folder))


def test_kernel_of_this_python(tmp_path, monkeypatch):
    guards.kernel()
    kernelspec(tmp_path, sys.executable, monkeypatch)
    guards.kernel()


def test_kernel_of_another_python(tmp_path, monkeypatch):
    kernelspec(tmp_path, "/opt/other/bin/python", monkeypatch)
    with pytest.raises(Refused, match="starts /opt/other/bin/python, not .*-m ipykernel install"):
        guards.kernel()


def test_sigterm_is_like_ctrl_c():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        with guards.stoppable():
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
    assert signal.getsignal(signal.SIGTERM) == before
