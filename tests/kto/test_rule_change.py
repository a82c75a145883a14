"""Repetition of one-shot games, and rules that change at a round."""

import pytest

from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.kto import games
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.gift import GiftPD
from dipllm_lib.kto.repeated import IteratedPD, MemoryOne
from dipllm_lib.kto.repetition import Repetition
from dipllm_lib.kto.rule_change import RuleChange, Switching
from dipllm_lib.kto.ultimatum import Ultimatum
from dipllm_lib.run import seeding

ALLC, ALLD = MemoryOne((1,) * 5), MemoryOne((0,) * 5)
MILD = Payoffs(3, 0, 4, 1)


def rng(*names):
    return seeding.child(0, "kto", "change", *names)


def walk(game, *actions):
    state = game.reset(rng())
    for action in actions:
        state = game.step(state, (action,))
    return state


def test_prompts_of_a_repetition():
    game, rules = Repetition(Ultimatum(), 20), "Ultimatum. Pie 100. If refused, both get 0."
    assert game.observe(walk(game), 0) == rules + " Turn 1 of 20. I offer"
    state = walk(game, 4, 0, 3, 1)
    memory = "Past 40 accept. 30 refuse. I last got 0. Turn 3 of 20."
    assert game.observe(state, 0) == f"{rules} {memory} I offer"
    offered = game.step(state, (5,))
    text = f"{rules} Setting A. Forecast accept 75. {memory} They offer 50. I"
    assert game.observe(offered, 1, "A", "Forecast accept 75.") == text
    first = walk(game, 4, 0)
    assert "Past 40 accept. I last got 60." in game.observe(first, 0)
    assert "Past 40 accept. I last got 40." in game.observe(game.step(first, (5,)), 1)


def test_payoffs_of_a_repetition_are_means():
    game = Repetition(GiftPD(), 3)
    episode = games.play(game, (lambda *_: 10, lambda *_: "give."), rng())
    assert episode.payoffs == (2.0, 2.0) and game.round_of(episode.final) == 3
    assert game.round_payoffs(episode.final).tolist() == [[2.0, 2.0]] * 3
    assert game.to_move(episode.final) == ()


def test_the_window_bounds_what_is_seen():
    game = Repetition(Ultimatum(), 20, window=2, counted=False)
    state = walk(game, 1, 0, 2, 0, 3, 0)
    assert "Past 20 accept. 30 accept. I last got 70. I offer" in game.observe(state, 0)
    assert game.infoset(state, 0) == game.infoset(walk(game, 9, 1, 2, 0, 3, 0), 0)
    blind = Repetition(Ultimatum(), 20, window=0, counted=False)
    assert blind.observe(walk(blind, 4, 0), 0) == Ultimatum().observe(Ultimatum().reset(rng()), 0)


def test_an_announced_change_of_payoffs():
    game = RuleChange(IteratedPD(4), IteratedPD(4, pays=MILD), at=2)
    episode = games.play(game, (ALLD, ALLC), rng())
    assert game.round_payoffs(episode.final)[:, 0].tolist() == [5.0, 5.0, 4.0, 4.0]
    assert episode.payoffs == (4.5, 0.0)
    texts = [game.observe(s.state, 0) for s in episode.steps if s.player == 0]
    assert texts[1].startswith("Repeated game. Both cooperate 3. Both defect 1. I alone defect 5.")
    assert texts[2].startswith("New rules. Repeated game. Both cooperate 3. Both defect 1. I alone")
    assert "I alone defect 4." in texts[2] and "Mine first DC DC. Round 3 of 4. I" in texts[2]


def test_a_silent_change_shows_in_payoffs_only():
    loud = RuleChange(IteratedPD(4), IteratedPD(4, pays=MILD), at=2)
    silent = RuleChange(IteratedPD(4), IteratedPD(4, pays=MILD), at=2, announced=False)
    plain = games.play(IteratedPD(4), (ALLD, ALLC), rng())
    changed = games.play(silent, (ALLD, ALLC), rng())
    assert changed.payoffs == games.play(loud, (ALLD, ALLC), rng()).payoffs != plain.payoffs
    for old, new in zip(plain.steps, changed.steps, strict=True):
        want = IteratedPD(4).observe(old.state, old.player)
        assert silent.observe(new.state, new.player) == want
        told = silent.infoset(new.state, new.player)
        assert told[1:] == (False, IteratedPD(4).infoset(old.state, old.player))


def test_a_change_inside_a_repetition():
    before, after = (Repetition(AlternatingOffers(10, 2, d), 3) for d in (0.9, 0.5))
    game = RuleChange(before, after, at=1)
    choosers = (lambda g, s, i, r: 10 if s.now.keep < 0 else 0,) * 2
    greedy = (lambda g, s, i, r: 5 if s.now.keep < 0 else 1, lambda g, s, i, r: int(s.now.keep < 0))
    assert games.play(game, choosers, rng()).payoffs == (1.0, 0.0)
    worth = games.play(game, greedy, rng())  # refused, then player 1 keeps .1 (index 1): refused
    assert worth.payoffs[1] == pytest.approx(0.5)  # 1 accepts half the pie in each first round
    assert worth.payoffs[0] == pytest.approx(0.5)


def test_breakdown_is_drawn_by_the_rules_of_its_round():
    sure = Repetition(AlternatingOffers(10, 6, go_on=0.0), 4)
    never = Repetition(AlternatingOffers(10, 6), 4)
    state = RuleChange(never, sure, at=2).reset(rng())
    assert [start.limit for start in state.starts] == [-1, -1, 1, 1]


def test_an_opponent_that_switches():
    game = IteratedPD(5)
    episode = games.play(game, (Switching(ALLC, ALLD, 3), ALLC), rng())
    assert [actions[0] for actions in episode.final.history] == [0, 0, 0, 1, 1]


def test_bad_input():
    with pytest.raises(ValueError, match="need the same game"):
        RuleChange(IteratedPD(4), Repetition(Ultimatum(), 4), 2)
    with pytest.raises(ValueError, match="need the same game"):
        RuleChange(IteratedPD(4), IteratedPD(5), 2)
    with pytest.raises(ValueError, match="change at round 4: need 1 to 3"):
        RuleChange(IteratedPD(4), IteratedPD(4), 4)
    with pytest.raises(ValueError, match="put it into a Repetition"):
        RuleChange(Ultimatum(), Ultimatum(), 2)
    with pytest.raises(ValueError, match="not delta"):
        RuleChange(IteratedPD(delta=0.9), IteratedPD(delta=0.8), 2)
    with pytest.raises(ValueError, match="rounds 0"):
        Repetition(Ultimatum(), 0)
    grids = RuleChange(Repetition(Ultimatum(10), 3), Repetition(Ultimatum(20), 3), 1, False)
    with pytest.raises(ValueError, match="announce it"):
        grids.legal(walk(grids, 0, 0), 0)
