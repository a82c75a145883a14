"""The ladder: schedule, tasks, and what the table says about rows made by hand."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.dip import arena, atlas, game, ladder
from dipllm_lib.run import files, parallel


@dataclass(frozen=True)
class Settings:
    anchor_temperature: float = 0.07
    anchor_uniform: float = 0.02
    ladder_games: int = 14
    ladder_matrix_games: int = 7
    ladder_last_year: int = 1902
    ladder_stalemate_years: int = 3


SMALL = Settings()
RNG = np.random.default_rng


def test_every_player_has_its_name():
    assert tuple(ladder.players(SMALL)) == ladder.NAMES
    assert ladder.neighbours()[0] == ("Hold", "RandomLegal")
    assert ladder.neighbours()[-1] == ("SoftDumbBot", "BR-1")


def test_schedule_has_every_pairing_once():
    plan = ladder.schedule(SMALL)
    pairs = [(one, six) for one, six, _ in plan]
    assert len(pairs) == len(set(pairs)) == 64
    games = {pair: n for *pair, n in map(list, plan) for pair in [tuple(pair)]}
    assert games["Easy", "RandBot"] == games["RandBot", "Easy"] == 14
    assert games["Hold", "BR-1"] == games["Hold", "Hold"] == 7
    assert len(ladder.schedule(replace(SMALL, ladder_matrix_games=0))) == 14
    with pytest.raises(ValueError, match="10 games leave seats unbalanced"):
        ladder.schedule(replace(SMALL, ladder_games=10))


def test_tasks_are_the_games_of_the_arena():
    tasks, keys = ladder.tasks(SMALL, 3)
    assert len(tasks) == len(set(keys)) == 14 * 14 + 50 * 7
    assert ladder._game_of(SMALL, 0) == ("RandomLegal", "Hold", 0)
    assert ladder._game_of(SMALL, 14 + 3) == ("Hold", "RandomLegal", 3)
    assert ladder._game_of(SMALL, len(tasks) - 1) == ("BR-1", "BR-1", 6)
    with pytest.raises(ValueError, match="game 546: the schedule of the ladder has 546 games"):
        ladder._game_of(SMALL, len(tasks))
    number = 4 * 14 + 9  # Easy against six RandBot
    row = ladder.ladder_game(pickle.loads(pickle.dumps(tasks[number])))
    found = ladder.players(SMALL)
    whole = arena.one_vs_six(found["Easy"], found["RandBot"], 14, game.EndRules(1902, 3), 3)
    assert row == whole.to_dict("records")[9]
    assert files.to_json(row) == files.to_json(ladder.ladder_game(tasks[number]))


@pytest.mark.slow
def test_two_processes_play_the_same_games():
    tasks, _ = ladder.tasks(SMALL, 3)
    some = tasks[::60]
    alone = parallel.map(ladder.ladder_game, some, 1, 1)
    assert alone == parallel.map(ladder.ladder_game, some, 2, 1)


def rows(one, six, values):
    """Games of a pairing with the given SoS, seats rotated."""
    return pd.DataFrame({
        "one": one,
        "six": six,
        "game": np.arange(len(values)),
        "power": [atlas.POWERS[g % 7] for g in range(len(values))],
        "sos": values,
    })


def noisy(mean, seed, n=140):
    return mean + 0.1 * RNG(seed).standard_normal(n)


def test_verdicts_on_rows_made_by_hand():
    names = ("a", "b", "c", "d")
    table = pd.concat([
        rows("b", "a", noisy(0.2, 1)), rows("a", "b", noisy(0.1, 2)),
        rows("c", "b", noisy(0.1, 3)), rows("b", "c", noisy(0.2, 4)),
        rows("d", "c", noisy(0.14, 5)), rows("c", "d", noisy(0.14, 6)),
    ])  # fmt: skip
    found = ladder.order(table, RNG(0), 500, names)
    assert found["expected order holds"].tolist() == ["holds", "reversed", "not resolved"]
    assert found["lower"].tolist() == ["a", "b", "c"] and found["games"].tolist() == [140] * 3
    first = found.iloc[0]
    assert first["up"] == pytest.approx(0.2, abs=0.02) and first["up low"] > 1 / 7
    assert first["difference"] == pytest.approx(first["up"] - first["down"])
    with pytest.raises(ValueError, match="d against six c: 0 games"):
        ladder.order(table[table["one"] != "d"], RNG(0), 10, names)
    assert ladder.verdict(0.0, 0.1) == ladder.verdict(-0.1, 0.0) == "not resolved"


def test_matrix_and_population():
    names = ("a", "b", "c")
    table = pd.concat([
        rows("a", "b", [0.1] * 14), rows("a", "c", [0.3] * 7), rows("b", "a", [0.2] * 7),
        rows("b", "c", [0.4] * 7), rows("c", "a", [0.5] * 7), rows("c", "b", [0.7] * 14),
    ])  # fmt: skip
    found = ladder.matrix(table, names=names)
    assert found.loc["a", "b"] == pytest.approx(0.1) and found.loc["c", "b"] == pytest.approx(0.7)
    assert np.isnan(found.loc["a", "a"])
    mean = ladder.population(table, RNG(0), 50, names).set_index("one")
    assert mean["mean"].to_dict() == pytest.approx({"a": 0.2, "b": 0.3, "c": 0.6})
    assert mean.loc["a", "games"] == 7
