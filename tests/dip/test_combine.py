"""A model beside an anchor: weights found again, convexity by hand, play that follows them."""

import numpy as np
import pytest

from dipllm_lib.dip import boards, combine, orders, policies
from dipllm_lib.dip.hedge import kl, softmax
from dipllm_lib.dip.search_settings import SearchSettings

SETTINGS = SearchSettings(iterations=1, candidates=8, ratio=8.0, draws=64, lam=0.01)


def tables(a, w, n=40, seed=0, k=6):
    """Power-turns whose target is exactly pi_{a,w}."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        tau, p = np.log(rng.dirichlet(np.ones(k), size=2))
        found.append(combine.table(softmax(a * tau + w * p), tau, p))
    return found


@pytest.mark.parametrize("true", [(1.0, 0.0), (0.5, 0.5), (2.0, -0.3), (0.0, 1.0)])
def test_the_weights_of_the_target_are_found_again(true):
    found = combine.fit(tables(*true))
    np.testing.assert_allclose(found, true, atol=1e-4)
    assert combine.divergences(tables(*true), *found).max() < 1e-8


def test_one_power_turn_by_hand():
    """Two candidates: tau (.8, .2), p (.5, .5). The anchor at a = 1 has KL of (.5, .5) to it."""
    one = combine.table([0.5, 0.5], np.log([0.8, 0.2]), np.log([0.5, 0.5]))
    assert combine.divergences([one], 1, 0)[0] == pytest.approx(np.log(5 / 4))
    assert combine.divergences([one], 0, 1)[0] == pytest.approx(0)
    assert combine.divergences([one], 0.5, 3)[0] == pytest.approx(
        kl(np.array([0.5, 0.5]), np.array([2 / 3, 1 / 3]))
    )
    a, w = combine.fit([one], model=False)
    assert a == pytest.approx(0, abs=1e-6) and w == 0


def test_an_impossible_joint_order_has_a_finite_log():
    one = combine.table([1.0, 0.0], [np.log(0.5)] * 2, [-np.inf, 0.0])
    assert one[2].tolist() == [combine.LEAST, 0.0]
    assert combine.divergences([one], 1, 0)[0] == pytest.approx(np.log(2))


def test_a_model_that_knows_nothing_gets_no_weight_on_other_games():
    """Targets of the anchor alone: w is 0 in every fold, and the difference is 0."""
    found = combine.crossed(
        tables(1.5, 0.0), ["abcd"[i % 4] for i in range(40)], np.random.default_rng(1), 200
    ).set_index("policy")
    assert found.loc["anchor and model, fitted", "w"] == pytest.approx(0, abs=1e-4)
    assert found.loc["anchor and model, fitted", "difference"] == pytest.approx(0, abs=1e-6)
    assert found.loc["anchor, fitted", "a"] == pytest.approx(1.5, abs=1e-4)
    assert found.loc["anchor", "kl"] > found.loc["anchor, fitted", "kl"] + 0.01
    assert found.loc["model", "kl_low"] > 0.1 and (found["turns"] == 40).all()


def test_each_game_is_judged_with_weights_of_the_others():
    """Game x follows the anchor, game y the model: crossed, each gets the weights of the other."""
    rows = tables(1.0, 0.0, n=10) + tables(0.0, 1.0, n=10, seed=1)
    games = ["x"] * 10 + ["y"] * 10
    found = combine.crossed(rows, games, np.random.default_rng(1), 50).set_index("policy")
    both = found.loc["anchor and model, fitted"]
    assert (both["a"], both["w"]) == pytest.approx((0.5, 0.5), abs=1e-3)
    wrong = [*combine.divergences(rows[:10], 0, 1), *combine.divergences(rows[10:], 1, 0)]
    assert both["kl"] == pytest.approx(np.mean(wrong), rel=1e-3)


def test_what_is_refused():
    with pytest.raises(ValueError, match="sums to 0.9"):
        combine.table([0.5, 0.4], [0, 0], [0, 0])
    with pytest.raises(ValueError, match="one number per candidate"):
        combine.table([0.5, 0.5], [0], [0, 0])
    with pytest.raises(ValueError, match="no power-turns"):
        combine.fit([])
    with pytest.raises(ValueError, match="two or more, got 1"):
        combine.crossed(tables(1, 0, 3), "aaa", np.random.default_rng(0), 10)
    with pytest.raises(ValueError, match="temperature of weighed"):
        combine.Weighed(None, None, 1, 0, 0.0, SETTINGS)


class Fixed:
    """A model with log-probabilities that fall by `step` along the sorted joint orders."""

    def __init__(self, step):
        self.step = step

    def log_probs(self, turns, joints):
        return [-self.step * np.argsort(np.argsort([str(j) for j in own])) for own in joints]


def test_play_follows_the_weights():
    """w = 0 plays the anchor's likeliest candidate when cold; a = 0 the model's."""
    turns = orders.turns(boards.start())[:3]
    tau = policies.RandomLegal()

    def rngs():
        return [np.random.default_rng([5, k]) for k in range(3)]

    model = Fixed(5.0)
    for turn, played in zip(
        turns, combine.Weighed(tau, model, 0.0, 1.0, 0.01, SETTINGS).act(turns, rngs()), strict=True
    ):
        turn.check(played)
    proposals = combine.candidates.choose(turns, tau, SETTINGS, rngs())
    found = combine.Weighed(tau, model, 0.0, 1.0, 0.01, SETTINGS).act(turns, rngs())
    assert found == [min(own, key=str) for own, _ in proposals]
    other = combine.Weighed(tau, Fixed(0.0), 0.0, 1.0, 0.01, SETTINGS)
    plain = combine.Weighed(tau, model, 1.0, 0.0, 0.01, SETTINGS)
    assert other.act(turns, rngs()) == plain.act(turns, rngs())
    assert other.act(turns[1:2], rngs()[1:2]) == other.act(turns, rngs())[1:2]
    assert other.act([], []) == []
