"""Positions as sparse features of the 81 locations, and the encoder's forward pass in numpy.

A location has eight features (rows of one table that are added up): the unit of its province by
place and by kind and power, the owner of its centre by place and by power, flags (a unit stands on
this very location; a free home centre of a power that builds; a stand-off; a unit of a power that
must remove), the centre counts of the unit's and of the owner's power, and the dislodged unit.
Sixteen more rows describe the whole position: phase, year, centres and units of each power.

A layer adds attention over locations (with a learned bias for each pair of them and head, started
as the neighbourhoods of armies and fleets) and a feed-forward block to its input, each after a
layer norm. All powers share the result, so a position is encoded once. Matrix products are made
position by position with one shape, so the state of a position has the same bits whatever else is
in the batch.

Shapes: N positions, L = 81 locations, H width.
"""

from collections.abc import Mapping

import numpy as np

from dipllm_lib.dip import atlas
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.kernels import kernel

L = atlas.N_LOCATIONS
UNITS, OWNERS, COUNTS, YEARS = 15, 9, 20, 21
BY_PLACE, UNIT = 0, L * UNITS
OWNER_BY_PLACE = UNIT + UNITS
OWNER = OWNER_BY_PLACE + L * OWNERS
FLAGS = OWNER + OWNERS
UNIT_COUNT = FLAGS + 16
OWNER_COUNT = UNIT_COUNT + COUNTS
DISLODGED = OWNER_COUNT + COUNTS
LOCAL = DISLODGED + UNITS  # rows of the table of local features
LOCALS = 8
PHASE, YEAR = 0, 6
CENTRES = YEAR + YEARS
STANDING = CENTRES + 7 * COUNTS
GLOBAL = STANDING + 7 * COUNTS
GLOBALS = 16
EPSILON = 1e-5  # of the layer norms


@kernel
def _features(b, prov_of, home, centre, held, standing, local, whole):
    for n in range(len(b.phase)):
        held[:], standing[:] = 0, 0
        for p in range(75):
            if b.owner[n, p] >= 0:
                held[b.owner[n, p]] += 1
            if b.unit[n, p]:
                standing[b.power[n, p]] += 1
        adjusts = b.phase[n] == 4
        for place in range(81):
            p = prov_of[place]
            unit, owner, flags = 0, 0, 0
            row = local[n, place]
            row[5], row[6] = UNIT_COUNT, OWNER_COUNT
            if b.unit[n, p]:
                power = b.power[n, p]
                unit = 1 + power + 7 * (b.unit[n, p] == 2)
                flags += b.loc[n, p] == place
                if adjusts and held[power] < standing[power]:
                    flags += 8
                row[5] += 1 + min(held[power], 18)
            if centre[p]:
                owner = 1
                if b.owner[n, p] >= 0:
                    power = b.owner[n, p]
                    owner = 2 + power
                    free = adjusts and home[p] == power and not b.unit[n, p]
                    if free and held[power] > standing[power]:
                        flags += 2
                    row[6] += 1 + min(held[power], 18)
            if b.contested[n, p]:
                flags += 4
            row[0], row[1] = BY_PLACE + place * UNITS + unit, UNIT + unit
            row[2], row[3] = OWNER_BY_PLACE + place * OWNERS + owner, OWNER + owner
            row[4], row[7] = FLAGS + flags, DISLODGED
            if b.d_unit[n, p]:
                row[7] += 1 + b.d_power[n, p] + 7 * (b.d_unit[n, p] == 2)
        whole[n, 0] = PHASE + b.phase[n]
        whole[n, 1] = YEAR + min(max(b.year[n] - 1901, 0), YEARS - 1)
        for power in range(7):
            whole[n, 2 + power] = CENTRES + power * COUNTS + min(held[power], COUNTS - 1)
            whole[n, 9 + power] = STANDING + power * COUNTS + min(standing[power], COUNTS - 1)


def features(positions: Boards) -> tuple[np.ndarray, np.ndarray]:
    """(local int32 (N, 81, 8), whole int32 (N, 16)): rows of the two feature tables."""
    local = np.empty((positions.n, L, LOCALS), np.int32)
    whole = np.empty((positions.n, GLOBALS), np.int32)
    work = np.zeros((2, 7), np.int64)
    _features(positions, atlas.PROV_OF, atlas.HOME, atlas.CENTRE, work[0], work[1], local, whole)
    return local, whole


def biases(heads: int) -> np.ndarray:
    """Start of a layer's pair biases, float32 (heads, 81, 81): heads attend to neighbours by army,
    by fleet, by either, in two steps, everywhere, to the same place, and so on in turn.
    """
    army = np.zeros((L, L), bool)
    army[:75, :75] = atlas.ARMY
    same = atlas.PROV_OF[:, None] == atlas.PROV_OF[None, :]
    near = army | atlas.FLEET
    two = (near | same).astype(int) @ (near | same).astype(int) > 0
    everywhere, itself = np.ones((L, L), bool), np.eye(L, dtype=bool)
    kinds = [army | same, atlas.FLEET | same, near & ~same, two, everywhere, itself]
    shares = [kind / np.maximum(kind.sum(axis=1, keepdims=True), 1) for kind in kinds]
    return np.array([2 * np.log(shares[k % 6] + 0.02) for k in range(heads)], np.float32)


@kernel
def _embed(local, whole, local_table, whole_table, out):
    """Sums of feature rows into out (N, 81, H)."""
    width = out.shape[2]
    for n in range(out.shape[0]):
        for place in range(out.shape[1]):
            row = out[n, place]
            row[:] = 0
            for k in range(local.shape[2]):
                add = local_table[local[n, place, k]]
                for h in range(width):
                    row[h] += add[h]
            for k in range(whole.shape[1]):
                add = whole_table[whole[n, k]]
                for h in range(width):
                    row[h] += add[h]


@kernel
def _norm(x, gain, bias, out):
    """Layer norm over the last axis of x (R, H)."""
    width = x.shape[1]
    for r in range(x.shape[0]):
        mean, square = np.float32(0), np.float32(0)
        for h in range(width):
            mean += x[r, h]
        mean /= np.float32(width)
        for h in range(width):
            square += (x[r, h] - mean) * (x[r, h] - mean)
        scale = np.float32(1) / np.sqrt(square / np.float32(width) + np.float32(EPSILON))
        for h in range(width):
            out[r, h] = (x[r, h] - mean) * scale * gain[h] + bias[h]


def _normed(x: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    out, width = np.empty_like(x), x.shape[-1]
    gain, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    _norm(x.reshape(-1, width), gain, bias, out.reshape(-1, width))
    return out


def _attended(y: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """The attention of a layer over its normed input (N, 81, H)."""
    bias = weights[f"{name}.bias"]
    parts = y @ weights[f"{name}.input.weight"].T + weights[f"{name}.input.bias"]
    parts = parts.reshape(*y.shape[:2], 3, len(bias), -1).transpose(2, 0, 3, 1, 4)
    query, key, value = (np.ascontiguousarray(part) for part in parts)
    score = query @ (key.swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5)) + bias
    score -= score.max(axis=-1, keepdims=True)
    np.exp(score, out=score)
    mixed = score @ value / score.sum(axis=-1, keepdims=True)
    mixed = mixed.transpose(0, 2, 1, 3).reshape(y.shape)
    return mixed @ weights[f"{name}.out.weight"].T + weights[f"{name}.out.bias"]


def encode(positions: Boards, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """States of the locations, float32 (N, 81, H)."""
    local, whole = features(positions)
    tables = weights["encoder.local.weight"], weights["encoder.whole.weight"]
    x = np.empty((positions.n, L, tables[0].shape[1]), np.float32)
    _embed(local, whole, *tables, x)
    number = 0
    while f"encoder.layers.{number}.up.weight" in weights:
        name = f"encoder.layers.{number}"
        x += _attended(_normed(x, weights, f"{name}.first_norm"), weights, f"{name}.attention")
        y = _normed(x, weights, f"{name}.second_norm")
        inner = np.maximum(y @ weights[f"{name}.up.weight"].T + weights[f"{name}.up.bias"], 0)
        x += inner @ weights[f"{name}.down.weight"].T + weights[f"{name}.down.bias"]
        number += 1
    return _normed(x, weights, "encoder.norm")
