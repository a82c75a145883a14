"""Where things lie. Every path comes from the package's own file, never from the current folder.

root    the repository: notebooks, requirements.lock, data/inputs, data/reference
home    the outputs, data/<profile> and figures/<profile>; the root unless DIPLLM_HOME is set
"""

import os
import re
from pathlib import Path

import dipllm_lib


class Refused(RuntimeError):
    """A request that cannot be met; its text is one line for the person who made it."""


NOTEBOOK = re.compile(r"\d\d[a-z]?_[a-z0-9_]+")


def number(name: str) -> str:
    """The number in front of a name: `10` of 10_arms, `10b` of 10b_lola, which comes before 11."""
    return name.partition("_")[0]


def root() -> Path:
    """The repository.

    Raises Refused for an installed copy, which has no notebooks beside it.
    """
    folder = Path(dipllm_lib.__file__).resolve().parents[1]
    if not (folder / "pyproject.toml").is_file():
        raise Refused(
            "dipllm_lib is installed as a copy, without its notebooks and data: "
            "run `python -m pip install -e .` in the repository"
        )
    return folder


def home() -> Path:
    """The folder that holds the outputs; DIPLLM_HOME moves it."""
    repository = root()
    moved = os.environ.get("DIPLLM_HOME")
    return Path(moved).resolve() if moved else repository


def data(profile: str) -> Path:
    """The folder of files and tables of a profile."""
    return home() / "data" / profile


def figures(profile: str) -> Path:
    """The folder of figures of a profile."""
    return home() / "figures" / profile


def cache() -> Path:
    """The folder of things that are made once from an installed package; `clean` leaves it."""
    return home() / "data" / "cache"


def reference() -> Path:
    """The tables of the reference run, part of the repository."""
    return root() / "data" / "reference"


def producer(name: str) -> str:
    """The notebook that writes the file `name`, as a path for messages, found by its number."""
    found = sorted((root() / "notebooks").glob(f"{number(name)}_*.ipynb"))
    return f"notebooks/{found[0].stem}" if found else f"the notebook {number(name)}"
