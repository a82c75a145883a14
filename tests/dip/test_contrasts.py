"""Paired differences, slopes and verdicts by hand."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.dip import arena, atlas, contrasts
from dipllm_lib.run import seeding


def games(one, sos, six="anchor"):
    """Rows of 14 games with the given shares."""
    held = {measure: 0.0 for measure in arena.MEASURES}
    return pd.DataFrame([
        {"one": one, "six": six, "game": g, "power": atlas.POWERS[g % 7], **held}
        | {"sos": float(sos[g]), "centres": 100 * float(sos[g])}
        for g in range(14)
    ])


BASE = np.linspace(0.05, 0.31, 14)
ROWS = pd.concat([
    games("a", BASE),
    games("b", BASE + 0.03),
    games("c", BASE - 0.02),
    games("d", BASE + np.tile([0.1, -0.1], 7)),
]).sample(frac=1.0, random_state=1)


def rng():
    return seeding.child(0, "contrasts")


def test_a_constant_gap_has_no_width_though_the_games_vary():
    pairs = {"b on a": ("b", "a"), "c on a": ("c", "a"), "d on a": ("d", "a")}
    found = contrasts.table(ROWS, pairs, "sos", rng(), 400).set_index("contrast")
    for label, gap, verdict in (("b on a", 3, "holds"), ("c on a", -2, "fails")):
        np.testing.assert_allclose(found.loc[label, ["mean", "low", "high"]].astype(float), gap)
        assert found.loc[label, "verdict"] == verdict
    unclear = found.loc["d on a"]
    assert unclear["low"] < 0 < unclear["high"] and unclear["verdict"] == "not resolved"
    assert found["games"].tolist() == [14] * 3
    centres = contrasts.table(ROWS, {"x": ("b", "a")}, "centres", rng(), 50)
    assert centres["mean"].iloc[0] == pytest.approx(3)  # in centres, not in points


def test_one_agent_against_two_kinds_of_opponents():
    rows = pd.concat([games("lm", BASE, "slow"), games("lm", BASE - 0.01, "fast")])
    found = contrasts.table(rows, {"x": ("fast", "slow")}, "sos", rng(), 50, by="six")
    assert found["mean"].iloc[0] == pytest.approx(-1)
    with pytest.raises(ValueError, match="lm: several pairings"):
        contrasts.table(rows, {"x": ("lm", "lm")}, "sos", rng(), 50)
    with pytest.raises(ValueError, match="no games of 'z'"):
        contrasts.table(ROWS, {"x": ("a", "z")}, "sos", rng(), 50)


def test_a_slope_is_the_line_through_the_means_and_paired_by_game():
    x = {"a": 0.0, "c": 1.0, "b": 3.0}
    rows = ROWS[ROWS["one"] != "d"]
    value, low, high = contrasts.slope(rows, x, "sos", rng(), 300)
    means = [100 * rows.loc[rows["one"] == name, "sos"].mean() for name in x]
    assert value == pytest.approx(np.polyfit(list(x.values()), means, 1)[0])
    assert low == pytest.approx(value) and high == pytest.approx(value)  # the same gap in all games
    np.testing.assert_allclose(contrasts.weights([0, 1, 2]), [-0.5, 0, 0.5])
    value, low, high = contrasts.slope(ROWS, {"a": 0, "d": 1}, "sos", rng(), 300)
    assert low < 0 < high and value == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="needs different x"):
        contrasts.slope(ROWS, {"a": 1.0, "b": 1.0}, "sos", rng(), 10)
    with pytest.raises(ValueError, match="same games"):
        shorter = pd.concat([games("a", BASE), games("b", BASE)[:7]])
        contrasts.slope(shorter, {"a": 0, "b": 1}, "sos", rng(), 10)


def test_against_a_bound():
    table = pd.DataFrame({"sos": [20.0, 10, 14, np.nan], "sos_low": [15.0, 9, 13, np.nan]})
    table["sos_high"] = [25.0, 11, 15, np.nan]
    found = contrasts.against(table, arena.PAR * 100)["verdict"].tolist()
    assert found[:3] == ["holds", "fails", "not resolved"] and pd.isna(found[3])


def test_points_of_differences_in_shares():
    table = pd.DataFrame({
        "one": ["b"], "other": ["a"], "measure": ["sos"], "blocks": [20],
        "mean": [0.03], "low": [0.02], "high": [0.04], "verdict": ["holds"],
    })  # fmt: skip
    found = contrasts.points(table).iloc[0]
    assert (found["contrast"], found["games"]) == ("b − a", 20)
    assert found[["low", "mean", "high"]].tolist() == pytest.approx([2, 3, 4])
