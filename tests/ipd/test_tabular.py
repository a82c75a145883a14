"""Memory-one agents: order of the entries, named strategies, ZD players and the five pools."""

import numpy as np
import pytest

from dipllm_lib.ipd import game, tabular
from dipllm_lib.run import seeding


def rng(*names):
    return seeding.child(0, "tabular", *names)


def test_an_agent_plays_c_below_its_probability():
    player = tabular.Tabular(np.array([[0.0, 0.2, 0.4, 0.6, 1.0]]))
    state = player.start(5)
    obs = np.arange(5, dtype=np.uint8)
    actions, _ = player.act(state, obs, np.array([0.0, 0.19, 0.39, 0.59, 0.999]))
    np.testing.assert_array_equal(actions, [0, 1, 1, 1, 1])  # P = 0 never plays C
    assert actions.dtype == np.uint8
    actions, _ = player.act(state, obs, np.array([0.0, 0.2, 0.4, 0.6, 0.999]))
    np.testing.assert_array_equal(actions, [0, 0, 0, 0, 1])  # and P = 1 always does


def test_every_game_has_its_own_agent():
    vectors = np.stack([tabular.named("AllC"), tabular.named("AllD"), tabular.named("STFT")])
    other = tabular.Tabular(tabular.named("AllC"))
    games = game.play(tabular.Tabular(vectors), other, 3, 2, (rng("left"), rng("right")))
    np.testing.assert_array_equal(games.left, [[1, 1], [0, 0], [0, 1]])


def test_the_named_strategies():
    assert {name: list(np.round(tabular.named(name), 3)) for name in tabular.NAMED} == {
        "TFT": [1, 1, 0, 1, 0],
        "GTFT": [1, 1, 0.333, 1, 0.333],
        "WSLS": [1, 1, 0, 0, 1],
        "GRIM": [1, 1, 0, 0, 0],
        "AllC": [1, 1, 1, 1, 1],
        "AllD": [0, 0, 0, 0, 0],
        "STFT": [0, 1, 0, 1, 0],
        "random": [0.5, 0.5, 0.5, 0.5, 0.5],
    }
    with pytest.raises(ValueError, match="unknown strategy 'Pavlov': use one of TFT, GTFT, WSLS"):
        tabular.named("Pavlov")


def test_zd_players_by_hand():
    np.testing.assert_array_equal(tabular.zd(1.0), tabular.named("TFT"))
    np.testing.assert_allclose(tabular.zd(2.0), [1, 0.8, 0, 0.8, 0], atol=1e-15)
    half = tabular.zd(2.0, phi=0.1, first=0.0)
    np.testing.assert_allclose(half, [0, 0.9, 0.5, 0.4, 0], atol=1e-15)


@pytest.mark.parametrize(
    "chi, phi", [(1.0, None), (1.5, 0.2), (2.0, None), (3.0, 0.05), (5.0, None)]
)
def test_zd_players_solve_the_defining_equation(chi, phi):
    used = 1 / (1 + 2 * chi) if phi is None else phi
    own, other = np.array([1, -1, 2, 0]), np.array([1, 2, -1, 0])
    tilde = tabular.zd(chi, phi)[1:] - np.array([1, 1, 0, 0])
    np.testing.assert_allclose(tilde, used * (own - chi * other), atol=1e-15)


@pytest.mark.parametrize("chi, phi", [(0.9, None), (np.inf, None), (2.0, 0.0), (2.0, 0.21)])
def test_impossible_zd_players_are_refused(chi, phi):
    with pytest.raises(ValueError, match="chi"):
        tabular.zd(chi, phi)


def test_published_order_and_back():
    paper = np.array([[0.1, 0.2, 0.3, 0.4, 0.9]])  # CC, CD, DC, DD, Start
    np.testing.assert_array_equal(tabular.from_published(paper), [[0.9, 0.1, 0.2, 0.3, 0.4]])
    np.testing.assert_array_equal(tabular.to_published(tabular.from_published(paper)), paper)


def test_trembles_flip_actions():
    p = tabular.tremble(tabular.named("TFT"), 0.02)
    np.testing.assert_allclose(p, [[0.98, 0.98, 0.02, 0.98, 0.02]])
    two = tabular.tremble(np.full((2, 5), 0.25), np.array([0.0, 1.0]))
    np.testing.assert_allclose(two[:, 0], [0.25, 0.75])
    with pytest.raises(ValueError, match="rate"):
        tabular.tremble(p, 1.5)


def test_corners_are_the_32_deterministic_vectors():
    rows = tabular.corners()
    assert rows.shape == (32, 5) and len(np.unique(rows, axis=0)) == 32
    np.testing.assert_array_equal(rows[0b10011], [1, 0, 0, 1, 1])
    drawn = tabular.sample("corners", 3000, rng("corners"))
    assert len(np.unique(drawn, axis=0)) == 32


@pytest.mark.parametrize("pool, a", [("uniform", 1.0), ("beta", 0.5), ("beta", 0.1)])
def test_moments_of_independent_pools(pool, a):
    drawn = tabular.sample(pool, 40_000, rng(pool, str(a)), a)
    assert drawn.shape == (40_000, 5) and drawn.flags.c_contiguous
    variance = 1 / (4 * (2 * a + 1))  # of Beta(a, a)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.5, atol=4 * np.sqrt(variance / 40_000))
    np.testing.assert_allclose(np.cov(drawn.T), variance * np.eye(5), atol=0.006)


def test_families_are_trembling_strategies():
    drawn = tabular.sample("families", 2000, rng("families"))
    rate = 1 - drawn[:, 0]  # every family opens with C except AllD
    rate = np.minimum(rate, drawn[:, 0])
    assert np.all((rate >= 0.01) & (rate <= 0.05))
    clean = (drawn - rate[:, None]) / (1 - 2 * rate[:, None])
    shares = {
        name: np.isclose(clean, tabular.named(name)).all(axis=1).mean() for name in tabular.FAMILIES
    }
    assert all(0.10 < share < 0.19 for share in shares.values()), shares
    rest = clean[~np.any([np.isclose(clean, tabular.named(n)).all(1) for n in shares], axis=0)]
    gap = 1 - rest[:, 1]  # (chi - 1) / (1 + 2 chi) at the largest phi
    chi = (1 + gap) / (1 - 2 * gap)
    expected = np.array([tabular.zd(float(x)) for x in chi])
    np.testing.assert_allclose(rest, expected, atol=1e-9)
    assert chi.min() < 1.3 and 4.5 < chi.max() <= 5 + 1e-9


def test_human_rates_are_one_vector():
    drawn = tabular.sample("human", 2, rng("human"))
    np.testing.assert_array_equal(drawn, [[0.459, 0.916, 0.403, 0.292, 0.067]] * 2)


def test_pools_by_name():
    for pool in tabular.POOLS:
        drawn = tabular.sample(pool, 10, rng(pool))
        np.testing.assert_array_equal(tabular.check(drawn), drawn)
        np.testing.assert_array_equal(tabular.sample(pool, 10, rng(pool)), drawn)
    with pytest.raises(ValueError, match="unknown pool 'normal': use one of uniform, beta"):
        tabular.sample("normal", 10, rng())
    for n, a in ((0, 0.5), (3, 0.0), (3, float("nan"))):
        with pytest.raises(ValueError, match="need n >= 1 agents and a finite a > 0"):
            tabular.sample("beta", n, rng(), a)


@pytest.mark.parametrize(
    "vectors, message",
    [
        (np.zeros(4), "need \\(n, 5\\) in the order s0, CC, CD, DC, DD"),
        (np.zeros((2, 3, 5)), "need \\(n, 5\\)"),
        ([[0.5] * 5, [0.5, 0.5, 1.1, 0.5, 0.5]], "agent 1: P\\(C \\| CD\\) = 1.1 lies outside"),
        ([[-0.1, 0, 0, 0, 0]], "agent 0: P\\(C \\| s0\\) = -0.1"),
        ([[0, 0, 0, 0, float("nan")]], "P\\(C \\| DD\\) = nan"),
    ],
)
def test_what_is_no_agent_is_refused(vectors, message):
    with pytest.raises(ValueError, match=message):
        tabular.Tabular(np.asarray(vectors))


def test_agents_must_fit_the_games():
    with pytest.raises(ValueError, match="3 agents cannot play 4 games"):
        tabular.Tabular(np.full((3, 5), 0.5)).start(4)


def test_zd_players_have_names():
    np.testing.assert_array_equal(tabular.named("ZD1.5"), tabular.zd(1.5, first=0.0))
    np.testing.assert_array_equal(tabular.named("ZD3")[0], 0.0)
    with pytest.raises(ValueError, match="extortion factor chi 0.5"):
        tabular.named("ZD0.5")
    with pytest.raises(ValueError, match="unknown strategy 'ZDx'"):
        tabular.named("ZDx")
