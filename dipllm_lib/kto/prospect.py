"""Value and weighting function of prospect theory, and cumulative prospect theory for lotteries.

    v(x) = x^α                       x >= 0         (Tversky and Kahneman 1992, Eq. 5)
    v(x) = -λ (-x)^β                 x < 0
    w(p) = p^γ / (p^γ + (1 - p)^γ)^(1/γ)            (their Eq. 6; γ+ for gains, γ- for losses)

x is a payoff minus its reference point, over the scale of the game; reference and scale belong to
the game, not to this module. A lottery is worth Σ π_i v(x_i), where gains are weighted from the
best outcome down and losses from the worst up, each by a difference of w of tail probabilities:

    π_i = w+(P(X >= x_i)) - w+(P(X > x_i))     gains
    π_i = w-(P(X <= x_i)) - w-(P(X < x_i))     losses

The weights of gains and those of losses need not add up to 1 when both occur.

The text that study 3 builds takes α and β apart (.88 and .92). A loss of size x then weighs
λ x^(β - α) times a gain of that size, so how loss-averse somebody is depends on the currency;
payoffs are therefore divided by the scale of the game. `TK92` has α = β.

Shapes: any array of x or p; lotteries have K outcomes.
"""

from dataclasses import dataclass

import numpy as np

SMALLEST = 1e-6  # sizes below it are linear in `value_torch`: x^(α - 1) has no bound at 0
MONOTONE = 0.28  # least γ of a weighting function that rises everywhere (Ingersoll 2008: .279)
LARGEST = 2.0  # γ above 1 bends the other way; no published estimate comes near 2


def _check_gamma(gamma: float, name: str) -> None:
    """ValueError for a γ whose weighting function is not increasing, or far from any estimate."""
    if not MONOTONE <= gamma <= LARGEST:
        raise ValueError(f"{name} {gamma}: need {MONOTONE} <= gamma <= {LARGEST}")


@dataclass(frozen=True)
class ProspectParams:
    """alpha, beta: exponents of gains and losses, > 0 · lam: weight of a loss of size 1, > 0 ·
    gamma_gain, gamma_loss: of the weighting function, in [.28, 2], 1 = probabilities as they are.

    ValueError outside these ranges.
    """

    alpha: float
    beta: float
    lam: float
    gamma_gain: float = 0.61
    gamma_loss: float = 0.69

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "lam"):
            number = getattr(self, name)
            if not (np.isfinite(number) and number > 0):
                raise ValueError(f"{name} {number}: need a finite number above 0")
        for name in ("gamma_gain", "gamma_loss"):
            _check_gamma(getattr(self, name), name)


ARTICLE = ProspectParams(0.88, 0.92, 2.25)
TK92 = ProspectParams(0.88, 0.88, 2.25)
NEUTRAL = ProspectParams(1.0, 1.0, 1.0, 1.0, 1.0)
NEGOTIATION = ProspectParams(0.88, 0.92, 3.2)
PRESETS = {"ARTICLE": ARTICLE, "TK92": TK92, "NEUTRAL": NEUTRAL, "NEGOTIATION": NEGOTIATION}


def value(x: np.ndarray | float, params: ProspectParams) -> np.ndarray:
    """v(x) as float64, in the shape of x. ValueError for an x that is not finite."""
    x = np.asarray(x, dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError("value: every x must be finite")
    size = np.abs(x)
    return np.where(x >= 0, size**params.alpha, -params.lam * size**params.beta)


def value_torch(x: "torch.Tensor", params: ProspectParams) -> "torch.Tensor":  # noqa: F821
    """v(x) of a tensor, with finite gradients everywhere.

    Both branches of a `where` are evaluated, and x^(α - 1) has no bound at 0, so a plain power
    gives NaN there. Here v = x · max(|x|, 1e-6)^(α - 1): exact from 1e-6 on, linear below (off by
    less than 1e-5), v(0) = 0.
    """
    import torch

    gain = x * x.clamp(min=SMALLEST) ** (params.alpha - 1.0)
    loss = params.lam * x * (-x).clamp(min=SMALLEST) ** (params.beta - 1.0)
    return torch.where(x >= 0, gain, loss)


def loss_gain_ratio(x: np.ndarray | float, params: ProspectParams) -> np.ndarray:
    """-v(-x) / v(x) = λ x^(β - α) of sizes x > 0. ValueError for others."""
    x = np.asarray(x, dtype=np.float64)
    if not (np.isfinite(x).all() and (x > 0).all()):
        raise ValueError("loss_gain_ratio: every size x must be finite and above 0")
    return params.lam * x ** (params.beta - params.alpha)


def weight(p: np.ndarray | float, gamma: float) -> np.ndarray:
    """w(p) as float64: rises from w(0) = 0 to w(1) = 1. ValueError for p outside [0, 1]."""
    _check_gamma(gamma, "gamma")
    p = np.asarray(p, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("weight: every probability must lie in [0, 1]")
    return p**gamma / (p**gamma + (1.0 - p) ** gamma) ** (1.0 / gamma)


def decision_weights(
    outcomes: np.ndarray, probabilities: np.ndarray, params: ProspectParams
) -> np.ndarray:
    """(K,) π of the module's text, in the order of `outcomes`; an outcome of 0 counts as a gain.

    Equal outcomes share the weight of both together in some way; their sum is what matters.
    ValueError for shapes other than (K,), a negative probability, or a sum that is not 1 to 1e-9.
    """
    x, p = _lottery(outcomes, probabilities)
    order = np.argsort(x, kind="stable")
    rising, inside = p[order], x[order] < 0
    below = np.clip(np.concatenate([[0.0], np.cumsum(rising)]), 0.0, 1.0)
    above = np.clip(np.concatenate([np.cumsum(rising[::-1])[::-1], [0.0]]), 0.0, 1.0)
    losses = np.diff(weight(below, params.gamma_loss))
    gains = -np.diff(weight(above, params.gamma_gain))
    found = np.empty(len(x))
    found[order] = np.where(inside, losses, gains)
    return found


def prospect(outcomes: np.ndarray, probabilities: np.ndarray, params: ProspectParams) -> float:
    """Value of a lottery (K,) under cumulative prospect theory, in units of v.

    outcomes: gains and losses as differences from the reference point. ValueError as
    `decision_weights`.
    """
    weights = decision_weights(outcomes, probabilities, params)
    return float(weights @ value(outcomes, params))


def certainty_equivalent(v: np.ndarray | float, params: ProspectParams) -> np.ndarray:
    """The sure outcome that is worth v, the inverse of `value`. ValueError unless v is finite."""
    v = np.asarray(v, dtype=np.float64)
    if not np.isfinite(v).all():
        raise ValueError("certainty_equivalent: every v must be finite")
    size = np.abs(v)
    loss = (size / params.lam) ** (1.0 / params.beta)
    return np.where(v >= 0, size ** (1.0 / params.alpha), -loss)


def _lottery(outcomes: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as checked float64 (K,)."""
    x = np.asarray(outcomes, dtype=np.float64)
    p = np.asarray(probabilities, dtype=np.float64)
    if x.ndim != 1 or x.shape != p.shape or not len(x):
        raise ValueError(f"a lottery needs as many outcomes as probabilities: {x.shape}, {p.shape}")
    if not np.isfinite(x).all():
        raise ValueError("a lottery needs finite outcomes")
    if not (p >= 0).all() or abs(p.sum() - 1.0) > 1e-9:
        raise ValueError(f"probabilities of a lottery must be >= 0 and sum to 1, got {p.tolist()}")
    return x, p
