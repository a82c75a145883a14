"""A set of files and folders is replaced together: whatever fails, the old set or the new one."""

import os
import subprocess
import sys
import types

import pytest

from dipllm_lib.run import files, swap

RENAMES = 5  # two each for the folder and the file that are there, one for the folder that is not


def tree(folder):
    """Relative path -> text of everything below `folder`, hidden names included."""
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in found}


OLD = {"a/ref/x.csv": "old x", "a/ref/y.csv": "old y", "c.md": "old c"}
NEW = {"a/ref/x.csv": "new x", "b/ref/z.png": "new z", "c.md": "new c"}


@pytest.fixture
def targets(tmp_path):
    """A folder and a file that are there and a folder that is not."""
    for name, text in OLD.items():
        files.write_text(tmp_path / name, text)
    return [tmp_path / "a" / "ref", tmp_path / "b" / "ref", tmp_path / "c.md"]


def replace(targets):
    with swap.together(targets) as (a, b, c):
        files.write_text(a / "x.csv", "new x")
        files.write_text(b / "z.png", "new z")
        files.write_text(c, "new c")


def fail_at(monkeypatch, number, error):
    """Make the rename with this number fail, those before and after it work."""
    count = 0

    def rename(source, target):
        nonlocal count
        count += 1
        if count == number:
            raise error
        os.replace(source, target)

    monkeypatch.setattr(swap, "os", types.SimpleNamespace(replace=rename))
    return lambda: count


def test_the_new_set(targets, tmp_path, monkeypatch):
    count = fail_at(monkeypatch, 0, None)
    replace(targets)
    assert tree(tmp_path) == NEW
    assert count() == RENAMES
    replace(targets)
    assert tree(tmp_path) == NEW


@pytest.mark.parametrize("error", [OSError(28, "no space"), KeyboardInterrupt()])
@pytest.mark.parametrize("number", range(1, RENAMES + 1))
def test_a_failure_at_every_rename_leaves_the_old_set(
    targets, tmp_path, monkeypatch, number, error
):
    fail_at(monkeypatch, number, error)
    with pytest.raises(type(error)):
        replace(targets)
    assert tree(tmp_path) == OLD


def test_a_failure_in_the_block_or_in_the_journal_leaves_the_old_set(
    targets, tmp_path, monkeypatch
):
    with pytest.raises(ValueError), swap.together(targets) as new:
        files.write_text(new[0] / "x.csv", "new x")
        raise ValueError
    assert tree(tmp_path) == OLD

    def full(path, text):
        raise OSError(28, "no space")

    with pytest.raises(OSError), swap.together(targets) as new:
        files.write_text(new[0] / "x.csv", "new x")
        monkeypatch.setattr(swap.files, "write_text", full)
    assert tree(tmp_path) == OLD


KILLED = """
import os, sys, types
from pathlib import Path
from dipllm_lib.run import files, swap
targets, number, count = [Path(word) for word in sys.argv[2:]], int(sys.argv[1]), 0

def rename(source, target):
    global count
    count += 1
    if count == number:
        os._exit(9)
    os.replace(source, target)

swap.os = types.SimpleNamespace(replace=rename)
with swap.together(targets) as (a, b, c):
    files.write_text(a / "x.csv", "new x")
    files.write_text(b / "z.png", "new z")
    files.write_text(c, "new c")
"""


@pytest.mark.parametrize("number", range(1, RENAMES + 1))
def test_a_kill_at_every_rename_is_undone_by_the_next_call(targets, tmp_path, number):
    words = [sys.executable, "-c", KILLED, str(number), *map(str, targets)]
    assert subprocess.run(words, check=False).returncode == 9
    assert swap.pending(targets[0])
    swap.recover(targets)
    assert tree(tmp_path) == OLD and not swap.pending(targets[0])
    replace(targets)
    assert tree(tmp_path) == NEW


def test_a_kill_in_the_recovery_is_recovered_from(targets, tmp_path, monkeypatch):
    """Killed at the last rename of the swap, then failing at each rename of the recovery."""
    words = [sys.executable, "-c", KILLED, str(RENAMES), *map(str, targets)]
    assert subprocess.run(words, check=False).returncode == 9
    for number in (1, 2):
        fail_at(monkeypatch, number, OSError(5, "input/output error"))
        with pytest.raises(OSError):
            swap.recover(targets)
        assert swap.pending(targets[0])
    swap.recover(targets)
    assert tree(tmp_path) == OLD


def test_what_a_finished_swap_left_is_removed(targets, tmp_path):
    """Killed after the journal was removed: the new set stands and the old one goes."""
    replace(targets)
    files.write_text(tmp_path / "a" / ".ref.old.tmp" / "x.csv", "old x")
    swap.recover(targets)
    assert tree(tmp_path) == NEW
