"""Training of the value net on finished games.

Every position of a game is an example, its target the final SoS shares of the seven powers, the
loss the cross-entropy between the target shares and the predicted ones. Games, never positions,
are held out. The report compares held-out errors with the baseline "present SC squares" by year.

The target belongs to the end rule of the games: a net fitted to games that end in 1908 values
positions for such games only.
"""

from typing import Sequence

import numpy as np
import pandas as pd
import torch

from dipllm_lib.dip.boards import OVER, Boards, centres
from dipllm_lib.dip.value import FEATURES, POWERS, Layer, ValueNet, prior, sos, sparse
from dipllm_lib.run import seeding

YEAR_GROUPS = (*((str(y), y, y) for y in range(1901, 1909)), ("from 1909", 1909, 9999))


class Net(torch.nn.Module):
    """The trainable twin of `ValueNet`; its last layer starts at zero."""

    def __init__(self, hidden: int):
        super().__init__()
        self.table = torch.nn.EmbeddingBag(FEATURES, hidden, mode="sum")
        self.first_bias = torch.nn.Parameter(torch.zeros(hidden))
        self.second = torch.nn.Linear(hidden, hidden)
        self.last = torch.nn.Linear(hidden, POWERS)
        torch.nn.init.normal_(self.table.weight, std=0.1)
        torch.nn.init.zeros_(self.last.weight)
        torch.nn.init.zeros_(self.last.bias)

    def forward(self, index, offsets, start):
        """index (all features), offsets (N,), start (N, 7) prior logits -> log shares (N, 7)."""
        hidden = torch.relu(self.table(index, offsets) + self.first_bias)
        hidden = torch.relu(self.second(hidden))
        return torch.log_softmax(self.last(hidden) + start, dim=1)

    def load(self, start: ValueNet) -> None:
        """Take the weights of a net of the same width. ValueError for another width."""
        width = (len(self.first_bias), len(start.first.bias))
        if width[0] != width[1]:
            raise ValueError(
                f"a value net of {width[0]} units cannot start from one of {width[1]}: set"
                f" value_hidden to {width[1]}"
            )
        with torch.no_grad():
            self.table.weight.copy_(torch.from_numpy(start.first.weight))
            self.first_bias.copy_(torch.from_numpy(start.first.bias))
            for own, given in ((self.second, start.second), (self.last, start.last)):
                own.weight.copy_(torch.from_numpy(given.weight.T))
                own.bias.copy_(torch.from_numpy(given.bias))

    def export(self) -> ValueNet:
        """The same net for numpy."""

        def array(tensor):
            return np.ascontiguousarray(tensor.detach().numpy())

        return ValueNet(
            Layer(array(self.table.weight), array(self.first_bias)),
            Layer(array(self.second.weight.T), array(self.second.bias)),
            Layer(array(self.last.weight.T), array(self.last.bias)),
        )


def examples(games: Sequence) -> tuple[Boards, np.ndarray]:
    """All positions of the games before their end, and their targets (N, 7) float64."""
    parts, targets = [], []
    for game in games:
        boards = game.positions()
        boards = boards.take(np.flatnonzero(boards.phase != OVER))
        parts.append(boards)
        targets.append(np.tile(sos(game.final_centres), (boards.n, 1)))
    return Boards.concat(parts), np.concatenate(targets)


def split(count: int, heldout: float, seed: int) -> tuple[list[int], list[int]]:
    """(training games, held-out games), at least one of each. ValueError for fewer than 2 games."""
    if count < 2:
        raise ValueError(f"a value net needs at least 2 games to hold one out, got {count}")
    order = seeding.child(seed, "dip", "value", "split").permutation(count).tolist()
    held = min(max(round(heldout * count), 1), count - 1)
    return sorted(order[held:]), sorted(order[:held])


def errors(value_fn, boards: Boards, targets: np.ndarray) -> pd.DataFrame:
    """Rows "all" and the game years; columns years, positions, cross_entropy, squared_error,
    baseline_squared_error (present SC squares), explained, baseline_explained. A squared error is
    the sum over the powers; explained is its share of the variance of the targets that is gone,
    1 - error / variance (NaN where the targets do not vary).
    """
    share = value_fn(boards).astype(np.float64)
    entropy = -np.sum(targets * np.log(np.maximum(share, 1e-12)), axis=1)
    squared = np.sum((share - targets) ** 2, axis=1)
    baseline = np.sum((sos(centres(boards)) - targets) ** 2, axis=1)
    rows = []
    for name, first, last in (("all", 0, 9999), *YEAR_GROUPS):
        keep = (boards.year >= first) & (boards.year <= last)
        if not keep.any():
            continue
        error, guess = squared[keep].mean(), baseline[keep].mean()
        variance = targets[keep].var(axis=0).sum()
        variance = variance if variance > 1e-12 else np.nan
        rows.append({
            "years": name,
            "positions": int(keep.sum()),
            "cross_entropy": entropy[keep].mean(),
            "squared_error": error,
            "baseline_squared_error": guess,
            "explained": 1 - error / variance,
            "baseline_explained": 1 - guess / variance,
        })
    return pd.DataFrame(rows)


def fit(
    games: Sequence, settings, seed: int, start: ValueNet | None = None
) -> tuple[ValueNet, pd.DataFrame]:
    """Train on whole games. `settings` gives value_hidden, _epochs, _batch, _lr, _heldout; `start`
    is a net to go on from.

    Returns the net and its history: one row per epoch (0 = before the training) and year group,
    columns epoch, train_cross_entropy (mean over the epoch) and those of `errors` on the held-out
    games.
    """
    training, held = split(len(games), settings.value_heldout, seed)
    parts = [examples([games[g] for g in part]) for part in (training, held)]
    return train(*parts, settings, seed, start)


def train(
    data: tuple[Boards, np.ndarray], held: tuple[Boards, np.ndarray], settings, seed: int,
    start: ValueNet | None = None,
) -> tuple[ValueNet, pd.DataFrame]:  # fmt: skip
    """`fit` on positions with their targets (N, 7) and held-out ones."""
    with seeding.torch_seed(seed, "dip", "value", "weights"):
        net = Net(settings.value_hidden)
    if start is not None:
        net.load(start)
    history = [errors(net.export(), *held).assign(epoch=0)]
    count, tensors = data[0].n, _tensors(*data)
    steps = settings.value_epochs * -(-count // settings.value_batch)
    optimiser = torch.optim.AdamW(net.parameters(), lr=settings.value_lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, max(steps, 1))
    for epoch in range(1, settings.value_epochs + 1):
        rng = seeding.child(seed, "dip", "value", "order", epoch)
        loss = _epoch(net, tensors, optimiser, schedule, rng.permutation(count), settings)
        table = errors(net.export(), *held)
        history.append(table.assign(epoch=epoch, train_cross_entropy=loss))
    table = pd.concat(history, ignore_index=True)
    first = ["epoch", "years", "positions", "train_cross_entropy"]
    return net.export(), table[first + [c for c in table.columns if c not in first]]


def _tensors(boards: Boards, targets: np.ndarray):
    index, size = sparse(boards)
    return index, size, prior(boards), targets.astype(np.float32)


def _epoch(net, data, optimiser, schedule, order, settings) -> float:
    """One pass in the given order; returns the mean cross-entropy."""
    index, size, start, targets = data
    total = 0.0
    for first in range(0, len(order), settings.value_batch):
        rows = order[first : first + settings.value_batch]
        width = np.arange(index.shape[1])[None, :] < size[rows][:, None]
        flat = torch.from_numpy(index[rows][width].astype(np.int64))
        offsets = torch.from_numpy(np.r_[0, np.cumsum(size[rows])[:-1]].astype(np.int64))
        log_share = net(flat, offsets, torch.from_numpy(start[rows]))
        target = torch.from_numpy(targets[rows])
        # a power that is out has target 0 and log share -inf: its term is 0
        terms = torch.where(target > 0, target * log_share, torch.zeros(()))
        loss = -terms.sum(dim=1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        total += loss.item() * len(rows)
    return total / len(order)
