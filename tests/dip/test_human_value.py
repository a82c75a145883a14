"""Outcomes of recorded games by hand, the shipped net and its card, and the command."""

import dataclasses
import hashlib

import numpy as np
import pytest

from dipllm_lib.dip import boards, game, human, human_value, policies, value, value_fit
from dipllm_lib.dip.boards import centres

SMALL = human_value.Fit(value_hidden=8, value_epochs=1, selfplay=40, warm_years=2, last_year=1901)


def played(ends: dict[str, int]) -> list[game.Game]:
    """A game of random movers for each name, up to its year."""
    seats = [policies.RandBot()] * 7
    return [
        game.play([seats], 0, [(name, 0)], game.EndRules(year))[0] for name, year in ends.items()
    ]


def test_outcomes_by_hand():
    games = played({"long": 1904, "stops before": 1902, "too short": 1901})
    examples, _ = human.examples(games, first_end=0)
    positions, targets = human_value.outcomes(examples, 1903)
    long, short, _ = games
    in_long = np.flatnonzero(long.boards.year == 1904)[0]
    first = examples.boards.take(np.flatnonzero(examples.game == 0))
    own = int((first.year <= 1903).sum())
    np.testing.assert_allclose(
        targets[:own], np.tile(value.sos(centres(long.boards)[in_long]), (own, 1))
    )
    # the second record stops in the year before: its last position with orders counts
    second = examples.boards.take(np.flatnonzero(examples.game == 1))
    assert positions.n == own + second.n
    np.testing.assert_allclose(targets[-1], value.sos(centres(second)[-1]))
    assert positions.year.max() == 1903 and short.boards.year.max() == 1902
    with pytest.raises(ValueError, match="no game reaches 1909"):
        human_value.outcomes(examples, 1910)


def test_own_games_come_out_the_same_and_begin_warm():
    task = (0, 2, 2, dataclasses.replace(SMALL, last_year=1902))
    one, two = human_value.play(task), human_value.play(task)
    assert one[0].same(two[0]) and np.array_equal(one[1], two[1])
    assert one[0].year.max() == 1902 and one[1].shape == (one[0].n, 7)
    np.testing.assert_allclose(one[1].sum(axis=1), 1)


def test_the_shipped_net_is_that_of_its_card():
    where = human_value.path()
    data, card = where.read_bytes(), where.with_suffix(".md").read_text(encoding="utf-8")
    assert f"{len(data):,} bytes, sha256 `{hashlib.sha256(data).hexdigest()}`" in card
    net = human_value.load()
    assert net.first.bias.size == human_value.Fit().value_hidden and len(data) < 2_000_000
    share = net.predict(boards.start(1))[0]
    assert share.sum() == pytest.approx(1, abs=1e-5) and 0.05 < share.min() < share.max() < 0.3
    for name in ("zond/godip-history", "no licence stated", "GPL-3.0"):
        assert name in card


def test_training_goes_on_from_the_shipped_net():
    settings = dataclasses.replace(human_value.Fit(), value_epochs=1)
    lot = value_fit.examples(played({"a": 1902, "b": 1902}))
    start = human_value.load()
    _, history = value_fit.train(lot, lot, settings, 0, start)
    before = history[(history["epoch"] == 0) & (history["years"] == "all")]["cross_entropy"].item()
    assert before == pytest.approx(value_fit.errors(start, *lot)["cross_entropy"][0])
    narrow = dataclasses.replace(settings, value_hidden=8)
    with pytest.raises(ValueError, match="of 8 units cannot start from one of 128: set value_hid"):
        value_fit.train(lot, lot, narrow, 0, start)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--games", "nowhere", "--out", "a.safetensors"], "--games nowhere: no such folder"),
        (["--games", ".", "--out", "a.bin"], "--out a.bin: the name must end in .safetensors"),
    ],
)
def test_bad_arguments_in_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert human_value.main(arguments) == 2
    assert capsys.readouterr().err == f"human_value: {said}\n"
    (tmp_path / "x.safetensors").write_bytes(b"none")
    with pytest.raises(ValueError, match="x.safetensors: not a safetensors file"):
        human_value.load(tmp_path / "x.safetensors")
