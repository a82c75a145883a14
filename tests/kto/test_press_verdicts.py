"""Verdicts on tables made by hand, and what arms need to be compared at all."""

import pandas as pd
import pytest

from dipllm_lib.kto import press_arms, press_verdicts
from dipllm_lib.kto.press_verdicts import BINDING, CONTROL, LEARNED, RANDOM, SCRIPT
from dipllm_lib.run import profiles

NAN = float("nan")


def differences(low: float, high: float) -> pd.DataFrame:
    row = {"arm": "pair", "measure": "negotiators", "value": (low + high) / 2}
    return pd.DataFrame([row | {"low": low, "high": high, "games": 7}])


def phases(years=(1901, 1902), after=0.3) -> pd.DataFrame:
    """The script starts at .9 and ends at `after`; Random stays at .2; each interval is ±.05."""
    rows = []
    for year in years:
        script = 0.9 if year == 1901 else after
        rows += [("goodwill", SCRIPT, year, script), ("goodwill", RANDOM, year, 0.2)]
        storm = 0.1 if year == years[-1] else 0.0
        rows += [("avalanche", SCRIPT, year, storm)]
        rows += [("avalanche", arm, year, 0.0) for arm in (BINDING, press_arms.OFF)]
    drift = after - 0.9 if len(years) > 1 else NAN
    rows += [("goodwill drift", SCRIPT, NAN, drift), ("goodwill drift", RANDOM, NAN, 0 * drift)]
    rows += [("punishment", SCRIPT, NAN, 0.5), ("punishment", RANDOM, NAN, 0.01)]
    table = pd.DataFrame(rows, columns=["statistic", "arm", "year", "value"])
    width = 0.05 * (table["value"] != 0)
    table = table.assign(low=table["value"] - width, high=table["value"] + width)
    return table.assign(alliance=table["statistic"].map({"punishment": "proposed"}))


def learned(drift=-0.3, games=7) -> pd.DataFrame:
    """A language model that begins as the script and never attacks."""
    values = {"goodwill": 0.9, "goodwill drift": drift, "punishment": 0.01, "avalanche": 0.0}
    rows = [{"statistic": k, "arm": LEARNED, "year": 1901, "value": v} for k, v in values.items()]
    rows.append(rows[1] | {"arm": CONTROL, "value": -0.04})
    table = pd.DataFrame(rows).assign(games=games)
    table = table.assign(low=table["value"] - 0.05, high=table["value"] + 0.05)
    return table.assign(alliance=table["statistic"].map({"punishment": "proposed"}))


def verdicts(*tables) -> pd.DataFrame:
    return press_verdicts.verdicts(*tables, learned())


def test_all_shown():
    found = verdicts(differences(0.01, 0.03), phases())
    assert found["verdict"].tolist() == ["shown"] * 12 + ["open"] * 2
    assert found["claim"].tolist() == ["K14"] + ["K15"] * 13
    told = found["statement"].str.startswith("learned, ").tolist()
    assert told == [False] * 9 + [True, True, False, True, True]
    assert list(found.columns) == press_verdicts.COLUMNS


def test_the_other_verdicts():
    found = verdicts(differences(-0.01, 0.03), phases(after=0.9))
    assert found["verdict"].tolist()[:3] == ["open", "shown", "open"]
    assert verdicts(differences(-2, -1), phases()).loc[0, "verdict"] == "shown"
    worse = phases(after=1.2)
    worse.loc[worse["arm"] == press_arms.OFF, ["value", "low", "high"]] = 0.2, 0.1, 0.3
    told = verdicts(differences(0, 1), worse)["verdict"].tolist()
    assert told[2] == "reversed" and told[8] == "reversed"


def test_a_profile_that_is_too_short():
    short = phases(years=(1901,))
    short.loc[short["statistic"] == "punishment", ["value", "low", "high"]] = NAN
    found = verdicts(differences(0, 1), short)["verdict"].tolist()
    assert found[2:6] == ["not measured"] * 4 and found[6] == "shown"
    with pytest.raises(ValueError, match="compute it first"):
        verdicts(differences(0, 1), short[short["arm"] != RANDOM])


def test_a_learned_negotiator_that_says_nothing_is_not_measured():
    none = press_verdicts.verdicts(differences(0, 1), phases(), learned().iloc[:0])
    assert none["verdict"].tolist()[9:] == ["not measured"] * 5 and none["value"].isna().sum() == 5
    few = press_verdicts.verdicts(differences(0, 1), phases(), learned(games=6))
    assert few["verdict"].tolist()[9:] == ["not measured"] * 5
    more = press_verdicts.verdicts(differences(0, 1), phases(), learned(drift=0.3))
    assert more["verdict"].tolist()[9:] == ["shown", "reversed", "shown", "open", "open"]


def test_intervals_in_words():
    row = {"arm": "a", "value": 0.12345, "low": -0.1, "high": 0.2, "n": 40.0}
    table = pd.DataFrame([row, row | {"arm": "b"}])
    assert press_verdicts.told(table, ["b", "c"]) == "b: 0.123 [-0.100, 0.200], n 40"
    games = table.drop(columns="n").assign(games=7)
    assert press_verdicts.told(games, ["a"], 100) == "a: 12.35 [-10.00, 20.00], 7 games"
    assert press_verdicts.same({"value": NAN, "low": NAN, "high": NAN}) == "not measured"


@pytest.mark.parametrize("name", profiles.NAMES)
def test_every_game_with_press_has_one_without(name):
    plan = press_arms.arms(profiles.load(name, 0).kto)
    assert plan[0].name == press_arms.OFF
    assert all(arm.games <= plan[0].games for arm in plan)
