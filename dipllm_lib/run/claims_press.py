"""Claims of study 3 that a notebook judges itself: negotiation (09b), from its table of verdicts.

Columns of such a table: claim, statement, arm, year, value, low, high, verdict; a value is missing
where nothing was measured, and then the verdict says why.
"""

import math

from dipllm_lib.run.claim_rows import Ledger, every
from dipllm_lib.run.grades import Claim, Effect, Found

HERE = "the text"


def negotiation(ledger: Ledger) -> None:
    """K14 and K15: what press is worth to a pair, and three phases, from the verdicts of 09b."""
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
    ledger.add(said, Found(row["value"], row["low"], row["high"], row["arm"], math.nan))
    for part, start, text, side in (
        ("a", "goodwill: fewer", "scripted: fewer balanced offers at the end than at first", -1),
        ("b", "punishment", "scripted: more alliances against a power that refused twice", 1),
        ("c", "avalanche", "scripted: in the last year many break at once", 1),
    ):
        row = table[(table["claim"] == "K15") & table["statement"].str.startswith(start)].iloc[0]
        said = Claim(
            f"K15{part}",
            text,
            HERE,
            "rate",
            Effect(side=side),
            "09b_verdicts",
            "–",
            note="the script is written so",
        )
        ledger.add(said, Found(row["value"], row["low"], row["high"], row["arm"], math.nan))
