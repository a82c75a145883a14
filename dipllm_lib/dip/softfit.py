"""The softness of SoftDumbBot, fitted once by likelihood on turns that DumbBot played.

    T_s = argmax_T  mean over turns of log tau_T(joint order of DumbBot)

Seven copies of DumbBot play; `turns` of their power-turns, drawn without replacement from all
movement, retreat and adjustment turns of the games, are the sample. The uniform part eps of the
policy is fixed, so orders that SoftDumbBot never scores cost log(eps / |legal orders|) at any T.
"""

from typing import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import game, orders
from dipllm_lib.dip.dumbbot import DumbBot
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.softbot import SoftDumbBot
from dipllm_lib.run import seeding, stats

GRID = np.geomspace(0.01, 1.0, 41)  # steps of 12 %
PRECISION = 1e-3  # of log T


def sample(turns: int, games: int, end: game.EndRules, seed: int) -> list[tuple[Turn, Joint]]:
    """Turns and joint orders of DumbBot's self-play. ValueError if the games have too few."""
    bot = DumbBot()
    names = [("temperature", g) for g in range(games)]
    pool = []
    for played in game.play([[bot] * 7] * games, seed, names, end):
        positions = played.positions()
        for k, at in enumerate(orders.all_turns(positions)):
            pool += [(turn, played.joint(k, turn.power)) for turn in at]
    if turns > len(pool):
        raise ValueError(f"{games} games have {len(pool)} turns, not {turns}: play more games")
    picks = seeding.child(seed, "temperature", "turns").choice(len(pool), turns, replace=False)
    return [pool[i] for i in np.sort(picks)]


def log_likelihood(
    played: Sequence[tuple[Turn, Joint]], temperature: float, uniform: float
) -> np.ndarray:
    """log tau of each joint order, float64 (N,), in nats."""
    policy = SoftDumbBot(temperature, uniform)
    return np.array([policy.log_prob(turn, [joint])[0] for turn, joint in played])


def curve(
    played: Sequence[tuple[Turn, Joint]], uniform: float, temperatures: Sequence[float] = GRID
) -> pd.DataFrame:
    """Columns temperature, nats per turn, nats per order: mean log-likelihoods."""
    count = sum(turn.slots for turn, _ in played)
    total = [log_likelihood(played, float(t), uniform).sum() for t in temperatures]
    return pd.DataFrame({
        "temperature": np.asarray(temperatures, np.float64),
        "nats per turn": np.array(total) / len(played),
        "nats per order": np.array(total) / count,
    })


def fit(played: Sequence[tuple[Turn, Joint]], uniform: float) -> float:
    """The temperature of largest likelihood: best point of GRID, then golden section around it.

    ValueError if the best point is an end of the grid.
    """
    best = int(np.argmax(curve(played, uniform)["nats per turn"]))
    if best in (0, len(GRID) - 1):
        raise ValueError(f"the likelihood is largest at the end {GRID[best]:.3g} of the grid")
    low, high = np.log(GRID[best - 1]), np.log(GRID[best + 1])
    shrink = (5**0.5 - 1) / 2
    inner = [high - shrink * (high - low), low + shrink * (high - low)]
    worth = [log_likelihood(played, float(np.exp(x)), uniform).mean() for x in inner]
    while high - low > PRECISION:
        keep = int(worth[1] > worth[0])  # the better inner point becomes the other one
        low, high = (inner[0], high) if keep else (low, inner[1])
        new = low + shrink * (high - low) if keep else high - shrink * (high - low)
        value = log_likelihood(played, float(np.exp(new)), uniform).mean()
        inner = [inner[1], new] if keep else [new, inner[0]]
        worth = [worth[1], value] if keep else [value, worth[0]]
    return float(np.exp((low + high) / 2))


def interval(
    played: Sequence[tuple[Turn, Joint]], uniform: float, rng: np.random.Generator, resamples: int
) -> tuple[float, float]:
    """95 % percentile interval of the fit over resampled turns, to the precision of GRID."""
    table = np.stack([log_likelihood(played, float(t), uniform) for t in GRID])
    picks = rng.integers(len(played), size=(resamples, len(played)))
    best = GRID[np.argmax(table[:, picks].mean(axis=2), axis=0)]
    tail = (1 - stats.LEVEL) / 2
    return tuple(float(x) for x in np.quantile(best, [tail, 1 - tail]))
