"""Meters side by side: known players have the numbers of theory, tables are counted by hand."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.ipd import mechanism_meters as meters
from dipllm_lib.ipd import mechanism_tables as panels
from dipllm_lib.run import seeding


def rng():
    return seeding.child(0, "meters")


def test_known_players():
    """ZD(3): phi 1/7, chi 3. GTFT: a line too, but kappa = R. AllD: a perfect line at -2."""
    table = meters.known(50, "uniform", 0, 20).set_index("player")
    zd = table.loc["ZD3"]
    assert (zd["phi"], zd["chi"]) == pytest.approx((1 / 7, 3.0))
    assert zd["slope"] == pytest.approx(3.0, abs=0.4) and zd["r2"] > 0.999 and zd["accepted"]
    assert table["accepted"].to_dict() == {
        "TFT": True, "ZD3": True, "GTFT": False, "WSLS": False, "AllD": False, "AllC": False,
    }  # fmt: skip
    assert table.loc["GTFT", "kappa"] == pytest.approx(1.0)
    assert table.loc[["AllD", "AllC"], "slope"].tolist() == pytest.approx([-2.0, -2.0])
    assert table.loc["WSLS", "r2"] < meters.STRAIGHT


def evaluators():
    """ZD2 earns .8 and .9 of two seeds, the learner .4 and .4; bound (1 + 2 chi)/T = .1."""
    rows = [
        {"seed": s, "noise": n, "opponent": o, "reward": 0.4, "other_reward": 0.8 + 0.1 * s}
        for s in (0, 1)
        for n in ("on", "off")
        for o in ("ZD2", "TFT")
    ]
    return pd.DataFrame(rows)


def test_identity_of_zd_players():
    (row,) = meters.identity(evaluators(), 50, rng(), 200).to_dict("records")
    assert (row["chi"], row["bound"]) == (2.0, pytest.approx(0.1))
    assert (row["s_x"], row["s_y"]) == pytest.approx((0.85, 0.4))
    assert row["factor"] == pytest.approx(0.85 / 0.4) and row["gap"] == pytest.approx(0.05)
    assert row["within"]
    far = evaluators().assign(reward=-0.4)
    assert not meters.identity(far, 50, rng(), 200)["within"].any()


def test_side_by_side_has_all_four_meters():
    shares = pd.DataFrame([
        {"window": w, "noise": n, "chi": 3.0, "low": 2.0, "high": 5.0, "verdict": "extortion"}
        for w in ("late", "game end")
        for n in ("on", "off")
    ])  # fmt: skip
    lines = pd.DataFrame([
        {"seed": s, "seat": k, "kind": kind, "slope": 2.0, "r2": 0.95 if kind == "all" else 0.3}
        for s in (0, 1, 2)
        for k in (0, 1)
        for kind in ("all", "tabular")
    ])  # fmt: skip
    fits = pd.DataFrame([
        {"seed": s, "against": a, "accepted": a == "frozen", "sse": 0.2}
        for s in (0, 1, 2)
        for a in ("frozen", "tabular")
    ])  # fmt: skip
    zd = meters.identity(evaluators(), 50, rng(), 50)
    table = meters.side_by_side("ppi", shares, lines, fits, zd, rng(), 50)
    assert list(table) == list(meters.COLUMNS) and table["meter"].tolist() == [1] * 2 + [
        2, 2, 2, 2, 3, 3, 3, 3, 4,
    ]  # fmt: skip
    told = table.set_index("what")["verdict"]
    assert told["χ, late"] == "extortion"
    assert told["slope, all opponents"] == "above 1" and told["R², all opponents"] == "line"
    assert told["R², tabular agents"] == "no line"
    assert told["accepted as ZD, against Fixed-ICL"] == "extortion"
    assert told["accepted as ZD, against tabular agents"] == "neither"
    assert table["paper"].iloc[0] == pytest.approx(0.88 / 0.24)
    alone = lines[lines["seed"] == 0]
    one = meters.side_by_side("ppi", shares, alone, fits, zd, rng(), 50)
    assert set(one["verdict"]) == {"open", ""}


def test_drift_of_a_seed_by_hand():
    """Both seats .1, .9, .7: peak .9 at phase 2, late .7; seat 0 earns .5 more at the end."""
    rows = [
        {"seed": 4, "noise": "on", "phase": k, "seat": seat, "cooperation": c,
         "reward": 0.5 + 0.5 * (seat == 0)}
        for k, c in ((1, 0.1), (2, 0.9), (3, 0.7))
        for seat in (0, 1)
    ]  # fmt: skip
    (row,) = panels.drift(pd.DataFrame(rows)).to_dict("records")
    assert (row["seed"], row["first"], row["peak"], row["at"]) == (4, 0.1, 0.9, 2)
    assert np.allclose([row["late"], row["fallen"], row["apart"]], [0.7, 0.2, 0.5])
