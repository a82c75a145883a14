"""The parser, play with free text, and what all games have in common."""

import numpy as np
import pytest

from dipllm_lib.kto import games
from dipllm_lib.kto.gift import GiftPD
from dipllm_lib.kto.repeated import IteratedPD, MemoryOne
from dipllm_lib.kto.ultimatum import Ultimatum
from dipllm_lib.run import seeding

OFFERS = tuple(f" {10 * i}." for i in range(11))


def rng():
    return seeding.child(0, "kto", "test")


@pytest.mark.parametrize("text, index", [(" 40.", 4), ("40.", 4), ("\n 100. ", 10), (" 0.", 0)])
def test_parse_takes_the_legal_texts(text, index):
    assert games.parse(text, OFFERS) == index


@pytest.mark.parametrize(
    "text",
    ["", " ", ".", "40", "40..", "I offer 40.", "40. 50.", "40.0", "040.", "45.", "110.", "-10.",
     "4 0.", "40 .", "forty.", "10. and 20.", "between 10 and 40."],
)  # fmt: skip
def test_parse_refuses_everything_else(text):
    with pytest.raises(games.Invalid, match="legal texts"):
        games.parse(text, OFFERS)


@pytest.mark.parametrize("text", ["Accept.", "ACCEPT.", "accept", "accept. refuse.", "I accept."])
def test_parse_knows_no_other_case_and_no_second_answer(text):
    with pytest.raises(games.Invalid):
        games.parse(text, games.ANSWERS)


def test_an_invalid_text_never_cooperates():
    game = IteratedPD(5)
    for text in ("", "I cooperate.", "Cooperate.", "cooperate", "cooperate. defect.", "C."):
        episode = games.play(game, (lambda *_, t=text: t, MemoryOne((1,) * 5)), rng())
        assert episode.payoffs == (0.0, 1.0) and episode.invalid == (0,)
        assert [(s.player, s.action) for s in episode.steps] == [(0, -1), (1, 0)]


def test_both_offend_at_once():
    episode = games.play(IteratedPD(5), (lambda *_: "?", lambda *_: ""), rng())
    assert episode.payoffs == (0.0, 0.0) and episode.invalid == (0, 1)


def test_the_other_gets_its_batna():
    silent = games.play(GiftPD(), (lambda *_: 3, lambda *_: "GIVE."), rng())
    assert silent.payoffs == (1.0, 0.0) and silent.invalid == (1,)
    wrong = games.play(Ultimatum(), (lambda *_: "I offer 50.", lambda *_: 0), rng())
    assert wrong.payoffs == (0.0, 0.0) and len(wrong.steps) == 1


def test_play_with_texts_is_play_with_indices():
    a = games.play(Ultimatum(), (lambda *_: " 40.", lambda *_: "accept."), rng())
    b = games.play(Ultimatum(), (lambda *_: 4, lambda *_: 0), rng())
    assert a.payoffs == b.payoffs == (0.6, 0.4)
    assert [s.action for s in a.steps] == [s.action for s in b.steps] == [4, 0]


def test_bad_input_is_one_clear_line():
    game, start = Ultimatum(), Ultimatum().reset(rng())
    with pytest.raises(ValueError, match="player 1 does not move in this state, but 0"):
        game.observe(start, 1)
    with pytest.raises(ValueError, match="not over"):
        game.payoffs(start)
    with pytest.raises(ValueError, match="has 11 texts, none is 11"):
        game.step(start, (11,))
    with pytest.raises(ValueError, match="2 actions for 1 players"):
        game.step(start, (1, 1))
    with pytest.raises(ValueError, match="1 choosers for 2 players"):
        games.play(game, (lambda *_: 0,), rng())
    with pytest.raises(ValueError, match="has 11 texts, not -1"):
        games.play(game, (lambda *_: -1, lambda *_: 0), rng())
    with pytest.raises(ValueError, match="outside"):
        games.forecast_text(" accept.", 1.5)


def test_forecasts_are_rounded_to_five_per_cent():
    assert games.forecast_text(" accept.", 0.774) == "Forecast accept 75."
    assert games.forecast_text("give", 1.0) == "Forecast give 100."


def test_decisions_are_each_information_set_once():
    game = Ultimatum()
    found = list(games.decisions(game, game.reset(rng())))
    assert len(found) == 12 == len({game.infoset(*pair) for pair in found})
    small = IteratedPD(10, window=1, counted=False)
    found = list(games.decisions(small, small.reset(rng())))
    assert len(found) == 10  # five outcomes a player
    assert np.all([games.check_turn(small, *pair) is None for pair in found])
