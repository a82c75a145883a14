"""Easy: each rule in its order on positions worked out by hand, and whole games."""

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, game, orders, vocabulary
from dipllm_lib.dip.easy import STEPS, Easy, foreign

BOT = Easy()
FRENCH = {"FRANCE": ["PAR", "BRE", "MAR"]}
ENGLISH = {"ENGLAND": ["EDI", "LVP"], "GERMANY": ["LON"]}


def turn(name, units, centers, phase="F1905M", retreats=None):
    state = {"name": phase, "units": units, "centers": centers, "retreats": retreats or {}}
    return orders.turn(game.from_state(state), 0, atlas.power(name))


def played(this, seeds=40):
    """The different joint orders of `seeds` generators, as sets of sorted texts."""
    joints = [BOT.act([this], [np.random.default_rng(seed)])[0] for seed in range(seeds)]
    for joint in joints:
        this.check(joint)
    return {tuple(sorted(orders.to_text(order) for order in joint)) for joint in joints}


def test_foreign_centres_and_land():
    board = game.from_state({"name": "S1901M", "units": {}, "centers": FRENCH})
    centres, land = foreign(board.owner[0], atlas.power("FRANCE"))
    assert centres.sum() == 31 and not centres[atlas.location("PAR")]
    names = {code: bool(land[atlas.location(code)]) for code in ("RUH", "TUS", "UKR", "WAL")}
    assert all(names.values())
    for code in ("BUR", "GAS", "PIC", "PIE"):  # an own centre is as near as any other
        assert not land[atlas.location(code)]
    assert not land[atlas.location("NTH")] and not land[atlas.location("BEL")]


def test_steps_are_those_of_the_unit():
    def steps(text, code):
        unit, place = boards.parse_unit(text)
        return STEPS[place + 75 * (unit == 2), atlas.location(code)]

    assert steps("A PAR", "PAR") == 0 and steps("A PAR", "BEL") == 2 and steps("A LON", "YOR") == 1
    assert steps("A LON", "PAR") == atlas.FAR  # no convoys
    assert steps("F BRE", "BEL") == 2 and steps("F MAR", "BRE") == 3
    assert steps("F SPA/NC", "MAR") == 3 and steps("F SPA/SC", "MAR") == 1


def test_a_unit_on_a_foreign_centre_holds():
    units = {"FRANCE": ["A BEL"], "GERMANY": ["A MUN"]}
    assert played(turn("FRANCE", units, FRENCH, "S1905M")) == {("A BEL H",)}


def test_empty_centre_before_empty_land():
    units = {"FRANCE": ["A BUR"], "GERMANY": ["A BER"]}
    assert played(turn("FRANCE", units, FRENCH)) == {("A BUR - BEL",), ("A BUR - MUN",)}


def test_empty_land_before_an_attack():
    units = {"FRANCE": ["A BUR"], "GERMANY": ["A MUN"], "ENGLAND": ["A BEL"]}
    assert played(turn("FRANCE", units, FRENCH)) == {("A BUR - RUH",)}


def test_step_toward_the_nearest_empty_goal_before_an_attack():
    """Spain is two steps away, by Gascony or Marseilles; all else nearer is taken."""
    units = {"FRANCE": ["A BUR"], "GERMANY": ["A MUN", "A RUH"], "ENGLAND": ["A BEL"]}
    assert played(turn("FRANCE", units, FRENCH)) == {("A BUR - GAS",), ("A BUR - MAR",)}


def test_attack_on_a_centre_when_nothing_is_empty():
    """On an island without empty goals one army attacks London, the other has nothing to do."""
    units = {"ENGLAND": ["A WAL", "A YOR"], "GERMANY": ["A LON"]}
    assert played(turn("ENGLAND", units, ENGLISH)) == {
        ("A WAL - LON", "A YOR H"),
        ("A WAL H", "A YOR - LON"),
    }


def test_attack_on_a_unit_comes_after_that():
    units = {"ENGLAND": ["A EDI"], "GERMANY": ["A YOR", "A LON"]}
    assert played(turn("ENGLAND", units, ENGLISH)) == {("A EDI - YOR",)}
    both = {"ENGLAND": ["A WAL"], "GERMANY": ["A YOR", "A LON"]}
    assert played(turn("ENGLAND", both, ENGLISH)) == {("A WAL - LON",)}


def test_step_toward_an_occupied_centre_then_hold():
    far = {"ENGLAND": ["A CLY"], "GERMANY": ["A LON"]}
    assert played(turn("ENGLAND", far, ENGLISH)) == {("A CLY - EDI",), ("A CLY - LVP",)}
    home = {"ENGLAND": ["EDI", "LVP", "LON"]}
    assert played(turn("ENGLAND", {"ENGLAND": ["A CLY"]}, home)) == {("A CLY H",)}


def test_one_unit_to_a_province_and_none_onto_an_own_one():
    units = {"FRANCE": ["A PIC", "A BUR"], "GERMANY": ["A MUN", "A RUH"]}
    found = played(turn("FRANCE", units, FRENCH))
    assert found == {
        ("A BUR - BEL", "A PIC - BUR"),  # into the place left, toward Munich (rule 5)
        ("A BUR - GAS", "A PIC - BEL"),  # toward Spain
        ("A BUR - MAR", "A PIC - BEL"),
    }
    settled = {"FRANCE": ["A PIC", "A BEL"], "GERMANY": ["A MUN", "A RUH", "A BUR"]}
    assert all("A PIC - BEL" not in joint for joint in played(turn("FRANCE", settled, FRENCH)))


def test_a_goal_that_another_unit_takes_is_none():
    """From Paris, Munich and Spain are two steps away; Belgium, by Picardy, is taken."""
    found = played(turn("FRANCE", {"FRANCE": ["A PIC", "A PAR"]}, FRENCH))
    assert found == {("A PAR - BUR", "A PIC - BEL"), ("A PAR - GAS", "A PIC - BEL")}


def test_retreats_go_where_friends_are_and_not_together():
    units = {"FRANCE": ["*A BUR", "A BRE", "A MAR"], "GERMANY": ["A BUR"]}
    options = {"FRANCE": {"A BUR": ["PAR", "PIC", "GAS", "RUH"]}}
    assert played(turn("FRANCE", units, FRENCH, "F1905R", options)) == {("A BUR R GAS",)}
    units = {"FRANCE": ["*A BUR", "*A PAR", "A BRE"], "GERMANY": ["A BUR", "A PAR"]}
    options = {"FRANCE": {"A BUR": ["PIC"], "A PAR": ["PIC"]}}
    assert played(turn("FRANCE", units, FRENCH, "F1905R", options)) == {
        ("A BUR D", "A PAR R PIC"),
        ("A BUR R PIC", "A PAR D"),
    }


def test_builds_keep_four_fleets_in_ten_nearest_to_foreign_centres():
    """Five units shall have two fleets. STP is beside NWY; WAR, MOS and SEV are two steps away."""
    centers = {"RUSSIA": ["STP", "MOS", "WAR", "SEV", "RUM"]}
    land = {"RUSSIA": ["A UKR", "A GAL"]}
    assert played(turn("RUSSIA", land, centers, "W1905A"), 60) == {
        ("A MOS B", "A WAR B", "F STP/NC B"),
        ("A MOS B", "F SEV B", "F STP/NC B"),
        ("A WAR B", "F SEV B", "F STP/NC B"),
    }
    sea = {"RUSSIA": ["F BLA", "F BAL", "A GAL", "A UKR"]}  # two fleets in five are enough
    assert played(turn("RUSSIA", sea, centers, "W1905A")) == {("A STP B",)}


def test_removals_begin_far_from_foreign_land():
    """Steps to foreign land or centres: RUH 0, BUR 1, PAR 2."""
    units = {"FRANCE": ["A PAR", "A BUR", "A RUH", "A GAS"]}
    assert played(turn("FRANCE", units, FRENCH, "W1905A")) == {("A PAR D",)}
    two = {"FRANCE": ["A PAR", "A BUR", "A RUH", "A BRE", "A BEL"]}
    assert played(turn("FRANCE", two, FRENCH, "W1905A")) == {("A BRE D", "A PAR D")}


@pytest.fixture(scope="module")
def games():
    names = [("easy", g) for g in range(3)]
    return game.play([[BOT] * 7] * 3, 5, names, game.EndRules(1906))


def test_no_collisions_swaps_or_supports_in_whole_games(games):
    swaps = moves = 0
    for record in games:
        for k in range(record.positions().n):
            for this in orders.turns(record.boards, k):
                rows = vocabulary.EXPANSION[list(record.joint(k, this.power))].astype(int)
                if record.boards.phase[k] not in boards.MOVES:
                    continue
                assert set(rows[:, 1]) <= {boards.HOLD, boards.MOVE} and (rows[:, 4] == 0).all()
                going = {int(r[0]): int(atlas.PROV_OF[r[2]]) for r in rows if r[1] == boards.MOVE}
                kept = {int(r[0]) for r in rows if r[1] == boards.HOLD}
                assert len(set(going.values())) == len(going) and not kept & set(going.values())
                swaps += sum(going.get(to) == at for at, to in going.items())
                moves += len(going)
    assert swaps == 0 and moves > 300


def test_a_game_is_the_same_alone_and_in_a_batch(games):
    alone = game.play([[BOT] * 7], 5, [("easy", 1)], game.EndRules(1906))[0]
    assert alone.to_saved() == games[1].to_saved()
