"""The whole section on a few games: tables, figures, resuming."""

from dataclasses import replace

import pytest

from dipllm_lib.kto import press_arms, press_figures, press_study
from dipllm_lib.run import profiles, store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study():
    settings = replace(
        profiles.load("smoke", 0).kto, press_resamples=50, press_candidates=3, press_last_year=1902
    )
    plan = press_arms.arms(settings)
    scene = press_arms.SceneSettings.of(settings)
    tasks = [(arm, g, 0, scene, 1902) for arm in plan for g in range(2)]
    logs = [press_arms.play_one(task) for task in tasks]
    small = [replace(arm, games=7) for arm in plan]
    return press_study.games(small, logs, 50, 0)


def test_tables(study):
    seen = press_study.overview(study).set_index("arm")
    assert (
        seen.loc[press_arms.OFF, "proposals"] == 0 and (seen["parsed"] == seen["proposals"]).all()
    )
    assert seen.loc["all Deviator, none", "agreements"] > 0
    behaviour = press_study.behaviour(study)
    assert (behaviour["definition"] != "").all() and behaviour["value"].notna().all()
    shares = behaviour[behaviour["unit"] == "share"]
    assert shares[["value", "low", "high"]].stack().between(0, 1).all()
    kept = behaviour[behaviour["metric"] == "keeping where possible"].set_index("arm")["value"]
    assert kept["all Deviator, binding"] == kept["all seven"] == 1
    assert set(press_study.by_kind(study)["metric"]) == {
        "proposals", "acceptance", "promise keeping",
    }  # fmt: skip


def test_controls_of_the_phases_are_zero(study):
    phases = press_study.phases(study)
    storms = phases[phases["statistic"] == "avalanche"].set_index("arm")["value"]
    for arm in (press_arms.OFF, "three PhasedNegotiator, binding", "all Deviator, binding"):
        assert (storms.loc[arm] == 0).all()
    assert set(phases["statistic"]) == {"goodwill", "goodwill drift", "punishment", "avalanche"}


def test_controls_of_the_difference_are_zero(study):
    found = press_study.differences(study).set_index(["arm", "measure"])["value"]
    for arm in ("one, six silent", "all Deviator, none"):
        assert (found.loc[arm] == 0).all()
    assert found.loc["all seven"].abs().max() > 0


def test_figures_are_drawn_and_the_same_twice(study):
    arms = [arm.name for arm in study.arms]
    tables = [press_study.acceptance(study), press_study.behaviour(study)]
    tables += [press_study.differences(study), press_study.phases(study)]
    for _ in range(2):
        figures = [
            press_figures.acceptance(tables[0], arms),
            press_figures.keeping(tables[1], arms),
            press_figures.differences(tables[2]),
            press_figures.phases(tables[3], arms),
        ]
    assert [len(figure.axes) for figure in figures] == [4, 1, 2, 3]


def test_games_are_kept_one_by_one(home):
    profile = replace(profiles.load("smoke", 0), workers=1)
    settings = replace(profile.kto, press_last_year=1901, press_candidates=2)
    shelf = store.Shelf("09_kto_language_games", profile, settings)
    plan = [replace(arm, games=7) for arm in press_arms.arms(settings)[:2]]
    first = press_arms.logs(shelf, plan)
    kept = sorted((home / "data/smoke/partial/09").glob("press.*.json"))
    assert len(kept) == 14 == len(first)
    kept[3].unlink()
    assert press_arms.logs(shelf, plan) == first
