"""Games that a difference needs: the table of the specification, formulas by hand, simulation."""

from math import inf, sqrt

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.dip import atlas, planning

# specification, section 6: SE in points at a sd of 0.20 and 0.25 of one game
STATED = {
    42: "3.1–3.9",
    70: "2.4–3.0",
    140: "1.7–2.1",
    280: "1.2–1.5",
    700: "0.8–0.9",
    1400: "0.5–0.7",
    7000: "0.2–0.3",
}


def test_the_table_of_the_specification():
    table = planning.errors_table([0.2, 0.25])
    found = {
        int(row["games"]): f"{row['sd 0.2']:.1f}–{row['sd 0.25']:.1f}"
        for row in table.to_dict("records")
    }
    assert found == STATED
    assert (0.25 / 0.001) ** 2 == 62_500
    assert planning.standard_error(0.25, 62_500) == pytest.approx(0.001)
    assert planning.factor() == pytest.approx(2.8, abs=0.002)


def test_games_by_hand():
    # SE <= gap / 2.8016: n = (0.25 * 2.8016 / 0.05)^2 = 196.2, the next multiple of 7 is 203
    assert planning.games_needed(0.05, 0.25) == 203
    # two arms on different games: twice as many, 392.4; on the same games at rho 0.5: 196.2
    assert planning.games_needed(0.05, 0.25, 0.0) == 399
    assert planning.games_needed(0.05, 0.25, 0.5) == 203
    assert planning.standard_error(0.2, 100, 0.5) == pytest.approx(0.02)
    assert planning.standard_error(0.3, 100, 0.0, 0.4) == pytest.approx(0.05)
    assert planning.standard_error(0.3, 100, 1.0) == 0
    assert planning.games_needed(0.0, 0.2) == inf and planning.games_needed(1.0, 0.2) == 14
    assert planning.smallest_gap(0.25, 203) < 0.05 < planning.smallest_gap(0.25, 196)
    row = planning.gaps_table([0.05], 0.25, 0.5).loc[0].to_dict()
    assert row == {"gap": 5, "bound": 203, "unpaired": 399, "paired": 203}
    for bad in (lambda: planning.games_needed(-0.1, 0.2), lambda: planning.factor(1.0)):
        with pytest.raises(ValueError, match="need"):
            bad()


def arm(name, values, six="anchor"):
    """Rows of games with these scores; game g is on power g mod 7."""
    games = np.arange(len(values))
    powers = np.array(atlas.POWERS)[games % 7]
    return pd.DataFrame({
        "one": name, "six": six, "game": games, "power": powers, "sos": values
    })  # fmt: skip


def test_spread_and_correlation_within_powers_by_hand():
    # two games per power: the power's mean +- 0.1, so s^2 = 0.02 on each power
    seat = np.linspace(0.1, 0.7, 7)
    first = arm("x", np.concatenate([seat - 0.1, seat + 0.1]))
    assert planning.spread(first) == pytest.approx(sqrt(0.02))
    same = arm("y", np.concatenate([0.5 - seat - 0.2, 0.5 - seat + 0.2]))
    assert planning.correlation(first, same) == pytest.approx(1)  # seats do not count
    signs = np.array([1, 1, 1, 1, 1, -1, -1])  # 5 powers move together, 2 against: rho = 3 / 7
    mixed = arm("z", np.concatenate([seat - 0.1 * signs, seat + 0.1 * signs]))
    assert planning.correlation(first, mixed) == pytest.approx(3 / 7)
    assert planning.correlation(first, arm("c", np.full(14, 0.2))) == 0
    assert planning.spread(first[:7]) == pytest.approx(np.std(seat, ddof=1))  # one game each
    with pytest.raises(ValueError, match="same games"):
        planning.correlation(first, mixed[:7])
    table = planning.measured(pd.concat([first, mixed]), "x").set_index("one")
    assert table.loc["x", "sd"] == pytest.approx(100 * sqrt(0.02))
    assert table.loc["x", "se"] == pytest.approx(100 * sqrt(0.02 / 14))
    assert table.loc["z", "rho"] == pytest.approx(3 / 7) and np.isnan(table.loc["x", "rho"])
    paired = planning.factor() * sqrt(2 * (1 - 3 / 7) * 0.02 / 14)
    assert table.loc["z", "paired"] == pytest.approx(100 * paired)
    assert table.loc["z", "unpaired"] == pytest.approx(100 * paired / sqrt(1 - 3 / 7))


def test_a_gap_of_the_planned_size_is_found_four_times_of_five():
    rng, sd, rho, games, repeats = np.random.default_rng(7), 0.22, 0.6, 140, 4000
    gap = planning.smallest_gap(sd, games, rho)
    shared = rng.normal(size=(repeats, games)) * sd * sqrt(rho)
    a, b = (shared + rng.normal(size=(repeats, games)) * sd * sqrt(1 - rho) for _ in range(2))
    differences = a - b + gap
    error = differences.std(axis=1, ddof=1) / sqrt(games)
    found = (np.abs(differences.mean(axis=1)) > 1.96 * error).mean()
    assert found == pytest.approx(0.8, abs=0.025)
