"""Where a result comes from: commit, versions, machine, threads, time.

The only place with times besides the manifest. No host name, user name or path enters it.
"""

import datetime
import hashlib
import os
import platform
import re
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pandas as pd

from dipllm_lib.run.profiles import Profile

DISTRIBUTION = "dipllm-lib"
RUSAGE = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def commit(root: Path) -> dict:
    """{commit, dirty} of the repository at `root`; null without git or outside a repository."""
    try:
        head = _git(root, "rev-parse", "HEAD")
        dirty = bool(_git(root, "status", "--porcelain"))
    except (FileNotFoundError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
    return {"commit": head, "dirty": dirty}


def _git(root: Path, *words: str) -> str:
    """What a git command prints."""
    command = ["git", "-C", str(root), *words]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return done.stdout.strip()


def requirements() -> list[str]:
    """Names of the direct dependencies and of those of the notebooks, sorted."""
    lines = metadata.requires(DISTRIBUTION) or []
    wanted = [line for line in lines if "extra ==" not in line or "notebooks" in line]
    return sorted({re.match(r"[A-Za-z0-9_.-]+", line)[0] for line in wanted})


def versions() -> dict[str, str | None]:
    """Versions of Python and of each direct dependency, null for what is not installed."""
    found = {"python": platform.python_version()}
    for name in requirements():
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def cpu_model() -> str:
    """The processor's name as its maker prints it."""
    table = Path("/proc/cpuinfo")
    if table.exists():
        match = re.search(r"model name\s*:\s*(.+)", table.read_text(encoding="utf-8"))
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()


def device() -> str:
    """Name of the first CUDA device if torch is loaded and sees one, else `cpu`."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return torch.cuda.get_device_name(0)
    return "cpu"


def lock_hash(root: Path) -> str | None:
    """First 16 hex digits of the sha256 of requirements.lock, null without one."""
    lock = root / "requirements.lock"
    return hashlib.sha256(lock.read_bytes()).hexdigest()[:16] if lock.exists() else None


def machine(profile: Profile, root: Path) -> dict:
    """Processor, cores, threads, platform: with the lock's hash, what equal bits depend on."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": profile.threads,
        "task_threads": profile.task_threads,
        "platform": platform.system() + " " + platform.machine(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "lock": lock_hash(root),
    }


def table(profile: Profile, root: Path) -> pd.DataFrame:
    """Columns item, value: versions of Python and the packages, then the machine; null is empty."""
    rows = {**versions(), **{k: v for k, v in machine(profile, root).items() if k != "python"}}
    texts = ["" if value is None else str(value) for value in rows.values()]
    return pd.DataFrame({"item": list(rows), "value": texts})


def peak_mb(children_only: bool = False) -> int:
    """Largest resident size so far of this process or one of its ended children, in MB."""
    unit = 1 if platform.system() == "Darwin" else 1024
    whom = (resource.RUSAGE_CHILDREN,) if children_only else RUSAGE
    return round(max(resource.getrusage(who).ru_maxrss for who in whom) * unit / 1e6)


def describe(profile: Profile, root: Path, start: float, now: float) -> dict:
    """The content of NN_provenance.json; `start` and `now` in seconds since 1970."""
    return {
        **commit(root),
        "versions": versions(),
        "machine": machine(profile, root),
        "device": device(),
        "profile": profile.name,
        "seed": profile.seed,
        "start": datetime.datetime.fromtimestamp(start, datetime.UTC).isoformat("T", "seconds"),
        "seconds": round(now - start, 1),
        "peak_mb": peak_mb(),
    }
