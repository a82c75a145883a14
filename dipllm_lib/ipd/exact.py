"""Exact payoffs of two memory-one players, zero-determinant players and Akin's identity.

Player X has p = (p0; p1 … p4) after s0, CC, CD, DC, DD in its own view, player Y has q in its own
view; seen by X, Y answers with q~ = (q1, q3, q2, q4). The outcomes CC, CD, DC, DD (X first) form a
Markov chain with start and rows

    v_0 = [p0 q0, p0 (1 - q0), (1 - p0) q0, (1 - p0)(1 - q0)]
    M_s = [p q~, p (1 - q~), (1 - p) q~, (1 - p)(1 - q~)]                 (p, q~ at s)

    finite       s = (1/T) Σ_{t<T} v_0 Mᵗ r
    discounted   s = (1 - γ) v_0 (I - γ M)⁻¹ r
    stationary   s = π r with π M = π, where one recurrent class makes π unique
    determinant  s = D(p, q, r) / D(p, q, 1)          (Press and Dyson 2012, Eqs. 2-4)

Akin's identity (Akin 2012): for p~ = p - (1, 1, 0, 0) and any opponent whatever,

    (1/T) Σ_{t<=T} E[p~(s_t)] = (P(C_{T+1}) - P(C_1)) / T,

so a player with p~ = φ [(S_X - P) - χ (S_Y - P)] has |(s_X - P) - χ (s_Y - P)| <= 1/(φ T).

Shapes: vectors (n, 5) as in `tabular`, or one of them (5,) for all; payoffs are means per round.
"""

import numpy as np
from numba import njit

from dipllm_lib.ipd import tabular
from dipllm_lib.ipd.game import CC, CD, DC, DD, SWAP, Payoffs, outcome

OUTCOMES = (CC, CD, DC, DD)
OWN_C = np.array([1.0, 1.0, 0.0, 0.0])  # own action in CC, CD, DC, DD
STANDARD = Payoffs()


def pair(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Checked float64 (n, 5) of both players, a single vector repeated for the other's n."""
    p, q = tabular.check(p), tabular.check(q)
    if len(p) != len(q) and 1 not in (len(p), len(q)):
        raise ValueError(f"{len(p)} agents against {len(q)}: need equal numbers, or one on a side")
    shape = (max(len(p), len(q)), 5)
    return tuple(np.ascontiguousarray(np.broadcast_to(x, shape)) for x in (p, q))


def as_seen(q: np.ndarray) -> np.ndarray:
    """(n, 5) probabilities of the opponent's C in X's view: entries after CD and DC exchanged."""
    return np.ascontiguousarray(tabular.check(q)[:, SWAP])


def joint(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(…, 4) probabilities of CC, CD, DC, DD for independent probabilities of C, both (…)."""
    return np.stack([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)], axis=-1)


def chain(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """v_0 (n, 4) and M (n, 4, 4), row = outcome of the last round."""
    p, q = pair(p, q)
    seen = as_seen(q)
    return joint(p[:, 0], seen[:, 0]), joint(p[:, 1:], seen[:, 1:])


def payoff_vectors(
    payoffs: Payoffs = STANDARD, other: Payoffs | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """r_X and r_Y (4,) on CC, CD, DC, DD. other: payoffs of Y, those of X by default."""
    return payoffs.by_state, (other or payoffs).by_state[SWAP[1:] - 1]


def states(p: np.ndarray, q: np.ndarray, rounds: int) -> np.ndarray:
    """(n, T, 4) probabilities of CC, CD, DC, DD in each round."""
    start, matrix = chain(p, q)
    _check_rounds(rounds)
    out = np.empty((len(start), rounds, 4))
    out[:, 0] = start
    for t in range(1, rounds):
        out[:, t] = (out[:, t - 1, None, :] @ matrix)[:, 0]
    return out


@njit(cache=True)
def _occupancy(start, matrix, rounds):
    """(n, 4) mean over rounds of v_0 Mᵗ."""
    n = start.shape[0]
    total = np.zeros((n, 4))
    now, after = np.empty(4), np.empty(4)
    for i in range(n):
        now[:] = start[i]
        for _ in range(rounds):
            after[:] = 0.0
            for s in range(4):
                total[i, s] += now[s]
                for k in range(4):
                    after[k] += now[s] * matrix[i, s, k]
            now[:] = after
    return total / rounds


def occupancy(p: np.ndarray, q: np.ndarray, rounds: int) -> np.ndarray:
    """(n, 4) share of rounds in CC, CD, DC, DD; the first two add to X's cooperation."""
    _check_rounds(rounds)
    return _occupancy(*chain(p, q), rounds)


def finite(
    p: np.ndarray,
    q: np.ndarray,
    rounds: int,
    payoffs: Payoffs = STANDARD,
    other: Payoffs | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(s_X, s_Y), each (n,), over `rounds` rounds. other: payoffs of Y, those of X by default."""
    return _pay(occupancy(p, q, rounds), payoffs, other)


def discounted(
    p: np.ndarray,
    q: np.ndarray,
    gamma: float,
    payoffs: Payoffs = STANDARD,
    other: Payoffs | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(s_X, s_Y), each (n,), for a discount gamma in [0, 1), scaled by 1 - gamma. other: payoffs
    of Y, those of X by default."""
    if not 0.0 <= gamma < 1.0:
        raise ValueError(f"gamma {gamma}: need 0 <= gamma < 1")
    start, matrix = chain(p, q)
    weights = np.linalg.inv(np.eye(4) - gamma * matrix)
    return _pay((1 - gamma) * (start[:, None, :] @ weights)[:, 0], payoffs, other)


def recurrent_classes(matrix: np.ndarray) -> np.ndarray:
    """(n,) number of recurrent classes of the chains M (n, 4, 4)."""
    reach = (matrix > 0) | np.eye(4, dtype=bool)
    for _ in range(2):  # paths of up to four steps
        reach = (reach[:, :, :, None] & reach[:, None, :, :]).any(axis=2)
    mutual = reach & reach.transpose(0, 2, 1)
    recurrent = (mutual == reach).all(axis=2)
    first = ~(mutual & np.tri(4, k=-1, dtype=bool)).any(axis=2)  # lowest state of its class
    return (recurrent & first).sum(axis=1)


def stationary(
    p: np.ndarray, q: np.ndarray, payoffs: Payoffs = STANDARD
) -> tuple[np.ndarray, np.ndarray]:
    """(s_X, s_Y), each (n,), of endless play.

    ValueError where the outcome depends on the start, as for TFT against TFT.
    """
    _, matrix = chain(p, q)
    several = np.flatnonzero(recurrent_classes(matrix) > 1)
    if len(several):
        raise ValueError(
            f"pair {several[0]} has no unique stationary vector: use finite or discounted payoffs"
        )
    # π (M - I) = 0 with the last equation replaced by Σ π = 1.
    system = matrix.transpose(0, 2, 1) - np.eye(4)
    system[:, 3] = 1.0
    ones = np.zeros((len(matrix), 4, 1))
    ones[:, 3] = 1.0
    return _pay(np.linalg.solve(system, ones)[:, :, 0], payoffs)


def press_dyson(p: np.ndarray, q: np.ndarray, f: np.ndarray) -> np.ndarray:
    """(n,) the determinant D(p, q, f) for f (4,) on CC, CD, DC, DD."""
    p, q = pair(p, q)
    seen = as_seen(q)
    columns = np.empty((len(p), 4, 4))
    columns[:, :, 0] = p[:, 1:] * seen[:, 1:] - np.array([1.0, 0.0, 0.0, 0.0])
    columns[:, :, 1] = p[:, 1:] - OWN_C
    columns[:, :, 2] = seen[:, 1:] - OWN_C[SWAP[1:] - 1]
    columns[:, :, 3] = f
    return np.linalg.det(columns)


def determinant(
    p: np.ndarray, q: np.ndarray, payoffs: Payoffs = STANDARD
) -> tuple[np.ndarray, np.ndarray]:
    """(s_X, s_Y), each (n,), of endless play as ratios of determinants.

    ValueError where D(p, q, 1) = 0, as for TFT against TFT.
    """
    norm = press_dyson(p, q, np.ones(4))
    zero = np.flatnonzero(np.abs(norm) < 1e-12)
    if len(zero):
        raise ValueError(f"pair {zero[0]} has D(p, q, 1) = 0: use finite or discounted payoffs")
    own, other = payoff_vectors(payoffs)
    return press_dyson(p, q, own) / norm, press_dyson(p, q, other) / norm


def frequencies(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(T, 4) shares of games in CC, CD, DC, DD by round, of actions (n, T)."""
    codes = outcome(own, other)
    return np.stack([np.mean(codes == s, axis=0) for s in OUTCOMES], axis=-1)


def akin(p: np.ndarray, by_round: np.ndarray) -> tuple[float, float]:
    """Both sides of Akin's identity for one player p (5,) and any opponent.

    by_round: (T, 4) probabilities or shares of CC, CD, DC, DD in each round, in p's view. The sides
    are equal for probabilities, and within sampling error for shares.
    """
    after = tabular.check(p)[0, 1:]
    left = np.mean(by_round @ (after - OWN_C))
    right = (by_round[-1] @ after - by_round[0] @ OWN_C) / len(by_round)
    return float(left), float(right)


def extortion_factor(
    s_x: np.ndarray, s_y: np.ndarray, se_y: float | np.ndarray = 0.0, payoffs: Payoffs = STANDARD
) -> np.ndarray:
    """χ = (s_X - P) / (s_Y - P); nan where s_Y is not above P by more than two standard errors.

    Below that line X exploits Y rather than sharing a surplus with it.
    """
    x, y = np.asarray(s_x) - payoffs.punishment, np.asarray(s_y) - payoffs.punishment
    shared = y > 2.0 * np.asarray(se_y)
    return np.where(shared, x / np.where(shared, y, 1.0), np.nan)


def _pay(
    shares: np.ndarray, payoffs: Payoffs, other: Payoffs | None = None
) -> tuple[np.ndarray, np.ndarray]:
    own, theirs = payoff_vectors(payoffs, other)
    return shares @ own, shares @ theirs


def _check_rounds(rounds: int) -> None:
    if rounds < 1:
        raise ValueError(f"rounds {rounds}: need at least one round")
