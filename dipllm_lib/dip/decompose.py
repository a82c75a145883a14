"""Joint values to unit values and unit targets, exactly, with the paper's approximations beside.

With the joint target pi*(a) = exp f(a) / Z over the K candidate joint orders of one power (2), Xu
et al. 2025 define

    (3) unit value    Q^d(a^1..a^d) = log Σ_{a^(d+1)..a^D} exp f(a^1..a^D),   Q^0 = log Z
    (4) unit target   pi^d(a^d | a^1..a^(d-1)) = exp( Q^d(a^1..a^d) - Q^(d-1)(a^1..a^(d-1)) )

Only completions among the candidates count. The candidates form a prefix tree; Q^d of a node is the
log-sum-exp of the leaves below it, computed upward in float64. Theorem 1 (Π_d pi^d = pi*) is the
telescoping of (4).

A candidate is a tuple of D order ids in slot order; all candidates of a tree have the same D.
Arrays over candidates have K rows in the order given, and column d - 1 belongs to unit d.
"""

from typing import Sequence

import numpy as np

from dipllm_lib.dip.hedge import kl, log_sum_exp, softmax

__all__ = ["PrefixTree", "bound_max", "bound_sample", "independent", "theorem1_error", "kl"]

Joint = tuple[int, ...]


class PrefixTree:
    """Exact unit values (3) and unit targets (4) of exponents f over candidate joint orders.

    f: (K,) float64; -inf is an action without mass, NaN and +inf are errors. f may be the log of
    any joint policy.
    """

    def __init__(self, candidates: Sequence[Joint], f: np.ndarray):
        self.candidates = [tuple(int(order) for order in joint) for joint in candidates]
        self.f = np.asarray(f, dtype=np.float64)
        _check(self.candidates, self.f)
        self.log_z = log_sum_exp(self.f)
        self.depth = len(self.candidates[0])
        self._nodes = self._upward()

    def _upward(self) -> dict[Joint, float]:
        """Q^d of every prefix, from the leaves to the root (the empty prefix, log Z)."""
        nodes = dict(zip(self.candidates, self.f.tolist()))
        level = dict(nodes)
        for d in range(self.depth - 1, -1, -1):
            children: dict[Joint, list[float]] = {}
            for prefix, value in level.items():
                children.setdefault(prefix[:d], []).append(value)
            level = {prefix: log_sum_exp(np.array(below)) for prefix, below in children.items()}
            nodes |= level
        return nodes

    def value(self, prefix: Joint) -> float:
        """Q^d of a prefix, d = len(prefix). KeyError where no candidate starts with it."""
        return self._nodes[tuple(prefix)]

    def children(self, prefix: Joint) -> tuple[np.ndarray, np.ndarray]:
        """(order ids, increasing; probabilities (4)) of the next unit after `prefix`.

        Probabilities are all 0 below a prefix without mass.
        """
        prefix = tuple(prefix)
        d = len(prefix)
        ids = sorted({joint[d] for joint in self.candidates if joint[:d] == prefix})
        values = np.array([self._nodes[prefix + (order,)] for order in ids])
        return np.array(ids, dtype=np.int32), _conditional(values, self._nodes[prefix])

    @property
    def unit_values(self) -> np.ndarray:
        """(K, D): Q^d along the path of each candidate (3)."""
        paths = [[self._nodes[a[: d + 1]] for d in range(self.depth)] for a in self.candidates]
        return np.array(paths, dtype=np.float64)

    @property
    def unit_targets(self) -> np.ndarray:
        """(K, D): pi^d of a candidate's d-th order given its earlier ones (4).

        0 below a prefix without mass.
        """
        values = self.unit_values
        parents = np.column_stack([np.full(len(values), self.log_z), values[:, :-1]])
        return _conditional(values, parents)

    def joint(self) -> np.ndarray:
        """(K,): product of the unit targets, which equals softmax f (theorem 1)."""
        return np.prod(self.unit_targets, axis=1)


def _check(candidates: list[Joint], f: np.ndarray) -> None:
    if not candidates or f.shape != (len(candidates),):
        raise ValueError(
            f"need one exponent for each of {len(candidates)} candidates, got {f.shape}"
        )
    lengths = sorted({len(joint) for joint in candidates})
    if len(lengths) > 1 or lengths[0] == 0:
        raise ValueError(f"candidates must have one common number of orders > 0, got {lengths}")
    if len(set(candidates)) < len(candidates):
        raise ValueError("a candidate is listed twice: merge equal joint orders first")
    if np.isnan(f).any() or np.isposinf(f).any() or not np.isfinite(f).any():
        raise ValueError("exponents must be finite or -inf, and not all -inf")


def _conditional(values: np.ndarray, parents) -> np.ndarray:
    """exp(values - parents), 0 where the parent has no mass."""
    parents = np.broadcast_to(parents, values.shape)
    alive = np.isfinite(parents)
    return np.where(alive, np.exp(values - np.where(alive, parents, 0.0)), 0.0)


def theorem1_error(candidates: Sequence[Joint], f: np.ndarray) -> float:
    """max_a |Π_d pi^d(a) - pi*(a)|: rounding only, below 1e-12 in float64."""
    tree = PrefixTree(candidates, f)
    return float(np.max(np.abs(tree.joint() - softmax(tree.f))))


def bound_max(candidates: Sequence[Joint], f: np.ndarray) -> np.ndarray:
    """(K,) joint policy of unit targets with the best completion in place of the sum in (3).

    Q^d >= max over completions of f (Xu et al. 2025, appendix C); the unit targets are normalised
    over siblings.
    """
    candidates = [tuple(joint) for joint in candidates]
    _check(candidates, np.asarray(f))
    best: dict[Joint, float] = {}
    for joint, value in zip(candidates, f):
        for d in range(len(joint)):
            prefix = joint[: d + 1]
            best[prefix] = max(best.get(prefix, -np.inf), float(value))
    siblings: dict[Joint, list[float]] = {}
    for prefix, value in best.items():
        siblings.setdefault(prefix[:-1], []).append(value)
    logs = {prefix: log_sum_exp(np.array(values)) for prefix, values in siblings.items()}
    factors = [[_ratio(best[a[: d + 1]], logs[a[:d]]) for d in range(len(a))] for a in candidates]
    return np.prod(np.array(factors), axis=1)


def _ratio(value: float, log_sum: float) -> float:
    return float(np.exp(value - log_sum)) if np.isfinite(log_sum) else 0.0


def bound_sample(candidates: Sequence[Joint], f: np.ndarray) -> np.ndarray:
    """(K,) joint policy that the bound as used in the paper aims at: pi* squared, normalised.

    All units of a joint order share one weight exp f(a), and the joint orders are themselves drawn
    from pi*.
    """
    _check([tuple(joint) for joint in candidates], np.asarray(f))
    return softmax(2.0 * np.asarray(f, dtype=np.float64))


def independent(candidates: Sequence[Joint], f: np.ndarray) -> np.ndarray:
    """(K,) product of the unit marginals of pi* at each candidate.

    Sums to less than 1 where the product leaves the candidates; KL(pi* || product) is the
    coordination that the autoregressive form keeps.
    """
    candidates = [tuple(joint) for joint in candidates]
    _check(candidates, np.asarray(f))
    policy = softmax(np.asarray(f, dtype=np.float64))
    product = np.ones(len(candidates))
    for d in range(len(candidates[0])):
        marginal: dict[int, float] = {}
        for joint, p in zip(candidates, policy):
            marginal[joint[d]] = marginal.get(joint[d], 0.0) + p
        product *= np.array([marginal[joint[d]] for joint in candidates])
    return product
