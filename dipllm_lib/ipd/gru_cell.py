"""Rounds of a stacked GRU with one token each, forward and backward in compiled code.

Torch makes a dozen passes over memory for the gates of a round, and as many again for their
gradients; they cost more than the matrix products. Here the gates of an episode are one pass over
its row, and the products stay with torch:

    forward     y = h U;  r, z = sigmoid(x + y);  q = y_n + c;  n = tanh(x_n + r q);
                h' = n + z (h - n);  output h' sigmoid(h'); x is a table's row, by observation
    backward    d = dh' + output' dout;   dz = d (h - n) z (1 - z);   dn = d (1 - z)(1 - n^2);
                dr = dn q r (1 - r);   dy = (dr, dz, dn r);   dx = (dr, dz, dn);   dc = sum dn r;
                dh = d z + dy U^T;     dU = sum h^T dy

Both agree with the torch form to a few units in the last place. Division does not check for zero
(`numpy` error model): only so are the loops compiled to vector instructions.

tanh x = P/Q at x/8, three times doubled, where P/Q = u (1 + u^2/9 + u^4/945)/(1 + 4u^2/9 + u^4/63)
is the fifth convergent of Lambert's continued fraction and a doubling is P, Q <- 2PQ, P^2 + Q^2;
arguments are cut at ±9. The largest error is 3e-7. sigmoid x = (1 + tanh(x/2))/2.

Shapes: A agents, n episodes, T rounds, H units; all float32, observations int64.
"""

import numba
import numpy as np
import torch
from numba import float32
from torch.autograd.function import once_differentiable

kernel = numba.njit(cache=True, error_model="numpy", _nrt=False)
CUT = 9.0


@numba.njit(inline="always", error_model="numpy")
def _tanh(x):
    x = float32(CUT) if x > float32(CUT) else x  # so that nan stays nan
    x = float32(-CUT) if x < float32(-CUT) else x
    u = x * float32(0.125)
    v = u * u
    p = u * (float32(1.0) + v * (float32(1 / 9) + v * float32(1 / 945)))
    q = float32(1.0) + v * (float32(4 / 9) + v * float32(1 / 63))
    p, q = float32(2.0) * p * q, p * p + q * q
    p, q = float32(2.0) * p * q, p * p + q * q
    p, q = float32(2.0) * p * q, p * p + q * q
    return p / q


@numba.njit(inline="always", error_model="numpy")
def _sigmoid(x):
    return float32(0.5) + float32(0.5) * _tanh(float32(0.5) * x)


@kernel
def _tanh_of(x, out):
    """out (k,) = tanh x."""
    for i in range(x.shape[0]):
        out[i] = _tanh(x[i])


@kernel
def _forward(y, table, obs, t, candidate, h, gates, after, out):
    """Round t. y (A, n, 3H) = h U; gates (A n or 1, 4H) gets r, z, n, q; after (A, n, H) the next
    h; out (A, n, T, H) its Swish.
    """
    agents, n, size = h.shape
    kept = gates.shape[0] > 1
    for a in range(agents):
        c = candidate[a]
        for i in range(n):
            x, inner, old, new = table[a, obs[a, i, t]], y[a, i], h[a, i], after[a, i]
            g, swish = gates[(a * n + i) * kept], out[a, i, t]
            for j in range(2 * size):
                g[j] = _sigmoid(x[j] + inner[j])
            for j in range(size):
                g[3 * size + j] = inner[2 * size + j] + c[j]
            for j in range(size):
                g[2 * size + j] = _tanh(x[2 * size + j] + g[j] * g[3 * size + j])
            for j in range(size):
                new[j] = g[2 * size + j] + g[size + j] * (old[j] - g[2 * size + j])
            for j in range(size):
                swish[j] = new[j] * _sigmoid(new[j])


@kernel
def _backward(dout, obs, t, before, after, gates, dh, dy, dtable, dcandidate):
    """Round t. dh (A, n, H): gradient of `after`, becomes d z; dy (A, n, 3H) is written; dtable
    (A, codes, 3H) and dcandidate (A, H) are added to. The loops are short so that few arrays meet
    in one: more of them are not compiled to vector instructions.
    """
    agents, n, size = before.shape
    for a in range(agents):
        dc = dcandidate[a]
        for i in range(n):
            dx, old, new = dtable[a, obs[a, i, t]], before[a, i], after[a, i]
            g, d, row, given = gates[a * n + i], dh[a, i], dy[a, i], dout[a, i, t]
            for j in range(size):
                s = _sigmoid(new[j])
                d[j] += given[j] * s * (float32(1.0) + new[j] * (float32(1.0) - s))
            for j in range(size):
                z, m = g[size + j], g[2 * size + j]
                row[size + j] = d[j] * (old[j] - m) * z * (float32(1.0) - z)
            for j in range(size):
                z, m = g[size + j], g[2 * size + j]
                row[2 * size + j] = d[j] * (float32(1.0) - z) * (float32(1.0) - m * m)
                d[j] *= z
            for j in range(size):
                r = g[j]
                row[j] = row[2 * size + j] * g[3 * size + j] * r * (float32(1.0) - r)
            for j in range(3 * size):
                dx[j] += row[j]
            for j in range(size):
                row[2 * size + j] *= g[j]
            for j in range(size):
                dc[j] += row[2 * size + j]


def _empty(*shape: int) -> torch.Tensor:
    """Without the fill that deterministic torch gives to `torch.empty`; all of it is written."""
    return torch.from_numpy(np.empty(shape, np.float32))


def _arrays(*tensors: torch.Tensor) -> list[np.ndarray]:
    return [x.detach().numpy() for x in tensors]


def _run(h, table, hidden, candidate, obs, kept: bool):
    """Features (A, n, T, H), states before and after each round (T + 1 times (A, n, H)) and gates
    of each round (A n, 4H); without `kept` one row of gates, of no use. Many small arrays, since
    large ones come from the system anew each time.
    """
    agents, n, size = h.shape
    rounds = obs.shape[2]
    out, y = _empty(agents, n, rounds, size), _empty(agents, n, 3 * size)
    gates = [_empty(agents * n if kept else 1, 4 * size) for _ in range(rounds if kept else 1)]
    states = [h, *(_empty(agents, n, size) for _ in range(rounds))]
    fixed = _arrays(table, obs, candidate)
    for t in range(rounds):
        torch.bmm(states[t], hidden, out=y)
        old, new, g = _arrays(states[t], states[t + 1], gates[t if kept else 0])
        _forward(y.numpy(), fixed[0], fixed[1], t, fixed[2], old, g, new, out.numpy())
    return out, states, gates


class Rounds(torch.autograd.Function):
    """h (A, n, H), table (A, codes, 3H), hidden U (A, H, 3H), candidate c (A, H), obs (A, n, T) ->
    features (A, n, T, H) and the last state (A, n, H).
    """

    @staticmethod
    def forward(ctx, h, table, hidden, candidate, obs):
        """Keeps states and gates for `backward`."""
        out, states, gates = _run(h, table, hidden, candidate, obs, True)
        ctx.codes = table.shape[1]
        ctx.save_for_backward(hidden, obs, *gates, *states)
        return out, states[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, dlast):
        """Gradients of h, table, hidden and candidate."""
        hidden, obs, *kept = ctx.saved_tensors
        gates, states = kept[: obs.shape[2]], kept[obs.shape[2] :]
        agents, n, size = dlast.shape
        dh, dy, dout = dlast.clone(), _empty(agents, n, 3 * size), dout.contiguous()
        dtable, dhidden = torch.zeros(agents, ctx.codes, 3 * size), torch.zeros_like(hidden)
        dcandidate, back = torch.zeros(agents, size), hidden.transpose(1, 2)
        given, seen, row, left = _arrays(dout, obs, dy, dh)
        sums = _arrays(dtable, dcandidate)
        for t in reversed(range(obs.shape[2])):
            before, after, g = _arrays(states[t], states[t + 1], gates[t])
            _backward(given, seen, t, before, after, g, left, row, *sums)
            dhidden.baddbmm_(states[t].transpose(1, 2), dy)
            dh.baddbmm_(dy, back)
        return dh, dtable, dhidden, dcandidate, None


def rounds(h, table, hidden, candidate, obs) -> tuple[torch.Tensor, torch.Tensor]:
    """`Rounds`, which keeps nothing where no gradient is wanted."""
    h, table, obs = h.contiguous(), table.contiguous(), obs.contiguous()
    if torch.is_grad_enabled():
        return Rounds.apply(h, table, hidden, candidate, obs)
    out, states, _ = _run(h, table, hidden, candidate, obs, False)
    return out, states[-1]
