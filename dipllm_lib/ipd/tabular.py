"""Memory-one agents: five probabilities of C, the pools they are drawn from, and those with names.

A vector is (s0, CC, CD, DC, DD): the probability of C in the first round and after each outcome of
the last round, own action first. The paper prints (CC, CD, DC, DD, Start); `from_published` and
`to_published` are the only places that convert.

Pools (Weis, Woelczyk et al. 2026 use the first one only):

    uniform    each probability uniform on [0, 1]
    beta       each probability Beta(a, a)
    corners    one of the 32 deterministic vectors
    families   one of FAMILIES or ZD(chi), chi uniform on [1, 5]; every action is then flipped with
               a probability uniform on [0.01, 0.05]
    human      the rates of laboratory players, the same vector for all

Zero-determinant extortion (Press and Dyson 2012): p - (1, 1, 0, 0) = phi [(S_X - P) - chi (S_Y -
P)]. With R, S, T, P = 1, -1, 2, 0 that is

    p = (1 - phi (chi - 1), 1 - phi (1 + 2 chi), phi (chi + 2), 0),   0 < phi <= 1 / (1 + 2 chi),

and chi = 1, phi = 1/3 is tit for tat.

Shapes: n agents.
"""

import re
from dataclasses import dataclass

import numpy as np

from dipllm_lib.ipd.game import STATES

POOLS = ("uniform", "beta", "corners", "families", "human")
NAMED = {
    "TFT": (1.0, 1.0, 0.0, 1.0, 0.0),
    "GTFT": (1.0, 1.0, 1 / 3, 1.0, 1 / 3),
    "WSLS": (1.0, 1.0, 0.0, 0.0, 1.0),
    "GRIM": (1.0, 1.0, 0.0, 0.0, 0.0),
    "AllC": (1.0, 1.0, 1.0, 1.0, 1.0),
    "AllD": (0.0, 0.0, 0.0, 0.0, 0.0),
    "STFT": (0.0, 1.0, 0.0, 1.0, 0.0),  # suspicious: opens with D
    "random": (0.5, 0.5, 0.5, 0.5, 0.5),
}
ZD_NAME = re.compile(r"ZD\d+(\.\d+)?")
FAMILIES = ("TFT", "GTFT", "GRIM", "WSLS", "AllC", "AllD")
TREMBLES = (0.01, 0.05)
CHIS = (1.0, 5.0)
# Pooled rates of 168,386 published decisions in eight laboratory studies, payoffs of which differ.
HUMAN = (0.459, 0.916, 0.403, 0.292, 0.067)


def check(vectors: np.ndarray) -> np.ndarray:
    """The vectors as float64 (n, 5); one vector (5,) becomes (1, 5).

    ValueError for another shape or a probability outside [0, 1].
    """
    array = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    if array.ndim != 2 or array.shape[1] != len(STATES):
        order = ", ".join(STATES)
        raise ValueError(f"agents of shape {np.shape(vectors)}: need (n, 5) in the order {order}")
    bad = ~((array >= 0.0) & (array <= 1.0))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        value = array[row, column]
        raise ValueError(f"agent {row}: P(C | {STATES[column]}) = {value} lies outside [0, 1]")
    return np.ascontiguousarray(array)


@dataclass(frozen=True, eq=False)
class Tabular:
    """Memory-one players, one vector per game; a single vector plays any number of games."""

    vectors: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", check(self.vectors))

    def start(self, n: int) -> np.ndarray:
        """The state: the probabilities (n, 5), which never change."""
        if len(self.vectors) not in (1, n):
            raise ValueError(f"{len(self.vectors)} agents cannot play {n} games: need 1 or {n}")
        return np.broadcast_to(self.vectors, (n, len(STATES)))

    def act(
        self, state: np.ndarray, obs: np.ndarray, u: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """C where u < P(C | obs)."""
        return (u < state[np.arange(len(obs)), obs]).astype(np.uint8), state


def named(name: str) -> np.ndarray:
    """(5,) vector of a named strategy; ValueError lists the names.

    `ZD` with a number, as ZD1.5, is the extortionate player of that chi that opens with D.
    """
    if ZD_NAME.fullmatch(name):
        return zd(float(name[2:]), first=0.0)
    if name not in NAMED:
        raise ValueError(f"unknown strategy {name!r}: use one of {', '.join(NAMED)}, ZD2, ZD1.5, …")
    return np.array(NAMED[name])


def zd(chi: float, phi: float | None = None, first: float = 1.0) -> np.ndarray:
    """(5,) extortionate ZD player for R, S, T, P = 1, -1, 2, 0.

    chi: extortion factor, at least 1 · phi: in (0, 1/(1 + 2 chi)], the largest if not given ·
    first: P(C) in the first round. ValueError outside these ranges.
    """
    if not (np.isfinite(chi) and chi >= 1.0):
        raise ValueError(f"extortion factor chi {chi}: need a finite number >= 1")
    largest = 1.0 / (1.0 + 2.0 * chi)
    phi = largest if phi is None else phi
    if not 0.0 < phi <= largest:
        raise ValueError(f"phi {phi} of ZD({chi}): need 0 < phi <= 1/(1 + 2 chi) = {largest:.6g}")
    # At the largest phi the entry after CD is exactly 0, whatever the rounding of the product.
    after_cd = 0.0 if phi == largest else 1.0 - phi * (1.0 + 2.0 * chi)
    return check([first, 1.0 - phi * (chi - 1.0), after_cd, phi * (chi + 2.0), 0.0])[0]


def tremble(vectors: np.ndarray, rate: float | np.ndarray) -> np.ndarray:
    """(n, 5) agents whose every action is flipped with probability `rate`, a number or (n,)."""
    p, rate = check(vectors), np.asarray(rate, dtype=np.float64).reshape(-1, 1)
    if not np.all((rate >= 0.0) & (rate <= 1.0)):
        raise ValueError("tremble: need a rate in [0, 1]")
    return check(p * (1.0 - rate) + (1.0 - p) * rate)


def corners() -> np.ndarray:
    """(32, 5) the deterministic vectors; row i has the bits of i, s0 first."""
    return ((np.arange(32)[:, None] >> np.arange(4, -1, -1)) & 1).astype(np.float64)


def sample(pool: str, n: int, rng: np.random.Generator, a: float = 0.5) -> np.ndarray:
    """(n, 5) agents of a pool; a: both parameters of the Beta law of `beta`, not used by others.

    ValueError for an unknown pool, n < 1 or a <= 0.
    """
    if pool not in POOLS:
        raise ValueError(f"unknown pool {pool!r}: use one of {', '.join(POOLS)}")
    if n < 1 or not (np.isfinite(a) and a > 0):
        raise ValueError(f"need n >= 1 agents and a finite a > 0, got n {n} and a {a}")
    if pool == "uniform":
        return rng.random((n, 5))
    if pool == "beta":
        return rng.beta(a, a, (n, 5))
    if pool == "corners":
        return corners()[rng.integers(32, size=n)]
    if pool == "families":
        return _families(n, rng)
    return np.tile(np.array(HUMAN), (n, 1))


def _families(n: int, rng: np.random.Generator) -> np.ndarray:
    """(n, 5) trembling agents: each of FAMILIES and ZD with the same probability."""
    kind, chi = rng.integers(len(FAMILIES) + 1, size=n), rng.uniform(*CHIS, size=n)
    table = np.array([NAMED[name] for name in FAMILIES])
    agents = np.array([
        zd(x) if k == len(FAMILIES) else table[k] for k, x in zip(kind.tolist(), chi.tolist())
    ])
    return tremble(agents, rng.uniform(*TREMBLES, size=n))


def from_published(vectors: np.ndarray) -> np.ndarray:
    """(n, 5) agents from the paper's order (CC, CD, DC, DD, Start)."""
    return check(np.roll(vectors, 1, axis=-1))


def to_published(vectors: np.ndarray) -> np.ndarray:
    """(n, 5) probabilities in the paper's order (CC, CD, DC, DD, Start)."""
    return np.roll(check(vectors), -1, axis=1)
