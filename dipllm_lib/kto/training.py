"""Rounds of a tabular training: collect from the policy of now, take it as reference, optimise.

    round:  data ~ pi_k,  pi_ref = pi_k,  pi_(k+1) = `steps` gradient steps on the loss

A new reference every round, since sigma' goes to 0 once |r| is large: one round on fixed data is
no policy gradient after its first step. A `Problem` holds G independent problems of one game in a
table of R rows, so that many opponents, parameters or seeds are trained in one call.

Shapes: probs (R, A), scores (rounds + 1, G) with the start first.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from dipllm_lib.kto.tabular import Data, Learner, Objective


class Problem(Protocol):
    """A game for tables against fixed partners."""

    start: np.ndarray  # (R, A) logits

    def data(self, probs: np.ndarray, episodes: int, rng: np.random.Generator | None) -> Data:
        """Samples of `episodes` episodes per problem, or the exact expectation for 0."""
        ...

    def score(self, probs: np.ndarray) -> np.ndarray:
        """(G,) exact payoff of the policy."""
        ...


class Learned(NamedTuple):
    """probs (R, A) at the end · scores (rounds + 1, G), the exact payoff after each round."""

    probs: np.ndarray
    scores: np.ndarray


def train(
    problem: Problem,
    objective: Objective,
    rounds: int,
    episodes: int = 0,
    rng: np.random.Generator | None = None,
    after: Callable[[np.ndarray], None] | None = None,
) -> Learned:
    """`rounds` rounds from the problem's start.

    episodes: per round and problem, 0 for exact expectations · rng: needed for episodes ·
    after: called with the new probs after each round, for what moves with the policy (self-play).
    """
    if rounds < 1 or episodes < 0 or (episodes and rng is None):
        raise ValueError("a training needs a round, and a generator if it samples episodes")
    learner = Learner(problem.start)
    scores = [problem.score(learner.probs)]
    for _ in range(rounds):
        learner.optimise(problem.data(learner.probs, episodes, rng), objective)
        if after is not None:
            after(learner.probs)
        scores.append(problem.score(learner.probs))
    return Learned(learner.probs, np.array(scores))
