"""The package's known deviations: each has its right value here, is named, and nothing else is."""

import copy
import re

import pytest

from dipllm_lib.dip import boards, cases, deviations, legalise, outcomes, replay, rules, states

BY_NAME = {case.name[:2]: case for case in cases.CASES if case.name[0] == "B"}
KNOWN = {**BY_NAME, "C1": cases.C1}
# what the package makes of each case, `*` where it dislodges
PACKAGE = {
    "B1": {"FRANCE": ["A CON"], "TURKEY": ["*A CON", "A ANK", "F BLA"]},
    "B2": {"ENGLAND": ["A LON"], "GERMANY": ["F DEN", "F NTH"], "RUSSIA": ["F SKA"]},
    "B3": {
        "AUSTRIA": ["A RUH"],
        "ENGLAND": ["A BEL", "F ENG", "F NTH"],
        "FRANCE": ["*A BEL"],
        "GERMANY": ["A KIE"],
    },
    "B4": {
        "ENGLAND": ["F MAO"],
        "FRANCE": ["A GAS", "F NAF"],
        "ITALY": ["F SPA/NC"],
        "RUSSIA": ["A BRE"],
        "TURKEY": ["F LYO"],
    },
    "B5": {"FRANCE": ["A WAR"], "GERMANY": ["*F PRU", "F BER"], "RUSSIA": ["A PRU", "F BOT"]},
    "C1": {
        "AUSTRIA": ["F ENG"],
        "FRANCE": ["F WAL"],
        "GERMANY": ["F PIC"],
        "ITALY": ["*F ENG", "A BRE"],
    },
}


def judged(orders: dict[str, list[str]]) -> deviations.Case:
    """A spring phase with exactly the units that the orders name, on both engines."""
    before = cases.position(orders)
    before.phase[:] = boards.SPRING_MOVES
    given = legalise.read_orders(before, 0, orders)
    after, made = rules.resolve(before, given)
    theirs, words = replay.process(replay.official_game(), before, orders)
    return deviations.Case(before, given, made, after, theirs, words)


@pytest.fixture(scope="module")
def known() -> dict[str, deviations.Case]:
    return {name: judged(case.orders) for name, case in KNOWN.items()}


def ours(case: deviations.Case) -> str:
    """Our moves and dislodged units, in the words of the known cases."""
    words = outcomes.words(case.before, case.orders, case.made, case.after, 0)
    texts = legalise.order_texts(case.before, case.orders)[0]
    return cases.outcome(texts, words, states.to_state(case.after))


@pytest.mark.parametrize("name", deviations.CAUSES)
def test_the_right_value_the_packages_and_the_name(known, name):
    case = known[name]
    assert ours(case) == KNOWN[name].right
    units = {power: sorted(listed) for power, listed in case.theirs["units"].items() if listed}
    assert units == PACKAGE[name]
    assert deviations.explain(case) == name


def test_the_lists_of_b3(known):
    case = known["B3"]
    assert deviations.retreat_lists(case.theirs) == {"A BEL": ["BUR", "HOL", "PIC", "RUH"]}
    assert deviations.retreat_lists(states.to_state(case.after)) == {"A BEL": ["BUR", "PIC"]}


def test_where_the_package_is_right_there_is_no_cause():
    by_land = {name: [*texts] for name, texts in KNOWN["B1"].orders.items()}
    by_land["FRANCE"] = ["A RUM - CON"]
    assert deviations.explain(judged(by_land)) == ""
    assert deviations.explain(judged(cases.CASES[0].orders)) == ""


def with_theirs(case: deviations.Case, power: str, **changes: list[str]) -> deviations.Case:
    """The case with other units of a power in the package's result, or other retreats."""
    theirs = copy.deepcopy(case.theirs)
    theirs["units"][power] = changes.get("units", theirs["units"][power])
    for unit, places in changes.items():
        if unit != "units":
            theirs["retreats"][power][unit.replace("_", " ")] = places
    return case._replace(theirs=theirs)


def test_the_structure_of_b1_with_another_result_is_not_b1(known):
    moved_away = with_theirs(known["B1"], "TURKEY", units=["A CON", "A ANK"])
    assert deviations.explain(moved_away) == "?"
    nobody_dislodged = with_theirs(known["B1"], "TURKEY", units=["A SMY", "A ANK", "F BLA"])
    assert deviations.explain(nobody_dislodged) == "?"


# the support of F ANK against its own F BLA cannot dislodge it, so A SEV sails and leaves SEV open
WALKS = {
    "AUSTRIA": ["F ARM - BLA"],
    "ENGLAND": ["A SMY S A SEV - ARM"],
    "FRANCE": ["A SEV - ARM", "F BLA C A SEV - ARM", "F ANK S F ARM - BLA"],
}


def test_b2_where_the_army_walks_instead():
    case = judged(WALKS)
    assert ours(case) == "A SEV - ARM; F ARM dislodged (SEV)"
    assert deviations.standing(case.theirs) == deviations.standing(states.to_state(case.after))
    assert deviations.retreat_lists(case.theirs) == {}
    assert deviations.explain(case) == "B2"
    assert deviations.explain(case._replace(words={})) == "?"


@pytest.mark.parametrize("name", deviations.CAUSES)
def test_a_fault_of_ours_never_passes_for_one_of_the_package(known, name):
    """The same case with one of our units gone: no cause, though the structure is there."""
    case = known[name]
    after = case.after.copy()
    p = int(after.unit[0].nonzero()[0][-1])
    after.unit[0, p], after.power[0, p], after.loc[0, p] = 0, -1, -1
    assert deviations.explain(case._replace(after=after)) == "?"


def test_b2_needs_the_word_disrupted(known):
    assert deviations.explain(known["B2"]._replace(words={})) == "?"


def test_b3_needs_lists_that_contain_ours_and_an_attack_by_convoy(known):
    assert deviations.explain(with_theirs(known["B3"], "FRANCE", A_BEL=["BUR", "RUH"])) == "?"
    by_land = judged(cases.CASES[0].orders)
    assert list(by_land.theirs["retreats"]["GERMANY"]) == ["A BUR"]
    longer = [*by_land.theirs["retreats"]["GERMANY"]["A BUR"], "PAR"]
    assert deviations.explain(with_theirs(by_land, "GERMANY", A_BUR=longer)) == "?"


@pytest.mark.parametrize("name", ["B1", "B5", "C1"])
def test_the_orders_that_make_the_deviation_must_be_there(known, name):
    case, held = known[name], boards.no_orders(1)
    after, made = rules.resolve(case.before, held)
    assert deviations.explain(case._replace(orders=held, after=after, made=made)) == "?"


def test_units_that_differ_after_another_phase_have_no_cause(known):
    before = boards.start()
    before.phase[:] = boards.ADJUSTMENTS
    given = boards.no_orders(1)
    after, made = rules.resolve(before, given)
    theirs = states.to_state(after)
    case = deviations.Case(before, given, made, after, theirs, {})
    assert deviations.explain(case) == ""
    assert deviations.explain(with_theirs(case, "FRANCE", units=["A PAR"])) == "?"


def test_centres_that_differ_have_no_cause():
    case = judged(cases.CASES[0].orders)
    theirs = copy.deepcopy(case.theirs)
    theirs["centers"]["ITALY"] = ["NAP"]
    assert deviations.explain(case._replace(theirs=theirs)) == "?"


def test_the_fingerprint_names_position_and_orders(known):
    prints = [deviations.fingerprint(case) for case in known.values()]
    assert len(set(prints)) == 6 and all(re.fullmatch("[0-9a-f]{12}", text) for text in prints)
    again = judged(KNOWN["B4"].orders)
    assert deviations.fingerprint(again) == deviations.fingerprint(known["B4"])
    other = again.orders.copy()
    other.kind[0, again.before.unit[0] > 0] = boards.HOLD
    assert deviations.fingerprint(again._replace(orders=other)) not in prints
    moved = again.before.copy()
    moved.year[:] += 1
    assert deviations.fingerprint(again._replace(before=moved)) not in prints
    assert deviations.fingerprint(known["B4"]) == "49c2a872b7e0"
