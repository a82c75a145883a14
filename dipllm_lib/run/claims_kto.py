"""Claims of study 3: the text on multi-agent KTO, and Ye et al. 2025 where the place says so.

The text prints equations and percentages without data; Ye et al. have win rates on Werewolf, so
with both only directions can agree and no number of theirs is held against one of ours. Learners
are tables of logits with several seeds, or one training of the language model, which without an
interval tests nothing. A difference below PIE of the pie counts as none. What 09b and 09c judge
themselves is in `claims_press`.
"""

import pandas as pd

from dipllm_lib.run import claims_press, grades
from dipllm_lib.run.claim_rows import (
    Ledger,
    every,
    exact,
    interval,
    minus,
    negative,
    one,
    over_seeds,
    turned,
)
from dipllm_lib.run.grades import OURS, TEXT, Claim, Effect, Found, Load, Region

PIE = 0.005  # share of the pie
NEARER = 0.001  # distance to people
YE, HERE = "Ye et al. 2025", "the text"
SHARE = "share of the pie"
ONE = "one training and no interval"
BETTER = Effect(margin=PIE)
LITERAL = "start − literal sign"  # of 10c; the claim is about the opposite difference

TABLES = (  # key, contrast of 10c, text, where, unit, judge, who, stated
    ("K1a", LITERAL, "minimised as printed, the loss makes play better", HERE,
     SHARE, BETTER, TEXT, "better"),
    ("K1b", "pt_kto: value − 98 % of the best", "with its sign mended it keeps 98 % of the best",
     HERE, SHARE, BETTER, OURS, "–"),
    ("K2a", "low reference: |V| − unit weights", "a low reference point needs weights by value",
     HERE, SHARE, BETTER, OURS, "–"),
    ("K2b", "unit weights: equal split − low reference",
     "an equal split as reference does without weights", HERE,
     SHARE, BETTER, OURS, "–"),
    ("K4a", "breakdown, payoff: CEM − ARTICLE",
     "value parameters searched per game bargain better on held-out variants", HERE, SHARE, BETTER,
     TEXT, "better"),
    ("K4b", "ultimatum, payoff: CEM − ARTICLE", "searched parameters earn more in the ultimatum",
     HERE, SHARE,
     BETTER, TEXT, "better"),
    ("K4c", "repeated, payoff: CEM − ARTICLE",
     "searched parameters earn more in the repeated dilemma", HERE,
     "payoff a round", BETTER, TEXT, "better"),
    ("K6a", "people: pool − self-play", "a pool of partners beats self-play, with people", YE,
     SHARE, BETTER, TEXT, ".534 − .483 (wins)"),
    ("K6b", "people: self-play − no play", "self-play beats no play, with people", YE, SHARE,
     BETTER, TEXT, ".483 − .374 (wins)"),
    ("K6c", "held-out responders: pool − self-play",
     "a pool beats self-play, with held-out partners", YE,
     SHARE, BETTER, TEXT, "better"),
    ("K6d", "held-out responders: self-play − no play",
     "self-play beats no play, with held-out partners", YE, SHARE, BETTER,
     TEXT, "better"),
    ("K7", "regret: trajectory − step, return", "labels of steps beat labels of trajectories", YE,
     "payoff a round", BETTER, TEXT, ".545 − .458 (wins)"),
)  # fmt: skip
SAME_DATA = ("sft", "wmle", "wmle, mean V", "a2c", "kto", "pt_pair")


def tables(ledger: Ledger) -> None:
    """K1, K2, K4, K6, K7, K17: tables of logits, paired by seed."""
    found = ledger.table("10c_contrasts")
    for key, contrast, text, where, unit, judge, who, stated in TABLES:
        said = Claim(key, text, where, unit, judge, "10c_contrasts", stated, who)
        measured = over_seeds(one(found, contrast=contrast))
        ledger.add(said, turned(measured) if contrast == LITERAL else measured)
    for part, other in zip("abcdef", SAME_DATA, strict=True):
        row = one(found, contrast=f"fixed data, low reference: pt_kto − {other}")
        said = Claim(
            f"K17{part}",
            f"on the same data pt_kto earns more than {other}",
            "specification",
            SHARE,
            BETTER,
            "10c_contrasts",
            of=OURS,
        )
        ledger.add(said, over_seeds(row))


def lam(ledger: Ledger, nearer: pd.DataFrame) -> None:
    """K3 and K5: what λ does. nearer: `prospect_study.more_human`, one gain per game and role."""
    for part, row in zip("abcdefgh", nearer.to_dict("records"), strict=False):
        text = f"λ = 3.2 is more human: {row['game']}, {row['role']}"
        said = Claim(
            f"K3{part}",
            text,
            HERE,
            "distance",
            Effect(margin=NEARER),
            "08_scores",
            "more",
            note="people are taken to split evenly" * (row["game"] == "bargaining"),
        )
        ledger.add(said, Found(*exact(row["gain"]), "exact"))
    row = one(ledger.table("08_signs"), varied="own")
    said = Claim(
        "K5a",
        "own λ up, own share of the cake down",
        "Shalev 1996",
        "share of cases",
        Region(0.999, 1.0, 1.0),
        "08_signs",
        "always",
        OURS,
    )
    ledger.add(said, Found(*exact(row["down"] / row["steps"]), f"{row['steps']:.0f} cases"))
    table = every(ledger.table("09_bargains"), arm="pt_kto").groupby("setting")["kept"].first()
    said = Claim(
        "K5b",
        "a learned bargainer keeps less under λ = 3.2 than under 1",
        HERE,
        SHARE,
        BETTER,
        "09_bargains",
        of=OURS,
    )
    ledger.add(said, Found(*exact(table["C"] - table["B"]), "1 seed", 1, ONE))


def model(ledger: Ledger) -> None:
    """K1 on the language model: shares of the best payoff, regrets, five seeds where there are."""
    row = one(ledger.table("10c_lm_seeds"), setting="A")
    said = Claim(
        "K1c",
        "the language model keeps 95 % of the best in the ultimatum",
        "specification",
        "share of the best",
        Effect(0.95),
        "10c_lm_seeds",
        of=OURS,
    )
    ledger.add(said, over_seeds(row, "share"))
    rows = ledger.table("09_verdicts")
    rows = rows[~rows["what"].str.contains("modal")].to_dict("records")
    for part, row in zip("def", rows, strict=False):
        side = 1 if "share" in row["what"] else -1
        said = Claim(
            f"K1{part}",
            f"the language model, {row['what']}",
            "specification",
            "share of the best" if side == 1 else "payoff a round",
            Effect(row["line"], side),
            "09_verdicts",
            of=OURS,
        )
        ledger.add(said, Found(*exact(row["value"]), "1 seed", 1, ONE))


def roles(ledger: Ledger) -> None:
    """K4 and K8: coordinator and opponent modeller of the language model, one training."""
    table = every(ledger.table("09_choices"), part="held out", chooser="coordinator")
    for part, row in zip("defg", table.to_dict("records"), strict=False):
        text = f"the coordinator's setting earns more than the default: {row['game']}, held out"
        said = Claim(f"K4{part}", text, HERE, SHARE, BETTER, "09_choices", "better")
        ledger.add(said, Found(row["gain"], row["low"], row["high"], "held-out variants", 1))
    table = every(ledger.table("09_forecasts"), rounds="all").set_index("forecast")
    row = table.loc["opponent"]
    for part, other, off, text in (
        ("a", "majority", 0.0, "forecasts beat the majority"),
        ("b", "repeat last", 0.0, "forecasts beat repeating the last action"),
        ("c", "Bayes", 0.05, "forecasts come within 0.05 of the exact Bayes filter"),
    ):
        who = OURS if other == "Bayes" else TEXT
        ahead = minus(interval(row, "top1"), interval(table.loc[other], "top1"))
        said = Claim(
            f"K8{part}",
            text,
            HERE if who == TEXT else "specification",
            "share right",
            Effect(-off),
            "09_forecasts",
            "–",
            who,
            "one training, interval over decisions, not paired",
        )
        ledger.add(said, Found(*ahead, f"{row['decisions']} decisions", 1))
    rows = every(ledger.table("09_forecasts"), forecast="opponent").set_index("rounds")
    late, first = rows[rows.index != "all"].iloc[-1], rows.iloc[0]
    said = Claim(
        "K8d",
        "forecasts get better within a game",
        HERE,
        "share right",
        Effect(),
        "09_forecasts",
        "rises",
        note="one training, not paired",
    )
    found = minus(interval(late, "top1"), interval(first, "top1"))
    ledger.add(said, Found(*found, f"{first['decisions']} and {late['decisions']} decisions", 1))


def adapters(ledger: Ledger) -> None:
    """K9, K10, K18: three adapters, one, a full model; sizes; precision."""
    table = ledger.table("09_separation").set_index(["arm", "measure"])
    for part, measure, text, unit, better in (
        ("a", "executor", "three adapters play better than one for both", "share of the best", -1),
        ("b", "top1", "three adapters forecast more actions right", "share right", -1),
        ("c", "brier", "three adapters forecast with less error", "Brier score", 1),
    ):
        row = table.loc[("one", measure)]
        gap = interval(row, "gap") if better == 1 else negative(interval(row, "gap"))
        said = Claim(f"K9{part}", text, HERE, unit, BETTER, "09_separation", "better")
        ledger.add(said, _few(gap, row))
    three, full = table.loc[("three", "executor")], table.loc[("full", "executor"), "mean"]
    found = tuple(value / full for value in interval(three))
    said = Claim(
        "K10a",
        "an adapter keeps at least the stated share of a full model",
        HERE,
        "ratio",
        Effect(0.87),
        "09_separation",
        "87 %",
        note="share of the best payoff, tiny base",
    )
    ledger.add(said, _few(found, three))
    row = one(ledger.table("09_sizes"), part="executor")
    said = Claim(
        "K10b",
        "an adapter has about half a per cent of the base's weights",
        HERE,
        "share",
        Region(0.003, 0.009, 0.005),
        "09_sizes",
        "0.005",
    )
    ledger.add(said, Found(*exact(row["share"]), f"{row['weights']} weights"))
    _precision(ledger)


def _few(found: tuple, row: pd.Series) -> Found:
    """An interval over the trainings of a row."""
    few = grades.FEW if row["seeds"] < grades.FEWEST else ""
    return Found(*found, f"{row['seeds']:.0f} seeds", row["seeds"], few)


def _precision(ledger: Ledger) -> None:
    """The base in bfloat16 beside float32, on fixed contexts."""
    table = ledger.table("09_precision")
    n = f"{table['contexts'].sum()} contexts"
    said = Claim(
        "K18a",
        "bfloat16 moves the policy by at most 0.02",
        "specification",
        "total variation",
        Region(last=0.02),
        "09_precision",
        "≤ 0.02",
        OURS,
    )
    ledger.add(said, Found(*exact(table["tv"].max()), n))
    same = (table["same"] * table["contexts"]).sum() / table["contexts"].sum()
    said = Claim(
        "K18b",
        "bfloat16 keeps the likeliest text in 95 % of contexts",
        "specification",
        "share of contexts",
        Region(0.95, 1.0),
        "09_precision",
        "≥ 0.95",
        OURS,
    )
    ledger.add(said, Found(*exact(same), n))


def timing(load: Load) -> list[dict]:
    """K13 apart: a time differs from run to run."""
    ledger = Ledger("3", load)
    row = one(ledger.table("09_rungs"), rung="full")
    said = Claim(
        "K13",
        "three calls of the model within 800 ms, 95th percentile",
        HERE,
        "ms",
        Region(last=800, number=800),
        "09_rungs",
        "800",
        note="SmolLM2-135M, not the sizes of the text",
    )
    ledger.add(said, Found(*exact(row["p95"]), f"{row['decisions']:.0f} decisions", 1))
    return ledger.rows


def rows(load: Load, nearer: pd.DataFrame) -> list[dict]:
    """All claims of study 3 that something was measured for, but that about time."""
    ledger = Ledger("3", load)
    tables(ledger)
    lam(ledger, nearer)
    for part in (model, roles, adapters, claims_press.negotiation, claims_press.league):
        part(ledger)
    return ledger.rows
