"""What a player is, and the simplest ones: hold, uniform over legal orders, random moves.

A policy answers many turns at once, one generator per turn, so that a game is the same whichever
games are played beside it. An *explicit* policy also tells the exact probability of any legal
joint order; the search needs that of its anchor. The rule-based players are in `dumbbot` and
`softbot`.
"""

from typing import Protocol, Sequence

import numpy as np

from dipllm_lib.dip import boards, vocabulary
from dipllm_lib.dip.dumbbot import DumbBot, canonical
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.softbot import SoftDumbBot

__all__ = [
    "Cooling", "DumbBot", "Explicit", "Hold", "Policy", "RandBot", "RandomLegal", "SoftDumbBot",
]  # fmt: skip


class Policy(Protocol):
    """A player: `name` is its name in tables and figures."""

    name: str

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One legal joint order per turn; rngs[k] belongs to turns[k] alone."""


class Explicit(Policy, Protocol):
    """A policy with an exact probability."""

    def log_prob(self, turn: Turn, joints: Sequence[Joint]) -> np.ndarray:
        """(K,) log-probabilities, float64. ValueError for a joint order that is not legal."""

    def sample(self, turn: Turn, n: int, rng: np.random.Generator) -> list[Joint]:
        """n independent joint orders."""


class Hold:
    """Every unit holds, retreats disband, builds are waived, removals are random."""

    name = "Hold"

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        return [self._turn(turn, rng) for turn, rng in zip(turns, rngs)]

    def _turn(self, turn: Turn, rng: np.random.Generator) -> Joint:
        if turn.adjusts > 0:
            return canonical([], turn.slots)
        if turn.adjusts < 0:
            return random_set(turn, rng)
        wanted = boards.HOLD if int(turn.boards.phase[0]) in boards.MOVES else boards.DISBAND
        return tuple(int(of_kind(ids, wanted)[0]) for ids in turn.lists)


class RandBot:
    """Each unit moves to a uniform adjacent place; retreats disband; builds, removals random."""

    name = "RandBot"

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        return [self._turn(turn, rng) for turn, rng in zip(turns, rngs)]

    def _turn(self, turn: Turn, rng: np.random.Generator) -> Joint:
        if turn.adjusts:
            return random_set(turn, rng)
        if int(turn.boards.phase[0]) in boards.RETREATS:
            return tuple(int(of_kind(ids, boards.DISBAND)[0]) for ids in turn.lists)
        moves = [of_kind(ids, boards.MOVE) for ids in turn.lists]
        moves = [ids[vocabulary.VOCABULARY[ids, vocabulary.VIA] == 0] for ids in moves]
        return tuple(int(ids[rng.integers(len(ids))]) for ids in moves)


class RandomLegal:
    """Slot by slot uniform over the legal orders: explicit."""

    name = "RandomLegal"

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        return [self.sample(turn, 1, rng)[0] for turn, rng in zip(turns, rngs)]

    def sample(self, turn: Turn, n: int, rng: np.random.Generator) -> list[Joint]:
        """n independent joint orders."""
        if not turn.adjusts:
            columns = [ids[rng.integers(len(ids), size=n)] for ids in turn.lists]
            return [tuple(row) for row in np.column_stack(columns).tolist()]
        joints = []
        for _ in range(n):
            joint: Joint = ()
            while len(joint) < turn.slots:
                ids = turn.options(joint)
                joint += (int(ids[rng.integers(len(ids))]),)
            joints.append(joint)
        return joints

    def log_prob(self, turn: Turn, joints: Sequence[Joint]) -> np.ndarray:
        """(K,) minus the sum over slots of the log of the number of legal orders."""
        result = np.zeros(len(joints))
        for k, joint in enumerate(joints):
            turn.check(tuple(joint))
            sizes = [len(turn.options(tuple(joint[:d]))) for d in range(turn.slots)]
            result[k] = -np.sum(np.log(sizes))
        return result


def of_kind(ids: np.ndarray, kind: int) -> np.ndarray:
    """The orders of one kind."""
    return ids[vocabulary.VOCABULARY[ids, vocabulary.KIND] == kind]


def random_set(turn: Turn, rng: np.random.Generator) -> Joint:
    """Random builds or removals of an adjustment turn: uniform orders one after the other, never
    two in one province, as many as are due."""
    pool, chosen = turn.lists[0], []
    while len(chosen) < turn.slots:
        pick = int(pool[rng.integers(len(pool))])
        chosen.append(pick)
        province = vocabulary.EXPANSION[:, 0]
        pool = pool[province[pool] != province[pick]]
    return canonical(chosen, turn.slots)


class Cooling:
    """Draws from one policy in the years before `year` and from another one from then on."""

    def __init__(self, before: Policy, after: Policy, year: int):
        self.before, self.after, self.year, self.name = before, after, year, after.name

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        early = [int(turn.boards.year[0]) < self.year for turn in turns]
        joints: dict[int, Joint] = {}
        for policy, which in ((self.before, True), (self.after, False)):
            rows = [k for k, own in enumerate(early) if own is which]
            if rows:
                found = policy.act([turns[k] for k in rows], [rngs[k] for k in rows])
                joints |= dict(zip(rows, found, strict=True))
        return [joints[k] for k in range(len(turns))]
