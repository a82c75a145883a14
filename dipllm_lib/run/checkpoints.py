"""Finished tasks of an unfinished notebook.

A task's value is kept as JSON in data/<profile>/partial/NN/<name>.json together with the hash of
the settings, the seed and the hash of the library under which it was computed; one of other origin
is deleted when it is met. The runner removes the folder when the notebook is complete. Values come
back as JSON gives them (tuples as lists), computed or kept alike.
"""

import functools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from dipllm_lib.run import files, parallel, sources

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Checkpoints:
    """The kept tasks below `folder` that were computed under `settings` (hash) and `seed`."""

    def __init__(self, folder: Path, settings: str, seed: int):
        self.folder = folder
        self.origin = {"settings": settings, "seed": seed, "source": sources.package_hash()}

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name):
            raise ValueError(f"the name of a task may hold letters, digits, _ . -, got {name!r}")
        return self.folder / f"{name}.json"

    def _kept(self, name: str) -> bool:
        """Whether `name` is kept; deletes one of other origin or a damaged one."""
        path = self._path(name)
        if not path.exists():
            return False
        try:
            own = files.read_json(path)["origin"] == self.origin
        except (ValueError, KeyError, TypeError):
            own = False
        if not own:
            path.unlink()
        return own

    def training(self, name: str) -> Path:
        """A folder for the checkpoints of a training; emptied first if it has another origin."""
        folder = self._path(name).with_suffix("")
        mark = folder / "origin.json"
        if folder.exists() and not (mark.exists() and files.read_json(mark) == self.origin):
            files.remove(folder)
        files.write_text(mark, files.to_json(self.origin))
        return folder

    def one(self, name: str, compute: Callable[[], object]):
        """The kept value of `name`, else that of `compute()`."""
        if not self._kept(name):
            keep(self._path(name), self.origin, compute())
        return files.read_json(self._path(name))["value"]

    def many(
        self,
        function: Callable,
        tasks: Sequence,
        keys: Sequence[str],
        workers: int,
        task_threads: int,
        text: str = "",
    ) -> list:
        """Values of `function(task)` under `keys`, in order; `parallel.map` computes the others."""
        if len(set(keys)) != len(keys) or len(keys) != len(tasks):
            raise ValueError(f"tasks need one distinct key each: {len(tasks)} tasks, keys {keys}")
        open_tasks = [
            (str(self._path(key)), task)
            for key, task in zip(keys, tasks, strict=True)
            if not self._kept(key)
        ]
        compute = functools.partial(_compute, function, json.dumps(self.origin))
        parallel.map(compute, open_tasks, workers, task_threads, text)
        return [files.read_json(self._path(key))["value"] for key in keys]


def keep(path: Path, origin: dict, value) -> None:
    """Write one value with its origin."""
    files.write_text(path, files.to_json({"origin": origin, "value": value}))


def _compute(function: Callable, origin: str, task: tuple) -> None:
    """Runs where the task runs, so that a task is kept as soon as it is finished."""
    path, argument = task
    keep(Path(path), json.loads(origin), function(argument))
