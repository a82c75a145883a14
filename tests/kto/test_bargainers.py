"""Bargainers against backward induction, the Rubinstein shares, and lambda."""

import numpy as np
import pytest

from dipllm_lib.kto import bargainers, bargaining_exact, prospect
from dipllm_lib.kto.bargainers import Pairs
from dipllm_lib.kto.bargaining import AlternatingOffers
from dipllm_lib.kto.prospect import ARTICLE, NEUTRAL, ProspectParams
from dipllm_lib.kto.tabular import Objective
from dipllm_lib.run import seeding

DELTAS = (0.5, 0.9, 0.95)


def discounting(grid: int, rounds: int, params=ARTICLE) -> Pairs:
    games = [AlternatingOffers(grid=grid, rounds=rounds, delta=delta) for delta in DELTAS]
    return Pairs(games, [(params, params)] * 3)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_known_length_is_backward_induction_on_the_same_grid(rounds):
    """Between the solutions with ties accepted and with ties refused, one step of the grid."""
    pairs = discounting(20, rounds)
    learned = bargainers.train(pairs, Objective(), 20)
    paid = bargainers.payoffs(pairs, bargainers.modal(learned))[:, 0]
    for value, game in zip(paid, pairs.games, strict=True):
        ends = [bargaining_exact.backward(game, ties=t).values[0, 0] for t in bargaining_exact.TIES]
        assert min(ends) - 1e-9 <= value <= max(ends) + 1e-9


@pytest.mark.slow
def test_five_seeds_without_end_find_the_rubinstein_shares():
    """.6667 .5263 .5128; a grid of 100, so the mean over seeds is held to three of its steps."""
    pairs = discounting(100, 2)
    found = []
    for seed in range(5):
        rng = seeding.child(seed, "test")
        learned = bargainers.settle(pairs, Objective(), 10, 20, 4000, rng)
        found.append(bargainers.payoffs(pairs, learned, endless=True)[:, 0])
    exact = [bargaining_exact.rubinstein(delta) for delta in DELTAS]
    assert np.mean(found, axis=0) == pytest.approx(exact, abs=0.02)
    assert np.abs(np.array(found) - exact).max() < 0.05


def test_without_end_on_a_coarse_grid():
    """Exact expectations: the step of the grid below 1 / (1 + delta), or the one above."""
    pairs = discounting(20, 2)
    learned = bargainers.settle(pairs, Objective(), 10, 10)
    paid = bargainers.payoffs(pairs, learned, endless=True)
    exact = [bargaining_exact.rubinstein(delta) for delta in DELTAS]
    assert paid[:, 0] == pytest.approx(exact, abs=0.05)
    assert paid.sum(axis=1) == pytest.approx([1.0] * 3, abs=0.01)  # agreement at once


@pytest.mark.slow
def test_own_lambda_lowers_and_the_others_raises_the_share():
    def p(lam):
        return ProspectParams(1.0, 1.0, lam, 1.0, 1.0)

    sides = [(1.0, 1.0), (2.25, 1.0), (1.0, 2.25), (3.2, 1.0), (1.0, 3.2)]
    params = [(p(own), p(other)) for own, other in sides]
    games = [AlternatingOffers(grid=100, rounds=2, go_on=0.9)] * 5
    pairs = Pairs(games, params, np.full((5, 2), 0.25))
    learned = bargainers.settle(pairs, Objective(), 10, 20)
    share = bargainers.payoffs(pairs, learned, endless=True)[:, 0]
    known = [0.5263, 0.3783, 0.6908, 0.3203, 0.7552]
    assert share == pytest.approx(known, abs=0.03)
    assert share[1] < share[0] < share[2] and share[3] < share[1] and share[2] < share[4]


def test_payoffs_of_two_plans_by_hand():
    """Keep .5 and it is taken; keep 1 for ever and nobody agrees; refused once, then .5."""
    pairs = Pairs([AlternatingOffers(grid=2, rounds=2, delta=0.9)], [(NEUTRAL, NEUTRAL)])

    def plan(keeps, accepts):
        keep = np.eye(3)[np.array(keeps)][:, None, :]
        return bargainers.Learned(keep, np.array(accepts, dtype=float)[:, None, :])

    fair = plan([1, 1], [[1, 1, 0], [1, 1, 0]])
    assert bargainers.payoffs(pairs, fair)[0] == pytest.approx([0.5, 0.5])
    assert bargainers.payoffs(pairs, fair, endless=True)[0] == pytest.approx([0.5, 0.5])
    stubborn = plan([2, 2], [[1, 1, 0], [1, 1, 0]])
    assert bargainers.payoffs(pairs, stubborn)[0] == pytest.approx([0.0, 0.0])
    late = plan([2, 1], [[1, 1, 0], [1, 1, 0]])
    assert bargainers.payoffs(pairs, late)[0] == pytest.approx([0.45, 0.45])


def test_what_is_refused():
    open_game = AlternatingOffers(grid=10, rounds=None, go_on=0.9)
    with pytest.raises(ValueError, match="one known length"):
        Pairs([open_game], [(ARTICLE, ARTICLE)])
    with pytest.raises(ValueError, match="rho belongs to breakdown"):
        Pairs([AlternatingOffers(rounds=2, go_on=0.9)], [(ARTICLE, ARTICLE)])
    with pytest.raises(ValueError, match="params for each"):
        Pairs([AlternatingOffers(rounds=2, delta=0.9)], [])
    assert prospect.value(0.0, ARTICLE) == 0.0
