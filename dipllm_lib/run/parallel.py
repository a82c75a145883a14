"""Run independent tasks in this process, in worker processes or on Ray, with the same results.

`map(function, tasks, workers, task_threads)` returns `[function(task) for task in tasks]`. Every
task computes with `task_threads` threads wherever it runs, since the number of threads changes the
last bits of a sum. A task carries its own randomness (a seed and names), so order and place do not
matter; that is why the place is a variable of the environment, BACKEND, and no setting.

Workers are started with `spawn`: nothing is inherited but the environment. Each has a thread that
ends it when its parent is gone or asks it to stop; without this, workers outlive a killed parent by
minutes.
"""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection

from dipllm_lib.run import progress, seeding
from dipllm_lib.run.task_env import BACKEND, BACKENDS, THREAD_VARIABLES, name, variables

WATCH = 0.5  # seconds between two looks at the parent


def map(
    function: Callable, tasks: Sequence, workers: int, task_threads: int, text: str = ""
) -> list:
    """The results of `function` on each of `tasks`, in the order of `tasks`.

    function: of a module that a worker can import, not of a notebook. workers: 1 computes in this
    process; on Ray the number is that of each machine. text: a name for the progress lines, none
    without. Raises what a task raises; RuntimeError when a worker dies, on Ray only when it does so
    again and again.
    """
    tasks = list(tasks)
    _check(function, workers, task_threads)
    if workers == 1 or len(tasks) < 2:
        results = _in_process(function, tasks, task_threads)
    elif backend() == "ray":
        from dipllm_lib.run import ray_backend

        results = ray_backend.compute(function, tasks, workers, task_threads)
    else:
        results = _in_workers(function, tasks, min(workers, len(tasks)), task_threads)
    with contextlib.closing(results):
        return list(progress.track(results, total=len(tasks), text=text) if text else results)


def backend() -> str:
    """Where tasks of more than one worker run: one of BACKENDS. Raises ValueError for others."""
    wanted = os.environ.get(BACKEND, BACKENDS[0])
    if wanted not in BACKENDS:
        raise ValueError(f"{BACKEND} must be one of {', '.join(BACKENDS)}, got {wanted!r}")
    return wanted


def _check(function: Callable, workers: int, task_threads: int) -> None:
    """Raises ValueError for a function that workers cannot import or for counts below 1."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    module, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", "")
    found = getattr(sys.modules.get(module), name, None)
    if module == "__main__" or found is not inner:
        raise ValueError(
            f"parallel.map needs a module-level function of dipllm_lib, got {inner!r}: "
            "worker processes cannot import it"
        )
    if workers < 1 or task_threads < 1:
        raise ValueError(f"workers {workers} and task_threads {task_threads} must be at least 1")


def _in_process(function: Callable, tasks: list, task_threads: int) -> Iterator:
    """Computes here, one task after the other."""
    seeding.numpy_threads(task_threads)
    for task in tasks:
        if "torch" in sys.modules:
            with seeding.torch_threads(task_threads):
                result = function(task)
        else:
            result = function(task)
        yield result


def _in_workers(function: Callable, tasks: list, workers: int, task_threads: int) -> Iterator:
    """Computes in `workers` spawned processes; yields in the order of `tasks`."""
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    setup = (os.getpid(), reader, task_threads, "torch" in sys.modules)
    with variables({name: str(task_threads) for name in THREAD_VARIABLES}):
        pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=setup)
        try:
            # workers are spawned while tasks are submitted, so the variables are theirs
            futures = [pool.submit(function, task) for task in tasks]
            for future in futures:
                yield future.result()
            pool.shutdown()
        except BrokenProcessPool as error:
            raise RuntimeError(
                f"a worker process died during {name(function)}: out of memory, or killed; "
                "free memory or lower the number of workers, and run again"
            ) from error
        finally:
            writer.close()
            pool.shutdown(wait=False, cancel_futures=True)
            reader.close()


def _start_worker(parent: int, reader, task_threads: int, torch: bool) -> None:
    """Set up one worker: leave Ctrl-C to the parent, watch it, fix threads and flags."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent, reader), daemon=True).start()
    seeding.numpy_threads(task_threads)
    if torch:
        seeding.deterministic(task_threads)


def _watch(parent: int, reader) -> None:
    """End this process when its parent is gone or has closed the other end of the pipe."""
    while os.getppid() == parent and not connection.wait([reader], WATCH):
        pass
    os._exit(1)
