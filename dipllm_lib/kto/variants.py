"""Training and held-out variants of each game type, and what a value function is worth in them.

The score of (alpha, beta, lambda, rho): tables are trained by `pt_kto` with exact gradients and
that value function, then judged by ONE objective.

    type        objective   a table is                    training               held out
    ultimatum   payoff      proposer; share of the best   three responder pops   three other ones
    breakdown   payoff      bargainer whose partner       p .9, .8; T 4          p .95, .7; T 5, 6
                            learns too under ARTICLE,
                            rho .25; own share
    repeated    payoff      player of T rounds; share     5/3/1/0, partners      4/3/1/0, others
                            of the best reply
    gift        likeness    second mover; -KL             gifts 0, .2, ...       gifts .1, .3, ...
    responder   likeness    responder; -KL                offers .05, .15, ...   offers .1, .2, ...

In the repeated game the reference is the policy's own mean, so rho does nothing there.

Shapes: n candidates (n, 4) -> scores (n,), the mean over the variants.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dipllm_lib.ipd import tabular as memory_one
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.kto import bargainers, cem, humans, labels, proposers, prospect, training
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.gift import GiftPD, choice_values
from dipllm_lib.kto.repeated import EXTORT2
from dipllm_lib.kto.repeaters import Repeaters
from dipllm_lib.kto.tabular import Data, Learner, Objective

PARTS = ("training", "held out")
TYPES = {
    "ultimatum": "payoff",
    "breakdown": "payoff",
    "repeated": "payoff",
    "gift": "likeness",
    "responder": "likeness",
}
# median and log-sd of envy: the fit to people, and populations below and above it
ENVY = {
    "training": ((0.190, 1.66), (0.10, 1.2)),
    "held out": ((0.35, 1.0), (0.19, 0.8), (0.6, 1.6)),
}
BREAKDOWN = {
    "training": ((0.9, 20, 4), (0.8, 20, 4)),
    "held out": ((0.95, 20, 4), (0.7, 20, 4), (0.9, 20, 5), (0.9, 10, 6)),
}
OTHER_RHO = 0.25  # reference of the partner in bargaining
PAYS = {"training": Payoffs(3.0, 0.0, 5.0, 1.0), "held out": Payoffs(3.0, 0.0, 4.0, 1.0)}
PARTNERS = {"training": ("TFT", "GTFT", "AllD"), "held out": ("WSLS", "GRIM", "AllC")}


@dataclass(frozen=True)
class Inner:
    """Of the inner training: rounds and objective; repeated: rounds of the repeated game."""

    rounds: int = 10
    objective: Objective = Objective()
    repeated: int = 10


def score(kind: str, part: str, inner: Inner) -> cem.Score:
    """The score of rows (n, 4) in the variants of a type. ValueError for unknown names."""
    makers: dict[str, Callable[[np.ndarray, str, Inner], np.ndarray]] = {
        "ultimatum": _ultimatum,
        "breakdown": _breakdown,
        "repeated": _repeated,
        "gift": _gift,
        "responder": _responder,
    }
    if kind not in makers or part not in PARTS:
        raise ValueError(f"unknown type {kind!r} or part {part!r} of variants")
    return lambda rows: makers[kind](np.atleast_2d(rows), part, inner)


def article(kind: str) -> np.ndarray:
    """(1, 4) the fixed parameters with the default reference of a type: what CEM has to beat."""
    return rows_of(kind, ["A"])


def rows_of(kind: str, letters: Sequence[str]) -> np.ndarray:
    """(n, 4) of the six settings in a type; F has the reference 0."""
    default = {"gift": 1 / 3, "repeated": 0.0}.get(kind, 0.5)
    rows = []
    for letter in letters:
        own = labels.SETTINGS[letter]
        rho = 0.0 if own.reference == "status_quo" else default
        rows.append([own.params.alpha, own.params.beta, own.params.lam, rho])
    return np.array(rows)


def envious(median: float, spread: float, count: int = 11) -> np.ndarray:
    """(A,) P(accept) of Fehr-Schmidt responders with log-normal envy."""
    draws = median * np.exp(spread * _normal_quantiles(201))
    return humans.fehr_schmidt(proposers.offers_of(count)[:, None], draws).mean(axis=1)


def _normal_quantiles(count: int) -> np.ndarray:
    """Standard normal quantiles of the middles of `count` equal parts."""
    from statistics import NormalDist

    return np.array([NormalDist().inv_cdf((k + 0.5) / count) for k in range(count)])


def _ultimatum(rows: np.ndarray, part: str, inner: Inner) -> np.ndarray:
    populations = [envious(*own) for own in ENVY[part]]
    if part == "training":
        populations.append(proposers.people())
    accept = np.tile(np.stack(populations), (len(rows), 1))
    repeated = rows.repeat(len(populations), axis=0)
    values = proposers.prospect_values(repeated[:, 3], [cem.params_of(r) for r in repeated])
    problem = proposers.Proposers(accept, values)
    learned = training.train(problem, inner.objective, inner.rounds)
    best = (accept * (1 - proposers.OFFERS)).max(axis=1)
    return (learned.scores[-1] / best).reshape(len(rows), -1).mean(axis=1)


def _breakdown(rows: np.ndarray, part: str, inner: Inner) -> np.ndarray:
    """Own share as player 0, and as player 1, averaged over both seats and the variants."""
    own = [cem.params_of(row) for row in rows]
    other, total = prospect.ARTICLE, np.zeros(len(rows))
    for go_on, grid, rounds in BREAKDOWN[part]:
        games = [AlternatingOffers(grid=grid, rounds=rounds, go_on=go_on)] * (2 * len(rows))
        params = [(p, other) for p in own] + [(other, p) for p in own]
        rho = np.full((2 * len(rows), 2), OTHER_RHO)
        rho[: len(rows), 0] = rho[len(rows) :, 1] = rows[:, 3]
        pairs = bargainers.Pairs(games, params, rho)
        paid = bargainers.payoffs(pairs, bargainers.train(pairs, inner.objective, inner.rounds))
        total += (paid[: len(rows), 0] + paid[len(rows) :, 1]) / 2
    return total / len(BREAKDOWN[part])


def _repeated(rows: np.ndarray, part: str, inner: Inner) -> np.ndarray:
    """Share of the best reply, one problem per candidate and partner."""
    partners = [memory_one.named(name) for name in PARTNERS[part]]
    partners.append(np.array(EXTORT2) if part == "training" else humans.repeated_pd())
    params = [cem.params_of(row) for row in rows for _ in partners]
    q = np.tile(np.stack(partners), (len(rows), 1))
    problem = Repeaters(q, inner.repeated, params, pays=PAYS[part])
    learned = training.train(problem, inner.objective, inner.rounds)
    return (learned.scores[-1] / problem.best()).reshape(len(rows), -1).mean(axis=1)


def _two_answers(values: np.ndarray, inner: Inner) -> np.ndarray:
    """(n, K) probability of action 0 after training on V (n, K, 2), all K rows equally often."""
    count, columns, _ = values.shape
    learner = Learner(np.zeros((count * columns, 2)))
    rows, actions = np.divmod(np.arange(values.size), 2)
    groups = np.arange(count).repeat(columns)
    objective = replace(inner.objective, rate=inner.objective.rate * columns)
    for _ in range(inner.rounds):
        mass = learner.probs.ravel() / columns
        learner.optimise(Data(rows, actions, mass, values.ravel(), groups=groups), objective)
    return learner.probs[:, 0].reshape(count, columns)


def _gift(rows: np.ndarray, part: str, inner: Inner) -> np.ndarray:
    """The second mover keeps or gives; payoffs over T - S, rho a share of it."""
    game = GiftPD()
    payoff = choice_values(game) / game.scale
    values = np.stack([prospect.value(payoff - r[3], cem.params_of(r)) for r in rows])
    gives = 1 - _two_answers(values, inner)
    return -_divergence(humans.GIFTS.rates, gives, part)


def _responder(rows: np.ndarray, part: str, inner: Inner) -> np.ndarray:
    """Accept or refuse; the table counts refusals."""
    offers = np.array(humans.REJECTIONS.x)
    payoff = np.stack([offers, np.zeros(len(offers))], axis=1)
    values = np.stack([prospect.value(payoff - r[3], cem.params_of(r)) for r in rows])
    refuses = 1 - _two_answers(values, inner)
    return -_divergence(humans.REJECTIONS.rates, refuses, part)


def _divergence(rates: np.ndarray, own: np.ndarray, part: str) -> np.ndarray:
    """(n,) mean KL(people || policy) over every second column, the policy's rates at least 1e-6
    from 0 and 1."""
    kept = slice(0, None, 2) if part == "training" else slice(1, None, 2)
    own = np.clip(own[:, kept], 1e-6, 1 - 1e-6)
    return humans.divergence(rates[kept][None], own).mean(axis=1)
