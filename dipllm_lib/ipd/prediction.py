"""The best possible prediction of a random memory-one agent's next action.

Two agents of a pool play each other. Whoever knows the pool but not the agents predicts C after an
outcome that was answered c times with C and d times with D with probability (a + c) / (2 a + c +
d): the posterior mean under the prior Beta(a, a). The mean of -log of the probability given to what
was played, in nats per round, is the smallest log-loss that any predictor can reach. Who knows the
agents loses the entropy of their probabilities at the outcomes that occur.

A pre-trained model is held against the first number, or the second when it is told the agents.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.ipd.game import observe, play


class PredictionLimit(NamedTuple):
    """Nats per round: unknown (agents unknown), se (its standard error) and known (agents known).

    The same numbers hold for the own action and for the opponent's."""

    unknown: float
    se: float
    known: float


def prior(pool: str, a: float = 0.5) -> float:
    """Both parameters of the Beta law of a pool's probabilities; 0 stands for 0 or 1 for sure.

    ValueError for pools whose probabilities are not independent Beta draws.
    """
    known = {"uniform": 1.0, "beta": a, "corners": 0.0}
    if pool not in known:
        raise ValueError(f"no prediction limit for pool {pool!r}: use one of {', '.join(known)}")
    return known[pool]


def prediction_limit(
    pool: str, rounds: int, n: int, rng: np.random.Generator, a: float = 0.5
) -> PredictionLimit:
    """The limits of a pool, estimated on n games of two random agents; se is about .001 at 20,000.

    pool: uniform, beta (with its a) or corners.
    """
    strength = prior(pool, a)
    agents = [tabular.sample(pool, n, rng, a) for _ in range(2)]
    games = play(*map(tabular.Tabular, agents), n, rounds, (rng, rng))
    by_seat = np.stack([losses(*games.view(seat), strength) for seat in range(2)])
    per_game = by_seat.mean(axis=0)  # the two seats of a game are not independent
    occupied = exact.states(*agents, rounds)
    entropies = _entropy(agents[0])
    known = (occupied[:, :-1] * entropies[:, None, 1:]).sum(axis=(1, 2)) + entropies[:, 0]
    se = per_game.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
    return PredictionLimit(float(per_game.mean()), float(se), float(known.mean() / rounds))


def losses(own: np.ndarray, other: np.ndarray, strength: float) -> np.ndarray:
    """(n,) nats per round of the best prediction of `own`, actions (n, T), when its probabilities
    are Beta(strength, strength) draws; 0 stands for 0 or 1 for sure.
    """
    return _counted(observe(own, other), own, strength)


@njit(cache=True)
def _counted(obs, own, strength):
    n, rounds = own.shape
    out = np.zeros(n)
    counts = np.empty((5, 2))
    for i in range(n):
        counts[:] = strength
        for t in range(rounds):
            o, c = obs[i, t], own[i, t]
            total = counts[o, 0] + counts[o, 1]
            out[i] -= np.log(counts[o, c] / total if total > 0.0 else 0.5)
            counts[o, c] += 1.0
    return out / rounds


def _entropy(p: np.ndarray) -> np.ndarray:
    """Entropy in nats of each probability, 0 at 0 and 1."""
    inner = np.clip(p, 1e-300, 1.0), np.clip(1.0 - p, 1e-300, 1.0)
    return -(p * np.log(inner[0]) + (1.0 - p) * np.log(inner[1]))
