"""The words of the scratch model of study 3: those of the games and of what the roles add to them.

The small model has one token per word, so each must be known before it is built. Fillers bring the
vocabulary to SIZE, so that the number of weights does not depend on a wording: 803,968 at the sizes
of the specification.
"""

from dipllm_lib.kto import words as texts

SIZE = 512  # with the padding token
PARTNERS = ("AllC", "AllD", "TFT", "GTFT", "WSLS", "Grim", "Extort", "People")
MORE = ("Partner", "Partner?", "got", "Choose", *(f"{name}." for name in PARTNERS))


def words() -> tuple[str, ...]:
    """SIZE - 1 distinct words, fillers last. ValueError if there are too many."""
    known = list(dict.fromkeys((*texts.WORDS, *MORE)))
    if len(known) >= SIZE:
        raise ValueError(f"{len(known)} words for a scratch model of {SIZE}: raise SIZE")
    return (*known, *(f"<filler-{i}>" for i in range(SIZE - 1 - len(known))))
