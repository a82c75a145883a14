"""Token sequences that begin alike as one row: what they share is read once.

Two forms. `pack`: a row holds prompt, branch 1, ..., branch K; a token sees the prompt up to itself
and the earlier tokens of its own branch. `pack_trees`: a row is a trie of whole sequences, so it
branches wherever they part: board -> power -> orders. A token sees itself and its ancestors.

In both, a token's position counts as if its sequence stood alone, so every sequence has the
log-probability of a pass of its own. Rows of a batch are padded on the right. The hidden state that
predicts a token is that of the token before it; the last token of a sequence predicts nothing and
is left out.

Shapes: B rows, T longest row, H width. ids, positions (B, T); mask (B, 1, T, T), True where
    attention is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dipllm_lib.lm.backbones import Backbone


@dataclass(frozen=True)
class Packed:
    """A batch of rows; starts[b][k] is the column of the first token of branch k of row b."""

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    ends: list[int]
    starts: list[list[int]]

    def predictor(self, row: int, branch: int, token: int) -> int:
        """Column whose hidden state predicts `token` of `branch`."""
        return self.starts[row][branch] + token - 1 if token else self.ends[row]


def row_length(prompt: Sequence[int], branches: Sequence[Sequence[int]]) -> int:
    """Columns of a row: the last token of a branch predicts nothing and is left out."""
    return len(prompt) + sum(max(len(branch) - 1, 0) for branch in branches)


def pack(
    prompts: Sequence[Sequence[int]],
    branches: Sequence[Sequence[Sequence[int]]],
    device: torch.device,
) -> Packed:
    """Rows of `prompts` with their `branches`. Raises ValueError for an empty prompt."""
    if not all(len(prompt) for prompt in prompts):
        raise ValueError(
            "a prompt must have at least one token: nothing else predicts the first one"
        )
    width = max(row_length(p, b) for p, b in zip(prompts, branches, strict=True))
    ids = np.zeros((len(prompts), width), np.int64)
    positions = np.zeros_like(ids)
    segment = np.full_like(ids, -1)  # 0 prompt, k + 1 branch k, -1 padding
    starts: list[list[int]] = []
    for row, (prompt, parts) in enumerate(zip(prompts, branches, strict=True)):
        end = len(prompt)
        ids[row, :end], positions[row, :end], segment[row, :end] = prompt, np.arange(end), 0
        starts.append([])
        for k, part in enumerate(parts):
            starts[row].append(end)
            stop = end + max(len(part) - 1, 0)
            ids[row, end:stop] = part[:-1]
            positions[row, end:stop] = len(prompt) + np.arange(stop - end)
            segment[row, end:stop] = k + 1
            end = stop
    query, key = segment[:, :, None], segment[:, None, :]
    mask = ((key == 0) | (query == key)) & np.tri(width, dtype=bool)
    tensors = (torch.from_numpy(x).to(device) for x in (ids, positions, mask[:, None]))
    return Packed(*tensors, [len(prompt) - 1 for prompt in prompts], starts)


class Tree:
    """A trie of token sequences. Node n is one token behind its parent; the parent of a first token
    is -1. Parents come before their children.
    """

    def __init__(self):
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def add(self, tokens: Sequence[int], behind: int = -1) -> list[int]:
        """The node of every token of a sequence that begins behind node `behind`; new nodes only
        where no earlier sequence went the same way.
        """
        nodes = []
        for token in tokens:
            node = self._children.setdefault((behind, token), len(self.tokens))
            if node == len(self.tokens):
                self.tokens.append(token)
                self.parents.append(behind)
                self.depths.append(self.depths[behind] + 1 if behind >= 0 else 0)
            nodes.append(node)
            behind = node
        return nodes

    def columns(self) -> np.ndarray:
        """Column of every node in its row, int64; -1 for a node without children."""
        inner = np.zeros(len(self.tokens), bool)
        parents = np.array(self.parents, np.int64)
        inner[parents[parents >= 0]] = True
        return np.where(inner, np.cumsum(inner) - 1, -1)


@dataclass(frozen=True)
class PackedTrees:
    """A batch of trees; columns[b][n] is the column of node n of row b, -1 for a last token."""

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    parents: list[list[int]]
    columns: list[np.ndarray]

    def predictor(self, row: int, node: int) -> int:
        """Column whose hidden state predicts `node`. ValueError for a first token."""
        parent = self.parents[row][node]
        if parent < 0:
            raise ValueError("nothing predicts the first token of a row: give it a prompt")
        return int(self.columns[row][parent])


def pack_trees(trees: Sequence[Tree], device: torch.device) -> PackedTrees:
    """One row per tree. ValueError for a tree without a token that has another behind it."""
    columns = [tree.columns() for tree in trees]
    widths = [int(column.max(initial=-1)) + 1 for column in columns]
    if not all(widths):
        raise ValueError("a tree needs a sequence of at least two tokens: nothing is predicted")
    ids = np.zeros((len(trees), max(widths)), np.int64)
    positions = np.zeros_like(ids)
    mask = np.zeros((len(trees), 1, max(widths), max(widths)), bool)
    mask[:, :, np.arange(max(widths)), np.arange(max(widths))] = True
    for row, (tree, column) in enumerate(zip(trees, columns, strict=True)):
        inner = np.flatnonzero(column >= 0)
        ids[row, : len(inner)] = np.array(tree.tokens)[inner]
        positions[row, : len(inner)] = np.array(tree.depths)[inner]
        seen = mask[row, 0]
        for query, node in enumerate(inner.tolist()):
            parent = tree.parents[node]
            if parent >= 0:
                seen[query] |= seen[column[parent]]
    tensors = (torch.from_numpy(x).to(device) for x in (ids, positions, mask))
    return PackedTrees(*tensors, [tree.parents for tree in trees], columns)


def hidden(backbone: Backbone, packed: Packed | PackedTrees) -> torch.Tensor:
    """Last hidden states, (B, T, H), in the model's precision."""
    return backbone.causal.model(
        input_ids=packed.ids,
        attention_mask=packed.mask,
        position_ids=packed.positions,
        use_cache=False,
    ).last_hidden_state


def chunks(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Row indices in groups of similar length whose rows times longest row stay within `tokens`.

    A longer row stands alone. The cut depends on `lengths` alone, never on free memory, so a
    batch's composition is a function of the task.
    """
    groups: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if groups and (len(groups[-1]) + 1) * lengths[i] <= tokens:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups
