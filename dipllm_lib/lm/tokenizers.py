"""Text to token ids, piece by piece.

A piece is a newline or a word with its leading space, each piece has its own token ids, and the ids
of a text are the concatenation of the ids of its pieces. For every tokenizer in use this equals the
ids of the whole text (tested, and checked when a model is loaded), so the ids of a legal order do
not depend on what stands before it.
"""

import re
from collections.abc import Sequence
from typing import Protocol

PIECE = re.compile(r"\n| ?[^ \n]+")
PROBE = "1901 fall\n you A ; F Stpn\n"  # a text with every kind of piece


class Tokenizer(Protocol):
    """What the rest of the library needs of a tokenizer."""

    size: int

    def piece(self, piece: str) -> tuple[int, ...]: ...

    def text(self, ids: Sequence[int]) -> str: ...


class WordTokenizer:
    """One token per word, the newline is a word; token 0 is padding. Leading spaces carry no
    information.

    words: the whole vocabulary, in the order of its ids.
    """

    def __init__(self, words: Sequence[str]):
        self.words = ("<pad>", *words)
        self.size = len(self.words)
        self._ids = {word: i for i, word in enumerate(self.words)}
        if len(self._ids) != self.size:
            raise ValueError("the words of a scratch tokenizer must be distinct")

    def piece(self, piece: str) -> tuple[int, ...]:
        """The one id of `piece`. Raises ValueError for a word outside the vocabulary."""
        word = piece.removeprefix(" ")
        if word not in self._ids:
            raise ValueError(f"{word!r} is no word of this scratch model: add it to `words`")
        return (self._ids[word],)

    def text(self, ids: Sequence[int]) -> str:
        """Words with one leading space each; newlines bare."""
        words = (self.words[i] for i in ids)
        return "".join(word if word == "\n" else " " + word for word in words)


class SubwordTokenizer:
    """A tokenizer of the transformers library, without special tokens."""

    def __init__(self, tokenizer):
        self.inner = tokenizer
        self.size = len(tokenizer)

    def piece(self, piece: str) -> tuple[int, ...]:
        return tuple(self.inner(piece, add_special_tokens=False)["input_ids"])

    def text(self, ids: Sequence[int]) -> str:
        return self.inner.decode(list(ids), clean_up_tokenization_spaces=False)


def check_pieces(tokenizer: SubwordTokenizer, where: str) -> None:
    """Raise ValueError unless the pieces of a text have the same ids alone as in the text."""
    pieces = [tokenizer.piece(piece) for piece in PIECE.findall(PROBE)]
    if not all(pieces) or sum(pieces, ()) != tokenizer.piece(PROBE):
        raise ValueError(f"the tokenizer of {where} does not keep words apart: use another model")
