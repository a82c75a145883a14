"""One and two workers agree; workers end with their parent; errors are one line."""

import functools
import math
import os
import subprocess
import sys
import time
import urllib.parse

import psutil
import pytest

from dipllm_lib.run import parallel, stats


def test_order_and_values_in_process():
    assert parallel.map(math.factorial, [5, 1, 3], 1, 1) == [120, 1, 6]
    assert parallel.map(math.factorial, [], 2, 1) == []


def test_two_workers_equal_one():
    tasks = [0.3, 0.01, 0.2, 0.02, 0.1]
    assert parallel.map(time.sleep, tasks, 2, 1) == parallel.map(time.sleep, tasks, 1, 1)
    texts = [f"a b{k}" for k in range(7)]
    quote = functools.partial(urllib.parse.quote, safe="")
    assert parallel.map(quote, texts, 2, 1) == [f"a%20b{k}" for k in range(7)]


@pytest.mark.slow
def test_threads_are_those_of_the_task_on_every_backend():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        command = "__import__('torch').get_num_threads()"
        assert parallel.map(eval, [command] * 2, 1, 1) == [1, 1]
        assert torch.get_num_threads() == 2
        assert parallel.map(eval, [command] * 2, 2, 1) == [1, 1]
        flag = "__import__('torch').are_deterministic_algorithms_enabled()"
        assert parallel.map(eval, [flag] * 2, 2, 1) == [True, True]
        variable = "__import__('os').environ['OMP_NUM_THREADS']"
        assert parallel.map(eval, [variable] * 2, 2, 1) == ["1", "1"]
    finally:
        torch.set_num_threads(before)


def test_environment_is_restored(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    parallel.map(math.sqrt, [1, 4], 2, 1)
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_error_of_a_task_comes_back_and_stops_the_rest():
    began = time.monotonic()
    with pytest.raises(ValueError):
        parallel.map(math.sqrt, [4, -1, 9], 2, 1)
    with pytest.raises(ValueError):
        parallel.map(math.sqrt, [4, -1, 9], 1, 1)
    assert time.monotonic() - began < 30


def test_dead_worker_is_one_line():
    with pytest.raises(RuntimeError, match="a worker process died during posix._exit"):
        parallel.map(os._exit, [3, 3], 2, 1)


@pytest.mark.parametrize(
    "function", [lambda x: x, test_error_of_a_task_comes_back_and_stops_the_rest.__call__]
)
def test_functions_that_workers_cannot_import(function):
    with pytest.raises(ValueError, match="module-level function of dipllm_lib"):
        parallel.map(function, [1, 2], 2, 1)


def test_function_of_a_notebook():
    code = "from dipllm_lib.run import parallel\ndef f(x): return x\nparallel.map(f, [1, 2], 2, 1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "needs a module-level function of dipllm_lib" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("workers", "threads"), [(0, 1), (1, 0)])
def test_counts_below_one(workers, threads):
    with pytest.raises(ValueError, match="must be at least 1"):
        parallel.map(math.sqrt, [1], workers, threads)


def test_progress_lines(capsys, monkeypatch):
    monkeypatch.setenv("DIPLLM_PROGRESS", "plain")
    parallel.map(math.sqrt, [1, 4], 1, 1, text="roots")
    assert capsys.readouterr().out.splitlines() == [f"roots  {k} of 2" for k in range(3)]


def sleeping_parent():
    """A process that maps a long sleep over two workers, and its workers."""
    code = (
        "import time\nfrom dipllm_lib.run import parallel\nparallel.map(time.sleep, [60] * 2, 2, 1)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.mark.parametrize("name", ["KILL", "TERM", "INT"])
def test_workers_die_with_their_parent(helpers, name):
    parent = sleeping_parent()
    helpers.wait_for(lambda: len(helpers.descendants(parent.pid)) >= 3, 30, "two workers")
    time.sleep(0.7)
    workers = helpers.descendants(parent.pid)
    parent.send_signal(getattr(helpers, name))
    parent.wait(timeout=5)
    helpers.all_gone(workers, 3)


def test_workers_are_gone_after_a_map():
    parallel.map(math.sqrt, [1, 4], 2, 1)
    own = psutil.Process().children(recursive=True)
    assert not [p for p in own if "spawn_main" in " ".join(p.cmdline())]


def test_numbers_do_not_depend_on_workers():
    """A bootstrap per task, seeded by the task's name."""
    interval = functools.partial(stats.mean_interval, rng=7, resamples=5)
    with pytest.raises(AttributeError):  # a number is no generator: randomness is an argument
        parallel.map(interval, [[1, 2]], 1, 1)
