"""The recall task: what happened L rounds ago decides the best answer now.

Each round shows one of four events, drawn evenly. At round t the right answer is the event of round
t - L. Two players, trained by cross-entropy on fresh episodes:

    window            sees the last eight rounds, as the prompt of the language model does
    window + store    also reads a `KeyValueStore` that has written every round; the question is the
                      number of the round, so that W_q has to learn to look L rounds back

A round's features are the one-hot event and the one-hot number of the round. Chance is 1/4; with
L <= 8 the window is enough.

Shapes: B episodes of t rounds, t drawn from L … L+15 per batch, counted from 0; E = 4 events.
"""

from dataclasses import dataclass

import numpy as np
import torch

from dipllm_lib.kto.memory import SIZE, KeyValueStore
from dipllm_lib.run import seeding

EVENTS, WINDOW, SPARE = 4, 8, 16
ARMS = ("window", "window + store")


@dataclass(frozen=True)
class Size:
    """steps of training · batch: episodes of each · test: episodes of the score · rate: of Adam."""

    steps: int = 300
    batch: int = 64
    test: int = 500
    rate: float = 0.02


class Player(torch.nn.Module):
    """Logits of the four answers. store: with the long-term memory."""

    def __init__(self, lag: int, store: bool, seed: int):
        super().__init__()
        self.rounds = lag + SPARE
        self.store = KeyValueStore(EVENTS + self.rounds, self.rounds, seed=seed) if store else None
        with seeding.torch_seed(seed, "kto", "recall", lag, int(store)):
            self.out = torch.nn.Linear(WINDOW * EVENTS + (SIZE if store else 0), EVENTS)

    def forward(self, events: torch.Tensor) -> torch.Tensor:
        """(B, E) after the events (B, t) of all rounds so far, t at most `rounds`."""
        count, now = events.shape
        shown = torch.nn.functional.one_hot(events, EVENTS).float()
        window = shown.new_zeros(count, WINDOW, EVENTS)
        last = min(now, WINDOW)
        window[:, WINDOW - last :] = shown[:, now - last :]
        parts = [window.flatten(1)]
        if self.store is not None:
            self.store.clear()
            number = torch.eye(self.rounds)
            for t in range(now):
                self.store.write(torch.cat([shown[:, t], number[t].expand(count, -1)], 1))
            parts.append(self.store.read(number[now].expand(count, -1)))
        return self.out(torch.cat(parts, 1))


def episodes(lag: int, count: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Events (count, t) and right answers (count,) for one drawn t."""
    rounds = int(rng.integers(lag, lag + SPARE))
    events = torch.from_numpy(rng.integers(EVENTS, size=(count, rounds)))
    return events, events[:, rounds - lag]


def score(lag: int, store: bool, size: Size, seed: int) -> float:
    """Share of right answers on fresh episodes after training."""
    rng = seeding.child(seed, "kto", "recall", lag, ARMS[store])
    player = Player(lag, store, seed)
    optimiser = torch.optim.Adam(player.parameters(), size.rate)
    for _ in range(size.steps):
        events, right = episodes(lag, size.batch, rng)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(player(events), right).backward()
        optimiser.step()
    hits = []
    with torch.no_grad():
        for _ in range(max(1, size.test // size.batch)):
            events, right = episodes(lag, size.batch, rng)
            hits.append(float((player(events).argmax(1) == right).double().mean()))
    return float(np.mean(hits))


def run(task: tuple[int, Size, tuple[int, ...]]) -> list[dict]:
    """Rows seed, lag, arm, recall (share right), chance of one seed; task: (seed, size, lags)."""
    seed, size, lags = task
    return [
        {
            "seed": seed,
            "lag": lag,
            "arm": ARMS[store],
            "recall": score(lag, store, size, seed),
            "chance": 1 / EVENTS,
        }
        for lag in lags
        for store in (False, True)
    ]
