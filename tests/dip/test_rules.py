"""Retreats, builds, removals, captures; what holds for every phase whatever is ordered."""

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, generate, legal, legalise, outcomes, rules, states
from dipllm_lib.dip import vocabulary as v


def position(orders: dict[str, list[str]], phase: str = "S1905M") -> boards.Boards:
    """Exactly the units that the orders name."""
    units = {name: [" ".join(text.split()[:2]) for text in texts] for name, texts in orders.items()}
    return states.from_state({"name": phase, "units": units, "centers": {}})


def test_all_hold_and_the_empty_board():
    b = rules.start()
    after, made = rules.resolve(b, boards.no_orders(1))
    assert np.array_equal(after.loc, b.loc) and boards.phase_name(after) == "F1901M"
    assert made.counts.tolist() == [[0, 0, 0, 1]]


def retreat_board():
    """A VEN of Austria and A APU of Turkey are dislodged; both may only go to ROM."""
    orders = {
        "AUSTRIA": ["A VEN H"],
        "TURKEY": ["A APU H"],
        "ITALY": ["A TYR - VEN", "F ADR S A TYR - VEN", "F ION - APU", "F NAP S F ION - APU"]
        + ["F TYS H", "A TUS H", "A PIE H", "A TRI H"],
    }
    b = position(orders)
    return rules.resolve(b, legalise.read_orders(b, 0, orders))[0]


def test_retreats():
    b = retreat_board()
    assert boards.phase_name(b) == "S1905R"
    assert states.to_state(b)["retreats"]["AUSTRIA"] == {"A VEN": ["ROM"]}
    assert states.to_state(b)["retreats"]["TURKEY"] == {"A APU": ["ROM"]}
    both = legalise.read_orders(b, 0, {"AUSTRIA": ["A VEN R ROM"], "TURKEY": ["A APU R ROM"]})
    after, made = rules.resolve(b, both)
    assert not (after.power == atlas.power("AUSTRIA")).any()
    assert not (after.power == atlas.power("TURKEY")).any()
    assert outcomes.words(b, both, made, after, 0) == {
        "A APU": ["bounce", "disband"], "A VEN": ["bounce", "disband"],
    }  # fmt: skip
    one = legalise.read_orders(b, 0, {"AUSTRIA": ["A VEN R ROM"]})
    after, made = rules.resolve(b, one)
    assert states.to_state(after)["units"]["AUSTRIA"] == ["A ROM"]
    assert outcomes.words(b, one, made, after, 0) == {"A APU": ["disband"], "A VEN": []}
    assert (
        boards.phase_name(after) == "F1905M"
        and not after.d_unit.any()
        and not after.contested.any()
    )


def winter(units: dict, centres: dict) -> boards.Boards:
    return states.from_state({"name": "W1905A", "units": units, "centers": centres})


def test_builds_and_waives():
    b = winter({"RUSSIA": ["A UKR", "F SEV"]}, {"RUSSIA": ["MOS", "SEV", "STP", "WAR"]})
    after, _ = rules.resolve(b, legalise.read_orders(b, 0, {"RUSSIA": ["F STP/NC B", "A WAR B"]}))
    assert states.to_state(after)["units"]["RUSSIA"] == ["A UKR", "A WAR", "F SEV", "F STP/NC"]
    assert boards.phase_name(after) == "S1906M"
    after, _ = rules.resolve(b, legalise.read_orders(b, 0, {"RUSSIA": ["WAIVE", "A MOS B"]}))
    assert states.to_state(after)["units"]["RUSSIA"] == ["A MOS", "A UKR", "F SEV"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A SEV B", "illegal order 'A SEV B'"),
        ("A UKR B", "impossible order"),
        ("F STP B", "impossible order"),
        ("A STP B, A MOS B, A WAR B", "one more build or removal than are due"),
        ("A ANK B", "'A ANK B': no home centre that RUSSIA owns"),
        ("F STP/NC B, A STP B", "a second order for STP"),
    ],
)
def test_bad_builds(text, message):
    b = winter({"RUSSIA": ["A UKR", "F SEV"]}, {"RUSSIA": ["MOS", "SEV", "STP", "WAR"]})
    with pytest.raises(ValueError, match=message):
        legalise.read_orders(b, 0, {"RUSSIA": text.split(", ")})


def test_removals_and_civil_disorder():
    units = ["A BUD", "A VIE", "F TRI", "F AEG", "A GAL"]
    b = winter({"AUSTRIA": units}, {"AUSTRIA": ["BUD", "VIE", "TRI"]})
    after, _ = rules.resolve(b, legalise.read_orders(b, 0, {"AUSTRIA": ["A BUD D", "A GAL D"]}))
    assert states.to_state(after)["units"]["AUSTRIA"] == ["A VIE", "F AEG", "F TRI"]
    # F AEG is 3 steps from TRI by sea (ION, ADR), A GAL one step from BUD: AEG first, then GAL
    after, _ = rules.resolve(b, boards.no_orders(1))
    assert states.to_state(after)["units"]["AUSTRIA"] == ["A BUD", "A VIE", "F TRI"]


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        # distances of F SKA, A BOH to the homes of Russia: 2 (by sea NWY, STP/NC: SKA - NWY is 1)
        # ...
        ("home", ["A SIL"]),
        # on a centre stays: SWE; then the nearest owned centre decides
        ("owned", ["F SWE"]),
    ],
)
def test_rules_of_civil_disorder_differ(rule, left):
    b = winter({"RUSSIA": ["A SIL", "F SWE"]}, {"RUSSIA": ["WAR"]})
    after, _ = rules.resolve(b, boards.no_orders(1), choices=rules.Choices(civil_disorder=rule))
    assert states.to_state(after)["units"]["RUSSIA"] == left


def test_fleets_go_before_armies_and_then_the_alphabet_decides():
    def survivor(units, rule="home"):
        b = winter({"FRANCE": units}, {"FRANCE": ["PAR"]})
        after, _ = rules.resolve(b, boards.no_orders(1), choices=rules.Choices(civil_disorder=rule))
        return states.to_state(after)["units"]["FRANCE"]

    assert survivor(["A GAS", "F ENG"]) == ["A GAS"]  # both one step away
    assert survivor(["A BUR", "A GAS"]) == ["A GAS"]  # BUR before GAS
    # code NAO before NTH, full name North Atlantic Ocean before North Sea
    assert survivor(["F NAO", "F WES"]) == ["F WES"]  # WES - MAO - BRE 2, NAO - MAO - BRE 2
    assert survivor(["A PIC", "A GAS"], "owned") == ["A PIC"]  # Gascony before Picardy


def test_centres_change_hands_after_the_fall_only():
    for phase, owner in (("S1905M", "NONE"), ("F1905M", "FRANCE")):
        b = position({"FRANCE": ["A BUR - BEL"]}, phase)
        after, _ = rules.resolve(b, legalise.read_orders(b, 0, {"FRANCE": ["A BUR - BEL"]}))
        index = after.owner[0, atlas.INDEX["BEL"]]
        assert (index == atlas.power("FRANCE")) == (owner == "FRANCE")


def random_batches(seed: int):
    rng = np.random.default_rng(seed)
    for b in (generate.scattered(80, 40, 4, rng), generate.fleets_and_armies(80, 5, rng)):
        yield b, generate.coherent(b, rng)
    yield from generate.played(700, rng, generate.coherent)


def test_a_batch_is_its_singles_in_any_order():
    for b, given in list(random_batches(1))[:20]:
        together, made = rules.resolve(b, given)
        mixed = np.random.default_rng(0).permutation(b.n)
        again, _ = rules.resolve(b, given.take(mixed), board_of=mixed)
        assert again.same(together.take(mixed))
        for i in range(0, b.n, 7):
            alone, alone_made = rules.resolve(b.take([i]), given.take([i]))
            assert alone.same(together.take([i]))
            assert all(np.array_equal(x[0], y[i]) for x, y in zip(alone_made, made))


def test_invariants_of_random_phases():
    for b, given in random_batches(2):
        after, made = rules.resolve(b, given)
        assert (made.counts[:, 2] == 0).all()
        armies, fleets = after.unit == 1, after.unit == 2
        assert atlas.HAS_ARMY[after.loc[armies]].all() and atlas.HAS_FLEET[after.loc[fleets]].all()
        standing = after.unit > 0
        assert (atlas.PROV_OF[after.loc[standing]] == np.nonzero(standing)[1]).all()
        assert ((after.power >= 0) == standing).all() and (
            (after.d_power >= 0) == (after.d_unit > 0)
        ).all()
        moves = np.isin(b.phase, boards.MOVES)
        before = b.unit[moves] > 0
        assert (made.dislodged[moves] > 0)[before].all()
        lost = (made.dislodged[moves] == rules.YES).sum(axis=1)
        kept = (after.unit[moves] > 0).sum(axis=1)
        assert (before.sum(axis=1) == kept + lost).all()
        assert ((after.d_unit[moves] > 0).sum(axis=1) <= lost).all()
        for i, p in np.argwhere((made.dislodged == rules.YES) & moves[:, None]):
            assert after.power[i, p] != b.power[i, p]


def test_powers_can_be_renamed():
    rng = np.random.default_rng(3)
    for b, given in random_batches(4):
        if not np.isin(b.phase, boards.MOVES).all() or (b.owner >= 0).sum() and b.phase[0] == 2:
            continue
        names = rng.permutation(7).astype(np.int8)
        renamed = b._replace(power=np.where(b.power >= 0, names[b.power], -1).astype(np.int8))
        after, made = rules.resolve(b, given)
        other, other_made = rules.resolve(renamed, given)
        assert np.array_equal(made.moved, other_made.moved)
        expected = np.where(after.power >= 0, names[after.power], -1)
        assert np.array_equal(other.power, expected)


def test_void_supports_change_nothing():
    for b, given in random_batches(5):
        after, made = rules.resolve(b, given)
        void = made.support_ok == rules.VOID
        calm = given.copy()
        for field, blank in zip(calm, (0, -1, -1, 0)):
            field[void] = blank
        assert rules.resolve(b, calm)[0].same(after)


def test_wrong_shapes_are_refused():
    b = boards.start(2)
    with pytest.raises(ValueError, match="3 rows of orders for 2 positions"):
        rules.resolve(b, boards.no_orders(3))
    with pytest.raises(ValueError, match="board_of must give a position 0 to 1"):
        rules.resolve(b, boards.no_orders(2), board_of=np.array([0, 2]))
    b.phase[1] = boards.OVER
    with pytest.raises(ValueError, match="row 1: the game is over"):
        rules.resolve(b, boards.no_orders(2))


def test_legal_retreats_are_what_is_resolved():
    seen = 0
    for b, _ in generate.played(3000, np.random.default_rng(6), generate.coherent):
        rows = np.flatnonzero(np.isin(b.phase, boards.RETREATS))
        for i in rows:
            lists = legal.legal_orders(b.take([i]))
            for u, p in enumerate(lists.province):
                for order in lists.of(u):
                    kind, dest = v.VOCABULARY[order, [v.KIND, v.DEST]]
                    given = boards.no_orders(1)
                    given.kind[0, p], given.a[0, p] = kind, dest
                    after, made = rules.resolve(b.take([i]), given)
                    assert (made.moved[0, p] == rules.YES) == (kind == boards.RETREAT)
                    seen += 1
    assert seen > 200
