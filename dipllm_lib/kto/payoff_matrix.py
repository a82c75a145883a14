"""Who gets how much from whom: exact payoffs, and played ones with intervals over episodes.

Entry (i, j) is what i gets from j, the mean over both seats. Played: n episodes of every ordered
pair; episode e of all pairs uses the same random numbers, and i has both seats in it, so

    y_e(i, j) = (payoff of i in seat 0 against j  +  payoff of i in seat 1 against j) / 2

and the bootstrap resamples e for all pairs alike. Nobody is called the winner: payoffs are
general-sum, and the ratings of `ratings` are refused here.

An interval has width 0 where the rare moves of nearly deterministic players did not occur in n
episodes; the exact payoff beside it has them.

Shapes: P members, n episodes, R resamples.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.kto.arenas import Arena
from dipllm_lib.kto.league_members import Member
from dipllm_lib.run import stats


def exact(arena: Arena, members: Sequence[Member]) -> np.ndarray:
    """(P, P) payoff of the row from the column, mean over seats."""
    rows = [[arena.payoffs(a.player, b.player).mean() for b in members] for a in members]
    return np.array(rows)


def played(
    arena: Arena, members: Sequence[Member], episodes: int, rng: np.random.Generator
) -> np.ndarray:
    """(P, P, n) of y_e. ValueError without an episode."""
    if episodes < 1:
        raise ValueError(f"{episodes} episodes per pair: need at least one")
    paid = arena.play([m.player for m in members], episodes, rng)
    return (paid[..., 0] + paid[..., 1].transpose(1, 0, 2)) / 2


def intervals(
    values: np.ndarray, rng: np.random.Generator, resamples: int
) -> tuple[np.ndarray, np.ndarray]:
    """(low, high), each of shape (…), 95 % percentile intervals of means over the last axis (n)."""
    if resamples < 1:
        raise ValueError(f"{resamples} resamples: need at least one")
    count = values.shape[-1]
    shares = rng.multinomial(count, np.full(count, 1 / count), size=resamples) / count
    means = values.reshape(-1, count) @ shares.T
    ends = np.quantile(means, [(1 - stats.LEVEL) / 2, (1 + stats.LEVEL) / 2], axis=1)
    return ends[0].reshape(values.shape[:-1]), ends[1].reshape(values.shape[:-1])


def table(
    arena: Arena,
    members: Sequence[Member],
    episodes: int,
    resamples: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Columns game, row, column, exact, mean, low, high, episodes (of each ordered pair)."""
    known, values = exact(arena, members), played(arena, members, episodes, rng)
    low, high = intervals(values, rng, resamples)
    names, found = [m.name for m in members], []
    for i, row in enumerate(names):
        for j, column in enumerate(names):
            line = {"game": arena.name, "row": row, "column": column, "exact": known[i, j]}
            ends = {"mean": values[i, j].mean(), "low": low[i, j], "high": high[i, j]}
            found.append(line | ends | {"episodes": episodes})
    return pd.DataFrame(found)
