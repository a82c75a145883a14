"""The lists of claims on small tables made by hand; stated numbers against those of the papers."""

import math
import re
from pathlib import Path

import pandas as pd
import pytest

from dipllm_lib.dip import published
from dipllm_lib.ipd.published import LANDMARKS
from dipllm_lib.kto import memory_players
from dipllm_lib.run import (
    claim_rows,
    claims_dip,
    claims_ipd,
    claims_kto,
    claims_play,
    claims_press,
    claims_untested,
)
from dipllm_lib.run.claim_rows import Ledger

ROOT = Path(__file__).resolve().parents[2]


def judged(part, tables: dict[str, pd.DataFrame], study: str = "1") -> pd.DataFrame:
    """Index claim: the rows that a part makes of these tables."""
    ledger = Ledger(study, tables.__getitem__)
    part(ledger)
    return claim_rows.frame(ledger.rows).set_index("claim")


def five(agent: str, sos: float, survived: float, defeated: float) -> list[dict]:
    named = {"sos": sos, "survived": survived, "defeated": defeated}
    return [
        {"agent": agent, "column": name, "games": 50,
         "ours": x, "ours_low": x - 1, "ours_high": x + 1}
        for name, x in named.items()
    ]  # fmt: skip


def test_the_model_alone_and_in_a_population():
    alone = {"agent": "lm", "games": 140, "sos": 15.0, "sos_low": 14.0, "sos_high": 16.0}
    seats = [*five("lm", 20, 50, 30), *five("search", 17, 51, 40)]
    tables = {"11_population": pd.DataFrame([alone]), "11_table1": pd.DataFrame(seats)}
    found = judged(claims_play.alone, tables)
    assert found.loc["C4a", "verdict"] == "not supported"  # par, 14.3, lies inside
    assert found.loc["C4b", ["mean", "low", "high"]].tolist() == [3.0, 1.0, 5.0]
    assert found.loc[["C4b", "C4c", "C4d"], "verdict"].tolist() == [
        "reproduced", "not supported", "same direction",
    ]  # fmt: skip
    assert found.loc["C4e", "verdict"] == "not testable here"


def test_search_on_top_and_opponents_that_search():
    lift = {"contrast": "list, search 5 − list", "first": "list, search 5"}
    lift |= {"mean": 2.0, "low": 1.0, "high": 3.0, "games": 42}
    other = lift | {"contrast": "list, search 5 − anchor"}
    beaten = {"column": "sos", "row": 1, "paper": 16.7, "games": 14}
    beaten |= {"ours": 12.0, "ours_low": 10.0, "ours_high": 14.0}
    anchor = beaten | {"row": 0, "paper": math.nan}
    tables = {"10_lifts": pd.DataFrame([lift, other])}
    tables |= {"11_iterations": pd.DataFrame([anchor, beaten])}
    found = judged(claims_play.searching, tables)
    assert found["verdict"].tolist() == ["reproduced", "contradicted", "contradicted"]
    assert list(found.index) == ["C9a", "C10.0", "C10.1"]
    assert found["of"].tolist() == ["text", "beside", "text"]


def test_steps_against_weak_players_are_beside_the_text():
    names = ("FT of texts", "AF without FT", "FT with AF", "units know each other")
    row = {"mean": 1.0, "low": 0.5, "high": 1.5, "games": 140}
    rows = [row | {"contrast": c, "opponents": o} for o in ("anchor", "RandomLegal") for c in names]
    found = judged(claims_play.factors, {"10_steps": pd.DataFrame(rows)})
    assert found["verdict"].tolist() == ["reproduced"] + ["same direction"] * 7
    assert found["of"].tolist() == ["text"] * 3 + ["beside"] * 5
    assert found["stated"].tolist() == ["0.6", "9.1", "19.5"] + ["–"] * 5


def test_a_search_that_fails_its_gate_is_named_beside_what_rests_on_it():
    gate = {"agent": "search", "games": 7, "sos": 5.0, "sos_low": 1.0, "sos_high": 9.0}
    rules = [("normalised", 3, 3), ("literal", 3, 1)]
    bounds = {"decomposition": "bound, best completion", "kl": 0.1, "kl_low": 0.1, "kl_high": 0.1}
    arm = {"arm": "bound_sample", "turns": 9, "difference": 0.1}
    arm |= {"difference_low": 0.0, "difference_high": 0.2}
    play = {"contrast": "bound_sample − exact_kl", "opponents": "anchor", "games": 7}
    tables = {
        "01_teacher": pd.DataFrame([gate]),
        "02_theorem1": pd.DataFrame({"turns": [3, 4], "max_error": [1e-16, 3e-16]}),
        "02_theorem2": pd.DataFrame(rules, columns=["rule", "games", "within"]),
        "02_families": pd.DataFrame({"family": ["random"], "rule": ["literal"], "lam": [0.01],
                                     "games": [20], "within": [1]}),
        "02_bounds": pd.DataFrame([bounds | {"turns": 9}]),
        "10_arms": pd.DataFrame([arm]),
        "10_contrasts": pd.DataFrame([play | {"mean": -2.0, "low": -3.0, "high": -1.0}]),
    }  # fmt: skip
    found = judged(claims_dip.theory, tables)
    assert found["verdict"].to_dict() == {
        "G0": "contradicted", "C1": "reproduced", "C2a": "reproduced", "C2b": "contradicted",
        "C2c": "reproduced", "C3a": "contradicted", "C3b": "not supported", "C3c": "same direction",
    }  # fmt: skip
    assert found.loc["C2b", "mean"] == 2.0 and found.loc["C2c", "mean"] == 0.95
    rows = found.reset_index().to_dict("records") + [{"claim": "C4a", "note": "x"}]
    claims_play.mark(rows)
    assert [row["note"] for row in rows if row["claim"].startswith("C4")] == [
        "the teacher failed its gate; x"
    ]
    assert rows[1]["note"] == ""


def test_stated_numbers_of_study_1_are_those_of_the_paper():
    wide = {name: published.table(name).wide() for name in published.TABLES}
    six = wide["Table 6"]["sos"]
    assert {n: round(six[n] - six[0], 1) for n in (5, 10)} == claims_play.TABLE_6
    two = wide["Table 2"]["sos"].to_numpy()
    assert [round(d, 1) for d in two[1:] - two[:-1]] == [0.6, 9.1, 19.5]
    seven, first = wide["Table 7"]["sos"], wide["Table 1"]
    judges = {row[0]: row[4] for row in claims_dip.PLAYED}
    assert judges["C13a"].stated == round(seven["DPO"] - seven["DipLLM"], 1)
    assert judges["C13b"].stated == round(seven["PPO"] - seven["DipLLM"], 1)
    gap = (first.loc["DipLLM"] - first.loc["Cicero"]).round(1)
    assert gap[["sos", "survived", "defeated"]].tolist() == [2.2, 0.2, -2.0]
    assert gap[["win", "most_sc"]].tolist() == [1.8, 0.6]
    bars = wide["Fig. 7"]
    before, after = ((bars[c] - bars["target"]).abs().sum() / 2 for c in ("before", "after"))
    assert (round(after, 2), round(before - after, 2)) == (0.07, 0.54)
    assert claims_play.PAR == published.PAR and wide["Fig. 4"].loc["DipLLM", "DipNet"] == 29.4
    curves = wide["Fig. 6"].loc[500]
    assert round(curves["DipLLM"] - curves["DipNet fine-tuned"], 1) == 6.7


def pool(late: float) -> pd.DataFrame:
    """04_contrasts with the same interval everywhere."""
    starts = [row[1] for row in (*claims_ipd.MIXED, *claims_ipd.REWARDS)]
    names = [f"{start} …, noise {noise}" for start in starts for noise in ("half", "off", "on")]
    row = {"mean": late, "low": late - 0.1, "high": late + 0.1, "seeds": 10}
    return pd.DataFrame([row | {"contrast": name} for name in names])


def mc(phases: int = 3) -> pd.DataFrame:
    """Cooperation of seed s in phase p: (p - 1) (s + 1) / 10."""
    rows = [(s, p, (p - 1) * (s + 1) / 10) for s in range(3) for p in range(1, phases + 1)]
    table = pd.DataFrame(rows, columns=["seed", "phase", "cooperation"])
    return table.assign(opponent="learner", noise="on", arm="mixed")


def a2c() -> pd.DataFrame:
    row = {"mean": 0.0, "low": 0.0, "high": 0.0, "seeds": 5}
    return pd.DataFrame([
        row | {"contrast": f"{start}, noise off"} for _, start, *_ in claims_ipd.A2C
    ])


def test_the_mixed_pool_at_three_levels_of_noise():
    tried = pd.DataFrame({"arm": ["published"], "seeds": [1], "with_learner": [0.001]})
    tables = {"04_contrasts": pool(0.8), "04_a2c_contrasts": a2c(), "04_mc": mc()}
    found = judged(claims_ipd.mixed, tables | {"04_a2c_tried": tried}, "2")
    assert found.loc["I1 half", "verdict"] == "reproduced" and found.loc["I1 half", "readme"]
    assert found.loc[["I1 half", "I1 off", "I1 on"], "of"].tolist() == ["text", "again", "again"]
    assert found.loc["I3f half", "verdict"] == "contradicted"  # far above its noise
    assert found.loc["I2a", "verdict"] == "not supported"
    assert found.loc["I2d", "verdict"] == "reproduced"
    assert found.loc["I1m", ["mean", "low", "high"]].tolist() == pytest.approx([0.4, 0.2, 0.6])
    assert found.loc["I2h", "verdict"] == "not testable here"


def test_a_panel_that_a_short_run_lacks_and_a_factor_that_is_not_defined():
    columns = ["panel", "key", "noise", "mean", "low", "high", "seeds", "paper"]
    rows = [
        ("2C", "chi", "on", *[math.nan] * 3, 10, 2.67),
        ("2C", "share", "on", 0.6, 0.5, 0.7, 10, 0.64),
    ]
    steps = pd.DataFrame(rows, columns=columns)
    tables = {"05_contrasts": steps.iloc[:0], "06_contrasts": steps, "07_contrasts": steps.iloc[:0]}
    found = judged(claims_ipd.mechanism, tables, "2")
    assert found.loc["I8a on", "verdict"] == "reproduced" and found.loc["I8a on", "number"] == 0.64
    assert found.loc["I8c on", "note"] == "the victim earns no more than P: no factor"
    assert found.loc["I7a on", "note"] == "the run is too short for it"
    assert (found.drop("I8a on")["verdict"] == "not testable here").all()


def test_stated_numbers_of_study_2_are_its_landmarks():
    """Differences of what is read off Fig. 1A; panels of Fig. 2 state theirs in their tables."""
    judges = {row[0]: row[4].number for row in claims_ipd.MIXED}
    assert judges["I1"] == pytest.approx(0.90 - 0.07) and judges["I1f"] == 0.9
    assert judges["I3"] == pytest.approx(0.90 - 0.10) and judges["I4"] == pytest.approx(0.90 - 0.25)
    assert judges["I4f"] == pytest.approx(0.25 - 0.10)
    shown = {(m.panel, m.column, m.last): m.value for m in LANDMARKS}
    assert shown["2A", "reward", -1] == 1.0  # what AllD earns: stated 0 in I7b


def test_verdicts_of_a_notebook():
    line = {"arm": "x", "value": 0.2, "low": 0.1, "high": 0.3}
    texts = ("goodwill: fewer", "punishment", "avalanche", "learned: one", "learned: two")
    rows = [line | {"claim": "K15", "statement": text, "verdict": "shown"} for text in texts]
    rows[0] |= {"value": -0.2, "low": -0.3, "high": -0.1}
    rows[4] |= {"value": math.nan, "low": math.nan, "high": math.nan, "verdict": "not measured"}
    rows.append(line | {"claim": "K14", "statement": "press", "low": -0.1, "verdict": "open"})
    found = judged(claims_press.negotiation, {"09b_verdicts": pd.DataFrame(rows)}, "3")
    assert found["verdict"].to_dict() == {
        "K14": "not supported", "K15a": "same direction", "K15b": "same direction",
        "K15c": "same direction", "K15.1": "same direction", "K15.2": "not testable here",
    }  # fmt: skip


def test_verdicts_of_the_league_and_rounds_to_adapt():
    line = {"value": 0.2, "low": 0.1, "high": 0.3, "n": 10, "verdict": "shown"}
    listed = [("K6", "all games"), ("K6", "ultimatum"), ("K11", "x"), ("K11", "x"), ("K16", "x")]
    rows = [line | {"claim": claim, "arm": arm, "statement": "s"} for claim, arm in listed]
    rows[3] |= {"statement": "control: not less", "verdict": "reversed"}
    rows[4] |= {"n": 2, "verdict": "open"}
    changed = {"kind": "payoffs", "announced": False, "seeds": 5, "recovery": 4.0}
    changed |= {"recovery_low": 2.0, "recovery_high": 6.0}
    arms = [changed | {"arm": arm} for arm in ("window", "window + store")]
    tables = {"09c_verdicts": pd.DataFrame(rows), "09c_changes": pd.DataFrame(arms)}
    found = judged(claims_press.league, tables, "3")
    assert found["verdict"].to_dict() == {
        "K6.1": "same direction", "K6.2": "same direction", "K11.1": "same direction",
        "K11.2": "contradicted", "K12a": "not supported", "K16.1": "not testable here",
    }  # fmt: skip
    assert found["of"].tolist() == ["text", "beside", "text", "beside", "text", "beside"]
    assert found.loc["K16.1", "note"] == "fewer than 3 trainings"
    assert claims_press.STORE == memory_players.STORE


def test_one_training_of_the_language_model_is_shown_and_not_graded():
    lines = [
        ("ultimatum: share of the best payoff", 0.99, 0.95),
        ("ultimatum: modal offer", 0.4, 0.4),
        ("repeated: regret per round", 0.38, 0.05),
    ]
    five_seeds = {"setting": ["A"], "share": [0.97], "low": [0.96], "high": [0.98], "seeds": [5]}
    tables = {"10c_lm_seeds": pd.DataFrame(five_seeds)}
    tables |= {"09_verdicts": pd.DataFrame(lines, columns=["what", "value", "line"])}
    found = judged(claims_kto.model, tables, "3")
    assert found.loc["K1c", "verdict"] == "same direction"
    assert found.loc["K1d", "note"] == "one training and no interval" and len(found) == 3
    assert found.loc["K1d", "mean"] == 0.99


def test_what_cannot_be_tested_has_a_reason_and_arithmetic_decides_one():
    rows = claim_rows.frame(claims_untested.rows(lambda name: pytest.fail(name))).set_index("claim")
    assert rows.loc["T12", ["mean", "verdict"]].tolist() == [140.0, "contradicted"]
    others = rows.drop("T12")
    assert (others["verdict"] == "not testable here").all() and (others["note"] != "").all()


def test_the_percentages_of_the_text_stand_nowhere_else():
    sizes = (
        r"37 to 52 ?%|37[-–]52|29/15|29 and 15 %|82 against 53|87 ?% of a|\b92 ?%|"
        r"6\.8 ?(times|×|x)\b|\b91 ?%"
    )
    # the executed copies show the table of claims; the notebooks themselves may not say it
    paths = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "dipllm_lib").rglob("*.py")]
    paths += [ROOT / name for name in ("README.md", "CHANGELOG.md", "data/README.md")]
    found = {p.stem for p in paths if re.search(sizes, p.read_text(encoding="utf-8"))}
    assert found == {"claims_untested"}
