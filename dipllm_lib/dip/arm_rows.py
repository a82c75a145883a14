"""The rows an arm is trained on: a share of the games, another target, only orders on a list.

A row is one power-turn of 02_samples.jsonl: joints (K texts each), target pi*, f with pi* = softmax
f, log_tau. Held-out rows keep their target. Where an arm's model may only say the orders of a
candidate list, both it and pi* are renormalised over the joint orders on the list, and the mass of
pi* that was on it is told.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dipllm_lib.dip import decompose, samples, text
from dipllm_lib.dip.arm_list import Arm
from dipllm_lib.dip.hedge import softmax
from dipllm_lib.dip.narrowing import Narrowed, Narrowing
from dipllm_lib.dip.orders import Turn
from dipllm_lib.run import seeding


def shared(rows: Sequence[dict], share: float, seed: int) -> list[dict]:
    """The rows of a share of the games, at least one unless it is 0; a larger share holds every
    smaller one.
    """
    names = sorted({row["game"] for row in rows})
    order = seeding.child(seed, "arms", "games").permutation(names).tolist()
    some = set(order[: max(round(share * len(names)), share > 0)])
    return [row for row in rows if row["game"] in some]


def enough(rows: Sequence[dict], positions: int, seed: int) -> list[dict]:
    """The rows of at most so many whole positions, drawn by the seed, in their old order: a
    training of fewer positions than there are need not build the others.
    """
    places = sorted({(row["game"], row["phase"]) for row in rows})
    order = seeding.child(seed, "arms", "positions").permutation(len(places))[:positions]
    some = {places[i] for i in order.tolist()}
    return [row for row in rows if (row["game"], row["phase"]) in some]


def aimed(rows: Sequence[dict], arm: Arm, searches: Sequence[dict] = ()) -> list[dict]:
    """The rows with the target of an arm. searches: rows of 01_search.jsonl, for another lambda;
    ValueError where one is missing.
    """
    if arm.lam is not None:
        found = {(row["game"], row["phase"]): row["powers"] for row in searches}
        return [_at_lambda(row, found, arm.lam) for row in rows]
    if arm.target == "bound_max":
        return [_with_target(row, decompose.bound_max(_joints(row), _f(row))) for row in rows]
    return list(rows)


def _joints(row: dict) -> list[tuple]:
    return [tuple(joint) for joint in row["joints"]]


def _f(row: dict) -> np.ndarray:
    return samples.log_of(np.asarray(row["target"], np.float64))


def _with_target(row: dict, target: np.ndarray) -> dict:
    """The row with another target, normalised, and its exponents (-1e30 stands for -inf)."""
    target = target / target.sum()
    f = samples.log_of(target).clip(-1e30)
    return row | {"target": softmax(f).tolist(), "f": f.tolist()}


def _at_lambda(row: dict, found: Mapping, lam: float) -> dict:
    """f = (Q + lam log tau) / (lam + kappa) with the values of the recorded search."""
    where = f"{row['game']} {row['phase']} {row['power']}"
    search = found.get((row["game"], row["phase"]), {}).get(row["power"])
    if search is None or _joints(row) != [tuple(joint) for joint in search["candidates"]]:
        raise ValueError(f"{where}: 01_search.jsonl has no such search: run notebook 01 and 02")
    q, log_tau = (np.asarray(search[name], np.float64) for name in ("q", "log_tau"))
    f = (q + lam * log_tau) / (lam + search["kappa"])
    return _with_target(row, softmax(f))


Narrow = Callable[[Turn], Turn | Narrowed]


def remembered(narrow: Narrowing) -> Narrow:
    """What each turn offers, worked out once: asking an anchor is slow."""
    known: dict[tuple, Turn | Narrowed] = {}

    def of(turn: Turn) -> Turn | Narrowed:
        key = (turn.power, *(field.tobytes() for field in turn.boards))
        if key not in known:
            (known[key],) = narrow.turns([turn], None)
        return known[key]

    return (lambda turn: turn) if narrow.mode == "legal" else of


def offered(rows: Sequence[dict], narrow: Narrow) -> tuple[list[dict], np.ndarray]:
    """(rows with the joint orders that are on offer, the mass of pi* on them for every row). Rows
    of which none is are left out, with mass 0.
    """
    kept, mass = [], np.ones(len(rows))
    for i, row in enumerate(rows):
        turn = samples.row_turn(row)
        narrowed = narrow(turn)
        if narrowed is turn:
            kept.append(row)
            continue
        inside = np.array([narrowed.offers(joint) for joint in samples.row_joints(row)])
        target = np.where(inside, row["target"], 0.0)
        mass[i] = target.sum()
        if mass[i] > 0:
            kept.append(_of(_with_target(row, target), inside))
    return kept, mass


def _of(row: dict, inside: np.ndarray) -> dict:
    """The row with some of its candidates."""
    some, columns = np.flatnonzero(inside), ("joints", "target", "f", "log_tau")
    return row | {name: [row[name][k] for k in some] for name in columns}


def chooser(arm: Arm, narrow: Narrow) -> Callable[..., text.OrderChoice]:
    """(turn, encode) -> what a model of the arm chooses from and how it is said."""

    def choice(turn: Turn, encode) -> text.OrderChoice:
        return text.OrderChoice(narrow(turn), encode, arm.units)

    return choice
