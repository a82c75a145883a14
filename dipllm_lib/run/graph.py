"""What a notebook reads and writes, and how its tables are compared: the types of `pipeline.GRAPH`.

Names carry the number of the notebook that writes them. A name with an ending is a file
(`02_samples.jsonl`), one without is a folder (`03_adapter`) among `files`, a table (csv and tex)
among `tables`, a figure (png and pdf) among `figures`. Every notebook also writes
NN_provenance.json, which is not listed. A name that begins with `inputs/` is read from data/inputs,
which belongs to the repository.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dipllm_lib.run import places
from dipllm_lib.run.manifest import Manifest
from dipllm_lib.run.profiles import NAMES, Profile
from dipllm_lib.run.sources import PACKAGE


@dataclass(frozen=True)
class Rule:
    """How a table is compared with the reference run.

    exact: equal texts and numbers. close: |own - reference| <= atol + rtol * |reference|, `columns`
    overrides the pair per column. statistical: the reference's mean lies inside the own interval
    widened by `factor`; texts, integers and seeds are equal. timing: shown, never fails.
    """

    kind: str
    rtol: float = 0.0
    atol: float = 0.0
    columns: dict[str, tuple[float, float]] = field(default_factory=dict)
    factor: float = 1.0


EXACT = Rule("exact")
# exact in the algebra, so only rounding may differ
ROUNDING = Rule("close", rtol=1e-6, atol=1e-10)
CLOSE = Rule("close", rtol=1e-4, atol=1e-6)
# a training history: small differences of the first steps grow
TRAINING = Rule("close", rtol=0.05, atol=0.02)
STATISTICAL = Rule("statistical", factor=2.0)
TIMING = Rule("timing")
INPUTS = "inputs/"


@dataclass(frozen=True)
class Notebook:
    """One notebook of the chain. minutes: for smoke, cpu, paper. study: whose settings it uses."""

    name: str
    minutes: tuple[float, float, float]
    reads: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    tables: dict[str, Rule] = field(default_factory=dict)
    figures: tuple[str, ...] = ()
    study: str = "dip"

    @property
    def number(self) -> str:
        """The two digits in front of its name, and a letter where a part stands beside another."""
        return places.number(self.name)

    @property
    def writes(self) -> tuple[str, ...]:
        """All declared names, a table and a figure of one name once."""
        return tuple(dict.fromkeys((*self.files, *self.tables, *self.figures)))

    def outputs(self, data: Path, figures: Path) -> list[Path]:
        """The paths that must exist when it is complete."""
        names = [*self.files, f"{self.number}_provenance.json"]
        names += [f"{table}.{ending}" for table in self.tables for ending in ("csv", "tex")]
        drawn = [figures / f"{name}.{ending}" for name in self.figures for ending in ("png", "pdf")]
        return [data / name for name in names] + drawn


@dataclass(frozen=True)
class Run:
    """A chain of notebooks under one profile and seed: everything that the runner's steps need."""

    profile: Profile
    graph: tuple[Notebook, ...]
    folder: Path
    package: Path = PACKAGE

    @cached_property
    def data(self) -> Path:
        """Folder of files and tables."""
        return places.data(self.profile.name)

    @cached_property
    def figures(self) -> Path:
        """Folder of figures."""
        return places.figures(self.profile.name)

    @cached_property
    def manifest(self) -> Manifest:
        """The profile's manifest."""
        return Manifest(places.home(), self.data)

    def source(self, notebook: Notebook) -> Path:
        """The file of a notebook."""
        return self.folder / f"{notebook.name}.ipynb"

    def minutes(self, notebook: Notebook) -> float:
        """Expected minutes under this profile."""
        return notebook.minutes[NAMES.index(self.profile.name)]

    def input(self, name: str) -> Path:
        """The path behind a name that a notebook reads."""
        if shipped(name):
            return places.root() / "data" / name
        writer = producer(self.graph, name)
        return self.data / (f"{name}.csv" if name in writer.tables else name)


def shipped(name: str) -> bool:
    """Whether a name that is read belongs to the repository, not to a run."""
    return name.startswith(INPUTS)


def producer(graph: tuple[Notebook, ...], name: str) -> Notebook:
    """The notebook that writes the file, folder or table `name`. Raises ValueError without one."""
    for notebook in graph:
        if name in notebook.files or name in notebook.tables:
            return notebook
    raise ValueError(f"the graph has no notebook that writes {name}")


def check(graph: tuple[Notebook, ...]) -> None:
    """Raises ValueError for a graph that breaks the house rules: order, numbers, who reads what."""
    numbers = [notebook.number for notebook in graph]
    if numbers != sorted(set(numbers)):
        raise ValueError(f"notebooks must have rising, distinct numbers, got {numbers}")
    for notebook in graph:
        foreign = [name for name in notebook.writes if places.number(name) != notebook.number]
        if foreign:
            raise ValueError(f"{notebook.name} writes names of another number: {foreign}")
        for name in notebook.reads:
            if not shipped(name) and producer(graph, name).number >= notebook.number:
                raise ValueError(f"{notebook.name} reads {name}, which is written later")
