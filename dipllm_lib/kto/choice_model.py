"""How likely binary choices are under cumulative prospect theory, and the slope of that.

A choice is between two lotteries of two outcomes each, a and b. With V of cumulative prospect
theory (`prospect`) the first is chosen with probability

    P(a) = σ(s (V_a - V_b)),     s > 0 the slope.

For two outcomes hi >= lo, p the probability of hi, V has one formula for gains, losses and both:

    V = w+(p) g(hi) + (1 - w+(p)) g(lo) - λ [w-(1 - p) l(lo) + (1 - w-(1 - p)) l(hi)]
    g(x) = max(x, 0)^α,   l(x) = max(-x, 0)^β

All derivatives are by the logarithms of the six numbers (α, β, λ, γ+, γ-, s), by hand; with z =
s (V_a - V_b) and y = 1 where a was chosen,

    score = Σ (y - σ(z)) ∂z,     expected information = Σ σ(z) (1 - σ(z)) ∂z ∂zᵀ.

Shapes: N choices, 6 numbers in the order of NAMES.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.kto.choices import Choices
from dipllm_lib.kto.prospect import ProspectParams

NAMES = ("alpha", "beta", "lam", "gamma_gain", "gamma_loss", "slope")
TINY = 1e-300  # keeps logarithms of probabilities 0 and 1 finite; multiplied by 0 afterwards


def numbers(params: ProspectParams, slope: float) -> np.ndarray:
    """(6,) float64 in the order of NAMES."""
    own = (params.alpha, params.beta, params.lam, params.gamma_gain, params.gamma_loss, slope)
    return np.array(own)


class Lottery(NamedTuple):
    """What a lottery (N,) keeps through a fit: logarithms of sizes (0 where there is none), masks
    of positive and negative outcomes, and the probability of the better outcome."""

    log_high: np.ndarray
    log_low: np.ndarray
    gain_high: np.ndarray
    gain_low: np.ndarray
    loss_high: np.ndarray
    loss_low: np.ndarray
    p: np.ndarray


def _prepare(lottery: np.ndarray) -> Lottery:
    """Of (N, 3): first outcome, its probability, second outcome."""
    first, p, second = lottery.T
    high, low = np.maximum(first, second), np.minimum(first, second)
    p_high = np.where(first >= second, p, 1.0 - p)
    logs = [np.log(np.where(x == 0, 1.0, np.abs(x))) for x in (high, low)]
    masks = [mask.astype(np.float64) for mask in (high > 0, low > 0, high < 0, low < 0)]
    return Lottery(*logs, *masks, p_high)


def _weight(p: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """w(p) and its derivative by γ, both (N,)."""
    log_p, log_q = np.log(np.maximum(p, TINY)), np.log(np.maximum(1.0 - p, TINY))
    a, b = p**gamma, (1.0 - p) ** gamma
    total = a + b
    w = a * total ** (-1.0 / gamma)
    inner = (a * log_p + b * log_q) / (gamma * total)
    return w, w * (log_p + np.log(total) / gamma**2 - inner)


def worth(one: Lottery, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V (N,) and its derivatives by the logarithms of the first five parameters (N, 5)."""
    alpha, beta, lam, gain, loss = x[:5]
    up, d_up = _weight(one.p, gain)
    down, d_down = _weight(1.0 - one.p, loss)
    g_high, g_low = (np.exp(alpha * s) for s in (one.log_high, one.log_low))
    g_high, g_low = one.gain_high * g_high, one.gain_low * g_low
    l_high, l_low = (np.exp(beta * s) for s in (one.log_high, one.log_low))
    l_high, l_low = one.loss_high * l_high, one.loss_low * l_low
    lost = down * l_low + (1.0 - down) * l_high
    by_alpha = up * g_high * one.log_high + (1.0 - up) * g_low * one.log_low
    by_beta = down * l_low * one.log_low + (1.0 - down) * l_high * one.log_high
    slopes = (
        alpha * by_alpha,
        -lam * beta * by_beta,
        -lam * lost,
        gain * d_up * (g_high - g_low),
        -lam * loss * d_down * (l_low - l_high),
    )
    return up * g_high + (1.0 - up) * g_low - lam * lost, np.stack(slopes, axis=-1)


class Problem(NamedTuple):
    """Prepared choices: both lotteries, +1 where a was chosen and -1 where b, weights (N,)."""

    a: Lottery
    b: Lottery
    sign: np.ndarray
    weights: np.ndarray


def prepare(choices: Choices) -> Problem:
    """The choices as `likelihood` wants them, each of weight 1."""
    sign = np.where(choices.chose_a, 1.0, -1.0)
    return Problem(_prepare(choices.a), _prepare(choices.b), sign, np.ones(len(sign)))


def likelihood(task: Problem, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Log-likelihood, score (6,) and expected information (6, 6) at logarithms theta (6,)."""
    x = np.exp(theta)
    (first, d_first), (second, d_second) = worth(task.a, x), worth(task.b, x)
    z = x[5] * (first - second)
    slopes = np.column_stack([x[5] * (d_first - d_second), z])
    wrong = 1.0 / (1.0 + np.exp(np.clip(task.sign * z, -700, 700)))
    logs = -np.logaddexp(0.0, -task.sign * z)
    score = (task.weights * task.sign * wrong) @ slopes
    information = (slopes * (task.weights * wrong * (1.0 - wrong))[:, None]).T @ slopes
    return float(task.weights @ logs), score, information


def log_likelihood(choices: Choices, params: ProspectParams, slope: float) -> float:
    """Log-likelihood of the choices in nats, for given parameters."""
    return likelihood(prepare(choices), np.log(numbers(params, slope)))[0]
