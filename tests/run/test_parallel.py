"""One and two workers agree; workers end with their parent; errors are one line."""

import math
import os
import subprocess
import sys
import time

import psutil
import pytest

from dipllm_lib.run import parallel, task_env

RAISE = "(_ for _ in ()).throw(ValueError('a task'))"


def test_order_and_values_in_process():
    assert parallel.map(math.factorial, [5, 1, 3], 1, 1) == [120, 1, 6]
    assert parallel.map(math.factorial, [], 2, 1) == []


@pytest.mark.slow
def test_two_workers_equal_one():
    """Also when tasks finish in another order than they started."""
    code = "__import__('time').sleep({}) or {}"
    tasks = [code.format(0.5, 1), code.format(0.01, 2), code.format(0.3, 3), code.format(0, 4)]
    assert parallel.map(eval, tasks, 2, 1) == parallel.map(eval, tasks, 1, 1) == [1, 2, 3, 4]


@pytest.mark.slow
def test_threads_are_those_of_the_task_on_every_backend():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        count = "__import__('torch').get_num_threads()"
        flag = "__import__('torch').are_deterministic_algorithms_enabled()"
        variable = "__import__('os').environ['OMP_NUM_THREADS']"
        assert parallel.map(eval, [count] * 2, 1, 1) == [1, 1]
        assert torch.get_num_threads() == 2
        assert parallel.map(eval, [count, flag, variable], 2, 1) == [1, True, "1"]
    finally:
        torch.set_num_threads(before)


def test_variables_are_restored(monkeypatch):
    monkeypatch.setenv("DIPLLM_A", "7")
    monkeypatch.setenv("DIPLLM_B", "8")
    monkeypatch.delenv("DIPLLM_C", raising=False)
    with task_env.variables({"DIPLLM_A": "1", "DIPLLM_B": None, "DIPLLM_C": "3"}):
        assert os.environ["DIPLLM_A"] == "1" and os.environ["DIPLLM_C"] == "3"
        assert "DIPLLM_B" not in os.environ
    assert os.environ["DIPLLM_A"] == "7" and os.environ["DIPLLM_B"] == "8"
    assert "DIPLLM_C" not in os.environ


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_error_of_a_task_comes_back_and_stops_the_rest(helpers, workers):
    with pytest.raises(ValueError, match="a task"):
        parallel.map(eval, [RAISE, "__import__('time').sleep(60)"], workers, 1)
    helpers.wait_for(lambda: not workers_of(os.getpid()), 3, "the end of the workers")


@pytest.mark.slow
def test_dead_worker_is_one_line():
    with pytest.raises(RuntimeError, match="a worker process died during posix._exit"):
        parallel.map(os._exit, [3, 3], 2, 1)


@pytest.mark.parametrize("function", [lambda x: x, "abc".count])
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


def workers_of(process: int) -> list[psutil.Process]:
    """The worker processes below `process`."""
    below = psutil.Process(process).children(recursive=True)
    return [p for p in below if "--multiprocessing-fork" in p.cmdline()]


def sleeping_parent():
    """A process that maps a long sleep over two workers, and its workers."""
    code = (
        "import signal, time\n"
        # a shell's background job would have inherited that Ctrl-C is ignored
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from dipllm_lib.run import parallel\nparallel.map(time.sleep, [60] * 2, 2, 1)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["KILL", "TERM", "INT"])
def test_workers_die_with_their_parent(helpers, name):
    parent = sleeping_parent()
    helpers.wait_for(lambda: len(helpers.descendants(parent.pid)) >= 3, 30, "two workers")
    time.sleep(0.7)
    workers = helpers.descendants(parent.pid)
    parent.send_signal(getattr(helpers, name))
    parent.wait(timeout=30)
    helpers.all_gone(workers, 10)
