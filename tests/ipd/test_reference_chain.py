"""The mechanism without learning: the specification's numbers within four standard errors."""

import numpy as np
import pytest

from dipllm_lib.ipd import reference_chain
from dipllm_lib.ipd.reference_chain import QUARTERS

PRINTED = 0.005  # numbers are given to two places


def test_quarters_by_hand():
    own = np.array([[1, 1, 0, 0, 0, 1, 1, 1], [1, 0, 0, 0, 1, 1, 0, 1]], np.uint8)
    assert list(reference_chain.quarters(own).values()) == [0.75, 0.0, 0.75, 0.75]
    with pytest.raises(ValueError, match="no four quarters"):
        reference_chain.quarters(own[:, :3])


def test_step_1_learns_tit_for_tat_and_earns_more_than_all_d():
    found = reference_chain.step1(0, games=1500, ks=(0.0, 1.0)).set_index(["k", "opponent"])
    for name in reference_chain.COPIERS:
        last = found.loc[(1.0, name), list(QUARTERS)].tolist()[1:]
        assert last == pytest.approx([1.0, 1.0, 0.96])
    assert found.loc[(1.0, "STFT"), "first"] == pytest.approx(0.36)
    for k, value in ((0.0, 1.0215), (1.0, 1.0274)):
        row = found.loc[(k, "tabular")]
        assert abs(row.reward - value) < 4 * np.hypot(row.se, 0.002) and row.se < 0.005
    assert found.loc[(1.0, "tabular"), "cooperation"] == pytest.approx(0.06, abs=0.01)


def test_step_2_zd_players_extort_it():
    found = reference_chain.step2(0, games=400).set_index(["k", "chi"])
    expected = {
        (1.0, 1.5): (0.87, 0.58), (1.0, 2.0): (0.88, 0.44), (1.0, 3.0): (0.85, 0.28),
        (1.0, 5.0): (0.84, 0.17), (0.0, 1.5): (0.49, None), (0.0, 2.0): (0.49, None),
        (0.0, 3.0): (0.46, None), (0.0, 5.0): (0.41, None),
    }  # fmt: skip
    for key, pays in expected.items():
        row = found.loc[key]
        for seat, pay in zip("xy", pays, strict=True):
            if pay is not None:  # the printed number has an error of its own, of 2,000 games
                allowed = 4 * np.hypot(row[f"se_{seat}"], 0.005) + PRINTED
                assert abs(row[f"s_{seat}"] - pay) < allowed, (key, seat)
        bound = row.bound + 4 * np.hypot(row.se_x, key[1] * row.se_y)
        assert abs(row.s_x - key[1] * row.s_y) < bound
        assert row.s_x == pytest.approx(2 * row.cooperation_y - row.cooperation_x)
    assert (found.loc[1.0, "s_x"] > found.loc[0.0, "s_x"] + 0.3).all()  # probing pays the extorter


def test_step_3_nobody_cooperates():
    found = reference_chain.step3(0, games=150).set_index(["pair", "tremble"])
    for chi in reference_chain.CHIS:
        assert found.loc[(f"ZD{chi:g}", 0.0), ["s_x", "s_y"]].tolist() == [0.0, 0.0]
        assert found.loc[(f"ZD{chi:g}", 0.02), "cooperation_x"] < 0.15
    for k in ("0", "0.5", "1"):
        alike = found.loc[(f"Bayes k {k}", 0.0)]
        assert 0.05 <= alike.cooperation_x <= 0.19 and alike.s_x == alike.s_y
        shaken = found.loc[(f"Bayes k {k}", 0.02)]
        assert shaken["first"] > shaken["third"] > 0 and shaken["fourth"] < 0.06


def test_what_a_counting_player_concedes_late():
    """A player that believes and plans still tries C with AllD and the pool, but rarely."""
    found = reference_chain.late_cooperation(0, 50, "uniform", games=400)
    assert set(found) == {"AllD", "tabular"}
    assert 0 <= found["AllD"] <= 0.15 and 0.02 < found["tabular"] < 0.1
    again = reference_chain.late_cooperation(0, 50, "uniform", games=400)
    assert found == again
