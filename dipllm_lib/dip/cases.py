"""Situations with a known outcome, adjudicated here and by the package `diplomacy` 1.1.2.

Each case is a fall movement phase without supply centres: the orders name the units. `right` is the
outcome by the rules, worked out by hand: who moved, who was dislodged and where it may retreat to.
The first cases are common ground; B1 to B5 are the package's five faults (see `deviations`).
"""

from typing import NamedTuple

import pandas as pd

from dipllm_lib.dip import atlas, boards, game, legalise, outcomes, policies, replay, rules, states
from dipllm_lib.dip.boards import Boards


class Case(NamedTuple):
    """orders: power name -> texts; right: the outcome in the words of `outcome`."""

    name: str
    orders: dict[str, list[str]]
    right: str


CASES = (
    Case(
        "support beats a lone defender",
        {"FRANCE": ["A PAR - BUR", "A MAR S A PAR - BUR"], "GERMANY": ["A BUR H"]},
        "A PAR - BUR; A BUR dislodged (BEL GAS MUN PIC RUH)",
    ),
    Case(
        "a support is cut",
        {
            "FRANCE": ["A PAR - BUR", "A MAR S A PAR - BUR"],
            "GERMANY": ["A BUR H"],
            "ITALY": ["A PIE - MAR"],
        },
        "nobody moves",
    ),
    Case(
        "three armies change places",
        {"TURKEY": ["F ANK - CON", "A CON - SMY", "A SMY - ANK"]},
        "A CON - SMY; A SMY - ANK; F ANK - CON",
    ),
    Case(
        "a besieged unit stays: two equal attacks",
        {
            "ENGLAND": ["F NTH H"],
            "GERMANY": ["F HOL - NTH", "F HEL S F HOL - NTH"],
            "RUSSIA": ["F SKA - NTH", "F NWY S F SKA - NTH"],
        },
        "nobody moves",
    ),
    Case(
        "a convoyed attack cannot cut the support against its own fleet",
        {
            "ENGLAND": ["F LON S F WAL - ENG", "F WAL - ENG"],
            "FRANCE": ["A BRE - LON", "F ENG C A BRE - LON"],
        },
        "F WAL - ENG; F ENG dislodged (BEL IRI MAO NTH PIC)",
    ),
    Case(
        "B1 support by the occupant's own power, move via convoy",
        {
            "FRANCE": ["A RUM - CON VIA"],
            "TURKEY": ["F BLA C A RUM - CON", "A CON H", "A ANK S A RUM - CON"],
        },
        "nobody moves",
    ),
    Case(
        "B2 own support and a convoying fleet",
        {
            "ENGLAND": ["A LON - BEL"],
            "GERMANY": ["F NTH C A LON - BEL", "F DEN S F SKA - NTH"],
            "RUSSIA": ["F SKA - NTH"],
        },
        "A LON - BEL",
    ),
    Case(
        "B3 retreats after a dislodgement by convoy",
        {
            "ENGLAND": ["A LON - BEL VIA", "F NTH C A LON - BEL", "F ENG S A LON - BEL"],
            "FRANCE": ["A BEL H"],
            "GERMANY": ["A KIE - HOL"],
            "AUSTRIA": ["A RUH - HOL"],
        },
        "A LON - BEL; A BEL dislodged (BUR PIC)",
    ),
    Case(
        "B4 a paradox that is none",
        {
            "ENGLAND": ["F MAO C A BRE - SPA"],
            "RUSSIA": ["A BRE - SPA"],
            "TURKEY": ["F LYO S A BRE - SPA"],
            "ITALY": ["F SPA/NC S F MAO"],
            "FRANCE": ["F NAF - MAO", "A GAS - SPA"],
        },
        "A BRE - SPA; F SPA/NC dislodged (POR)",
    ),
    Case(
        "B5 head-to-head, each supported by the other's power",
        {
            "RUSSIA": ["A LVN - PRU", "F BOT S F PRU - LVN"],
            "GERMANY": ["F PRU - LVN", "F BER S A LVN - PRU"],
            "FRANCE": ["A WAR S A LVN - PRU"],
        },
        "nobody moves",
    ),
)

# where the package departs by choice: there A BRE walks, and F ENG is dislodged
C1 = Case(
    "C1 a paradox around a convoy between neighbours",
    {
        "ITALY": ["F ENG C A BRE - PIC", "A BRE - PIC"],
        "AUSTRIA": ["F NTH - ENG"],
        "FRANCE": ["F WAL S F NTH - ENG"],
        "GERMANY": ["F PIC S F ENG"],
    },
    "nobody moves",
)


def position(orders: dict[str, list[str]]) -> Boards:
    """Fall 1901 with exactly the units that the orders name and no owned centre."""
    b = boards.empty(1)
    b.year[0], b.phase[0] = boards.FIRST_YEAR, boards.FALL_MOVES
    for name, texts in orders.items():
        for text in texts:
            unit, place = boards.parse_unit(" ".join(text.split()[:2]))
            p = atlas.PROV_OF[place]
            b.unit[0, p], b.loc[0, p], b.power[0, p] = unit, place, atlas.power(name)
    return b


def outcome(orders: dict[str, list[str]], words: dict[str, list[str]], state: dict) -> str:
    """The moves without a result word, and the dislodged units with their retreats."""
    moves = [
        text.removesuffix(" VIA")
        for texts in orders.values()
        for text in texts
        if text.split()[2] == "-" and not words.get(" ".join(text.split()[:2]))
    ]
    retreats = {u: sorted(r) for units in state["retreats"].values() for u, r in units.items()}
    gone = [f"{unit} dislodged ({' '.join(retreats[unit])})" for unit in sorted(retreats)]
    return "; ".join(sorted(moves) + gone) or "nobody moves"


def table() -> pd.DataFrame:
    """One row per case: situation, right, ours, package."""
    official, rows = replay.official_game(), []
    for case in CASES:
        before = position(case.orders)
        given = legalise.read_orders(before, 0, case.orders)
        after, made = rules.resolve(before, given)
        ours = outcomes.words(before, given, made, after, 0)
        theirs, words = replay.process(official, before, case.orders)
        rows.append({
            "situation": case.name,
            "right": case.right,
            "ours": outcome(case.orders, ours, states.to_state(after)),
            "package": outcome(case.orders, words, theirs),
        })
    return pd.DataFrame(rows)


def random_games(count: int, seed: int, last_year: int = 1904) -> list[game.Game]:
    """Games of uniformly random legal orders, many supports and convoys among them."""
    end = game.EndRules(last_year=last_year)
    player = policies.RandomLegal()
    names = [("overview", number) for number in range(count)]
    return game.play([[player] * atlas.N_POWERS] * count, seed, names, end)
