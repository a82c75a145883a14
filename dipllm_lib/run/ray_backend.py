"""`parallel.map` on Ray: the workers of one machine, or of a cluster.

Ray only carries bytes: function, tasks and results are pickled here as worker processes pickle
them, so a task gets arrays of its own that it may write to, and computes what it computes anywhere.
What all tasks share (weights, a state) belongs into a `functools.partial`: the function is put into
Ray's store once for a map and copied once to each machine. A worker has the same variables of
environment and the same number of threads as a worker process.

A worker or machine that dies is replaced: its task is computed again, at most RETRIES times. When
the driver dies, its workers end; what was kept until then (`checkpoints`) is not computed again.

Code is not sent. The folders of the repository and of the outputs must be found under the same
paths on every machine, with the same versions installed; each worker makes sure of it before its
first task and otherwise names its machine and the difference. `workers` counts for each machine;
a machine takes no more tasks than it has CPUs in Ray.
"""

import contextlib
import functools
import itertools
import json
import os
import pickle
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import ModuleType

from dipllm_lib.run import places, provenance, seeding, sources, task_env
from dipllm_lib.run.places import Refused
from dipllm_lib.run.ray_connect import RETRIES, connect, line

ADDRESS = "DIPLLM_RAY_ADDRESS"  # HOST:PORT of a running Ray; without it one is started here
START = 120  # seconds in which a machine must have started a worker
# variables with these beginnings may move a bit or a file, so workers get those of the driver
PASSED = (
    "ATEN_",
    "DIPLLM_",
    "HF_",
    "KMP_",
    "MKL_",
    "NUMBA_",
    "OPENBLAS_",
    "PYTHONHASHSEED",
    "TORCH",
    "TQDM_",
    "TRANSFORMERS_",
)


@contextlib.contextmanager
def cluster(where: str | None, cpus: int, task_threads: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Inside the block a Ray is there that fits: that at `where`, else one of `cpus` CPUs on this
    machine, which ends with the block or with this process.

    Yields its address and the kinds of its processors. Raises Refused: no Ray, no answer, or a
    machine with other code, versions or folders.
    """
    with tempfile.TemporaryDirectory(prefix="ray_", ignore_cleanup_errors=True) as folder:
        ray = connect(where, cpus, folder)
        try:
            kinds = _check_machines(ray, task_threads)
            yield ray.get_runtime_context().gcs_address, kinds
        finally:
            ray.shutdown()


# what every machine must have


def fingerprint() -> dict[str, str | None]:
    """What must be equal on every machine: hash of the package, versions, folder of the outputs."""
    return {"dipllm_lib": sources.package_hash(), "DIPLLM_HOME": str(places.home())} | (
        provenance.versions()
    )


@contextlib.contextmanager
def _mark() -> Iterator[str]:
    """The path of a file among the outputs that every machine should see."""
    places.cache().mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix=".seen_", dir=places.cache()) as file:
        yield file.name


@functools.cache
def _agree(expected: str, mark: str) -> None:
    """Raises Refused if this machine differs from what the driver expects."""
    node = f"the machine {socket.gethostname()} of the cluster"
    own = fingerprint()
    for name, wanted in json.loads(expected).items():
        if own[name] != wanted:
            raise Refused(
                f"{node} has {name} {own[name]}, not {wanted}: give all machines the same "
                "repository and the same versions"
            )
    if not os.path.exists(mark):
        raise Refused(
            f"{node} does not see {places.home()}: set DIPLLM_HOME to a folder that all share"
        )


def _check(expected: str, mark: str) -> str:
    """Runs on each machine: `_agree`, then the kind of its processor."""
    _agree(expected, mark)
    return provenance.cpu_model()


def _machines(ray: ModuleType, task_threads: int) -> list[str]:
    """Ids of the machines that can take a task. Raises Refused if there are none."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    able = [n["NodeID"] for n in alive if n["Resources"].get("CPU", 0) >= task_threads]
    if not able:
        raise Refused(
            f"none of the {len(alive)} machines of the cluster has {task_threads} CPUs for a task: "
            "start one with `ray start --num-cpus`"
        )
    return sorted(able)


def _check_machines(ray: ModuleType, task_threads: int) -> list[str]:
    """The kinds of all processors, sorted. Raises Refused for a machine that differs."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    wanted = _expected()
    with _mark() as mark, _told(ray, "the check of the machines"):
        answers = [
            _remote(ray, _check, task_threads, On(node, soft=False), 0).remote(wanted, mark)
            for node in _machines(ray, task_threads)
        ]
        return sorted(set(ray.get(answers, timeout=START)))


def _expected() -> str:
    return json.dumps(fingerprint())


# tasks


def compute(function: Callable, tasks: list, workers: int, task_threads: int) -> Iterator:
    """Yields `function(task)` in the order of `tasks`; at most `workers` at a time a machine."""
    ray = connect(os.environ.get(ADDRESS), workers * task_threads)
    most = workers * len(_machines(ray, task_threads))
    run = _remote(ray, _task, task_threads)
    waiting, running, done = iter(enumerate(tasks)), {}, {}
    with _mark() as mark, _told(ray, task_env.name(function)):
        shared = ray.put(_shared(function, task_threads, mark))
        try:
            for wanted in range(len(tasks)):
                while wanted not in done:
                    for number, task in itertools.islice(waiting, most - len(running)):
                        running[run.remote(shared, pickle.dumps(task))] = number
                    for one in ray.wait(list(running))[0]:
                        done[running.pop(one)] = one
                yield pickle.loads(ray.get(done.pop(wanted)))
        finally:
            for one in running:
                ray.cancel(one, force=True)


def _shared(function: Callable, task_threads: int, mark: str) -> tuple:
    """What every task of a map needs."""
    return pickle.dumps(function), _expected(), mark, task_threads, "torch" in sys.modules


def _task(shared: tuple, task: bytes) -> bytes:
    """Runs in a worker: one task with the threads and flags of a worker process."""
    function, expected, mark, task_threads, torch = shared
    _agree(expected, mark)
    seeding.numpy_threads(task_threads)
    if torch:
        seeding.deterministic(task_threads)
    return pickle.dumps(pickle.loads(function)(pickle.loads(task)))


def _remote(
    ray: ModuleType, function: Callable, threads: int, place: object = "SPREAD", cpus: int = 1
) -> Callable:
    """`function` as something that Ray runs in workers with the right environment."""
    return ray.remote(
        num_cpus=cpus * threads,
        max_retries=RETRIES,
        scheduling_strategy=place,
        runtime_env={"env_vars": environment(threads)},
    )(function)


def environment(task_threads: int) -> dict[str, str]:
    """The variables of a worker: those of a worker process, and where to find the package."""
    found = {name: os.environ.get(name, value) for name, value in seeding.VARIABLES.items()}
    found |= {name: value for name, value in os.environ.items() if name.startswith(PASSED)}
    found |= {name: str(task_threads) for name in task_env.THREAD_VARIABLES}
    paths = [str(places.root()), os.environ.get("PYTHONPATH", "")]
    return found | {
        "DIPLLM_HOME": str(places.home()),
        task_env.BACKEND: "process",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


@contextlib.contextmanager
def _told(ray: ModuleType, name: str) -> Iterator[None]:
    """Inside the block a task's error is raised as it was, and a loss of workers as one line."""
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if "failed to import on the worker" in str(cause):
            raise Refused(
                "a machine of the cluster cannot import dipllm_lib "
                f"({str(cause).strip().splitlines()[-1]}): give all machines the same repository, "
                "under the same path, and install its requirements there"
            ) from error
        raise cause from error
    except ray.exceptions.GetTimeoutError as error:
        raise Refused(
            f"a machine of the cluster has started no worker within {START} s: it is busy or gone"
        ) from error
    except _deaths(ray) as error:
        raise RuntimeError(
            f"workers died {RETRIES + 1} times during {name}: out of memory, or killed; "
            "free memory or lower the number of workers, and run again"
        ) from error
    except ray.exceptions.RayError as error:
        raise RuntimeError(f"Ray failed during {name}: {line(error)}; run again") from error


def _deaths(ray: ModuleType) -> tuple[type[Exception], ...]:
    known = ray.exceptions
    return known.WorkerCrashedError, known.OutOfMemoryError, known.NodeDiedError
