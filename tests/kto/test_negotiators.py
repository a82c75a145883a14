"""Each negotiator on views made by hand."""

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards
from dipllm_lib.kto import negotiators
from dipllm_lib.kto.negotiators import (
    KEEP,
    Deviator,
    Letter,
    PhasedNegotiator,
    Random,
    RuleNegotiator,
    Sanctioner,
    Silent,
    View,
)
from dipllm_lib.kto.press import NOTHING, PEACE, Proposal
from dipllm_lib.kto.press_effect import Will

A, E, F, G, ITALY, R, T = range(7)
ZONE = Proposal("zone", province=atlas.INDEX["BUR"])
ON_ITALY, ON_ENGLAND = (Proposal("alliance", against=p) for p in (ITALY, E))


def view(menu=None, worth=None, **more) -> View:
    """France in Spring 1901 of a game to 1904; worths 0 where none is given."""
    menu = menu or {}
    gains = {(F, p, one): (0.0, 0.0) for p, own in menu.items() for one in own}
    fields = {
        "power": F, "board": boards.start(), "phase": 0, "last": 7, "menu": menu,
        "worth": gains | (worth or {}), "agreements": (), "letters": (), "broken": (), "sent": {},
        "offers": {}, "can_keep": lambda agreements: True, "rng": np.random.default_rng(0),
    }  # fmt: skip
    return View(**fields | more)


def test_silent_says_nothing():
    one = view({G: (NOTHING, PEACE)}, offers={E: PEACE})
    assert Silent().propose(one) == Silent().answer(one) == {}


def test_random_says_everything_equally_often():
    menu, said = (NOTHING, PEACE, ZONE), []
    one = view({G: menu}, offers={E: PEACE})
    said = [Random().propose(one)[G] for _ in range(900)]
    assert all(250 < said.count(m) < 350 for m in menu)
    yes = sum(Random().answer(one)[E] for _ in range(900))
    assert 400 < yes < 500


def test_rule_proposes_the_best_for_itself_of_what_helps_both():
    menu = {G: (NOTHING, PEACE, ZONE, ON_ITALY), E: (NOTHING, PEACE)}
    worth = {
        (F, G, PEACE): (0.02, 0.01), (F, G, ZONE): (0.01, 0.05), (F, G, ON_ITALY): (0.09, -0.01),
        (F, E, PEACE): (0.03, 0.0),
    }  # fmt: skip
    assert RuleNegotiator().propose(view(menu, worth)) == {G: PEACE, E: NOTHING}


def test_rule_promises_only_what_it_can_keep():
    menu = {E: (NOTHING, PEACE), G: (NOTHING, PEACE)}
    worth = {(F, p, PEACE): (0.01, 0.01) for p in (E, G)}
    one = view(menu, worth, can_keep=lambda agreements: len(agreements) < 2)
    assert RuleNegotiator().propose(one) == {E: PEACE, G: NOTHING}
    offers = {(E, F, PEACE): (0, 0.01), (G, F, PEACE): (0, 0.02)}
    many = view(worth=offers, offers={E: PEACE, G: PEACE}, can_keep=one.can_keep)
    assert RuleNegotiator().answer(many) == {E: False, G: True}  # the better one first
    bound = view(worth=offers, offers={E: PEACE}, sent={G: PEACE}, can_keep=one.can_keep)
    assert RuleNegotiator().answer(bound) == {E: False}


@pytest.mark.parametrize(("gain", "answer"), [(0.01, True), (0.0, True), (-1e-6, False)])
def test_rule_accepts_what_does_not_hurt(gain, answer):
    one = view(worth={(G, F, ZONE): (0.5, gain)}, offers={G: ZONE})
    assert RuleNegotiator().answer(one) == {G: answer}


def test_who_keeps_its_word():
    one = view()
    assert RuleNegotiator().will(one) == KEEP and Sanctioner().will(one) == KEEP
    assert Deviator().will(one) == Random().will(one) == Will()


def test_sanctioner_shuns_a_breaker_for_three_years_and_seeks_allies():
    menu = {p: (NOTHING, PEACE, ON_ENGLAND) for p in (G, ITALY)} | {E: (NOTHING, PEACE)}
    worth = {(F, p, PEACE): (0.01, 0.01) for p in menu}
    worth |= {(E, F, PEACE): (0, 0.1), (G, F, ON_ENGLAND): (0, -0.1), (ITALY, F, PEACE): (0, -0.1)}
    offers = {E: PEACE, G: ON_ENGLAND, ITALY: PEACE}
    one = view(menu, worth, broken=((1, E),), phase=7, offers=offers)
    assert Sanctioner().propose(one) == {E: NOTHING, G: ON_ENGLAND, ITALY: ON_ENGLAND}
    assert Sanctioner().answer(one) == {E: False, G: True, ITALY: False}
    later = view(menu, worth, broken=((1, E),), phase=8, offers=offers)
    assert Sanctioner().propose(later) == RuleNegotiator().propose(later)
    assert Sanctioner().propose(later) == dict.fromkeys(menu, PEACE)
    assert Sanctioner().answer(later) == {E: True, G: False, ITALY: False}


def letter(phase, answer, worth=(0.0, 0.0), proposal=PEACE, to=G, sender=F):
    return Letter(phase, sender, to, proposal, answer, worth)


def test_refusals_in_a_row():
    no, yes, quiet = letter(1, False), letter(2, True), letter(3, None)
    assert negotiators.refusals(view(letters=(no, quiet)), G) == 2
    assert negotiators.refusals(view(letters=(no, no, yes, quiet)), G) == 1
    unfair = letter(1, False, (0, -0.1))
    other = [letter(1, False, to=E), letter(1, False, sender=G, to=F)]
    other.append(letter(1, False, proposal=ON_ITALY))
    assert negotiators.refusals(view(letters=(no, unfair, *other)), G) == 1
    assert negotiators.punished(view(letters=(no, quiet))) == (G,)


def test_phase_one_goodwill():
    menu = {p: (NOTHING, PEACE, ZONE, ON_ITALY) for p in (A, E, G, T)}
    worth = {(F, p, ON_ITALY): (0.3, 0.3) for p in menu}
    worth |= {(F, G, PEACE): (0.05, 0.0), (F, E, ZONE): (0.012, 0.008)}
    found = PhasedNegotiator().propose(view(menu, worth))
    assert found == {A: PEACE, E: ZONE, G: ZONE, T: PEACE}  # G: the peace is not balanced
    late = boards.start()
    late.year[0] = 1903
    assert PhasedNegotiator().propose(view(menu, worth, board=late))[A] == ON_ITALY


def test_phase_two_punishment_goes_to_the_neighbours_of_the_refuser():
    menu = {p: (NOTHING, PEACE, ON_ENGLAND) for p in (A, G, T)}
    menu[R] = (NOTHING, PEACE, ON_ENGLAND)
    refused = (letter(0, False, to=E), letter(1, None, to=E))
    board = boards.start()
    found = PhasedNegotiator().propose(view(menu, letters=refused, board=board))
    assert found == {A: PEACE, G: PEACE, T: PEACE, R: PEACE}  # in 1901 nobody is beside England
    board.power[0, atlas.INDEX["NTH"]], board.unit[0, atlas.INDEX["NTH"]] = E, 2
    found = PhasedNegotiator().propose(view(menu, letters=refused, board=board))
    assert found == {A: PEACE, G: PEACE, T: PEACE, R: PEACE}
    board.power[0, atlas.INDEX["HOL"]], board.unit[0, atlas.INDEX["HOL"]] = G, 1
    found = PhasedNegotiator().propose(view(menu, letters=refused, board=board))
    assert found == {A: PEACE, G: ON_ENGLAND, T: PEACE, R: PEACE}


def test_phase_three_avalanche():
    plain = PhasedNegotiator().will(view(phase=3))
    assert plain == Will(np.inf, False, 2.0)
    assert PhasedNegotiator().will(view(phase=4)).attack  # the last two of four years
    big = boards.start()
    big.owner[0, np.flatnonzero(atlas.CENTRE)[:12]] = F
    assert PhasedNegotiator().will(view(board=big, phase=0)).attack


def test_last_phase():
    assert negotiators.last_phase(1901) == 1 and negotiators.last_phase(1904) == 7
