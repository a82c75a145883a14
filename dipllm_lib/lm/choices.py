"""A finite set of legal texts as a sequence of slots, and its trie of tokens.

A choice has slots 1..D. Slot d offers a finite, prefix-free set of token sequences, which may
depend on what was chosen in the slots before it. One complete choice is therefore exactly one token
sequence, and a language model restricted to the trie's branches is a probability over complete
choices:

    log p(a^1..a^D) = sum over tokens t of  logit_t(chosen) - logsumexp over legal next tokens of
    logit_t

A token that is the only legal one is forced: it has probability 1 and needs no logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol


class Choice(Protocol):
    """What may be said after one prompt."""

    def options(self, chosen: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Token sequences of slot len(chosen), given the option indices chosen so far; [] when
        complete.
        """
        ...


@dataclass
class Node:
    """A node of the trie of one slot; `index` is the option that ends here, else -1."""

    children: dict[int, "Node"] = field(default_factory=dict)
    index: int = -1

    @cached_property
    def legal(self) -> tuple[int, ...]:
        """The legal next tokens, sorted; of a finished trie."""
        return tuple(sorted(self.children))


def trie(options: Sequence[tuple[int, ...]]) -> Node:
    """Root of the trie of `options`. Raises ValueError if one option equals, or is a prefix of,
    another.
    """
    root = Node()
    for index, tokens in enumerate(options):
        node = root
        for token in tokens:
            if node.index >= 0:
                raise ValueError(f"option {node.index} is a token prefix of option {index}")
            if token not in node.children:
                node.children[token] = Node()
            node = node.children[token]
        if node.children or node.index >= 0 or not tokens:
            raise ValueError(f"option {index} is empty, or a token prefix of another option")
        node.index = index
    return root


class Tries:
    """The tries of one choice; a trie is made once per list object that the choice returns."""

    def __init__(self, choice: Choice):
        self.choice = choice
        self._slots: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        self._roots: dict[int, Node] = {}

    def slot(self, chosen: tuple[int, ...]) -> tuple[list[tuple[int, ...]], Node | None]:
        """Options of the next slot and their trie; ([], None) when the choice is complete."""
        if chosen not in self._slots:
            self._slots[chosen] = self.choice.options(chosen)
        options = self._slots[chosen]  # kept, so that its id stays its own
        if not options:
            return options, None
        if id(options) not in self._roots:
            self._roots[id(options)] = trie(options)
        return options, self._roots[id(options)]


@dataclass(frozen=True)
class Path:
    """One complete choice as tokens.

    tokens: all of it, slot after slot
    decisions: (position, legal, rank): tokens[position] = legal[rank], legal sorted and of length 2
        or more
    """

    tokens: tuple[int, ...]
    decisions: tuple[tuple[int, tuple[int, ...], int], ...]


def path(tries: Tries, sequence: Sequence[int]) -> Path:
    """The tokens of the option indices `sequence`. ValueError if it is no complete choice."""
    tokens, decisions = [], []
    for depth, index in enumerate(sequence):
        options, node = tries.slot(tuple(sequence[:depth]))
        if not 0 <= index < len(options):
            raise ValueError(f"slot {depth} has {len(options)} options, there is no option {index}")
        for token in options[index]:
            if len(node.children) > 1:
                decisions.append((len(tokens), node.legal, node.legal.index(token)))
            tokens.append(token)
            node = node.children[token]
    if tries.slot(tuple(sequence))[0]:
        raise ValueError(
            f"a choice of {len(sequence)} slots is incomplete: more slots have options"
        )
    return Path(tuple(tokens), tuple(decisions))
