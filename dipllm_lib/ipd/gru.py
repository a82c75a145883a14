"""A gated recurrent unit (paper: hidden 128) with Swish on its output, for A agents at once.

    r = sigmoid(W_r x + b_r + U_r h)        z = sigmoid(W_z x + b_z + U_z h)
    n = tanh(W_n x + b_n + r * (U_n h + c))
    h' = n + z * (h - n)                    output: h' * sigmoid(h'), read by the heads

This is the form of the paper's counts, with one set of biases and c; PyTorch's `nn.GRU` adds two
vectors of width H which change nothing. In the layout `joint` x is the one-hot observation itself,
in the others it is an embedding. The state starts at zero.

Gate inputs W x + b of a round are a row of a table (A, 5, 3H), taken by a product with the one-hot
observation, round by round: inside autograd, slices of one large (A, n, T, 3H) projection would
each fill a zero tensor of its size in the backward pass, which is quadratic in T.

One token a round on a CPU is computed by `gru_cell`, twice as fast; the form here serves other
devices, three tokens, and an identity vector at every token. `compiled = False` asks for it.

Weights: `input` (A, width, 3H), `bias` (A, 3H), `hidden` (A, H, 3H), `candidate` (A, H), which is
c; gates in the order r, z, n.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import silu

from dipllm_lib.ipd import gru_cell
from dipllm_lib.ipd.layers import Linear, uniform
from dipllm_lib.ipd.model_settings import CODES, EMBEDDING, OWN, ModelSettings
from dipllm_lib.ipd.tokens import Tokens


class GRUState(NamedTuple):
    """After some rounds: hidden (A, n, B, H), B = 2 after each own action when `interleaved`, else
    1; every (A, n, 3H), gate inputs of an identity vector that enters at every token, or None.
    """

    hidden: torch.Tensor
    every: torch.Tensor | None


class GRU(nn.Module):
    """The core of a stack of GRUs; see the module."""

    def __init__(self, settings: ModelSettings, generators):
        super().__init__()
        size, self.interleaved = settings.hidden, settings.tokens == 3
        self.compiled = True
        joint, bound = settings.input == "joint", size**-0.5
        self.tokens = None if joint else Tokens(settings, generators, EMBEDDING)
        width = settings.codes if joint else self.tokens.width
        self.input = uniform(generators, (width, 3 * size), bound)
        self.bias = uniform(generators, (3 * size,), bound)
        self.hidden = uniform(generators, (size, 3 * size), bound)
        self.candidate = uniform(generators, (size,), bound)
        self.first = settings.z_at == "first"
        # without an embedding the vector goes to the gates directly, not through a width of 5
        wide = 3 * size if joint else width
        self.identity = Linear(generators, settings.z, wide) if settings.z else None
        self.register_buffer("hot", torch.eye(settings.codes), persistent=False)
        self.register_buffer("own", torch.eye(2)[list(OWN)], persistent=False)

    def gates(self, tokens: torch.Tensor) -> torch.Tensor:
        """W x + b: (A, n, width) -> (A, n, 3H)."""
        return torch.baddbmm(self.bias.unsqueeze(1), tokens, self.input)

    def tables(self) -> list[torch.Tensor]:
        """Gate inputs of a round's tokens: [(A, 5, 3H)], when `interleaved` also of the reward
        (A, 5, 3H) and of the own actions (A, 2, 3H).
        """
        if self.tokens is None:
            return [self.input + self.bias.unsqueeze(1)]
        found = [self.gates(self.tokens.rounds())]
        if self.interleaved:
            found += [self.gates(self.tokens.rewarded()), self.gates(self.tokens.actions())]
        return found

    def start(self, n: int, z: torch.Tensor | None) -> GRUState:
        """The state before the first round. z (A, n, z) or None."""
        agents, size = self.candidate.shape
        hidden, every = self.hidden.new_zeros(agents, n, size), None
        if z is not None:
            entered = self.identity(z)
            if self.first:
                gates = entered + self.bias.unsqueeze(1) if self.tokens is None else None
                hidden = self.cell(hidden, self.gates(entered) if gates is None else gates)
            else:
                every = entered if self.tokens is None else torch.bmm(entered, self.input)
        branches = 2 if self.interleaved else 1
        return GRUState(hidden.unsqueeze(2).expand(-1, -1, branches, -1), every)

    def cell(self, h: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
        """h (A, n, H) and gate inputs (A, n, 3H) -> the next h."""
        return self.blend(h, gates, torch.bmm(h, self.hidden))

    def blend(self, h: torch.Tensor, gates: torch.Tensor, inner: torch.Tensor) -> torch.Tensor:
        """The same with the products inner = h U (A, n, 3H) given."""
        size = h.shape[-1]
        outer_gates, outer = gates.split((2 * size, size), -1)
        inner_gates, inner = inner.split((2 * size, size), -1)
        r, z = torch.sigmoid(outer_gates + inner_gates).chunk(2, -1)
        n = torch.tanh(outer + r * (inner + self.candidate.unsqueeze(1)))
        return n + z * (h - n)

    def step(self, state: GRUState, obs: torch.Tensor) -> tuple[torch.Tensor, GRUState]:
        """obs (A, n) -> features (A, n, parts · H) and the next state."""
        features, state = self._rounds(state, obs.unsqueeze(2))
        return features.squeeze(2), state

    def unroll(self, obs: torch.Tensor, z: torch.Tensor | None) -> torch.Tensor:
        """obs (A, n, T) -> features (A, n, T, parts · H) of all rounds."""
        return self._rounds(self.start(obs.shape[1], z), obs)[0]

    def _rounds(self, state: GRUState, obs: torch.Tensor) -> tuple[torch.Tensor, GRUState]:
        """T more rounds."""
        tables, found = self.tables(), []
        single = not self.interleaved and state.every is None
        if self.compiled and single and self.hidden.device.type == "cpu":
            h, fixed = state.hidden.squeeze(2), (tables[0], self.hidden, self.candidate)
            features, hidden = gru_cell.rounds(h, *fixed, obs)
            return features, state._replace(hidden=hidden.unsqueeze(2))
        for hot in self.hot[obs.permute(2, 0, 1)].unbind(0):
            features, state = self._step(state, hot, tables)
            found.append(features)
        return torch.stack(found, 2), state

    def _step(self, state, hot, tables):
        """One round. hot (A, n, 5): the one-hot observation."""
        if self.interleaved:
            return self._three(state, hot, tables)
        hidden = self.cell(state.hidden.squeeze(2), self._add(torch.bmm(hot, tables[0]), state))
        return silu(hidden), state._replace(hidden=hidden.unsqueeze(2))

    def _add(self, gates: torch.Tensor, state: GRUState) -> torch.Tensor:
        return gates if state.every is None else gates + state.every

    def _three(self, state, hot, tables):
        """The three tokens of a round: the branch of the own action that was taken, the observation
        and the reward; then both actions as branches, which share their product with U.
        """
        seen, rewarded, actions = tables
        taken = torch.bmm(hot.reshape(-1, 1, CODES) @ self.own, state.hidden.flatten(0, 1))
        h = taken.reshape(hot.shape[0], hot.shape[1], -1)
        after_seen = self.cell(h, self._add(torch.bmm(hot, seen), state))
        h = self.cell(after_seen, self._add(torch.bmm(hot, rewarded), state))
        inner = torch.bmm(h, self.hidden)
        both = [self.blend(h, self._add(a, state), inner) for a in actions.split(1, 1)]
        features = silu(torch.cat([after_seen, h, *both], -1))
        return features, state._replace(hidden=torch.stack(both, 2))
