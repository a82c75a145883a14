"""Claims of study 3 that notebooks judge: negotiation (09b), league, memory and influence (09c).

Columns of their tables of verdicts: claim, statement, arm, value, low, high, verdict, and year in
09b, n (seeds) in 09c; the verdict is shown, open, reversed, or not measured where a profile is too
short or a part is not built. What the scripts of 09b do is graded by their intervals, as
everywhere; all else as its notebook says.
"""

import math

import pandas as pd

from dipllm_lib.run import grades
from dipllm_lib.run.claim_rows import Ledger, every, over_seeds
from dipllm_lib.run.grades import OURS, TEXT, Claim, Effect, Found, Region, Told

HERE, YE = "the text", "Ye et al. 2025"
STORE = "window + store"  # the arm of 09c with a memory besides its window
FIVE = 5.0  # rounds
UNITS = {
    "K6": "regret, share of the scale",
    "K11": "share",
    "K12": "rounds, of controls share",
    "K15": "rate",
    "K16": "nats per unit of λ, of the drift share",
}
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
    told(ledger, phases[phases["statement"].str.contains("learned")], "09b_verdicts")


def league(ledger: Ledger) -> None:
    """K6, K11, K12 and K16: league, memory, change of rules, influence of λ, as 09c judges them.

    The text is behind what is said of all games together, of consistency and of the rounds to
    adapt; games apart, controls, the distance from the Bayes filter and edges are our own lines.
    """
    table = ledger.table("09c_verdicts")
    pool = every(table, claim="K6")
    told(ledger, pool, "09c_verdicts", of_text=pool["arm"] == "all games", where=YE)
    steady = every(table, claim="K11")
    told(ledger, steady, "09c_verdicts", ~steady["statement"].str.startswith("control"))
    for part, row in zip("abcdefgh", _with_store(ledger), strict=False):
        way = "announced" if row["announced"] else "silent"
        text = f"a player with a store recovers within 5 rounds: {row['kind']}, {way}"
        said = Claim(
            f"K12{part}",
            text,
            HERE,
            "rounds",
            Region(last=FIVE, number=4.0),
            "09c_changes",
            "3 to 5",
            note="who never does counts with all rounds left; rounds to adapt: see K12.1 and after",
        )
        ledger.add(said, over_seeds(pd.Series(row), "recovery"))
    told(ledger, table[table["claim"].isin(("K12", "K16"))], "09c_verdicts")


def _with_store(ledger: Ledger) -> list[dict]:
    """Rounds to adapt and to recover of the arm with a store, by kind of change. Only the second
    tells a player that does not look from one that does (the controls among the verdicts)."""
    return every(ledger.table("09c_changes"), arm=STORE).to_dict("records")


def found(row: pd.Series) -> Found:
    """What a row of verdicts says, its arm as what was counted; n are seeds, where there is one."""
    seeds = float(row.get("n", math.nan))
    reason = MISSING if math.isnan(row["value"]) else grades.FEW if seeds < grades.FEWEST else ""
    return Found(row["value"], row["low"], row["high"], row["arm"], seeds, reason)


def told(
    ledger: Ledger,
    rows: pd.DataFrame,
    table: str,
    of_text: pd.Series | None = None,
    where: str = HERE,
) -> None:
    """Rows that their notebook judged, numbered within a claim. of_text: which of them a text says,
    all of 09b and none of 09c where it is not given."""
    numbers = rows.groupby("claim").cumcount() + 1
    says = pd.Series(table == "09b_verdicts", rows.index) if of_text is None else of_text
    for at, row in rows.iterrows():
        judge = None if row["verdict"] == MISSING else Told(row["verdict"])
        text = row["statement"] + f": {row['arm']}" * (table == "09c_verdicts")
        said = Claim(
            f"{row['claim']}.{numbers[at]}",
            text,
            where if says[at] else "specification",
            UNITS[row["claim"]],
            judge,
            table,
            of=TEXT if says[at] else OURS,
        )
        ledger.add(said, found(row))
