"""What workers of every backend share: variables of the environment and the name of a task."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator

BACKEND = "DIPLLM_BACKEND"
BACKENDS = ("process", "ray")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def name(function: Callable) -> str:
    """`module.function`, for messages."""
    while isinstance(function, functools.partial):
        function = function.func
    return f"{function.__module__}.{function.__qualname__}"


@contextlib.contextmanager
def variables(wanted: dict[str, str | None]) -> Iterator[None]:
    """Inside the block os.environ is changed as `wanted` (None removes), then as before."""
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(wanted: dict[str, str | None]) -> None:
    for name, value in wanted.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
