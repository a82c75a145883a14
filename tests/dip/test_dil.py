"""DiL-piKL and regret matching: one type is piKL-Hedge, fixed points, hand numbers."""

import numpy as np
import pytest

from dipllm_lib.dip import dil, hedge, matrix_games, regret_matching

RULE = dict(kappa="root", weighting="uniform")


def rps():
    """Rock-paper-scissors; the anchor of the row player likes rock, that of the column scissors."""
    payoff = matrix_games.rock_paper_scissors(np.random.default_rng(0)).payoff
    anchors = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.7])
    return matrix_games.MatrixGame("rock-paper-scissors", payoff, *anchors)


def test_one_type_is_pikl_hedge_bit_for_bit():
    log_taus = [np.log([0.2, 0.8]), np.log([0.5, 0.3, 0.2])]
    rule, state = hedge.rule(0.05), hedge.learners(log_taus)
    types = dil.Types(log_taus, [rule])
    draws, plain = np.random.default_rng(1), np.random.default_rng(1)
    utilities = np.random.default_rng(2)
    for k in range(30):
        picks = types.draw(draws)
        np.testing.assert_array_equal(picks, hedge.draw(state.policy, state.size, plain))
        utility = utilities.uniform(size=(2, 3))
        types.update(utility, k)
        hedge.update(state, utility, k, rule)
    np.testing.assert_array_equal(types.states[0].policy, state.policy)
    np.testing.assert_array_equal(types.regret(), hedge.regret(state))
    found = types.found(1, 30)
    np.testing.assert_array_equal(found["average"], hedge.average(state, 1))
    np.testing.assert_array_equal(found["f"], hedge.exponents(state, 1, 30, rule))


def test_special_values_of_lam_and_kappa():
    """lam = 0 is Hedge: the anchor has no part. kappa = 0 with lam = 0 is fictitious play."""
    u = np.array([[0.3, 0.1]])
    free = dil.Types([np.log([0.01, 0.99])], [hedge.rule(0.0, kappa="root", eta0=1.0)])
    free.update(u, 0)
    np.testing.assert_allclose(free.states[0].policy, [hedge.softmax(u[0])], rtol=1e-12)
    fictitious = dil.Types([np.log([0.01, 0.99])], [hedge.rule(0.0, kappa="zero")])
    fictitious.update(u, 0)
    np.testing.assert_array_equal(fictitious.states[0].policy, [[1.0, 0.0]])


def test_two_types_on_rock_paper_scissors_reach_their_fixed_point():
    """Each type plays exp{(u(a, mixture) + lam log tau)/lam} against the mixture of both types; the
    type with the larger lam stays nearer to the anchor.
    """
    game, lams = rps(), (0.05, 0.5)
    rules = [hedge.rule(lam, **RULE) for lam in lams]
    found = dil.matrix_game(game, 4000, rules, belief=(0.25, 0.75))
    row, column = (0.25 * p[0] + 0.75 * p[1] for p in (found.last_row, found.last_column))
    for lam, x, y in zip(lams, found.last_row, found.last_column, strict=True):
        f = (game.payoff @ column + lam * np.log(game.row_anchor)) / lam
        np.testing.assert_allclose(x, hedge.softmax(f), atol=0.01)
        f = (1 - row @ game.payoff + lam * np.log(game.column_anchor)) / lam
        np.testing.assert_allclose(y, hedge.softmax(f), atol=0.01)
    weak, strong = (hedge.kl(policy, game.row_anchor) for policy in found.last_row)
    assert 5 * strong < weak


def test_types_are_drawn_by_their_belief():
    """Anchor (1, 0) for lam = 1000, utility (0, 1): types disagree after one update, so the share
    of action 1 is the belief in the free type.
    """
    rules = [hedge.rule(0.0, kappa="zero"), hedge.rule(1000.0)]
    types = dil.Types([np.log([1.0, 1e-30])], rules, belief=(0.3, 0.7), agent=1)
    types.update(np.array([[0.0, 1.0]]), 0)
    rng = np.random.default_rng(0)
    share = np.mean([types.draw(rng)[0] for _ in range(2000)])
    assert share == pytest.approx(0.3, abs=0.04)
    assert types.found(0, 1)["final"][0] == pytest.approx(1.0)  # the agent stays at the anchor


def test_bad_beliefs():
    rules = [hedge.rule(0.1)] * 2
    for belief in ((1.0,), (0.5, 0.6), (-0.5, 1.5)):
        with pytest.raises(ValueError, match="a belief over 2 types"):
            dil.Types([np.log([0.5, 0.5])], rules, belief)
    with pytest.raises(ValueError, match="there are 2"):
        dil.Types([np.log([0.5, 0.5])], rules, agent=2)


def test_regret_matching_by_hand():
    """Uniform first: u = (1, 0), own 1/2, regrets (1/2, -1/2), so (1, 0). Then u = (0, 1), own 0:
    sums of regret (1/2, -1/2) + (0, 1) = (1/2, 1/2), so uniform again.
    """
    state = hedge.learners([np.log([0.9, 0.1])])
    regret_matching.update(state, np.array([[1.0, 0.0]]), 0, False)
    np.testing.assert_allclose(state.policy, [[1.0, 0.0]])
    regret_matching.update(state, np.array([[0.0, 1.0]]), 1, False)
    np.testing.assert_allclose(state.policy, [[0.5, 0.5]])
    np.testing.assert_allclose(hedge.average(state, 0), [0.75, 0.25])
    # linear: the first iteration has half the weight of the second, (1/4, -1/4) + (0, 1)
    state = hedge.learners([np.log([0.9, 0.1])])
    for k, u in enumerate(([1.0, 0.0], [0.0, 1.0])):
        regret_matching.update(state, np.array([u]), k, True)
    np.testing.assert_allclose(state.policy, [[0.25, 0.75]], atol=1e-6)


@pytest.mark.parametrize("linear", [False, True])
def test_regret_matching_converges_on_rock_paper_scissors(linear):
    """Paper beats rock by 1/4 only, the other wins are by 1/2. Indifference: every action is as
    probable as the win that it has no part in is large, so (1/2, 1/2, 1/4) / (5/4).
    """
    payoff = np.array([[0.5, 0.25, 1.0], [0.75, 0.5, 0.0], [0.0, 1.0, 0.5]])
    game = matrix_games.MatrixGame("rps", payoff, np.full(3, 1 / 3), np.full(3, 1 / 3))
    row, column = regret_matching.matrix_game(game, 10000, linear)
    assert matrix_games.exploitability(payoff, row, column).max() < 0.01
    np.testing.assert_allclose(row, [0.4, 0.4, 0.2], atol=0.03)
    np.testing.assert_allclose(column, [0.4, 0.4, 0.2], atol=0.03)
