"""Claims of study 1 (Xu et al. 2025) about games: tables 1, 2, 6, figures 4, 5, 6, cost.

Unit: points of SoS, the share of the sum of squares in %, against six opponents of one kind.
Opponents are anchors where the paper has six DipNet or Cicero; ours against RandomLegal stand
beside them where notebook 10 has them.
"""

import math
import re

import pandas as pd

from dipllm_lib.run import claim_rows, claims_dip, grades
from dipllm_lib.run.claim_rows import Ledger, every, exact, games, interval, minus, one
from dipllm_lib.run.claims_dip import PAR
from dipllm_lib.run.grades import OURS, TEXT, Claim, Effect, Found, Load, Region

POINTS = "points of SoS"
TABLE_6 = {5: 1.4, 10: 3.5}  # points that iterations on top add, from 16.7
FIRST_YEARS = "games end before a solo is likely, so shares of wins are not comparable"


def alone(ledger: Ledger) -> None:
    """C4: one model against six anchors, and in the population of five players."""
    row = one(ledger.table("11_population"), agent="lm")
    said = Claim(
        "C4a",
        "the tuned model beats its anchor",
        "Fig. 4",
        "% SoS",
        Effect(PAR, stated=29.4),
        "11_population",
        "29.4",
    )
    ledger.add(said, games(row, "sos"))
    table = ledger.table("11_table1")
    for key, column, stated, side in (
        ("C4b", "sos", 2.2, 1),
        ("C4c", "survived", 0.2, 1),
        ("C4d", "defeated", -2.0, -1),
    ):
        part = every(table, column=column).dropna(subset="ours").set_index("agent")
        word = {"sos": "SoS", "survived": "games survived", "defeated": "games lost"}[column]
        found = minus(interval(part.loc["lm"], "ours"), interval(part.loc["search"], "ours"))
        text = f"in a population the model is ahead of the searching player in {word}"
        said = Claim(
            key,
            text,
            "Table 1",
            "points",
            Effect(0.0, side, stated),
            "11_table1",
            f"{stated:g}",
            note="search in place of Cicero; not paired",
        )
        ledger.add(said, Found(*found, f"{part.loc['lm', 'games']:.0f} games", 1))
    said = Claim(
        "C4e",
        "in a population it is ahead in wins and in most supply centres",
        "Table 1",
        "points",
        None,
        "–",
        "1.8 and 0.6",
    )
    ledger.add(*claim_rows.untested(said, FIRST_YEARS))


def amounts(ledger: Ledger) -> None:
    """C7: games to learn from."""
    names = {"scratch lm": "the model", "anchor tuned": "the anchor's net"}
    letters = iter("abcdefgh")
    for row in ledger.table("10_slopes").itertuples():
        weak = row.opponents != "anchor"
        text = f"more games make {names[row.agent]} stronger, from {row.least} games on"
        text += " (against RandomLegal)" * weak
        said = Claim(
            f"C7{next(letters)}",
            text,
            "Fig. 6",
            "points per log(1 + games)",
            Effect(),
            "10_slopes",
            "–" if weak else "rises",
            OURS if weak else TEXT,
        )
        ledger.add(said, Found(row.slope, row.low, row.high, f"{row.arms} amounts", row.arms))
    table = ledger.table("10_amounts").dropna(subset="ours")
    last = table.groupby("agent").last()
    found = minus(*(interval(last.loc[name], "ours") for name in names))
    said = Claim(
        "C7i",
        "with all games the model is ahead of the anchor's net on the same games",
        "Fig. 6",
        POINTS,
        Effect(stated=6.7),
        "10_amounts",
        "6.7",
        note="not paired",
    )
    ledger.add(said, Found(*found, f"{last.loc['scratch lm', 'games']:.0f} games", 1))


def factors(ledger: Ledger) -> None:
    """C8: the steps of Table 2."""
    steps = (
        ("FT of texts", 0.6, "tuning whole texts gains"),
        ("AF without FT", 9.1, "factorisation gains"),
        ("FT with AF", 19.5, "tuning on top of it gains"),
        ("units know each other", None, "orders that know each other gain over independent ones"),
    )
    letters = iter("abcdefgh")
    for opponents in ("anchor", "RandomLegal"):
        rows = every(ledger.table("10_steps"), opponents=opponents)
        for contrast, stated, text in steps:
            weak = opponents != "anchor"
            said = Claim(
                f"C8{next(letters)}",
                text + " (against RandomLegal)" * weak,
                "Table 2",
                POINTS,
                Effect(stated=None if weak else stated),
                "10_steps",
                "–" if weak or not stated else f"{stated:g}",
                OURS if weak or not stated else TEXT,
            )
            ledger.add(said, games(one(rows, contrast=contrast)))


def searching(ledger: Ledger) -> None:
    """C9 and C10: a search on top, and opponents that search."""
    table = ledger.table("10_lifts")
    rows = table[table["contrast"].str.fullmatch(r"list, search \d+ − list")]
    for part, row in zip("abcdef", rows.to_dict("records"), strict=False):
        steps = int(row["first"].split()[-1])
        stated = TABLE_6.get(steps)
        said = Claim(
            f"C9{part}",
            f"{steps} search iterations on top gain",
            "Table 6",
            POINTS,
            Effect(stated=stated),
            "10_lifts",
            f"{stated:g}" if stated else "–",
        )
        ledger.add(said, games(pd.Series(row)))
    for row in every(ledger.table("11_iterations"), column="sos").to_dict("records"):
        stated = None if math.isnan(row["paper"]) else row["paper"]
        said = Claim(
            f"C10.{int(row['row'])}",
            f"above par against {int(row['row'])} iterations",
            "Fig. 5",
            "% SoS",
            Effect(PAR, stated=stated),
            "11_iterations",
            f"{stated:g}" if stated else "–",
            TEXT if stated else OURS,
            "" if stated else "the games of C4a",
        )
        ledger.add(said, games(pd.Series(row), "ours"))


def legality(ledger: Ledger) -> None:
    """L: orders that were played, and free text."""
    table = ledger.table("11_legality")
    found = Found(
        *exact((table["orders"] - table["legal"]).sum()), f"{table['orders'].sum()} orders"
    )
    said = Claim(
        "La",
        "every order that is played is legal",
        "appendix B",
        "illegal orders",
        Region(0, 0.5, 0.0),
        "11_legality",
        "0, by retries",
        note="here nothing illegal can be said",
    )
    ledger.add(said, found)
    row = one(ledger.table("11_free_text"), agent="lm")
    said = Claim(
        "Lb",
        "free text of the tuned model is legal, whole turns",
        "specification",
        "share of turns",
        Region(0.5, 1.0),
        "11_free_text",
        of=OURS,
        note="our line: half of them",
    )
    ledger.add(said, Found(*exact(row["whole"]), f"{row['turns']} power-turns", 1))


def not_played(ledger: Ledger) -> None:
    """What has no counterpart here, and one number that arithmetic decides."""
    cannot = "its opponents' weights are not part of this artifact"
    listed = (
        ("N1", "SoS against six Cicero, DORA, DNVI, Prompt, SFT", "Fig. 4", "16.7 to 89.0", cannot),
        ("N2", "SoS with commercial models", "Table 5", "60.7", "commercial models are not run"),
        ("N3", "1.5 % of the games of Cicero", "Fig. 1", "1.5",
         "no common unit; the other number is an estimate from GPU use"),
        ("N4", "500 games are enough", "Fig. 6", "29.0", "fewer games, other opponents: see C7"),
    )  # fmt: skip
    for key, text, where, stated, reason in listed:
        ledger.add(*claim_rows.untested(Claim(key, text, where, "–", None, "–", stated), reason))
    size = 34 * math.log10(26)
    said = Claim(
        "N5",
        "one player has up to 10^64 joint orders (34 units, 26 orders each)",
        "section 2",
        "power of ten",
        Region(63.5, 64.5, 64.0),
        "arithmetic",
        "64",
        note="it may be meant for all powers together",
    )
    ledger.add(said, Found(*exact(size), "26^34"))


def timing(load: Load) -> list[dict]:
    """C11 apart: a time differs from run to run."""
    ledger = Ledger("1", load)
    row = one(ledger.table("11_cost"), agent="lm")
    said = Claim(
        "C11",
        "the model decides faster than the search",
        "section 5",
        "ratio of times",
        Effect(1.0, -1, (0.1, 0.2)),
        "11_cost",
        "0.1 to 0.2",
        note="our search has a tiny value net and compiled rules",
    )
    ledger.add(said, Found(*interval(row, "ratio"), f"{row['calls']} calls", 1))
    return ledger.rows


def rows(load: Load) -> list[dict]:
    """All claims of study 1 but that about time. If the gate fails, C4 to C10 say so."""
    ledger = Ledger("1", load)
    for part in (
        claims_dip.theory,
        claims_dip.tuning,
        claims_dip.objectives,
        claims_dip.played,
        alone,
        amounts,
        factors,
        searching,
        legality,
        not_played,
    ):
        part(ledger)
    mark(ledger.rows)
    return ledger.rows


def mark(rows: list[dict]) -> None:
    """If the gate G0 was not passed, the notes of C4 to C10 begin with that."""
    gate = next(row for row in rows if row["claim"] == "G0")
    if gate["verdict"] in (grades.REPRODUCED, grades.DIRECTION):
        return
    for row in rows:
        if re.fullmatch(r"C([4-9]|10)[a-z.].*", row["claim"]):
            row["note"] = "; ".join(filter(None, ("the teacher failed its gate", row["note"])))
