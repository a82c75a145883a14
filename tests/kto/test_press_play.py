"""Whole games: silence, privacy, determinism, the protocol, and orders that nobody enforces."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dipllm_lib.dip import boards, game, orders
from dipllm_lib.kto import press, press_arms, press_log, press_play
from dipllm_lib.kto.negotiators import (
    Deviator,
    PhasedNegotiator,
    Random,
    RuleNegotiator,
    Sanctioner,
    Silent,
)
from dipllm_lib.kto.press import PEACE
from dipllm_lib.kto.press_play import Table
from dipllm_lib.kto.press_settings import SceneSettings
from dipllm_lib.run import profiles

SMALL = SceneSettings(4, 12, 6, 0.01, 0.1, 0.02)
END = 1902


@cache
def played(names: tuple, effect: str = "priced", number: int = 3, year: int = END):
    """(game, table) of seven negotiators; names None for no press."""
    kinds = {k.name: k() for k in (Silent, Random, RuleNegotiator, Deviator, Sanctioner)}
    kinds[PhasedNegotiator.name] = PhasedNegotiator()
    seats = None if names[0] is None else [kinds[name] for name in names]
    table = Table(seats, press_arms.minds(SMALL), effect, year, 0, ("press", number))
    return press_play.play(table, game.EndRules(year)), table


OFF, SILENT, RULE = (None,), ("Silent",) * 7, ("RuleNegotiator",) * 7
DEVIATOR, RANDOM = ("Deviator",) * 7, ("Random",) * 7


def test_silence_is_no_press_bitwise():
    first, second = played(OFF)[0], played(SILENT)[0]
    assert first.to_saved() == second.to_saved()
    assert first.agents == SILENT and not played(SILENT)[1].letters


def test_none_gives_the_orders_of_silence_bitwise():
    silent = played(OFF)[0]
    for names in (RULE, RANDOM, DEVIATOR):
        heard, table = played(names, "none")
        assert table.letters and table.terms
        assert heard.orders == silent.orders and heard.boards.same(silent.boards)


def test_one_power_against_six_silent_changes_nothing():
    alone, table = played(("RuleNegotiator", *SILENT[:6]))
    assert alone.orders == played(OFF)[0].orders
    assert {letter.answer for letter in table.letters} == {None} and not table.terms


def test_agreements_change_orders_through_the_policy_only():
    changed = played(RULE)[0]
    assert changed.orders != played(OFF)[0].orders
    for k in range(changed.boards.n - 1):  # every order is legal, and the rules give the result
        for turn in orders.turns(changed.boards, k):
            turn.check(changed.joint(k, turn.power))


def test_a_game_is_the_same_twice_and_without_its_neighbours():
    first, table = played(DEVIATOR)
    again = Table([Deviator()] * 7, press_arms.minds(SMALL), "priced", END, 0, ("press", 3))
    assert press_play.play(again, game.EndRules(END)).to_saved() == first.to_saved()
    assert again.letters == table.letters and again.terms == table.terms
    assert played(DEVIATOR, number=4)[0].orders != first.orders


def test_every_message_parses_and_is_on_the_menu():
    for names in (RULE, RANDOM):
        _, table = played(names)
        assert len(table.letters) > 20
        for letter in table.letters:
            assert press.parse(letter.proposal.text) == letter.proposal
            assert letter.sender != letter.recipient and letter.proposal.kind != "nothing"
        pairs = [(x.phase, x.sender, x.recipient) for x in table.letters]
        assert len(set(pairs)) == len(pairs)  # one proposal at most
    first = {(x.sender, x.recipient) for x in played(RANDOM)[1].letters if x.phase == 0}
    assert {a for a, _ in first} == {b for _, b in first} == set(range(7))


class Spy(RuleNegotiator):
    """Keeps what it saw."""

    name = "Spy"

    def __init__(self):
        self.views = []

    def will(self, view):
        self.views.append(view)
        return super().will(view)

    def answer(self, view):
        self.views.append(view)
        return super().answer(view)


def test_a_power_sees_only_its_own_messages():
    spies = [Spy() for _ in range(7)]
    table = Table(spies, press_arms.minds(SMALL), "priced", END, 0, ("press", 3))
    press_play.play(table, game.EndRules(END))
    seen = 0
    for power, spy in enumerate(spies):
        for view in spy.views:
            assert view.power == power and set(view.menu) <= set(range(7)) - {power}
            for letter in view.letters:
                assert power in (letter.sender, letter.recipient)
                seen += 1
            assert all(power in one.pair for one in view.agreements)
            assert all(power in key[:2] for key in view.worth)
            assert power not in view.offers and power not in view.sent
            assert all(partner != power for _, partner in view.broken)
    assert seen > 50
    first = spies[0].views[0]
    assert len(first.menu) == 6 and first.phase == 0 and first.last == 3


def test_seven_negotiators_sit_at_a_table():
    with pytest.raises(ValueError, match="7 powers"):
        Table([Silent()] * 6, press_arms.minds(SMALL), "none", END, 0, ("press", 0))
    with pytest.raises(ValueError, match="text needs a negotiator that reads"):
        Table([Silent()] * 7, press_arms.minds(SMALL), "text", END, 0, ("press", 0))


class Reads(RuleNegotiator):
    """Plays its first candidate and notes what it read."""

    name = "Reads"

    def __init__(self):
        self.read = []

    def orders(self, view, choices, value):
        self.read.append(press.sentence(view.agreements, view.power))
        assert len(value) == len(choices.joints)
        return np.eye(len(value))[0]


def test_under_text_a_reader_gives_its_own_orders():
    reader = Reads()
    seats = [reader, *[RuleNegotiator()] * 6]
    table = Table(seats, press_arms.minds(SMALL), "text", END, 0, ("press", 3))
    read, priced = press_play.play(table, game.EndRules(END)), played(RULE)[0]
    assert len(reader.read) == 4 and any(text.startswith("In force") for text in reader.read)
    first = read.orders[0]
    assert {p: x for p, x in first.items() if p != "AUSTRIA"} == {
        p: x for p, x in priced.orders[0].items() if p != "AUSTRIA"
    }
    assert read.joint(0, 0) == table_first_choice()


def table_first_choice():
    """The most probable candidate of Austria in the first phase of that game."""
    mind = press_arms.minds(SMALL)
    rng = press_play.seeding.child(0, "kto", "press", "press", 3, "phase", 0)
    board = boards.start()
    scene = press_play.Scene(board, orders.turns(board), mind.anchor, mind.value_fn, SMALL, rng)
    return scene.choices[0].joints[0]


def test_what_is_not_on_the_menu_cannot_be_said():
    class Wrong(Silent):
        def propose(self, view):
            return {0: press.Proposal("zone", province=0)}

    table = Table([*[Silent()] * 6, Wrong()], press_arms.minds(SMALL), "none", END, 0, ("press", 0))
    with pytest.raises(ValueError, match="TURKEY cannot propose"):
        press_play.play(table, game.EndRules(END))


def test_binding_and_promises_that_are_kept_break_nothing_that_can_be_kept():
    for names, effect in ((RULE, "priced"), (DEVIATOR, "binding"), (RANDOM, "binding")):
        _, table = played(names, effect)
        assert len(table.terms) > 20 and not any(term.chosen for term in table.terms)
        assert not any(term.broken and not term.exposed for term in table.terms)
        calm = [x for x in table.terms if x.agreement.proposal.kind in ("peace", "zone")]
        assert calm and not any(term.broken or term.fell for term in calm)


def test_under_none_agreements_are_broken():
    _, table = played(RANDOM, "none")
    assert any(term.chosen for term in table.terms)


def test_agreements_last_as_long_as_they_say_and_end_when_broken():
    for names, effect in ((RULE, "priced"), (RANDOM, "none")):
        _, table = played(names, effect)
        broken = {(x.phase, x.agreement) for x in table.terms if x.broken}
        for term in table.terms:
            assert term.agreement.since <= term.phase <= term.agreement.last
            assert not any((k, term.agreement) in broken for k in range(term.phase))


def test_worths_of_a_phase_by_two_ways():
    """The worth of a proposal is the difference of two plain means over the sample."""
    mind = press_arms.minds(SMALL)
    board = boards.start()
    rng = np.random.default_rng(1)
    scene = press_play.Scene(board, orders.turns(board), mind.anchor, mind.value_fn, SMALL, rng)
    for pair in ((2, 3), (0, 5)):
        for one in scene.menus[pair]:
            found = scene.worths([(*pair, one)])[(*pair, one)]
            rows = scene.base.copy()
            if one.kind != "nothing":
                agreement = (press.Agreement(0, *pair, one),)
                for power in pair:
                    rows[:, power] = scene.restricted(power, agreement)
                    kept = ~scene.bonds(power, agreement).broken[rows[:, power]]
                    assert kept.all() or one.kind in ("alliance", "support")
            plain = (scene.evaluate(rows) - scene.evaluate(scene.base)).mean(axis=0)
            assert found == pytest.approx(tuple(plain[list(pair)]), abs=1e-12)
    assert scene.worths([(0, 6, PEACE)])[0, 6, PEACE] == (0, 0)  # they cannot reach each other
    assert scene.worths([]) == {}


def test_all_hold_is_always_a_candidate_and_all_are_legal():
    mind, board = press_arms.minds(SMALL), boards.start()
    rng = np.random.default_rng(1)
    scene = press_play.Scene(board, orders.turns(board), mind.anchor, mind.value_fn, SMALL, rng)
    for turn in orders.turns(board):
        own = scene.choices[turn.power]
        hold = orders.sorted_joint(turn, [f"{unit} H" for unit in turn.units])
        assert hold in own.joints and len(set(own.joints)) == len(own.joints)
        for joint in own.joints:
            turn.check(joint)
        assert np.exp(own.log_tau).sum() == pytest.approx(1)


def test_logs_are_tables():
    table = played(RULE)
    log = press_log.summary(*table, "all", 3)
    letters, terms = press_log.letters([log]), press_log.terms([log])
    assert len(letters) == len(table[1].letters) and len(terms) == len(table[1].terms)
    assert set(letters["answer"]) <= {"yes", "no", "silence"}
    assert (letters["year"] == 1901 + letters["phase"] // 2).all()
    assert set(terms["partner"]) <= set(range(7)) and (terms["partner"] != terms["power"]).all()
    ends = press_log.ends([log])
    assert ends["centres"].tolist() == table[0].final_centres.tolist()
    assert ends["sos"].sum() == pytest.approx(1)
    seats = press_log.seats([log])
    first = seats[(seats["phase"] == 0)]
    assert first["centres"].tolist() == [3, 3, 3, 3, 3, 4, 3] and (first["partners"] == 6).all()
    last = seats[seats["phase"] == 3].set_index("power")
    assert (last["centres"] + last["gained"] == ends.loc[last.index, "centres"]).all()


def test_arms_rotate_their_seats():
    settings = profiles.load("cpu", 0).kto
    plan = {arm.name: arm for arm in press_arms.arms(settings)}
    assert plan[press_arms.OFF].seats(3) is None
    pairs = [press_arms.negotiating("pair", g) for g in range(42)]
    assert len(set(pairs)) == 21 and all(pairs.count(p) == 2 for p in set(pairs))
    ones = [press_arms.negotiating("one", g) for g in range(14)]
    assert ones[:7] == [(p,) for p in range(7)] and ones[7:] == ones[:7]
    threes = [p for g in range(7) for p in press_arms.negotiating("three", g)]
    assert [threes.count(p) for p in range(7)] == [3] * 7
    names = [who.name for who in plan["three Sanctioner"].seats(0)]
    assert names == ["Sanctioner", "Random", "Sanctioner", "Random", "Sanctioner"] + ["Random"] * 2
    with pytest.raises(ValueError, match="multiple of 7"):
        replace(plan["pair"], games=8)
    assert replace(plan["pair"], games=1, trial=True).games == 1
    with pytest.raises(ValueError, match="0 games"):
        replace(plan["pair"], games=0, trial=True)
    with pytest.raises(ValueError, match="unknown way"):
        replace(plan["pair"], way="duel")
    for profile in ("cpu", "paper"):
        assert profiles.load(profile, 0).kto.press_games >= 70


def test_settings_are_checked():
    with pytest.raises(ValueError, match="press.samples is 0"):
        replace(SMALL, samples=0)
    with pytest.raises(ValueError, match="press.lam is 0"):
        replace(SMALL, lam=0)
