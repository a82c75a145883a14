"""A game as the tabular league sees it: players are tables, payoffs and best replies are exact.

A player is a tuple of probability tables (rows, actions), one per role, and can sit in both seats:

    ultimatum    offers (1, 11), answers (11, 2) accept first          `arena_ultimatum`
    repeated     actions (5, 2) after s0, CC, CD, DC, DD               `arena_repeated`
    bargaining   shares to keep (T, A), answers (T A, 2)               `arena_bargaining`

What the league needs of a game, all of it exact but `data` and `play`:

    payoffs   what a player gets from another in seat 0 and in seat 1
    best      the same of the exact best reply
    data      labelled decisions against partners of given shares, as `tabular.Data`, per table
    blind     labels of the heuristic selector alone, for an arm that never plays
    swapped   the role-swapped member: each table acts in the role of the other

Payoffs are general-sum and in units of the game; `scale` is its unit of prospect value.
Shapes: P players, K partners, n episodes.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dipllm_lib.kto.tabular import Data

Player = tuple[np.ndarray, ...]


class Arena(Protocol):
    """name, scale: of the game · shapes: of a player's tables · widths: factor of the step size of
    each table, the number of its rows where all rows are equally frequent."""

    name: str
    scale: float

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]: ...

    @property
    def widths(self) -> tuple[float, ...]: ...

    def payoffs(self, one: Player, two: Player) -> np.ndarray:
        """(2,) expected payoff of `one` in seat 0 and in seat 1, `two` in the other."""

    def best(self, other: Player) -> np.ndarray:
        """(2,) the most that anyone gets from `other` in seat 0 and in seat 1."""

    def data(
        self,
        player: Player,
        partners: Sequence[Player],
        shares: np.ndarray,
        episodes: int,
        rng: np.random.Generator | None,
    ) -> tuple[Data, ...]:
        """Decisions with their V, per table. shares: (K,) of the partners, sum 1 · episodes: number
        of decisions drawn per table, 0 for every decision with its probability."""

    def blind(self, player: Player) -> tuple[Data, ...]:
        """Every decision with the label of the heuristic selector, unit weights."""

    def swapped(self, player: Player) -> Player:
        """The same tables in each other's roles."""

    def play(
        self, players: Sequence[Player], episodes: int, rng: np.random.Generator
    ) -> np.ndarray:
        """(P, P, n, 2) payoffs in n episodes of player i in seat 0 and j in seat 1, in this order.
        All pairs meet the same random numbers."""


def base(arena: Arena) -> Player:
    """The untrained player: uniform everywhere."""
    return tuple(np.full(shape, 1.0 / shape[1]) for shape in arena.shapes)


def check(arena: Arena, player: Player) -> Player:
    """The player with float64 tables; ValueError unless they fit the game and rows add up to 1."""
    tables = tuple(np.asarray(table, dtype=np.float64) for table in player)
    shapes = tuple(table.shape for table in tables)
    if shapes != arena.shapes:
        raise ValueError(f"{arena.name}: tables of shapes {shapes}, need {arena.shapes}")
    for table in tables:
        if not ((table >= 0).all() and np.allclose(table.sum(axis=1), 1.0, atol=1e-9)):
            raise ValueError(f"{arena.name}: each row of a table must be a distribution")
    return tables


def regret(arena: Arena, one: Player, other: Player) -> float:
    """Gap of `one` to the exact best reply to `other`, mean over both seats, in payoff; >= 0."""
    gap = arena.best(other) - arena.payoffs(one, other)
    return float(max(gap.mean(), 0.0))


def point(index: int, count: int) -> np.ndarray:
    """(count,) all probability on one action."""
    return np.eye(count)[index]


def answers(accept: np.ndarray) -> np.ndarray:
    """(n, 2) of accept and refuse, from P(accept) of any shape with n entries."""
    flat = np.asarray(accept, dtype=np.float64).ravel()
    return np.stack([flat, 1.0 - flat], axis=1)


def labelled(probs: np.ndarray, good: np.ndarray) -> Data:
    """Every decision of a table, rows equally frequent, with a label and weight 1.

    probs: (R, A) of the policy now · good: bool (R, A).
    """
    rows, actions = np.divmod(np.arange(probs.size), probs.shape[1])
    values = np.where(good, 1.0, -1.0).ravel()
    return Data(rows, actions, probs.ravel() / len(probs), values, unit=True)


def rising(accept: np.ndarray) -> np.ndarray:
    """(…, A) distribution whose cumulative sum is P(accept) as far as that rises: what a responder
    would offer if it offered what it takes. Uniform where nothing rises."""
    steps = np.maximum(np.diff(accept, axis=-1, prepend=0.0), 0.0)
    total = steps.sum(axis=-1, keepdims=True)
    flat = np.full_like(steps, 1.0 / steps.shape[-1])
    return np.where(total > 0, steps / np.where(total > 0, total, 1.0), flat)


def picks(table: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """(P, n) actions by inversion. table: (P, A) distributions · draws: (n,) uniform numbers."""
    edges = np.cumsum(table, axis=-1)[:, :-1]
    return (draws[None, :, None] >= edges[:, None, :]).sum(axis=2)
