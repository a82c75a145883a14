"""Tasks, tables and figures of the league at small sizes."""

import dataclasses
import json

import numpy as np
import pytest

from dipllm_lib.kto import league_figures, league_members, league_study
from dipllm_lib.kto.league import ARMS
from dipllm_lib.run import plotting, profiles, seeding
from dipllm_lib.run.checkpoints import Checkpoints

SMALL = dataclasses.replace(
    profiles.load("smoke", 0).kto,
    league_rounds=2,
    league_members=12,
    league_updates=2,
    league_decisions=50,
    objective_steps=3,
    league_bargain=(3, 10),
    league_resamples=30,
)


@pytest.fixture(scope="module")
def wanted():
    return league_study.tasks(SMALL, 0)


@pytest.fixture(scope="module")
def results(wanted):
    return json.loads(json.dumps([league_study.run(task) for task in wanted[0]]))


def rng():
    return seeding.child(0, "league study")


def test_tasks(wanted):
    tasks, keys = wanted
    assert len(set(keys)) == len(keys) == 3 * len(ARMS) * SMALL.tabular_seeds
    assert keys[0] == "league-ultimatum-pool-0"


def test_a_stopped_study_goes_on_with_the_same_results(wanted, results, tmp_path):
    tasks, keys = wanted
    some = [k for k, task in enumerate(tasks) if task.arm == "pool"]
    kept = Checkpoints(tmp_path, SMALL.hash(), 0)
    chosen = [tasks[k] for k in some], [keys[k] for k in some]
    kept.many(league_study.run, chosen[0][:2], chosen[1][:2], 1, 1)
    assert len(list(tmp_path.glob("*.json"))) == 2
    whole = kept.many(league_study.run, *chosen, 1, 1)
    assert whole == [results[k] for k in some]


def test_by_round(results):
    table = league_study.by_round(results, rng(), 30)
    assert len(table) == 3 * len(ARMS) * 3
    start = table[table["round"] == 0].groupby("game")["exploitability"]
    assert (start.nunique() == 1).all()  # every arm begins with the base
    assert start.first()["repeated"] == pytest.approx(1.5 / 5)  # 2 (3 - 2.25)
    assert (table["exploitability_low"] <= table["exploitability"] + 1e-12).all()


def test_weights(results):
    table = league_study.weights(results)
    assert set(table["arm"]) == {arm for arm, form in ARMS.items() if form}
    sums = table.groupby(["game", "arm", "round"])["weight"].sum()
    assert sums.to_numpy() == pytest.approx(np.ones(len(sums)))
    unseen = {m.name for g in league_members.GAMES for m in league_members.held_out(_arena(g))}
    assert not unseen & set(table["member"])


def _arena(game):
    return league_study.arena(SMALL, game)


def test_arms_and_contrasts(results):
    table = league_study.arms(results, rng(), 30)
    assert len(table) == 4 * (len(ARMS) + 1) and (table["seeds"] == SMALL.tabular_seeds).all()
    assert list(table["arm"][: len(ARMS) + 1]) == ["base", *ARMS]
    scale = np.where(table["game"] == "repeated", 5, 1)
    gap = (table["best"] - table["payoff"]) / scale
    assert table["regret"].to_numpy() == pytest.approx(gap.to_numpy())
    lines = league_study.lines(results)
    means = table.groupby(["game", "arm"])["regret"].mean()
    own = means["bargaining", "self-play"] - means["bargaining", "pool"]
    assert lines["bargaining: pool − self-play"].mean() == pytest.approx(own)
    parts = [lines[f"{game}: pool − self-play"] for game in league_members.GAMES]
    assert lines["all games: pool − self-play"].mean() == pytest.approx(np.mean(parts))
    answers, values = league_study.judged(results, rng(), 30)
    assert (answers["verdict"] == "open").all() and len(values) == 2 * len(answers)


def test_matrices_are_of_the_last_pool_of_the_first_seed(results, wanted):
    table = league_study.matrices(results, wanted[0])
    assert list(dict.fromkeys(table["game"])) == list(league_members.GAMES)
    names = set(table["row"][table["game"] == "bargaining"])
    assert {"snapshot 2", "swapped 2", "exploiter 2", "firm", "base"} <= names
    assert (table["episodes"] == SMALL.league_episodes).all()


def test_figures(results, wanted):
    matrix = league_study.matrices(results, wanted[0])
    rounds = league_study.by_round(results, rng(), 30)
    arms = league_study.arms(results, rng(), 30)
    weights = league_study.weights(results)
    drawn = [league_figures.over_rounds(rounds) for _ in range(2)]
    assert plotting.render(drawn[0]) == plotting.render(drawn[1])
    assert len(league_figures.matrix(matrix, "caption").axes) == 6  # three games, three scales
    assert len(league_figures.weights(weights).axes) == 6
    assert [ax.get_title(loc="left") for ax in league_figures.arms(arms).axes][
        -1
    ] == "bargaining: firm"
