"""The value net compiled, so that the value of a position never depends on what is beside it.

A matrix product of BLAS picks its inner loops by the size of the whole batch, so the last bits of a
row change with the number of rows (measured: at 256 hidden units a single position differs from the
same position among 1,000). Here each row is summed in one fixed order, without fused or reordered
additions, so searches that share a batch find bit for bit what each finds alone. It costs no more
than BLAS, since inputs that are zero are left out, about half of them.

Shapes: N positions, H hidden units.
"""

import numpy as np
from numba import njit

from dipllm_lib.dip import value
from dipllm_lib.dip.boards import OVER, Boards, centres


@njit(cache=True)
def _sparse_layer(index, size, table, bias, out):
    """relu(bias + sum of rows of the table) into out (N, H), four rows of the table at a time."""
    for n in range(out.shape[0]):
        row, k = out[n], 0
        row[:] = bias
        while k + 4 <= size[n]:
            a, b = table[index[n, k]], table[index[n, k + 1]]
            c, d = table[index[n, k + 2]], table[index[n, k + 3]]
            for h in range(row.shape[0]):
                row[h] = row[h] + a[h] + b[h] + c[h] + d[h]
            k += 4
        while k < size[n]:
            a = table[index[n, k]]
            for h in range(row.shape[0]):
                row[h] += a[h]
            k += 1
        for h in range(row.shape[0]):
            row[h] = max(row[h], np.float32(0))


@njit(cache=True)
def _dense_layer(x, weight, bias, relu, out):
    """bias + x weight into out (N, H), four inputs that are not zero at a time."""
    some = np.empty(x.shape[1], np.int64)
    for n in range(x.shape[0]):
        row, given, count, k = out[n], x[n], 0, 0
        for i in range(given.shape[0]):
            if given[i] != 0:
                some[count] = i
                count += 1
        row[:] = bias
        while k + 4 <= count:
            i, j, m, q = some[k], some[k + 1], some[k + 2], some[k + 3]
            a, b, c, d = given[i], given[j], given[m], given[q]
            wa, wb, wc, wd = weight[i], weight[j], weight[m], weight[q]
            for h in range(row.shape[0]):
                row[h] = row[h] + a * wa[h] + b * wb[h] + c * wc[h] + d * wd[h]
            k += 4
        while k < count:
            a, wa = given[some[k]], weight[some[k]]
            for h in range(row.shape[0]):
                row[h] += a * wa[h]
            k += 1
        if relu:
            for h in range(row.shape[0]):
                row[h] = max(row[h], np.float32(0))


@njit(cache=True)
def _softmax(logits, out):
    for n in range(logits.shape[0]):
        top, total = logits[n].max(), 0.0
        for i in range(logits.shape[1]):
            total += np.exp(np.float64(logits[n, i]) - top)
        for i in range(logits.shape[1]):
            out[n, i] = np.exp(np.float64(logits[n, i]) - top) / total


class RowwiseValue:
    """A `value.ValueNet` as a function Boards -> (N, 7) float32 shares that adds row by row."""

    def __init__(self, net: value.ValueNet):
        layers = (net.first, net.second, net.last)
        self.first, self.second, self.last = (
            tuple(np.ascontiguousarray(part, np.float32) for part in layer) for layer in layers
        )

    def __call__(self, boards: Boards) -> np.ndarray:
        """(N, 7) float32 expected shares, rows sum to 1; a finished game has its present share."""
        index, size = value.sparse(boards)
        hidden = np.empty((2, boards.n, self.first[1].size), np.float32)
        _sparse_layer(index, size, *self.first, hidden[0])
        _dense_layer(hidden[0], *self.second, True, hidden[1])
        logits = np.empty((boards.n, value.POWERS), np.float32)
        _dense_layer(hidden[1], *self.last, False, logits)
        share = np.empty_like(logits)
        _softmax(logits + value.prior(boards), share)
        over = boards.phase == OVER
        if over.any():
            share[over] = value.sos(centres(boards.take(np.flatnonzero(over))))
        return share
