"""Decoding of many rows in step on one cache.

Rows that begin alike (the powers of one position, several draws of one turn) share the pass over
what they have in common. A pass then reads, for every row, the tokens that are certain: the token
just drawn and the forced ones after it. If there is room in the pass, it reads ahead: the legal
ways to go on within the order, as branches of a tree. A pass over 40 tokens costs hardly more than
one over 5, since both read all weights once, and with its order read ahead a unit needs one pass
instead of one for each of its two or three decisions. What is drawn does not depend on it.

Draws of one row that are still equal are one row; they part when they draw different tokens.
Every draw has a generator of its own and takes one uniform number for each decision.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.cache import Cache, chain, path_to
from dipllm_lib.lm.choices import Node, Tries
from dipllm_lib.lm.packing import Tree

LogSoftmax = Callable[[torch.Tensor, Sequence], np.ndarray]

ROWS = 64  # draws, and so rows, decoded together
AHEAD = 48  # tokens of a pass up to which it reads ahead


def draw(log_probs: np.ndarray, rng: np.random.Generator) -> int:
    """Index drawn with probabilities exp(log_probs), by one uniform number."""
    total = np.cumsum(np.exp(log_probs))
    return int(min(np.searchsorted(total, rng.random() * total[-1], side="right"), len(total) - 1))


@dataclass
class Draw:
    """One choice in the making, or made: option indices, their log-probability, its generator."""

    rng: np.random.Generator
    chosen: tuple[int, ...] = ()
    log_prob: float = 0.0


class LegalRow:
    """A row that says complete choices, one for each of its draws, which agree so far.

    pending: tokens to read next, the last one before a decision
    node: the decision in the trie of its slot; None when the choices are complete
    """

    def __init__(self, tries: Tries, draws: list[Draw], pending: list[int], node: Node | None):
        self.tries, self.draws, self.pending, self.node = tries, draws, pending, node
        self.tree = Tree()
        self.ends: dict[int, tuple[int, Node]] = {}  # decisions that are read, and where

    @property
    def count(self) -> int:
        """Number of draws."""
        return len(self.draws)

    @classmethod
    def begin(cls, prompt: Sequence[int], tries: Tries, draws: list[Draw]) -> "LegalRow":
        """The row of new draws behind `prompt`. ValueError for a decision without a prompt."""
        forced, chosen, node = _forced(tries, (), tries.slot(())[1])
        if node is not None and not len(prompt):
            raise ValueError("a prompt must have at least one token: nothing else predicts one")
        for one in draws:
            one.chosen = chosen
        return cls(tries, draws, [*prompt, *forced], node)

    def plan(self, room: int) -> list[tuple[int, tuple[int, ...]]]:
        """Fill `tree` with the pending tokens and up to `room` more of the ways to go on within the
        slot, nearest first. Returns (node, legal tokens there) where a state is wanted.
        """
        self.tree = chain(self.pending)
        self.ends = {id(self.node): (len(self.pending) - 1, self.node)}
        queue = [self.node] if room > 0 else []
        for node in queue:
            for token in node.legal:
                ahead, below = _straight(node, token)
                if below.index >= 0:
                    continue
                room -= len(ahead)
                if room < 0:
                    break
                at = self.tree.add(ahead, self.ends[id(node)][0])[-1]
                self.ends[id(below)] = at, below
                queue.append(below)
        return [(at, node.legal) for at, node in self.ends.values()]

    def take(self, table: Sequence[np.ndarray]) -> list[tuple["LegalRow", int]]:
        """Draw as far as the states reach; table: log-probabilities of the legal tokens, padded at
        the end, of each wanted node. Returns (row that goes on, the tree node it has come to).
        """
        lines = dict(zip(self.ends, table, strict=True))
        parts: dict[tuple, LegalRow] = {}
        for one in self.draws:
            node, at, said = self.node, 0, []
            while node is not None and id(node) in self.ends:
                at, _ = self.ends[id(node)]
                log_probs = lines[id(node)][: len(node.legal)]
                index = draw(log_probs, one.rng)
                one.log_prob += float(log_probs[index])
                said, below = _straight(node, node.legal[index])
                forced, one.chosen, node = _forced(self.tries, one.chosen, below)
                said += forced
            row = parts.setdefault((at, tuple(said)), LegalRow(self.tries, [], said, node))
            row.draws.append(one)
        return [(row, at) for (at, _), row in parts.items() if row.node is not None]


class FreeRow:
    """A row that says anything until the token `stop` or `limit` tokens."""

    count = 1

    def __init__(self, prompt: Sequence[int], rng: np.random.Generator, stop: int, limit: int):
        self.pending, self.rng = list(prompt), rng
        self.stop, self.limit = stop, limit
        self.tree = Tree()
        self.said: list[int] = []

    def plan(self, room: int) -> list[tuple[int, None]]:
        """The pending tokens; nothing is read ahead."""
        self.tree = chain(self.pending)
        return [(len(self.pending) - 1, None)]

    def take(self, table: Sequence[np.ndarray]) -> list[tuple["FreeRow", int]]:
        """Draw the next token; table: one line (V,)."""
        token = draw(table[0], self.rng)
        self.said.append(token)
        at, self.pending = len(self.pending) - 1, [token]
        over = token == self.stop or len(self.said) >= self.limit
        return [] if over else [(self, at)]


def _straight(node: Node, token: int) -> tuple[list[int], Node]:
    """`token` and the forced tokens after it within a slot, and the node where they end."""
    said, node = [token], node.children[token]
    while node.index < 0 and len(node.children) == 1:
        ((token, node),) = node.children.items()
        said.append(token)
    return said, node


def _forced(
    tries: Tries, chosen: tuple[int, ...], node: Node | None
) -> tuple[list[int], tuple[int, ...], Node | None]:
    """From `node` through complete options to the next decision: forced tokens, options chosen by
    then, the decision or None at the end.
    """
    said: list[int] = []
    while node is not None:
        if node.index >= 0:
            chosen = (*chosen, node.index)
            node = tries.slot(chosen)[1]
        elif len(node.children) == 1:
            ahead, node = _straight(node, next(iter(node.children)))
            said += ahead
        else:
            break
    return said, chosen, node


@torch.inference_mode()
def decode(
    backbone: Backbone, rows: Sequence[LegalRow] | Sequence[FreeRow], log_softmax: LogSoftmax
) -> None:
    """Run `rows`, each with something to decide, to their ends.

    log_softmax: states (N, H) and the legal tokens of each to (N, A) float64.
    """
    waiting = [
        (length, part)
        for length, members in shared_prefixes([row.pending for row in rows])
        for part in _portions([rows[i] for i in members])
    ][::-1]
    batch = _Batch(backbone, log_softmax)
    while waiting or batch.rows:
        while waiting and (not batch.rows or batch.draws + _draws(waiting[-1][1]) <= ROWS):
            batch.enter(*waiting.pop())
        batch.step()


def _draws(rows: Sequence[LegalRow | FreeRow]) -> int:
    """Into how many rows these may part."""
    return sum(row.count for row in rows)


def _portions(rows: Sequence[LegalRow | FreeRow]) -> list[list[LegalRow | FreeRow]]:
    """Rows in order, cut where a portion would have more than ROWS draws."""
    parts: list[list[LegalRow | FreeRow]] = []
    for row in rows:
        if parts and _draws([*parts[-1], row]) <= ROWS:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def shared_prefixes(prompts: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Groups of prompts as (tokens that all of them begin with, indices), a partition of all.

    Neighbours in sorted order are in one group where they share at least half of the shorter one.
    The last token of a prompt is never shared; a prompt alone shares 0.
    """
    order = sorted(range(len(prompts)), key=lambda i: tuple(prompts[i]))
    groups: list[tuple[int, list[int]]] = []
    for i in order:
        if groups:
            length, members = groups[-1]
            here = _common(prompts[members[-1]], prompts[i])
            shorter = min(len(prompts[members[-1]]), len(prompts[i]))
            if 2 * here >= shorter and 2 * min(length, here) >= shorter:
                groups[-1] = min(length, here), [*members, i]
                continue
        groups.append((len(prompts[i]) - 1, [i]))
    return [(length if len(members) > 1 else 0, sorted(members)) for length, members in groups]


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with, at most all but the last of either."""
    most = min(len(one), len(other)) - 1
    return next((k for k in range(most) if one[k] != other[k]), most)


class _Batch:
    """The rows that are decoded now, each in a line of the cache."""

    def __init__(self, backbone: Backbone, log_softmax: LogSoftmax):
        self.cache, self.log_softmax = Cache(backbone), log_softmax
        self.rows: dict[int, LegalRow | FreeRow] = {}  # by line of the cache

    def enter(self, length: int, rows: Sequence[LegalRow | FreeRow]) -> None:
        """Begin rows whose first `length` pending tokens are the same: they are read once."""
        lines = self._free(len(rows))
        self.cache.clear(lines)
        if length:
            self.cache.read(lines[:1], [chain(rows[0].pending[:length])])
            self.cache.keep(lines[:1], [range(length)])
            self.cache.copy([lines[0]] * (len(rows) - 1), lines[1:])
        for line, row in zip(lines, rows, strict=True):
            row.pending = row.pending[length:]
            self.rows[line] = row

    @property
    def draws(self) -> int:
        """Into how many rows these may part."""
        return _draws(list(self.rows.values()))

    def _free(self, count: int) -> list[int]:
        """The first lines without a row."""
        found, line = [], 0
        while len(found) < count:
            if line not in self.rows:
                found.append(line)
            line += 1
        return found

    def step(self) -> None:
        """One pass over all rows, and what is drawn from it."""
        lines = sorted(self.rows)
        certain = sum(len(self.rows[line].pending) for line in lines)
        room = max(AHEAD - certain, 0) // len(lines)
        wanted = [self.rows[line].plan(room) for line in lines]
        trees = [self.rows[line].tree for line in lines]
        states = self.cache.read(lines, trees)
        starts = np.cumsum([0] + [len(tree.tokens) for tree in trees[:-1]])
        picked = [start + at for start, row in zip(starts, wanted) for at, _ in row]
        legal = [tokens for row in wanted for _, tokens in row]
        table = self.log_softmax(states[torch.tensor(picked, device=states.device)], legal)
        ends = np.cumsum([len(row) for row in wanted])
        self._part(lines, [
            self.rows[line].take(part)
            for line, part in zip(lines, np.split(table, ends[:-1]), strict=True)
        ])  # fmt: skip

    def _part(self, lines: Sequence[int], found: Sequence[list]) -> None:
        """Each line goes on with the first of its rows; the others get copies of it."""
        trees = {line: self.rows[line].tree for line in lines}
        self.rows = {}
        going = [(line, row, at) for line, parts in zip(lines, found) for row, at in parts[:1]]
        self.rows = {line: row for line, row, _ in going}
        more = [(line, row, at) for line, parts in zip(lines, found) for row, at in parts[1:]]
        targets = self._free(len(more))
        self.rows |= {line: row for line, (_, row, _) in zip(targets, more, strict=True)}
        sources = [line for line, _, _ in more]
        beyond = max((len(trees[line].tokens) for line in sources), default=0)
        self.cache.copy(sources, targets, beyond)
        paths = [path_to(trees[line], at) for line, _, at in [*going, *more]]
        self.cache.keep([line for line, _, _ in going] + targets, paths)
