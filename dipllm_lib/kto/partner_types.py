"""What a history says about a partner that is one of K memory-one types: the exact Bayes filter.

With prior w and P_k(b | o) the probability that type k answers outcome o by b,

    w_t(k) ∝ ((1 - h) w_(t-1)(k) + h w_0(k)) P_k(b_t | o_(t-1)),

h is the chance that before a round the type is drawn anew (hazard; 0 for a partner that never
changes, and never before the first round). It is the ceiling of any forecast of the partner, and
gives the values of both actions when the type is unknown: the mean over the posterior of the exact
best values against each type. That mean takes the type as known from the next round on, so it is
an upper bound of what can be earned, and exact when one type is left.

Shapes: K types (K, 5) in their own view, s0, CC, CD, DC, DD.
"""

import numpy as np

from dipllm_lib.ipd import tabular
from dipllm_lib.kto import games, repeated
from dipllm_lib.kto.repeated import IteratedPD, State


def posterior(
    pool: np.ndarray,
    state: State,
    player: int,
    prior: np.ndarray | None = None,
    hazard: float = 0.0,
) -> np.ndarray:
    """(K,) probabilities of the partner's types after the history, in the eyes of `player`.

    prior: (K,), uniform if not given. ValueError for weights that are no distribution, a hazard
    outside [0, 1), or a history that no type can produce.
    """
    pool = tabular.check(pool)
    start = _prior(len(pool), prior)
    if not 0.0 <= hazard < 1.0:
        raise ValueError(f"hazard {hazard}: need 0 <= hazard < 1")
    if player not in (0, 1):
        raise ValueError(f"player {player!r}: use 0 or 1")
    weights, seen = start, 0
    for t, actions in enumerate(state.history):
        other = 1 - player
        p = pool[:, seen]
        weights = weights * (p if actions[other] == repeated.COOPERATE else 1.0 - p)
        if weights.sum() <= 0.0:
            raise ValueError(f"round {t + 1}: none of the {len(pool)} types can have played this")
        weights = weights / weights.sum()
        weights = (1.0 - hazard) * weights + hazard * start
        seen = repeated.outcome(actions, other)
    return weights


def forecast(
    pool: np.ndarray,
    state: State,
    player: int,
    prior: np.ndarray | None = None,
    hazard: float = 0.0,
) -> float:
    """P(the partner cooperates now), the mean over the posterior; arguments as in `posterior`."""
    weights = posterior(pool, state, player, prior, hazard)
    return float(weights @ tabular.check(pool)[:, repeated.last_outcome(state, 1 - player)])


def averaged_values(
    game: IteratedPD,
    pool: np.ndarray,
    state: State,
    player: int,
    prior: np.ndarray | None = None,
    hazard: float = 0.0,
) -> np.ndarray:
    """(2,) posterior mean of the best sum of payoffs from now on, of cooperate and defect.

    See `repeated.action_values`; ValueError after the last round.
    """
    games.check_turn(game, state, player)
    weights = posterior(pool, state, player, prior, hazard)
    row = len(state.history) if game.delta is None else 0
    seen = repeated.last_outcome(state, player)
    values = [repeated.action_values(game, q)[row, seen] for q in tabular.check(pool)]
    return weights @ np.array(values)


def _prior(size: int, prior: np.ndarray | None) -> np.ndarray:
    if prior is None:
        return np.full(size, 1.0 / size)
    weights = np.asarray(prior, dtype=np.float64)
    fits = weights.shape == (size,) and np.all(weights >= 0) and abs(weights.sum() - 1) < 1e-9
    if not fits:
        raise ValueError(f"prior of shape {weights.shape}: need {size} weights that add up to 1")
    return weights
