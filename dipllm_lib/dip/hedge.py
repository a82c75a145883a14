"""One learner of piKL-Hedge: the policy update that search and matrix games share.

A learner keeps weighted sums over iterations and turns them into its next policy over K actions:

    (1a), (1b)  normalised   pi(a) ~ exp{ (Q(a) + lam log tau(a)) / (lam + kappa) }
    (1)         literal      pi(a) ~ exp{ lam log tau(a) + Q(a) }

Q is the weighted mean over iterations of the utility of a, or its latest value. Equation numbers
are those of Xu et al. 2025 (1), Bakhtin et al. 2022b, Eq. 5 (1a) and Jacob et al. 2022 (1b).
Temperature kappa after t iterations:

    code    3 (S + 1e-6) / (eta0 sqrt(n)), n = accumulated weight (the step-size form 1/(eta_n n))
    paper   3 S / (eta0 sqrt(t))
    root    1 / (eta0 sqrt(t)), without data: the schedule of the theory tables
    zero    0, fictitious play with an anchor

S is the weighted standard deviation so far of the learner's own expected utility. The first policy
is uniform. With `linear` weighting iteration t has weight proportional to t: before iteration k
(from 0) is added, all sums are multiplied by (k + 1e-6)/(k + 1), so that n = (t + 1)/2 after t
iterations.

Shapes: P learners, K the largest number of actions; a learner with fewer is padded at the end.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

RULES = ("normalised", "literal")
KAPPAS = ("code", "paper", "zero", "root")
WEIGHTINGS = ("linear", "uniform")
VALUES = ("mean", "current")
FLOOR = 1e-50  # smallest probability inside log tau


class Rule(NamedTuple):
    """Switches of the update as numbers, so that compiled code takes them as one argument."""

    lam: float
    eta0: float
    literal: bool
    kappa: int
    linear: bool
    current: bool


class Learners(NamedTuple):
    """State of P learners; every array is changed in place by `update`.

    size (P,): actions of each · log_tau, policy, latest, value_sum, policy_sum (P, K) · moments
    (P, 3): accumulated weight n, mean of the own expected utility, sum of its squared deviations.
    """

    size: np.ndarray
    log_tau: np.ndarray
    policy: np.ndarray
    latest: np.ndarray
    value_sum: np.ndarray
    policy_sum: np.ndarray
    moments: np.ndarray


def rule(lam, eta0=10.0, rule="normalised", kappa="code", weighting="linear", q="mean") -> Rule:
    """The checked switches. ValueError for an unknown name, a negative lam or an eta0 <= 0."""
    for name, value, known in (
        ("search.rule", rule, RULES),
        ("search.kappa", kappa, KAPPAS),
        ("search.weighting", weighting, WEIGHTINGS),
        ("search.q", q, VALUES),
    ):
        if value not in known:
            raise ValueError(f"unknown {name} {value!r}: use one of {', '.join(known)}")
    if not lam >= 0 or not eta0 > 0:
        raise ValueError(f"need lam >= 0 and eta0 > 0, got lam {lam} and eta0 {eta0}")
    literal, linear, current = rule == "literal", weighting == "linear", q == "current"
    return Rule(float(lam), float(eta0), literal, KAPPAS.index(kappa), linear, current)


def learners(log_taus) -> Learners:
    """P learners before the first iteration.

    log_taus: P arrays of log-probabilities, each renormalised here after a floor of 1e-50; none may
    be empty.
    """
    sizes = np.array([len(log_tau) for log_tau in log_taus], dtype=np.int64)
    if len(sizes) == 0 or sizes.min() == 0:
        raise ValueError("a learner needs at least one action")
    shape = (len(sizes), int(sizes.max()))
    state = Learners(sizes, *(np.zeros(shape) for _ in range(5)), np.zeros((len(sizes), 3)))
    for i, (size, log_tau) in enumerate(zip(sizes, log_taus)):
        floored = np.maximum(np.asarray(log_tau, dtype=np.float64), np.log(FLOOR))
        state.log_tau[i, :size] = floored - log_sum_exp(floored)
        state.policy[i, :size] = 1.0 / size
    return state


@njit(cache=True)
def update(state, utility, iteration, rule):
    """Add the utilities (P, K) of iteration 0, 1, … to the sums and write the next policies."""
    keep = (iteration + 1e-6) / (iteration + 1.0) if rule.linear else 1.0
    for i in range(state.size.shape[0]):
        size = state.size[i]
        own = 0.0
        for a in range(size):
            own += state.policy[i, a] * utility[i, a]
            state.value_sum[i, a] = keep * state.value_sum[i, a] + utility[i, a]
            state.policy_sum[i, a] = keep * state.policy_sum[i, a] + state.policy[i, a]
            state.latest[i, a] = utility[i, a]
        _add_moment(state.moments[i], keep, own)
        exponents = _exponents(state, i, iteration + 1, rule)
        _softmax(exponents, state.policy[i, :size])


@njit(cache=True)
def _add_moment(moments, keep, value):
    """West's weighted update of weight, mean and squared deviations."""
    moments[0] = keep * moments[0] + 1.0
    before = value - moments[1]
    moments[1] += before / moments[0]
    moments[2] = keep * moments[2] + before * (value - moments[1])


@njit(cache=True)
def temperature(moments, iterations, rule):
    """kappa after `iterations` iterations (see the module's table)."""
    deviation = np.sqrt(max(moments[2] / moments[0], 0.0))
    if rule.kappa == 0:
        return 3.0 * (deviation + 1e-6) / (rule.eta0 * np.sqrt(moments[0]))
    if rule.kappa == 1:
        return 3.0 * deviation / (rule.eta0 * np.sqrt(iterations))
    if rule.kappa == 3:
        return 1.0 / (rule.eta0 * np.sqrt(iterations))
    return 0.0


@njit(cache=True)
def _exponents(state, i, iterations, rule):
    """f of learner i; at temperature zero 0 for the first best action, -inf for the others."""
    size = state.size[i]
    f = np.empty(size)
    scale = 1.0 if rule.literal else rule.lam + temperature(state.moments[i], iterations, rule)
    for a in range(size):
        q = state.latest[i, a] if rule.current else state.value_sum[i, a] / state.moments[i, 0]
        f[a] = q + rule.lam * state.log_tau[i, a]
    if scale > 0.0:
        return f / scale
    best = np.argmax(f)
    f[:] = -np.inf
    f[best] = 0.0
    return f


@njit(cache=True)
def _softmax(f, out):
    top = f.max()
    total = 0.0
    for a in range(f.shape[0]):
        out[a] = np.exp(f[a] - top)
        total += out[a]
    for a in range(f.shape[0]):
        out[a] /= total


@njit(cache=True)
def self_play(payoff, state, iterations, rule, marks):
    """Two learners on a zero-sum game with exact expectations, no sampling.

    u_row(a) = Σ_b y(b) A(a, b), u_col(b) = Σ_a x(a) (1 - A(a, b)). Returns the average external
    regret (T, 2) after each iteration, and gains (M, 2) of the best deviations from the average
    policies after the iterations `marks` (M,).
    """
    rows, columns = payoff.shape
    across = payoff.T.copy()  # so that both inner loops run along rows
    utility = np.zeros(state.policy.shape)
    regret, gains = np.empty((iterations, 2)), np.empty((len(marks), 2))
    at = 0
    for k in range(iterations):
        utility[0, :rows] = 0.0
        utility[1, :columns] = 1.0
        for b in range(columns):
            for a in range(rows):
                utility[0, a] += across[b, a] * state.policy[1, b]
        for a in range(rows):
            for b in range(columns):
                utility[1, b] -= state.policy[0, a] * payoff[a, b]
        update(state, utility, k, rule)
        for i in range(2):
            best = state.value_sum[i, : state.size[i]].max() / state.moments[i, 0]
            regret[k, i] = best - state.moments[i, 1]
        if at < len(marks) and k + 1 == marks[at]:
            _gains(payoff, state, gains[at])
            at += 1
    return regret, gains


@njit(cache=True)
def _gains(payoff, state, out):
    """What each player gains by its best deviation from the average policies, into out (2,)."""
    rows, columns = payoff.shape
    row = state.policy_sum[0, :rows] / state.moments[0, 0]
    column = state.policy_sum[1, :columns] / state.moments[1, 0]
    best_row, best_column, value = -np.inf, np.inf, 0.0
    for a in range(rows):
        total = 0.0
        for b in range(columns):
            total += payoff[a, b] * column[b]
        best_row = max(best_row, total)
        value += row[a] * total
    for b in range(columns):
        total = 0.0
        for a in range(rows):
            total += row[a] * payoff[a, b]
        best_column = min(best_column, total)
    out[0], out[1] = best_row - value, value - best_column


def draw(policy: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(P,) one action per row of policy (P, K), padded; rng gives P uniform numbers."""
    cumulative = np.cumsum(policy, axis=1)
    picks = (cumulative <= rng.random(len(size))[:, None] * cumulative[:, -1:]).sum(axis=1)
    return np.minimum(picks, size - 1)


def exponents(state: Learners, i: int, iterations: int, rule: Rule) -> np.ndarray:
    """(K_i,) exponents f of learner i after `iterations` iterations; softmax f is (2)."""
    return _exponents(state, i, iterations, rule)


def average(state: Learners, i: int) -> np.ndarray:
    """(K_i,) weighted average of the policies of learner i so far: what the search plays."""
    return state.policy_sum[i, : state.size[i]] / state.moments[i, 0]


def values(state: Learners, i: int) -> np.ndarray:
    """(K_i,) weighted mean utility of each action of learner i so far."""
    return state.value_sum[i, : state.size[i]] / state.moments[i, 0]


def regret(state: Learners) -> np.ndarray:
    """(P,) average external regret so far: best fixed action in hindsight minus own utility."""
    best = [values(state, i).max() for i in range(len(state.size))]
    return np.array(best) - state.moments[:, 1]


def log_sum_exp(f: np.ndarray) -> float:
    """log Σ exp f without overflow; -inf where every entry is -inf."""
    top = np.max(f)
    return float(top + np.log(np.sum(np.exp(f - top)))) if np.isfinite(top) else float(top)


def softmax(f: np.ndarray) -> np.ndarray:
    """exp f / Σ exp f, float64."""
    return np.exp(f - log_sum_exp(f))


def entropy(p: np.ndarray) -> float:
    """-Σ p log p in nats."""
    positive = p[p > 0]
    return float(-np.sum(positive * np.log(positive)))


def kl(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p || q) in nats; infinite where q is 0 and p is not. q may sum to less than 1."""
    positive = p > 0
    if np.any(q[positive] <= 0):
        return float("inf")
    return float(np.sum(p[positive] * np.log(p[positive] / q[positive])))
