"""The cross-entropy method over the parameters of prospect theory, and over the six settings.

    continuous   x = (alpha, beta, lambda, rho) ~ N(m, s) inside its box; m and s are those of the
                 elite of each round (Rubinstein 1999; de Boer et al. 2005), s at least `least`
                 of the box's width so that a round with one lucky elite does not end the search
    settings     letter ~ p; p moves half-way to the shares of the elite, and every letter keeps a
                 little, since sixteen draws of six may miss the best one at first

The score is one number, the larger the better, of ONE objective: payoff or human-likeness. They
pull apart, so a call takes one and there is no sum of both.

Shapes: population n, D = 4 parameters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dipllm_lib.kto.prospect import ARTICLE, ProspectParams

NAMES = ("alpha", "beta", "lam", "rho")
LOW = np.array([0.3, 0.3, 0.5, 0.0])
HIGH = np.array([1.2, 1.2, 5.0, 1.0])
OBJECTIVES = ("payoff", "likeness")
STEP = 0.5  # of the probabilities of settings towards the elite
KEPT = 0.3  # of the probability, spread over all settings

Score = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Sizes:
    """rounds of `population` candidates, the best `elite` of which shape the next round."""

    rounds: int = 8
    population: int = 16
    elite: int = 4
    least: float = 0.02

    def __post_init__(self) -> None:
        if self.rounds < 1 or not 2 <= self.elite <= self.population:
            raise ValueError("CEM needs a round and 2 <= elite <= population")


class Found(NamedTuple):
    """best (D,) of all candidates scored · score of it · centre (D,) of the last elite · history
    (rounds, population, D + 1), the last column the score."""

    best: np.ndarray
    score: float
    centre: np.ndarray
    history: np.ndarray


def cem(score: Score, rng: np.random.Generator, sizes: Sizes = Sizes()) -> Found:
    """Search of the box [LOW, HIGH] from its middle. score: (n, D) -> (n,). ValueError for a score
    that is not finite."""
    mean, spread = (LOW + HIGH) / 2, (HIGH - LOW) / 2
    history = np.empty((sizes.rounds, sizes.population, len(LOW) + 1))
    for k in range(sizes.rounds):
        raw = mean + spread * rng.standard_normal((sizes.population, len(LOW)))
        candidates = np.clip(raw, LOW, HIGH)
        scores = np.asarray(score(candidates), dtype=np.float64)
        if scores.shape != (sizes.population,) or not np.isfinite(scores).all():
            raise ValueError(f"round {k}: the score must give a finite number per candidate")
        history[k] = np.column_stack([candidates, scores])
        elite = candidates[np.argsort(-scores, kind="stable")[: sizes.elite]]
        mean = elite.mean(axis=0)
        spread = np.maximum(elite.std(axis=0), sizes.least * (HIGH - LOW))
    flat = history.reshape(-1, len(LOW) + 1)
    top = flat[np.argmax(flat[:, -1])]
    return Found(top[:-1], float(top[-1]), mean, history)


def cem_settings(
    score: Callable[[Sequence[str]], np.ndarray],
    letters: Sequence[str],
    rng: np.random.Generator,
    sizes: Sizes = Sizes(),
) -> tuple[str, np.ndarray]:
    """(letter of the largest probability, probabilities (len(letters),)). score: n letters -> (n,),
    drawn anew each round, so a score with noise may be given."""
    chances = np.full(len(letters), 1 / len(letters))
    for _ in range(sizes.rounds):
        picks = rng.choice(len(letters), size=sizes.population, p=chances)
        scores = np.asarray(score([letters[k] for k in picks]), dtype=np.float64)
        # equal scores are common with six settings: all of the elite's score belong to it
        bar = np.sort(scores)[-sizes.elite]
        counts = np.bincount(picks[scores >= bar], minlength=len(letters))
        moved = (1 - STEP) * chances + STEP * counts / counts.sum()
        chances = (1 - KEPT) * moved + KEPT / len(letters)
    return letters[int(np.argmax(chances))], chances


def params_of(row: np.ndarray) -> ProspectParams:
    """The parameters of a row (alpha, beta, lambda, rho); gamma as in ARTICLE."""
    return ProspectParams(*(float(x) for x in row[:3]), ARTICLE.gamma_gain, ARTICLE.gamma_loss)
