"""Log-probabilities of many token paths behind many prompts in one pass over packed trees.

Prompts of one row that begin alike, and paths that begin alike, are read and scored once (see
`packing.Tree`). Every scored token is one entry of a vector `values`; a path is the list of its
entries, so that

    log p(path) = sum of values[entries],    sum_k w_k log p(path_k) = sum of W * values,
    W of an entry = sum of w_k over the paths that run through it

softmax `tokens`: every token of a path is scored, over the whole vocabulary. `legal`: only its
decisions are, over the legal tokens (see `choices`); the other tokens have probability 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dipllm_lib.lm import packing, scoring
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.choices import Path

SOFTMAX = ("tokens", "legal")

Branches = tuple[Sequence[int], Sequence[Path]]
"""A prompt and the paths that may follow it."""


@dataclass(frozen=True)
class Scores:
    """values (N,) log-probabilities in nats, differentiable; entries[row][branch][path] indices."""

    values: torch.Tensor
    entries: list[list[list[list[int]]]]

    def weighted(self, weights: Sequence[Sequence[Sequence[float]]]) -> torch.Tensor:
        """Sum over all paths of weight times log-probability; weights[row][branch][path]."""
        total = np.zeros(len(self.values))
        for row, branches in zip(weights, self.entries, strict=True):
            for part, paths in zip(row, branches, strict=True):
                for weight, entries in zip(part, paths, strict=True):
                    total[entries] += weight  # the entries of one path are distinct
        return (self.values * torch.from_numpy(total).to(self.values)).sum()

    def paths(self) -> list[list[np.ndarray]]:
        """Log-probabilities in nats, float64: per row and branch one array (K,)."""
        values = self.values.detach().double().cpu().numpy()
        return [
            [np.array([values[entries].sum() for entries in paths]) for paths in branches]
            for branches in self.entries
        ]


def tree(branches: Sequence[Branches]) -> tuple[packing.Tree, list[list[list[int]]]]:
    """One row: the trie of its prompts and paths, and the nodes of each path's tokens."""
    grown, nodes = packing.Tree(), []
    for prompt, paths in branches:
        if not len(prompt):
            raise ValueError("a prompt needs at least one token: nothing else predicts the first")
        end = grown.add(prompt)[-1]
        nodes.append([grown.add(path.tokens, end) for path in paths])
    return grown, nodes


def length(branches: Sequence[Branches]) -> int:
    """Columns of a row."""
    return int(tree(branches)[0].columns()[0].max(initial=-1)) + 1


def score(backbone: Backbone, rows: Sequence[Sequence[Branches]], softmax: str) -> Scores:
    """Scores of all paths of all rows in one forward pass. ValueError for an unknown softmax."""
    if softmax not in SOFTMAX:
        raise ValueError(f"unknown softmax {softmax!r}: use one of {', '.join(SOFTMAX)}")
    grown = [tree(branches) for branches in rows]
    packed = packing.pack_trees([trie for trie, _ in grown], backbone.device)
    wanted = _Wanted(packed, softmax)
    entries = []
    for row, (branches, (trie, nodes)) in enumerate(zip(rows, grown, strict=True)):
        found = [
            [wanted.path(row, path, own, trie) for path, own in zip(paths, below, strict=True)]
            for (_, paths), below in zip(branches, nodes, strict=True)
        ]
        entries.append(found)
    return Scores(wanted.values(backbone), entries)


class _Wanted:
    """What is to be predicted: the distinct predicting columns, and per entry which column and
    which of its tokens.
    """

    def __init__(self, packed: packing.PackedTrees, softmax: str):
        self.packed, self.softmax = packed, softmax
        self.sources: dict[tuple[int, int], int] = {}  # (row, column) -> line of the logits
        self.legal: list[tuple[int, ...]] = []
        self.known: dict[tuple[int, int], int] = {}  # (row, node) -> entry
        self.lines: list[int] = []
        self.places: list[int] = []  # token id, or rank among the legal ones

    def path(self, row: int, path: Path, nodes: list[int], trie: packing.Tree) -> list[int]:
        if self.softmax == "tokens":
            return [self._entry(row, node, trie.tokens[node], ()) for node in nodes]
        return [self._entry(row, nodes[t], rank, legal) for t, legal, rank in path.decisions]

    def _entry(self, row: int, node: int, place: int, legal: tuple[int, ...]) -> int:
        if (row, node) not in self.known:
            source = row, self.packed.predictor(row, node)
            line = self.sources.setdefault(source, len(self.sources))
            if line == len(self.legal):
                self.legal.append(legal)
            self.known[row, node] = len(self.lines)
            self.lines.append(line)
            self.places.append(place)
        return self.known[row, node]

    def values(self, backbone: Backbone) -> torch.Tensor:
        """(N,) log-probabilities of the entries."""
        if not self.lines:  # every path is forced: nothing depends on the model
            return backbone.head.sum(dtype=torch.float32).reshape(1)[:0]
        states = packing.hidden(backbone, self.packed)
        rows, columns = torch.tensor(list(self.sources), device=states.device).T
        lines, places = (torch.tensor(x, device=states.device) for x in (self.lines, self.places))
        states = states[rows, columns]
        if self.softmax == "tokens":
            logits = (states @ backbone.head.T).float()
            return logits[lines, places] - torch.logsumexp(logits, -1)[lines]
        logits = scoring.subset_logits(backbone, states, self.legal).double()
        return torch.log_softmax(logits, -1)[lines, places]
