"""Every breach rule on a position worked out by hand, exposed and not, and lapsed duties."""

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, orders
from dipllm_lib.kto import press_breach, press_effect
from dipllm_lib.kto.press import PEACE, STAYS, Agreement, Proposal
from dipllm_lib.kto.press_effect import Will

A, E, F, G, ITALY, R, T = range(7)
AT = atlas.INDEX
ZONE = Proposal("zone", province=AT["BUR"])
AGAINST_ITALY = Proposal("alliance", against=ITALY)
HELP = Proposal("support", province=AT["MUN"], unit=1, to=AT["BUR"])


@pytest.fixture(scope="module")
def board():
    """France A MAR, A GAS, F ENG; Germany A MUN, A BEL; Italy A PIE; England F LON, owner of LON
    and (without a unit there) of BRE; Germany owns MUN, KIE; Turkey A SMY.
    """
    found = boards.empty(1)
    units = {
        F: ["A MAR", "A GAS", "F ENG"], G: ["A MUN", "A BEL"], ITALY: ["A PIE"], E: ["F LON"],
        T: ["A SMY"],
    }  # fmt: skip
    for power, texts in units.items():
        for text in texts:
            unit, place = boards.parse_unit(text)
            p = int(atlas.PROV_OF[place])
            found.unit[0, p], found.power[0, p], found.loc[0, p] = unit, power, place
    for power, codes in {F: ["MAR"], G: ["MUN", "KIE"], E: ["LON", "BRE"], T: ["SMY"]}.items():
        for code in codes:
            found.owner[0, AT[code]] = power
    found.year[0], found.phase[0] = 1902, boards.SPRING_MOVES
    return found


def broken(board, power, proposal, texts, pair=None, more=()):
    """Whether these orders break the agreement, and whether it is exposed and lapsed."""
    turn = orders.turn(board, 0, power)
    ids = np.array([orders.sorted_joint(turn, texts)])
    one = Agreement(0, *(pair or (power, G)), proposal)
    done, legal = press_breach.deeds(ids), press_breach.legal_deeds(turn.lists)
    exempt = press_breach.asked([one, *more], power, one.other(power))
    found = press_breach.bond(done, legal, board, power, one, exempt)
    both = press_breach.breaches(ids, turn.lists, board, power, [one, *more])
    assert both[0, 0] == (found.forbidden[0] | found.missed[0])
    return bool(both[0, 0]), found.exposed, found.lapsed


CALM = ["A MAR H", "A GAS H", "F ENG H"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (CALM, False),
        (["A MAR - BUR", "A GAS H", "F ENG H"], False),  # empty, nobody's
        (["A MAR H", "A GAS H", "F ENG - BEL"], True),  # a unit of j
        (["A MAR H", "A GAS H", "F ENG S A BEL"], False),  # a support of a hold
    ],
)
def test_peace_by_moves(board, texts, expected):
    assert broken(board, F, PEACE, texts) == (expected, True, False)


def test_peace_by_a_centre_by_a_support_and_by_a_convoy(board):
    england = (F, E)
    for texts, expected in (
        (["A MAR H", "A GAS - BRE", "F ENG H"], True),  # a centre that E owns, no unit there
        (["A MAR H", "A GAS H", "F ENG - LON"], True),
        (["A MAR H", "A GAS H", "F ENG - NTH"], False),
        (["A MAR - BUR", "A GAS S A MAR - BUR", "F ENG H"], False),
        (["A MAR H", "A GAS - BRE", "F ENG S A GAS - BRE"], True),
    ):
        assert broken(board, F, PEACE, texts, england)[0] is expected
    # G's army in Belgium could be convoyed to London by the French fleet: into a province of E
    convoy = ["A MAR H", "A GAS H", "F ENG C A BEL - LON"]
    assert broken(board, F, PEACE, convoy, england)[0] is True
    assert broken(board, F, PEACE, convoy, (F, G))[0] is False


def test_peace_with_whom_one_cannot_reach_is_not_exposed(board):
    assert broken(board, F, PEACE, CALM, (F, T)) == (False, False, False)
    assert broken(board, T, PEACE, ["A SMY H"], (T, F)) == (False, False, False)


def test_a_support_that_the_partner_asked_for_breaks_no_peace(board):
    asked = Proposal("support", province=AT["BEL"], unit=1, to=AT["BUR"])
    board = board.copy()
    board.owner[0, AT["BUR"]] = G  # now a support into Burgundy is hostile to G
    texts = ["A MAR S A BEL - BUR", "A GAS H", "F ENG H"]
    request = Agreement(0, G, F, asked)
    assert broken(board, F, PEACE, texts)[0] is True
    assert broken(board, F, PEACE, texts, more=[request])[0] is False
    # the very order only: not the support of another unit, nor a move of one's own
    other = ["A MAR S A MUN - BUR", "A GAS H", "F ENG H"]
    assert broken(board, F, PEACE, other, more=[request])[0] is True
    assert broken(board, F, PEACE, ["A MAR - BUR", "A GAS H", "F ENG H"], more=[request])[0] is True
    # and only if the partner asked, not if one asked oneself
    assert broken(board, F, PEACE, texts, more=[Agreement(0, F, G, HELP)])[0] is True


def test_alliance(board):
    attack = ["A MAR - PIE", "A GAS H", "F ENG H"]
    assert broken(board, F, AGAINST_ITALY, attack) == (False, True, False)
    assert broken(board, F, AGAINST_ITALY, CALM) == (True, True, False)  # the duty
    both = ["A MAR - PIE", "A GAS H", "F ENG - BEL"]
    assert broken(board, F, AGAINST_ITALY, both) == (True, True, False)  # its peace


def test_the_duty_of_an_alliance_lapses_where_nothing_can_be_done(board):
    against_turkey = Proposal("alliance", against=T)
    assert broken(board, F, against_turkey, CALM) == (False, True, True)  # its peace is exposed
    assert broken(board, T, AGAINST_ITALY, ["A SMY H"], (T, G)) == (False, False, True)


def test_zone(board):
    assert broken(board, F, ZONE, ["A MAR - BUR", "A GAS H", "F ENG H"]) == (True, True, False)
    assert broken(board, F, ZONE, ["A MAR S A GAS - BUR", "A GAS H", "F ENG H"])[0] is False
    assert broken(board, F, ZONE, CALM) == (False, True, False)
    assert broken(board, T, ZONE, ["A SMY - CON"], (T, G)) == (False, False, False)
    london = Proposal("zone", province=AT["LON"])
    convoy = ["A MAR H", "A GAS H", "F ENG C A BEL - LON"]
    assert broken(board, F, london, convoy)[0] is True
    inside = Proposal("zone", province=AT["GAS"])  # the unit there may stay or leave
    assert broken(board, F, inside, CALM)[0] is False
    assert broken(board, F, inside, ["A MAR H", "A GAS - BUR", "F ENG H"])[0] is False


def test_support_request_giver_and_asker(board):
    pair = (G, F)  # Germany asks France to support A MUN - BUR
    kept = ["A MAR S A MUN - BUR", "A GAS H", "F ENG H"]
    assert broken(board, F, HELP, kept, pair) == (False, True, False)
    gas = ["A MAR H", "A GAS S A MUN - BUR", "F ENG H"]
    assert broken(board, F, HELP, gas, pair)[0] is False  # any unit will do
    assert broken(board, F, HELP, CALM, pair) == (True, True, False)
    assert broken(board, F, HELP, ["A MAR S A BEL - BUR", "A GAS H", "F ENG H"], pair)[0] is True
    assert broken(board, G, HELP, ["A MUN - BUR", "A BEL H"], pair) == (False, True, False)
    assert broken(board, G, HELP, ["A MUN H", "A BEL - BUR"], pair) == (True, True, False)
    hold = Proposal("support", province=AT["BEL"], unit=1, to=STAYS)
    assert broken(board, F, hold, ["A MAR H", "A GAS H", "F ENG S A BEL"], pair)[0] is False
    assert broken(board, G, hold, ["A MUN H", "A BEL S A MUN - BUR"], pair)[0] is False
    assert broken(board, G, hold, ["A MUN H", "A BEL - BUR"], pair)[0] is True


def test_the_duty_of_a_support_lapses(board):
    assert broken(board, T, HELP, ["A SMY H"], (G, T)) == (False, False, True)
    gone = board.copy()
    for field in (gone.power, gone.loc):
        field[0, AT["MUN"]] = -1
    gone.unit[0, AT["MUN"]] = 0
    assert broken(gone, G, HELP, ["A BEL H"], (G, F)) == (False, False, True)
    assert broken(gone, F, HELP, CALM, (G, F)) == (False, False, True)


def test_a_third_power_is_not_bound(board):
    with pytest.raises(ValueError, match="is not bound"):
        broken(board, F, PEACE, CALM, (E, G))


def bonds(forbidden, missed):
    columns = np.array(forbidden, bool), np.array(missed, bool)
    return press_breach.Bonds(*columns, np.ones(columns[0].shape[1], bool), np.zeros(0, bool))


def test_binding_is_never_empty():
    # hold (row 0) breaks nothing forbidden; the first duty is met by row 1, the second by row 2
    both = bonds([[0, 0], [0, 0], [0, 0], [1, 0]], [[1, 1], [0, 1], [1, 0], [0, 0]])
    assert press_effect.admissible(both).tolist() == [False, True, False, False]
    none = bonds([[0], [1]], [[1], [0]])
    assert press_effect.admissible(none).tolist() == [True, False]
    with pytest.raises(ValueError, match="all units hold"):
        press_effect.admissible(bonds([[1], [1]], [[0], [0]]))


def test_what_effects_do_to_values():
    value, found = np.array([0.3, 0.35, 0.1]), bonds([[0], [1], [1]], [[0], [0], [0]])
    same, every = press_effect.scores(value, found, "none", Will(), 0.02)
    assert same is value and every.all()
    priced, every = press_effect.scores(value, found, "priced", Will(), 0.02)
    assert priced == pytest.approx([0.3, 0.33, 0.08]) and every.all()
    kept, allowed = press_effect.scores(value, found, "priced", Will(np.inf), 0.02)
    assert kept is value and allowed.tolist() == [True, False, False]
    _, bound = press_effect.scores(value, found, "binding", Will(), 0.02)
    assert bound.tolist() == [True, False, False]
    assert press_effect.attackers(found).tolist() == [False, True, True]
    two = bonds([[0, 0], [1, 0], [1, 1]], np.zeros((3, 2)))
    assert press_effect.attackers(two).tolist() == [False, False, True]
    with pytest.raises(ValueError, match="unknown press.effect 'loud'"):
        press_effect.check("loud")


def test_policy_is_the_anchor_at_its_temperature_where_values_are_equal():
    tau = np.array([0.5, 0.3, 0.2])
    found = press_effect.policy(np.full(3, 0.2), np.log(tau), np.ones(3, bool), 0.01, 0.5)
    assert found == pytest.approx(tau**2 / (tau**2).sum())
    better = press_effect.policy(np.array([0, 0.01, 0]), np.log(tau), np.ones(3, bool), 0.01, 1.0)
    assert better[1] / better[0] == pytest.approx(0.6 * np.e)
    allowed = np.array([False, True, True])
    assert press_effect.policy(np.zeros(3), np.log(tau), allowed, 0.01, 1.0)[0] == 0


def test_picks_follow_the_probabilities():
    picks = press_effect.pick(np.array([0.25, 0, 0.75]), np.array([0, 0.2499, 0.25, 0.999999]))
    assert picks.tolist() == [0, 0, 2, 2]
    assert press_effect.pick(np.array([0.5, 0.5, 0]), 1 - 1e-17) == 1
