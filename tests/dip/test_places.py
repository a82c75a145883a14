"""DumbBot's place values: hand numbers of Spring 1901 and small positions worked out by hand."""

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, places

FRANCE, GERMANY = atlas.power("FRANCE"), atlas.power("GERMANY")


def place(text):
    return places.place_of(*boards.parse_unit(text))


def position(units, owners, phase=boards.SPRING_MOVES):
    """units: {"FRANCE": ["A PAR"]}, owners: {"FRANCE": ["PAR"]}."""
    board = boards.empty(1)
    for name, texts in units.items():
        for text in texts:
            unit, loc = boards.parse_unit(text)
            p = atlas.PROV_OF[loc]
            board.unit[0, p], board.loc[0, p], board.power[0, p] = unit, loc, atlas.power(name)
    for name, codes in owners.items():
        for code in codes:
            board.owner[0, atlas.location(code)] = atlas.power(name)
    board.phase[:] = phase
    return board


def first(board, power, season):
    """P_0 of every place."""
    rows = (board.unit[0], board.power[0], board.loc[0])
    count, enters = places._reach(places.TABLES, *rows)
    size = places._sizes(board.owner[0], atlas.CENTRE)
    attack, defence = places._base(size, board.owner[0], atlas.CENTRE, enters, power)
    both = attack * places.ATTACK[season] + defence * places.DEFENCE[season]
    return both[places.TABLES.prov], count


def test_hand_values_of_1901():
    board = boards.start()
    size = places._sizes(board.owner[0], atlas.CENTRE)
    assert size[7] == 208  # 12 neutral centres
    assert size[FRANCE] == 37 and size[atlas.power("RUSSIA")] == 48
    spring, _ = first(board, FRANCE, places.SPRING)
    fall, _ = first(board, FRANCE, places.FALL)
    assert spring[place("A BEL")] == 145_600 and fall[place("F BEL")] == 124_800
    assert spring[place("A MUN")] == 25_900  # centre of a power with three
    assert spring[place("A BUR")] == 0 and spring[place("A PAR")] == 0


def test_defence_is_the_largest_size_of_a_power_that_can_move_in():
    board = position(
        {"GERMANY": ["A BUR"], "ITALY": ["F LYO"], "FRANCE": ["A PAR"]},
        {"FRANCE": ["PAR", "MAR"], "GERMANY": ["MUN", "BER"], "ITALY": ["ROM"]},
    )
    spring, _ = first(board, FRANCE, places.SPRING)
    # Germany has 2 centres (4 + 8 + 16 = 28) and reaches both, Italy 1 (21) reaches MAR
    assert spring[place("A PAR")] == 28 * 300 and spring[place("A MAR")] == 28 * 300


def test_counts_of_adjacent_places_count_both_coasts():
    board = position({"FRANCE": ["F MAO"], "TURKEY": ["F CON"]}, {})
    _, count = first(board, FRANCE, places.SPRING)
    assert count[FRANCE, atlas.location("SPA")] == 2
    assert count[FRANCE, atlas.location("MAO")] == 1
    assert count[FRANCE, atlas.location("POR")] == 1
    assert count[atlas.power("TURKEY"), atlas.location("BUL")] == 2


def test_proximity_takes_the_larger_coast_once_and_truncates():
    before = np.zeros(places.PLACES, np.int64)
    before[place("F SPA/NC")], before[place("F SPA/SC")] = 103, 58
    before[place("F MAO")] = 7
    after = np.zeros(places.PLACES, np.int64)
    places._spread(places.TABLES, before, after)
    assert after[place("F MAO")] == (7 + 103) // 5  # 22
    assert after[place("F POR")] == (103 + 7) // 5
    assert after[place("F WES")] == (58 + 7) // 5  # WES touches only the south coast: 13
    assert after[place("A GAS")] == 0  # armies do not see fleet places
    before[place("F SPA/SC")] = 103  # equal coasts still count once
    places._spread(places.TABLES, before, after)
    assert after[place("F MAO")] == 22


def test_value_of_a_place_from_its_parts():
    """P_n by a slow road in Python integers, then V with strength and competition."""
    board = boards.start()
    for phase, season in (
        (boards.SPRING_MOVES, 0),
        (boards.FALL_MOVES, 1),
        (boards.ADJUSTMENTS, 2),
    ):
        board.phase[:] = phase
        now = [int(x) for x in first(board, FRANCE, season)[0]]
        now = [x if places.TABLES.exists[c] else 0 for c, x in enumerate(now)]
        total = [0] * places.PLACES
        for n in range(10):
            total = [a + int(places.DEPTH[season, n]) * b for a, b in zip(total, now)]
            now = [slow_step(now, c) for c in range(places.PLACES)]
        found = places.values(board, 0, FRANCE)
        for text in ("A BUR", "A PAR", "F MAO", "F SPA/SC", "A BEL", "A PIC"):
            c = place(text)
            p = places.TABLES.prov[c]
            extra = 1000 * (int(found.strength[p]) - int(found.competition[p]))
            if season == 2:
                extra = 0  # nobody can enter a French centre in Spring 1901
            assert found.value[c] == total[c] + extra, text
    assert found.strength[atlas.location("BUR")] == 2  # A PAR, A MAR
    assert found.competition[atlas.location("BUR")] == 1  # A MUN


def slow_step(now, c):
    if not places.TABLES.exists[c]:
        return 0
    best = {}
    for other in places.TABLES.near[c]:
        if other >= 0:
            p = int(places.TABLES.prov[other])
            best[p] = max(best.get(p, 0), now[other])
    return (now[c] + sum(best.values())) // 5


def test_winter_counts_threatened_centres():
    calm = position({"FRANCE": ["A PAR"]}, {"FRANCE": ["PAR"]}, boards.ADJUSTMENTS)
    threat = position(
        {"FRANCE": ["A PAR"], "GERMANY": ["A BUR"]}, {"FRANCE": ["PAR"]}, boards.ADJUSTMENTS
    )
    c = place("A PAR")
    gain = places.values(threat, 0, FRANCE).value[c] - places.values(calm, 0, FRANCE).value[c]
    # size of a power without centres: 16; P_0 = 4,800 spreads, weight 1000 at depth 0, + 1000 D
    assert gain > 1000 * 4800 + 1000 * 16
    assert places.values(calm, 0, GERMANY).value[c] > 0


@pytest.mark.parametrize("text", ["A BOH", "F ADR", "F STP/NC"])
def test_places_exist_and_have_neighbours(text):
    c = place(text)
    near = places.TABLES.near[c]
    assert places.TABLES.exists[c] and near[0] >= 0
    assert np.all(places.TABLES.exists[near[near >= 0]])
