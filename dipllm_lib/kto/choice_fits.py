"""Maximum likelihood of α, β, λ, γ+, γ- and the slope of the choice rule, from binary choices.

The fit works on logarithms of the six numbers of `choice_model`, inside `BOX`: steps of Fisher
scoring, damped as by Levenberg and Marquardt, from two starts. Intervals come from the inverse
expected information (the Hessian of the negative log-likelihood, expected over choices), on the
scale of logarithms, or from choices drawn again with replacement.

λ is the weight of a loss of size 1 in the currency of the data. With α and β both free it is
extrapolated from the sizes that were seen, since λ x^(β - α) is what choices at size x tell, and
its error grows with the logarithm of x. State loss aversion at the size of the stakes
(`loss_aversion`), or fit one exponent for both (Nilsson, Rieskamp and Wagenmakers 2011).

Shapes: N choices, 6 numbers in the order of NAMES, R resamples.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.kto import choice_model
from dipllm_lib.kto.choice_model import NAMES, Problem
from dipllm_lib.kto.choices import Choices
from dipllm_lib.kto.prospect import ProspectParams, loss_gain_ratio

BOX = ((0.2, 2.0), (0.2, 2.0), (0.1, 20.0), (0.28, 1.5), (0.28, 1.5), (1e-4, 1e4))
STARTS = ((0.9, 0.9, 1.5, 0.8, 0.8), (0.6, 0.6, 1.0, 0.6, 0.6))
OF_LOSSES = ("beta", "lam", "gamma_loss")
OF_GAINS = ("alpha", "gamma_gain")
STEPS = 200  # a fit takes 6 to 20
SURE = -1e-6  # nats of all choices: above it each has a probability of 1
CLOSE = 1e-10  # a step in logarithms below it ends the fit
NORMAL = 1.959963984540054  # 97.5 % quantile of the normal distribution


@dataclass(frozen=True, eq=False)
class Fit:
    """params and slope of the largest likelihood · covariance (6, 6) of the logarithms in the order
    of NAMES, nan for a number that was given or lies at the edge of BOX · at_edge: names of the
    latter · log_likelihood in nats over n choices."""

    params: ProspectParams
    slope: float
    covariance: np.ndarray
    at_edge: tuple[str, ...]
    log_likelihood: float
    n: int

    @property
    def values(self) -> np.ndarray:
        """(6,) the estimates in the order of NAMES."""
        return choice_model.numbers(self.params, self.slope)

    @property
    def errors(self) -> np.ndarray:
        """(6,) standard errors of the logarithms of `values`."""
        return np.sqrt(np.diag(self.covariance))


def fit(
    choices: Choices, fixed: Mapping[str, float] | None = None, one_exponent: bool = False
) -> Fit:
    """The parameters under which the choices are most likely.

    fixed: names of NAMES that are given, not fitted · one_exponent: α = β, named alpha. ValueError
    for an unknown name, a value outside BOX, or choices that say nothing about a parameter that is
    to be fitted, or that have no noise.
    """
    fixed = dict(fixed or {})
    _check(choices, fixed, one_exponent)
    task = choice_model.prepare(choices)
    groups = _groups(fixed, one_exponent)
    found = [_climb(task, _start(task, start, fixed), groups) for start in STARTS]
    return _as_fit(task, *max(found, key=lambda pair: pair[1]), groups)


def bootstrap(
    choices: Choices,
    rng: np.random.Generator,
    resamples: int,
    fixed: Mapping[str, float] | None = None,
    one_exponent: bool = False,
) -> np.ndarray:
    """(R, 6) estimates from choices drawn again with replacement, each begun at the estimate."""
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    begin = np.log(fit(choices, fixed, one_exponent).values)
    groups, n = _groups(dict(fixed or {}), one_exponent), len(choices)
    task, rows = choice_model.prepare(choices), []
    for _ in range(resamples):
        weights = rng.multinomial(n, np.full(n, 1.0 / n)).astype(np.float64)
        rows.append(np.exp(_climb(task._replace(weights=weights), begin, groups)[0]))
    return np.array(rows)


def intervals(found: Fit, resampled: np.ndarray | None = None) -> pd.DataFrame:
    """Columns parameter, estimate, low, high, 95 %: from the information of `found`, or the
    percentiles of `resampled` (R, 6)."""
    if resampled is None:
        half = np.exp(NORMAL * found.errors)
        low, high = found.values / half, found.values * half
    else:
        low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    columns = {"parameter": NAMES, "estimate": found.values, "low": low, "high": high}
    return pd.DataFrame(columns)


def loss_aversion(found: Fit, size: float) -> tuple[float, float, float]:
    """(estimate, low, high), 95 %, of λ x^(β - α) at size x in the currency of the data."""
    estimate = float(loss_gain_ratio(size, found.params))
    own = np.array([-found.params.alpha, found.params.beta, 0.0, 0.0, 0.0, 0.0]) * np.log(size)
    own[NAMES.index("lam")] = 1.0
    used = own != 0.0
    part = found.covariance[np.ix_(used, used)]
    half = float(np.exp(NORMAL * np.sqrt(own[used] @ part @ own[used])))
    return estimate, estimate / half, estimate * half


def _groups(fixed: Mapping[str, float], one_exponent: bool) -> np.ndarray:
    """(6, m) columns of the m numbers that are fitted: 1 at each parameter that moves with it."""
    columns = []
    for i, name in enumerate(NAMES):
        if name in fixed or (one_exponent and name == "beta"):
            continue
        column = np.zeros(len(NAMES))
        column[i] = 1.0
        if one_exponent and name == "alpha":
            column[NAMES.index("beta")] = 1.0
        columns.append(column)
    return np.array(columns).T


def _edges(theta: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(m,) whether each fitted number lies at the lower, at the upper edge of BOX."""
    first = groups.argmax(axis=0)
    low, high = np.log(BOX).T
    return theta[first] <= low[first], theta[first] >= high[first]


def _start(task: Problem, start: tuple[float, ...], fixed: Mapping[str, float]) -> np.ndarray:
    """Logarithms (6,) to begin from; the slope makes differences of V about 1."""
    x = np.array([*start, 1.0])
    for name, number in fixed.items():
        x[NAMES.index(name)] = number
    if "slope" not in fixed:
        gap = np.abs(choice_model.worth(task.a, x)[0] - choice_model.worth(task.b, x)[0]).mean()
        x[5] = 1.0 / max(gap, 1e-6)
    return np.log(np.clip(x, *np.array(BOX).T))


def _climb(task: Problem, theta: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, float]:
    """(theta, log-likelihood) of the maximum that damped Fisher scoring reaches; ValueError without
    one."""
    lowest, highest = np.log(BOX).T
    value, score, information = choice_model.likelihood(task, theta)
    damping = 1e-3
    for _ in range(STEPS):
        pull = groups.T @ score
        low, high = _edges(theta, groups)
        free = groups[:, ~((low & (pull < 0)) | (high & (pull > 0)))]
        inner, slope = free.T @ information @ free, free.T @ score
        system = inner + damping * np.diag(np.maximum(np.diag(inner), 1e-12))
        step = np.linalg.solve(system, slope)
        trial = np.clip(theta + free @ step, lowest, highest)
        moved = np.abs(trial - theta).max(initial=0.0)
        reached = choice_model.likelihood(task, trial)
        # the information is no curvature: steps that gain less than it promised were too long
        share = (reached[0] - value) / max(float(step @ (slope - inner @ step / 2)), 1e-300)
        damping *= 0.1 if share > 0.75 else 1.0 if share > 0.25 else 10.0
        damping = min(max(damping, 1e-9), 1e9)
        if reached[0] >= value:
            theta, (value, score, information) = trial, reached
        if value > SURE:
            raise ValueError("no choice goes against the others: the slope has no end, fix it")
        if moved < CLOSE:
            return theta, value
    raise ValueError(f"no maximum of the likelihood within {STEPS} steps: fix some parameters")


def _as_fit(task: Problem, theta: np.ndarray, value: float, groups: np.ndarray) -> Fit:
    """The fit at logarithms theta (6,), with its covariance."""
    low, high = _edges(theta, groups)
    inner = groups[:, ~(low | high)]
    information = choice_model.likelihood(task, theta)[2]
    try:
        covariance = inner @ np.linalg.inv(inner.T @ information @ inner) @ inner.T
    except np.linalg.LinAlgError as error:
        raise ValueError("the choices do not tell the parameters apart: fix some") from error
    known = inner.any(axis=1)
    covariance[~known, :] = covariance[:, ~known] = np.nan
    at_edge = tuple(NAMES[i] for i in np.flatnonzero(groups[:, low | high].any(axis=1)))
    x = np.exp(theta).tolist()
    n = int(round(task.weights.sum()))
    return Fit(ProspectParams(*x[:5]), x[5], covariance, at_edge, value, n)


def _check(choices: Choices, fixed: Mapping[str, float], one_exponent: bool) -> None:
    """ValueError for `fixed` that is no use, or for choices without gains or losses."""
    for name, number in fixed.items():
        if name not in NAMES:
            raise ValueError(f"unknown parameter {name!r}: use {', '.join(NAMES)}")
        low, high = BOX[NAMES.index(name)]
        if not low <= number <= high:
            raise ValueError(f"{name} {number}: a fixed value must lie in [{low:g}, {high:g}]")
    if set(NAMES) <= set(fixed):
        raise ValueError("every parameter is fixed: nothing is left to fit")
    if one_exponent and {"alpha", "beta"} & set(fixed):
        raise ValueError("one exponent is fitted for both: alpha and beta cannot be fixed")
    outcomes = np.concatenate([choices.a[:, [0, 2]], choices.b[:, [0, 2]]])
    kinds = ("gain", OF_GAINS, outcomes > 0), ("loss", OF_LOSSES, outcomes < 0)
    for kind, names, seen in kinds:
        missing = [name for name in names if name not in fixed]
        if missing and not seen.any():
            raise ValueError(f"no choice has a {kind}: fix {', '.join(missing)}")
