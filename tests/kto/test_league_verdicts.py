"""Verdicts from hand-made tables: every side of every line."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.kto import league_study, league_verdicts
from dipllm_lib.kto.memory_players import STORE, WINDOW
from dipllm_lib.kto.memory_study import UNIFORM


def league(low=0.1, seeds=10):
    games = ("ultimatum", "repeated", "bargaining", "all games")
    rows = [
        {"contrast": f"{game}: {one} − {two}", "mean": 0.2, "low": low, "high": 0.3}
        for one, two in league_study.ORDER
        for game in games
    ]
    return pd.DataFrame(rows).assign(seeds=seeds)


def steady(**ends):
    rows = [{"arm": WINDOW, "seeds": 5}, {"arm": STORE, "seeds": 5}]
    table = pd.DataFrame(rows)
    for what, (value, low, high) in ends.items():
        table[f"{what}_gain"], table[f"{what}_gain_low"] = value, low
        table[f"{what}_gain_high"] = high
    return table


def changed(value, low, high, share, seeds=5):
    rows = []
    for measure, passed in (("rounds", share), ("recovery", 0.0)):
        head = {"measure": measure, "kind": "payoffs", "announced": False, "seeds": seeds}
        rows.append(head | {"arm": STORE, "value": value, "low": low, "high": high})
        rows.append(head | {"arm": UNIFORM, "value": passed, "low": passed, "high": passed})
    return pd.DataFrame(rows)


def parameters(above, seeds=10):
    rows = []
    for game, (value, low, high) in above.items():
        row = {"game": game, "parameter": "lambda", "seeds": seeds}
        row |= {"above": value, "above_low": low, "above_high": high}
        rows.append(row | {"drift": -0.05, "drift_low": -0.06, "drift_high": -0.04})
    return pd.DataFrame(rows)


NEAR = {"ultimatum": (0.004, 0.003, 0.006), "bargaining": (2.4, 2.3, 2.5)}
FULL = steady(consistency=(0.0, -0.1, 0.1), adaptivity=(0.2, 0.1, 0.3), regret=(-0.2, -0.3, -0.1))


def by(table, claim):
    return table[table["claim"] == claim]["verdict"].tolist()


def test_everything_shown():
    table = league_verdicts.verdicts(league(), FULL, changed(0.5, 0.0, 1.0, 0.0), parameters(NEAR))
    assert list(table.columns) == league_verdicts.COLUMNS
    assert table["claim"].tolist() == ["K6"] * 12 + ["K11"] * 3 + ["K12"] * 4 + ["K16"] * 3
    assert table["arm"].tolist()[:4] == ["all games"] * 3 + ["ultimatum"]
    assert by(table, "K6") == ["shown"] * 12
    assert by(table, "K11") == ["open", "shown", "shown"]
    regret = table[table["claim"] == "K11"].iloc[2]
    assert regret[["value", "low", "high"]].tolist() == [0.2, 0.1, 0.3]  # sign turned
    assert by(table, "K12") == ["shown"] * 4 and by(table, "K16") == ["shown"] * 3
    lines = league_verdicts.told(table, "K16").splitlines()
    assert lines[0] == (
        "K16, the edge of lambda above chance is 0 within 0.01 (ultimatum):"
        " +0.004 [+0.003, +0.006], shown"
    )


def test_the_other_side():
    """A uniform player that counts as adapted shows that the definition does not see."""
    far = {"ultimatum": (0.5, 0.4, 0.6), "bargaining": (0.1, -0.1, 0.3)}
    table = league_verdicts.verdicts(
        league(low=-0.1), FULL, changed(5.0, 3.0, 7.0, 1.0), parameters(far)
    )
    assert by(table, "K6") == ["open"] * 12
    rows = table[table["claim"] == "K12"]
    assert rows["verdict"].tolist() == ["reversed", "reversed", "reversed", "shown"]
    assert rows["statement"].str.contains("adapt,").tolist() == [True, True, False, False]
    assert by(table, "K16")[:2] == ["reversed", "open"]


def test_few_seeds_and_short_games():
    few = league_verdicts.verdicts(
        league(seeds=2),
        steady(regret=(-0.2, -0.3, -0.1)).assign(seeds=2),
        changed(0.5, 0.0, 1.0, 0.0, seeds=2),
        parameters(NEAR, seeds=2),
    )
    assert set(by(few, "K6") + by(few, "K12") + by(few, "K16")) == {"open"}
    assert by(few, "K11") == ["not measured", "not measured", "open"]
    assert few[few["claim"] == "K11"]["n"].tolist() == [0, 0, 2]
    assert np.isnan(few[few["claim"] == "K11"]["value"].iloc[0])
    assert league_verdicts.told(few, "K11").splitlines()[0].endswith("window): not measured")


@pytest.mark.parametrize(
    ("found", "line", "below", "verdict"),
    [
        ((0.5, 0.1, 0.9), 0.0, False, "shown"),
        ((0.5, -0.1, 0.9), 0.0, False, "open"),
        ((-0.5, -0.9, -0.1), 0.0, False, "reversed"),
        ((0.5, 0.1, 1.0), 1.0, True, "shown"),
        ((0.5, 0.1, 1.1), 1.0, True, "open"),
        ((1.5, 1.1, 1.9), 1.0, True, "reversed"),
    ],
)
def test_sides_of_a_line(found, line, below, verdict):
    assert league_verdicts.side(found, line, 3, below) == verdict
    assert league_verdicts.side(found, line, 2, below) == "open"


def test_within_a_line():
    assert league_verdicts.inside((0.0, -0.01, 0.01), 0.01, 3) == "shown"
    assert league_verdicts.inside((0.01, 0.005, 0.02), 0.01, 3) == "open"
    assert league_verdicts.inside((-0.03, -0.04, -0.02), 0.01, 3) == "reversed"
