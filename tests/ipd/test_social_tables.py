"""Onset, plateau, contrasts and costs by hand; exact gains of the pools."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.ipd import contrasts, mixed_pool, social_tables
from dipllm_lib.run import seeding


def result(setting, curves, question="mixing", players=2, noise=1.2, seconds=(4.0, 1.0, 1.0, 1.0)):
    """As of social_runs.run: seed -> cooperation at half noise in phases 1 … 3, mean of seats."""
    rows = []
    names = ("learner", "TFT", "tabular") if players == 2 else ("learner, tabular",)
    names = names if players == 2 else (*names, "tabular, tabular")
    for seed, curve in curves.items():
        for phase, value in enumerate(curve, 1):
            for seat in range(2):
                for level, factor in (("on", 1.0), ("half", 1.0), ("off", 0.5)):
                    rows += [
                        (seed, phase, seat, name, level, factor * value + 0.1 * (2 * seat - 1), 1.0)
                        for name in names
                    ]
    columns = ["seed", "phase", "seat", "opponent", "noise", "cooperation", "reward"]
    tables = {"probes": mixed_pool.plain(pd.DataFrame(rows, columns=columns))}
    return {
        "question": question, "setting": setting, "learner": "ppi", "players": players,
        "rounds": 20, "phases": 3, "noise": noise, "gap": 0.02, "seconds": list(seconds),
        "tables": tables,
    }  # fmt: skip


FOUND = [
    result("0.5", {0: (0.2, 0.6, 0.8), 1: (0.1, 0.2, 0.4)}),
    result("0.5", {2: (0.6, 0.4, 0.9)}),
    result("0", {0: (0.1, 0.1, 0.3), 1: (0.1, 0.1, 0.2), 2: (0.1, 0.1, 0.4)}),
]


def test_onset_plateau_and_censoring_by_hand():
    found = social_tables.per_seed(FOUND).set_index(["setting", "seed"])
    one = found.loc["0.5"]
    assert one["onset"].tolist()[0::2] == [2.0, 1.0] and np.isnan(one.loc[1, "onset"])
    assert one["censored"].tolist() == [False, True, False]
    assert one["bound"].tolist() == [2.0, 4.0, 1.0]  # the censored one: after the last phase
    assert one["plateau"].tolist() == pytest.approx([0.8, 0.4, 0.9])
    assert one["off"].tolist() == pytest.approx([0.4, 0.2, 0.45])
    assert found.loc["0", "censored"].all() and len(found) == 6


def test_summary_has_every_setting_and_seed():
    table = social_tables.summary(FOUND, seeding.child(0, "x"), 200).set_index("setting")
    assert list(table.index) == ["0.5", "0"] and table["seeds"].tolist() == [3, 3]
    assert table["reached"].tolist() == [2, 0]
    assert table.loc["0.5", "onset"] == pytest.approx(7 / 3)
    assert table.loc["0", ["onset", "onset_low", "onset_high"]].tolist() == [4.0] * 3
    assert table.loc["0.5", "plateau"] == pytest.approx(0.7)
    assert table.loc["0.5", "low"] < 0.7 < table.loc["0.5", "high"]
    assert table.loc["0", "floor"] == pytest.approx(0.0478, abs=1e-4)  # Phi(-1/0.6)
    assert table.loc["0.5", "question"].startswith("Which share")
    assert table.loc["0.5", "gap"] == 0.02


def test_the_floor_of_public_goods_knows_the_price():
    """r = 2: a gift costs 1/3, Phi(-(1/3)/0.6) = Phi(-0.556) = .289."""
    found = [result("r 2", {0: (0.1, 0.2, 0.3)}, "goods", players=3)]
    table = social_tables.summary(found, seeding.child(0, "x"), 10)
    assert table.loc[0, "floor"] == pytest.approx(0.289, abs=1e-3)
    assert table.loc[0, "plateau"] == pytest.approx(0.3) and np.isnan(table.loc[0, "tft"])


def test_contrasts_by_hand():
    lines = social_tables.differences(FOUND, "0")
    assert list(lines) == ["0.5 − 0: plateau"]
    assert lines["0.5 − 0: plateau"].tolist() == pytest.approx([0.5, 0.2, 0.5])
    judged = contrasts.judged(lines, seeding.child(0, "x"), 500)
    assert judged.loc[0, "verdict"] == "shown"
    slopes = social_tables.slopes(FOUND, {"0.5": 0.5, "0": 0.0})["slope of plateau"]
    assert slopes.tolist() == pytest.approx([1.0, 0.4, 1.0])
    sooner = social_tables.slopes(FOUND, {"0.5": 0.5, "0": 0.0}, "bound")["slope of bound"]
    assert sooner.tolist() == pytest.approx([-4.0, 0.0, -6.0])
    with pytest.raises(ValueError, match="no setting 'base'"):
        social_tables.differences(FOUND, "base")
    with pytest.raises(ValueError, match="two settings with different numbers"):
        social_tables.slopes(FOUND, {"0.5": 1.0, "0": float("nan")})


def test_exact_gains_of_the_pools():
    """Section 8.3 at T = 50: .0482, .1041, .165, .216, and .2450 of the corners."""
    names = ("uniform", "beta 0.5", "beta 0.25", "beta 0.1", "corners", "families")
    found = social_tables.gains(names, 50, seeding.child(0, "gains"), 3000, 12)
    found = found.set_index("pool")
    stated = {"uniform": 0.0482, "beta 0.5": 0.1041, "beta 0.25": 0.165, "beta 0.1": 0.216}
    for name, gain in stated.items():
        assert abs(found.loc[name, "gain"] - gain) < 4 * found.loc[name, "se"] + 5e-4
    assert found.loc["corners", "gain"] == pytest.approx(0.2450, abs=5e-5)
    assert found.loc["corners", "bayes"] == pytest.approx(0.2081 - 0.0106, abs=5e-4)
    assert np.isnan(found.loc["families", "bayes"]) and found.loc["families", "gain"] > 0.25
    # an unknown opponent is worth less than a known one, in 12 rounds still something
    assert 0 < found.loc["uniform", "bayes"] < found.loc["uniform", "gain"]
    table = social_tables.diversity(
        [result("corners", {0: (0.1, 0.2, 0.7)}, "diversity")],
        found.reset_index(), seeding.child(0, "x"), 10,
    )  # fmt: skip
    assert table.loc[0, "gain"] == pytest.approx(0.2450, abs=5e-5) and len(table) == 1


def test_costs_by_hand():
    """4 s before phase 1 and 1 s a phase, for two seeds together: half of it is a seed's."""
    found = [result("head", {0: (0.2, 0.6, 0.8), 1: (0.1, 0.2, 0.4)}, "cost")]
    table = social_tables.cost(found)
    assert table["seconds"].tolist() == pytest.approx([2.5, 2.5, 3.0, 3.0, 3.5, 3.5])
    price = social_tables.price(table)
    assert price.loc[0, "reached"] == 1 and price.loc[0, "seconds"] == np.inf
    assert social_tables.price(table, 0.3).loc[0, "seconds"] == pytest.approx(3.5)


def test_a_table_that_is_missing():
    with pytest.raises(ValueError, match="no result has a table 'shift'"):
        social_tables.joined(FOUND, "shift")
