"""Alternating offers: payoffs, prompts, and the exact solutions in two ways."""

import itertools

import numpy as np
import pytest

from dipllm_lib.kto import bargaining_exact as exact
from dipllm_lib.kto import games
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.run import seeding

ACCEPT, REFUSE = games.ACCEPT, games.REFUSE


def rng(*names):
    return seeding.child(0, "kto", "bargaining", *names)


def power(lam, alpha=1.0):
    """A prospect value function with equal exponents."""
    return lambda x: np.where(x >= 0, 1.0, -lam) * np.abs(x) ** alpha


def walk(game, *actions):
    state = game.reset(rng())
    for action in actions:
        state = game.step(state, (action,))
    return state


def test_prompts_with_discounting():
    game, rules = AlternatingOffers(delta=0.9), "Bargaining. Pie 100. Each refusal cuts it to 90"
    assert game.observe(walk(game), 0) == rules + " percent. Round 1 of 6. I keep"
    offered = walk(game, 6)
    text = rules + " percent. Setting B. Forecast refuse 30. Round 1 of 6. They keep 60. I"
    assert game.observe(offered, 1, "B", "Forecast refuse 30.") == text
    second = walk(game, 6, REFUSE)
    assert game.observe(second, 1) == rules + " percent. Round 2 of 6. I keep"
    assert second.refused == (6, -1)
    third = walk(game, 6, REFUSE, 5)
    assert game.observe(third, 0) == rules + " percent. Round 2 of 6. They keep 50. I"


def test_prompts_with_breakdown():
    rules = "Bargaining. Pie 100. A refusal ends it with chance 10. Then both get 0."
    game = AlternatingOffers(20, None, go_on=0.9)
    assert game.observe(walk(game), 0) == rules + " I keep"
    assert game.observe(walk(game, 11), 1, "F") == rules + " Setting F. They keep 55. I"
    closed = AlternatingOffers(20, 4, go_on=0.9)
    assert closed.observe(walk(closed), 0) == rules + " Round 1 of 4. I keep"
    assert AlternatingOffers(4).legal(walk(game), 0) == (" 0.", " 25.", " 50.", " 75.", " 100.")


def test_payoffs_add_to_the_discounted_pie_or_to_nothing():
    game = AlternatingOffers(delta=0.9, rounds=3)
    for refusals in range(3):
        for k in range(11):
            ending = walk(game, *(3, REFUSE) * refusals, k, ACCEPT)
            pays = game.payoffs(ending)
            assert sum(pays) == pytest.approx(0.9**refusals)
            assert pays[refusals % 2] == pytest.approx(0.9**refusals * k / 10)
    assert game.payoffs(walk(game, *(3, REFUSE) * 3)) == (0.0, 0.0)


def test_breakdown_comes_with_its_chance():
    game = AlternatingOffers(10, None, go_on=0.9)
    limits = np.array([game.reset(rng(k)).limit for k in range(2000)])
    assert abs(np.mean(limits == 1) - 0.1) < 0.03 and abs(limits.mean() - 10) < 0.9
    stubborn = (lambda g, s, *_: REFUSE if s.keep >= 0 else 10,) * 2
    episode = games.play(game, stubborn, rng("x"))
    assert episode.payoffs == (0.0, 0.0) and episode.final.round == episode.final.limit


@pytest.mark.parametrize("delta, share", [(0.5, 0.6667), (0.9, 0.5263), (0.95, 0.5128)])
def test_infinite(delta, share):
    assert round(exact.rubinstein(delta), 4) == share
    assert exact.staahl(delta, 2001) == pytest.approx(exact.rubinstein(delta), abs=1e-9)


def test_finite_any_share():
    shares = [round(exact.staahl(0.9, t), 4) for t in range(1, 7)]
    assert shares == [1.0, 0.1, 0.91, 0.181, 0.8371, 0.2466]


@pytest.mark.parametrize(
    "grid, ties, shares",
    [
        (100, "accept", [1, 0.10, 0.91, 0.18, 0.83, 0.25]),
        (100, "refuse", [0.99, 0.10, 0.90, 0.18, 0.83, 0.25]),
        (20, "accept", [1, 0.10, 0.90, 0.15, 0.85, 0.20]),
        (10, "accept", [1, 0.1, 0.9, 0.1, 0.9, 0.1]),
    ],
)
def test_finite_on_a_grid(grid, ties, shares):
    found = []
    for rounds in range(1, 7):
        plan = exact.backward(AlternatingOffers(grid, rounds, 0.9), ties=ties)
        assert plan.accepts[0, plan.keep[0]]
        found.append(float(plan.keep[0] / grid))
    assert found == pytest.approx(shares)


@pytest.mark.parametrize("form", [{"delta": 0.9}, {"go_on": 0.8}, {}])
def test_backward_induction_is_enumeration(form):
    game = AlternatingOffers(4, 3, **form)

    def solve(state):
        """Values of both by walking the tree; breakdown is averaged outside the state."""
        if not (movers := game.to_move(state)):
            return game.payoffs(state)
        found = []
        for k in range(len(game.legal(state, movers[0]))):
            after = solve(game.step(state, (k,)))
            if state.keep >= 0 and k == REFUSE:
                after = tuple(game.go_on * x for x in after)
            found.append((round(after[movers[0]], 12), -k if state.keep >= 0 else k, after))
        return max(found)[2]

    endless = game.reset(rng())
    object.__setattr__(endless, "limit", -1)
    plan = exact.backward(game)
    assert solve(endless) == pytest.approx(tuple(plan.values[0]), abs=1e-12)


TABLE = [
    ((1, 1), 0.5263, 0.5299),
    ((2.25, 1), 0.3783, 0.4119),
    ((1, 2.25), 0.6908, 0.6645),
    ((2.25, 2.25), 0.5428, 0.5485),
    ((3.2, 1), 0.3203, 0.3487),
    ((1, 3.2), 0.7552, 0.7364),
]


@pytest.mark.parametrize("lams, linear, curved", TABLE)
def test_stationary_shares_under_loss_aversion(lams, linear, curved):
    for alpha, share in ((1.0, linear), (0.88, curved)):
        values = tuple(power(lam, alpha) for lam in lams)
        x = exact.stationary(0.9, 0.25, values)
        assert round(x[0], 4) == share
        for i, j in ((0, 1), (1, 0)):
            left = values[j](1 - x[i] - 0.25)
            right = 0.9 * values[j](x[j] - 0.25) + 0.1 * values[j](-0.25)
            assert left == pytest.approx(right, abs=1e-9)


def test_the_check_of_the_specification():
    own, other = exact.stationary(0.9, 0.25, (power(2.25), power(1)))
    assert 1 - own == pytest.approx(0.9 * other, abs=1e-9)
    right = 0.9 * (own - 0.25) - 0.1 * 2.25 * 0.25
    assert 1 - other - 0.25 == pytest.approx(right, abs=1e-9)


def test_nobody_can_lose_at_reference_zero():
    for alpha in (1.0, 0.88):
        base = exact.stationary(0.9, 0.0, (power(1, alpha), power(1, alpha)))
        for lams in ((5, 1), (1, 5), (3.2, 2.25)):
            shares = exact.stationary(0.9, 0.0, tuple(power(lam, alpha) for lam in lams))
            assert shares == pytest.approx(base, abs=1e-9)


def test_sign_of_loss_aversion():
    for p, rho in itertools.product((0.5, 0.7, 0.9, 0.95), (0.1, 0.25, 0.4)):
        own, other = [], []
        for lam in (1.0, 1.5, 2.25, 3.2, 5.0):
            own.append(exact.stationary(p, rho, (power(lam), power(1)))[0])
            other.append(exact.stationary(p, rho, (power(1), power(lam)))[0])
        assert np.all(np.diff(own) < 0) and np.all(np.diff(other) > 0), (p, rho)


def test_a_long_game_with_breakdown_nears_the_stationary_share():
    rho, lams = 0.25, (2.25, 1)
    values = tuple(lambda u, v=power(lam): v(u - rho) for lam in lams)
    plan = exact.backward(AlternatingOffers(100, 201, go_on=0.9), values)
    want = exact.stationary(0.9, rho, tuple(power(lam) for lam in lams))[0]
    assert plan.keep[0] / 100 == pytest.approx(want, abs=0.02)


def test_best_replies_to_perfect_play_are_perfect():
    game = AlternatingOffers(20, 5, 0.9)
    plan = exact.backward(game)
    for seat in (0, 1):
        values = exact.perfect_replies(game, seat)
        for t in range(5):
            if t % 2 == seat:
                assert values.keep[t].max() == pytest.approx(plan.values[t, seat])
                assert values.keep[t, plan.keep[t]] == pytest.approx(plan.values[t, seat])
                assert np.isnan(values.answer[t]).all()
            else:
                assert np.isnan(values.keep[t]).all()


def test_best_replies_by_hand():
    game = AlternatingOffers(10, 2, 0.5)
    half = np.eye(11)[5]
    takes = (np.arange(11) <= 6).astype(float)  # accepts when the proposer keeps up to .6
    first = exact.reply_values(game, 0, half, takes)
    assert first.keep[0].max() == 0.6 and first.keep[0, 10] == 0.25  # half of half a pie
    assert first.answer[1, 5].tolist() == [0.25, 0.0]
    second = exact.reply_values(game, 1, half, takes)
    assert second.answer[0, 5].tolist() == [0.5, 0.3]
    open_game = AlternatingOffers(10, None, go_on=0.5)
    values = exact.reply_values(open_game, 0, half, takes)
    assert values.keep.shape == (2, 11) and values.keep[0].max() == pytest.approx(0.6)
    assert values.answer[1, 5].tolist() == pytest.approx([0.5, 0.3])


@pytest.mark.parametrize(
    "given, words",
    [({"grid": 7}, "grid 7"), ({"delta": 0.0}, "delta 0.0"), ({"go_on": 2.0}, "go_on 2.0"),
     ({"delta": 0.9, "go_on": 0.9}, "not both"), ({"rounds": None}, "may never end"),
     ({"rounds": 0}, "rounds 0")],
)  # fmt: skip
def test_bad_games(given, words):
    with pytest.raises(ValueError, match=words):
        AlternatingOffers(**given)


def test_bad_input_to_the_solvers():
    with pytest.raises(ValueError, match="known number of rounds"):
        exact.backward(AlternatingOffers(10, None, go_on=0.9))
    with pytest.raises(ValueError, match="ties 'x'"):
        exact.backward(AlternatingOffers(), ties="x")
    with pytest.raises(ValueError, match="p 1.0"):
        exact.stationary(1.0, 0.2, (power(1), power(1)))
    with pytest.raises(ValueError, match="delta 1.0"):
        exact.rubinstein(1.0)
    with pytest.raises(ValueError, match="offers of shape"):
        exact.reply_values(AlternatingOffers(), 0, np.ones(3), np.ones(11))
    with pytest.raises(ValueError, match="seat 2"):
        exact.reply_values(AlternatingOffers(), 2, np.ones(11), np.ones(11))
