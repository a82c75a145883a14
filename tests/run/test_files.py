"""Atomic writes, leftovers, JSON."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from dipllm_lib.run import files


def dead_process() -> int:
    """The id of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_write_and_replace(tmp_path):
    path = tmp_path / "new" / "a.txt"
    files.write_text(path, "é\n")
    files.write_text(path, "b\n")
    assert path.read_bytes() == b"b\n"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failing_write_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def fail(*arguments):
        raise OSError(errno.EIO, "planted")

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(OSError, match="planted"):
        files.write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="no space left while writing a.txt: [0-9]+ MB free, make"):
        files.write_text(tmp_path / "a.txt", "new")
    with pytest.raises(OSError, match="no space left while writing model"):
        with files.write_folder(tmp_path / "model") as folder:
            (folder / "x").write_bytes(b"1")
    assert list(tmp_path.iterdir()) == []


def test_folder_is_swapped_whole(tmp_path):
    path = tmp_path / "model"
    with files.write_folder(path) as folder:
        (folder / "a").write_bytes(b"1")
        (folder / "a").chmod(0o600)
        assert not path.exists()
    assert (path / "a").stat().st_mode & 0o777 == 0o644
    with files.write_folder(path) as folder:
        (folder / "b").write_bytes(b"2")
        assert [p.name for p in path.iterdir()] == ["a"]
    assert [p.name for p in path.iterdir()] == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_failing_folder_leaves_the_old_one(tmp_path):
    path = tmp_path / "model"
    with files.write_folder(path) as folder:
        (folder / "a").write_bytes(b"1")
    with pytest.raises(KeyError):
        with files.write_folder(path) as folder:
            (folder / "b").write_bytes(b"2")
            raise KeyError("planted")
    assert [p.name for p in path.iterdir()] == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_leftovers_of_dead_writers_only(tmp_path):
    dead = dead_process()
    (tmp_path / f".a.csv.{dead}.tmp").write_text("half", encoding="utf-8")
    (tmp_path / f".model.{dead}.tmp").mkdir()
    (tmp_path / f".model.{dead}.tmp" / f".x.{dead}.tmp").write_text("", encoding="utf-8")
    (tmp_path / f".b.csv.{os.getpid()}.tmp").write_text("mine", encoding="utf-8")
    (tmp_path / "c.tmp").write_text("foreign", encoding="utf-8")
    files.remove_leftovers(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f".b.csv.{os.getpid()}.tmp", "c.tmp"]


def test_killed_writer(tmp_path):
    """A writer that is killed over and over never leaves half a file under the real name."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom dipllm_lib.run import files\n"
        "path = Path(sys.argv[1])\nprint('go', flush=True)\n"
        "while True:\n    [files.write_bytes(path, c * 100_000) for c in (b'a', b'b')]"
    )
    path = tmp_path / "a.bin"
    for _ in range(3):
        command = [sys.executable, "-c", code, str(path)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        writer.stdout.readline()
        while not path.exists():
            pass
        writer.kill()
        writer.wait()
        writer.stdout.close()
        content = path.read_bytes()
        assert len(content) == 100_000 and len(set(content)) == 1
        files.remove_leftovers(tmp_path)
        assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_json_golden():
    value = {"b": np.int64(3), "a": np.arange(2), "c": (np.float32(0.5), "é", None, True)}
    assert files.to_json(value) == '{"a":[0,1],"b":3,"c":[0.5,"é",null,true]}'


@pytest.mark.parametrize("value", [float("nan"), {"x": float("inf")}, [np.float64("nan")]])
def test_json_refuses_nan(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.to_json(value)


def test_json_refuses_objects():
    with pytest.raises(TypeError, match="set .* cannot be written as JSON"):
        files.to_json({"x": {1, 2}})


def test_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.sha256(tmp_path / "a") == known
