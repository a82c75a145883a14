"""How well a policy predicts recorded orders, and how far a net is from its teacher.

Orders are predicted one after the other with the recorded orders before them given (teacher
forcing). Accuracy: the share of orders that were the most probable one; exact: the share of turns
with every order so; nats: - log p per order. Intervals are 95 % percentile bootstraps over whole
games, since the orders of a game are alike.

Baselines: `uniform` (its expected accuracy is the mean of 1 / candidates), `hold` (hold, disband or
waive, else the first candidate), `frequent` (the candidate given most often in the training games),
and policies such as SoftDumbBot.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch

from dipllm_lib.dip import anchor_net, boards, orders, relations
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.anchor import NeuralAnchor
from dipllm_lib.dip.human import Examples
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.policies import Explicit
from dipllm_lib.run import stats

YEARS = (("1901", 1901, 1901), ("1902-1904", 1902, 1904), ("1905-1909", 1905, 1909),
         ("from 1910", 1910, 9999))  # fmt: skip
KINDS = ("moves", "retreats", "adjustments")
STANDING = (relations.HOLD, relations.DISBAND, relations.WAIVE)
COLUMNS = ("game", "year", "kind", "turn", "log_prob", "correct")


def _facts(examples: Examples) -> pd.DataFrame:
    """One row per recorded order: game, year, kind, turn."""
    turn = np.repeat(np.arange(len(examples.board)), np.diff(examples.first))
    board = examples.board[turn]
    phase = examples.boards.phase[board]
    kind = np.where(phase == boards.ADJUSTMENTS, 2, phase % 2)
    facts = (examples.game[board], examples.boards.year[board], np.array(KINDS)[kind], turn)
    return pd.DataFrame(dict(zip(COLUMNS, facts)))


def _batches(examples: Examples, size: int) -> Iterator[tuple[np.ndarray, anchor_net.Batch]]:
    """(rows of `_facts`, batch) over all positions, one kind of phase at a time."""
    turn_of = np.repeat(np.arange(len(examples.board)), np.diff(examples.first))
    board = examples.board[turn_of]
    for phases in (boards.MOVES, boards.RETREATS, (boards.ADJUSTMENTS,)):
        rows = np.flatnonzero(np.isin(examples.boards.phase, phases))
        for first in range(0, len(rows), size):
            part = rows[first : first + size]
            yield np.flatnonzero(np.isin(board, part)), anchor_net.batch(examples.take(part))


def of_anchor(anchor: NeuralAnchor, examples: Examples, size: int = 128) -> pd.DataFrame:
    """COLUMNS, one row per recorded order."""
    net, table = anchor_net.of_anchor(anchor), _facts(examples)
    log_prob, correct = np.empty(len(table)), np.empty(len(table))
    for rows, batch in _batches(examples, size):
        with torch.no_grad():
            found = anchor_net.log_probs(net(batch), batch)
        log_prob[rows], correct[rows] = (x.numpy() for x in found)
    return table.assign(log_prob=log_prob, correct=correct)


def counts(examples: Examples) -> np.ndarray:
    """How often each order was given, int64 by order id."""
    return np.bincount(examples.orders, minlength=v.SIZE)


def of_baseline(name: str, examples: Examples, given: np.ndarray | None = None) -> pd.DataFrame:
    """COLUMNS of `uniform`, `hold` or `frequent` (given: `counts` of the training games)."""
    table, size = _facts(examples), 128
    log_prob, correct = np.empty(len(table)), np.empty(len(table))
    for rows, batch in _batches(examples, size):
        order, first = batch.order.numpy(), batch.first.numpy()
        if name == "uniform":
            correct[rows] = 1 / np.diff(first)
        else:
            standing = np.isin(relations.FACTS.role[order], STANDING).astype(np.int64)
            worth = standing if name == "hold" else 2 * given[order] + standing
            for x, (low, high) in enumerate(zip(first[:-1], first[1:])):
                correct[rows[x]] = low + worth[low:high].argmax() == int(batch.label[x])
        log_prob[rows] = -np.log(np.diff(first)) if name == "uniform" else np.nan
    return table.assign(log_prob=log_prob, correct=correct)


def _cut(turn: Turn, slots: int) -> Turn:
    """A turn with its first slots only: the policy's probabilities of them are the same."""
    cut = {"slots": slots, "units": turn.units[:slots], "lists": turn.lists[:slots]}
    return dataclasses.replace(turn, **cut)


def conditionals(policy: Explicit, turn: Turn, joint: Joint) -> list[np.ndarray]:
    """Per slot of a movement or retreat turn the log-probabilities of its candidates given the
    orders of `joint` before it, of a policy whose orders do not look at later units.
    """
    result, before = [], 0.0
    for d in range(turn.slots):
        options = turn.options(joint[:d]).tolist()
        found = policy.log_prob(_cut(turn, d + 1), [(*joint[:d], order) for order in options])
        result.append(found - before)
        before = found[options.index(joint[d])]
    return result


def of_policy(policy: Explicit, examples: Examples) -> pd.DataFrame:
    """COLUMNS of a policy of `conditionals` over the movement and retreat turns of `examples`."""
    keep = np.flatnonzero(examples.boards.phase != boards.ADJUSTMENTS)
    examples = examples.take(keep)
    table = _facts(examples)
    log_prob, correct = np.empty(len(table)), np.empty(len(table))
    for turn, low, high in turns_of(examples):
        joint = tuple(examples.orders[low:high].tolist())
        for d, found in enumerate(conditionals(policy, turn, joint)):
            label = turn.options(joint[:d]).tolist().index(joint[d])
            log_prob[low + d], correct[low + d] = found[label], found.argmax() == label
    return table.assign(log_prob=log_prob, correct=correct)


def turns_of(examples: Examples) -> Iterator[tuple[Turn, int, int]]:
    """(turn, first order, last order) of every example."""
    every = orders.all_turns(examples.boards)
    for t, (board, power) in enumerate(zip(examples.board.tolist(), examples.power.tolist())):
        turn = next(turn for turn in every[board] if turn.power == power)
        yield turn, int(examples.first[t]), int(examples.first[t + 1])


def _ratio(table: pd.DataFrame, column: str, rng: np.random.Generator, resamples: int) -> tuple:
    """(mean, low, high) of a column over its rows, resampling whole games; NaN if it has none."""
    if table[column].isna().all():
        return (np.nan,) * 3
    by_game = table.groupby("game")[column].agg(["sum", "count"]).to_numpy(np.float64)
    means, size = np.empty(resamples), len(by_game)
    for r in range(resamples):
        sums = by_game[rng.integers(0, size, size)].sum(axis=0)
        means[r] = sums[0] / sums[1]
    low, high = np.quantile(means, [(1 - stats.LEVEL) / 2, (1 + stats.LEVEL) / 2])
    return float(by_game[:, 0].sum() / by_game[:, 1].sum()), float(low), float(high)


def summary(table: pd.DataFrame, rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """One row per kind of phase, and per group of years of the movement phases: kind, years,
    orders, turns, then accuracy, exact (in [0, 1]) and nats per order, each with _low and _high.
    """
    groups = [(kind, "all", table[table.kind == kind]) for kind in KINDS]
    moves = table[table.kind == "moves"]
    groups += [("moves", name, moves[moves.year.between(*years)]) for name, *years in YEARS]
    rows = []
    for kind, years, part in groups:
        if not len(part):
            continue
        turns = part.groupby("turn").agg(game=("game", "first"), exact=("correct", "prod"))
        row = {"kind": kind, "years": years, "orders": len(part), "turns": len(turns)}
        measures = (("accuracy", part, "correct"), ("exact", turns, "exact"))
        for name, of, column in (*measures, ("nats", part.assign(nats=-part.log_prob), "nats")):
            mean, low, high = _ratio(of, column, rng, resamples)
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def divergence(
    teacher: Explicit, anchor: Explicit, turns: Sequence[Turn], n: int,
    rngs: Sequence[np.random.Generator], rng: np.random.Generator, resamples: int,
) -> tuple[float, float, float]:  # fmt: skip
    """KL(teacher || anchor) in nats per turn with its interval, from n joint orders that the
    teacher draws on each turn; exact log-probabilities on both sides.
    """
    gaps = []
    for turn, own in zip(turns, rngs, strict=True):
        joints = teacher.sample(turn, n, own)
        gaps.append(np.mean(teacher.log_prob(turn, joints) - anchor.log_prob(turn, joints)))
    return stats.mean_interval(gaps, rng, resamples)
