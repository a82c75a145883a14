"""Movement by hand: the situations of the test cases with their outcomes, and what the package
makes of its known faults.

A situation is one text, powers separated by `|`; the units are those that the orders name. The
outcome lists, in the same form, who stands where; a dislodged unit has a star and its retreats, a
unit removed at once is missing.
"""

import pytest

from dipllm_lib.dip import atlas, boards, deviations, legalise, outcomes, replay, rules, states

NAMES = {name[:3]: name for name in atlas.POWERS}


def parse(text: str) -> dict[str, list[str]]:
    """`FRA A PAR - BUR, A MAR H | GER A MUN - BUR` as power name -> texts."""
    result = {}
    for part in text.replace("\n", " ").split("|"):
        name, _, rest = " ".join(part.split()).partition(" ")
        result[NAMES[name]] = [piece.strip() for piece in rest.split(",")]
    return result


def position(orders: dict[str, list[str]], phase: str = "S1905M") -> boards.Boards:
    units = {name: [" ".join(text.split()[:2]) for text in texts] for name, texts in orders.items()}
    return states.from_state({"name": phase, "units": units, "centers": {}})


def resolve(text: str, choices=rules.PACKAGE):
    given = parse(text)
    before = position(given)
    orders = legalise.read_orders(before, 0, given)
    after, made = rules.resolve(before, orders, choices=choices)
    assert made.counts[0, 2] == 0
    return before, orders, made, after


def outcome(text: str, choices=rules.PACKAGE) -> str:
    after = resolve(text, choices)[3]
    state, parts = states.to_state(after), []
    for name in atlas.POWERS:
        dislodged = state["retreats"][name]
        units = [
            f"{unit} ({' '.join(dislodged[unit[1:]])})" if unit[0] == "*" else unit
            for unit in state["units"][name]
        ]
        if units:
            parts.append(f"{name[:3]} {', '.join(units)}")
    return " | ".join(parts)


def words(text: str) -> dict[str, str]:
    before, orders, made, after = resolve(text)
    found = outcomes.words(before, orders, made, after, 0)
    return {unit: " ".join(these) for unit, these in found.items() if these}


# name, orders, outcome
MOVEMENT = [
    (
        "6.C.1 three move in a circle",
        "TUR F ANK - CON, A CON - SMY, A SMY - ANK",
        "TUR A ANK, A SMY, F CON",
    ),
    (
        "6.C.3 a bounce stops the circle",
        "TUR F ANK - CON, A CON - SMY, A SMY - ANK, A BUL - CON",
        "TUR A BUL, A CON, A SMY, F ANK",
    ),
    (
        "6.C.4 an attacked convoy still closes the circle",
        "AUS A TRI - SER, A SER - BUL | ITA F NAP - ION | TUR A BUL - TRI, F AEG C A BUL - TRI, "
        "F ION C A BUL - TRI, F ADR C A BUL - TRI",
        "AUS A BUL, A SER | ITA F NAP | TUR A TRI, F ADR, F AEG, F ION",
    ),
    (
        "6.C.5 a disrupted convoy stops the circle",
        "AUS A TRI - SER, A SER - BUL | ITA F NAP - ION, F TUN S F NAP - ION | TUR A BUL - TRI, "
        "F AEG C A BUL - TRI, F ION C A BUL - TRI, F ADR C A BUL - TRI",
        "AUS A SER, A TRI | ITA F ION, F TUN | TUR *F ION (ALB APU EAS GRE TYS), A BUL, F ADR, "
        "F AEG",
    ),
    (
        "6.C.6 two armies swap by two convoys",
        "ENG F NTH C A LON - BEL, A LON - BEL | FRA F ENG C A BEL - LON, A BEL - LON",
        "ENG A BEL, F NTH | FRA A LON, F ENG",
    ),
    (
        "6.C.7 a third army stops the swap",
        "ENG F NTH C A LON - BEL, A LON - BEL | FRA F ENG C A BEL - LON, A BEL - LON, A BUR - BEL",
        "ENG A LON, F NTH | FRA A BEL, A BUR, F ENG",
    ),
    (
        "6.D.1 a supported hold",
        "AUS F ADR S A TRI - VEN, A TRI - VEN | ITA A VEN H, A TYR S A VEN",
        "AUS A TRI, F ADR | ITA A TYR, A VEN",
    ),
    (
        "6.D.2 a move cuts support of a hold",
        "AUS F ADR S A TRI - VEN, A TRI - VEN, A VIE - TYR | ITA A VEN H, A TYR S A VEN",
        "AUS A VEN, A VIE, F ADR | ITA *A VEN (APU PIE ROM TUS), A TYR",
    ),
    (
        "6.D.3 a move cuts support of a move",
        "AUS F ADR S A TRI - VEN, A TRI - VEN | ITA A VEN H, F ION - ADR",
        "AUS A TRI, F ADR | ITA A VEN, F ION",
    ),
    (
        "6.D.4 support of a supporting unit",
        "GER A BER S F KIE, F KIE S A BER | RUS F BAL S A PRU - BER, A PRU - BER",
        "GER A BER, F KIE | RUS A PRU, F BAL",
    ),
    (
        "6.D.10 no unit dislodges one of its own power",
        "GER A BER H, F KIE - BER, A MUN S F KIE - BER",
        "GER A BER, A MUN, F KIE",
    ),
    (
        "6.D.11 nor one that bounces back",
        "GER A BER - PRU, F KIE - BER, A MUN S F KIE - BER | RUS A WAR - PRU",
        "GER A BER, A MUN, F KIE | RUS A WAR",
    ),
    (
        "6.D.12 no support for an attack on the own unit",
        "AUS F TRI H, A VIE S A VEN - TRI | ITA A VEN - TRI",
        "AUS A VIE, F TRI | ITA A VEN",
    ),
    (
        "6.D.15 the attacked unit does not cut the attack",
        "RUS F CON S F BLA - ANK, F BLA - ANK | TUR F ANK - CON",
        "RUS F ANK, F CON | TUR *F ANK (ARM)",
    ),
    (
        "6.D.17 but dislodging the supporter does",
        "RUS F CON S F BLA - ANK, F BLA - ANK | TUR F ANK - CON, A SMY S F ANK - CON, A ARM - ANK",
        "RUS *F CON (AEG BUL/EC BUL/SC), F BLA | TUR A ARM, A SMY, F CON",
    ),
    (
        "6.E.1 a dislodged loser does not bounce where its attacker came from",
        "GER A BER - PRU, F KIE - BER, A SIL S A BER - PRU | RUS A PRU - BER",
        "GER A PRU, A SIL, F BER | RUS *A PRU (LVN WAR)",
    ),
    (
        "6.E.2 two own units head to head",
        "GER A BER - KIE, F KIE - BER, A MUN S A BER - KIE",
        "GER A BER, A MUN, F KIE",
    ),
    (
        "6.E.3 no help in dislodging the own unit",
        "GER A BER - KIE, A MUN S F KIE - BER | ENG F KIE - BER",
        "ENG F KIE | GER A BER, A MUN",
    ),
    (
        "6.E.4 a loser that stays keeps others out",
        "GER F HOL - NTH, F HEL S F HOL - NTH, F SKA S F HOL - NTH | FRA F NTH - HOL, F BEL S F "
        "NTH - HOL | ENG F EDI S F NWG - NTH, F YOR S F NWG - NTH, F NWG - NTH | AUS A KIE S A "
        "RUH - HOL, A RUH - HOL",
        "AUS A KIE, A RUH | ENG F EDI, F NWG, F YOR | FRA F BEL, F NTH | GER F HEL, F HOL, F SKA",
    ),
    (
        "6.E.5 one dislodged by a third power too",
        "GER F HOL - NTH, F HEL S F HOL - NTH, F SKA S F HOL - NTH | FRA F NTH - HOL, F BEL S F "
        "NTH - HOL | ENG F EDI S F NWG - NTH, F YOR S F NWG - NTH, F LON S F NWG - NTH, F NWG - "
        "NTH | AUS A KIE S A RUH - HOL, A RUH - HOL",
        "AUS A KIE, A RUH | ENG F EDI, F LON, F NTH, F YOR | FRA *F NTH (DEN ENG NWY), F BEL | "
        "GER F HEL, F HOL, F SKA",
    ),
    (
        "6.E.7 a beleaguered garrison whose own power helps one side",
        "ENG F NTH H, F YOR S F NWY - NTH | GER F HOL S F HEL - NTH, F HEL - NTH | RUS F SKA S "
        "F NWY - NTH, F NWY - NTH",
        "ENG F NTH, F YOR | GER F HEL, F HOL | RUS F NWY, F SKA",
    ),
    (
        "6.E.15 nobody gets through",
        "ENG F HOL S A RUH - KIE, A RUH - KIE | FRA A KIE - BER, A MUN S A KIE - BER, A SIL S A "
        "KIE - BER | GER A BER - KIE, F DEN S A BER - KIE, F HEL S A BER - KIE | RUS F BAL S A "
        "PRU - BER, A PRU - BER",
        "ENG A RUH, F HOL | FRA A KIE, A MUN, A SIL | GER A BER, F DEN, F HEL | RUS A PRU, F BAL",
    ),
    (
        "6.F.4 an attack alone does not disrupt",
        "ENG F NTH C A LON - HOL, A LON - HOL | GER F SKA - NTH",
        "ENG A HOL, F NTH | GER F SKA",
    ),
    (
        "6.F.6 a disrupted convoy cuts nothing",
        "ENG F NTH C A LON - HOL, A LON - HOL | GER A HOL S A BEL, A BEL S A HOL, F HEL S F SKA "
        "- NTH, F SKA - NTH | FRA A PIC - BEL, A BUR S A PIC - BEL",
        "ENG *F NTH (DEN EDI ENG NWG NWY YOR), A LON | FRA A BUR, A PIC | GER A BEL, A HOL, F "
        "HEL, F NTH",
    ),
    (
        "6.F.8 and bounces nobody",
        "ENG F NTH C A LON - HOL, A LON - HOL | GER F HEL S F SKA - NTH, F SKA - NTH, A BEL - HOL",
        "ENG *F NTH (BEL DEN EDI ENG NWG NWY YOR), A LON | GER A HOL, F HEL, F NTH",
    ),
    (
        "6.F.14 a convoy does not cut the support against its own fleet",
        "ENG F LON S F WAL - ENG, F WAL - ENG | FRA A BRE - LON, F ENG C A BRE - LON",
        "ENG F ENG, F LON | FRA *F ENG (BEL IRI MAO NTH PIC), A BRE",
    ),
    (
        "6.F.16 Pandin's paradox",
        "ENG F LON S F WAL - ENG, F WAL - ENG | FRA A BRE - LON, F ENG C A BRE - LON | GER F "
        "NTH S F BEL - ENG, F BEL - ENG",
        "ENG F LON, F WAL | FRA A BRE, F ENG | GER F BEL, F NTH",
    ),
    (
        "6.G.1 an own fleet shows the intent to convoy",
        "ENG A NWY - SWE, F SKA C A NWY - SWE | RUS A SWE - NWY",
        "ENG A SWE, F SKA | RUS A NWY",
    ),
    (
        "6.G.2 a foreign fleet does not kidnap",
        "ENG A NWY - SWE | RUS F SWE - NWY | GER F SKA C A NWY - SWE",
        "ENG A NWY | GER F SKA | RUS F SWE",
    ),
    (
        "the written word decides",
        "ENG A NWY - SWE VIA | RUS F SWE - NWY | GER F SKA C A NWY - SWE",
        "ENG A SWE | GER F SKA | RUS F NWY",
    ),
    (
        "6.B.7 a support without coast helps",
        "FRA F GAS - SPA/NC, F POR S F GAS - SPA | ITA F MAO - SPA/NC",
        "FRA F POR, F SPA/NC | ITA F MAO",
    ),
    (
        "6.B.9 a support for the other coast does not",
        "FRA F MAO - SPA/NC, F POR S F MAO - SPA/SC | ITA F WES - SPA/SC",
        "FRA F MAO, F POR | ITA F WES",
    ),
    (
        "B1 between provinces apart: the package is right if VIA is left out",
        "FRA A RUM - CON VIA | TUR F BLA C A RUM - CON, A CON H, A ANK S A RUM - CON",
        "FRA A RUM | TUR A ANK, A CON, F BLA",
    ),
]

# the five faults of the package with the right outcome, and a paradox that it resolves otherwise
DEVIATIONS = [
    (
        "B1",
        "FRA A BUL - CON VIA | TUR F BLA C A BUL - CON, A CON H, A ANK S A BUL - CON",
        "FRA A BUL | TUR A ANK, A CON, F BLA",
    ),
    (
        "B2",
        "ENG A LON - BEL | GER F NTH C A LON - BEL, F DEN S F SKA - NTH | RUS F SKA - NTH",
        "ENG A BEL | GER F DEN, F NTH | RUS F SKA",
    ),
    (
        "B3",
        "ENG A LON - BEL VIA, F NTH C A LON - BEL, F ENG S A LON - BEL | FRA A BEL H | GER A "
        "KIE - HOL | AUS A RUH - HOL",
        "AUS A RUH | ENG A BEL, F ENG, F NTH | FRA *A BEL (BUR PIC) | GER A KIE",
    ),
    (
        "B4",
        "ENG F MAO C A BRE - SPA | RUS A BRE - SPA | TUR F LYO S A BRE - SPA | ITA F SPA/NC S F "
        "MAO | FRA F NAF - MAO, A GAS - SPA",
        "ENG F MAO | FRA A GAS, F NAF | ITA *F SPA/NC (POR) | RUS A SPA | TUR F LYO",
    ),
    (
        "B5",
        "RUS A LVN - PRU, F BOT S F PRU - LVN | GER F PRU - LVN, F BER S A LVN - PRU | FRA A "
        "WAR S A LVN - PRU",
        "FRA A WAR | GER F BER, F PRU | RUS A LVN, F BOT",
    ),
    (
        "C1",
        "ITA F ENG C A BRE - PIC, A BRE - PIC | AUS F NTH - ENG | FRA F WAL S F NTH - ENG | GER "
        "F PIC S F ENG",
        "AUS F NTH | FRA F WAL | GER F PIC | ITA A BRE, F ENG",
    ),
]


@pytest.mark.parametrize(("name", "text", "expected"), MOVEMENT + DEVIATIONS, ids=lambda x: x[:40])
def test_movement(name, text, expected):
    assert outcome(text) == expected


@pytest.mark.parametrize(("name", "text", "expected"), DEVIATIONS, ids=lambda x: x[:2])
def test_the_package_deviates_by_the_named_cause(name, text, expected):
    before, orders, made, after = resolve(text)
    theirs, theirs_words = replay.run(replay.official_game(), before, orders)
    case = deviations.Case(before, orders, made, after, theirs, theirs_words)
    assert deviations.explain(case) == name


@pytest.mark.parametrize(("name", "text", "expected"), MOVEMENT, ids=lambda x: x[:40])
def test_the_package_agrees_on_the_others(name, text, expected):
    before, orders, made, after = resolve(text)
    theirs, theirs_words = replay.run(replay.official_game(), before, orders)
    case = deviations.Case(before, orders, made, after, theirs, theirs_words)
    assert deviations.explain(case) == ""


def test_choices():
    alone = "FRA A BEL - HOL VIA | ENG F NTH H"  # 6.G.8: nobody convoys
    assert outcome(alone) == "ENG F NTH | FRA A HOL"
    assert outcome(alone, rules.DATC3) == "ENG F NTH | FRA A BEL"
    broken = "ENG A NWY - SWE, F SKA C A NWY - SWE | RUS F NTH - SKA, F DEN S F NTH - SKA"  # 4.A.3
    assert outcome(broken).startswith("ENG *F SKA (") and "A SWE" in outcome(broken)
    assert "A NWY" in outcome(broken, rules.DATC3)
    swap = "ENG A NWY - SWE, F SKA C A NWY - SWE | RUS A SWE - NWY"
    assert outcome(swap, rules.Choices(convoy_intent="via_only")) == "ENG A NWY, F SKA | RUS A SWE"
    wrong = "FRA F MAO - SPA/NC, F POR S F MAO - SPA/SC | ITA F WES - SPA/SC"
    ignore = rules.Choices(support_coast="ignore")
    assert outcome(wrong, ignore) == "FRA F POR, F SPA/NC | ITA F WES"
    with pytest.raises(ValueError, match="civil_disorder='none': must be one of home, owned"):
        rules.Choices(civil_disorder="none")


def test_result_words():
    cut = "AUS F ADR S A TRI - VEN, A TRI - VEN, A VIE - TYR | ITA A VEN H, A TYR S A VEN"
    assert words(cut) == {
        "A VEN": "dislodged", "A TYR": "cut", "A VIE": "bounce",
    }  # fmt: skip
    assert words("ENG F NTH C A LON - HOL, A LON - HOL | GER F HEL S F SKA - NTH, F SKA - NTH") == {
        "F NTH": "dislodged", "A LON": "disrupted",
    }  # fmt: skip
    assert words("ENG A LON - HOL, F NTH H, F ENG S F NTH | GER A RUH S A KIE - HOL, A KIE H") == {
        "A LON": "no convoy", "A RUH": "void",
    }  # fmt: skip


def test_a_unit_without_a_retreat_is_removed_at_once():
    # F ANK may only go to ARM (occupied), CON and BLA are the attackers'
    text = "RUS F CON S F BLA - ANK, F BLA - ANK, A ARM H | TUR F ANK H"
    assert outcome(text) == "RUS A ARM, F ANK, F CON"
    assert words(text) == {"F ANK": "dislodged disband"}
    assert boards.phase_name(resolve(text)[3]) == "F1905M"


def test_contested_places_are_closed_with_all_coasts():
    text = (
        "ITA F WES - SPA/SC, F LYO S F ENG - MAO | FRA F MAO H, A GAS - SPA | "
        "ENG F ENG - MAO, F IRI S F ENG - MAO"
    )
    assert outcome(text.replace("F LYO S F ENG - MAO", "F LYO H")) == (
        "ENG F IRI, F MAO | FRA *F MAO (BRE NAF NAO POR), A GAS | ITA F LYO, F WES"
    )


def test_a_convoyed_attacker_blocks_no_retreat():
    # 6.H.11: dislodged by an adjacent army that came by convoy, the unit may go where it came from
    text = (
        "FRA A GAS - MAR VIA, A BUR S A GAS - MAR, F MAO C A GAS - MAR, F WES C A GAS - MAR, "
        "F LYO C A GAS - MAR | ITA A MAR H"
    )
    assert "ITA *A MAR (GAS PIE SPA)" in outcome(text)
    by_land = "FRA A GAS - MAR, A BUR S A GAS - MAR | ITA A MAR H"
    assert "ITA *A MAR (PIE SPA)" in outcome(by_land)
