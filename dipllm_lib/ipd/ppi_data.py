"""Data of PPI: D0, the games of a phase, the store that keeps them, and the prediction limit.

Every draw belongs to one agent, (seed, learner), and has its own generator with a name that holds
no arm of an experiment, so arms share opponents and random numbers.

D0 is play between two random tabular agents, seen from one seat; without a pool both play C with
probability 1/2. A store holds one code per round, in the order in which games were added; phase k
trains on D0 and the games of phases 1 … k - 1.

The limit that a pre-trained model is held against is the loss of the best predictor on the same
games (`prediction`): counts where the agents are unknown, their true probabilities where z tells.

Shapes: A agents, n games each, T rounds; codes are those of `game`, 1 = CC … 4 = DD, own view.
"""

from collections.abc import Sequence

import numpy as np
import torch

from dipllm_lib.ipd import batch_play, game, identity, prediction, tabular
from dipllm_lib.ipd.batch_play import Draws, Table
from dipllm_lib.ipd.ppi_settings import NO_POOL, PPISettings
from dipllm_lib.run import seeding

Agents = Sequence[tuple[int, int]]  # (seed, learner) of each agent of a stack


def generator(agent: tuple[int, int], *names: str | int) -> np.random.Generator:
    """The generator of an agent for one purpose."""
    seed, learner = agent
    return seeding.child(seed, "ipd", "ppi", learner, *names)


def generators(agents: Agents, *names: str | int) -> list[np.random.Generator]:
    """One generator per agent."""
    return [generator(agent, *names) for agent in agents]


class Store:
    """Codes (A, n, T) uint8 of all games so far, and z (A, n, 10) float32 if there is identity."""

    def __init__(self, agents: int, capacity: int, rounds: int, identified: bool):
        self.codes = np.zeros((agents, capacity, rounds), dtype=np.uint8)
        shape = (agents, capacity, identity.SIZE)
        self.z = np.zeros(shape, dtype=np.float32) if identified else None
        self.count = 0

    def add(self, codes: np.ndarray, z: np.ndarray | None) -> None:
        """Append games. ValueError for another shape, for lost z, or beyond the capacity."""
        n, (agents, capacity, rounds) = codes.shape[1], self.codes.shape
        if codes.shape != (agents, n, rounds) or self.count + n > capacity:
            raise ValueError(f"games {codes.shape} do not fit a store of {self.codes.shape}")
        if (z is None) != (self.z is None):
            raise ValueError("games and store must both have identity vectors, or both none")
        self.codes[:, self.count : self.count + n] = codes
        if z is not None:
            self.z[:, self.count : self.count + n] = z
        self.count += n

    def take(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Codes (A, B, T) and z (A, B, 10) of the games index (A, B)."""
        rows = np.arange(len(index))[:, None]
        return self.codes[rows, index], None if self.z is None else self.z[rows, index]


def random_games(
    agents: Agents, settings: PPISettings, n: int, name: str
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """n games per agent between tabular agents: codes (A, n, T), z (A, n, 10) float32 or None, and
    the opponents (A, n, 5). name: of the purpose, as D0 or held out."""
    found = [_random_games(agent, settings, n, name) for agent in agents]
    codes, told, opponents = zip(*found, strict=True)
    z = None if told[0] is None else np.stack(told).astype(np.float32)
    return np.stack(codes), z, np.stack(opponents)


def _random_games(agent: tuple[int, int], settings: PPISettings, n: int, name: str) -> tuple:
    rng = generator(agent, name)
    if settings.pool == NO_POOL:
        own = other = np.tile(tabular.named("random"), (n, 1))
    else:
        own, other = (tabular.sample(settings.pool, n, rng, settings.a) for _ in range(2))
    seats, streams = (tabular.Tabular(own), tabular.Tabular(other)), tuple(rng.spawn(2))
    episodes = game.play(*seats, n, settings.rounds, streams)
    secret = generator(agent, name, "identity")
    z = None
    if settings.pool != NO_POOL:
        z = identity.shown(settings.identity, 0, other, settings.pool, secret, settings.a)
    return game.outcome(episodes.left, episodes.right), z, other


def tables(
    agents: Agents, settings: PPISettings, phase: int, rival: bool
) -> tuple[Table, Draws, Draws | None]:
    """Opponents and chance of the games of a phase; with a rival also the rival's chance."""
    p, m = settings.learner_games, settings.tabular_games
    vectors, told = [], []
    for agent in agents:
        rng = generator(agent, "opponents", phase)
        some = tabular.sample(settings.pool, m, rng, settings.a) if m else np.empty((0, 5))
        secret = generator(agent, "identity", phase)
        vectors.append(some)
        told.append(_told(settings, p, some, secret))
    z = None if told[0] is None else torch.from_numpy(np.stack(told).astype(np.float32))
    table = Table(p, torch.from_numpy(np.stack(vectors).astype(np.float32)), z)
    names = ("actions", "decisions", "replies")
    streams = [generators(agents, name, phase) for name in names]
    chance = batch_play.draws(*streams, table, settings.rounds)
    if not rival:
        return table, chance, None
    others = Table(p, table.vectors[:, :0])
    streams = [generators(agents, f"rival {name}", phase) for name in names]
    return table, chance, batch_play.draws(*streams, others, settings.rounds)


def _told(settings: PPISettings, p: int, vectors: np.ndarray, rng) -> np.ndarray | None:
    if settings.identity == "none":
        return None
    return identity.shown(settings.identity, p, vectors, settings.pool, rng, settings.a)


class Batches:
    """Slices of one permutation after the other: every game once before any comes again."""

    def __init__(self, rng: np.random.Generator, first: int, last: int, size: int):
        if last <= first:
            raise ValueError(f"no games to train on: from {first} to {last}")
        self.rng, self.first, self.last, self.size = rng, first, last, size
        self.left = np.empty(0, dtype=np.int64)

    def next(self) -> np.ndarray:
        """(size,) indices of games."""
        while len(self.left) < self.size:
            order = self.rng.permutation(self.last - self.first) + self.first
            self.left = np.concatenate([self.left, order])
        taken, self.left = self.left[: self.size], self.left[self.size :]
        return taken


def limit(settings: PPISettings, codes: np.ndarray, opponents: np.ndarray) -> np.ndarray:
    """(A,) loss in nats per round of the best prediction of the opponents' actions in D0 games.

    codes (A, n, T), opponents (A, n, 5). ValueError for a pool without a closed form.
    """
    own, other = batch_play.own_actions(codes), batch_play.other_actions(codes)
    if settings.identity in ("opponent", "tabular") or settings.pool in (NO_POOL, "human"):
        seen = game.swap(batch_play.before(codes)).astype(np.int64)
        chance = np.take_along_axis(opponents, seen, axis=2)
        return -np.log(np.where(other == 1, chance, 1.0 - chance)).mean(axis=(1, 2))
    strength = prediction.prior(settings.pool, settings.a)
    pairs = zip(other, own, strict=True)
    return np.array([prediction.losses(*pair, strength).mean() for pair in pairs])
