"""The decisions of many turns as flat arrays: turns, their slots, the candidate orders of a slot.

Turns are sorted by position and power, slots are in canonical order (`orders`). In an adjustment
phase all slots of a turn share one pool of candidates in canonical order, WAIVE last for builds, of
which the orders chosen before leave a part. Shapes: N positions, T turns, S slots, C candidates.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards, legal
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.kernels import kernel


class Layout(NamedTuple):
    """Turns of a batch of positions."""

    board: np.ndarray  # int32 (T,)
    power: np.ndarray  # int8 (T,)
    adjusts: np.ndarray  # int8 (T,): builds (+) or removals (-) due, 0 in other phases
    first: np.ndarray  # int32 (T + 1,): slots of a turn
    place: np.ndarray  # int16 (S,): location of a slot's unit, -1 in adjustment phases
    low: np.ndarray  # int32 (S,): candidates of a slot are ids[low:high]
    high: np.ndarray  # int32 (S,)
    ids: np.ndarray  # int32 (C,)

    def take(self, keep: np.ndarray) -> "Layout":
        """The turns of the mask `keep` (T,); candidates of the others stay, unused."""
        sizes = np.diff(self.first)
        slots = np.repeat(keep, sizes)
        first = np.r_[0, np.cumsum(sizes[keep])].astype(np.int32)
        turns = (field[keep] for field in self[:3])
        return Layout(*turns, first, *(field[slots] for field in self[4:7]), self.ids)


@kernel
def _pool(canonical, entry, offset, ids, waive, first, last, due, at, out):
    """Append the candidates of an adjustment turn in canonical order; returns the new length."""
    low = at
    for e in range(first, last):
        for k in range(offset[entry[e]], offset[entry[e] + 1]):
            j = at
            while j > low and canonical[out.ids[j - 1]] > canonical[ids[k]]:
                out.ids[j] = out.ids[j - 1]
                j -= 1
            out.ids[j] = ids[k]
            at += 1
    if due > 0:
        out.ids[at] = waive
        at += 1
    return at


@kernel
def _fill(canonical, phase, due, waive, offset, ids, entry, start, board, power, out):
    """Turn t owns the sorted entries [start[t], start[t + 1]); returns the counts of slots and of
    candidates.
    """
    slot, at = 0, 0
    for t in range(len(start) - 1):
        first, last = start[t], start[t + 1]
        n, p = board[entry[first]], power[entry[first]]
        out.board[t], out.power[t], out.adjusts[t] = n, p, 0
        if phase[n] == 4:
            out.adjusts[t] = due[n, p]
            low = at
            at = _pool(canonical, entry, offset, ids, waive, first, last, due[n, p], at, out)
            slots = min(due[n, p], last - first) if due[n, p] > 0 else -due[n, p]
            for _ in range(slots):
                out.low[slot], out.high[slot] = low, at
                slot += 1
        else:
            for e in range(first, last):
                out.low[slot] = at
                for k in range(offset[entry[e]], offset[entry[e] + 1]):
                    out.ids[at] = ids[k]
                    at += 1
                out.high[slot] = at
                slot += 1
        out.first[t + 1] = slot
    return slot, at


def of_positions(positions: Boards) -> Layout:
    """All turns of N positions."""
    lists = legal.legal_orders(positions)
    rank = v.CANONICAL[lists.ids[lists.offset[:-1]]]
    entry = np.lexsort((rank, lists.power, lists.board))
    owner = lists.board[entry].astype(np.int64) * atlas.N_POWERS + lists.power[entry]
    start = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
    turns, units = len(start) - 1, len(entry)
    due = (boards.centres(positions) - boards.units(positions)).astype(np.int64)
    out = Layout(
        np.empty(turns, np.int32), np.empty(turns, np.int8), np.empty(turns, np.int8),
        np.zeros(turns + 1, np.int32), np.empty(0, np.int16), np.empty(units, np.int32),
        np.empty(units, np.int32), np.empty(len(lists.ids) + turns, np.int32),
    )  # fmt: skip
    slots, size = _fill(
        v.CANONICAL, positions.phase, due, v.WAIVE_ID, lists.offset, lists.ids, entry, start,
        lists.board, lists.power, out,
    )  # fmt: skip
    return _complete(out._replace(low=out.low[:slots], high=out.high[:slots], ids=out.ids[:size]))


def _complete(out: Layout) -> Layout:
    """The layout with the locations of its slots."""
    place = v.VOCABULARY[out.ids[out.low], v.LOC].copy()
    place[np.repeat(out.adjusts != 0, np.diff(out.first))] = -1
    return out._replace(place=place)
