"""Keys and values of many rows in fixed places, and passes that read a tree of tokens behind each.

A row is a sequence of tokens that the model has read. `read` shows the model new tokens of some
rows: a tree per row (`packing.Tree`), in which a token sees its row, its ancestors and itself, at
the position that it would have if its path stood alone. So one pass can read the board of a game, a
task for each power, or several ways to go on. `keep` then makes one path of a row's tree part of
the row, `copy` begins a row with what another has read.

The keys of a row lie without gaps in a buffer that grows by doubling: nothing that was read is
moved when tokens are added. Matrix products run over the tokens alone; only the attention of a
batch is padded, on the right, and padding is masked.

In bfloat16 on a CPU a product of a token with a matrix has the same bits in any batch, but a sum
over keys depends on where in the buffer they lie, and one rounding that goes the other way grows to
a tenth of a nat in thirty layers. There the weights of the attention are summed in float64
(`_exact`), so that a log-probability has the same bits alone, in a batch and on a branch. For the
float32 products of an adapter a pass has at least LEAST tokens: for fewer the libraries add in
another order.

Shapes: N new tokens of all rows, B rows of a pass, T tokens of the largest tree, C columns, H
width. Keys, and values, of a layer: (rows, key heads, columns, head size).
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.packing import Tree

ROOM = 64  # columns are added in multiples of it
LEAST = 8  # tokens of a pass; what is missing is filled up and thrown away
BLOCK = 32  # tokens of a row whose attention is computed together, over the columns that they see


def chain(tokens: Sequence[int]) -> Tree:
    """The tree of one sequence."""
    tree = Tree()
    tree.add(tokens)
    return tree


def path_to(tree: Tree, node: int) -> list[int]:
    """The nodes from the root to `node`."""
    path = []
    while node >= 0:
        path.append(node)
        node = tree.parents[node]
    return path[::-1]


class Cache:
    """What the rows of `backbone` have read. `lengths` (rows,): tokens of each row."""

    def __init__(self, backbone: Backbone, rows: int = 1):
        self.backbone, self.model = backbone, backbone.causal.model
        attention = self.model.layers[0].self_attn
        self.size = attention.head_dim
        self.groups = attention.num_key_value_groups
        self.key_heads = backbone.causal.config.num_key_value_heads
        self.lengths = np.zeros(rows, np.int64)
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []  # keys, values
        for layer in self.model.layers:
            device = layer.input_layernorm.weight.device  # its layer may lie on another one
            shape = (rows, self.key_heads, 0, self.size)
            exact = _is_exact(backbone.head.dtype, device)
            types = (torch.float32, torch.float64) if exact else (backbone.head.dtype,) * 2
            self.layers.append(tuple(torch.zeros(shape, dtype=t, device=device) for t in types))

    def _reserve(self, rows: int, columns: int) -> None:
        """Room for that many rows and columns."""
        have_rows, _, have_columns, _ = self.layers[0][0].shape
        if rows <= have_rows and columns <= have_columns:
            return
        if rows > have_rows:
            rows = max(rows, 2 * have_rows)
            self.lengths = np.r_[self.lengths, np.zeros(rows - have_rows, np.int64)]
        if columns > have_columns:
            columns = -(-max(columns, have_columns + have_columns // 2) // ROOM) * ROOM
        rows, columns = max(rows, have_rows), max(columns, have_columns)
        for i, pair in enumerate(self.layers):
            more = [old.new_zeros((rows, self.key_heads, columns, self.size)) for old in pair]
            for old, new in zip(pair, more, strict=True):
                new[:have_rows, :, :have_columns] = old
            self.layers[i] = tuple(more)

    def read(self, rows: Sequence[int], trees: Sequence[Tree]) -> torch.Tensor:
        """Hidden states (N, H) of the tokens of the trees, tree after tree, in the order of their
        nodes. rows: distinct; the tokens are not part of the rows before `keep`.
        """
        rows = np.asarray(rows, np.int64)
        sizes = np.array([len(tree.tokens) for tree in trees])
        starts = self.lengths[rows]
        self._reserve(int(rows.max()) + 1, int((starts + sizes).max()))
        first, span = int(rows.min()), int(np.ptp(rows)) + 1
        if span <= 2 * len(rows):  # rows between them are read along, which copies no keys
            cut, lines = slice(first, first + span), rows - first
        else:
            cut, lines, span = torch.from_numpy(rows), np.arange(len(rows)), len(rows)
        mask = self._mask(lines, span, starts, sizes, trees)
        node = np.concatenate([np.arange(size) for size in sizes])
        depth = np.concatenate([np.asarray(tree.depths, np.int64) for tree in trees])
        ids = np.concatenate([np.asarray(tree.tokens, np.int64) for tree in trees])
        columns, slots = starts.repeat(sizes) + node, lines.repeat(sizes) * mask.shape[1] + node
        widths = np.bincount(lines, sizes, span)
        place = _Place((rows.repeat(sizes), columns, slots), cut, mask.shape[1], widths)
        return self._forward(ids, starts.repeat(sizes) + depth, mask, place)

    def _mask(self, lines, span: int, starts, sizes, trees: Sequence[Tree]) -> np.ndarray:
        """bool (B, T, C): what each new token sees. A line of padding sees one key, since a line of
        -inf would be NaN.
        """
        mask = np.zeros((span, int(sizes.max()), int((starts + sizes).max())), bool)
        mask[:, :, 0] = True
        for line, start, size, tree in zip(lines, starts, sizes, trees, strict=True):
            own = mask[line]
            own[:size, : max(start, 1)] = start > 0
            for node, parent in enumerate(tree.parents):
                if parent >= 0:
                    own[node, start : start + node] = own[parent, start : start + node]
                own[node, start + node] = True
        return mask

    @torch.inference_mode()
    def _forward(self, ids, positions, mask, place: "_Place") -> torch.Tensor:
        """The Llama of `transformers`, with its own layers; (N, H)."""
        device = self.backbone.causal.get_input_embeddings().weight.device
        count, missing = len(ids), max(LEAST - len(ids), 0)
        ids, positions = np.pad(ids, (0, missing)), np.pad(positions, (0, missing))
        x = self.model.embed_tokens(torch.from_numpy(ids).to(device))
        turn = self.model.rotary_emb(x[None], torch.from_numpy(positions)[None].to(device))
        exact = _is_exact(x.dtype, device)
        bias = torch.zeros(mask.shape, dtype=torch.float32 if exact else x.dtype)
        bias = bias.masked_fill_(torch.from_numpy(~mask), -torch.inf)
        bias = bias.repeat_interleave(self.groups, 1)[:, None]  # (B, 1, T groups, C)
        attend = scaled_dot_product_attention
        if exact:
            attend = functools.partial(_exact, blocks=_blocks(mask, place.widths, self.groups))
        cos, sin = (part[0][:, None] for part in turn)
        for layer, kept in zip(self.model.layers, self.layers, strict=True):
            device = kept[0].device
            if x.device != device or bias.device != device:
                x, cos, sin, bias = (t.to(device) for t in (x, cos, sin, bias))
            at = place.on(device)
            found = self._attend(
                layer.self_attn, layer.input_layernorm(x), cos, sin, bias, kept, at, attend
            )
            x = x + found
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.norm(x.to(self.model.norm.weight.device))[:count]

    def _attend(self, attention, x, cos, sin, bias, kept, at, attend) -> torch.Tensor:
        """Self-attention of the new tokens x (N, H); their keys and values enter `kept`."""
        rows, columns, slots, cut, width = at
        query = _turned(attention.q_proj(x).view(len(x), -1, self.size), cos, sin)
        key = _turned(attention.k_proj(x).view(len(x), -1, self.size), cos, sin)
        value = attention.v_proj(x).view(len(x), -1, self.size)
        kept[0][rows, :, columns] = key[: len(rows)].to(kept[0].dtype)
        kept[1][rows, :, columns] = value[: len(rows)].to(kept[1].dtype)
        # the query heads of a key head lie one after the other, as more queries of the same head
        count, columns = len(bias), bias.shape[-1]
        table = query.new_zeros(count * width, self.key_heads, self.groups, self.size)
        table[slots] = query[: len(slots)].view(-1, self.key_heads, self.groups, self.size)
        table = table.view(count, width, self.key_heads, self.groups, self.size)
        table = table.transpose(1, 2).reshape(count, self.key_heads, -1, self.size)
        keys, values = kept[0][cut, :, :columns], kept[1][cut, :, :columns]
        found = attend(table, keys, values, attn_mask=bias, scale=attention.scaling)
        found = found.view(count, self.key_heads, width, self.groups * self.size)
        found = found.transpose(1, 2).reshape(count * width, -1)[slots]
        return attention.o_proj(torch.nn.functional.pad(found, (0, 0, 0, len(x) - len(found))))

    def keep(self, rows: Sequence[int], paths: Sequence[Sequence[int]]) -> None:
        """Nodes `paths[k]` of the tree last read behind rows[k] become part of that row: an
        ancestor first, each node's parent before it.
        """
        where, source, target = [], [], []
        for row, path in zip(rows, paths, strict=True):
            start = int(self.lengths[row])
            for step, node in enumerate(path):
                if step != node:
                    where.append(row)
                    source.append(start + node)
                    target.append(start + step)
            self.lengths[row] += len(path)
        if where:
            for kept in (part for pair in self.layers for part in pair):
                kept[where, :, target] = kept[where, :, source]

    def clear(self, rows: Sequence[int]) -> None:
        """Rows that have read nothing."""
        self._reserve(max(rows) + 1, 0)
        self.lengths[list(rows)] = 0

    def copy(self, sources: Sequence[int], targets: Sequence[int], beyond: int = 0) -> None:
        """Rows `targets` become copies of `sources`, with `beyond` columns of a tree not yet
        kept.
        """
        sources, targets = np.asarray(sources, np.int64), np.asarray(targets, np.int64)
        if not len(sources):
            return
        columns = int(self.lengths[sources].max()) + beyond
        self._reserve(int(targets.max()) + 1, columns)
        for kept in (part for pair in self.layers for part in pair):
            kept[targets, :, :columns] = kept[sources, :, :columns]
        self.lengths[targets] = self.lengths[sources]


class _Place:
    """Where the N tokens of a pass lie: row and column of the cache, slot of the padded batch;
    widths (B,): tokens of each of its lines.
    """

    def __init__(
        self,
        arrays: tuple[np.ndarray, ...],
        cut: slice | torch.Tensor,
        width: int,
        widths: np.ndarray,
    ):
        self.arrays, self.cut, self.width, self.widths = arrays, cut, width, widths
        self._on: dict = {}

    def on(self, device: torch.device) -> tuple:
        """(rows, columns, slots, rows of the pass, T) on a device."""
        if device not in self._on:
            tensors = tuple(torch.from_numpy(a).to(device) for a in self.arrays)
            cut = self.cut if isinstance(self.cut, slice) else self.cut.to(device)
            self._on[device] = (*tensors, cut, self.width)
        return self._on[device]


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position: x (N, heads, size) turned by the angles of its position."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def _is_exact(dtype: torch.dtype, device: torch.device) -> bool:
    return dtype == torch.bfloat16 and not device.type.startswith("cuda")


@dataclass(frozen=True)
class _Block:
    """The queries `first` to `last` of the lines of a pass that have some there, and how many
    columns they see.
    """

    lines: slice | np.ndarray
    first: int
    last: int
    columns: int


def _blocks(mask: np.ndarray, widths: np.ndarray, groups: int) -> list[_Block]:
    """The blocks of a pass; mask: bool (B, T, C); widths (B,): tokens of a line; a token has
    `groups` queries.
    """
    found = []
    for first in range(0, mask.shape[1], BLOCK):
        last = min(first + BLOCK, mask.shape[1])
        here = np.flatnonzero(widths > first)
        lines = here if first and len(here) < len(mask) else slice(None)  # a slice copies no keys
        columns = int(np.flatnonzero(mask[lines, first:last].any((0, 1)))[-1]) + 1
        found.append(_Block(lines, first * groups, last * groups, columns))
    return found


def _exact(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    attn_mask: torch.Tensor,
    scale: float,
    blocks: Sequence[_Block],
) -> torch.Tensor:
    """Attention of bfloat16 queries to float32 keys and float64 values, in bfloat16; see the
    module's text. The rounding of the float64 sums is far below that of the result.
    """
    found = torch.zeros_like(query)
    for block in blocks:
        at = block.lines, slice(None), slice(block.first, block.last)
        seen = block.lines, slice(None), slice(block.columns)
        scores = torch.matmul(query[at].float(), keys[seen].transpose(-1, -2)).mul_(scale)
        scores.add_(attn_mask[at][..., : block.columns])
        weights = scores.sub_(scores.amax(-1, keepdim=True)).exp_().double()
        sums = torch.matmul(weights, values[seen]).div_(weights.sum(-1, keepdim=True))
        found[at] = sums.to(query.dtype)
    return found
