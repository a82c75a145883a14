"""A language model beside an anchor: what does it know that the anchor does not?

    pi_{a,w}(x)  proportional to  tau(x)^a p(x)^w      over the candidates x of a power-turn

tau is the anchor, p the model; (1, 0) is the anchor on its candidates, (0, 1) the model. The mean
of KL(pi* || pi_{a,w}) over power-turns is convex in (a, w), since pi_{a,w} is an exponential
family; `fit` finds its least value by Newton's method, with

    gradient   E_pi[x] - E_pi*[x]        Hessian   Cov_pi[x]        x = (log tau, log p)

and w says how much the model adds once the anchor is known. Fitted on some games it is judged on
others (`crossed`). `Weighed` plays it.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import candidates
from dipllm_lib.dip.hedge import kl, softmax
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.search_settings import SearchSettings
from dipllm_lib.run import stats

LEAST = -200.0  # nats; stands for the log of a probability of 0, so that a weight of 0 is defined
STEPS, FINE = 100, 1e-9
RIDGE = 1e-9  # of the Hessian, where the two policies agree

Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # target, log tau, log p, each (K,)


def table(target: Sequence[float], log_tau: Sequence[float], log_p: Sequence[float]) -> Table:
    """One power-turn; ValueError for shapes that differ or a target that does not sum to 1."""
    found = tuple(np.asarray(one, np.float64) for one in (target, log_tau, log_p))
    if len({one.shape for one in found}) != 1 or found[0].ndim != 1:
        raise ValueError(f"one number per candidate is needed, got {[x.shape for x in found]}")
    if abs(found[0].sum() - 1) > 1e-6:
        raise ValueError(f"the target sums to {found[0].sum()}, not to 1")
    return found[0], found[1].clip(LEAST), found[2].clip(LEAST)


def divergences(tables: Sequence[Table], a: float, w: float) -> np.ndarray:
    """KL(pi* || pi_{a,w}) of each power-turn, nats."""
    return np.array([kl(target, softmax(a * tau + w * p)) for target, tau, p in tables])


def fit(tables: Sequence[Table], model: bool = True) -> tuple[float, float]:
    """(a, w) with the least mean divergence; w = 0 without `model`.

    ValueError without power-turns. FloatingPointError if it does not settle.
    """
    if not tables:
        raise ValueError("no power-turns to fit the weights on")
    theta, own = np.array([1.0, 0.0]), np.array([True, model])
    value = divergences(tables, *theta).mean()
    for _ in range(STEPS):
        gradient, hessian = _slopes(tables, theta)
        step = np.zeros(2)
        part = hessian[np.ix_(own, own)] + RIDGE * np.eye(own.sum())
        step[own] = np.linalg.solve(part, gradient[own])
        gain = gradient @ step
        if gain < FINE:
            return float(theta[0]), float(theta[1])
        size = 1.0
        while (new := divergences(tables, *(theta - size * step)).mean()) > value - size * gain / 4:
            size /= 2
        theta, value = theta - size * step, new
    raise FloatingPointError(f"the weights did not settle in {STEPS} steps, at {theta}")


def _slopes(tables: Sequence[Table], theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(gradient (2,), Hessian (2, 2)) of the mean divergence."""
    gradient, hessian = np.zeros(2), np.zeros((2, 2))
    for target, tau, p in tables:
        x = np.stack([tau, p])
        pi = softmax(theta @ x)
        mean = x @ pi
        gradient += mean - x @ target
        centred = x - mean[:, None]
        hessian += (pi * centred) @ centred.T
    return gradient / len(tables), hessian / len(tables)


def crossed(
    tables: Sequence[Table], games: Sequence[str], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """The anchor, the anchor at a fitted temperature, the model, and both with fitted weights;
    every game is judged with weights fitted on the other games.

    games: that of each power-turn. Columns policy, a, w (means over games), kl (nats, with
    interval) and difference to the fitted anchor alone, paired by power-turn, with interval; turns.
    """
    names = sorted(set(games))
    if len(names) < 2:
        raise ValueError(f"weights are judged on other games: need two or more, got {len(names)}")
    at = np.array([names.index(name) for name in games])
    folds = [[t for t, n in zip(tables, at) if n != k] for k in range(len(names))]
    weights = {
        "anchor": [(1.0, 0.0)] * len(names),
        "anchor, fitted": [fit(fold, model=False) for fold in folds],
        "model": [(0.0, 1.0)] * len(names),
        "anchor and model, fitted": [fit(fold) for fold in folds],
    }
    values = {
        policy: np.array([divergences([t], *own[k])[0] for t, k in zip(tables, at)])
        for policy, own in weights.items()
    }
    rows = []
    for policy, own in weights.items():
        a, w = np.mean([own[k] for k in at], axis=0)
        row = {"policy": policy, "a": a, "w": w}
        row |= _interval("kl", values[policy], rng, resamples)
        apart = values[policy] - values["anchor, fitted"]
        rows.append(row | _interval("difference", apart, rng, resamples) | {"turns": len(at)})
    return pd.DataFrame(rows)


def _interval(name: str, values: np.ndarray, rng: np.random.Generator, resamples: int) -> dict:
    found = stats.mean_interval(values, rng, resamples)
    return dict(zip((name, f"{name}_low", f"{name}_high"), found, strict=True))


class Weighed:
    """Player of pi_{a,w} at a temperature, on the anchor's candidates as a search has them.

    tau, model: explicit policies, the model with `log_probs` · settings: the search_* fields, of
    which the candidates' number, limit and draws are read. ValueError for a temperature <= 0.
    """

    def __init__(
        self, tau, model, a: float, w: float, temperature: float, settings, name: str = "weighed"
    ):
        if temperature <= 0:
            raise ValueError(f"temperature of {name}: {temperature}, use one above 0")
        self.tau, self.model, self.a, self.w = tau, model, a, w
        self.temperature, self.name = temperature, name
        self.settings = SearchSettings.of(settings)

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn; its candidates and its choice come from its own generator."""
        if not turns:
            return []
        proposed = candidates.choose(turns, self.tau, self.settings, rngs)
        logs = self.model.log_probs(turns, [joints for joints, _ in proposed])
        found = []
        for (joints, log_tau), log_p, rng in zip(proposed, logs, rngs, strict=True):
            scores = self.a * log_tau.clip(LEAST) + self.w * log_p.clip(LEAST)
            pick = np.searchsorted(
                np.cumsum(softmax(scores / self.temperature)), rng.random(), side="right"
            )
            found.append(joints[min(int(pick), len(joints) - 1)])
        return found
