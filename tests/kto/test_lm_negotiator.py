"""The language model at the table: exact probabilities, legal messages, equal games."""

from functools import cache

import numpy as np
import pytest
import torch

from dipllm_lib.dip import game
from dipllm_lib.kto import lm_negotiator, press, press_arms, press_training
from dipllm_lib.kto.lm_negotiator import LMNegotiator
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.negotiators import Reader, RuleNegotiator
from dipllm_lib.kto.policies import Context, TabularPolicy
from dipllm_lib.kto.press_effect import Will
from dipllm_lib.kto.press_play import Table, play
from dipllm_lib.kto.press_settings import SceneSettings
from dipllm_lib.run import profiles

SMALL = SceneSettings(4, 12, 6, 0.01, 0.1, 0.02)
SEAT = 2


class Kept(LMPolicy):
    """Keeps its contexts and rows."""

    def log_probs(self, contexts):
        self.asked = getattr(self, "asked", [])
        found = super().log_probs(contexts)
        self.asked += zip(contexts, found, strict=True)
        return found


@cache
def backbone():
    torch.set_num_threads(1)
    return press_training.base(profiles.load("smoke", 0).kto, 0)


def played(number: int = 3):
    """(game, table, negotiator) of the small model, untrained, among six RuleNegotiators."""
    who = LMNegotiator(Kept(backbone(), "executor"), Kept(backbone(), "opponent"))
    seats = [who if power == SEAT else RuleNegotiator() for power in range(7)]
    table = Table(seats, press_arms.minds(SMALL), "priced", 1902, 0, ("press", number))
    return play(table, game.EndRules(1902)), table, who


@pytest.fixture(scope="module")
def one():
    return played()


def test_every_message_parses_and_was_on_the_menu(one):
    _, table, who = one
    menus = {c.prompt: c.legal for c, _ in who.executor.asked}
    said = [note for note in who.diary if note.kind == "proposal"]
    assert len(said) == 24 and len({n.text for n in said}) > 5
    assert all(" nothing." in legal or legal == (" yes.", " no.") for legal in menus.values())
    for note in said:
        assert press.parse(note.text).text == note.text
    sent = {(x.phase, x.recipient): x.proposal.text for x in table.letters if x.sender == SEAT}
    spoken = {(n.phase, n.partner): n.text for n in said if n.text != " nothing."}
    assert sent == spoken
    replies = {(n.phase, n.partner): n.text for n in who.diary if n.kind == "reply"}
    heard = [x for x in table.letters if x.recipient == SEAT]
    assert len(heard) == len(replies) > 3
    assert all(replies[x.phase, x.sender] == press_text(x.answer) for x in heard)


def press_text(answer: bool) -> str:
    return press.YES if answer else press.NO


def test_probabilities_are_exact_in_two_ways(one):
    """The cached pass of play, the tree pass of training, and their sum over what is legal."""
    _, _, who = one
    for policy in (who.executor, who.opponent):
        contexts, rows = zip(*policy.asked[:12])
        with torch.inference_mode():
            again = policy.scores(contexts)
        for row, other in zip(rows, again, strict=True):
            np.testing.assert_allclose(row, other.double().numpy(), atol=1e-5)
            assert np.exp(row).sum() == pytest.approx(1, abs=1e-9)
    rows = iter(who.executor.asked)
    drawn = {(n.phase, n.kind): [] for n in who.diary}
    for note in who.diary:
        drawn[note.phase, note.kind].append(note)
    for notes in drawn.values():
        for note in notes:
            context, row = next(rows)
            assert note.log_prob == row[context.legal.index(note.text)]


def test_forecasts_are_those_of_the_opponent(one):
    _, table, who = one
    chances = [note.chance for note in who.diary if note.chance is not None]
    assert chances == [float(np.exp(row[0])) for _, row in who.opponent.asked]
    assert len(chances) == sum(x.sender == SEAT for x in table.letters)


def test_a_game_is_the_same_twice_and_another_with_another_name(one):
    first, table, who = one
    again, other, twin = played()
    assert again.to_saved() == first.to_saved() and other.letters == table.letters
    assert twin.diary == who.diary and other.terms == table.terms
    assert played(4)[2].diary != who.diary


def test_it_does_not_read_its_diary(one):
    _, _, who = one
    seats = [who if power == SEAT else RuleNegotiator() for power in range(7)]
    before = list(who.diary)
    table = Table(seats, press_arms.minds(SMALL), "priced", 1902, 0, ("press", 3))
    play(table, game.EndRules(1902))
    assert who.diary[len(before) :] == before


def test_draws_invert_the_uniform_number():
    context = Context("x", "x", (" a.", " b.", " c."))
    policy = TabularPolicy({"x": np.log([0.2, 0.3, 0.5])})
    rng, twin = np.random.default_rng(5), np.random.default_rng(5)
    found = lm_negotiator.draw(policy, [context] * 50, rng)
    expected = [int(np.searchsorted([0.2, 0.5], u, side="right")) for u in twin.random(50)]
    assert [pick for pick, _ in found] == expected and len(set(expected)) == 3
    assert {round(float(np.exp(p)), 9) for _, p in found} == {0.2, 0.3, 0.5}
    assert lm_negotiator.draw(policy, [], rng) == []


def test_it_gives_no_orders_and_pays_the_price_of_the_game(one):
    _, _, who = one
    assert not isinstance(who, Reader) and who.needs_worth
    assert who.will(None) == Will(price=None, attack=False)
