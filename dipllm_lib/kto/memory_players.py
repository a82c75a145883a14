"""Learned players of an `arena`: a window of rounds, the window with a store, or all rounds.

At round t a player sees the last W rounds, what is so now (public state, rules as stated, t/T) and,
in the arm with a store, what it reads from a `KeyValueStore` into which every round was written. A
small network turns that into logits; it is trained on its own play by

    loss = mean over rounds of (max_a Q(h, a) - sum_a pi(a|h) Q(h, a)) / scale,

the exact regret when the rules of every round are known, which the player does not know. Half of
the training episodes have one change, at a drawn round, announced or silent.

    window            W = 8                  window + store    W = 8 and the store
    full history      W = T                  all have the same hidden layer

Shapes: B episodes, T rounds, F features of a round, N of now; logits (B, A).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dipllm_lib.kto import arena as arenas
from dipllm_lib.kto.arena import Arena, Log
from dipllm_lib.kto.memory import SIZE, KeyValueStore
from dipllm_lib.run import seeding

ARMS = WINDOW, STORE, FULL = ("window", "window + store", "full history")
SHOWN = 8  # rounds of the window
HIDDEN = 48
MIX, ENTROPY = 0.6, 0.1  # of uniform play, and of the entropy in the loss, at the first step


@dataclass(frozen=True)
class Mixed:
    """A player that plays uniformly with probability `share`."""

    player: Callable[[Log], np.ndarray]
    share: float

    def __call__(self, log: Log) -> np.ndarray:
        """(B, A)."""
        row = self.player(log)
        return (1 - self.share) * row + self.share / row.shape[1]


@dataclass(frozen=True)
class Size:
    """rounds: T · iterations of play and training · updates of each · batch: episodes · rate: of
    Adam."""

    rounds: int = 40
    iterations: int = 60
    updates: int = 4
    batch: int = 64
    rate: float = 0.01


class Player(torch.nn.Module):
    """One arm in one arena. It answers a `Log` with distributions (B, A)."""

    def __init__(self, arena: Arena, arm: str, rounds: int, seed: int):
        super().__init__()
        if arm not in ARMS:
            raise ValueError(f"unknown arm {arm!r}: use one of {', '.join(ARMS)}")
        self.arena, self.rounds = arena, rounds
        self.shown = rounds if arm == FULL else SHOWN
        self.rules = int(arena.rules.max()) + 1
        features, now = arena.states + 2, arena.states + self.rules + 1
        asked = self.shown * features + now
        self.store = KeyValueStore(features, asked, seed=seed) if arm == STORE else None
        with seeding.torch_seed(seed, "kto", "memory player", arena.name, arm):
            inputs = asked + (SIZE if self.store is not None else 0)
            self.hidden = torch.nn.Linear(inputs, HIDDEN)
            self.out = torch.nn.Linear(HIDDEN, arena.actions)

    def seen(self, log: Log) -> tuple[torch.Tensor, torch.Tensor]:
        """Features of the finished rounds (B, t, F), and of now at rounds 0 … t (B, t+1, N)."""
        eye, count = np.eye(self.arena.states, dtype=np.float32), len(log.states)
        number = np.arange(log.round + 1, dtype=np.float32) / self.rounds
        number = np.broadcast_to(number[None, :, None], (count, log.round + 1, 1))
        paid = (log.paid / self.arena.scale).astype(np.float32)[..., None]
        past = np.concatenate([eye[log.states[:, 1:]], paid, number[:, 1:]], axis=2)
        stated = log.told.copy()
        for t in range(1, stated.shape[1]):
            stated[:, t] = np.where(stated[:, t] < 0, stated[:, t - 1], stated[:, t])
        rules = np.eye(self.rules, dtype=np.float32)[stated]
        now = np.concatenate([eye[log.states], rules, number], axis=2)
        return torch.from_numpy(past), torch.from_numpy(now)

    def logits(self, log: Log) -> torch.Tensor:
        """(B, t+1, A) at rounds 0 … t, in one pass."""
        past, now = self.seen(log)
        padded = torch.nn.functional.pad(past, (0, 0, self.shown, 0))
        windows = padded.unfold(1, self.shown, 1).transpose(2, 3).flatten(2)
        parts = [windows, now]
        if self.store is not None:
            question = torch.cat(parts, 2)
            filled = torch.nn.functional.pad(past, (0, 0, 0, 1))  # the round of now is not over
            parts.append(self.store.read_all(filled, question))
        return self.out(torch.tanh(self.hidden(torch.cat(parts, 2))))

    def last_logits(self, log: Log) -> torch.Tensor:
        """(B, A) at the round of now: `logits` at the end, without the rounds before."""
        past, now = self.seen(log)
        window = torch.nn.functional.pad(past, (0, 0, self.shown, 0))[:, -self.shown :]
        parts = [window.flatten(1), now[:, -1]]
        if self.store is not None:
            question, read = torch.cat(parts, 1), torch.zeros(len(past), SIZE)
            if log.round:
                self.store.clear()
                for t in range(log.round):
                    self.store.write(past[:, t])
                read = self.store.read(question)
            parts.append(read)
        return self.out(torch.tanh(self.hidden(torch.cat(parts, 1))))

    @torch.no_grad()
    def __call__(self, log: Log) -> np.ndarray:
        """(B, A) the distributions of now."""
        return torch.softmax(self.last_logits(log), 1).double().numpy()


def play(
    player, arena: Arena, types: np.ndarray, told: np.ndarray, rng: np.random.Generator
) -> tuple[Log, np.ndarray]:
    """B episodes and the distributions (B, T, A) that were drawn from.

    player: Log -> (B, A) · types, told: int (B, T), told -1 where nothing is announced. The last
    column of states is the end. Two uniform numbers per episode and round.
    """
    count, rounds = types.shape
    states = np.zeros((count, rounds + 1), dtype=np.int64)
    actions, answers = (np.zeros((count, rounds), dtype=np.int64) for _ in range(2))
    paid, chances = np.zeros((count, rounds)), np.empty((count, rounds, arena.actions))
    said = np.concatenate([told, np.full((count, 1), -1)], axis=1)
    log = Log(states, actions, answers, paid, said)
    for t in range(rounds):
        row = player(log.cut(t))
        chances[:, t] = row
        total = np.cumsum(row, axis=1)
        draw = rng.random((2, count))
        action = (total < draw[0][:, None] * total[:, -1:]).sum(axis=1)
        good = arena.good[types[:, t], states[:, t], action]
        answer = np.where(draw[1] < good, arenas.GOOD, arenas.BAD)
        actions[:, t], answers[:, t] = action, answer
        paid[:, t] = arena.pays[types[:, t], action, answer]
        states[:, t + 1] = 1 + 2 * action + answer
    return log, chances


def episodes(
    arena: Arena, rounds: int, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Types and announcements (count, T) for training: half of them change once, evenly over
    rounds 4 … T-4; half of the changes of rules are announced. The first rules are always told."""
    first, second = rng.integers(len(arena.labels), size=(2, count))
    at = rng.integers(4, max(5, rounds - 3), size=count)
    at = np.where(rng.random(count) < 0.5, at, rounds)
    announced = rng.random(count) < 0.5
    return paths(arena, rounds, first, second, at, announced)


def paths(arena: Arena, rounds: int, first, second, at, announced) -> tuple[np.ndarray, np.ndarray]:
    """Types and announcements (B, T): `first` before round `at`, `second` from then on."""
    first, second, at, announced = np.broadcast_arrays(first, second, at, announced)
    later = np.arange(rounds) >= at[:, None]
    types = np.where(later, second[:, None], first[:, None])
    told = np.full(types.shape, -1)
    told[:, 0] = arena.rules[first]
    rows = np.flatnonzero(announced & (at < rounds) & (at > 0))
    told[rows, at[rows]] = arena.rules[second[rows]]
    return types, told


def train(arena: Arena, arm: str, size: Size, seed: int) -> Player:
    """A trained player of one seed."""
    player = Player(arena, arm, size.rounds, seed)
    optimiser = torch.optim.Adam(player.parameters(), size.rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.1, size.iterations)
    for step in range(size.iterations):
        left = 1 - step / size.iterations
        rng = seeding.child(seed, "kto", "memory player", arena.name, step)
        types, told = episodes(arena, size.rounds, size.batch, rng)
        log, _ = play(Mixed(player, MIX * left), arena, types, told, rng)
        quality = torch.from_numpy(best_values(arena, log, types) / arena.scale).float()
        for _ in range(size.updates):
            chances = torch.softmax(player.logits(log.cut(size.rounds - 1)), 2)
            loss = (quality.amax(2) - (chances * quality).sum(2)).mean()
            loss = loss - ENTROPY * left * -(chances * torch.log(chances + 1e-9)).sum(2).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    return player


def best_values(arena: Arena, log: Log, types: np.ndarray) -> np.ndarray:
    """(B, T, A) Q at the states that were met."""
    every = arenas.values(arena, types)
    rows, rounds = np.indices(types.shape)
    return every[rows, rounds, log.states[:, :-1]]


def regrets(
    arena: Arena, log: Log, chances: np.ndarray, types: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(B, T) exact regret of every decision, and of a uniform choice in its place, in the unit of
    payoffs."""
    quality = best_values(arena, log, types)
    even = np.full(arena.actions, 1 / arena.actions)
    return arenas.gaps(quality, chances), arenas.gaps(quality, even)
