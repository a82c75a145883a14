"""Named generators, thread counts and deterministic flags.

A generator belongs to a task and is derived from the task's name, never from its place in a queue:
`child(seed, "dip", "selfplay", 7)` is the same stream on one core, in two processes, or after a
resume. The name is hashed with sha256, so streams of different names are independent for all
purposes here.

Sums in floating point depend on the number of threads that share them, hence thread counts are
settings: torch runs a notebook with `profile.threads`, numpy's own BLAS always runs with
`profile.task_threads`.
"""

import contextlib
import ctypes
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dipllm_lib.run.profiles import Profile

VARIABLES = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TOKENIZERS_PARALLELISM": "false"}
OPENBLAS_SYMBOLS = (
    "scipy_openblas_set_num_threads64_",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def _digest(seed: int, names: tuple[str | int, ...]) -> bytes:
    """32 bytes that identify (seed, names).

    Raises TypeError if a name is neither text nor an integer.
    """
    path = []
    for part in (seed, *names):
        if isinstance(part, bool) or not isinstance(part, (str, int, np.integer)):
            raise TypeError(f"a seed or name must be an int or a str, got {part!r} in {names!r}")
        path.append(part if isinstance(part, str) else int(part))
    if isinstance(path[0], str):
        raise TypeError(f"seed must be an int, got {seed!r}")
    return hashlib.sha256(json.dumps(path).encode("utf-8")).digest()


def child(seed: int, *names: str | int) -> np.random.Generator:
    """The generator of the task called `names` under `seed`; 1 and "1" are different names."""
    return np.random.default_rng(int.from_bytes(_digest(seed, names), "little"))


@contextlib.contextmanager
def torch_seed(seed: int, *names: str | int) -> Iterator[int]:
    """Inside the block torch's global generators are seeded for `names`, then as before.

    Yields the 63-bit seed, for objects that want a number of their own.
    """
    import torch

    number = int.from_bytes(_digest(seed, names)[:8], "little") >> 1
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(number)
        yield number


def numpy_threads(count: int) -> bool:
    """Set the threads of the OpenBLAS inside numpy's wheel; False where numpy uses another BLAS.

    The environment variables are read when numpy is imported, which a notebook does before it knows
    its profile; a product of 500 x 1000 by 1000 x 64 has other bits with two threads than with one.
    """
    package = Path(np.__file__).parent
    folders = (package.parent / "numpy.libs", package / ".dylibs")
    for path in sorted(p for folder in folders for p in folder.glob("*openblas*")):
        library = ctypes.CDLL(str(path))
        for symbol in OPENBLAS_SYMBOLS:
            if hasattr(library, symbol):
                getattr(library, symbol)(ctypes.c_int(count))
                return True
    return False


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Inside the block torch computes with `count` threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def deterministic(threads: int) -> None:
    """Torch's thread count and its deterministic kernels, in this process."""
    import torch

    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)


def start(profile: Profile, torch: bool = True) -> None:
    """Fix threads and deterministic flags; call it at the top of a notebook (twice does no harm).

    `torch=False` saves the two seconds of its import in a notebook that uses no network.
    """
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    if profile.offline:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    numpy_threads(profile.task_threads)
    if torch:
        deterministic(profile.threads)
