"""The identity vector of an opponent: the ablation in which a learner is told whom it plays.

A memory-one opponent is described by

    z = [log pi(C|o), log pi(D|o)] for o = CC, CD, DC, DD, Start,

with o in the opponent's own view and probabilities clipped at 1e-6 (Weis, Woelczyk et al. 2026,
A.4.1; the order within a pair is ours). Another learner is z = 0, which no memory-one agent has, so
0 alone says "learner". z is shown in front of the sequence (`models`, z_at).

What a learner is told is one argument:

    none       nothing, the mixed pool
    opponent   z, as published
    tabular    z of tabular opponents; a learner shows the z of a random agent, so 0 is no flag
    permuted   the z of the batch in random order: the same input without the information
"""

import numpy as np

from dipllm_lib.ipd import tabular

IDENTITIES = ("none", "opponent", "tabular", "permuted")
SIZE = 10
CLIP = 1e-6


def check(identity: str) -> None:
    """ValueError unless `identity` is one of IDENTITIES."""
    if identity not in IDENTITIES:
        raise ValueError(f"unknown identity {identity!r}: use one of {', '.join(IDENTITIES)}")


def code(vectors: np.ndarray) -> np.ndarray:
    """z (n, 10) float64 of agents (n, 5) in the order s0, CC, CD, DC, DD."""
    p = tabular.to_published(vectors)
    pair = np.stack([np.clip(p, CLIP, 1.0), np.clip(1.0 - p, CLIP, 1.0)], axis=-1)
    return np.log(pair).reshape(len(p), SIZE)


def shown(
    identity: str,
    learners: int,
    vectors: np.ndarray,
    pool: str,
    rng: np.random.Generator,
    a: float = 0.5,
) -> np.ndarray | None:
    """What a learner is told in a batch: z (n, 10) float64, first its games against learners.

    learners: number of these games · vectors (n - learners, 5): its tabular opponents, may be empty
    · pool, a: where the disguise of `tabular` is drawn from. None for `none`. ValueError for an
    unknown identity.
    """
    check(identity)
    if identity == "none":
        return None
    z = np.zeros((learners + len(vectors), SIZE))
    if len(vectors):
        z[learners:] = code(vectors)
    if identity == "tabular" and learners:
        z[:learners] = code(tabular.sample(pool, learners, rng, a))
    return rng.permutation(z) if identity == "permuted" else z
