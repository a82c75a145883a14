"""Scores of candidate orders as one differentiable operation, compiled.

    s(k) = v . relu( P[first(k)] + P[second(k)] + sum over set bits j of R[j] + q[slot(k)] )

A candidate names at most two rows of P (-1: none). Candidates of a slot lie together. Nothing of
size K x M is kept: the backward pass computes the hidden units again. Shapes: K candidates, S
slots, M hidden units, R rows of P, float32.
"""

import numba
import numpy as np
import torch

from dipllm_lib.dip.kernels import kernel

fast = numba.njit(cache=True, _nrt=False, fastmath={"reassoc", "contract", "nsz"})


@kernel
def _hidden(rows, bits, k, projected, relation, query, out):
    """Sums before the relu of candidate k into out (M,)."""
    for m in range(len(out)):
        out[m] = query[m]
    for named in rows[k]:
        if named >= 0:
            for m in range(len(out)):
                out[m] += projected[named, m]
    for j in range(len(relation)):
        if bits[k] >> j & 1:
            for m in range(len(out)):
                out[m] += relation[j, m]


@fast
def _dot(hidden, vector):
    total = np.float32(0)
    for m in range(len(hidden)):
        total += max(hidden[m], np.float32(0)) * vector[m]
    return total


@kernel
def _forward(rows, bits, first, projected, relation, query, vector, work, scores):
    for x in range(len(first) - 1):
        for k in range(first[x], first[x + 1]):
            _hidden(rows, bits, k, projected, relation, query[x], work)
            scores[k] = _dot(work, vector)


@kernel
def _backward(rows, bits, first, projected, relation, query, vector, work, given, out):
    """Gradients of the four inputs into `out`, which start at zero."""
    d_projected, d_relation, d_query, d_vector = out
    for x in range(len(first) - 1):
        for k in range(first[x], first[x + 1]):
            _hidden(rows, bits, k, projected, relation, query[x], work)
            for m in range(len(work)):
                active = work[m] > 0
                d_vector[m] += given[k] * work[m] if active else np.float32(0)
                work[m] = given[k] * vector[m] if active else np.float32(0)
                d_query[x, m] += work[m]
            for named in rows[k]:
                if named >= 0:
                    for m in range(len(work)):
                        d_projected[named, m] += work[m]
            for j in range(len(relation)):
                if bits[k] >> j & 1:
                    for m in range(len(work)):
                        d_relation[j, m] += work[m]


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, projected, relation, query, vector, rows, bits, first):
        ctx.save_for_backward(projected, relation, query, vector, rows, bits, first)
        weights = [x.detach().numpy() for x in (projected, relation, query, vector)]
        where = [x.numpy() for x in (rows, bits, first)]
        scores = np.empty(len(where[1]), np.float32)
        _forward(*where, *weights, np.empty_like(weights[3]), scores)
        return torch.from_numpy(scores)

    @staticmethod
    def backward(ctx, given):
        arrays = [x.detach().numpy() for x in ctx.saved_tensors]
        weights, where = arrays[:4], arrays[4:]
        out = tuple(np.zeros_like(x) for x in weights)
        work = np.empty_like(weights[3])
        _backward(*where, *weights, work, np.ascontiguousarray(given.numpy()), out)
        return *(torch.from_numpy(x) for x in out), None, None, None


def order_scores(
    projected: torch.Tensor,
    relation: torch.Tensor,
    query: torch.Tensor,
    vector: torch.Tensor,
    rows: torch.Tensor,
    bits: torch.Tensor,
    first: torch.Tensor,
) -> torch.Tensor:
    """s (K,). projected (R, M), relation (BITS, M), query (S, M), vector (M,) float32; rows int64
    (K, 2); bits int64 (K,); first int64 (S + 1,): candidates of a slot.
    """
    floats = (x.float().contiguous() for x in (projected, relation, query, vector))
    return _Scores.apply(*floats, rows, bits, first)
