"""MANIFEST.json: what lies in a profile's folders, who made it, and from what.

    files       path -> bytes, sha256, notebook, profile, seed, settings (hash), volatile;
                written at each save
    notebooks   name -> state, source, settings, inputs, seed, seconds, peak_mb;
                written by the runner after its checks
    run         source, settings, versions, CPU model, cores, threads, seconds of the last whole run

Paths are relative to the home folder. A volatile file may differ between equal runs (times, set
order) and is never compared. Any save voids the `notebooks` entry of its notebook and with it
`run`: only the runner, which has seen the whole notebook run, can say that it is complete.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from dipllm_lib.run import files
from dipllm_lib.run.places import Refused

EMPTY = {"files": {}, "notebooks": {}, "run": {}}


class Manifest:
    """The manifest of one folder of data; every change is read, made and written under a lock."""

    def __init__(self, home: Path, folder: Path):
        self.home, self.folder = home, folder
        self.path = folder / "MANIFEST.json"

    def read(self) -> dict:
        """The three parts, empty ones if there is no manifest yet. Raises Refused if damaged."""
        if not self.path.exists():
            return {part: dict(content) for part, content in EMPTY.items()}
        try:
            content = files.read_json(self.path)
        except ValueError as error:
            message = f"{self.key(self.path)} is damaged: remove it and run reproduce again"
            raise Refused(message) from error
        return content

    @contextlib.contextmanager
    def change(self) -> Iterator[dict]:
        """Yields the content and writes it back, unless the block raises."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".manifest.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = self.read()
            yield content
            files.write_text(self.path, files.to_json(content, indent=1) + "\n")

    def key(self, path: Path) -> str:
        """`path` relative to the home folder, with slashes."""
        return path.relative_to(self.home).as_posix()

    def record(self, paths: list[Path], notebook: str, card: dict, volatile: set[Path]) -> None:
        """Enter saved files; `card` holds profile, seed and settings."""
        with self.change() as content:
            for path in paths:
                content["files"][self.key(path)] = {
                    "bytes": path.stat().st_size,
                    "sha256": files.sha256(path),
                    "notebook": notebook,
                    "volatile": path in volatile,
                    **card,
                }
            _void(content, notebook)

    def forget(self, keys: list[str], notebook: str) -> None:
        """Drop entries of files and of their notebook."""
        with self.change() as content:
            for key in keys:
                content["files"].pop(key, None)
            _void(content, notebook)

    def enter(self, notebook: str, entry: dict) -> None:
        """The runner's entry of one notebook."""
        with self.change() as content:
            content["notebooks"][notebook] = entry

    def below(self, path: Path, content: dict) -> dict[str, dict]:
        """Entries of `path` itself or, for a folder, of the files in it."""
        key = self.key(path)
        return {
            name: entry
            for name, entry in sorted(content["files"].items())
            if name == key or name.startswith(key + "/")
        }

    def fault(self, path: Path, profile: str, seed: int) -> str | None:
        """What is wrong with a file or folder that should be there, or None.

        Volatile files are checked like others: a reader gets what was written or an error.
        """
        entries = self.below(path, self.read())
        if not path.exists():
            return "is missing"
        if not entries:
            return "is not in the manifest"
        for name, entry in entries.items():
            own = (entry["profile"], entry["seed"])
            if own != (profile, seed):
                return f"is of profile {own[0]} and seed {own[1]}"
            file = self.home / name
            if not file.is_file() or files.sha256(file) != entry["sha256"]:
                where = f" ({file.name})" if path.is_dir() else ""
                return f"has been changed since it was saved{where}"
        if path.is_dir():
            extra = {self.key(p) for p in files.inside(path)} - set(entries)
            if extra:
                return f"holds files that were not saved with it ({min(extra)})"
        return None


def _void(content: dict, notebook: str) -> None:
    """Drop a complete entry and with it the whole run; running or failed stays true."""
    if content["notebooks"].get(notebook, {}).get("state") == "complete":
        del content["notebooks"][notebook]
        content["run"] = {}
