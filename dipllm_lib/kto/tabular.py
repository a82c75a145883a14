"""Tabular learners with exact gradients: the objectives of `loss` on weighted, enumerated samples.

A sample is (row, action, V) with a mass: the probability of that decision and outcome where the
expectation is exact, 1/n for each of n drawn samples otherwise. The loss is the sum of mass times
term. Its derivative by log pi(a|h) is written out here and tested against `loss` through autograd:

    kto, pt_kto     -m omega lambda_y e kappa s (1 - s),   s = sigma(kappa e (r - z0))
    pt_pair         -+ m gap / mean kappa s (1 - s) at a+ and a-,   s = sigma(kappa (r+ - r-))
    literal_sign    +- m kappa s (1 - s)
    sft             -m d / sum m d
    wmle            -m exp(V / tau) / mean
    a2c             -m (V - b_h), b_h the mean of V of the row: policy gradient with a baseline, the
                    kind of step that study 2's A2C takes

and by the logits through the softmax. The first step of KTO is kappa/4 p(a|h) E[V|a] / mean|V|, the
policy gradient of expected prospect value; the objectives without sigma have no factor kappa/4. So
`Objective.rate` is in units of that policy gradient, and the sigmoid ones multiply it by 4/kappa.

Rows may belong to several independent problems (`groups`): z0 and all means are taken per problem,
so a population is trained in one call.

Shapes: R rows, A actions, N samples, G groups; all float64.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from dipllm_lib.kto.loss import CAP
from dipllm_lib.kto.policies import log_softmax

OBJECTIVES = ("sft", "wmle", "a2c", "kto", "pt_kto", "pt_pair", "literal_sign")
SIGMOID = ("kto", "pt_kto", "pt_pair", "literal_sign")
PAIRED = ("pt_pair", "literal_sign")
SMALLEST = 1e-6  # of mean |V|: below it a problem is solved, and weights go to 0 with V
BALANCES = ("none", "counts", "masses")


@dataclass(frozen=True)
class Objective:
    """name: one of OBJECTIVES · kappa: temperature of sigma · tau: of wmle, in units of mean |V| ·
    z0: `exact_batch`, `exact_context` or `zero` · balance: `none`; `counts` and `masses` balance
    the classes of each problem, which outcome labels do not stand (spec 3.6): for the experiment
    that shows it · steps: per
    round, rate: of each."""

    name: str = "pt_kto"
    kappa: float = 0.1
    tau: float = 0.5
    z0: str = "exact_batch"
    balance: str = "none"
    steps: int = 10
    rate: float = 2.0

    def __post_init__(self) -> None:
        if self.name not in OBJECTIVES or self.balance not in BALANCES:
            raise ValueError(f"unknown objective {self.name!r} or balance {self.balance!r}")
        if self.z0 not in ("exact_batch", "exact_context", "zero"):
            raise ValueError(f"z0 {self.z0!r}: a table has exact_batch, exact_context and zero")
        if min(self.kappa, self.tau, self.rate) <= 0 or self.steps < 1:
            raise ValueError("kappa, tau and rate must be above 0, steps at least 1")


@dataclass(frozen=True)
class Data:
    """N weighted samples of R rows. rows, actions: int (N,) · mass: >= 0, each group's sum is 1 ·
    values: V · labels: desirable, None for V > 0 · groups: int (R,), None where there is one."""

    rows: np.ndarray
    actions: np.ndarray
    mass: np.ndarray
    values: np.ndarray
    labels: np.ndarray | None = None
    groups: np.ndarray | None = None
    unit: bool = field(default=False)

    @property
    def desirable(self) -> np.ndarray:
        """(N,) bool; V = 0 is undesirable, and has weight 0 unless weights are unit."""
        return self.values > 0 if self.labels is None else self.labels.astype(bool)

    def group(self) -> np.ndarray:
        """(N,) the problem of each sample."""
        zeros = np.zeros(len(self.rows), dtype=np.int64)
        return zeros if self.groups is None else self.groups[self.rows]

    def per_group(self, numbers: np.ndarray) -> np.ndarray:
        """(N,) the mass-weighted mean of `numbers` over the sample's problem."""
        index = self.group()
        total = np.bincount(index, self.mass * numbers)
        return (total / np.bincount(index, self.mass))[index]

    def omega(self, name: str) -> np.ndarray:
        """(N,) weights: 1 for `kto` and unit data, else min(|V|, cap) / mean |V|. 0 in a problem
        where every V is 0: nothing to learn there."""
        if name == "kto" or self.unit:
            return np.ones(len(self.rows))
        size = np.abs(self.values)
        mean = self.per_group(size)
        return np.minimum(size, CAP) / np.maximum(mean, SMALLEST)


def first(objective: Objective) -> float:
    """What the rate is multiplied by, so that the first step is a policy gradient."""
    return 4 / objective.kappa if objective.name in SIGMOID else 1.0


class Learner:
    """A table of logits and its reference. logits: (R, A), -inf where an action is not legal."""

    def __init__(self, logits: np.ndarray):
        self.logits = np.array(logits, dtype=np.float64)
        self.renew()

    @property
    def log_probs(self) -> np.ndarray:
        """(R, A)."""
        return log_softmax(self.logits)

    @property
    def probs(self) -> np.ndarray:
        """(R, A)."""
        return np.exp(self.log_probs)

    def renew(self) -> None:
        """The policy of now becomes the reference."""
        self.reference = self.log_probs

    def optimise(self, data: Data, objective: Objective) -> None:
        """One round: the reference is renewed, then `steps` exact gradient steps on `data`."""
        self.renew()
        prepared = prepare(data, objective)
        legal = np.isfinite(self.logits)
        for _ in range(objective.steps):
            own = self.log_probs
            inner = by_log_prob(prepared, own, self.reference, objective)
            step = inner - inner.sum(axis=1, keepdims=True) * np.exp(own)
            rate = objective.rate * first(objective)
            self.logits = np.where(legal, self.logits - rate * step, -np.inf)


@dataclass(frozen=True)
class Prepared:
    """What stays the same over the steps of a round."""

    data: Data
    weight: np.ndarray  # (N,) mass omega lambda_y, or what takes its place
    sign: np.ndarray  # (N,)
    pairs: tuple[np.ndarray, np.ndarray] | None = None  # samples a+ and a-
    share: np.ndarray | None = None  # (R,) weight of each row in z0


def prepare(data: Data, objective: Objective) -> Prepared:
    """Weights of the samples, or the pairs, of an objective."""
    sign = np.where(data.desirable, 1.0, -1.0)
    if objective.name in PAIRED:
        return _pairs(data, objective, sign)
    if objective.name == "sft":
        count = data.per_group(data.desirable.astype(float))
        weight = data.mass * data.desirable / np.where(count > 0, count, 1.0)
    elif objective.name == "wmle":
        mean = data.per_group(np.abs(data.values))
        # the largest V of a problem is taken out, which cancels in the mean
        scaled = data.values / np.maximum(mean, SMALLEST) / objective.tau
        tilted = np.exp(scaled - _largest(data.group(), scaled))
        weight = data.mass * tilted / data.per_group(tilted)
    elif objective.name == "a2c":
        mean = data.per_group(np.abs(data.values))
        weight = data.mass * _advantage(data) / np.maximum(mean, SMALLEST)
    else:
        weight = data.mass * data.omega(objective.name)
        weight = weight * _class_weights(data, objective)
    rows = np.bincount(data.rows, data.mass, minlength=int(data.rows.max()) + 1)
    return Prepared(data, weight, sign, share=rows)


def _largest(index: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """(N,) the largest number of the problem of each sample."""
    most = np.full(index.max() + 1, -np.inf)
    np.maximum.at(most, index, numbers)
    return most[index]


def _advantage(data: Data) -> np.ndarray:
    """(N,) V minus the mean of V of the row."""
    total = np.bincount(data.rows, data.mass * data.values)
    mass = np.bincount(data.rows, data.mass)
    return data.values - (total / np.where(mass > 0, mass, 1.0))[data.rows]


def _class_weights(data: Data, objective: Objective) -> np.ndarray:
    """(N,) lambda_y: 1, or what balances counts or omega masses of the two classes of a problem."""
    if objective.balance == "none":
        return np.ones(len(data.rows))
    size = np.ones(len(data.rows))
    if objective.balance == "masses":
        size = data.omega(objective.name)
    good = data.per_group(size * data.desirable)
    bad = data.per_group(size * ~data.desirable)
    own, other = np.where(data.desirable, good, bad), np.where(data.desirable, bad, good)
    both = (own > 0) & (other > 0)
    return np.where(both, other / np.maximum(np.maximum(own, other), 1e-300), 1.0)


def _pairs(data: Data, objective: Objective, sign: np.ndarray) -> Prepared:
    """All pairs of one row with V+ > V-, mass the product of both, gap over its mean."""
    plus, minus = [], []
    order = np.argsort(data.rows, kind="stable")
    cuts = np.flatnonzero(np.diff(data.rows[order])) + 1
    for block in np.split(order, cuts):
        better = data.values[block][:, None] > data.values[block][None, :]
        i, j = np.nonzero(better)
        plus.append(block[i])
        minus.append(block[j])
    plus, minus = np.concatenate(plus), np.concatenate(minus)
    row = np.bincount(data.rows, data.mass)[data.rows]
    mass = data.mass[plus] * data.mass[minus] / np.where(row[plus] > 0, row[plus], 1.0)
    index, gap = data.group()[plus], data.values[plus] - data.values[minus]
    total = np.bincount(index, mass, minlength=1)
    scale = np.bincount(index, mass * gap, minlength=1) / np.where(total > 0, total, 1.0)
    weight = mass / np.where(total > 0, total, 1.0)[index]
    if objective.name == "pt_pair":
        weight = weight * gap / np.where(scale > 0, scale, 1.0)[index]
    return Prepared(data, weight, sign, pairs=(plus, minus))


def by_log_prob(
    prepared: Prepared, own: np.ndarray, reference: np.ndarray, objective: Objective
) -> np.ndarray:
    """(R, A) derivative of the loss by log pi(a|h). own, reference: log-probabilities (R, A)."""
    data, weight = prepared.data, prepared.weight
    place = data.rows * own.shape[1] + data.actions
    if prepared.pairs is not None:
        plus, minus = prepared.pairs
        flat = _ratio(own, reference).ravel()
        slope = _slope(objective.kappa * (flat[place[plus]] - flat[place[minus]]))
        part = weight * objective.kappa * slope
        part = part if objective.name == "literal_sign" else -part
        raw = np.bincount(place[plus], part, own.size) - np.bincount(place[minus], part, own.size)
        return raw.reshape(own.shape)
    if objective.name not in SIGMOID:
        return -np.bincount(place, weight, own.size).reshape(own.shape)
    ratio = _ratio(own, reference)
    point = _z0(prepared, own, ratio, objective.z0)
    slope = _slope(objective.kappa * prepared.sign * (ratio.ravel()[place] - point))
    part = weight * prepared.sign * objective.kappa * slope
    return -np.bincount(place, part, own.size).reshape(own.shape)


def _ratio(own: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """(R, A) log-ratios r, 0 where an action is not legal."""
    return np.subtract(own, reference, out=np.zeros_like(own), where=np.isfinite(own))


def _slope(x: np.ndarray) -> np.ndarray:
    """sigma(x) (1 - sigma(x)), the same for x and -x."""
    small = np.exp(-np.abs(x))
    return small / (1 + small) ** 2


def _z0(prepared: Prepared, own: np.ndarray, ratio: np.ndarray, form: str) -> np.ndarray:
    """(N,) the reference point of each sample."""
    data = prepared.data
    if form == "zero":
        return np.zeros(len(data.rows))
    kl = (np.exp(own) * ratio).sum(axis=1)
    if form == "exact_batch":
        kl = kl[: len(prepared.share)]
        groups = np.zeros(len(kl), dtype=np.int64)
        groups = groups if data.groups is None else data.groups[: len(kl)]
        total = np.bincount(groups, kl * prepared.share)
        mass = np.bincount(groups, prepared.share)
        kl = (total / np.where(mass > 0, mass, 1.0))[groups]
    return np.maximum(kl, 0.0)[data.rows]


def drawn(data: Data, counts: np.ndarray) -> Data:
    """The same samples with the frequencies of drawn counts (N,) as mass, those with 0 left out."""
    kept = counts > 0
    index = data.group()
    mass = counts / np.bincount(index, counts)[index]
    parts = {"rows": data.rows[kept], "actions": data.actions[kept], "mass": mass[kept]}
    labels = None if data.labels is None else data.labels[kept]
    return replace(data, values=data.values[kept], labels=labels, **parts)
