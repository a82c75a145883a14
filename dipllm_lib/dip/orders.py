"""What each power must decide on a position, and joint orders of many powers as arrays for the
adjudicator.

A `Turn` has D slots in canonical order: armies before fleets, then alphabetical by full English
place name. In movement and retreat phases a slot is one unit. In adjustment phases a set of builds
or removals is one strictly increasing sequence in the same order, waives last; D is the number of
removals due, or min(builds due, free home centres). A joint order is a tuple of D order ids in slot
order.
"""

from dataclasses import dataclass
from typing import Mapping, Sequence

import numpy as np

from dipllm_lib.dip import atlas, boards, legal
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards, Orders, no_orders, phase_name
from dipllm_lib.dip.kernels import kernel
from dipllm_lib.dip.legal import legal_orders
from dipllm_lib.dip.notation import from_text, to_text, unit_of
from dipllm_lib.dip.vocabulary import VOCABULARY, WAIVE_ID

__all__ = [
    "VOCABULARY", "WAIVE_ID", "Joint", "Orders", "Turn", "all_turns", "expand", "expand_picks",
    "from_text", "joint_table", "legal_orders", "no_orders", "parse_joint", "phase_name",
    "sorted_joint", "to_text", "turn", "turns",
]  # fmt: skip

Joint = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """What one power must decide on one position. `lists`: per slot (movement, retreat) the legal
    ids; in adjustment phases one array of all builds (WAIVE not included) or removals in canonical
    order.
    """

    boards: Boards  # one position
    power: int
    slots: int
    units: tuple[
        str, ...
    ]  # per slot the unit's text; "" in adjustment phases, where a slot is not one unit
    lists: tuple[np.ndarray, ...]
    adjusts: int = 0  # builds (+) or removals (-) due in an adjustment phase

    @property
    def phase(self) -> str:
        return phase_name(self.boards)

    @property
    def name(self) -> str:
        return atlas.POWERS[self.power]

    def options(self, prefix: Joint = ()) -> np.ndarray:
        """Sorted int32 ids legal for slot len(prefix), given the orders chosen before. ValueError
        beyond the last slot.
        """
        if len(prefix) >= self.slots:
            raise ValueError(f"this turn has {self.slots} slots, all of them are filled")
        return self._adjustments(prefix) if self.adjusts else self.lists[len(prefix)]

    def _adjustments(self, prefix: Joint) -> np.ndarray:
        if prefix and prefix[-1] == WAIVE_ID:
            return np.array([WAIVE_ID], np.int32)
        pool = self.lists[0]
        if prefix:
            pool = pool[v.CANONICAL[pool] > v.CANONICAL[prefix[-1]]]
        if self.adjusts < 0:
            later = self.slots - len(prefix) - 1
            return np.sort(pool[: len(pool) - later])
        used = v.EXPANSION[list(prefix), 0]
        pool = pool[~np.isin(v.EXPANSION[pool, 0], used)]
        return np.append(np.sort(pool), np.int32(WAIVE_ID))

    def check(self, joint: Joint) -> None:
        """ValueError with the first order of `joint` that is not legal here."""
        if len(joint) != self.slots:
            raise ValueError(
                f"{self.name} {self.phase}: {len(joint)} orders for {self.slots} slots"
            )
        for slot, order in enumerate(joint):
            if order not in self.options(joint[:slot]):
                unit = f" for {self.units[slot]}" if self.units[slot] else ""
                raise ValueError(
                    f"{self.name} {self.phase}: illegal order {to_text(order)!r}{unit}"
                )


def _adjustment_turn(board: Boards, power: int, lists: list[np.ndarray], due: int) -> Turn:
    pool = np.concatenate(lists)
    pool = pool[np.argsort(v.CANONICAL[pool], kind="stable")]
    slots = min(due, len(lists)) if due > 0 else -due
    return Turn(board, power, slots, ("",) * slots, (pool,), due)


def _grouped(legal_: legal.Legal) -> tuple[np.ndarray, np.ndarray]:
    """Entries sorted by board, power and canonical order, and where each (board, power) begins."""
    rank = v.CANONICAL[legal_.ids[legal_.offset[:-1]]]
    order = np.lexsort((rank, legal_.power, legal_.board))
    owner = legal_.board[order] * atlas.N_POWERS + legal_.power[order]
    return order, np.flatnonzero(np.diff(owner, prepend=-1, append=-1))


def all_turns(positions: Boards) -> list[list[Turn]]:
    """Per position the turns of all powers that must decide something there, powers in order."""
    orders = legal_orders(positions)
    due = boards.centres(positions) - boards.units(positions)
    order, starts = _grouped(orders)
    singles = [positions.take([i]) for i in range(positions.n)]
    result: list[list[Turn]] = [[] for _ in singles]
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist()):
        members = order[first:last].tolist()
        i, power = int(orders.board[members[0]]), int(orders.power[members[0]])
        lists = [orders.ids[orders.offset[u] : orders.offset[u + 1]] for u in members]
        if positions.phase[i] == boards.ADJUSTMENTS:
            turn = _adjustment_turn(singles[i], power, lists, int(due[i, power]))
        else:
            texts = tuple(unit_of(int(ids[0])) for ids in lists)
            turn = Turn(singles[i], power, len(members), texts, tuple(lists))
        result[i].append(turn)
    return result


def turns(positions: Boards, i: int = 0) -> list[Turn]:
    """The turns of position i, powers in order, only powers with something to decide."""
    return all_turns(positions.take([i]))[0]


def turn(positions: Boards, i: int, power: int) -> Turn | None:
    """The turn of one power on position i, or None if it has nothing to decide."""
    return next((t for t in turns(positions, i) if t.power == power), None)


def parse_joint(this: Turn, texts: Sequence[str]) -> Joint:
    """Order ids of the texts of a joint order in slot order. ValueError if one cannot be read or is
    not legal.
    """
    joint = tuple(from_text(text, this.boards) for text in texts)
    this.check(joint)
    return joint


def sorted_joint(this: Turn, texts: Sequence[str]) -> Joint:
    """As `parse_joint` for texts in any order, waives may be left out; slots are filled in
    canonical order.
    """
    ids = sorted(
        (from_text(text, this.boards) for text in texts), key=lambda order: v.CANONICAL[order]
    )
    if this.adjusts > 0:
        ids += [WAIVE_ID] * (this.slots - len(ids))
    this.check(tuple(ids))
    return tuple(ids)


def expand(positions: Boards, joints: Sequence[Mapping[int, Joint]]) -> Orders:
    """One row of orders per dict power -> joint. `positions` has as many rows, or one for all.
    Powers left out give no orders. ValueError if two orders are for one province.
    """
    if positions.n not in (1, len(joints)):
        raise ValueError(
            f"{len(joints)} rows for {positions.n} positions: need one position, or one each"
        )
    ids = [
        order
        for row in joints
        for power in sorted(row)
        for order in row[power]
        if order != WAIVE_ID
    ]
    counts = [sum(order != WAIVE_ID for joint in row.values() for order in joint) for row in joints]
    rows = np.repeat(np.arange(len(joints)), counts)
    entries = v.EXPANSION[np.array(ids, np.intp)]
    places = rows * atlas.N_PROVINCES + entries[:, 0]
    if len(np.unique(places)) < len(places):
        twice = entries[np.argsort(places)[:-1][np.diff(np.sort(places)) == 0][0], 0]
        raise ValueError(
            f"two orders for one unit, in {atlas.CODES[twice]}: give one order for each"
        )
    result = no_orders(len(joints))
    for field, column in zip(result, entries.T[1:]):
        field[rows, entries[:, 0]] = column
    return result


def joint_table(candidates: Sequence[Sequence[Joint]]) -> np.ndarray:
    """Candidates of the seven powers as int32 (7, K, L), padded with -1: K the most candidates, L
    the longest joint order.
    """
    most = max((len(joints) for joints in candidates), default=0)
    longest = max((len(joint) for joints in candidates for joint in joints), default=0)
    table = np.full((atlas.N_POWERS, max(most, 1), max(longest, 1)), -1, np.int32)
    for power, joints in enumerate(candidates):
        for k, joint in enumerate(joints):
            table[power, k, : len(joint)] = joint
    return table


@kernel
def _expand_picks(expansion, table, picks, kind, a, b, via):
    for n in range(len(picks)):
        for power in range(picks.shape[1]):
            if picks[n, power] < 0:
                continue
            for slot in range(table.shape[2]):
                order = table[power, picks[n, power], slot]
                if order < 0 or expansion[order, 0] < 0:
                    continue
                p = expansion[order, 0]
                kind[n, p], a[n, p] = expansion[order, 1], expansion[order, 2]
                b[n, p], via[n, p] = expansion[order, 3], expansion[order, 4]


def expand_picks(table: np.ndarray, picks: np.ndarray) -> Orders:
    """N rows of orders: row n takes joint order table[i, picks[n, i]] of each power i. table int32
    (7, K, L) padded with -1, picks integers (N, 7), -1 where a power gives no orders. ValueError if
    a pick is not below K.
    """
    picks = np.ascontiguousarray(picks, np.int16)
    if picks.size and picks.max() >= table.shape[1]:
        raise ValueError(f"pick {picks.max()} of {table.shape[1]} candidates: picks count from 0")
    result = no_orders(len(picks))
    _expand_picks(v.EXPANSION, np.ascontiguousarray(table, np.int32), picks, *result)
    return result
