"""Save and load what notebooks hand to each other.

A `Shelf` belongs to one notebook under one profile, seed and settings. It writes only names that
begin with the notebook's number and reads only those of smaller numbers. Each save is atomic and
enters the manifest; each load checks presence, hash, profile and seed, and otherwise names the
notebook to run.

    jsonl         records           csv + tex     tables       npz       arrays
    safetensors   weights           png + pdf     figures      md        cards
    folder        adapters, models

No pickle anywhere; text is utf-8 with "\\n"; JSON has sorted keys and no NaN. No time, host, user
or path in any of it.
"""

import contextlib
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.run import checkpoints, files, places, provenance, tables
from dipllm_lib.run.manifest import Manifest
from dipllm_lib.run.places import home
from dipllm_lib.run.profiles import Profile, Settings

__all__ = ["Shelf", "home", "versions"]


VOLATILE = ("adapter_config.json",)  # peft lists the targets of an adapter in set order


def versions(profile: Profile) -> pd.DataFrame:
    """Columns item, value: versions and machine, for 00; save it as a volatile table."""
    return provenance.table(profile, places.root())


class Shelf:
    """The files of `notebook` under `profile` and `settings` (the study's dataclass as used)."""

    def __init__(self, notebook: str, profile: Profile, settings: Settings):
        if not places.NOTEBOOK.fullmatch(notebook):
            raise ValueError(f"a notebook is called like 01_data_collection, got {notebook!r}")
        self.notebook, self.profile, self.settings = notebook, profile, settings
        self.number = places.number(notebook)
        self.data, self.figures = places.data(profile.name), places.figures(profile.name)
        self.manifest = Manifest(places.home(), self.data)
        self.card = {"profile": profile.name, "seed": profile.seed, "settings": settings.hash()}
        self.started = time.time()
        self.tasks_done = checkpoints.Checkpoints(
            self.data / "partial" / self.number, settings.hash(), profile.seed
        )

    # names and records

    def _own(self, name: str, ending: str) -> str:
        """`name`, checked: begins with this notebook's number, has `ending` and no folder."""
        if not re.fullmatch(rf"{self.number}_[A-Za-z0-9_]+{re.escape(ending)}", name):
            wanted = f"{self.number}_name{ending}"
            raise ValueError(f"{self.notebook} saves names like {wanted}, got {name!r}")
        return name

    def _record(self, paths: Sequence[Path], volatile: Iterable[Path] = ()) -> None:
        self.manifest.record(list(paths), self.notebook, self.card, set(volatile))

    def _save(self, name: str, data: bytes, volatile: bool = False) -> None:
        """Write one file into the data folder and enter it."""
        path = self.data / name
        files.write_bytes(path, data)
        self._record([path], [path] if volatile else ())

    def _checked(self, name: str) -> Path:
        """The path of a file or folder, after the checks of the module's docstring."""
        if not name[:2].isdigit() or places.number(name) > self.number:
            raise ValueError(f"{self.notebook} reads only smaller numbers than its own, not {name}")
        path = self.data / name
        fault = self.manifest.fault(path, self.profile.name, self.profile.seed)
        if fault:
            raise FileNotFoundError(
                f"{name} {fault}: run {places.producer(name)} with profile "
                f"{self.profile.name} and seed {self.profile.seed}"
            )
        return path

    # tables and records

    def save_table(
        self, table: pd.DataFrame, name: str, digits: int = tables.DIGITS, volatile: bool = False
    ) -> pd.DataFrame:
        """Write `name`.csv (`digits` significant digits) and `name`.tex; returns the table."""
        self._own(name, "")
        paths = [self.data / f"{name}.csv", self.data / f"{name}.tex"]
        files.write_text(paths[0], tables.to_csv(table, digits))
        files.write_text(paths[1], tables.to_tex(table))
        self._record(paths, paths if volatile else ())
        return table

    def load_table(self, name: str) -> pd.DataFrame:
        """The table as its csv holds it."""
        return tables.from_csv(self._checked(f"{name}.csv").read_text(encoding="utf-8"))

    def save_jsonl(self, rows: Iterable, name: str) -> int:
        """One JSON value a line; returns the number of lines. Raises ValueError for NaN."""
        lines = [files.to_json(row) + "\n" for row in rows]
        self._save(self._own(name, ".jsonl"), "".join(lines).encode("utf-8"))
        return len(lines)

    def load_jsonl(self, name: str) -> list:
        """The rows of a jsonl file."""
        with open(self._checked(name), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def save_text(self, text: str, name: str) -> None:
        """A text in Markdown."""
        self._save(self._own(name, ".md"), text.encode("utf-8"))

    # arrays and weights

    def save_bytes(self, data: bytes, name: str) -> Path:
        """A file whose bytes are ready; returns its path."""
        self._save(self._own(name, Path(name).suffix), data)
        return self.data / name

    def path(self, name: str) -> Path:
        """The checked path of a file of this or an earlier notebook."""
        return self._checked(name)

    def save_arrays(self, name: str, **arrays: np.ndarray) -> None:
        """npz, no objects."""
        objects = [key for key, array in arrays.items() if np.asarray(array).dtype.hasobject]
        if objects:
            raise ValueError(f"{name}: arrays of objects cannot be saved: {objects}")
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        self._save(self._own(name, ".npz"), buffer.getvalue())

    def load_arrays(self, name: str) -> dict[str, np.ndarray]:
        """name -> array."""
        with np.load(self._checked(name), allow_pickle=False) as content:
            return dict(content)

    def save_tensors(self, name: str, tensors: dict, card: dict | None = None) -> None:
        """safetensors; `card` (JSON-able) is one key of its header: two have no fixed order."""
        from safetensors.torch import save

        content = {key: tensors[key].detach().cpu().contiguous() for key in sorted(tensors)}
        metadata = None if card is None else {"card": files.to_json(card)}
        self._save(self._own(name, ".safetensors"), save(content, metadata))

    def load_tensors(self, name: str) -> dict:
        """name -> torch tensor on the CPU."""
        from safetensors.torch import load_file

        return load_file(self._checked(name))

    def load_card(self, name: str) -> dict | None:
        """The `card` that was saved with a safetensors file."""
        from safetensors import safe_open

        with safe_open(self._checked(name), framework="numpy") as content:
            metadata = content.metadata() or {}
        return json.loads(metadata["card"]) if "card" in metadata else None

    @contextlib.contextmanager
    def save_folder(self, name: str, volatile: Sequence[str] = VOLATILE) -> Iterator[Path]:
        """Yields an empty folder that becomes `name`; `volatile` files are never compared."""
        path = self.data / self._own(name, "")
        with files.write_folder(path) as folder:
            yield folder
        self.manifest.forget([*self.manifest.below(path, self.manifest.read())], self.notebook)
        saved = files.inside(path)
        self._record(saved, [p for p in saved if p.name in volatile])

    def folder(self, name: str) -> Path:
        """The checked path of a saved folder."""
        return self._checked(name)

    # figures

    def save_figure(self, figure, name: str, volatile: bool = False):
        """Write `name`.png (200 dpi) and `name`.pdf, close the figure, return a display.

        volatile: it shows times, so it differs from run to run.
        """
        from dipllm_lib.run import plotting

        self._own(name, "")
        png, pdf = plotting.render(figure)
        paths = [self.figures / f"{name}.png", self.figures / f"{name}.pdf"]
        for path, data in zip(paths, (png, pdf), strict=True):
            files.write_bytes(path, data)
        self._record(paths, paths if volatile else ())
        return plotting.show(png)

    # tasks and provenance

    def task(self, name: str, compute: Callable[[], object]):
        """The JSON-able value of `compute()`, kept until the notebook is complete."""
        return self.tasks_done.one(name, compute)

    def tasks(
        self,
        function: Callable,
        tasks: Sequence,
        keys: Sequence[str],
        text: str = "",
        workers: int | None = None,
    ) -> list:
        """`parallel.map` with the profile's workers and threads, each result kept by its key.

        workers: at most so many, for tasks that need much memory.
        """
        most, threads = self.profile.workers, self.profile.task_threads
        workers = most if workers is None else min(workers, most)
        return self.tasks_done.many(function, tasks, keys, workers, threads, text)

    def training(self, name: str) -> Path:
        """A folder that a training may keep checkpoints in until the notebook is complete."""
        return self.tasks_done.training(name)

    def provenance(self) -> dict:
        """Write NN_provenance.json (commit, versions, machine, time); call it last.

        Returns its content.
        """
        content = provenance.describe(self.profile, places.root(), self.started, time.time())
        text = files.to_json(content, indent=1) + "\n"
        self._save(f"{self.number}_provenance.json", text.encode("utf-8"), volatile=True)
        return content
