"""Three-player public goods: payoffs, codes and chain by hand, chain against simulation."""

import numpy as np
import pytest

from dipllm_lib.ipd import exact, game, tabular
from dipllm_lib.ipd import public_goods as pg
from dipllm_lib.run import seeding


def streams(*names):
    return [seeding.child(0, "public goods", *names, seat) for seat in range(3)]


@pytest.mark.parametrize(
    "r, all_c, lone", [(1.6, 0.6, -0.467), (2.0, 1.0, -0.333), (2.4, 1.4, -0.2)]
)
def test_payoffs_by_hand(r, all_c, lone):
    """All give: r - 1; a lone giver r/3 - 1, the two beside it r/3 (section 11, row 8)."""
    goods = pg.PublicGoods(r)
    np.testing.assert_allclose(goods.of(np.array([1, 1, 1])), all_c)
    np.testing.assert_allclose(goods.of([1, 0, 0]), [lone, r / 3, r / 3], atol=5e-4)
    np.testing.assert_allclose(goods.of([0, 0, 0]), 0.0)
    # the same by codes: own C with 2, 1, 0 other givers, then own D
    by_hand = [r - 1, 2 * r / 3 - 1, r / 3 - 1, 2 * r / 3, r / 3, 0.0]
    np.testing.assert_allclose(goods.by_state, by_hand)
    # a gift always costs 1 - r/3
    np.testing.assert_allclose(goods.by_state[3:] - goods.by_state[:3], 1 - r / 3)


def test_no_dilemma_is_refused():
    for r in (1.0, 3.0, float("nan")):
        with pytest.raises(ValueError, match="needs 1 < r < 3"):
            pg.PublicGoods(r)


def test_codes_by_hand_and_for_two_players():
    np.testing.assert_array_equal(pg.observed([1, 1, 1]), [1, 1, 1])
    np.testing.assert_array_equal(pg.observed([1, 0, 0]), [3, 5, 5])
    np.testing.assert_array_equal(pg.observed([0, 1, 1]), [4, 2, 2])
    np.testing.assert_array_equal(pg.observed([0, 0, 0]), [6, 6, 6])
    own, other = np.array([1, 1, 0, 0]), np.array([1, 0, 1, 0])
    np.testing.assert_array_equal(pg.code(own, other, players=2), game.outcome(own, other))


def test_sequences_by_hand():
    """`all` stops after the first defection; `any` goes on while one of the others gives."""

    def run(*names):
        players = [pg.Tabular(pg.named(name)) for name in names]
        return pg.play(players, 1, 4, streams("hand"))[0].T

    np.testing.assert_array_equal(run("all", "all", "AllD"), [[1, 0, 0, 0]] * 2 + [[0] * 4])
    np.testing.assert_array_equal(run("any", "any", "AllD"), [[1] * 4] * 2 + [[0] * 4])
    np.testing.assert_array_equal(run("any", "AllD", "AllD"), [[1, 0, 0, 0], [0] * 4, [0] * 4])


def test_chain_by_hand():
    """Rows sum to 1; deterministic agents move as their sequences do."""
    agents = [pg.sample("uniform", 5, rng) for rng in streams("chain")]
    start, matrix = pg.chain(agents)
    np.testing.assert_allclose(matrix.sum(axis=2), 1.0)
    np.testing.assert_allclose(start.sum(axis=1), 1.0)
    # state 3 is C, D, D: the giver saw no other give (code 3), the others one (code 5)
    giver = agents[0][:, 3]
    np.testing.assert_allclose(matrix[:, 3, :4].sum(axis=1), giver)
    np.testing.assert_allclose(
        matrix[:, 3, 0], giver * agents[1][:, 5] * agents[2][:, 5], atol=1e-15
    )
    reward, share = pg.finite([pg.named(n) for n in ("all", "all", "AllD")], 4, pg.PublicGoods(2.4))
    np.testing.assert_allclose(share, [[0.25, 0.25, 0.0]])
    np.testing.assert_allclose(reward, [[0.6 / 4, 0.6 / 4, 1.6 / 4]], atol=1e-15)


def test_rewards_follow_from_cooperation():
    """reward of X = r (sum of shares) / 3 - own share, for any agents."""
    agents = [pg.sample("beta", 50, rng) for rng in streams("identity")]
    reward, share = pg.finite(agents, 30, pg.PublicGoods(1.6))
    expected = 1.6 * share.sum(axis=1, keepdims=True) / 3 - share
    np.testing.assert_allclose(reward, expected, atol=1e-12)


def test_chain_against_simulation():
    n, rounds, goods = 4000, 20, pg.PublicGoods(2.0)
    agents = [pg.sample("uniform", 4, rng) for rng in streams("agents")]
    exactly, shares = pg.finite(agents, rounds, goods)
    for k in range(4):
        players = [pg.Tabular(vectors[k]) for vectors in agents]
        actions = pg.play(players, n, rounds, streams("simulated", k))
        for measured, wanted in ((goods.of(actions), exactly[k]), (actions, shares[k])):
            by_game = measured.mean(axis=1)
            se = by_game.std(axis=0, ddof=1) / np.sqrt(n)
            assert (np.abs(by_game.mean(axis=0) - wanted) < 4 * se).all()


def test_a_third_player_who_does_nothing_leaves_the_two_player_chain():
    """Agents that look at one other only cannot exist; with an AllD in seat 2 the number of other
    givers is the action of one player, and the two-player chain comes out."""
    p, q = tabular.sample("uniform", 2, seeding.child(3, "pair"))

    def lifted(v):
        s0, cc, cd, dc, dd = v
        return np.array([s0, 0.5, cc, cd, 0.5, dc, dd])

    reward, share = pg.finite([lifted(p), lifted(q), pg.named("AllD")], 15, pg.PublicGoods(2.0))
    occupied = exact.occupancy(p, q, 15)[0]
    np.testing.assert_allclose(share[0, 0], occupied[0] + occupied[1])
    np.testing.assert_allclose(reward[0, 2], 2 * (share[0, 0] + share[0, 1]) / 3)


def test_bad_input():
    with pytest.raises(ValueError, match=r"need \(n, 7\)"):
        pg.Tabular(np.zeros(5))
    with pytest.raises(ValueError, match=r"P\(C \| C0\) = 1.5"):
        pg.check([0, 0, 0, 1.5, 0, 0, 0])
    with pytest.raises(ValueError, match="unknown pool 'human'"):
        pg.sample("human", 3, seeding.child(0, "x"))
    with pytest.raises(ValueError, match="need 3 of each"):
        pg.play([pg.Tabular(pg.named("AllC"))] * 2, 2, 2, streams("bad"))
    with pytest.raises(ValueError, match="need three"):
        pg.chain([pg.named("AllC")] * 2)
