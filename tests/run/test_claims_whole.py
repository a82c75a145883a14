"""All lists of claims on a whole set of tables: what is read, what is named, what is shown.

The tables have just the rows and columns that claims look at, and one interval everywhere.
"""

import math

import pandas as pd
import pytest

from dipllm_lib.run import (
    chain_claims,
    claim_rows,
    claims_dip,
    claims_ipd,
    claims_kto,
    claims_play,
    claims_untested,
    grades,
)

ENDS = {"mean": 0.5, "low": 0.4, "high": 0.6}


def ends(*names: str) -> dict[str, float]:
    """Three columns for each name."""
    return {
        f"{name}{end}": x for name in names for end, x in (("", 0.5), ("_low", 0.4), ("_high", 0.6))
    }


def frame(*rows: dict, **common) -> pd.DataFrame:
    return pd.DataFrame([row | common for row in rows])


def each(name: str, /, *values, **common) -> pd.DataFrame:
    """A row for each value of a column."""
    return frame(*({name: value} for value in values), **common)


def study_1() -> dict[str, pd.DataFrame]:
    played = [row[1] for row in claims_dip.PLAYED]
    played += ["bound_sample − exact_kl", "Eq. 6, pi*, raw − exact_kl"]
    arms = ("bound_sample", "imitate tau", "imitate pi*", "Eq. 6, uniform, raw", "Eq. 6, pi*, raw")
    steps = ("FT of texts", "AF without FT", "FT with AF", "units know each other")
    both = ("anchor", "RandomLegal")
    seats = [
        {"agent": a, "column": c} for a in ("lm", "search") for c in ("sos", "survived", "defeated")
    ]
    lists = [
        {"contrast": f"list, search {n} − list", "first": f"list, search {n}"} for n in (5, 10)
    ]
    return {
        "01_teacher": each("agent", "search", games=7, **ends("sos")),
        "02_theorem1": frame({"turns": 9, "max_error": 1e-16}),
        "02_theorem2": each("rule", "normalised", "literal", games=3, within=2),
        "02_families": each("family", "random", rule="literal", lam=0.01, games=3, within=2),
        "02_bounds": each("decomposition", "bound, best completion", turns=9, **ends("kl")),
        "03_kl": each("policy", "anchor", "before", "after", "other", turns=9, **ends("kl")),
        "03_distance": frame({"anchor": 0.2, "before": 0.9, **ends("fell")}),
        "03_models": each("model", "main", "scratch", "read", **ends("difference")),
        "10_arms": each("arm", *arms, "random weights", turns=9, **ends("difference")),
        "10_contrasts": each("contrast", *dict.fromkeys(played), opponents="anchor", games=7,
                             **ENDS),
        "10_table7": each("row", "PPO", "DPO", column="sos", games=7, **ends("ours")),
        "10_slopes": frame(*({"agent": a, "least": n} for a in ("scratch lm", "anchor tuned")
                             for n in (0, 2)), opponents="anchor", arms=5, slope=0.5, **ENDS),
        "10_amounts": each("agent", "scratch lm", "anchor tuned", games=7, **ends("ours")),
        "10_steps": frame(*({"contrast": c, "opponents": o} for o in both for c in steps), games=7,
                          **ENDS),
        "10_lifts": frame(*lists, games=7, **ENDS),
        "11_population": each("agent", "lm", games=7, **ends("sos")),
        "11_table1": frame(*seats, games=7, **ends("ours")),
        "11_iterations": frame({"row": 0, "paper": float("nan")}, {"row": 1, "paper": 16.7},
                               {"row": 16, "paper": 15.3}, column="sos", games=7, **ends("ours")),
        "11_legality": frame({"orders": 9, "legal": 9}),
        "11_free_text": each("agent", "lm", turns=9, whole=0.0),
        "11_cost": each("agent", "lm", calls=3, **ends("ratio")),
    }  # fmt: skip


def study_2() -> dict[str, pd.DataFrame]:
    starts = [row[1] for row in (*claims_ipd.MIXED, *claims_ipd.REWARDS)]
    noises = ("half", "off", "on")
    mixed = [f"{start}, noise {noise}" for start in starts for noise in noises]
    a2c = [f"{start}, noise off" for _, start, *_ in claims_ipd.A2C]
    steps = {}
    for name in sorted(set(claims_ipd.TABLES.values())):
        rows = [
            {"panel": row[1], "key": row[2], "noise": noise}
            for row in (*claims_ipd.STEPS, *claims_ipd.A2C_STEPS)
            for noise in noises
            if claims_ipd.TABLES[row[2]] == name
        ]
        steps[name] = frame(*rows, seeds=10, paper=0.5, **ENDS)
    rounds = [{"seed": s, "phase": p} for s in range(3) for p in (1, 2, 3)]
    return steps | {
        "04_contrasts": each("contrast", *mixed, seeds=10, **ENDS),
        "04_a2c_contrasts": each("contrast", *a2c, seeds=5, **ENDS),
        "04_a2c_tried": each("arm", "published", seeds=1, with_learner=0.0),
        "04_mc": frame(*rounds, opponent="learner", noise="on", arm="mixed", cooperation=0.5),
        "04_inside": each("contrast", "within", "late", seeds=10, **ENDS),
        "04_literal": each("contrast", "literal: reward − AllD", seeds=3, **ENDS),
        "06_meters": each("what", "slope, all opponents", "accepted as ZD, against Fixed-ICL",
                          learner="ppi", seeds=10, value=0.5, **ENDS),
        "10b_contrasts": each("contrast", "LOLA − naive: payoff",
                              "LOLA − naive: share of tit for tat", seeds=100, **ENDS),
    }  # fmt: skip


def study_3() -> dict[str, pd.DataFrame]:
    same = [f"fixed data, low reference: pt_kto − {other}" for other in claims_kto.SAME_DATA]
    told = [row[1] for row in claims_kto.TABLES]
    forecasts = [{"forecast": f, "rounds": "all"} for f in ("majority", "repeat last", "Bayes")]
    forecasts += [{"forecast": "opponent", "rounds": r} for r in ("1", "17 on", "all")]
    apart = [
        {"arm": a, "measure": m}
        for a in ("one", "three", "full")
        for m in ("executor", "top1", "brier")
    ]
    phases = ("press", "goodwill: fewer", "punishment", "avalanche", "learned, avalanche")
    judged = {"value": 0.5, "low": 0.4, "high": 0.6, "verdict": "shown", "arm": "all games"}
    press = each("statement", *phases, **judged).assign(claim=["K14"] + ["K15"] * 4)
    league = each("claim", "K6", "K11", "K12", "K16", statement="s", n=10, **judged)
    what = ("ultimatum: share of the best payoff", "repeated: regret")
    return {
        "08_scores": frame({"game": "bargaining", "role": "both", "gain": 0.1}),
        "08_signs": each("varied", "own", steps=9, down=9),
        "09_bargains": each("setting", "B", "C", kept=0.5, arm="pt_kto"),
        "09_choices": each("game", "gift", "ultimatum", part="held out", chooser="coordinator",
                           gain=0.5, **ENDS),
        "09_forecasts": frame(*forecasts, decisions=9, **ends("top1")),
        "09_precision": each("game", "gift", "ultimatum", contexts=9, tv=0.01, same=1.0),
        "09_rungs": each("rung", "full", p95=200.0, decisions=9),
        "09_separation": frame(*apart, seeds=8, **ENDS, **ends("gap")),
        "09_sizes": each("part", "executor", weights=9, share=0.005),
        "09_verdicts": each("what", *what, value=0.5, line=0.4),
        "09b_verdicts": press,
        "09c_verdicts": league,
        "09c_changes": each("arm", "window + store", kind="payoffs", announced=True, seeds=5,
                            **ends("recovery")),
        "10c_contrasts": each("contrast", *told, *same, seeds=10, **ENDS),
        "10c_lm_seeds": each("setting", "A", share=0.5, seeds=5, **ENDS),
    }  # fmt: skip


TABLES = study_1() | study_2() | study_3()


class Loader:
    """Remembers what was asked for."""

    def __init__(self):
        self.asked = set()

    def __call__(self, name: str) -> pd.DataFrame:
        self.asked.add(name)
        return TABLES[name].copy()


@pytest.fixture(scope="module")
def whole():
    load = Loader()
    rows = [*claims_play.rows(load), *claims_ipd.rows(load)]
    rows += claims_kto.rows(load, load("08_scores"))
    rows += claims_untested.rows(load)
    timed = claims_play.timing(load) + claims_kto.timing(load)
    return claim_rows.frame(rows), claim_rows.frame(timed), load.asked


def test_what_is_read_is_what_the_chain_says(whole):
    assert whole[2] == set(chain_claims.CLAIMS.reads) == set(TABLES)


def test_every_row_names_a_table_that_is_read_and_a_grade(whole):
    for table in whole[:2]:
        assert set(table["table"]) <= whole[2] | {"–", "arithmetic"}
        assert set(table["verdict"]) <= set(grades.GRADES)
        measured = table["mean"].notna()
        assert (table.loc[measured, "table"] != "–").all()
        assert (table.loc[~measured, "note"] != "").all()
        assert not (table[["text", "where", "stated", "unit", "n"]] == "").any().any()


def test_times_stand_apart(whole):
    assert whole[1]["claim"].tolist() == ["C11", "K13"]
    assert whole[1]["verdict"].tolist() == ["same direction", "reproduced"]
    assert not set(whole[1]["claim"]) & set(whole[0]["claim"])


def test_what_the_readme_shows_is_there(whole):
    assert whole[0].loc[whole[0]["readme"], "claim"].tolist() != []
    assert set(claim_rows.SHOWN) == set(whole[0].loc[whole[0]["readme"], "claim"])


def test_a_text_says_nothing_twice(whole):
    """So that no claim counts twice; other levels of noise are counted apart."""
    said = whole[0].query("of == 'text'")
    assert said[said.duplicated(["text", "where"], keep=False)]["claim"].tolist() == []


def test_the_studies_are_whole(whole):
    keys = {str(s): set(part["claim"]) for s, part in whole[0].groupby("study")}
    numbers = {k.rstrip("abcdefghi") for k in keys["1"]}
    assert {"G0", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C12", "C13"} <= numbers
    assert {f"I{n}" for n in (10, 11, 12, 13)} <= keys["2"]
    places = {claim_rows._place(key) for key in keys["3"]}
    assert {("K", n) for n in range(1, 19)} - {("K", 13)} <= places
    assert all(math.isfinite(x) for x in whole[0].query("kind == 'effect'")["bound"])
