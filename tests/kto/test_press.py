"""Proposals as texts and words, their menu, agreements."""

import itertools

import numpy as np
import pytest

from dipllm_lib.dip import anchor, atlas, orders, rules
from dipllm_lib.dip.policies import RandomLegal
from dipllm_lib.kto import press, press_menu
from dipllm_lib.kto.press import NOTHING, PEACE, STAYS, Agreement, Proposal

A, E, F, G, ITALY, R, T = range(7)
BUR, PAR = atlas.INDEX["BUR"], atlas.INDEX["PAR"]
HELP = Proposal("support", province=PAR, unit=1, to=BUR)
GOLDEN = {
    NOTHING: (" nothing.", ""),
    PEACE: (" peace.", "PCE (FRA ENG)"),
    Proposal("alliance", against=A): (" ally against Austria.", "ALY (FRA ENG) VSS (AUS)"),
    Proposal("zone", province=BUR): (" keep out of Burgundy.", "DMZ (FRA ENG) (BUR)"),
    HELP: (" support A Paris to Burgundy.", "XDO (ENG SUP (FRA AMY PAR) MTO BUR)"),
    Proposal("support", province=PAR, unit=1, to=STAYS): (
        " support A Paris to hold.",
        "XDO (ENG SUP (FRA AMY PAR))",
    ),
}


def every_proposal():
    zones = [Proposal("zone", province=p) for p in range(75)]
    allies = [Proposal("alliance", against=p) for p in range(7)]
    helps = [
        Proposal("support", province=p, unit=unit, to=to)
        for p, unit, to in itertools.product(range(75), (1, 2), (0, 16, 60, STAYS))
    ]
    return [NOTHING, PEACE, *zones, *allies, *helps]


def test_golden_texts_and_words():
    for one, (text, words) in GOLDEN.items():
        assert one.text == text and one.words(F, E) == words


def test_every_text_reads_back_and_none_begins_another():
    texts = [one.text for one in every_proposal()]
    assert [press.parse(text) for text in texts] == every_proposal()
    assert [press.parse(text.strip()) for text in texts] == every_proposal()
    assert len(set(texts)) == len(texts)
    ordered = sorted([*texts, press.YES, press.NO])
    assert not any(b.startswith(a) for a, b in itertools.pairwise(ordered))
    assert all(text[0] == " " and text[-1] == "." and text.count(".") == 1 for text in texts)


@pytest.mark.parametrize(
    "text",
    ["peace", " peace. peace.", " keep out of Atlantis.", " ally against Spain.", "", " yes.", 5],
)
def test_what_is_no_proposal(text):
    with pytest.raises(ValueError, match="no proposal"):
        press.parse(text)


def test_replies():
    assert press.parse_reply(" yes.") is True and press.parse_reply("no.") is False
    for text in ("yes", " yes. no.", " peace."):
        with pytest.raises(ValueError, match="no reply"):
            press.parse_reply(text)
    assert press.REPLY_WORDS == {True: "YES", False: "REJ"}


@pytest.mark.parametrize(
    "fields",
    [("war",), ("peace", 3), ("alliance",), ("zone", 2), ("support", -1, BUR, 1), ("zone",)],
)
def test_fields_belong_to_the_kind(fields):
    with pytest.raises(ValueError):
        Proposal(*fields)


def test_lifetimes():
    for one, last in ((PEACE, 5), (Proposal("zone", province=BUR), 5), (HELP, 4)):
        assert Agreement(4, F, E, one).last == last
    with pytest.raises(ValueError, match="no agreement"):
        Agreement(0, F, F, PEACE)
    with pytest.raises(ValueError, match="no agreement"):
        Agreement(0, F, E, NOTHING)


def test_the_same_agreement():
    peace, other = Agreement(0, F, E, PEACE), Agreement(1, E, F, PEACE)
    assert peace.same(other) and peace.other(F) == E
    help_, back = Agreement(0, F, E, HELP), Agreement(0, E, F, HELP)
    assert help_.same(Agreement(2, F, E, HELP)) and not help_.same(back)
    with pytest.raises(ValueError, match="GERMANY is not bound"):
        peace.other(G)


def test_sentence_for_a_prompt():
    mine = (Agreement(0, F, E, PEACE), Agreement(0, G, F, HELP))
    assert press.sentence((), F) == "No agreements."
    expected = "In force with England: peace; with Germany: support A Paris to Burgundy"
    assert press.sentence(mine, F) == f"{expected} (you give it)."


def test_phases_are_counted():
    board = rules.start()
    assert press.movement_phase(board) == 0
    board.year[0], board.phase[0] = 1903, 2
    assert press.movement_phase(board) == 5
    board.phase[0] = 1
    with pytest.raises(ValueError, match="no movement phase"):
        press.movement_phase(board)


def menus_of(board, policy):
    turns = {turn.power: turn for turn in orders.turns(board)}
    chance = {}
    for power, turn in turns.items():
        joints = policy.sample(turn, 40, np.random.default_rng(power))
        chance[power] = press_menu.chances(np.array(joints), np.full(40, 1 / 40))
    pairs = itertools.permutations(turns, 2)
    return {(a, b): press_menu.enumerate_proposals(board, turns, a, b, chance[a]) for a, b in pairs}


def after(board, policy):
    rng = np.random.default_rng(5)
    given = {turn.power: policy.sample(turn, 1, rng)[0] for turn in orders.turns(board)}
    return rules.resolve(board, orders.expand(board, [given]))[0]


def test_seven_powers_have_six_recipients_and_at_most_23_texts():
    board, policy = rules.start(), RandomLegal()
    for _ in range(6):
        menus = menus_of(board, policy)
        powers = {a for a, _ in menus}
        for sender in powers:
            assert {b for a, b in menus if a == sender} == powers - {sender}
        for menu in menus.values():
            texts = press_menu.texts(menu)
            assert menu[:2] == (NOTHING, PEACE) and len(set(texts)) == len(texts) <= press_menu.MOST
            assert [press.parse(text) for text in texts] == list(menu)
            kinds = [one.kind for one in menu]
            assert kinds.count("alliance") <= 5 and kinds.count("zone") <= 8
            assert kinds.count("support") <= 8
        board = after(board, policy)
        while int(board.phase[0]) not in (0, 2):
            board = after(board, policy)
    assert press_menu.MOST == 23


def test_the_menu_of_france_to_germany_in_spring_1901():
    board = rules.start()
    texts = [one.text for one in menus_of(board, anchor.human())[F, G]]
    assert texts[:2] == [" nothing.", " peace."]
    assert texts[2:7] == [
        f" ally against {name}." for name in ("Austria", "England", "Italy", "Russia", "Turkey")
    ]
    assert texts[7:8] == [" keep out of Burgundy."]
    assert set(texts[8:]) <= {f" support A {a} to Burgundy." for a in ("Paris", "Marseilles")}


def test_one_power_does_not_write_to_itself():
    board = rules.start()
    turns = {turn.power: turn for turn in orders.turns(board)}
    with pytest.raises(ValueError, match="no press"):
        press_menu.enumerate_proposals(board, turns, F, F, np.zeros((75, 76)))


def test_chances():
    board = rules.start()
    turn = orders.turn(board, 0, F)
    texts = (
        ["A MAR H", "A PAR - BUR", "F BRE - MAO"],
        ["A MAR S A PAR - BUR", "A PAR H", "F BRE H"],
    )
    joints = np.array([orders.sorted_joint(turn, one) for one in texts])
    table = press_menu.chances(joints, np.array([0.25, 0.75]))
    assert table[PAR, BUR] == 0.25 and table[PAR, STAYS] == 0.75
    assert table[atlas.INDEX["MAR"], STAYS] == 1 and table.sum() == 3
