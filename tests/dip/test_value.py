"""Shares, the heuristic, the value net: hand numbers, two roads, training on real self-play."""

import dataclasses

import numpy as np
import pytest
import torch

from dipllm_lib.dip import atlas, boards, game, policies, value, value_fit
from dipllm_lib.run import profiles

FRANCE, GERMANY = atlas.power("FRANCE"), atlas.power("GERMANY")


@pytest.fixture(scope="module")
def games():
    """Twelve games of the anchor to the end of 1904."""
    anchor = policies.SoftDumbBot(0.07, 0.02)
    names = [("test", g) for g in range(12)]
    return game.play([[anchor] * 7] * 12, 0, names, game.EndRules(1904))


@pytest.fixture(scope="module")
def settings():
    dip = profiles.load("smoke", 0).dip
    return dataclasses.replace(dip, value_hidden=8, value_batch=64, value_epochs=3)


@pytest.fixture(scope="module")
def fitted(games, settings):
    return value_fit.fit(games, settings, seed=0)


def test_shares_by_hand():
    held = np.array([1, 2, 0, 0, 0, 3, 0])
    np.testing.assert_allclose(value.sos(held), np.array([1, 4, 0, 0, 0, 9, 0]) / 14)
    np.testing.assert_allclose(value.solo(held), value.sos(held))
    won = np.array([18, 16, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(value.sos(won)[:2], [324 / 580, 256 / 580])
    np.testing.assert_array_equal(value.solo(won), [1, 0, 0, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="0/0"):
        value.sos(np.zeros(7))


def test_heuristic_by_hand():
    start = value.heuristic(boards.start())[0]
    squares = np.array([9, 9, 9, 9, 9, 16, 9])
    np.testing.assert_allclose(start, squares / squares.sum(), rtol=1e-6)
    board = boards.empty(1)
    for code, owner in (("PAR", FRANCE), ("BRE", FRANCE), ("MUN", GERMANY)):
        board.owner[0, atlas.location(code)] = owner
    for code, owner in (("PAR", GERMANY), ("BEL", FRANCE), ("BUR", FRANCE)):
        p = atlas.location(code)
        board.unit[0, p], board.loc[0, p], board.power[0, p] = 1, p, owner
    # France 2 - 0.5 (PAR under Germany) + 0.5 (BEL) = 2; Germany 1 + 0.5 = 1.5
    found = value.heuristic(board)[0]
    assert found[FRANCE] == pytest.approx(4 / 6.25) and found[GERMANY] == pytest.approx(2.25 / 6.25)
    with pytest.raises(ValueError, match="no value"):
        value.heuristic(boards.empty(1))


def test_features_of_the_opening():
    index, size = value.sparse(boards.start())
    own = index[0, : size[0]].tolist()
    assert len(own) == len(set(own)) == 22 + 22 + 14 + 2
    assert max(own) < value.FEATURES
    paris = value.UNITS + atlas.location("PAR") * 7 + FRANCE
    brest = value.UNITS + (75 + atlas.location("BRE")) * 7 + FRANCE
    assert paris in own and brest in own
    assert value.CENTRES + FRANCE * value.COUNTS + 3 in own
    assert value.PHASES + boards.SPRING_MOVES in own and value.YEAR in own


def test_untrained_net_is_the_smoothed_heuristic(settings):
    net = value_fit.Net(settings.value_hidden).export()
    share = net.predict(boards.start(3))
    squares = np.array([3.5, 3.5, 3.5, 3.5, 3.5, 4.5, 3.5]) ** 2
    np.testing.assert_allclose(share, np.tile(squares / squares.sum(), (3, 1)), rtol=1e-5)


def test_numpy_and_torch_forward_agree(games, fitted):
    net, _ = fitted
    positions = boards.Boards.concat([g.positions() for g in games[:3]])
    twin = value_fit.Net(net.first.bias.size)
    tensors = net.tensors()
    with torch.no_grad():
        twin.table.weight.copy_(tensors["first.weight"])
        twin.first_bias.copy_(tensors["first.bias"])
        twin.second.weight.copy_(tensors["second.weight"].T)
        twin.second.bias.copy_(tensors["second.bias"])
        twin.last.weight.copy_(tensors["last.weight"].T)
        twin.last.bias.copy_(tensors["last.bias"])
        index, size = value.sparse(positions)
        flat = torch.from_numpy(np.concatenate([i[:s] for i, s in zip(index, size)]).astype(int))
        offsets = torch.from_numpy(np.r_[0, np.cumsum(size)[:-1]].astype(int))
        log_share = twin(flat, offsets, torch.from_numpy(value.prior(positions)))
    np.testing.assert_allclose(net.predict(positions), log_share.exp().numpy(), atol=1e-6)


def test_predictions_are_shares_and_the_dead_have_none(games, fitted):
    net, _ = fitted
    board = boards.start(2)
    gone = np.flatnonzero(board.owner[1] == FRANCE)
    board.owner[1, gone] = GERMANY
    board.unit[1, gone], board.loc[1, gone], board.power[1, gone] = 0, -1, -1
    share = net.predict(board)
    assert share.dtype == np.float32 and share[1, FRANCE] == 0 < share[0, FRANCE]
    np.testing.assert_allclose(share.sum(axis=1), 1, rtol=1e-6)
    last = games[0].boards.take([games[0].boards.n - 1])
    np.testing.assert_allclose(net.predict(last)[0], value.sos(games[0].final_centres), rtol=1e-6)


def test_training_helps_on_unseen_games_and_is_reproducible(games, settings, fitted):
    net, history = fitted
    whole = history[history.years == "all"].set_index("epoch")
    assert whole.cross_entropy[3] < whole.cross_entropy[0]
    assert whole.train_cross_entropy[3] < whole.train_cross_entropy[1]
    assert set(history.columns) >= {"squared_error", "baseline_squared_error", "positions"}
    again, _ = value_fit.fit(games, settings, seed=0)
    np.testing.assert_array_equal(again.first.weight, net.first.weight)
    other, _ = value_fit.fit(games, settings, seed=1)
    assert not np.array_equal(other.last.weight, net.last.weight)


def test_errors_by_hand(games):
    positions, targets = value_fit.examples(games[:1])
    assert positions.n == games[0].positions().n
    np.testing.assert_allclose(targets[0], value.sos(games[0].final_centres))

    def uniform(b):
        return np.full((b.n, 7), 1 / 7)

    table = value_fit.errors(uniform, positions, targets).set_index("years")
    assert table.cross_entropy["all"] == pytest.approx(np.log(7))
    assert table.squared_error["all"] == pytest.approx(np.sum((targets[0] - 1 / 7) ** 2))
    assert table.positions["1901"] == (positions.year == 1901).sum()
    assert table.positions.drop("all").sum() == positions.n
    assert table.explained.isna().all()  # one outcome does not vary


def test_explained_variance_by_hand():
    """Two positions, outcomes (1, 0, ...) and (0, 1, ...): their variance is 1/2, a net that says
    (3/4, 1/4) and (1/4, 3/4) has error 1/8, so it explains 3/4; the present shares are far off.
    """
    targets = np.zeros((2, 7))
    targets[0, 0] = targets[1, 1] = 1

    def net(b):
        share = np.zeros((2, 7))
        share[0, :2], share[1, :2] = (0.75, 0.25), (0.25, 0.75)
        return share

    row = value_fit.errors(net, boards.start(2), targets).iloc[0]
    assert row.squared_error == pytest.approx(1 / 8) and row.explained == pytest.approx(3 / 4)
    present = np.array([9, 9, 9, 9, 9, 16, 9]) / 70
    guess = np.sum((present - targets[0]) ** 2)
    assert row.baseline_explained == pytest.approx(1 - guess / 0.5)


def test_games_are_split_whole():
    training, held = value_fit.split(10, 0.3, seed=0)
    assert len(held) == 3 and sorted(training + held) == list(range(10))
    assert value_fit.split(2, 0.01, 0)[1] and value_fit.split(2, 0.99, 0)[0]
    with pytest.raises(ValueError, match="at least 2 games"):
        value_fit.split(1, 0.5, 0)


def test_tensors_round_trip(fitted):
    net, _ = fitted
    again = value.ValueNet.from_tensors(net.tensors())
    board = boards.start()
    np.testing.assert_array_equal(again.predict(board), net.predict(board))
    tensors = net.tensors()
    del tensors["last.bias"]
    with pytest.raises(ValueError, match="last.weight or last.bias is missing"):
        value.ValueNet.from_tensors(tensors)
    tensors = net.tensors()
    tensors["first.weight"] = tensors["first.weight"][:10]
    with pytest.raises(ValueError, match="expected 3002 features"):
        value.ValueNet.from_tensors(tensors)
