"""The vocabulary, texts, legal orders and turns."""

import pickle
import warnings

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, generate, legal, legalise, notation, orders, rules, states
from dipllm_lib.dip import vocabulary as v

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from diplomacy import Game as Official


def test_vocabulary_counts():
    kind, via = v.VOCABULARY[:, v.KIND], v.VOCABULARY[:, v.VIA]
    assert len(v.VOCABULARY) == 32396
    assert np.bincount(kind).tolist() == [120, 1698, 833, 10987, 18094, 504, 120, 22, 17, 0, 1]
    assert (kind[via == 1] == boards.MOVE).all() and via.sum() == 1194
    coastless = (kind == boards.SUPPORT_MOVE) & (v.VOCABULARY[:, v.OTHER_TYPE] == v.F)
    coastless &= np.isin(v.VOCABULARY[:, v.DEST], [atlas.INDEX[c] for c in ("BUL", "SPA", "STP")])
    assert coastless.sum() == 119
    assert (np.diff(v.KEYS) > 0).all()


def test_every_row_to_text_and_back():
    texts = [orders.to_text(order) for order in range(v.SIZE)]
    assert len(set(texts)) == v.SIZE
    assert [orders.from_text(text) for text in texts] == list(range(v.SIZE))
    loose = [text.lower().replace("/sc", "(sc)") for text in texts]
    assert [orders.from_text(text) for text in loose] == list(range(v.SIZE))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("A BUR S A PAR H", "A BUR S A PAR"),
        ("F MID - POR", "F MAO - POR"),
        ("A LON - BEL", "A LON - BEL VIA"),
        ("A BEL R SPA/SC", None),
        ("A GAS - SPA/NC", "A GAS - SPA"),
        ("F WES - SPA", "F WES - SPA/SC"),
        ("F MAO - SPA", None),
        ("F PAR H", None),
        ("A PAR - LON - BRE", None),
        ("A PAR", None),
        ("hold everything", None),
    ],
)
def test_reading(text, canonical):
    if canonical is None:
        with pytest.raises(ValueError):
            orders.from_text(text)
    else:
        assert orders.to_text(orders.from_text(text)) == canonical


def test_a_position_completes_types_and_coasts():
    b = rules.start()
    assert orders.to_text(orders.from_text("STP - BOT", b)) == "F STP/SC - BOT"
    assert orders.to_text(orders.from_text("MOS S WAR", b)) == "A MOS S A WAR"
    with pytest.raises(ValueError, match="write A or F"):
        orders.from_text("PAR - BUR")


def test_opening_has_the_known_number_of_orders():
    lists = legal.legal_orders(rules.start())
    assert len(lists.board) == 22
    by_code = {atlas.CODES[p]: len(lists.of(u)) for u, p in enumerate(lists.province)}
    # hold, 4 moves, support of BRE, and of BRE - PIC, BRE - GAS, MAR - BUR, MAR - GAS, MUN - BUR
    assert by_code["PAR"] == 11
    naples = lists.province.tolist().index(atlas.INDEX["NAP"])
    assert [orders.to_text(o) for o in lists.of(naples)] == [
        "F NAP H", "F NAP - APU", "F NAP - ION", "F NAP - ROM", "F NAP - TYS", "F NAP S A ROM",
        "F NAP S A ROM - APU", "F NAP S A VEN - APU", "F NAP S A VEN - ROM",
    ]  # fmt: skip


def package_lists(official, position, i):
    """Province -> sorted texts of the package's possible orders, WAIVE left out."""
    official.set_state(states.to_state(position, i))
    found = official.get_all_possible_orders()
    lists = {}
    for places in official.get_orderable_locations().values():
        for place in places:
            every = [texts for code, texts in found.items() if code == place or code[:3] == place]
            texts = set().union(*every) if position.phase[i] == boards.ADJUSTMENTS else found[place]
            lists[place[:3]] = sorted(set(texts) - {"WAIVE"})
    return lists


def our_lists(position, i):
    lists = legal.legal_orders(position.take([i]))
    return {
        atlas.CODES[p]: sorted(orders.to_text(int(o)) for o in lists.of(u))
        for u, p in enumerate(lists.province)
    }


@pytest.mark.parametrize("kind", ["played", "scattered", "fleets"])
def test_legal_orders_are_the_packages(kind):
    rng = np.random.default_rng(11)
    if kind == "played":
        batches = [b for b, _ in generate.played(480, rng)]
    elif kind == "scattered":
        batches = [generate.scattered(60, 34, 7, rng)]
    else:
        batches = [generate.fleets_and_armies(60, 5, rng)]
    official, seen = Official(), set()
    for b in batches:
        for i in range(b.n):
            seen.add(int(b.phase[i]))
            assert our_lists(b, i) == package_lists(official, b, i), boards.phase_name(b, i)
        lists = legal.legal_orders(b)
        for u in range(len(lists.board)):
            assert (np.diff(lists.of(u)) > 0).all()
    assert kind != "played" or seen == {0, 1, 2, 3, 4}


def test_batch_of_positions_lists_what_singles_list():
    b = generate.fleets_and_armies(40, 4, np.random.default_rng(2))
    together = legal.legal_orders(b)
    alone = [legal.legal_orders(b.take([i])) for i in range(b.n)]
    assert np.array_equal(together.ids, np.concatenate([x.ids for x in alone]))
    assert np.array_equal(together.power, np.concatenate([x.power for x in alone]))


def test_turns_are_in_canonical_order():
    turns = orders.turns(rules.start())
    assert [t.power for t in turns] == list(range(7))
    assert turns[5].units == ("A MOS", "A WAR", "F SEV", "F STP/SC")
    assert turns[0].units == ("A BUD", "A VIE", "F TRI")
    assert turns[2].phase == "S1901M" and turns[2].slots == 3
    assert turns[2].options((0,)).dtype == np.int32
    copy = pickle.loads(pickle.dumps(turns[2]))
    assert np.array_equal(copy.options(), turns[2].options()) and copy.boards.same(turns[2].boards)
    assert orders.turn(rules.start(), 0, 3).units == ("A BER", "A MUN", "F KIE")


def adjustment(units: str, centres: str, power="RUSSIA"):
    state = {
        "name": "W1905A",
        "units": {power: units.split(", ")},
        "centers": {power: centres.split()},
    }
    return orders.turn(states.from_state(state), 0, atlas.power(power))


def texts(turn, *prefix):
    return [orders.to_text(o) for o in turn.options(tuple(orders.from_text(t) for t in prefix))]


def test_builds_are_increasing_sequences_with_waives_last():
    turn = adjustment("A UKR", "MOS SEV STP WAR")
    assert (turn.slots, turn.units, turn.adjusts) == (3, ("", "", ""), 3)
    everything = [
        "A MOS B", "A SEV B", "A STP B", "A WAR B", "F SEV B", "F STP/NC B", "F STP/SC B", "WAIVE",
    ]  # fmt: skip
    assert texts(turn) == everything
    # armies before fleets, then Moscow, Sevastopol, St Petersburg, Warsaw; a province builds once
    assert texts(turn, "A SEV B") == ["A STP B", "A WAR B", "F STP/NC B", "F STP/SC B", "WAIVE"]
    assert texts(turn, "F STP/NC B") == ["WAIVE"]
    assert texts(turn, "A MOS B", "WAIVE") == ["WAIVE"]
    with pytest.raises(ValueError, match="3 slots"):
        turn.options((0, 1, 2))


def test_builds_are_limited_by_free_homes():
    turn = adjustment("A MOS, A SEV, A STP", "MOS SEV STP WAR RUM SWE NWY")
    assert turn.slots == 1 and texts(turn) == ["A WAR B", "WAIVE"]


def test_removals_leave_room_for_the_rest():
    turn = adjustment("A MOS, A UKR, F SEV", "MOS")
    assert (turn.slots, turn.adjusts) == (2, -2)
    assert texts(turn) == ["A MOS D", "A UKR D"]
    assert texts(turn, "A UKR D") == ["F SEV D"]
    assert texts(turn, "A MOS D") == ["A UKR D", "F SEV D"]


def count(turn, prefix=()):
    if len(prefix) == turn.slots:
        return 1
    return sum(count(turn, (*prefix, int(o))) for o in turn.options(prefix))


def test_every_set_of_builds_is_one_sequence():
    # of MOS (1 form), SEV (2), STP (3), WAR (1): at most three builds in different provinces
    turn = adjustment("A UKR", "MOS SEV STP WAR")
    # elementary symmetric sums of (1, 2, 3, 1): e0 + e1 + e2 + e3 = 1 + 7 + 17 + 17
    assert count(turn) == 42


def test_joint_orders_to_arrays_and_back():
    b = rules.start()
    turn = orders.turn(b, 0, 2)
    joint = orders.parse_joint(turn, ["A MAR - SPA", "A PAR S A MAR - BUR", "F BRE - MAO"])
    given = orders.expand(b, [{2: joint}, {}])
    assert given.n == 2 and (given.kind[1] == boards.HOLD).all()
    assert legalise.order_texts(b, given.take([0]))[0]["FRANCE"] == [
        "A MAR - SPA", "A PAR S A MAR - BUR", "F BRE - MAO",
    ]  # fmt: skip
    table = orders.joint_table([[], [], [joint], [], [], [], []])
    picks = np.full((2, 7), -1)
    picks[0, 2] = 0
    assert all(np.array_equal(x, y) for x, y in zip(orders.expand_picks(table, picks), given))
    with pytest.raises(ValueError, match="candidates"):
        orders.expand_picks(table, picks + 1)
    assert orders.sorted_joint(turn, ["F BRE - MAO", "A MAR - SPA", "A PAR S A MAR - BUR"]) == joint


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"FRANCE": ["A XYZ - BUR"]}, "unknown province 'XYZ'"),
        ({"FRANCE": ["A GAS - BUR"]}, "no unit A GAS stands there"),
        ({"FRANCE": ["F PAR - PIC"]}, "impossible order"),
        ({"FRANCE": ["A MUN - BUR"]}, "A MUN belongs to GERMANY"),
        ({"FRANCE": ["A PAR - BUR", "A PAR - GAS"]}, "a second order for PAR, after 'A PAR - BUR'"),
        ({"FRANCE": ["A PAR - MUN"]}, "impossible order"),
        ({"FRANCE": ["A MAR - NAP VIA"]}, "illegal order 'A MAR - NAP VIA'"),
        ({"FRANCE": ["A PAR S A VEN - TYR"]}, "impossible order"),
        ({"FRANCE": ["A PAR S A RUH - BUR"]}, "illegal order"),
        ({"FRANCE": ["A PAR B"]}, "impossible order|illegal order"),
        ({"GAUL": ["A PAR H"]}, "unknown power 'GAUL'"),
    ],
)
def test_bad_orders_are_one_clear_error(given, message):
    with pytest.raises(ValueError, match=message) as caught:
        legalise.read_orders(rules.start(), 0, given)
    assert "\n" not in str(caught.value)


def test_orders_for_nobody_are_refused_in_arrays():
    b, given = rules.start(), orders.no_orders(1)
    given.kind[0, atlas.INDEX["GAS"]] = boards.MOVE
    given.a[0, atlas.INDEX["GAS"]] = atlas.INDEX["PAR"]
    with pytest.raises(ValueError, match="GAS, but no unit to order stands there"):
        legalise.legalise(b, given, strict=True)
    clean, bad = legalise.legalise(b, given)
    assert bad.sum() == 1 and bad[0, atlas.INDEX["GAS"]] and (clean.kind == boards.HOLD).all()


def test_legal_orders_pass_legalise_and_wrong_ones_hold():
    for b, given in generate.played(600, np.random.default_rng(3), generate.coherent):
        assert not legalise.legalise(b, given)[1].any()
    b = rules.start()
    given = legalise.read_orders(b, 0, {"FRANCE": ["A MAR - NAP VIA", "F BRE - MAO"]}, strict=False)
    assert legalise.order_texts(b, given)[0]["FRANCE"] == ["A MAR H", "A PAR H", "F BRE - MAO"]


def test_via_without_a_convoy_order_is_dropped_on_import():
    state = {"name": "S1905M", "units": {"ENGLAND": ["A NWY", "F SKA"]}, "centers": {}}
    b = states.from_state(state)
    given = legalise.read_orders(b, 0, {"ENGLAND": ["A NWY - SWE VIA"]})
    assert legalise.order_texts(b, legalise.normalise_via(b, given))[0]["ENGLAND"] == [
        "A NWY - SWE", "F SKA H",
    ]  # fmt: skip
    given = legalise.read_orders(b, 0, {"ENGLAND": ["A NWY - SWE VIA", "F SKA C A NWY - SWE"]})
    assert legalise.normalise_via(b, given).via.sum() == 1


def test_illegal_joint_orders_are_refused():
    turn = orders.turn(rules.start(), 0, 2)
    with pytest.raises(ValueError, match="FRANCE S1901M: 1 orders for 3 slots"):
        turn.check((0,))
    with pytest.raises(ValueError, match="illegal order 'A PAR H' for A MAR"):
        orders.parse_joint(turn, ["A PAR H", "A MAR H", "F BRE H"])
    with pytest.raises(ValueError, match="two orders for one unit, in PAR"):
        hold, go = orders.from_text("A PAR H"), orders.from_text("A PAR - BUR")
        orders.expand(rules.start(), [{2: (hold, go)}])
    assert notation.unit_of(orders.from_text("F STP/SC - BOT")) == "F STP/SC"
