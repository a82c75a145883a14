"""The words of the scratch model of study 3: whatever the prompts and legal texts of its games use.

The small model has one token per word (`lm.tokenizers.WordTokenizer`), so each of its words must be
known before it is built. They are the pieces of the games' texts, all whole numbers to 100 with and
without a full stop, and fillers up to SIZE, so that its number of weights does not depend on a
wording: 803,968 at the sizes of the specification.
"""

from collections.abc import Iterable

from dipllm_lib.kto import games, gift, repeated, ultimatum
from dipllm_lib.lm.tokenizers import PIECE
from dipllm_lib.run import seeding

SIZE = 512  # with the padding token
LETTERS = tuple("ABCDEF")
MORE = (  # what the roles add to the prompts of the games
    "Setting Forecast accept keep cooperate defect Partner Type. Choose Payoffs late none. "
    "always copies forgives repeats punishes extorts people random"
).split()


def texts() -> list[str]:
    """Prompts and legal texts of the games, without their numbers' full range."""
    rng, found = seeding.child(0, "kto", "vocabulary"), []
    for game in (ultimatum.Ultimatum(), gift.GiftPD()):
        for state, player in games.decisions(game, game.reset(rng)):
            found += [game.observe(state, player), *game.legal(state, player)]
    for counted, delta in ((True, None), (False, 0.9)):
        game = repeated.IteratedPD(rounds=10, counted=counted, delta=delta)
        state = repeated.State(10, repeated.WORDS_LABELS, history=((0, 0),))
        found += [game.observe(state, 0), *game.legal(state, 0)]
    return found


def pieces(found: Iterable[str]) -> set[str]:
    """Words of texts, without their leading spaces."""
    return {piece.removeprefix(" ") for text in found for piece in PIECE.findall(text)}


def words(more: Iterable[str] = ()) -> tuple[str, ...]:
    """SIZE - 1 words, sorted, fillers last. more: further texts. ValueError if there are too
    many."""
    known = pieces([*texts(), *more]) | set(MORE) | {f"{word}." for word in MORE}
    known |= {form for n in range(101) for form in (f"{n}", f"{n}.")}
    known |= {form for letter in LETTERS for form in (letter, f"{letter}.")}
    pairs = ("CC", "CD", "DC", "DD")
    known |= {form for pair in pairs for form in (pair, f"{pair}.")}
    if len(known) >= SIZE:
        raise ValueError(f"{len(known)} words for a scratch model of {SIZE}: raise SIZE")
    return (
        *sorted(known),
        *(f"<filler-{i}>" for i in range(SIZE - 1 - len(known))),
    )
