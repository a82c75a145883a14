"""Metrics and the three statistics on letters and agreements made by hand."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.kto import press_arms, press_difference, press_metrics, press_phases
from dipllm_lib.kto.negotiators import RuleNegotiator, Silent
from dipllm_lib.kto.press_arms import OFF, Arm

BY = ["negotiator"]


def rng():
    return np.random.default_rng(0)


def letters(*rows) -> pd.DataFrame:
    """(game, phase, sender, recipient, kind, answer, worth_sender, worth_recipient, against)"""
    columns = ["game", "phase", "sender", "recipient", "kind", "answer"]
    columns += ["worth_sender", "worth_recipient", "against"]
    table = pd.DataFrame([(*row, *(0.0, 0.0, -1)[len(row) - 6 :]) for row in rows], columns=columns)
    return table.assign(arm="a", negotiator="N", year=1901 + table["phase"] // 2)


def seats(games=1, phases=4, powers=7) -> pd.DataFrame:
    rows = [(g, t, p) for g in range(games) for t in range(phases) for p in range(powers)]
    table = pd.DataFrame(rows, columns=["game", "phase", "power"])
    table = table.assign(arm="a", negotiator="N", year=1901 + table["phase"] // 2, partners=6)
    return table.assign(sos=0.1, later=0.1, gained=0, centres=3)


def terms(*rows) -> pd.DataFrame:
    """(game, phase, power, partner, kind, exposed, broken, fell, against)"""
    columns = ["game", "phase", "power", "partner", "kind", "exposed", "broken", "fell", "against"]
    table = pd.DataFrame([(*row, *(-1,)[len(row) - 8 :]) for row in rows], columns=columns)
    table = table.assign(arm="a", negotiator="N", year=1901 + table["phase"] // 2, since=0)
    return table.assign(text=" " + table["kind"] + ".", lapsed=False)


def test_ratio_of_sums():
    top, below = np.array([1.0, 0.0, 3.0]), np.array([2.0, 0.0, 3.0])
    value, low, high = press_metrics.ratio(top, below, rng(), 500)
    assert value == pytest.approx(4 / 5) and low == pytest.approx(0.5) and high == 1
    assert np.isnan(press_metrics.ratio(np.zeros(2), np.zeros(2), rng(), 10)).all()
    assert press_metrics.ratio(top, below, rng(), 50) == press_metrics.ratio(top, below, rng(), 50)
    with pytest.raises(ValueError, match="two counts"):
        press_metrics.ratio(top, below[:2], rng(), 10)


def test_proposals_and_answers():
    sent = letters(
        (0, 0, 0, 1, "peace", "yes"), (0, 0, 0, 2, "peace", "no"), (0, 1, 3, 1, "zone", "silence"),
        (1, 0, 0, 1, "zone", "yes"),
    )  # fmt: skip
    base = seats(games=2)
    found = press_metrics.sending(sent, base, BY, rng(), 50)
    assert found["value"].tolist() == [4 / 56] and found["n"].tolist() == [56]
    kinds = press_metrics.sending(sent, base, [*BY, "kind"], rng(), 50)
    assert kinds.set_index("kind")["value"].to_dict() == {"peace": 2 / 56, "zone": 2 / 56}
    said = press_metrics.answers(sent, base, [*BY, "kind"], rng(), 50).set_index("kind")
    assert said["value"].to_dict() == {"peace": 0.5, "zone": 0.5}
    assert said["silence"].to_dict() == {"peace": 0.0, "zone": 0.5}


def test_promise_keeping_counts_exposed_agreements_only():
    bound = terms(
        (0, 0, 0, 1, "peace", True, True, False), (0, 0, 1, 0, "peace", False, False, False),
        (0, 1, 0, 1, "support", True, True, True), (0, 1, 1, 0, "support", True, False, False),
    )  # fmt: skip
    found = press_metrics.keeping(bound, seats(), BY, rng(), 50)
    assert found["value"].tolist() == pytest.approx([1 / 3]) and found["n"].tolist() == [3]
    possible = press_metrics.keeping(bound, seats(), BY, rng(), 50, possible=True)
    assert possible["value"].tolist() == [0.5]


def test_double_dealing_and_length():
    bound = terms(
        (0, 0, 0, 1, "alliance", True, False, False, 2), (0, 0, 0, 2, "peace", True, False, False),
        (0, 1, 0, 1, "alliance", True, False, False, 2), (0, 3, 0, 2, "peace", True, False, False),
    )  # fmt: skip
    assert press_metrics.double_dealing(bound, seats(), BY, rng(), 50)["value"].tolist() == [0.5]
    # the alliance lasts two phases, the two peaces one each: they are apart
    lengths = press_metrics.lengths(bound, seats(), BY, rng(), 50)
    assert lengths["value"].tolist() == pytest.approx([4 / 3])


def test_change_after_the_first_breach():
    base = seats(games=2)
    base.loc[(base["game"] == 0) & (base["power"] == 0) & (base["phase"] == 1), "later"] = 0.25
    base.loc[(base["game"] == 1) & (base["power"] == 0) & (base["phase"] == 1), "later"] = 0.15
    bound = terms(
        (0, 1, 0, 1, "peace", True, True, False), (0, 2, 0, 1, "peace", True, True, False),
        (1, 1, 0, 1, "peace", True, False, False),
    )  # fmt: skip
    found = press_metrics.after_breach(bound, base, BY, rng(), 50)
    assert found["value"].tolist() == pytest.approx([0.15 - 0.05]) and found["n"].tolist() == [1]
    calm = press_metrics.after_breach(bound[bound["game"] == 1], base, BY, rng(), 50)
    assert calm.empty


def test_forecasts_against_the_base_rate():
    sent = letters(
        (0, 0, 0, 1, "peace", "yes", 0, 0.1), (0, 0, 0, 2, "peace", "no", 0, -0.1),
        (0, 1, 0, 1, "peace", "yes", 0, -0.1), (0, 1, 0, 3, "peace", "yes", 0, 0.2),
        (0, 2, 0, 3, "peace", "silence", 0, 0.2),
    )  # fmt: skip
    found = press_metrics.forecasts(sent, seats(), BY, rng(), 50).set_index("metric")["value"]
    assert found["forecast top-1"] == 0.75 and found["base rate top-1"] == 0.75
    assert found["forecast Brier"] == 0.25
    assert found["base rate Brier"] == pytest.approx(0.25 * 0.75)
    told = sent.assign(chance=[0.9, 0.4, 0.6, 0.5, 0.0])
    found = press_metrics.forecasts(told, seats(), BY, rng(), 50, chance="chance")
    found = found.set_index("metric")["value"]
    assert found["forecast top-1"] == 1 and found["forecast Brier"] == pytest.approx(0.145)
    assert found["base rate Brier"] == pytest.approx(0.25 * 0.75)


def test_goodwill():
    sent = letters(
        (0, 0, 0, 1, "peace", "no", 0.01, 0.015), (0, 0, 0, 2, "zone", "no", 0.01, 0.03),
        (0, 0, 0, 3, "alliance", "no", 0.01, 0.01, 4), (0, 2, 0, 1, "zone", "no", -0.01, -0.001),
    )  # fmt: skip
    found = press_phases.goodwill(sent, seats(), rng(), 50).set_index("year")["value"]
    assert found.to_dict() == pytest.approx({1901: 1 / 3, 1902: 1.0})


def test_punishment_needs_two_refusals_in_a_row():
    sent = letters(
        (0, 0, 0, 5, "peace", "no"), (0, 1, 0, 5, "zone", "silence"),  # the trigger: 0, 5, phase 1
        (0, 2, 0, 1, "alliance", "no", 0, 0, 5),  # proposed, not made
        (0, 0, 1, 5, "peace", "no", 0, -0.1), (0, 1, 1, 5, "peace", "no"),  # one was not reasonable
        (0, 0, 2, 5, "peace", "no"), (0, 1, 2, 5, "peace", "yes"),
        (0, 2, 3, 2, "alliance", "yes", 0, 0, 4),
    )  # fmt: skip
    rows = press_phases.triggers(sent, seats(phases=3))
    hit = rows[rows["trigger"]]
    assert hit[["power", "other", "phase"]].to_numpy().tolist() == [[0, 5, 1]]
    assert hit["proposed"].tolist() == [True] and hit["made"].tolist() == [False]
    assert set(rows["phase"]) == {0, 1} and len(rows) == 2 * 42
    made = rows[rows["made"]]  # both partners of the alliance against 4, from phases 0 and 1
    assert sorted(zip(made["power"], made["phase"])) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    found = press_phases.punishment(sent, seats(phases=3), rng(), 100).set_index("alliance")
    # other rows of 1901 with an alliance to come: (0, 5) in phase 0 and (3, 4) in both
    assert found.loc["proposed", "triggered"] == 1
    assert found.loc["proposed", "otherwise"] == pytest.approx(3 / 83)
    assert found.loc["made", "value"] == pytest.approx(0 - 4 / 83)
    assert found.loc["made", "n"] == 1


def test_no_trigger_no_number():
    found = press_phases.punishment(letters((0, 0, 0, 1, "peace", "yes")), seats(), rng(), 10)
    assert found["value"].isna().all() and (found["n"] == 0).all()


def test_avalanche():
    base = seats()
    base.loc[(base["power"] == 0) & (base["phase"] == 1), "gained"] = 2
    base.loc[(base["power"] == 1) & (base["phase"] == 1), "gained"] = 3
    bound = terms(
        (0, 1, 0, 1, "peace", True, True, False), (0, 1, 0, 2, "zone", True, True, False),
        (0, 1, 1, 0, "peace", True, True, False), (0, 1, 1, 2, "support", True, True, True),
        (0, 0, 0, 3, "peace", True, True, False),
    )  # fmt: skip
    found = press_phases.avalanche(bound, base, rng(), 50).set_index("year")
    assert found["value"].to_dict() == pytest.approx({1901: 1 / 7, 1902: 0})  # 1: one had to fall
    assert found["n"].tolist() == [7, 7]


def ends(shares, arm):
    rows = [
        {"arm": arm, "game": g, "power": p, "sos": share}
        for g, own in enumerate(shares)
        for p, share in enumerate(own)
    ]
    return pd.DataFrame(rows)


def test_difference_with_and_without_press():
    off = np.full((7, 7), 1 / 7)
    on = off.copy()
    for g in range(7):  # the pair of game g gains 0.05 each, others pay
        pair = list(press_arms.negotiating("pair", g))
        on[g] -= 0.02
        on[g, pair] += 0.07
    table = pd.concat([ends(off, OFF), ends(on, "pair"), ends(on, "all")])
    silent = Silent()
    plan = [
        Arm(OFF, "all", None, silent, "none", 7),
        Arm("pair", "pair", RuleNegotiator(), silent, "priced", 7),
        Arm("all", "all", RuleNegotiator(), silent, "priced", 7),
    ]
    found = press_difference.differences(table, plan, rng(), 100).set_index(["arm", "measure"])
    pair = found.loc[("pair", "negotiators")]
    assert pair["value"] == pytest.approx(0.05) and bool(pair["changed"])
    assert found.loc[("pair", "others"), "value"] == pytest.approx(-0.02)
    assert ("all", "negotiators") not in found.index
    spread = np.std([1 / 7 + 0.05] * 2 + [1 / 7 - 0.02] * 5)
    assert found.loc[("all", "spread"), "value"] == pytest.approx(spread)
    assert (found["without"].loc[:, "spread"] < 1e-12).all()
    fewer = table[table["game"].lt(6) | table["arm"].ne(OFF)]
    with pytest.raises(ValueError, match="not played without press"):
        press_difference.differences(fewer, plan, rng(), 9)


def test_drift_of_goodwill():
    """1 of 2 balanced in 1901, 1 of 1 in 1902: half a share more, in every resample of one game."""
    sent = letters(
        (0, 0, 0, 1, "peace", "yes", 0.01, 0.005), (0, 1, 0, 1, "peace", "yes", 0.5, 0.0),
        (0, 2, 0, 1, "zone", "no", 0.01, 0.01),
    )  # fmt: skip
    found = press_phases.drift(sent, seats(), rng(), 20).iloc[0]
    assert found[["value", "low", "high"]].tolist() == [0.5] * 3 and found["n"] == 3
    alone = press_phases.drift(sent[sent["year"] == 1901], seats(), rng(), 20).iloc[0]
    assert np.isnan(alone["value"]) and np.isnan(alone["low"])
