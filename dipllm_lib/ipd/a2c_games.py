"""The games of one iteration of A2C: what is drawn, and how a stack plays it.

A learner has N games: first those against the other learner of its seed (or a frozen agent), then
those against tabular agents of its own, as in `batch_play`. All chance of an iteration is drawn
before it starts, from generators named by seed, stream, seat and iteration. So a training that is
resumed goes on as if never stopped, a seed plays the same games in a stack of any size, and two
arms of an ablation share their random numbers.

Shapes: A agents, N games of each, p of them against learners, T rounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dipllm_lib.ipd import a2c_loss, batch_play, identity, tabular
from dipllm_lib.ipd.a2c_settings import A2CSettings
from dipllm_lib.ipd.batch_play import Draws, Table
from dipllm_lib.ipd.models import Stack
from dipllm_lib.run import seeding


def read(stack: Stack, features: Tensor) -> tuple[Tensor, Tensor]:
    """Log-odds of C and value of features (A, …, F), each (A, …)."""
    heads = stack.read(features)
    return heads["policy"][..., 0] - heads["policy"][..., 1], heads["value"]


@dataclass(frozen=True, eq=False)
class Actor:
    """A trained stack as the players of `batch_play`: C where u < pi'(C), with a floor epsilon.

    Where its model expects an identity and the table has none, it is told 0, a learner. values: a
    list that gets the values (A, n) of every round, in the order of play.
    """

    stack: Stack
    epsilon: float = 0.0
    chunk: int = 512
    values: list[Tensor] | None = None

    def start(self, table: Table) -> Any:
        """The state before the first round of the table's games."""
        z, size = table.z, self.stack.settings.z
        if size and z is None:
            z = torch.zeros(self.stack.agents, table.n, size)
        return self.stack.start(table.n, z=z if size else None)

    @torch.no_grad()
    def act(self, state: Any, obs: Tensor, u: Tensor, noise: Tensor) -> tuple[Tensor, Any]:
        """Actions bool (A, n) and the next state; `noise` is not used."""
        features, state = self.stack.step(state, obs)
        odds, values = read(self.stack, features)
        if self.values is not None:
            self.values.append(values)
        return u < a2c_loss.floored(odds, self.epsilon), state


@dataclass(frozen=True, eq=False)
class Chance:
    """All that is drawn for one iteration: who sits opposite, the games' random numbers, and those
    of a frozen opponent (None without one).
    """

    table: Table
    draws: Draws
    frozen: Draws | None


def draw(
    settings: A2CSettings, seeds: Sequence[int], stream: str, iteration: int, frozen: bool = False
) -> Chance:
    """The chance of `iteration` for every learner of every seed."""
    agents = [(seed, seat) for seed in seeds for seat in range(settings.learners)]

    def streams(kind: str) -> list[np.random.Generator]:
        names = "ipd", "a2c", stream, kind
        return [seeding.child(seed, *names, seat, iteration) for seed, seat in agents]

    rounds, first = settings.model.rounds, settings.other_games
    pools = streams("tabular")
    vectors = [_opponents(settings, iteration, rng) for rng in pools]
    told = None
    if settings.identity != "none":
        a, pool = settings.beta.at(iteration), settings.pool
        rngs = streams("identity")
        shown = [
            identity.shown(settings.identity, first, own, pool, rng, a)
            for own, rng in zip(vectors, rngs, strict=True)
        ]
        told = _floats(shown)
    table = Table(first, _floats(vectors), told)
    nothing = torch.empty(rounds, len(agents), 0)  # the policy itself is random, no decision noise
    own = Draws(
        _uniform(streams("own"), settings.games, rounds),
        nothing,
        _uniform(pools, settings.tabular_games, rounds),
    )
    rival = None
    if frozen:
        opposite = Table(first, table.vectors[:, :0])
        purposes = streams("frozen"), streams("frozen noise"), streams("nobody")
        rival = batch_play.draws(*purposes, opposite, rounds)
    return Chance(table, own, rival)


def _opponents(settings: A2CSettings, iteration: int, rng: np.random.Generator) -> np.ndarray:
    """(N - p, 5) tabular agents of one learner."""
    count, a = settings.tabular_games, settings.beta.at(iteration)
    return tabular.sample(settings.pool, count, rng, a) if count else np.empty((0, 5))


def _uniform(streams: Sequence[np.random.Generator], n: int, rounds: int) -> Tensor:
    """(T, A, n) float32."""
    parts = np.stack([rng.random((n, rounds), dtype=np.float32) for rng in streams])
    return torch.from_numpy(np.ascontiguousarray(parts.transpose(2, 0, 1)))


def _floats(parts: Sequence[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(parts).astype(np.float32))


@dataclass(frozen=True, eq=False)
class Games:
    """What was played. obs int64, own and other (1.0 = C) and values float32, each (A, N, T)."""

    obs: Tensor
    own: Tensor
    other: Tensor
    values: Tensor


def play(
    stack: Stack, chance: Chance, epsilon: float, frozen: batch_play.Actor | None = None
) -> Games:
    """All games of an iteration; epsilon: floor of the learners.

    frozen: agents whom the learners meet instead of each other, its agent i plays learner i.
    ValueError for games of an odd number of learners against each other.
    """
    values: list[Tensor] = []
    actor = Actor(stack, epsilon, chunk=chance.table.n, values=values)
    rival = None if frozen is None else (frozen, chance.frozen)
    codes = batch_play.play(actor, chance.table, chance.draws, rival)
    obs, own, other = (
        torch.from_numpy(part(codes))
        for part in (batch_play.before, batch_play.own_actions, batch_play.other_actions)
    )
    return Games(obs.long(), own.float(), other.float(), torch.stack(values, dim=2))
