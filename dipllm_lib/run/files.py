"""Atomic writes: a reader never sees half a file, whatever kills the writer.

A file is written under a temporary name in its own folder, flushed to disk and renamed over the old
one. A folder is written beside its target and swapped in by two renames, since a folder cannot be
renamed over one that is not empty. Temporary names hold the process id of their writer, so
leftovers of dead writers can be told from work in progress.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LEFTOVER = re.compile(r"\..+\.(\d+)\.tmp$")


def _beside(path: Path) -> Path:
    """The temporary name of `path`, hidden and in the same folder."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _sync(path: Path) -> None:
    """Flush the content of `path` to disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def _room(path: Path) -> Iterator[None]:
    """Turns a full disk into one line that names the file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = shutil.disk_usage(path.parent).free // 2**20
        message = (
            f"no space left while writing {path.name}: {free} MB free, make room and run again"
        )
        raise OSError(error.errno, message) from error


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        with _room(path), open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """`text` in utf-8 with the line ends that it has."""
    write_bytes(path, text.encode("utf-8"))


@contextlib.contextmanager
def write_folder(path: Path) -> Iterator[Path]:
    """Yields an empty temporary folder that replaces `path` when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _beside(path), _beside(path.with_name(path.name + ".old"))
    remove(temporary)
    temporary.mkdir()
    try:
        with _room(path):
            yield temporary
            for file in inside(temporary):
                file.chmod(0o644)  # some writers of weights leave 0600 whatever the umask
                _sync(file)
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
    finally:
        remove(temporary)
        remove(old)


def inside(folder: Path) -> list[Path]:
    """All files below `folder`, sorted."""
    return sorted(p for p in folder.rglob("*") if p.is_file())


def remove(path: Path) -> None:
    """Remove a file or a folder if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def alive(process: int) -> bool:
    """Whether a process with this id exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that are dead left below `folder`."""
    for path in sorted(folder.rglob(".*.tmp")):
        match = LEFTOVER.match(path.name)
        if match and path.exists() and not alive(int(match[1])):
            remove(path)


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(value):
    """numpy scalars and arrays as Python numbers and lists, for json."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} {value!r} cannot be written as JSON")


def to_json(value, indent: int | None = None) -> str:
    """`value` as JSON with sorted keys, numpy allowed. Raises ValueError for NaN and infinity."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(
        value,
        sort_keys=True,
        allow_nan=False,
        ensure_ascii=False,
        indent=indent,
        separators=separators,
        default=_plain,
    )


def read_json(path: Path) -> object:
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
