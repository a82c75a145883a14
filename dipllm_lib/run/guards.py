"""What is checked before a run: the lock, the disk, the kernel; and how signals end one.

One run at a time writes into a profile's folder. The lock is a file that appears with its content
(the process id) in one step; that of a process that is gone is taken over.
"""

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from dipllm_lib.run import files
from dipllm_lib.run.places import Refused

# MB that must be free: outputs, executed copies, one set of temporary files. smoke: measured 10;
# cpu: measured 160, the model twice while it is written (2 x 269), partial results; paper: two
# checkpoints of Llama-3-8B (16,000 each).
NEED_MB = {"smoke": 100, "cpu": 1500, "paper": 50_000}
KERNEL = "python3"
# names that jupyter replaces by the interpreter of the runner
OWN_INTERPRETER = (
    "python",
    f"python{sys.version_info[0]}",
    "python{}.{}".format(*sys.version_info),
)


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM."""


@contextlib.contextmanager
def lock(folder: Path, what: str) -> Iterator[None]:
    """Holds `folder`/.lock. Raises Refused while another living process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    path, own = folder / ".lock", folder / f".lock.{os.getpid()}.tmp"
    own.write_text(str(os.getpid()), encoding="utf-8")
    try:
        _take(path, own, what)
    finally:
        own.unlink(missing_ok=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _take(path: Path, own: Path, what: str) -> None:
    """Link `own` to `path`, which fails if `path` is there; remove the lock of a dead process."""
    holder = holding(path)
    if holder is None:
        path.unlink(missing_ok=True)
    try:
        os.link(own, path)
    except FileExistsError as error:
        raise Refused(
            f"{what} is being written by process {holding(path)}: wait for it, or stop it"
        ) from error


def holding(path: Path) -> int | None:
    """The living process that holds the lock, or None."""
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8")
    return int(text) if text.isdigit() and files.alive(int(text)) else None


def disk(folder: Path, need_mb: int) -> None:
    """Raises Refused with less than `need_mb` MB free where `folder` lies."""
    free = shutil.disk_usage(folder).free // 10**6
    if free < need_mb:
        raise Refused(
            f"not enough disk: {need_mb} MB needed, {free} MB free; make room, "
            "or set DIPLLM_HOME to a folder on another disk"
        )


def kernel() -> None:
    """Raises Refused if the kernel `python3` is missing or starts another Python than this one."""
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    remedy = f"run `{Path(sys.executable).name} -m ipykernel install --sys-prefix`"
    try:
        command = KernelSpecManager().get_kernel_spec(KERNEL).argv[0]
    except NoSuchKernel as error:
        raise Refused(f"there is no kernel {KERNEL}: {remedy}") from error
    here = Path(sys.executable)
    if command not in OWN_INTERPRETER and Path(command).parent != here.parent:
        raise Refused(f"the kernel {KERNEL} starts {command}, not {here}: {remedy}")


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Inside the block SIGTERM ends the run like Ctrl-C, so that kernels are shut down."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers belong to the main thread; elsewhere the caller handles signals
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame) -> None:
    raise Stopped(signal.Signals(number).name)
