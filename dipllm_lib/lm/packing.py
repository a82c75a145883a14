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

from dipllm_lib.lm import branched
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.branched import Branched


@dataclass(frozen=True)
class Packed:
    """A batch of rows; starts[b][k] is the column of the first token of branch k of row b."""

    ids: torch.Tensor
    positions: torch.Tensor
    layout: list[Branched]
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
    starts: list[list[int]] = []
    for row, (prompt, parts) in enumerate(zip(prompts, branches, strict=True)):
        end = len(prompt)
        ids[row, :end], positions[row, :end] = prompt, np.arange(end)
        starts.append([])
        for part in parts:
            starts[row].append(end)
            stop = end + max(len(part) - 1, 0)
            ids[row, end:stop] = part[:-1]
            positions[row, end:stop] = len(prompt) + np.arange(stop - end)
            end = stop
    layout = [
        branched.chains(len(p), [max(len(part) - 1, 0) for part in b], width, device)
        for p, b in zip(prompts, branches, strict=True)
    ]
    tensors = (torch.from_numpy(x).to(device) for x in (ids, positions))
    return Packed(*tensors, layout, [len(prompt) - 1 for prompt in prompts], starts)


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

    def columns(self) -> tuple[np.ndarray, int]:
        """Column of every node in its row, int64, -1 for a node without children; and the length of
        the trunk: the nodes before the row branches. The nodes of a branch lie side by side.
        """
        parents = np.array(self.parents, np.int64)
        inner = np.zeros(len(parents), bool)
        inner[parents[parents >= 0]] = True
        children = np.bincount(parents[inner] + 1, minlength=len(parents) + 1)  # 0: of no node
        branch = np.zeros(len(parents), np.int64)  # the node it begins with, -1 for the trunk
        trunk = 0
        for node in np.flatnonzero(inner).tolist():
            parent = parents[node]
            behind = parent < 0 or branch[parent] < 0
            if behind and children[parent + 1] == 1:
                branch[node] = -1
                trunk += 1
            else:
                branch[node] = node if behind else branch[parent]
        order = np.flatnonzero(inner)[np.argsort(branch[inner], kind="stable")]
        columns = np.full(len(parents), -1, np.int64)
        columns[order] = np.arange(len(order))
        return columns, trunk


@dataclass(frozen=True)
class PackedTrees:
    """A batch of trees; columns[b][n] is the column of node n of row b, -1 for a last token."""

    ids: torch.Tensor
    positions: torch.Tensor
    layout: list[Branched]
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
    found = [tree.columns() for tree in trees]
    columns = [column for column, _ in found]
    widths = [int(column.max(initial=-1)) + 1 for column in columns]
    if not all(widths):
        raise ValueError("a tree needs a sequence of at least two tokens: nothing is predicted")
    ids = np.zeros((len(trees), max(widths)), np.int64)
    positions = np.zeros_like(ids)
    layout = []
    for row, (tree, (column, trunk)) in enumerate(zip(trees, found, strict=True)):
        inner = np.flatnonzero(column >= 0)
        ids[row, column[inner]] = np.array(tree.tokens)[inner]
        positions[row, column[inner]] = np.array(tree.depths)[inner]
        parents = np.array(tree.parents)[inner]
        above = np.full(len(inner), -1)
        above[column[inner]] = np.where(parents >= 0, column[parents], -1)
        seen = [torch.from_numpy(part).to(device) for part in _seen(above, trunk)]
        layout.append(Branched(trunk, tuple(seen), max(widths) - len(inner)))
    tensors = (torch.from_numpy(x).to(device) for x in (ids, positions))
    return PackedTrees(*tensors, layout, [tree.parents for tree in trees], columns)


def _seen(above: np.ndarray, trunk: int) -> list[np.ndarray]:
    """Per branch bool (L, L): a token sees itself and its ancestors. above: column of the parent of
    each column, -1 for none.
    """
    begins = [*(c for c in range(trunk, len(above)) if above[c] < trunk), len(above)]
    parts = []
    for begin, end in zip(begins, begins[1:]):
        seen = np.eye(end - begin, dtype=bool)
        for line in range(1, end - begin):
            seen[line] |= seen[above[begin + line] - begin]
        parts.append(seen)
    return parts


def hidden(backbone: Backbone, packed: Packed | PackedTrees) -> torch.Tensor:
    """Last hidden states, (B, T, H), in the model's precision."""
    return backbone.causal.model(
        input_ids=packed.ids,
        attention_mask=packed.ids.new_ones(1, 1, 1, 1),  # has no use: the layout says who sees whom
        position_ids=packed.positions,
        use_cache=False,
        layout=packed.layout,
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
