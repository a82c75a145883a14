"""Recorded games as text for a language model: positions drawn from saved games, as token rows.

A row is one position in codec `compact`: the board once, and behind it one branch per power, its
task line and the orders that it gave, as a model reads and writes them at play:

    1903 fall move                                               board
     Aus A Bud Tri C Gre Ser Vie
     ...
     you Aus / A Bud Ser ; A Tri Alb    you Eng / F Lon Nth      branches

Whole games are set aside, never positions of a game: those are alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dipllm_lib.dip import orders, states, text
from dipllm_lib.dip.boards import Boards
from dipllm_lib.lm import choices, packing

OVER = "COMPLETED"
Place = tuple[int, int]  # number of the game in its list, number of the phase in the game


@dataclass(frozen=True)
class Row:
    """One position as token ids. board (T_b,), branches: one per power with something to decide;
    tasks: tokens of each branch that are its task line; decisions: of each branch (t, legal, rank),
    where its token t is legal[rank] of two or more legal ones.
    """

    game: str
    phase: str
    board: tuple[int, ...]
    branches: tuple[tuple[int, ...], ...]
    tasks: tuple[int, ...]
    decisions: tuple[tuple[tuple[int, tuple[int, ...], int], ...], ...]

    @property
    def length(self) -> int:
        """Columns that the row takes in a batch."""
        return packing.row_length(self.board, self.branches)

    @property
    def order_tokens(self) -> int:
        """Tokens of the orders with their separators."""
        return sum(map(len, self.branches)) - sum(self.tasks)


def split(
    games: Sequence[Mapping], positions: int, heldout: int, rng: np.random.Generator
) -> tuple[list[Place], list[Place]]:
    """Places to train on and held-out ones, sorted, from different games.

    games: saved games (see `saved`). Whole games are set aside until they hold `heldout`
    positions; at most that many of them and at most `positions` of the others are drawn, without
    repetition. Raises ValueError if no game is left to train on.
    """
    places = [
        [(n, k) for k, phase in enumerate(game["phases"]) if phase["name"] != OVER]
        for n, game in enumerate(games)
    ]
    aside: set[int] = set()
    for n in rng.permutation(len(games)).tolist():
        if sum(len(places[m]) for m in aside) >= heldout:
            break
        aside.add(n)
    parts: tuple[list[Place], list[Place]] = [], []
    for n, listed in enumerate(places):
        parts[n in aside].extend(listed)
    if not parts[0]:
        raise ValueError(f"{len(games)} games do not suffice to hold out {heldout} positions")
    return _some(parts[0], positions, rng), _some(parts[1], heldout, rng)


def _some(places: list[Place], most: int, rng: np.random.Generator) -> list[Place]:
    if len(places) <= most:
        return places
    return [places[i] for i in np.sort(rng.choice(len(places), most, replace=False))]


def decided(
    games: Sequence[Mapping], places: Sequence[Place]
) -> list[list[tuple[orders.Turn, orders.Joint]]]:
    """At each place the turns of all powers with the joint orders that the game records.

    Raises ValueError for a position that cannot be, and orders that are missing or not legal.
    """
    phases = [games[n]["phases"][k] for n, k in places]
    if not phases:
        return []
    turns = orders.all_turns(Boards.concat([states.from_state(p["state"]) for p in phases]))
    return [
        [(t, orders.sorted_joint(t, phase["orders"].get(t.name) or [])) for t in listed]
        for phase, listed in zip(phases, turns, strict=True)
    ]


def rows(
    games: Sequence[Mapping], places: Sequence[Place], encode: Callable[[str], list[int]]
) -> list[Row]:
    """The rows of some places of saved games. encode: text to token ids, `Backbone.encode`.

    Raises what `decided` raises.
    """
    result = []
    for (n, k), listed in zip(places, decided(games, places), strict=True):
        phase = games[n]["phases"][k]
        tasks = [tuple(encode(text.task_text(turn.name))) for turn, _ in listed]
        paths = [_path(text.OrderChoice(turn, encode), joint) for turn, joint in listed]
        row = Row(
            game=str(games[n]["id"]),
            phase=phase["name"],
            board=tuple(encode(text.board_text(phase["state"]))),
            branches=tuple(task + path.tokens for task, path in zip(tasks, paths, strict=True)),
            tasks=tuple(map(len, tasks)),
            decisions=tuple(
                tuple((len(task) + t, legal, rank) for t, legal, rank in path.decisions)
                for task, path in zip(tasks, paths, strict=True)
            ),
        )
        result.append(row)
    return result


def _path(choice: text.OrderChoice, joint: orders.Joint) -> choices.Path:
    """The tokens of a joint order with the legal ones beside them."""
    return choices.path(choices.Tries(choice), choice.sequence(joint))
