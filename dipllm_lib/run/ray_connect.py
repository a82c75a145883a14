"""The connection to Ray: to one that runs, or to one that is started here and ends with us.

Ray is imported here only, late and silent: no dashboard, no usage report, no log lines of workers.
One that is started here listens on this machine alone and asks its clients for a secret, which the
kernels inherit. Of one that runs already its owner decides.
"""

import importlib.util
import logging
import os
import re
import secrets
import socket
import sys
from types import ModuleType

from dipllm_lib.run.places import Refused

RETRIES = 3  # times that a task is computed again after its worker died
ANSWER = 5  # seconds until an address counts as dead
INSTALL = "Ray is not installed: run `python -m pip install -e '.[ray]'` in the repository"
# a Ray of our own: on the loopback device, for those who know the secret
LOCAL = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_AUTH_MODE": "token"}
# a task that takes too much memory is not tried for ever
EVERYWHERE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(RETRIES)}


def installed() -> bool:
    """Whether Ray is there, without its import."""
    return importlib.util.find_spec("ray") is not None


def address(text: str) -> str:
    """`text` if it is HOST:PORT. Raises Refused otherwise."""
    host, _, port = text.rpartition(":")
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", host) or not re.fullmatch(r"[1-9]\d{0,4}", port):
        raise Refused(f"an address of Ray is HOST:PORT, like 10.0.0.1:6379, got {text!r}")
    return text


def _import(local: bool) -> ModuleType:
    """The package, told by its variables to stay quiet. Raises Refused where it is missing."""
    if "ray" not in sys.modules:  # it reads its variables once
        os.environ.update(EVERYWHERE | (LOCAL if local else {}))
        if local:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ModuleNotFoundError as error:
        raise Refused(INSTALL) from error
    return ray


def connect(where: str | None, cpus: int, folder: str | None = None) -> ModuleType:
    """The package `ray`, connected: to the Ray at `where`, else to one of `cpus` CPUs started here
    with its files in `folder`. Keeps a connection that is there. Raises Refused.
    """
    ray = _import(local=where is None)
    if ray.is_initialized():
        return ray
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if where is not None:
        _reachable(address(where))
    with Refusals(where or "a Ray of its own", ray.exceptions.RayError):
        if where is not None:
            ray.init(address=where, **quiet)
        else:
            options = {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": folder}
            ray.init(address="local", **options, **quiet)
    return ray


def _reachable(where: str) -> None:
    """Raises Refused where nobody listens; Ray itself would try for a minute."""
    host, _, port = where.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except OSError as error:
        raise Refused(
            f"nothing answers at {where} ({error.strerror or error}): start Ray there with "
            f"`ray start --head --port {port}`, or mend the address"
        ) from error


class Refusals:
    """Inside the block what Ray says about a failed start becomes Refused, one line."""

    def __init__(self, where: str, other: type[Exception]):
        self.where, self.known = where, (OSError, RuntimeError, ValueError, other)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, trace) -> None:
        if kind is Exception:  # so bare is what Ray raises for a part of it that comes up late
            raise Refused(
                f"{self.where} did not start in time, is the machine busy? Run again: {line(error)}"
            ) from error
        if isinstance(error, self.known):
            raise Refused(f"cannot connect to {self.where}: {line(error)}") from error


def line(error: BaseException) -> str:
    """The message and its cause as one line."""
    texts = [str(e) for e in (error, error.__cause__) if e is not None]
    return "; ".join(" ".join(text.split()) for text in texts if text)[:500]
