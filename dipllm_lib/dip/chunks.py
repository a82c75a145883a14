"""Games in chunks that are kept, so that a notebook goes on where it was stopped.

A plan (`arena.Pairing`, `population.Population`) names its games by number, and a game is the same
whichever games are played beside it. So the size of a chunk changes how often something is kept
and how many turns a policy answers in one call, never a game. A chunk of 1 keeps game by game; for
a language model a chunk should fill a batch.

    games   saved games are kept: those of the language models, which the case study reads
    rows    only rows are kept: cheap players, many pairings (a saved game has about 60 kB, a row
            0.3 kB)

Both play on the workers of the profile, so the agents must be such that they can be sent to a
process; a language model goes as a `lm_play.Stored`.
"""

import re
from collections.abc import Sequence
from typing import Protocol

import pandas as pd

from dipllm_lib.dip.game import Game
from dipllm_lib.run.store import Shelf


class Plan(Protocol):
    """Games 0 ... games - 1, each the same wherever it is played."""

    @property
    def name(self) -> str:
        """For messages and names of tasks."""

    @property
    def games(self) -> int:
        """How many."""

    def play(self, numbers: Sequence[int]) -> list[Game]:
        """These games, in lockstep."""

    def table(self, played: Sequence[Game], numbers: Sequence[int]) -> pd.DataFrame:
        """Their rows."""


def ranges(games: int, size: int) -> list[range]:
    """The chunks of `games` games, `size` each, the last one with what is left; ValueError for a
    size below 1.
    """
    if size < 1:
        raise ValueError(f"a chunk of {size} games: need at least 1")
    return [range(first, min(first + size, games)) for first in range(0, games, size)]


def key(plan: Plan, part: range, prefix: str = "") -> str:
    """Name of the task that plays a chunk."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{prefix}{plan.name}")
    return f"{name}.{part.start}-{part.stop - 1}"


def games(
    shelf: Shelf, plans: Sequence[Plan], size: int, prefix: str = "", workers: int | None = None
) -> list[list[Game]]:
    """All games of each plan; a chunk is a task.

    prefix: tells plans of one notebook apart whose agents have the same names. workers: at most so
    many processes.
    """
    parts, keys = _parts(plans, size, prefix)
    found = iter(shelf.tasks(chunk_games, parts, keys, "games", workers))
    return [
        [Game.from_saved(one) for _ in ranges(plan.games, size) for one in next(found)]
        for plan in plans
    ]


def chunk_games(task: tuple[Plan, range]) -> list[dict]:
    """Task: (plan, numbers) -> these games as saved."""
    plan, numbers = task
    return [played.to_saved() for played in plan.play(numbers)]


def _parts(
    plans: Sequence[Plan], size: int, prefix: str
) -> tuple[list[tuple[Plan, range]], list[str]]:
    """Every chunk of every plan, and the names of their tasks."""
    parts = [(plan, part) for plan in plans for part in ranges(plan.games, size)]
    return parts, [key(plan, part, prefix) for plan, part in parts]


def rows(
    shelf: Shelf, plans: Sequence[Plan], size: int, prefix: str = "", text: str = "games"
) -> pd.DataFrame:
    """The rows of all games of all plans, one plan after the other; a chunk is a task."""
    parts, keys = _parts(plans, size, prefix)
    found = shelf.tasks(chunk_rows, parts, keys, text)
    tables = [pd.DataFrame(part["data"], columns=part["columns"]) for part in found]
    return pd.concat(tables, ignore_index=True)


def chunk_rows(task: tuple[Plan, range]) -> dict[str, list]:
    """Task: (plan, numbers) -> the rows of these games: columns and data, JSON-able."""
    plan, numbers = task
    return plan.table(plan.play(numbers), numbers).to_dict("split", index=False)
