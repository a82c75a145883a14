"""What the case study says of a phase: orders, outcomes and hands that are known beforehand."""

import dataclasses

import numpy as np
import pytest

from dipllm_lib.dip import (
    atlas,
    boards,
    case_study,
    case_words,
    game,
    legalise,
    orders,
    outcomes,
    policies,
    rules,
    states,
    value,
)
from dipllm_lib.run import profiles

SETTINGS = dataclasses.replace(
    profiles.load("smoke", 0).dip, search_iterations=2, search_candidates=4, search_draws=8
)


def record(name: str, units: dict, centres: dict, *rounds: dict) -> game.Game:
    """A game that begins in a given position; after the last round it is over."""
    positions = [states.from_state({"name": name, "units": units, "centers": centres})]
    given, results = [], []
    for texts in rounds:
        row = legalise.read_orders(positions[-1], 0, texts)
        after, made = rules.resolve(positions[-1], row)
        given.append(legalise.order_texts(positions[-1], row)[0])
        results.append(outcomes.words(positions[-1], row, made, after, 0))
        positions.append(after)
    positions[-1].phase[0] = boards.OVER
    everything = boards.Boards.concat(positions)
    return game.Game("set", (), 0, everything, [*given, {}], [*results, {}], "last_year")


class AsRecorded:
    """Six powers that surely do what the record says."""

    name = "recorded"

    def __init__(self, known: game.Game):
        self.known = known

    def sample(self, turn, n, rng):
        names = [boards.phase_name(self.known.boards, k) for k in range(self.known.boards.n)]
        return [self.known.joint(names.index(turn.phase), turn.power)] * n


def examined(known: game.Game, power: str, year: int) -> case_study.Case:
    soft = policies.SoftDumbBot(0.3, 0.05)
    end = game.EndRules(year)
    cast = case_study.Cast(soft, soft, AsRecorded(known), value.heuristic, end, SETTINGS)
    return case_study.examine(known, atlas.power(power), cast, 1, 0, 10)


def became(known: game.Game, k: int = 0) -> dict[str, str]:
    """Order text -> what became of it, where there is something to say."""
    everyone = case_words.acts(known, k)
    said = {orders.to_text(a.order): case_words.outcome(a, everyone) for a in everyone}
    return {text: words for text, words in said.items() if words}


CENTRES = {"FRANCE": ["PAR", "MAR"], "GERMANY": ["MUN", "KIE"], "ENGLAND": ["LON"]}


def test_outcomes_of_a_movement_phase_name_who_did_it():
    """Burgundy falls to two against one; Kiel bounces against an army that stays in Berlin; the
    supports from Silesia and Marseilles are cut and void; a fleet is beaten and breaks a convoy."""
    units = {
        "FRANCE": ["A PAR", "A PIC", "A MAR", "F BEL", "F BRE"],
        "GERMANY": ["A BUR", "A KIE", "A SIL"],
        "RUSSIA": ["A BER", "A WAR"],
        "ENGLAND": ["A LON", "F ENG"],
    }
    texts = {
        "FRANCE": [
            "A PAR - BUR", "A PIC S A PAR - BUR", "A MAR S A PAR - GAS",
            "F BEL - ENG", "F BRE S F BEL - ENG",
        ],
        "GERMANY": ["A BUR H", "A KIE - BER", "A SIL S A KIE - BER"],
        "RUSSIA": ["A BER H", "A WAR - SIL"],
        "ENGLAND": ["A LON - PIC VIA", "F ENG C A LON - PIC"],
    }  # fmt: skip
    known = record("S1905M", units, CENTRES, texts)
    assert became(known) == {
        "A PAR - BUR": "arrives",
        "F BEL - ENG": "arrives",
        "A MAR S A PAR - GAS": "helps no order that was given",
        "A BUR H": "is dislodged by France's army in Paris",
        "A KIE - BER": "bounces, Russia's army in Berlin stays there",
        "A SIL S A KIE - BER": "is cut by Russia's army in Warsaw",
        "A WAR - SIL": "bounces, Germany's army in Silesia stays there",
        "A LON - PIC VIA": "its convoy is broken",
        "F ENG C A LON - PIC": "is dislodged by France's fleet in Belgium",
    }


def test_a_support_that_is_beaten_is_not_cut_as_well():
    units = {"FRANCE": ["A PAR", "A MAR"], "GERMANY": ["A BUR", "A MUN"]}
    texts = {
        "FRANCE": ["A PAR - BUR", "A MAR S A PAR - BUR"],
        "GERMANY": ["A BUR S A MUN", "A MUN H"],
    }
    words = became(record("S1905M", units, CENTRES, texts))
    assert words["A BUR S A MUN"] == "is dislodged by France's army in Paris"


def test_an_army_without_a_fleet_keeps_nobody_out_and_an_occupant_is_named_too():
    units = {"ENGLAND": ["A LON", "F ENG"], "FRANCE": ["A PIC", "A PAR"], "GERMANY": ["A BEL"]}
    texts = {
        "ENGLAND": ["A LON - BEL VIA", "F ENG H"],
        "FRANCE": ["A PIC - BEL", "A PAR H"],
        "GERMANY": ["A BEL - PIC"],
    }
    words = became(record("S1905M", units, CENTRES, texts))
    assert words["A LON - BEL VIA"] == "no chain of fleets carries it"
    assert words["A PIC - BEL"] == "bounces, Germany's army in Belgium stays there"
    units = {"FRANCE": ["A PIC", "A BUR"], "GERMANY": ["A BEL"]}
    texts = {"FRANCE": ["A PIC - BEL", "A BUR - BEL"], "GERMANY": ["A BEL H"]}
    words = became(record("S1905M", units, CENTRES, texts))
    assert words["A PIC - BEL"] == (
        "bounces, France's army in Burgundy moves there too and Germany's army in Belgium stays "
        "there"
    )


def test_three_want_one_place_and_two_retreats_meet():
    units = {"FRANCE": ["A PAR"], "GERMANY": ["A MUN", "A RUH"], "ENGLAND": ["F LON"]}
    texts = {"FRANCE": ["A PAR - BUR"], "GERMANY": ["A MUN - BUR", "A RUH - BUR"]}
    words = became(record("S1905M", units, CENTRES, texts))
    assert words["A PAR - BUR"] == (
        "bounces, Germany's army in Munich and Germany's army in Ruhr move there too"
    )
    everyone = [
        case_words.Act(2, 0, boards.RETREAT, 1, 9, -1, ("bounce", "disband")),
        case_words.Act(3, 0, boards.RETREAT, 2, 9, -1, ("bounce", "disband")),
    ]
    assert case_words.outcome(everyone[0], everyone).endswith("moves there too, and disbands")
    assert case_words.listed(["a"]) == "a" and case_words.listed(["a", "b", "c"]) == "a, b and c"


def test_a_fall_is_told_from_the_record():
    """Germany takes Paris from France and loses Munich to Austria; it is the last count."""
    units = {
        "GERMANY": ["A BUR", "A PIC", "F KIE"],
        "FRANCE": ["A MAR", "F BRE"],
        "AUSTRIA": ["A BOH", "A TYR"],
        "ITALY": ["A ROM"],
    }
    centres = {
        "GERMANY": ["MUN", "KIE"],
        "FRANCE": ["PAR", "MAR", "BRE"],
        "AUSTRIA": ["VIE"],
        "ITALY": ["ROM"],
    }
    texts = {
        "GERMANY": ["A BUR S A PIC - PAR", "A PIC - PAR", "F KIE H"],
        "FRANCE": ["A MAR - BUR", "F BRE S A PIC"],
        "AUSTRIA": ["A BOH - MUN", "A TYR S A BOH - MUN"],
    }
    known = record("F1905M", units, centres, texts)
    case = examined(known, "GERMANY", 1905)
    words = case_words.tell(case, case.decisions[0])
    head, before, _, own, around, result, choice = words.split("\n\n")
    assert head == "### Fall 1905, movement: Germany"
    # Germany 2 centres, + 1/2 for nobody's: none; France 3, Austria 1, Italy 1
    assert before == (
        "**Before.** Germany has 2 centres and 3 units; the value net gives it 26.7 % of the sum "
        "of squares, place 2 of 7; France leads with 60.0 %."
    )
    assert own.split("\n") == [
        "- Army in Burgundy supports army in Picardy move to Paris: is cut by France's army in "
        "Marseilles.",
        "- Army in Picardy moves to Paris: arrives.",
        "- Fleet in Kiel holds.",
    ]
    assert around == (
        "**Around it.** Austria's army in Bohemia enters Munich, supported by Austria's army in "
        "Tyrolia; France's army in Marseilles tries to enter Burgundy."
    )
    # 4 : 4 : 4 : 1 of the squares of 2, 2, 2 and 1 centres
    assert result.startswith(
        "**What came of it.** It gains Paris (from France) and loses Munich (to Austria): 2 "
        "centres. The game is over. Its value goes from 26.7 % to 30.8 %, where "
    )
    assert result.endswith("0.0 points by what the others did.")
    row = case.decisions[0].table.iloc[case.decisions[0].played]
    assert f"target {100 * row['target']:.1f} %, model {100 * row['pi']:.1f} %" in choice


def test_the_choice_names_what_was_different():
    known = record(
        "S1905M",
        {"GERMANY": ["A MUN", "F KIE"], "FRANCE": ["A MAR"]},
        CENTRES,
        {"GERMANY": ["A MUN H", "F KIE - HOL"]},
    )
    (decision,) = examined(known, "GERMANY", 1905).decisions
    turn = decision.turn
    played, other, third = (
        orders.parse_joint(turn, list(texts))
        for texts in (("A MUN H", "F KIE - HOL"), ("A MUN - BUR", "F KIE - HOL"),
                      ("A MUN - BUR", "F KIE - DEN"))
    )  # fmt: skip
    table = decision.table.iloc[:1].loc[[0, 0, 0]].reset_index(drop=True)
    table = table.assign(
        target=[0.5, 0.3, 0.2], pi=[0.1, 0.2, 0.3], tau=[0.4, 0.5, 0.6], q=[1.0, 1, 1],
        hindsight=[0.25, 0.2, 0.3], played=[False, True, False],
    )  # fmt: skip
    joints = (other, played, third)
    here = dataclasses.replace(decision, joints=joints, table=table)
    assert case_words.choice(here) == (
        "Its orders are the target's 2nd choice of 3: target 30.0 %, model 20.0 %, anchor 50.0 %. "
        "The target's first choice (target 50.0 %, model 10.0 %, anchor 40.0 %) has instead: army "
        "in Munich moves to Burgundy. Against what the others did it would have led to 25.0 % "
        "instead of 20.0 %. Best in hindsight was the target's 3rd choice, 30.0 %, with army in "
        "Munich moves to Burgundy; fleet in Kiel moves to Denmark."
    )
    outside = table.assign(q=[1.0, np.nan, 1], hindsight=0.2).loc[[0, 2, 1]].reset_index(drop=True)
    here = dataclasses.replace(here, joints=(other, third, played), table=outside)
    assert case_words.choice(here).startswith("Its orders are none of the 2 candidates of the")
    assert case_words.choice(here).endswith("it would have led to the same value, 20.0 %.")


def test_a_power_that_is_out_has_no_more_phases():
    """Germany's last army is beaten in spring with no way out; the game goes on to the fall."""
    units = {"FRANCE": ["A BUR", "A RUH", "A KIE", "A BER", "A SIL"], "GERMANY": ["A MUN"]}
    centres = {"FRANCE": ["PAR", "MUN", "KIE", "BER", "MAR"], "AUSTRIA": ["VIE", "BUD"]}
    units["AUSTRIA"] = ["A BOH", "A TYR"]
    attack = {"FRANCE": ["A BUR - MUN", "A RUH S A BUR - MUN"]}
    case = examined(record("S1905M", units, centres, attack, {}), "GERMANY", 1905)
    assert case.account["phase"].tolist() == ["S1905M"] == [d.phase for d in case.decisions]
    row = case.account.iloc[0]
    # 5 centres of France, 2 of Austria; Munich is France's under a German army
    assert row["before"] == pytest.approx(0.5**2 / (0.5**2 + 4.5**2 + 2**2))
    assert row["after"] == 0 and row["others"] == 0
    words = case_words.tell(case, case.decisions[0])
    assert "is dislodged by France's army in Burgundy, has nowhere to go and disbands." in words
    assert "It is out of the game." in words


def test_numbers_in_words():
    assert [case_words.ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th",
    ]  # fmt: skip
    assert case_words.points(-0.0121) == "−1.2 points"
    assert case_words.points(-0.0001) == case_words.points(0.0) == "0.0 points"
    assert case_words.share(0.1234) == "12.3 %"
    assert case_words.counted(1, "unit") == "1 unit" and case_words.counted(0, "unit") == "0 units"
