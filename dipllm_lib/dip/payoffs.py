"""Utilities of joint orders of all powers, each resolved and valued once, many positions at once.

A `Payoffs` belongs to one position and its candidates. `lookup` answers for several of them: the
joint orders that none has met before go through the adjudicator and the value function in one
batch. With a rollout the value is taken some phases later, after orders of a policy; each joint
order has a generator of its own, so its value does not depend on when or beside what it is met.

Shapes: P powers with a turn on a position, N joint orders of all powers.
"""

from typing import Callable, NamedTuple, Sequence

import numpy as np

from dipllm_lib.dip import atlas, orders, rules
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.run import seeding

ValueFunction = Callable[[Boards], np.ndarray]


class Lookahead(NamedTuple):
    """What a resolved position is worth: value_fn (Boards -> (N, 7)), `phases` later when all
    powers follow `policy`."""

    value_fn: ValueFunction
    phases: int = 0
    policy: object = None

    def values(self, after: Boards, names: Sequence[tuple[int, int]]) -> np.ndarray:
        """(N, 7) values; `names` seed the rollout of each row and are read with phases > 0 only."""
        if self.phases == 0:
            return self.value_fn(after)
        rngs = [seeding.child(seed, "rollout", key) for seed, key in names]
        for _ in range(self.phases):
            after = self._one_phase(after, rngs)
        return self.value_fn(after)

    def _one_phase(self, boards: Boards, rngs: Sequence[np.random.Generator]) -> Boards:
        turns = orders.all_turns(boards)
        flat = [turn for own in turns for turn in own]
        generators = [rng for own, rng in zip(turns, rngs, strict=True) for _ in own]
        joints = iter(self.policy.act(flat, generators))
        given = [{turn.power: next(joints) for turn in own} for own in turns]
        return rules.resolve(boards, orders.expand(boards, given))[0]


class Payoffs:
    """Values of joint orders of all powers on one position; `seed` names its rollouts."""

    def __init__(self, turns: Sequence[Turn], boards: Boards, joints, seed: int = 0):
        self.boards, self.seed = boards, seed
        self.powers = np.array([turn.power for turn in turns])
        self.sizes = np.array([len(own) for own in joints])
        per_power: list[Sequence[Joint]] = [[] for _ in range(atlas.N_POWERS)]
        for power, own in zip(self.powers, joints, strict=True):
            per_power[power] = own
        self.table = orders.joint_table(per_power)
        # one integer per joint order of all powers: mixed radix
        radix = [1]
        for size in self.sizes[:-1]:
            radix.append(radix[-1] * int(size))
        if radix[-1] * int(self.sizes[-1]) >= 2**63:
            raise ValueError(
                "too many joint orders of all powers for 64 bits: lower the candidates"
            )
        self.radix = np.array(radix, dtype=np.int64)
        self.known: dict[int, int] = {}
        self.values = np.empty((1024, atlas.N_POWERS), np.float32)

    def missing(self, picks: np.ndarray) -> tuple[list[int], list[int], list[int]]:
        """(key of every row, new keys, first row of each new key); picks (N, P)."""
        keys = (picks @ self.radix).tolist()
        new: dict[int, int] = {}
        for row, key in enumerate(keys):
            if key not in self.known and key not in new:
                new[key] = row
        return keys, list(new), list(new.values())

    def orders(self, picks: np.ndarray) -> Orders:
        """The orders of rows of picks (N, P)."""
        rows = np.full((len(picks), atlas.N_POWERS), -1, np.int16)
        rows[:, self.powers] = picks
        return orders.expand_picks(self.table, rows)

    def store(self, keys: list[int], values: np.ndarray) -> None:
        """Remember the values (N, 7) of new keys."""
        first, last = len(self.known), len(self.known) + len(keys)
        while last > len(self.values):
            self.values = np.concatenate([self.values, np.empty_like(self.values)])
        self.values[first:last] = values
        self.known.update(zip(keys, range(first, last)))


def lookup(
    tables: Sequence[Payoffs], picks: Sequence[np.ndarray], ahead: Lookahead
) -> list[np.ndarray]:
    """Per position (N, 7) float32 values after the phase; picks[k] (N, P): candidates of each power
    on position k."""
    found = [table.missing(rows) for table, rows in zip(tables, picks, strict=True)]
    asked = [k for k, (_, new, _) in enumerate(found) if new]
    if asked:
        given = [tables[k].orders(picks[k][found[k][2]]) for k in asked]
        names = [(tables[k].seed, key) for k in asked for key in found[k][1]]
        values = ahead.values(_resolve([tables[k].boards for k in asked], given), names)
        first = 0
        for k in asked:
            last = first + len(found[k][1])
            tables[k].store(found[k][1], values[first:last])
            first = last
    return [
        table.values[[table.known[key] for key in keys]]
        for table, (keys, _, _) in zip(tables, found, strict=True)
    ]


def _resolve(positions: Sequence[Boards], given: Sequence[Orders]) -> Boards:
    """Next positions of all rows, in order."""
    if len(positions) == 1:
        return rules.resolve(positions[0], given[0])[0]
    together = Orders(*(np.concatenate(field) for field in zip(*given)))
    board_of = np.repeat(np.arange(len(positions)), [rows.n for rows in given])
    return rules.resolve(Boards.concat(list(positions)), together, board_of)[0]


def variations(picks: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(Σ K_i, P): the drawn candidates, that of power i replaced by each of its own, i in turn."""
    rows = np.repeat(picks[None, :], int(sizes.sum()), axis=0)
    at = 0
    for i, size in enumerate(sizes):
        rows[at : at + size, i] = np.arange(size)
        at += size
    return rows
