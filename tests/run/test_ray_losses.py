"""A driver that is killed takes its Ray along and is resumed; two machines give the same tables."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from dipllm_lib.run import ray_connect, task_env

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
    helpers.wait_for(lambda: len(computed.read_bytes()) == 3, 60, "the start of the others")
    below = helpers.descendants(first.pid)
    named = {one.pid: one.name() for one in below}
    assert sum(name.startswith("ray::_task") for name in named.values()) == 2
    first.send_signal(getattr(helpers, name))
    first.wait(timeout=30)
    # after a SIGKILL two helpers of Ray that do no work look for it for up to a minute
    agents = [one for one in below if one.pid in named and named[one.pid].endswith("Agent")]
    helpers.all_gone([one for one in below if one not in agents], 10)
    helpers.all_gone(agents, 90)
    (home / "hold").unlink()
    before = computed.read_text(encoding="utf-8")
    out, err = driver(home).communicate(timeout=120)
    assert json.loads(out) == ["a", "b", "c"], err
    after = computed.read_text(encoding="utf-8")
    assert after.count("a") == 1 and sorted(after.removeprefix(before)) == ["b", "c"]


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


@pytest.fixture
def machines(home, helpers, tmp_path):
    """Two machines of one CPU each, started as README says but in the foreground, so that they can
    be ended by their numbers; the address of the first and the processes.
    """
    where, command = f"127.0.0.1:{free_port()}", Path(sys.executable).with_name("ray")
    head = f"--head --node-ip-address 127.0.0.1 --port {where.partition(':')[2]} --num-cpus 1"
    words = [f"{head} --include-dashboard false", f"--address {where} --num-cpus 1"]
    own_ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    own_ray["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = None  # of a Ray that a test has started here
    started = []
    with task_env.variables({"DIPLLM_HOME": str(home)} | own_ray):
        for own in words:
            line = [str(command), "start", *own.split(), "--disable-usage-stats", "--block"]
            log = open(tmp_path / f"machine{len(started)}", "w+", encoding="utf-8")
            with log:
                started.append(subprocess.Popen(line, stdout=log, stderr=log))
            said = Path(log.name)
            helpers.wait_for(lambda: "Ray runtime started" in said.read_text("utf-8"), 90, own)
        yield where, started
    below = [one for process in started for one in helpers.descendants(process.pid)]
    for process in reversed(started):
        process.terminate()
        process.wait(timeout=60)
    for one in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    helpers.all_gone(below, 10)


def test_two_machines_share_the_work_and_one_may_be_lost(home, machines, helpers):
    """The second machine is ended while each of them computes a task that waits."""
    where, (_, second) = machines
    (home / "hold").touch()
    run = driver(home, DIPLLM_RAY_ADDRESS=where)
    computed = home / "computed"
    helpers.wait_for(lambda: computed.exists() and len(computed.read_bytes()) == 3, 120, "3 tasks")
    workers = [one for one in helpers.descendants(second.pid) if "ray::" in one.name()]
    assert workers
    for one in helpers.descendants(second.pid):
        one.kill()
    (home / "hold").unlink()
    out, err = run.communicate(timeout=120)
    assert "Task _task failed. There are 3 retries remaining" in out  # Ray tells of a loss
    assert json.loads(out.splitlines()[-1]) == ["a", "b", "c"], err
    assert len(computed.read_bytes()) == 4
