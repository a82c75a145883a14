"""One phase as text, from letters and agreements made by hand."""

import pandas as pd
import pytest

from dipllm_lib.kto import press_example
from dipllm_lib.kto.press_study import Games

SENT = ["game", "phase", "sender", "recipient", "text", "answer", "worth_sender", "worth_recipient"]
HELD = ["game", "phase", "since", "power", "partner", "text", "exposed", "broken", "fell"]
PEACE, ZONE = " peace.", " keep out of Burgundy."


def games() -> Games:
    letters = [
        (0, 0, 2, 4, PEACE, "yes", 0.01, 0.02),
        (0, 1, 2, 3, PEACE, "yes", 0.0, 0.001),
        (0, 1, 3, 2, ZONE, "no", 0.1, -0.2),
        (0, 1, 0, 6, PEACE, "silence", 0.0, 0.0),
        (1, 1, 2, 3, PEACE, "yes", 0.0, 0.0),
    ]
    terms = [
        (0, 0, 0, 2, 4, PEACE, True, False, False),
        (0, 0, 0, 4, 2, PEACE, True, False, False),
        (0, 1, 0, 2, 4, PEACE, False, False, False),
        (0, 1, 0, 4, 2, PEACE, True, True, True),
        (0, 1, 1, 2, 3, PEACE, True, True, False),
        (0, 1, 1, 3, 2, PEACE, True, False, False),
    ]
    tables = pd.DataFrame(letters, columns=SENT), pd.DataFrame(terms, columns=HELD)
    letters, terms = (table.assign(arm="a") for table in tables)
    return Games([], letters, terms, pd.DataFrame(), pd.DataFrame(), 10, 0)


def test_the_text():
    assert press_example.account(games(), "a").split("\n") == [
        "Fall 1901, game 0 of the arm 'a': 3 letters",
        "",
        "Austria to Turkey   peace.                 +0.00 +0.00  silence",
        "France to Germany   peace.                 +0.00 +0.10  yes: "
        "France broke it, Germany kept it",
        "Germany to France   keep out of Burgundy.  +10.00 -20.00  no",
        "",
        "In force from before",
        "France and Italy, Spring 1901: peace. France had no say, Italy could not keep it",
    ]


def test_the_rule():
    """A yes, a no and a breach; without them what has most of these; then fewest letters."""
    letters, terms = games().letters, games().terms
    assert press_example.pick(letters, terms) == (0, 1)
    assert press_example.pick(letters[letters["phase"] == 0], terms) == (0, 0)
    assert press_example.pick(letters[letters["game"] == 1], terms) == (1, 1)
    plain = letters.assign(answer="yes")
    assert press_example.pick(plain, terms.assign(fell=True)) == (0, 0)
    with pytest.raises(ValueError, match="no letters"):
        press_example.pick(letters[:0], terms)


def test_words():
    row = {"power": 0, "exposed": True, "broken": False, "fell": False}
    both = [row, row | {"power": 1}]
    assert press_example.fate(both) == "both kept it"
    assert press_example.fate(both[:1]) == "Austria kept it"
    assert press_example.fate([]) == "no orders"
    assert press_example.when(3) == "Fall 1902" and press_example.when(0) == "Spring 1901"
