"""Exact gradient learners of memory-one policies: naive, and with opponent-learning awareness.

Both players hold five logits theta, the log-odds of C after s0, CC, CD, DC, DD in their own view,
and know each other's. Their values are the discounted payoffs of the chain of `exact`,

    V_X(theta_X, theta_Y) = v_0 (I - gamma M)^-1 r_X,

not scaled by 1 - gamma. With learning rate delta one update of X, made by both at once, is

    naive    theta_X += delta  dV_X/dtheta_X
    LOLA     theta_X += delta [dV_X/dtheta_X + eta (dV_X/dtheta_Y)' d(dV_Y/dtheta_Y)/dtheta_X]

(Foerster et al. 2018, section 4): the second term is the change of X's value through one
naive step of Y of length eta, to first order. eta = 0 is the naive learner. All derivatives are
exact, taken through the solution of the linear equations; there is no sampling but the first
logits, which are N(0, 1).

The game of Foerster et al. is this one with payoffs -1, -3, 0, -2, ours minus 2. A constant has no
gradient, so both games have the same trajectories and their numbers compare after adding 2.

Shapes: n pairs of learners, seat 0 and 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.ipd.game import STATES, SWAP, Payoffs
from dipllm_lib.run import seeding, stats

SEEN = torch.from_numpy(SWAP.astype(np.int64))  # X's view of Y's entries
SHIFT = 2.0  # from the payoffs of Foerster et al. 2018 to ours
# Foerster et al. 2018, table of the exact learners: share of tit for tat and mean payoff per round,
# in their payoffs.
PUBLISHED = {"naive - naive": (0.208, -1.98), "LOLA - LOLA": (0.810, -1.06)}
FROZEN = {"LOLA": 1.0, "naive learner": 0.0}  # eta of the frozen learners that others play
ARMS = {  # weights eta of seat 0 and seat 1
    "naive - naive": (0.0, 0.0),
    "LOLA - LOLA": (1.0, 1.0),
    "LOLA - LOLA, eta 1/2": (0.5, 0.5),
    "LOLA - naive": (1.0, 0.0),
}


@dataclass(frozen=True)
class LolaSettings:
    """gamma: discount · updates of both learners · lr: delta, on the unscaled value · eta: weight
    of the look-ahead of seat 0 and of seat 1, 0 = naive. ValueError for impossible values."""

    eta: tuple[float, float] = (1.0, 1.0)
    gamma: float = 0.96
    updates: int = 200
    lr: float = 1.0
    payoffs: Payoffs = exact.STANDARD

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma < 1.0:
            raise ValueError(f"gamma {self.gamma}: need 0 <= gamma < 1")
        if self.updates < 0 or not self.lr > 0 or len(self.eta) != 2 or min(self.eta) < 0:
            raise ValueError(
                f"updates {self.updates}, lr {self.lr}, eta {self.eta}: need updates >= 0, lr > 0"
                " and two weights eta >= 0"
            )


def values(
    first: torch.Tensor, second: torch.Tensor, settings: LolaSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """V_X and V_Y, each (n,) float64, not scaled by 1 - gamma; logits (n, 5) of both seats."""
    p, q = torch.sigmoid(first), torch.sigmoid(second)[:, SEEN]
    outcomes = torch.stack([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)], dim=-1)
    start, matrix = outcomes[:, 0], outcomes[:, 1:]
    pay = torch.from_numpy(np.stack(exact.payoff_vectors(settings.payoffs), axis=1))
    system = torch.eye(4, dtype=torch.float64) - settings.gamma * matrix
    worth = torch.linalg.solve(system, pay.expand(len(p), -1, -1))
    found = (start.unsqueeze(2) * worth).sum(dim=1)
    return found[:, 0], found[:, 1]


def ascent(
    first: torch.Tensor, second: torch.Tensor, settings: LolaSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """The brackets of both updates, each (n, 5): what delta multiplies."""
    logits = [x.detach().requires_grad_() for x in (first, second)]
    gains = values(*logits, settings)
    # by[k][m]: derivative of the value of seat k by the logits of seat m
    by = [torch.autograd.grad(v.sum(), logits, create_graph=True, retain_graph=True) for v in gains]
    steps = []
    for own, eta in enumerate(settings.eta):
        other, step = 1 - own, by[own][own]
        if eta:
            aware = (by[own][other].detach() * by[other][other]).sum()
            shaped = torch.autograd.grad(aware, logits[own], retain_graph=True)[0]
            step = step + eta * shaped
        steps.append(step.detach())
    return steps[0], steps[1]


def first_logits(generators: Sequence[np.random.Generator]) -> torch.Tensor:
    """(2, n, 5) float64 N(0, 1), one generator for each pair."""
    drawn = np.stack([rng.standard_normal((2, 5)) for rng in generators], axis=1)
    return torch.from_numpy(drawn)


@dataclass(frozen=True, eq=False)
class Learned:
    """vectors (2, n, 5): the policies of both seats after the last update, s0 first · payoffs
    (2, n): their discounted payoffs per round, scaled by 1 - gamma, in our payoffs · cooperation
    (2, n): share of C, with the same discount · curve (updates + 1, 2): means of payoffs over
    pairs before every update and at the end."""

    vectors: np.ndarray
    payoffs: np.ndarray
    cooperation: np.ndarray
    curve: np.ndarray

    def players(self, seat: int) -> tabular.Tabular:
        """The frozen policies of a seat, as n players."""
        if seat not in (0, 1):
            raise ValueError(f"seat {seat!r}: use 0 or 1")
        return tabular.Tabular(self.vectors[seat])


def learn(settings: LolaSettings, generators: Sequence[np.random.Generator]) -> Learned:
    """Train one pair for each generator of its first logits; both seats step at the same time."""
    if not generators:
        raise ValueError("give one generator for each pair of learners, at least one")
    logits, scale, curve = first_logits(generators), 1.0 - settings.gamma, []
    for _ in range(settings.updates):
        with torch.no_grad():
            curve.append([float(v.mean()) * scale for v in values(*logits, settings)])
        logits = logits + settings.lr * torch.stack(ascent(logits[0], logits[1], settings))
    vectors = torch.sigmoid(logits).numpy()
    paid = np.stack(exact.discounted(vectors[0], vectors[1], settings.gamma, settings.payoffs))
    curve.append(paid.mean(axis=1).tolist())
    return Learned(vectors, paid, _cooperation(vectors, settings.gamma), np.array(curve))


def _cooperation(vectors: np.ndarray, gamma: float) -> np.ndarray:
    """(2, n): of payoffs -own + 2 other, c_X = (s_X + 2 s_Y) / 3."""
    x, y = exact.discounted(vectors[0], vectors[1], gamma)
    return np.stack([(x + 2 * y) / 3, (y + 2 * x) / 3])


def is_tit_for_tat(vectors: np.ndarray) -> np.ndarray:
    """bool (…): whether a policy (…, 5) is more likely than not to repeat the opponent's last
    action after every outcome; the first round is left out."""
    return ((vectors[..., 1:] > 0.5) == np.array([True, False, True, False])).all(axis=-1)


def train(seed: int, pairs: int, settings: LolaSettings | None = None) -> dict[str, Learned]:
    """The pairings of ARMS from the same first logits, `pairs` of each."""
    streams = {n: [seeding.child(seed, "ipd", "lola", k) for k in range(pairs)] for n in ARMS}
    own = settings or LolaSettings()
    return {name: learn(replace(own, eta=eta), streams[name]) for name, eta in ARMS.items()}


def populations(n: int, settings: LolaSettings | None = None) -> dict[str, np.ndarray]:
    """n frozen policies (n, 5) of seat 0 after training with their like: LOLA and naive learners,
    as sets of opponents for `pool_shift`; the same at every call."""
    own, found = settings or LolaSettings(), {}
    for name, eta in FROZEN.items():
        streams = [seeding.child(0, "ipd", "lola", "frozen", k) for k in range(n)]
        found[name] = learn(replace(own, eta=(eta, eta)), streams).vectors[0]
    return found


def gained(found: Mapping[str, Learned]) -> dict[str, pd.Series]:
    """What pairs of LOLA earn more than pairs of naive learners from the same first logits, and how
    much more often they are tit for tat: one value per pair, the mean of its seats."""
    paid = {name: one.payoffs.mean(axis=0) for name, one in found.items()}
    tft = {name: is_tit_for_tat(one.vectors).mean(axis=0) for name, one in found.items()}
    named = {"payoff": paid, "share of tit for tat": tft}
    return {
        f"LOLA − naive: {name}": pd.Series(by["LOLA - LOLA"] - by["naive - naive"])
        for name, by in named.items()
    }


def compare(found: Mapping[str, Learned], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """What became of the pairings of `train`, one row per pairing and seat.

    Columns pairing, seat, eta, payoff (per round) and tft (share of `is_tit_for_tat`) with
    intervals over pairs, sd (over pairs, of the pair's mean payoff), cooperation, P(C) after s0,
    CC, CD, DC, DD (means), pairs; published_payoff (plus 2) and published_tft where both learners
    are of a published kind, else NaN.
    """
    rows = []
    for name, one in found.items():
        share, paid = PUBLISHED.get(name, (float("nan"), float("nan")))
        for seat in range(2):
            tft = is_tit_for_tat(one.vectors[seat]).astype(np.float64)
            row = {"pairing": name, "seat": seat, "eta": ARMS[name][seat]}
            for column, values in (("payoff", one.payoffs[seat]), ("tft", tft)):
                estimate = stats.mean_interval(values, rng, resamples)
                row |= dict(zip((column, f"{column}_low", f"{column}_high"), estimate, strict=True))
            row["sd"] = float(one.payoffs.mean(axis=0).std())
            row["cooperation"] = float(one.cooperation[seat].mean())
            row |= dict(zip(STATES, one.vectors[seat].mean(axis=0).tolist(), strict=True))
            row |= {"pairs": len(tft), "published_payoff": paid + SHIFT, "published_tft": share}
            rows.append(row)
    return pd.DataFrame(rows)
