"""The certainty-equivalent player: beliefs and plans by hand, its exact value, its play."""

import itertools

import numpy as np
import pytest

from dipllm_lib.ipd import bayes, best_response, game, tabular
from dipllm_lib.ipd.certainty import CertaintyEquivalent, measured
from dipllm_lib.ipd.game import CC, CD, DC, S0
from dipllm_lib.run import seeding


def streams(*names):
    return seeding.child(0, *names, "left"), seeding.child(0, *names, "right")


def test_counts_are_kept_by_own_view():
    player = CertaintyEquivalent(10)
    state = player.start(1)
    for obs in (S0, CC, CD, DC, DC):
        _, state = player.act(state, np.array([obs], np.uint8), np.zeros(1))
    # s0 answered C, CC answered D, CD answered C, DC answered C
    expected = [[1, 0], [0, 1], [1, 0], [1, 0], [0, 0]]
    np.testing.assert_array_equal(state.counts[0], expected)


def test_a_state_can_be_played_on_twice():
    player = CertaintyEquivalent(10)
    _, state = player.act(player.start(1), np.array([S0], np.uint8), np.zeros(1))
    before = state.counts.copy()
    for obs in (CC, DC):
        player.act(state, np.array([obs], np.uint8), np.zeros(1))
    np.testing.assert_array_equal(state.counts, before)


def test_without_optimism_it_plays_the_best_response_to_the_posterior_mean():
    rng, rounds, played, a = seeding.child(0, "certainty", "plan"), 12, 5, 0.5
    counts = rng.integers(0, 6, size=(300, 5, 2))
    obs = rng.integers(1, 5, size=300).astype(np.uint8)
    player = CertaintyEquivalent(rounds, k=0.0, a=a)
    # the new answer is added before the plan: leave room for it
    previous = rng.integers(1, 5, size=300).astype(np.uint8)
    answer = np.isin(obs, (CD, game.DD)).astype(int)
    after = counts.copy()
    after[np.arange(300), previous, answer] += 1
    actions, _ = player.act(
        player.start(1)._replace(played=played, counts=counts, previous=previous),
        obs,
        np.zeros(300),
    )
    mean = (a + after[:, :, 0]) / (2 * a + after.sum(axis=2))
    policy = best_response.best_response(mean[:, [0, 1, 3, 2, 4]], rounds - played).policy
    np.testing.assert_array_equal(actions, policy[np.arange(300), 0, obs])
    assert 0 < actions.mean() < 1


def test_optimism_by_hand():
    """Two rounds left, nothing seen: mean ½, SD √(1/12). What is in reach after C is as good as
    after D, so C costs 1 now for nothing; D."""
    player = CertaintyEquivalent(2, k=1.0)
    actions, _ = player.act(player.start(1), np.array([S0], np.uint8), np.zeros(1))
    assert actions[0] == 0
    # DC was answered with D ten times: after D little can be hoped for, after C something can.
    # mean 1/12, SD √(11/(144·13)) = .0767: .16 against ½ + .2887 = .789 after CC and CD.
    counts = np.zeros((1, 5, 2), np.int64)
    counts[0, (3, 4), 1] = 10
    state = player.start(1)._replace(played=0, counts=counts)
    actions, _ = player.act(state, np.array([S0], np.uint8), np.zeros(1))
    assert actions[0] == 1  # 2 (.789 - .16) = 1.26 in the last round, for 1 in this one
    calm = CertaintyEquivalent(2, k=0.0)
    actions, _ = calm.act(state, np.array([S0], np.uint8), np.zeros(1))
    assert actions[0] == 0  # 2 (.5 - .083) = .83


def exact_value(player, rounds, a):
    """Mean reward over all 2^T courses of the opponent's actions, each with its probability."""
    course = np.array(list(itertools.product((0, 1), repeat=rounds)), dtype=np.uint8)
    state, obs = player.start(len(course)), np.zeros(len(course), np.uint8)
    chance, reward = np.ones(len(course)), np.zeros(len(course))
    counts, rows = np.full((len(course), 5, 2), a), np.arange(len(course))
    for t in range(rounds):
        own, state = player.act(state, obs, np.zeros(len(course)))
        other = course[:, t]
        chance *= counts[rows, obs, 1 - other] / counts[rows, obs].sum(axis=1)
        counts[rows, obs, 1 - other] += 1
        reward += game.Payoffs().of(own, other)
        obs = game.outcome(own, other)
    assert chance.sum() == pytest.approx(1.0)
    return float(chance @ reward) / rounds


@pytest.mark.parametrize("a", [1.0, 0.5])
def test_between_all_d_and_the_bayes_optimal_player(a):
    for rounds in (6, 12):
        best = bayes.beta_value(rounds, a)
        values = [exact_value(CertaintyEquivalent(rounds, k, a), rounds, a) for k in (0, 0.5, 1)]
        assert max(values) <= best + 1e-12
        assert values[0] >= 1 - 1e-9
    assert values[0] > 1.0001  # at twelve rounds counting pays


def test_all_d_is_worth_one_and_measuring_it_gives_no_error():
    q = tabular.sample("uniform", 50, seeding.child(0, "all d"))
    got = measured(tabular.Tabular(tabular.named("AllD")), q, 10, streams("all d"))
    assert got == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "rounds, k, value, cooperation",
    [
        (50, 0.5, 1.0184, None),
        (100, 0.0, 1.0215, None),
        (100, 0.5, 1.0261, None),
        (100, 1.0, 1.0274, 0.06),
        (100, 1.5, 1.0224, None),
    ],
)
def test_reward_on_the_uniform_pool(rounds, k, value, cooperation):
    q = tabular.sample("uniform", 8000, seeding.child(0, "uniform"))
    got = measured(CertaintyEquivalent(rounds, k), q, rounds, streams("uniform"))
    assert abs(got.value - value) < 4 * np.hypot(got.se, 0.002)
    assert got.se < 0.002
    if rounds == 50:
        assert got.value - 4 * got.se < 1.0187  # the exact optimum
    if cooperation:
        assert got.cooperation == pytest.approx(cooperation, abs=0.005)


def test_reward_on_the_beta_pool():
    q = tabular.sample("beta", 8000, seeding.child(0, "beta"))
    got = measured(CertaintyEquivalent(100, 1.0, a=0.5), q, 100, streams("beta"))
    assert abs(got.value - 1.069) < 4 * np.hypot(got.se, 0.003)
    assert got.value - 4 * got.se > 1  # far above AllD


def test_it_learns_tit_for_tat():
    """Cooperation by quarter of the episode, against a copier that opens with D."""
    opponent = tabular.Tabular(tabular.named("STFT"))
    games = game.play(CertaintyEquivalent(100), opponent, 1, 100, streams("tft"))
    np.testing.assert_allclose(games.left.reshape(4, 25).mean(axis=1), [0.36, 1.0, 1.0, 0.96])


@pytest.mark.parametrize(
    "k, chi, s_x, s_y",
    [
        (1.0, 1.5, 0.87, 0.58),
        (1.0, 2.0, 0.88, 0.44),
        (1.0, 3.0, 0.85, 0.28),
        (1.0, 5.0, 0.84, 0.17),
        (0.0, 1.5, 0.49, None),
        (0.0, 2.0, 0.49, None),
        (0.0, 3.0, 0.46, None),
        (0.0, 5.0, 0.41, None),
    ],
)
def test_zd_players_extort_it(k, chi, s_x, s_y):
    """The ZD player opens with D, at the largest phi."""
    extorter = tabular.Tabular(tabular.zd(chi, first=0.0))
    learner = CertaintyEquivalent(100, k)
    games = game.play(extorter, learner, 2000, 100, streams("zd", str(chi)))
    pay = [game.Payoffs().of(*games.view(seat)).mean() for seat in range(2)]
    assert pay[0] == pytest.approx(s_x, abs=0.02)
    if s_y is not None:
        assert pay[1] == pytest.approx(s_y, abs=0.02)


def test_two_of_them_do_not_cooperate():
    for k in (0.0, 0.5, 1.0):
        player = CertaintyEquivalent(100, k)
        games = game.play(player, player, 1, 100, streams("self"))
        assert games.left.mean() <= 0.20
        np.testing.assert_array_equal(games.left, games.right)


def test_bad_input():
    for wrong in ({"rounds": 0}, {"k": -0.5}, {"a": 0.0}, {"k": float("nan")}):
        with pytest.raises(ValueError, match="need rounds >= 1, k >= 0, a > 0"):
            CertaintyEquivalent(**({"rounds": 10} | wrong))
    short = CertaintyEquivalent(3)
    with pytest.raises(ValueError, match="plans 3 rounds: round 4"):
        game.play(short, short, 1, 4, streams("short"))
