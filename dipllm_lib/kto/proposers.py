"""Tabular proposers of the ultimatum against partners with known acceptance.

    u = 1 - o if accepted, with probability P(accept | o), else 0;     V = v(u - rho)
    value of a policy: sum over offers of pi(o) (1 - o) P(accept | o), the pie is 1

The partner is people (the responder table), a share q of partners that accept every positive offer
(what a responder becomes that learns from its own payoff), or a table that learns itself. With q
the best offer moves down at

    expected value        q = .182, .458, .522
    ARTICLE, rho = .5     q = .55,  .69,  .72                                             (exact)

so pool composition and reference are settings to report, not details.

Shapes: G problems, A offers; rows of a learner are the problems.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipllm_lib.kto import humans, prospect, training
from dipllm_lib.kto.prospect import ProspectParams
from dipllm_lib.kto.tabular import Data, Learner, Objective, drawn

OFFERS = np.array(humans.OFFERS)
PASS = 0.98  # share of the best value; always .30 has .96 already


@dataclass(frozen=True, eq=False)
class Proposers:
    """G proposers. accept: P(accept | offer) (G, A) · values: V (G, A, 2) of accepted, refused ·
    expected: a decision has the V it has on average instead of that of what occurred."""

    accept: np.ndarray
    values: np.ndarray
    expected: bool = False

    @property
    def start(self) -> np.ndarray:
        """(G, A) zeros: uniform over offers."""
        return np.zeros(self.accept.shape)

    def data(
        self, probs: np.ndarray, episodes: int = 0, rng: np.random.Generator | None = None
    ) -> Data:
        """Offer and answer of each episode, with the V of what occurred."""
        games, offers = self.accept.shape
        chance = np.stack([self.accept, 1 - self.accept], axis=2)
        mass = probs[:, :, None] * chance
        rows, actions = np.divmod(np.arange(games * offers).repeat(2), offers)
        values = self.values
        if self.expected:
            mean = (chance * values).sum(axis=2, keepdims=True)
            values = np.broadcast_to(mean, values.shape)
        groups = np.arange(games)
        data = Data(rows, actions, mass.ravel(), values.ravel(), groups=groups)
        if not episodes:
            return data
        shares = mass.reshape(games, -1)
        shares = shares / shares.sum(axis=1, keepdims=True)
        return drawn(data, rng.multinomial(episodes, shares).ravel())

    def score(self, probs: np.ndarray) -> np.ndarray:
        """(G,) share of the pie that is kept, in expectation."""
        return (probs * self.accept) @ (1 - offers_of(self.accept.shape[1]))


def offers_of(count: int) -> np.ndarray:
    """(A,) offers on a grid of `count` of them."""
    return np.arange(count) / (count - 1)


def prospect_values(
    references: Sequence[float], params: Sequence[ProspectParams], count: int = 11
) -> np.ndarray:
    """(G, A, 2) V of an accepted and of a refused offer for each reference and parameters."""
    kept = 1 - offers_of(count)
    payoff = np.stack([kept, np.zeros(count)], axis=1)
    pairs = zip(references, params, strict=True)
    return np.stack([prospect.value(payoff - rho, own) for rho, own in pairs])


def people(count: int = 11) -> np.ndarray:
    """(A,) P(accept) of the pooled human responder on a grid of offers."""
    return humans.ultimatum_responder(offers_of(count))


def mixed(share: float, count: int = 11) -> np.ndarray:
    """(A,) P(accept) of a pool of people and a share of partners that accept every positive
    offer."""
    if not 0 <= share <= 1:
        raise ValueError(f"share {share} of accepting partners: need a number in [0, 1]")
    return (1 - share) * people(count) + share * (offers_of(count) > 0)


def best_offer(share: float, reference: float = 0.5, params: ProspectParams | None = None) -> float:
    """The offer of the largest expected V in the pool `mixed(share)`; expected payoff for None.
    Ties go to the larger offer."""
    accept = mixed(share)
    if params is None:
        worth = accept * (1 - OFFERS)
    else:
        both = prospect_values([reference], [params])[0]
        worth = accept * both[:, 0] + (1 - accept) * both[:, 1]
    return float(OFFERS[np.flatnonzero(worth >= worth.max() - 1e-12)[-1]])


def switch_points(
    reference: float = 0.5, params: ProspectParams | None = None, width: float = 1e-4
) -> list[tuple[float, float, float]]:
    """(q, offer before, offer after) at each change of the best offer; q to `width`."""
    found: list[tuple[float, float, float]] = []

    def search(low: float, high: float) -> None:
        first, last = (best_offer(q, reference, params) for q in (low, high))
        if first == last:
            return
        if high - low <= width:
            found.append(((low + high) / 2, first, last))
            return
        search(low, (low + high) / 2)
        search((low + high) / 2, high)

    search(0.0, 1.0)
    return found


@dataclass(frozen=True, eq=False)
class Responders:
    """One responder, a row per offer: accept, refuse. weights: (A,) how often each is seen."""

    params: ProspectParams
    reference: float
    weights: np.ndarray

    @property
    def start(self) -> np.ndarray:
        """(A, 2) zeros."""
        return np.zeros((len(self.weights), 2))

    def data(
        self, probs: np.ndarray, episodes: int = 0, rng: np.random.Generator | None = None
    ) -> Data:
        """V of accepting and of refusing each offer."""
        count = len(self.weights)
        payoff = np.stack([offers_of(count), np.zeros(count)], axis=1)
        values = prospect.value(payoff - self.reference, self.params).ravel()
        rows, actions = np.divmod(np.arange(2 * count), 2)
        mass = (self.weights[:, None] * probs).ravel()
        data = Data(rows, actions, mass, values, groups=np.zeros(count, dtype=int))
        return drawn(data, rng.multinomial(episodes, mass / mass.sum())) if episodes else data

    def score(self, probs: np.ndarray) -> np.ndarray:
        """(1,) share of the pie at these weights of offers."""
        return np.array([self.weights @ (probs[:, 0] * offers_of(len(self.weights)))])


def self_play(
    share: float,
    reference: float,
    params: ProspectParams,
    objective: Objective,
    rounds: int,
    episodes: int = 0,
    rng: np.random.Generator | None = None,
) -> training.Learned:
    """A proposer whose partner is its own learning responder with probability `share`, else people.

    Both learn with the same objective from their own payoffs. The responder sees every offer
    equally often: its answers to offers that are no longer made are what decides about them.
    scores: (rounds + 1, 1), the proposer's exact payoff from people.
    """
    values = prospect_values([reference], [params])
    proposer, responder = Learner(np.zeros((1, 11))), Learner(np.zeros((11, 2)))
    seen = Responders(params, reference, np.full(11, 1 / 11))
    judge = Proposers(people()[None], values)
    scores = [judge.score(proposer.probs)]
    for _ in range(rounds):
        accept = (1 - share) * people() + share * responder.probs[:, 0]
        game = Proposers(accept[None], values)
        offers = game.data(proposer.probs, episodes, rng)
        answers = seen.data(responder.probs, episodes, rng)
        proposer.optimise(offers, objective)
        responder.optimise(answers, objective)
        scores.append(judge.score(proposer.probs))
    return training.Learned(proposer.probs, np.array(scores))


def heuristic_only(objective: Objective, rounds: int) -> np.ndarray:
    """(1, A) a proposer that never plays: labels of the heuristic selector (at most half) alone."""
    labels = np.where(OFFERS <= 0.5, 1.0, -1.0)
    learner = Learner(np.zeros((1, 11)))
    for _ in range(rounds):
        mass = learner.probs[0]
        data = Data(np.zeros(11, dtype=int), np.arange(11), mass, labels, unit=True)
        learner.optimise(data, objective)
    return learner.probs
