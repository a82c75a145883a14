"""Prompts by hand, words of the small tokenizer, and what must not be in a prompt."""

from functools import cache

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards
from dipllm_lib.kto import press_arms, press_lessons, press_prompts
from dipllm_lib.kto.lm_negotiator import LMNegotiator
from dipllm_lib.kto.negotiators import RuleNegotiator, View
from dipllm_lib.kto.policies import TabularPolicy
from dipllm_lib.kto.press import NOTHING, PEACE, Agreement, Proposal
from dipllm_lib.kto.press_play import Table
from dipllm_lib.kto.press_settings import SceneSettings
from dipllm_lib.lm.tokenizers import PIECE, WordTokenizer

A, E, F, G, ITALY, R, T = range(7)
SMALL = SceneSettings(4, 12, 6, 0.01, 0.1, 0.02)
ZONE = Proposal("zone", province=atlas.INDEX["BUR"])
ON_ITALY = Proposal("alliance", against=ITALY)
PARIS = Proposal("support", province=atlas.INDEX["PAR"], unit=1, to=atlas.INDEX["BUR"])
MENU = (NOTHING, PEACE, ON_ITALY, ZONE, PARIS)
WORTH = {
    (F, G, NOTHING): (0.0, 0.0),
    (F, G, PEACE): (0.02, 0.001),
    (F, G, ON_ITALY): (0.09, -0.01),
    (F, G, ZONE): (0.001, 0.02),
    (F, G, PARIS): (0.005, 0.0),
    (G, F, ZONE): (-0.004, 0.03),
}


def view(**more) -> View:
    """France in Fall 1901."""
    fields = {
        "power": F, "board": boards.start(), "phase": 1, "last": 7, "menu": {G: MENU},
        "worth": WORTH, "agreements": (), "letters": (), "broken": (), "sent": {}, "offers": {},
        "can_keep": lambda agreements: True, "rng": np.random.default_rng(0),
    }  # fmt: skip
    return View(**fields | more)


def test_a_proposal():
    held = (Agreement(0, G, F, PEACE), Agreement(1, F, G, PARIS), Agreement(0, F, E, ZONE))
    asked = press_prompts.proposing(view(agreements=held), G, {A: NOTHING, E: ZONE, ITALY: PEACE})
    assert asked.prompt == (
        "From France 3 to Germany 3, Fall 1901. In force: peace; support A Paris to Burgundy "
        "(they give it). Said: England keep out of Burgundy; Italy peace. Both gain: peace much; "
        "keep out of Burgundy little. Propose:"
    )
    assert asked.legal == tuple(one.text for one in MENU)
    dull = press_prompts.proposing(view(menu={G: (NOTHING, ON_ITALY)}), G, {})
    assert dull.prompt == "From France 3 to Germany 3, Fall 1901. Nothing helps. Propose:"


def test_a_reply_and_a_forecast():
    asked = press_prompts.answering(view(offers={G: ZONE}, sent={G: PEACE}), G)
    assert asked.prompt == (
        "From France 3 to Germany 3, Fall 1901. Said: peace. They propose: keep out of Burgundy. "
        "We gain much, they lose some. Answer:"
    )
    assert asked.legal == (" yes.", " no.")
    asked = press_prompts.forecasting(view(), G, PARIS, (0.005, 0.0))
    assert asked.prompt == (
        "From France 3 to Germany 3, Fall 1901. We propose: support A Paris to Burgundy. "
        "We gain some, they gain nothing. They answer:"
    )


@pytest.mark.parametrize(
    ("worth", "words"),
    [
        (0.0, "gain nothing"), (0.0024, "gain little"), (0.0025, "gain some"),
        (0.01, "gain much"), (-1e-9, "lose little"), (-0.3, "lose much"),
    ],
)  # fmt: skip
def test_worths_in_words(worth, words):
    assert press_prompts.gain(worth) == words


@cache
def rows():
    return press_lessons.play_one((0, 0, SMALL, 1902))


def test_the_small_tokenizer_reads_every_prompt_and_text():
    words = press_prompts.words()
    tokenizer = WordTokenizer(words)
    assert len(set(words)) == len(words)
    for row in rows():
        for text in (row["prompt"], *row["legal"]):
            ids = [i for piece in PIECE.findall(text) for i in tokenizer.piece(piece)]
            assert tokenizer.text(ids).strip() == text.strip()
    assert {row["kind"] for row in rows()} == set(press_prompts.KINDS) and len(rows()) > 150


class Notes(TabularPolicy):
    """Uniform; keeps the prompts it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def log_probs(self, contexts):
        self.asked += [context.prompt for context in contexts]
        return super().log_probs(contexts)


def prompts_of_france(*agreements) -> list[str]:
    """What France asks for its six proposals while these agreements are in force."""
    notes = Notes()
    seats = [LMNegotiator(notes, TabularPolicy()) if p == F else RuleNegotiator() for p in range(7)]
    table = Table(seats, press_arms.minds(SMALL), "priced", 1902, 0, ("press", 3))
    table.agreements = list(agreements)
    table.open(boards.start())
    return [prompt for prompt in notes.asked if prompt.endswith("Propose:")]


def test_a_prompt_depends_on_nothing_that_its_power_cannot_see():
    alone = prompts_of_france()
    assert len(alone) == 6
    for one in (Agreement(0, R, T, PEACE), Agreement(0, G, E, ON_ITALY)):
        assert prompts_of_france(one) == alone
    own = prompts_of_france(Agreement(0, F, G, PEACE))
    assert own[:2] == alone[:2] and " In force: peace." in own[2]
    assert sum("In force" in prompt for prompt in own) == 1


def test_only_what_concerns_the_pair_is_shown():
    other = view(agreements=(Agreement(0, F, E, PEACE),))
    assert (
        press_prompts.proposing(other, G, {}).prompt
        == press_prompts.proposing(view(), G, {}).prompt
    )
