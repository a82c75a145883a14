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
    """The turns of position i, powers in order, only powers with something to decide. ValueError if
    there is no position i.
    """
    return all_turns(boards.single(positions, i))[0]


def turn(positions: Boards, i: int, power: int) -> Turn | None:
    """The turn of one power on position i, or None if it has nothing to decide. ValueError if there
    is no such position or power.
    """
    if not 0 <= power < atlas.N_POWERS:
        raise ValueError(f"unknown power {power}: powers are 0 to {atlas.N_POWERS - 1}")
    return next((t for t in turns(positions, i) if t.power == power), None)


def parse_joint(this: Turn, texts: Sequence[str]) -> Joint:
    """Order ids of the texts of a joint order in slot order. ValueError if one cannot be read or is
    not legal.
    """
    joint = _ids(this, texts)
    this.check(joint)
    return joint


def _ids(this: Turn, texts: Sequence[str]) -> Joint:
    """Order ids of texts, in their order. ValueError that names the turn if one cannot be read."""
    where = f"{this.name} {this.phase}"
    if not isinstance(texts, (list, tuple)):
        raise ValueError(f"{where}: orders must be a list of texts, not {texts!r}")
    try:
        return tuple(from_text(text, this.boards) for text in texts)
    except ValueError as fault:
        raise ValueError(f"{where}: {fault}") from None


def sorted_joint(this: Turn, texts: Sequence[str]) -> Joint:
    """As `parse_joint` for texts in any order, waives may be left out; slots are filled in
    canonical order.
    """
    ids = sorted(_ids(this, texts), key=lambda order: v.CANONICAL[order])
    if this.adjusts > 0:
        ids += [WAIVE_ID] * (this.slots - len(ids))
    this.check(tuple(ids))
    return tuple(ids)


def expand(positions: Boards, joints: Sequence[Mapping[int, Joint]]) -> Orders:
    """One row of orders per dict power -> joint. `positions` has as many rows, or one for all.
    Powers left out give no orders. ValueError if two orders are for one province, an id does not
    exist, or an order is for a unit that its power does not have there.
    """
    if positions.n not in (1, len(joints)):
        raise ValueError(
            f"{len(joints)} rows for {positions.n} positions: need one position, or one each"
        )
    for n, row in enumerate(joints):
        if not isinstance(row, Mapping) or not all(map(np.iterable, row.values())):
            raise ValueError(
                f"row {n}: joint orders must be tuples by number of power, not {row!r}"
            )
    given = [
        (n, power, order)
        for n, row in enumerate(joints)
        for power in sorted(row)
        for order in row[power]
        if order != WAIVE_ID
    ]
    rows, powers, ids = _whole(given).T
    entries = v.EXPANSION[ids]
    places = rows * atlas.N_PROVINCES + entries[:, 0]
    if len(np.unique(places)) < len(places):
        twice = entries[np.argsort(places)[:-1][np.diff(np.sort(places)) == 0][0], 0]
        raise ValueError(
            f"two orders for one unit, in {atlas.CODES[twice]}: give one order for each"
        )
    _check_owners(positions, rows, powers, ids)
    result = no_orders(len(joints))
    for field, column in zip(result, entries.T[1:]):
        field[rows, entries[:, 0]] = column
    return result


def _whole(given: list[tuple]) -> np.ndarray:
    """(row, power, id) as int64 (orders, 3). ValueError for a power or an id that does not
    exist.
    """
    table = np.array(given).reshape(-1, 3)
    if len(given) and table.dtype.kind not in "iu":
        raise ValueError("joint orders must be tuples of order ids by number of power, 0 to 6")
    wrong = (table[:, 1] < 0) | (table[:, 1] >= atlas.N_POWERS)
    wrong |= (table[:, 2] < 0) | (table[:, 2] >= v.SIZE)
    if wrong.any():
        n, power, order = table[np.argmax(wrong)].tolist()
        raise ValueError(
            f"row {n}: power {power} with order id {order}: powers are 0 to 6, "
            f"ids 0 to {v.SIZE - 1}"
        )
    return table.astype(np.int64)


def _check_owners(positions: Boards, rows, powers, ids) -> None:
    """ValueError for the first order to a unit that its power does not have there, or to a home
    centre that is not its own.
    """
    board_of = rows if positions.n > 1 else np.zeros_like(rows)
    unit, place, kind = v.VOCABULARY[ids, : v.KIND + 1].astype(np.int64).T
    p, retreats = v.EXPANSION[ids, 0], np.isin(positions.phase[board_of], boards.RETREATS)
    found = [
        np.where(retreats, lost[board_of, p], standing[board_of, p])
        for standing, lost in zip(positions[:3], positions[4:7])
    ]
    good = (found[0] == unit) & (found[1] == powers) & (found[2] == place)
    builds = np.isin(kind, (boards.BUILD_ARMY, boards.BUILD_FLEET))
    good = np.where(builds, positions.owner[board_of, p] == powers, good)
    if not good.all():
        k = int(np.argmin(good))
        raise ValueError(
            f"{atlas.POWERS[powers[k]]} {phase_name(positions, int(board_of[k]))}: "
            f"{to_text(int(ids[k]))!r} is for a unit or a centre that it does not have"
        )


def joint_table(candidates: Sequence[Sequence[Joint]]) -> np.ndarray:
    """Candidates of the seven powers as int32 (7, K, L), padded with -1: K the most candidates, L
    the longest joint order. ValueError if there are not seven, or an id does not exist.
    """
    if len(candidates) != atlas.N_POWERS:
        raise ValueError(f"candidates of {len(candidates)} powers: need seven lists")
    most = max((len(joints) for joints in candidates), default=0)
    longest = max((len(joint) for joints in candidates for joint in joints), default=0)
    table = np.full((atlas.N_POWERS, max(most, 1), max(longest, 1)), -1, np.int32)
    for power, joints in enumerate(candidates):
        for k, joint in enumerate(joints):
            table[power, k, : len(joint)] = joint
    return _checked_table(table)


def _checked_table(table: np.ndarray) -> np.ndarray:
    """The table in the layout of the kernel. ValueError for another shape, or ids that do not
    exist.
    """
    shaped = isinstance(table, np.ndarray) and table.dtype.kind in "iu" and table.ndim == 3
    if not shaped or len(table) != atlas.N_POWERS:
        raise ValueError("candidates must be an array of order ids (7, K, L): see joint_table")
    if table.size and (table.min() < -1 or table.max() >= v.SIZE):
        raise ValueError(f"order ids of candidates must be 0 to {v.SIZE - 1}, -1 for none")
    return np.ascontiguousarray(table, np.int32)


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
    (7, K, L) padded with -1, picks integers (N, 7), -1 where a power gives no orders. ValueError
    for other shapes, a pick that is not below K, an id that does not exist.
    """
    table, picks = _checked_table(table), np.asarray(picks)
    if picks.ndim != 2 or picks.shape[1] != atlas.N_POWERS or picks.dtype.kind not in "iu":
        raise ValueError(f"picks must be integers (N, 7), not {picks.dtype} {picks.shape}")
    if picks.size and not -1 <= picks.min() <= picks.max() < table.shape[1]:
        worst = picks.min() if picks.min() < -1 else picks.max()
        raise ValueError(
            f"pick {worst} of {table.shape[1]} candidates: picks count from 0, -1 for none"
        )
    result = no_orders(len(picks))
    _expand_picks(v.EXPANSION, table, np.ascontiguousarray(picks, np.int32), *result)
    return result
