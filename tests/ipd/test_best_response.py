"""Best responses to known opponents: hand values, enumeration of policies, pool numbers."""

import itertools

import numpy as np
import pytest

from dipllm_lib.ipd import best_response, exact, game, tabular
from dipllm_lib.run import seeding


def rng(*names):
    return seeding.child(0, "best_response", *names)


def pool(name, n, a=0.5):
    return tabular.sample(name, n, rng(name, str(a)), a)


@pytest.mark.parametrize(
    "name, value, cooperation",
    [
        ("TFT", 1.01, 0.99),  # 99 C, then D
        ("GRIM", 1.01, 0.99),
        ("GTFT", 1.01, 0.99),
        ("WSLS", 1.01, 0.01),  # D takes 2 and 0 in turn; one C puts the last 2 on round 100
        ("AllC", 2.0, 0.0),
        ("AllD", 0.0, 0.0),
        ("random", 1.0, 0.0),
        ("STFT", 0.99, 0.99),
    ],
)
def test_named_opponents_over_a_hundred_rounds(name, value, cooperation):
    best = best_response.best_response(tabular.named(name), 100)
    assert best.value[0] == pytest.approx(value, abs=1e-12)
    assert best.cooperation[0] == pytest.approx(cooperation, abs=1e-12)


@pytest.mark.parametrize("chi", [1.5, 2.0, 3.0, 5.0])
def test_zd_players_are_best_answered_by_99_c(chi):
    best = best_response.best_response(tabular.zd(chi), 100)
    assert best.cooperation[0] == pytest.approx(0.99, abs=1e-12)


def test_human_rates():
    best = best_response.best_response(np.array(tabular.HUMAN), 100)
    assert best.value[0] == pytest.approx(0.548, abs=5e-4)
    assert best.cooperation[0] == pytest.approx(0.975, abs=5e-4)


def test_two_rounds_against_tft_by_hand():
    """C then D: 1 and 2. D then D: 2 and 0."""
    best = best_response.best_response(tabular.named("TFT"), 2)
    assert best.value[0] == 1.5
    np.testing.assert_array_equal(best.policy[0], [[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])


def test_no_plan_of_three_rounds_is_better():
    """All 2^9 plans that matter: one action at s0 and one per outcome in rounds 2 and 3."""
    q = pool("uniform", 4)
    payoffs = game.Payoffs(3, 0, 5, 1)
    values = np.full(4, -np.inf)
    for plan in itertools.product((0, 1), repeat=9):
        first, later = plan[0], np.array(plan[1:]).reshape(2, 4)
        value = follow(first, later, q, payoffs)
        values = np.maximum(values, value)
    got = best_response.best_response(q, 3, payoffs).value
    np.testing.assert_allclose(got, values, atol=1e-12)


def follow(first, later, q, payoffs):
    """(n,) mean payoff of a plan that depends on the round and the last outcome."""
    p = np.full(5, float(first))
    now, _ = exact.chain(p, q)
    own = payoffs.by_state
    total = now @ own
    for actions in later:
        _, matrix = exact.chain(np.concatenate([[0.0], actions]), q)
        now = np.einsum("ns,nsk->nk", now, matrix)
        total = total + now @ own
    return total / (1 + len(later))


def test_at_least_as_good_as_every_memory_one_player():
    q = np.concatenate([pool("uniform", 200), tabular.corners()])
    best = best_response.best_response(q, 30).value
    rivals = [*tabular.corners(), *tabular.sample("uniform", 40, rng("rivals"))]
    gaps = np.array([best - exact.finite(p, q, 30)[0] for p in rivals])
    assert gaps.min() >= -1e-12
    assert gaps[:32].min(axis=0).max() > 0.01  # and better than all corners against some


def test_a_best_response_earns_its_value_in_play():
    q = pool("uniform", 4000)
    best = best_response.best_response(q, 20)
    streams = rng("left"), rng("right")
    player = best_response.Planned(best.policy)
    games = game.play(player, tabular.Tabular(q), 4000, 20, streams)
    for measured, expected in (
        (game.Payoffs().of(*games.view(0)).mean(axis=1), best.value),
        (game.cooperation(games.left), best.cooperation),
    ):
        rest = measured - expected
        assert abs(rest.mean()) < 4 * rest.std(ddof=1) / np.sqrt(4000)
    assert best.cooperation.max() > 0.5


def test_one_plan_for_all_games_and_no_further():
    best = best_response.best_response(tabular.named("TFT"), 4)
    player = best_response.Planned(best.policy[0])
    opponent = tabular.Tabular(tabular.named("TFT"))
    games = game.play(player, opponent, 2, 4, (rng("l"), rng("r")))
    np.testing.assert_array_equal(games.left, [[1, 1, 1, 0]] * 2)
    with pytest.raises(ValueError, match="a plan of 4 rounds cannot play round 5"):
        game.play(player, opponent, 2, 5, (rng("l"), rng("r")))
    with pytest.raises(ValueError, match="a plan has shape"):
        best_response.Planned(best.policy[0, 0])


def test_regret_by_hand():
    """AllD earns .02 against TFT in a hundred rounds, TFT 1.00; the best is 1.01."""
    tft = np.stack([tabular.named("TFT")] * 2)
    np.testing.assert_allclose(best_response.regret([0.02, 1.0], tft, 100), [0.99, 0.01])


@pytest.mark.parametrize(
    "a, rounds, gain, cooperation, share",
    [
        (1.0, 20, 0.0439, None, None),
        (1.0, 50, 0.0482, None, None),
        (1.0, 100, 0.0488, 0.082, 0.15),
        (0.5, 20, 0.0964, None, None),
        (0.5, 50, 0.1041, None, None),
        (0.5, 100, 0.1077, 0.131, 0.24),
        (0.25, 100, 0.170, 0.163, 0.29),
        (0.1, 100, 0.224, 0.176, 0.30),
    ],
)
def test_gain_over_all_d_on_beta_pools(a, rounds, gain, cooperation, share):
    q = tabular.sample("beta", 50_000, rng("gain", str(a)), a)
    got = best_response.pool_value(q, rounds)
    # the numbers come from 200,000 draws: half our standard error
    assert abs(got.gain - gain) < 4 * np.hypot(got.se, got.se / 2) + 5e-5
    if cooperation is not None:
        assert got.cooperation == pytest.approx(cooperation, abs=0.004)
        assert got.share == pytest.approx(share, abs=0.01)


def test_level_of_the_uniform_pool():
    """An earlier sample gave 1.0435 ± .007 for the best response and .994 for AllD."""
    q = pool("uniform", 50_000)
    best = best_response.best_response(q[:10_000], 100).value.mean()
    assert best == pytest.approx(1.0435, abs=2 * 0.007)
    assert exact.finite(tabular.named("AllD"), q, 100)[0].mean() == pytest.approx(0.994, abs=0.014)
    # AllD's level is 1 exactly, so the gain has a tenth of the error
    value = 1 + best_response.pool_value(q, 100).gain
    assert value == pytest.approx(1.0435, abs=0.007)


@pytest.mark.parametrize("rounds, gain", [(20, 0.2375), (50, 0.2450), (100, 0.2475)])
def test_gain_on_the_corners_is_exact(rounds, gain):
    got = best_response.pool_value(tabular.corners(), rounds)
    assert got.gain == pytest.approx(gain, abs=1e-12)
    assert got.cooperation == pytest.approx(0.125, abs=1e-12)
    assert rounds == 20 or got.share == 7 / 32


def test_bad_input():
    with pytest.raises(ValueError, match="at least one round"):
        best_response.best_response(tabular.named("TFT"), 0)
    with pytest.raises(ValueError, match="need \\(n, 5\\)"):
        best_response.best_response(np.zeros((3, 4)), 10)
