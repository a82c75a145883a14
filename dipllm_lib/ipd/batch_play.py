"""Games of all stacked agents at once: the mixed pool.

A stack holds A agents. Agent i plays n games: the first p against its partner, agent i xor 1, the
others against tabular agents of its own. Partner games are shared: game g of agent i is game g of
agent i xor 1 seen from the other seat, and each seat keeps its own view. With a rival (a second
stack of A frozen agents) the first p games of agent i are against agent i of the rival.

All chance is drawn before the first round, by each agent's own generators: a uniform number for
every action of the agent, a standard normal number for every decision (the decision noise of the
learned Q), a uniform number for every action of its tabular opponents. Two arms of an ablation can
therefore share them, and an agent's draws do not depend on who else is in the stack.

Shapes: A agents, n games each, p of them against learners, T rounds. Codes of rounds are those of
`game`, 1 = CC … 4 = DD in the agent's own view.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from dipllm_lib.ipd import game, tabular

SWAP = torch.from_numpy(game.SWAP.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Table:
    """Who sits opposite of each agent in a batch of games.

    learners: p, the first p games are against learners · vectors: (A, n - p, 5) float32 tabular
    opponents, s0 first · z: (A, n, 10) what the agents are told, or None
    """

    learners: int
    vectors: torch.Tensor
    z: torch.Tensor | None = None

    @property
    def n(self) -> int:
        """Games of each agent."""
        return self.learners + self.vectors.shape[1]

    def part(self, first: int, last: int) -> "Table":
        """The games first … last - 1."""
        learners = min(max(self.learners - first, 0), last - first)
        start, stop = max(first - self.learners, 0), max(last - self.learners, 0)
        z = None if self.z is None else self.z[:, first:last]
        return Table(learners, self.vectors[:, start:stop], z)


@dataclass(frozen=True, eq=False)
class Draws:
    """Chance of a batch of games, each (T, A, n) float32: uniform for own actions, standard normal
    for decisions, uniform for the actions of tabular opponents (T, A, n - p)."""

    own: torch.Tensor
    noise: torch.Tensor
    tabular: torch.Tensor

    def part(self, table: Table, first: int, last: int) -> "Draws":
        """The draws of the games first … last - 1 of `table`."""
        start, stop = max(first - table.learners, 0), max(last - table.learners, 0)
        own, noise = self.own[:, :, first:last], self.noise[:, :, first:last]
        return Draws(own, noise, self.tabular[:, :, start:stop])


class Actor(Protocol):
    """A stack of agents that plays; `act` gets everything random as an argument."""

    chunk: int  # games of each agent that are played side by side

    def start(self, table: Table) -> Any:
        """The state before the first round."""

    def act(
        self, state: Any, obs: torch.Tensor, u: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, Any]:
        """Actions bool (A, n), True = C, and the next state. obs: int64 (A, n) · u, noise (A, n)"""


class MemoryOne:
    """An Actor whose agents all play one memory-one strategy."""

    chunk = 4096

    def __init__(self, vector: np.ndarray):
        """vector: (5,), s0 first; ValueError as in `tabular.check`."""
        self.vector = torch.from_numpy(tabular.check(vector)[0].astype(np.float32))

    def start(self, table: Table) -> None:
        """No state: what counts is the last round."""

    def act(
        self, state: None, obs: torch.Tensor, u: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        """C where u < P(C | obs)."""
        return u < self.vector[obs], None


def draws(
    own: Sequence[np.random.Generator],
    noise: Sequence[np.random.Generator],
    replies: Sequence[np.random.Generator],
    table: Table,
    rounds: int,
) -> Draws:
    """Chance of a batch of games; one generator per agent and purpose."""
    n, m = table.n, table.vectors.shape[1]

    def stacked(streams, size, normal=False):
        rows = [
            s.standard_normal((size, rounds), np.float32)
            if normal
            else s.random((size, rounds), np.float32)
            for s in streams
        ]
        return torch.from_numpy(np.ascontiguousarray(np.stack(rows).transpose(2, 0, 1)))

    return Draws(stacked(own, n), stacked(noise, n, normal=True), stacked(replies, m))


@torch.inference_mode()
def play(
    actor: Actor,
    table: Table,
    chance: Draws,
    rival: tuple[Actor, Draws] | None = None,
) -> np.ndarray:
    """Codes uint8 (A, n, T) of all games in each agent's own view.

    rival: frozen agents for the games against learners, with their own chance for these p games.
    ValueError for partner games of an odd number of agents.
    """
    rounds, agents, n = chance.own.shape
    if table.learners and rival is None and agents % 2:
        raise ValueError(f"{agents} agents cannot be paired for games against each other")
    codes = np.empty((agents, n, rounds), dtype=np.uint8)
    for first in range(0, n, actor.chunk):
        last = min(first + actor.chunk, n)
        part = table.part(first, last)
        against = None
        if rival is not None and part.learners:
            other = Table(part.learners, part.vectors[:, :0], None)
            against = (
                rival[0],
                rival[0].start(other),
                rival[1].part(other, first, first + part.learners),
            )
        own = chance.part(table, first, last)
        codes[:, first:last] = _play(actor, part, own, against).numpy().transpose(1, 2, 0)
    return codes


def _play(actor: Actor, table: Table, chance: Draws, against: tuple | None) -> torch.Tensor:
    """Codes uint8 (T, A, n) of one chunk."""
    rounds, agents, n = chance.own.shape
    p, partner = table.learners, torch.arange(agents) ^ 1
    codes = torch.empty((rounds, agents, n), dtype=torch.uint8)
    state, obs = actor.start(table), torch.zeros((agents, n), dtype=torch.int64)
    for t in range(rounds):
        own, state = actor.act(state, obs, chance.own[t], chance.noise[t])
        seen = SWAP[obs]
        others = chance.tabular[t] < table.vectors.gather(2, seen[:, p:, None])[..., 0]
        if p and against is None:
            others = torch.cat([own[partner, :p], others], dim=1)
        elif p:
            player, memory, luck = against
            reply, memory = player.act(memory, seen[:, :p], luck.own[t], luck.noise[t])
            against = (player, memory, luck)
            others = torch.cat([reply, others], dim=1)
        obs = game.DD - 2 * own.long() - others.long()
        codes[t] = obs
    return codes


def own_actions(codes: np.ndarray) -> np.ndarray:
    """uint8 own actions, 1 = C, of codes of rounds."""
    return (codes <= game.CD).astype(np.uint8)


def other_actions(codes: np.ndarray) -> np.ndarray:
    """uint8 actions of the opponent, 1 = C, of codes of rounds."""
    return (codes % 2).astype(np.uint8)


def before(codes: np.ndarray) -> np.ndarray:
    """What is seen before each round: codes (…, T) moved by one round, first s0."""
    seen = np.zeros_like(codes)
    seen[..., 1:] = codes[..., :-1]
    return seen
