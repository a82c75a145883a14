"""Ray gives what this process and worker processes give, also when workers are lost."""

import functools
import json
import operator
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from dipllm_lib.dip import ladder
from dipllm_lib.run import parallel, profiles, ray_backend, ray_connect, task_env
from dipllm_lib.run.places import Refused

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.skipif(not ray_connect.installed(), reason="Ray is not installed"),
]
# digest of a product whose last bits depend on the number of threads
PRODUCT = (
    "(lambda np, sha: sha(np.random.default_rng({}).random((500, 1000)) @ np.ones((1000, 64)) / 7)"
    ".hexdigest())(__import__('numpy'), __import__('hashlib').sha256)"
)
# the first time: write the process's number to a file and wait for a minute
WAIT_ONCE = (
    "(lambda path, os, time: path.exists() or path.write_text(str(os.getpid())) and time.sleep(60))"
    "(__import__('pathlib').Path({!r}), __import__('os'), __import__('time'))"
)
KILLER = """
import os, pathlib, sys, time
path = pathlib.Path(sys.argv[1])
while not (path.exists() and path.read_text()):
    time.sleep(0.1)
os.kill(int(path.read_text()), 9)
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A Ray of two workers on this machine; the package."""
    folder = tmp_path_factory.mktemp("home")
    with task_env.variables({"DIPLLM_HOME": str(folder)}), ray_backend.cluster(None, 2) as found:
        assert found[0].startswith("127.0.0.1:") and len(found[1]) == 1
        yield sys.modules["ray"]


@pytest.fixture
def ray(started, monkeypatch):
    """`parallel.map` goes to that Ray."""
    monkeypatch.setenv("DIPLLM_BACKEND", "ray")
    return started


def three_ways(function, tasks: list) -> list[str]:
    """Results as JSON: in this process, in two worker processes, on Ray."""
    found = []
    for workers, backend in ((1, "process"), (2, "process"), (2, "ray")):
        with task_env.variables({"DIPLLM_BACKEND": backend}):
            found.append(json.dumps(parallel.map(function, tasks, workers, 1)))
    return found


def test_products_are_equal_to_the_last_bit(ray):
    here, processes, there = three_ways(eval, [PRODUCT.format(k) for k in range(6)])
    assert here == processes == there and len(set(json.loads(here))) == 6


def test_games_are_equal(ray):
    settings = profiles.load("smoke", 0).dip
    here, processes, there = three_ways(ladder.ladder_game, [(settings, 0, n) for n in (0, 9, 20)])
    assert here == processes == there and "sos" in here


def test_order_is_that_of_the_tasks(ray):
    code = "__import__('time').sleep({}) or {}"
    waits = [(0.5, 1), (0, 2), (0.3, 3), (0, 4), (0, 5)]
    assert parallel.map(eval, [code.format(*w) for w in waits], 2, 1) == [1, 2, 3, 4, 5]


def test_threads_and_flags_are_those_of_a_worker_process(ray):
    import torch

    assert torch.__name__ in sys.modules  # loaded here, so it is set up there
    codes = [
        "__import__('torch').get_num_threads()",
        "__import__('torch').are_deterministic_algorithms_enabled()",
        "__import__('os').environ['OMP_NUM_THREADS']",
        "__import__('os').environ['DIPLLM_BACKEND']",
        "__import__('os').environ['TOKENIZERS_PARALLELISM']",
    ]
    assert parallel.map(eval, codes, 2, 1) == [1, True, "1", "process", "false"]


def test_shared_arrays_are_sent_once_and_may_be_written_to(ray, monkeypatch):
    shared, puts, put = np.zeros(100_000), [], ray.put
    monkeypatch.setattr(ray, "put", lambda value: puts.append(value) or put(value))
    found = parallel.map(functools.partial(operator.iadd, shared), [1, 2, 3, 4], 2, 1)
    assert [array[0] for array in found] == [1, 2, 3, 4] and shared[0] == 0
    found[0][:] = 9
    assert len(puts) == 1


@pytest.mark.parametrize("place", [0, 1])
def test_error_of_a_task_comes_back_and_stops_the_rest(ray, place):
    tasks = ["1", "__import__('time').sleep(60)"]
    tasks.insert(place, "(_ for _ in ()).throw(ValueError('a task'))")
    start = time.monotonic()
    with pytest.raises(ValueError, match="^a task$"):
        parallel.map(eval, tasks, 2, 1)
    assert parallel.map(eval, ["1", "2", "3"], 2, 1) == [1, 2, 3]
    assert time.monotonic() - start < 55


def test_a_killed_worker_is_replaced(ray, tmp_path):
    """Each task waits for a minute the first time, and its worker is killed meanwhile."""
    paths = [str(tmp_path / name) for name in "abcd"]
    killers = [subprocess.Popen([sys.executable, "-c", KILLER, path]) for path in paths]
    start = time.monotonic()
    assert parallel.map(eval, [WAIT_ONCE.format(path) for path in paths], 2, 1) == [True] * 4
    assert time.monotonic() - start < 55
    assert [one.wait(timeout=5) for one in killers] == [0] * 4


def test_a_task_that_kills_every_worker_is_one_line(ray):
    text = "^workers died 4 times during posix._exit: out of memory, or killed; free memory or"
    with pytest.raises(RuntimeError, match=text) as error:
        parallel.map(os._exit, [3, 3], 2, 1)
    assert "\n" not in str(error.value)


def test_other_versions_are_one_line(ray, monkeypatch):
    own = ray_backend.fingerprint()
    monkeypatch.setattr(ray_backend, "fingerprint", lambda: own | {"torch": "1.0"})
    with pytest.raises(Refused, match=r"has torch \S+, not 1.0: give all machines") as error:
        parallel.map(abs, [1, 2], 2, 1)
    assert "\n" not in str(error.value)


def test_more_threads_than_a_machine_has(ray):
    with pytest.raises(Refused, match="none of the 1 machines of the cluster has 99 CPUs for a"):
        parallel.map(abs, [1, 2], 2, 99)


def test_functions_that_workers_cannot_import(ray):
    with pytest.raises(ValueError, match="module-level function of dipllm_lib"):
        parallel.map(lambda x: x, [1, 2], 2, 1)
