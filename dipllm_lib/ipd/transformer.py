"""A causal Transformer for A agents at once, behind the interface of the GRU.

Pre-norm blocks, x + attention(norm x), then x + MLP(norm x) with a GELU layer of width 4d; learned
positions; a last norm before the heads. One token a round, or three when `interleaved`; then each
round also shows both own actions C and D as branches, which see the past and themselves and which
nothing sees. The action that was taken enters at the begin of the next round.

A token sees a token of the past if that is no branch and has a smaller position. Every token of a
round is a row of a table over the five observations, so a round is one product:

    joint, summed, concat    offset 0: the round
    interleaved              -1: own action before, 0: observation, 1: reward, 2: C, 2: D

times tokens per round, plus offset, is the position. An identity vector in front has none of its
own: its layer's bias is as good, so positions of rounds do not depend on it.

The state is a cache of keys and values that grows by concatenation: the old state stays valid, so
rollouts can go on from it many times, at 2 · layers · d · t numbers for each.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from dipllm_lib.ipd.layers import LayerNorm, Linear, stacked
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.ipd.tokens import Tokens

OFFSETS = {1: (0,), 3: (-1, 0, 1, 2, 2)}  # positions within a round, by tokens of a round
BRANCHES = {1: 0, 3: 2}
SPREAD = 0.02  # SD of positions at first


class TransformerState(NamedTuple):
    """After some rounds: keys and values of each layer (A, n, heads, tokens, d / heads); every
    (A, n, d), an identity vector that enters at every token, or None.
    """

    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    every: torch.Tensor | None


class Block(nn.Module):
    """One layer. width d, which `heads` divide."""

    def __init__(self, generators, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.before = LayerNorm(generators, width)
        self.projection = Linear(generators, width, 3 * width)
        self.out = Linear(generators, width, width)
        self.between = LayerNorm(generators, width)
        self.up = Linear(generators, width, 4 * width)
        self.down = Linear(generators, 4 * width, width)

    def forward(self, x: torch.Tensor, past, mask: torch.Tensor | None):
        """x (A, n, S, d); past: keys and values of C tokens; mask (S, C + S), True = seen, None =
        all. Returns the next x, and keys and values of C + S tokens.
        """
        shape = (*x.shape[:3], 3, self.heads, -1)
        query, *new = self.projection(self.before(x)).reshape(shape).permute(3, 0, 1, 4, 2, 5)
        keys, values = (torch.cat(pair, -2) for pair in zip(past, new, strict=True))
        rows = (t.flatten(0, 1) for t in (query, keys, values))
        seen = scaled_dot_product_attention(*rows, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        return x + self.down(gelu(self.up(self.between(x)))), keys, values


class Transformer(nn.Module):
    """The core of a stack of Transformers; see the module."""

    def __init__(self, settings: ModelSettings, generators):
        super().__init__()
        width = settings.hidden
        self.settings, self.branches = settings, BRANCHES[settings.tokens]
        self.tokens = Tokens(settings, generators, width)
        mixes = self.tokens.width != width
        self.mix = Linear(generators, self.tokens.width, width) if mixes else None
        shape = (settings.rounds * settings.tokens, width)
        self.positions = stacked(lambda rng: rng.normal(0.0, SPREAD, shape), generators)
        self.identity = Linear(generators, settings.z, width) if settings.z else None
        self.blocks = nn.ModuleList(
            Block(generators, width, settings.heads) for _ in range(settings.layers)
        )
        self.norm = LayerNorm(generators, width)
        self.register_buffer("hot", torch.eye(settings.codes), persistent=False)
        self.register_buffer("offsets", torch.tensor(OFFSETS[settings.tokens]), persistent=False)

    def table(self) -> torch.Tensor:
        """(A, 5, K, d): the K tokens of a round by its observation."""
        seen = self.tokens.rounds()
        if self.mix is not None:
            seen = self.mix(seen)
        if not self.branches:
            return seen.unsqueeze(2)
        both = self.tokens.actions().split(1, 1)
        taken = torch.matmul(self.tokens.own, self.tokens.actions())
        found = (taken, seen, self.tokens.rewarded(), *(a.expand_as(seen) for a in both))
        return torch.stack(found, 2)

    def start(self, n: int, z: torch.Tensor | None) -> TransformerState:
        """The state before the first round. z (A, n, z) or None."""
        agents, _, width = self.positions.shape
        heads = self.settings.heads
        nothing = self.positions.new_zeros(agents, n, heads, 0, width // heads)
        empty = (nothing,) * len(self.blocks)
        state = TransformerState(empty, empty, None)
        if z is None:
            return state
        entered = self.identity(z)
        if self.settings.z_at == "every":
            return state._replace(every=entered)
        return self._read(entered.unsqueeze(2), state, torch.ones(1, dtype=torch.bool))[1]

    def step(self, state: TransformerState, obs: torch.Tensor):
        """obs (A, n) -> features (A, n, parts · d) and the next state."""
        features, state = self._rounds(state, obs.unsqueeze(2))
        return features.squeeze(2), state

    def unroll(self, obs: torch.Tensor, z: torch.Tensor | None) -> torch.Tensor:
        """obs (A, n, T) -> features (A, n, T, parts · d)."""
        return self._rounds(self.start(obs.shape[1], z), obs)[0]

    def _done(self, state: TransformerState) -> int:
        """Rounds that the state has seen; a first round has one token less when `interleaved`."""
        settings, tokens = self.settings, state.keys[0].shape[-2]
        front = int(settings.z > 0 and settings.z_at == "first")
        return -(-(tokens - front) // settings.tokens)

    def _rounds(self, state: TransformerState, obs: torch.Tensor):
        """obs (A, n, T): T more rounds. Features (A, n, T, parts · d) and the next state."""
        agents, n, rounds = obs.shape
        done, table = self._done(state), self.table()
        if done + rounds > self.settings.rounds:
            raise ValueError(
                f"round {done + rounds} of a transformer with positions for "
                f"{self.settings.rounds}: build it with more rounds, or stop rollouts at the end"
            )
        x = torch.bmm(self.hot[obs].flatten(1, 2), table.flatten(2))
        count, width = table.shape[2:]
        number = torch.arange(done, done + rounds).unsqueeze(1) * self.settings.tokens
        position = (number + self.offsets).flatten()
        places = self.positions[:, position.clamp(min=0)].unsqueeze(1)
        x = x.reshape(agents, n, rounds * count, width) + places
        if state.every is not None:
            x = x + state.every.unsqueeze(2)
        kept = torch.arange(count).lt(count - self.branches).repeat(rounds) & (position >= 0)
        y, state = self._read(x, state, kept, position)
        features = y.reshape(agents, n, rounds, count * width)
        return features[..., -self.settings.parts * width :], state

    def _read(self, x: torch.Tensor, state: TransformerState, kept: torch.Tensor, position=None):
        """x (A, n, S, d), tokens after those of the state; kept (S,): whether later ones see them.
        Returns the normed output (A, n, S, d) and the state with the tokens that are kept.
        """
        past, size, mask = state.keys[0].shape[-2], x.shape[2], None
        if size > 1:
            new = kept & (position.unsqueeze(1) > position) | torch.eye(size, dtype=torch.bool)
            mask = torch.cat((torch.ones(size, past, dtype=torch.bool), new), 1)
        keys, values = [], []
        for block, old in zip(self.blocks, zip(state.keys, state.values), strict=True):
            x, *pair = block(x, old, mask)
            for found, tokens in zip((keys, values), pair, strict=True):
                found.append(self._keep(tokens, past, kept))
        return self.norm(x), state._replace(keys=tuple(keys), values=tuple(values))

    def _keep(self, tokens: torch.Tensor, past: int, kept: torch.Tensor) -> torch.Tensor:
        """Cached tokens (A, n, heads, C + S, d / heads) without those that are not kept."""
        if not self.branches:
            return tokens
        return torch.cat((tokens[..., :past, :], tokens[..., past:, :][..., kept, :]), -2)
