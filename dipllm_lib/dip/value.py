"""What a position is worth to each power: its expected share of the sum of squares at the end.

    SoS share of power i:  C_i^2 / sum_j C_j^2,  C = supply centres at the end of the game

`heuristic` needs no training. `ValueNet` is a softmax over the seven powers on sparse features of
the position: units and dislodged units by place and power, owners of centres, counts of centres
and units by power, phase, year. Its first layer is a sum of rows of a table, so thousands of
positions take milliseconds in numpy. Logits start from the heuristic's holdings, log (x_i + 1/2)^2,
so an untrained net is nearly the heuristic. A power without centre and unit has share 0; a
finished game has its present share.

Shapes: N positions, H hidden units, F = 3002 features.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dipllm_lib.dip import atlas
from dipllm_lib.dip.boards import OVER, Boards, centres
from dipllm_lib.dip.places import FLEET_PLACES, PLACES

POWERS = 7
CENTRE = atlas.CENTRE
COUNTS = 19  # 0..18 centres or units
YEARS = 21  # 1901..1921 and later
UNITS, DISLODGED = 0, PLACES * POWERS
OWNERS = DISLODGED + PLACES * POWERS
CENTRES = OWNERS + 75 * POWERS
STANDING = CENTRES + POWERS * COUNTS
PHASES = STANDING + POWERS * COUNTS
YEAR = PHASES + 6
FEATURES = YEAR + YEARS
WIDEST = 75 + 75 + 34 + 2 * POWERS + 2  # most features that one position can have


def sos(count: np.ndarray) -> np.ndarray:
    """(..., 7) float64 shares of the sum of squares of centre counts; ValueError if all are 0."""
    squares = np.asarray(count, dtype=np.float64) ** 2
    total = squares.sum(axis=-1, keepdims=True)
    if np.any(total == 0):
        raise ValueError("no power has a supply centre: the share of the sum of squares is 0/0")
    return squares / total


def solo(count: np.ndarray, needed: int = 18) -> np.ndarray:
    """(..., 7) like `sos`, but 1 for a power with at least `needed` centres and 0 for the rest."""
    count = np.asarray(count)
    wins = count >= needed
    return np.where(wins.any(axis=-1, keepdims=True), wins.astype(np.float64), sos(count))


@njit(cache=True)
def _holdings(power, owner, x):
    """Centres, plus and minus half of those under a foreign unit, of one position into x (7,)."""
    x[:] = 0.0
    for p in range(75):
        own, here = owner[p], power[p]
        if own >= 0:
            x[own] += 1.0
        if here >= 0 and here != own and CENTRE[p]:
            x[here] += 0.5
            if own >= 0:
                x[own] -= 0.5


@njit(cache=True)
def _heuristic(power, owner, out):
    x = np.empty(7)
    for n in range(power.shape[0]):
        _holdings(power[n], owner[n], x)
        total = 0.0
        for i in range(7):
            total += x[i] * x[i]
        for i in range(7):
            out[n, i] = x[i] * x[i] / total if total > 0 else np.nan


def heuristic(boards: Boards) -> np.ndarray:
    """(N, 7) float32: x_i^2 / sum x_j^2, x = centres + 0.5 per unit on a centre of somebody else
    or of nobody - 0.5 per own centre under a foreign unit. ValueError for a position without any.
    """
    out = np.empty((boards.n, POWERS), np.float32)
    _heuristic(boards.power, boards.owner, out)
    if np.isnan(out).any():
        raise ValueError("a position has neither centres nor units on centres: it has no value")
    return out


@njit(cache=True)
def features(unit, power, loc, owner, d_unit, d_power, d_loc, year, phase, index, size):
    """Write the features of N positions into index (N, WIDEST) and their numbers into size (N,)."""
    for n in range(unit.shape[0]):
        held, standing = np.zeros(7, np.int64), np.zeros(7, np.int64)
        k = 0
        for p in range(75):
            if unit[n, p] > 0:
                place = loc[n, p] + (FLEET_PLACES if unit[n, p] == 2 else 0)
                index[n, k] = UNITS + place * POWERS + power[n, p]
                standing[power[n, p]] += 1
                k += 1
            if d_unit[n, p] > 0:
                place = d_loc[n, p] + (FLEET_PLACES if d_unit[n, p] == 2 else 0)
                index[n, k] = DISLODGED + place * POWERS + d_power[n, p]
                k += 1
            if owner[n, p] >= 0:
                index[n, k] = OWNERS + p * POWERS + owner[n, p]
                held[owner[n, p]] += 1
                k += 1
        for i in range(7):
            index[n, k] = CENTRES + i * COUNTS + min(held[i], COUNTS - 1)
            index[n, k + 1] = STANDING + i * COUNTS + min(standing[i], COUNTS - 1)
            k += 2
        index[n, k] = PHASES + phase[n]
        index[n, k + 1] = YEAR + min(max(year[n] - 1901, 0), YEARS - 1)
        size[n] = k + 2


@njit(cache=True)
def _first_layer(index, size, table, bias, out):
    """relu(bias + sum of rows) into out (N, H)."""
    width = table.shape[1]
    for n in range(out.shape[0]):
        row = out[n]
        row[:] = bias
        for k in range(size[n]):
            add = table[index[n, k]]
            for h in range(width):
                row[h] += add[h]
        for h in range(width):
            row[h] = max(row[h], np.float32(0))


def sparse(boards: Boards) -> tuple[np.ndarray, np.ndarray]:
    """(index int32 (N, WIDEST), size int32 (N,)): features of each position."""
    index, size = np.empty((boards.n, WIDEST), np.int32), np.empty(boards.n, np.int32)
    b = boards
    units, gone = (b.unit, b.power, b.loc, b.owner), (b.d_unit, b.d_power, b.d_loc)
    features(*units, *gone, b.year, b.phase, index, size)
    return index, size


@njit(cache=True)
def _prior(owner, power, d_power, out):
    x, alive = np.empty(7), np.empty(7, np.bool_)
    for n in range(owner.shape[0]):
        _holdings(power[n], owner[n], x)
        alive[:] = False
        for p in range(75):
            if owner[n, p] >= 0:
                alive[owner[n, p]] = True
            if power[n, p] >= 0:
                alive[power[n, p]] = True
            if d_power[n, p] >= 0:
                alive[d_power[n, p]] = True
        for i in range(7):
            out[n, i] = 2.0 * np.log(x[i] + 0.5) if alive[i] else -np.inf


def prior(boards: Boards) -> np.ndarray:
    """(N, 7) float32 logits before training: log (x + 1/2)^2, -inf for a power that is out.

    x as in `heuristic`.
    """
    out = np.empty((boards.n, POWERS), np.float32)
    _prior(boards.owner, boards.power, boards.d_power, out)
    if np.isneginf(out).all(axis=1).any():
        raise ValueError("a position has neither centres nor units: it has no value")
    return out


class Layer(NamedTuple):
    weight: np.ndarray
    bias: np.ndarray


class ValueNet:
    """Weights float32: table (F, H) and bias; (H, H) and bias; (H, 7) and bias."""

    def __init__(self, first: Layer, second: Layer, last: Layer):
        self.first, self.second, self.last = first, second, last

    def predict(self, boards: Boards) -> np.ndarray:
        """(N, 7) float32 expected shares, rows sum to 1."""
        index, size = sparse(boards)
        hidden = np.empty((boards.n, self.first.bias.size), np.float32)
        _first_layer(index, size, *self.first, hidden)
        hidden = np.maximum(hidden @ self.second.weight + self.second.bias, 0)
        logits = hidden @ self.last.weight + self.last.bias + prior(boards)
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        over = boards.phase == OVER
        if over.any():
            share[over] = sos(centres(boards.take(np.flatnonzero(over))))
        return share

    __call__ = predict

    def tensors(self) -> dict:
        """The weights as torch tensors, for `store.save_tensors`."""
        import torch

        arrays = zip(("first", "second", "last"), (self.first, self.second, self.last))
        return {
            f"{name}.{part}": torch.from_numpy(array.copy())
            for name, layer in arrays
            for part, array in zip(Layer._fields, layer)
        }

    @staticmethod
    def from_tensors(tensors: dict) -> "ValueNet":
        """The net of `tensors()`. ValueError where a tensor is missing or has another shape."""
        layers = []
        for name in ("first", "second", "last"):
            parts = [tensors.get(f"{name}.{part}") for part in Layer._fields]
            if any(part is None for part in parts):
                raise ValueError(f"not a value net: {name}.weight or {name}.bias is missing")
            layers.append(Layer(*(np.ascontiguousarray(part.numpy()) for part in parts)))
        if layers[0].weight.shape[0] != FEATURES or layers[2].weight.shape[1] != POWERS:
            raise ValueError(
                f"not a value net: expected {FEATURES} features and {POWERS} shares, got "
                f"{layers[0].weight.shape[0]} and {layers[2].weight.shape[1]}"
            )
        return ValueNet(*layers)
