"""The decisions of an adjudication, and the arrays in which compiled code makes them.

A decision is UNKNOWN while the adjudicator works (afterwards 0 means: does not apply), YES, NO, or
VOID for a support that matches no order. Every array is per province (axis of 75).
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip.atlas import N_PROVINCES

UNKNOWN, YES, NO, VOID = 0, 1, 2, 3  # VOID: a support that matches no order
NO_ROUTE, LAND, BY_CONVOY, OPEN = 0, 1, 2, 3  # OPEN: by convoy, by land if the convoy fails


class Flags(NamedTuple):
    """`rules.Choices` as booleans for compiled code."""

    via_fails: bool
    disrupted_fails: bool
    via_only: bool
    ignore_coast: bool


class Row(NamedTuple):
    """One position with one row of orders: views of int8 (75,)."""

    unit: np.ndarray
    power: np.ndarray
    loc: np.ndarray
    kind: np.ndarray
    a: np.ndarray
    b: np.ndarray
    via: np.ndarray


class Work(NamedTuple):
    """Lists of the row at work, int8 (75,) unless said: allocated once per batch."""

    units: np.ndarray  # occupied provinces
    to: np.ndarray  # destination province of a move, -1
    target: np.ndarray  # province a support acts on, -1
    attacker: np.ndarray  # first attacker of a province, -1
    next_attacker: np.ndarray
    supporter: np.ndarray  # first supporter of the unit in a province, -1
    next_supporter: np.ndarray
    carriers: np.ndarray  # int64: seas whose fleets convoy the army of a province as it moves


class Made(NamedTuple):
    """The decisions of the row at work, int8 (75,)."""

    move: np.ndarray
    support: np.ndarray
    dislodge: np.ndarray
    path: np.ndarray
    route: np.ndarray


class Decisions(NamedTuple):
    """What became of N rows of orders. int8 (N, 75), entries of provinces without a matching order
    are 0.
    """

    moved: np.ndarray  # YES or NO for a move or a retreat
    support_ok: np.ndarray  # YES, NO (cut) or VOID for a support
    dislodged: np.ndarray  # YES or NO for every unit of a movement phase
    path: np.ndarray  # YES or NO for a move: whether a convoy (or the land way) was open
    route: np.ndarray  # NO_ROUTE, LAND or BY_CONVOY for a move
    counts: np.ndarray  # int32 (N, 4): cycles, moves failed as a paradox, anomalies, sweeps


def blank(n: int) -> Decisions:
    """Decisions of n rows, nothing decided."""
    return Decisions(*np.zeros((5, n, N_PROVINCES), np.int8), np.zeros((n, 4), np.int32))


def workspace() -> Work:
    """Room for the lists of one row."""
    return Work(*np.zeros((7, N_PROVINCES), np.int8), np.zeros(N_PROVINCES, np.int64))
