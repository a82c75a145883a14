"""A driver that is killed takes its Ray along and is resumed; two machines give the same tables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dipllm_lib.run import ray_connect

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.skipif(not ray_connect.installed(), reason="Ray is not installed"),
]
# a notebook's work: tasks that note their name; `b` and `c` wait as long as a file is there
DRIVER = """
import functools, json, os, pathlib, signal, sys
from dipllm_lib.run import profiles, store
signal.signal(signal.SIGINT, signal.default_int_handler)
profile = profiles.load("smoke", 0)
shelf = store.Shelf("01_data_collection", profile, profile.dip)
print(json.dumps(shelf.tasks(eval, json.loads(sys.argv[1]), ["a", "b", "c"])))
"""
TASK = (
    "(lambda home, time: [*open(home + '/computed', 'a').write({0!r}) * [0], "
    "*(time.sleep(0.1) for _ in range(600) if {1} and __import__('os').path.exists(home + '/hold'))"
    ", {0!r}][-1])(__import__('os').environ['DIPLLM_HOME'], __import__('time'))"
)
TASKS = json.dumps([TASK.format(name, name != "a") for name in "abc"])


def driver(home: Path, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, TASKS],
        env=os.environ | {"DIPLLM_HOME": str(home), "DIPLLM_BACKEND": "ray"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT"])
def test_a_driver_that_ends_takes_its_ray_along_and_is_resumed(home, helpers, name):
    (home / "hold").touch()
    first = driver(home)
    kept, computed = home / "data/smoke/partial/01/a.json", home / "computed"
    helpers.wait_for(kept.exists, 120, "the first result")
    helpers.wait_for(lambda: "b" in computed.read_text(encoding="utf-8"), 60, "the next task")
    below = helpers.descendants(first.pid)
    assert len(below) >= 4  # two of Ray's own, two workers
    first.send_signal(getattr(helpers, name))
    first.wait(timeout=30)
    helpers.all_gone(below, 20)
    (home / "hold").unlink()
    before = computed.read_text(encoding="utf-8")
    out, err = driver(home).communicate(timeout=120)
    assert json.loads(out) == ["a", "b", "c"], err
    after = computed.read_text(encoding="utf-8")
    assert after.count("a") == 1 and sorted(after.removeprefix(before)) == ["b", "c"]


def ray(*words: str, home: Path) -> subprocess.Popen:
    """`ray start` in the foreground, to be ended by its number."""
    command = [str(Path(sys.executable).with_name("ray")), "start", *words, "--block"]
    env = os.environ | {"DIPLLM_HOME": str(home)}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
