"""Exact payoffs: the hand test, enumeration, simulation, ZD players and Akin's identity."""

import itertools

import numpy as np
import pytest

from dipllm_lib.ipd import exact, game, tabular
from dipllm_lib.run import seeding

P = np.array([0.6, 0.9, 0.2, 0.7, 0.1])
Q = np.array([0.3, 0.5, 0.4, 0.8, 0.3])


def rng(*names):
    return seeding.child(0, "exact", *names)


def agents(n, *names):
    return tabular.sample("uniform", n, rng(*names))


def test_chain_of_the_hand_test():
    start, matrix = exact.chain(P, Q)
    np.testing.assert_allclose(start, [[0.18, 0.42, 0.12, 0.28]], atol=1e-15)
    np.testing.assert_allclose(matrix[0, 0], [0.45, 0.45, 0.05, 0.05], atol=1e-15)
    np.testing.assert_allclose(matrix[0, 1], [0.16, 0.04, 0.64, 0.16], atol=1e-15)
    np.testing.assert_allclose(matrix.sum(axis=2), 1.0, atol=1e-15)


@pytest.mark.parametrize(
    "rounds, s_x, s_y",
    [
        (1, 0.0, 0.9),
        (2, 0.379, 0.529),
        (3, 0.395273, 0.526173),
        (100, 0.517106, 0.438050),
    ],
)
def test_finite_payoffs_of_the_hand_test(rounds, s_x, s_y):
    np.testing.assert_allclose(exact.finite(P, Q, rounds), [[s_x], [s_y]], atol=5e-7)


def test_endless_payoffs_of_the_hand_test():
    for pays in (exact.stationary(P, Q), exact.determinant(P, Q)):
        np.testing.assert_allclose(pays, [[0.520627], [0.435731]], atol=5e-7)


def enumerated(p, q, rounds, payoffs):
    """Mean payoffs over all 4^T courses of play, each with its probability."""
    course = np.array(list(itertools.product(range(4), repeat=rounds)))
    own, other = (course < 2).astype(int), (course % 2 == 0).astype(int)
    chance = np.ones(len(course))
    for t in range(rounds):
        last = course[:, t - 1]
        x = p[0] if t == 0 else p[1 + last]
        y = q[0] if t == 0 else q[np.array([1, 3, 2, 4])[last]]
        chance *= np.where(own[:, t], x, 1 - x) * np.where(other[:, t], y, 1 - y)
    return [float(chance @ payoffs.of(*pair).mean(axis=1)) for pair in ((own, other), (other, own))]


@pytest.mark.parametrize("rounds", [1, 2, 5, 8])
def test_finite_payoffs_against_enumeration(rounds):
    payoffs = game.Payoffs(3, 0, 5, 1)
    p, q = agents(3, "enumerated", "x"), agents(3, "enumerated", "y")
    p[2], q[2] = tabular.named("GRIM"), tabular.named("STFT")
    got = np.array(exact.finite(p, q, rounds, payoffs))
    for i in range(3):
        np.testing.assert_allclose(
            got[:, i], enumerated(p[i], q[i], rounds, payoffs), atol=1e-12, rtol=0
        )


def test_finite_payoffs_against_simulation():
    p, q = agents(4000, "simulated", "x"), agents(4000, "simulated", "y")
    streams = rng("simulated", "left"), rng("simulated", "right")
    games = game.play(tabular.Tabular(p), tabular.Tabular(q), 4000, 100, streams)
    for seat, expected in enumerate(exact.finite(p, q, 100)):
        rest = game.Payoffs().of(*games.view(seat)).mean(axis=1) - expected
        assert abs(rest.mean()) < 4 * rest.std(ddof=1) / np.sqrt(4000)
        assert rest.std() > 0.02
    first = game.Payoffs().of(*games.view(0))[:, 0] - exact.finite(p, q, 1)[0]
    assert abs(first.mean()) < 4 * first.std(ddof=1) / np.sqrt(4000)


def test_states_by_round_add_up_to_the_occupancy():
    p, q = agents(20, "rounds", "x"), agents(20, "rounds", "y")
    by_round = exact.states(p, q, 12)
    np.testing.assert_allclose(by_round.sum(axis=2), 1.0, atol=1e-12)
    np.testing.assert_allclose(by_round.mean(axis=1), exact.occupancy(p, q, 12), atol=1e-14)
    np.testing.assert_allclose(by_round[:, 0, :2].sum(axis=1), p[:, 0], atol=1e-14)


def test_seats_are_symmetric():
    p, q = agents(30, "seats", "x"), agents(30, "seats", "y")
    s_x, s_y = exact.finite(p, q, 17)
    np.testing.assert_allclose(exact.finite(q, p, 17), [s_y, s_x], atol=1e-13)
    np.testing.assert_array_equal(exact.as_seen(exact.as_seen(q)), q)
    np.testing.assert_array_equal(exact.as_seen(Q), [[0.3, 0.5, 0.8, 0.4, 0.3]])


def test_three_roads_to_endless_play():
    p, q = agents(200, "endless", "x"), agents(200, "endless", "y")
    p, q = (0.05 + 0.9 * x for x in (p, q))
    stationary = np.array(exact.stationary(p, q))
    np.testing.assert_allclose(exact.determinant(p, q), stationary, atol=1e-10)
    np.testing.assert_allclose(exact.discounted(p, q, 1 - 1e-7), stationary, atol=1e-5)
    np.testing.assert_allclose(exact.finite(p, q, 20_000), stationary, atol=5e-3)


def test_discounted_payoffs_are_a_weighted_sum():
    p, q = agents(5, "discounted", "x"), agents(5, "discounted", "y")
    weights = 0.1 * 0.9 ** np.arange(400)
    own, _ = exact.payoff_vectors()
    by_hand = weights @ (exact.states(p, q, 400) @ own)[..., None]
    np.testing.assert_allclose(exact.discounted(p, q, 0.9)[0], by_hand[:, 0], atol=1e-12)
    np.testing.assert_allclose(exact.discounted(P, Q, 0.0), [[0.0], [0.9]], atol=1e-15)


@pytest.mark.parametrize("name", ["TFT", "GRIM"])
def test_endless_play_that_depends_on_the_start_is_refused(name):
    p = tabular.named(name)
    with pytest.raises(ValueError, match="pair 0 has no unique stationary vector"):
        exact.stationary(p, p)
    with pytest.raises(ValueError, match="pair 0 has D\\(p, q, 1\\) = 0"):
        exact.determinant(p, p)
    np.testing.assert_allclose(exact.finite(p, p, 100), 1.0, atol=1e-12)


def test_recurrent_classes_by_hand():
    names = [("TFT", "TFT"), ("GRIM", "GRIM"), ("AllC", "AllD"), ("WSLS", "AllD"), ("random",) * 2]
    chains = [exact.chain(tabular.named(a), tabular.named(b))[1][0] for a, b in names]
    # TFT-TFT: {CC}, {DD}, {CD, DC} · WSLS-AllD alternates CD and DD: one class
    np.testing.assert_array_equal(exact.recurrent_classes(np.stack(chains)), [3, 2, 1, 1, 1])
    s_x, s_y = exact.stationary(tabular.named("WSLS"), tabular.named("AllD"))
    assert (s_x[0], s_y[0]) == pytest.approx((-0.5, 1.0))


@pytest.mark.parametrize(
    "chi, s_x, s_y", [(1.0, 1.0, 1.0), (2.0, 1.2, 0.6), (3.0, 9 / 7, 3 / 7), (5.0, 15 / 11, 3 / 11)]
)
def test_zd_against_all_c(chi, s_x, s_y):
    got = exact.stationary(tabular.zd(chi), tabular.named("AllC"))
    np.testing.assert_allclose(got, [[s_x], [s_y]], atol=1e-12)


@pytest.mark.parametrize("chi, phi", [(1.5, 0.2), (2.0, None), (3.0, 0.1), (5.0, None)])
def test_zd_enforces_its_ratio(chi, phi):
    q = 0.02 + 0.96 * agents(100, "zd")  # no opponent that is absorbed in CC or DD
    s_x, s_y = exact.determinant(tabular.zd(chi, phi), q)
    np.testing.assert_allclose(s_x, chi * s_y, atol=1e-10)
    np.testing.assert_allclose(exact.extortion_factor(s_x, s_y), chi, rtol=1e-6)
    s_x, s_y = exact.finite(tabular.zd(chi, phi), q, 100)
    used = 1 / (1 + 2 * chi) if phi is None else phi
    assert np.all(np.abs(s_x - chi * s_y) <= 1 / (used * 100) + 1e-12)
    assert np.abs(s_x - chi * s_y).max() > 1e-3  # the bound has something to bound


def test_the_finite_zd_gap_is_what_akin_says():
    """For P = 0 the gap s_X - χ s_Y is the mean of p~ over φ, here with φ = 1 / (1 + 2 χ)."""
    chi, rounds = 2.0, 10
    s_x, s_y = exact.finite(tabular.zd(chi), tabular.named("AllD"), rounds)
    by_round = exact.states(tabular.zd(chi), tabular.named("AllD"), rounds)[0]
    left, right = exact.akin(tabular.zd(chi), by_round)
    assert left == pytest.approx(right, abs=1e-14)
    assert s_x[0] - chi * s_y[0] == pytest.approx(right * (1 + 2 * chi), abs=1e-12)


def test_akin_identity_by_hand():
    """TFT against CDD: outcomes CC, CD, DD; p~ = 0, 0 - 1, 0: mean -1/3 = (0 - 1)/3."""
    by_round = exact.frequencies(np.array([[1, 1, 0]], np.uint8), np.array([[1, 0, 0]], np.uint8))
    np.testing.assert_array_equal(by_round, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(exact.akin(tabular.named("TFT"), by_round), [-1 / 3, -1 / 3])


def test_akin_identity_for_memory_one_pairs():
    p, q = agents(20, "akin", "x"), agents(20, "akin", "y")
    for i, by_round in enumerate(exact.states(p, q, 13)):
        left, right = exact.akin(p[i], by_round)
        assert left == pytest.approx(right, abs=1e-13)


class Majority:
    """C while the opponent has played C in at least half of the rounds so far: longer memory."""

    def start(self, n):
        return np.zeros(n)

    def act(self, state, obs, u):
        state = state + np.isin(obs, (game.CC, game.DC)) - np.isin(obs, (game.CD, game.DD))
        return (state >= 0).astype(np.uint8), state


def test_akin_identity_for_an_opponent_with_long_memory():
    p, n, rounds = np.array([0.7, 0.8, 0.3, 0.6, 0.2]), 40_000, 12
    streams = rng("majority", "left"), rng("majority", "right")
    games = game.play(tabular.Tabular(p), Majority(), n, rounds, streams)
    left, right = exact.akin(p, exact.frequencies(*games.view(0)))
    # one draw of C per game and round: SD of the difference at most sqrt(T / 4) / T
    assert abs(left - right) < 4 * np.sqrt(rounds / 4) / rounds / np.sqrt(n)
    assert abs(right) > 0.005


def test_extortion_factor_needs_a_surplus():
    got = exact.extortion_factor([0.88, 1.05, 1.32, 0.5], [0.24, 0.20, -0.03, 0.1], 0.06)
    np.testing.assert_allclose(got[:2], [3.667, 5.25], atol=5e-4)
    assert np.isnan(got[2:]).all()  # the paper's A2C victim, and one within two standard errors
    shifted = exact.extortion_factor(-1.12, -1.76, payoffs=game.Payoffs(-1, -3, 0, -2))
    assert shifted == pytest.approx(0.88 / 0.24)


def test_human_rates_as_a_player():
    human = np.array(tabular.HUMAN)
    pay = {name: exact.finite(tabular.named(name), human, 100)[0][0] for name in ("AllD", "TFT")}
    assert exact.finite(human, human, 100)[0][0] == pytest.approx(0.267, abs=5e-4)
    assert pay == {"AllD": pytest.approx(0.213, abs=5e-4), "TFT": pytest.approx(0.346, abs=5e-4)}


def test_all_d_and_all_c_on_symmetric_pools():
    corners = tabular.corners()
    for name, value in (("AllD", 1.0), ("AllC", 0.0)):
        pay, _ = exact.finite(tabular.named(name), corners, 20)
        assert pay.mean() == pytest.approx(value, abs=1e-14)
        for a in (1.0, 0.5):
            q = tabular.sample("beta", 20_000, rng("symmetric"), a)
            pay, _ = exact.finite(tabular.named(name), q, 100)
            assert abs(pay.mean() - value) < 4 * pay.std() / np.sqrt(len(q))
            both = np.concatenate([q, 1 - q[:, [0, 3, 4, 1, 2]]])  # its C and D exchanged
            pay, _ = exact.finite(tabular.named(name), both, 100)
            assert pay.mean() == pytest.approx(value, abs=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="2 agents against 3"):
        exact.finite(np.full((2, 5), 0.5), np.full((3, 5), 0.5), 4)
    with pytest.raises(ValueError, match="outside \\[0, 1\\]"):
        exact.finite(P, Q + 0.5, 4)
    for call in (exact.finite, exact.states, exact.occupancy):
        with pytest.raises(ValueError, match="at least one round"):
            call(P, Q, 0)
    for gamma in (1.0, -0.1):
        with pytest.raises(ValueError, match="0 <= gamma < 1"):
            exact.discounted(P, Q, gamma)
