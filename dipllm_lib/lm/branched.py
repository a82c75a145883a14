"""Attention in rows that branch: what no token may see is not computed.

A row is a trunk of P tokens and branches of L_1, ..., L_n tokens behind it. A token of the trunk
sees the trunk up to itself; a token of a branch sees the trunk and some tokens of its own branch
(`seen`), never another branch. With one mask over the row that costs (P + sum L)^2 scores per head
and layer, in branches P^2 + sum L (P + L): a position with seven powers has a quarter of them.

The attention is that of `transformers` for models loaded with NAME; without a `layout` among the
arguments of the forward pass it is its `sdpa`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "branched"


@dataclass(frozen=True)
class Branched:
    """One row. trunk: P; seen: per branch bool (L, L), True where line sees column; padding: tokens
    behind the last branch, which see nothing.
    """

    trunk: int
    seen: tuple[torch.Tensor, ...]
    padding: int

    @property
    def sizes(self) -> list[int]:
        return [self.trunk, *(len(part) for part in self.seen), self.padding]

    def mask(self) -> torch.Tensor:
        """The same as one mask (T, T); a token of the padding sees itself."""
        parts = [torch.ones(self.trunk, self.trunk).tril(), *self.seen, torch.eye(self.padding)]
        mask = torch.block_diag(*(part.cpu() for part in parts)).bool()
        mask[self.trunk : len(mask) - self.padding, : self.trunk] = True
        return mask


def chains(trunk: int, lengths: Sequence[int], width: int, device: torch.device) -> Branched:
    """A row of `width` tokens whose branches are sequences."""
    seen = [torch.from_numpy(np.tri(n, dtype=bool)).to(device) for n in lengths]
    return Branched(trunk, tuple(seen), width - trunk - sum(lengths))


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    layout: Sequence[Branched] | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """The attention of a layer: query (B, heads, T, size), key and value (B, key heads, T, size);
    returns (B, T, heads, size). layout: the B rows.
    """
    if layout is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **kwargs
        )
    key, value = (repeat_kv(x, module.num_key_value_groups) for x in (key, value))
    rows = [
        _row(*(x[i : i + 1].split(row.sizes, 2) for x in (query, key, value)), row.seen, scaling)
        for i, row in enumerate(layout)
    ]
    return torch.cat(rows).transpose(1, 2), None


def _row(query, key, value, seen: Sequence[torch.Tensor], scaling) -> torch.Tensor:
    """One row, given in parts: trunk, branches, padding."""
    trunk = query[0].shape[2]
    causal = torch.ones(trunk, trunk, dtype=torch.bool, device=query[0].device).tril()
    found = [_part(query[0], key[0], value[0], causal, scaling)]
    for k, own in enumerate(seen, 1):
        sees = torch.nn.functional.pad(own, (trunk, 0), value=True)
        keys, values = (torch.cat([x[0], x[k]], 2) for x in (key, value))
        found.append(_part(query[k], keys, values, sees, scaling))
    return torch.cat([*found, torch.zeros_like(query[-1])], 2)


def _part(query, key, value, sees: torch.Tensor, scaling: float) -> torch.Tensor:
    """Attention of queries (1, heads, L, size) to keys (1, heads, C, size); sees: bool (L, C)."""
    bias = torch.zeros(sees.shape, dtype=query.dtype, device=sees.device)
    bias.masked_fill_(~sees, -torch.inf)
    if not _by_products(query):
        return scaled_dot_product_attention(
            query, key, value, attn_mask=bias[None, None], scale=scaling
        )
    scores = torch.matmul(query * scaling, key.transpose(-1, -2)) + bias
    weights = torch.softmax(scores, -1, dtype=torch.float32)
    return torch.matmul(weights.to(value.dtype), value)


def _by_products(query: torch.Tensor) -> bool:
    """On a CPU the backward pass of torch's bfloat16 attention takes twice as long as that of the
    three products that it stands for.
    """
    return query.requires_grad and query.dtype == torch.bfloat16 and query.is_cpu


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
