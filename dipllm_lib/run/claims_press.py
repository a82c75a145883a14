"""Claims of study 3 that a notebook judges itself: negotiation (09b), from its table of verdicts.

Columns of such a table: claim, statement, arm, year, value, low, high, verdict; the verdict is
shown, open, reversed, or not measured where a profile is too short or a part is not built. What
the scripts do is graded by their intervals, as everywhere; all else as its notebook says.
"""

import math

import pandas as pd

from dipllm_lib.run.claim_rows import Ledger, every
from dipllm_lib.run.grades import OURS, Claim, Effect, Found, Told

HERE = "the text"
MISSING = "not measured"
SCRIPTED = (  # part, begin of the statement, text, side
    ("a", "goodwill: fewer", "scripted: fewer balanced offers at the end than at first", -1),
    ("b", "punishment", "scripted: more alliances against a power that refused twice", 1),
    ("c", "avalanche", "scripted: in the last year many break at once", 1),
)


def negotiation(ledger: Ledger) -> None:
    """K14 and K15: what press is worth to a pair, and the three phases."""
    table = ledger.table("09b_verdicts")
    row = every(table, claim="K14").iloc[0]
    said = Claim(
        "K14",
        "two powers that negotiate gain by it",
        HERE,
        "share of SoS",
        Effect(),
        "09b_verdicts",
        "gain",
    )
    ledger.add(said, found(row))
    phases = every(table, claim="K15")
    for part, start, text, side in SCRIPTED:
        row = phases[phases["statement"].str.startswith(start)].iloc[0]
        said = Claim(
            f"K15{part}",
            text,
            HERE,
            "rate",
            Effect(side=side),
            "09b_verdicts",
            of=OURS,
            note="the script is written so",
        )
        ledger.add(said, found(row))
    told(ledger, phases[phases["statement"].str.contains("learned")], "09b_verdicts", "defghij")


def found(row: pd.Series) -> Found:
    """What a row of verdicts says, its arm as what was counted."""
    reason = MISSING if math.isnan(row["value"]) else ""
    return Found(row["value"], row["low"], row["high"], row["arm"], reason=reason)


def told(ledger: Ledger, rows: pd.DataFrame, table: str, parts: str) -> None:
    """Rows that their notebook judged; parts: a letter for each."""
    for part, row in zip(parts, rows.to_dict("records"), strict=False):
        judge = None if row["verdict"] == MISSING else Told(row["verdict"])
        said = Claim(f"{row['claim']}{part}", row["statement"], HERE, "–", judge, table)
        ledger.add(said, found(pd.Series(row)))
