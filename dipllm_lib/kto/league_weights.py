"""Whom the learner meets: prioritised fictitious self-play with regret in the place of defeat.

With x_i in [0, 1] the learner's normalised regret against member i of n (gap to the exact best
reply, or to the best member where there is none, over the scale of the game),

    w_i = .9 f(x_i) / sum f + .1 / n,      f = x^2 (hard),  x (1 - x) (even),  1 (uniform)

and the members that learned themselves get at most 15 % of all together; what is over goes to the
others in proportion. Vinyals et al. 2019 use the rate of defeat, which general-sum games have not;
15 % lies below the first change of the best offer with the share of such partners (.182, module
`proposers`).

Shapes: n members.
"""

from collections.abc import Sequence

import numpy as np

FORMS = ("squared", "even", "uniform")
UNIFORM = 0.1  # share that is uniform whatever the regrets
SELF_MOST = 0.15  # most that the members that learned get together


def priorities(regrets: np.ndarray, form: str = "squared") -> np.ndarray:
    """(n,) f(x). ValueError for an unknown form or a regret outside [0, 1]."""
    x = np.asarray(regrets, dtype=np.float64)
    if x.ndim != 1 or not len(x) or not ((x >= 0) & (x <= 1)).all():
        raise ValueError("regrets of a league: need a flat list of numbers in [0, 1], at least one")
    if form not in FORMS:
        raise ValueError(f"unknown form {form!r} of league weights: use one of {', '.join(FORMS)}")
    return {"squared": x * x, "even": x * (1 - x), "uniform": np.ones_like(x)}[form]


def pfsp_weights(
    regrets: np.ndarray,
    learned: Sequence[bool] | None = None,
    form: str = "squared",
    most: float = SELF_MOST,
) -> np.ndarray:
    """(n,) probabilities of meeting each member. Uniform in place of f where every f is 0.

    regrets: (n,) normalised · learned: (n,) which members learned themselves, none if not given ·
    most: their largest share. ValueError where all members learned and `most` is below 1.
    """
    rank = priorities(regrets, form)
    count, total = len(rank), rank.sum()
    rank = rank / total if total > 0 else np.full(count, 1 / count)
    weights = (1 - UNIFORM) * rank + UNIFORM / count
    return capped(weights, np.zeros(count, bool) if learned is None else learned, most)


def capped(weights: np.ndarray, learned: Sequence[bool], most: float) -> np.ndarray:
    """The weights (n,) with the share of the marked members cut to `most`, sum 1 as before."""
    marked = np.asarray(learned, dtype=bool)
    if marked.shape != weights.shape or not 0 <= most <= 1:
        raise ValueError(f"need a mark for each of {len(weights)} members, and a share in [0, 1]")
    share = weights[marked].sum()
    if share <= most:
        return weights
    if marked.all():
        raise ValueError(f"all {len(weights)} members learned: their share cannot be {most}")
    return np.where(marked, weights * most / share, weights * (1 - most) / (1 - share))


def normalised(values: np.ndarray, best: np.ndarray, scale: float) -> np.ndarray:
    """(n,) regrets in [0, 1] of payoffs `values` to `best`, both (n,), over the scale."""
    return np.clip((np.asarray(best) - np.asarray(values)) / scale, 0.0, 1.0)


def best_of_members(payoffs: np.ndarray) -> np.ndarray:
    """(n,) the most that any member gets from each, where no exact best reply is known.

    payoffs: (m, n) of the row from the column.
    """
    return np.asarray(payoffs).max(axis=0)
