"""Notebooks run by plain papermill, from other folders and as JupyterLab starts them."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def papermill(chain, name: str, *parameters: str, folder="/", **environment):
    """Plain papermill on one notebook."""
    path = chain.folder / f"{name}.ipynb"
    command = [sys.executable, "-m", "papermill", str(path), "-", *parameters]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_by_hand_gives_the_same_files_and_voids_the_entry(finished):
    before = finished.hashes()
    parameters = ("-p", "profile", "smoke", "-p", "seed", "0")
    done = papermill(finished, "01_first", *parameters)
    assert done.returncode == 0, done.stderr
    done = papermill(
        finished, "02_second", folder=finished.folder, JPY_SESSION_NAME="02_second.ipynb"
    )
    assert done.returncode == 0, done.stderr
    assert finished.hashes() == before
    assert finished.states() == {
        "01_first": "not checked",
        "02_second": "not checked",
        "03_third": None,
    }


def test_by_hand_with_wrong_parameters(chain):
    for words, line in (
        (("-p", "seed", "three"), "TypeError: seed must be an int, got str 'three'"),
        (("-p", "seed", "true"), "TypeError: seed must be an int, got"),
        (("-p", "profile", "7"), "TypeError: profile must be a str, got int 7"),
        (("-p", "profile", "fast"), "ValueError: unknown profile 'fast': use one of smoke"),
    ):
        done = papermill(chain, "01_first", *words)
        assert done.returncode != 0
        assert line in done.stderr.splitlines()[-1] + done.stderr.splitlines()[-2]


def test_by_hand_without_its_input(chain):
    done = papermill(chain, "02_second")
    assert done.returncode != 0
    line = r"FileNotFoundError: 01_draws.jsonl is missing: run .*01.* with profile smoke and seed 0"
    assert re.search(line, done.stderr)
