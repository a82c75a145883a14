"""The four meters of extortion on players whose numbers are known, and Akin's identity."""

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import batch_play, exact, extortion, game, models, tabular
from dipllm_lib.ipd.a2c_games import Actor
from dipllm_lib.ipd.batch_play import Table
from dipllm_lib.ipd.certainty import CertaintyEquivalent
from dipllm_lib.ipd.seats import Trembling
from dipllm_lib.run import seeding

RNG = ("ipd", "test", "extortion")


def rng(*names):
    return seeding.child(0, *RNG, *names)


# the share


def test_the_paper_s_shares():
    """PPI 0.88 and 0.24 give 3.7, late in a game 1.05 and 0.20 about 5; A2C's victim is below P."""
    wobble = np.array([-0.02, 0.0, 0.02])
    for x, y, chi in ((0.88, 0.24, 3.67), (1.05, 0.20, 5.25)):
        found = extortion.share(x + wobble, y + wobble / 2, rng("share"), 500)
        assert found.chi == pytest.approx(chi, abs=0.01)
        assert 1 < found.low <= found.chi <= found.high and found.verdict == "extortion"
        assert (found.s_x, found.s_y) == pytest.approx((x, y))
    found = extortion.share(1.32 + wobble, -0.03 + wobble, rng("share"), 500)
    assert np.isnan([found.chi, found.low, found.high]).all()
    assert found.verdict == "exploitation"


def test_a_share_needs_two_standard_errors_above_p():
    """Victims at .09 and .3 of two seeds: mean .195, error .105; .11 and .3: .205, .095."""
    found = extortion.share([0.9, 0.9], [0.09, 0.3], rng("two"), 100)
    assert found.se_y == pytest.approx(0.105) and np.isnan(found.chi)
    found = extortion.share([0.9, 0.9], [0.11, 0.3], rng("two"), 100)
    assert found.chi == pytest.approx(0.9 / 0.205)


def test_equal_shares_are_no_extortion_and_one_seed_says_nothing():
    found = extortion.share([0.5, 0.7, 0.6], [0.6, 0.5, 0.7], rng("equal"), 500)
    assert found.low < 1 < found.high and found.verdict == "neither"
    found = extortion.share([0.0, 0.01, -0.01], [0.01, -0.01, 0.0], rng("zero"), 500)
    assert np.isnan(found.chi) and found.verdict == "neither"
    assert extortion.share([0.9], [0.2], rng("one"), 10).verdict == "open"
    with pytest.raises(ValueError, match="one payoff per seed"):
        extortion.share([0.9, 0.8], [0.2], rng("bad"), 10)


def test_the_punishment_is_the_zero():
    payoffs = game.Payoffs(-1.0, -3.0, 0.0, -2.0)
    found = extortion.share([-1.1, -1.0], [-1.7, -1.6], rng("p"), 50, payoffs)
    assert found.chi == pytest.approx(0.95 / 0.35) and found.s_x == pytest.approx(-1.05)


# the enforcement line


def points(p, opponents=300, rounds=2000):
    q = 0.02 + 0.96 * rng("line").random((opponents, 5))
    return exact.finite(p, q, rounds)


@pytest.mark.parametrize(
    "name, slope, start",
    [("TFT", 1.0, 0.0), ("ZD3", 3.0, 0.0), ("GTFT", 4.0, -3.0), ("AllD", -2.0, 0.0),
     ("AllC", -2.0, 3.0)],
)  # fmt: skip
def test_lines_of_players_that_enforce_one(name, slope, start):
    """GTFT: s_X - R = 4 (s_Y - R). AllD: s_X = 2 c, s_Y = -c. AllC: s_X = 2 c - 1, s_Y = 2 - c."""
    found = extortion.line(*points(tabular.named(name)), rng("boot"), 50)
    assert found.slope == pytest.approx(slope, abs=0.02)
    assert found.start == pytest.approx(start, abs=0.02)
    assert found.r2 > 0.999 and found.opponents == 300
    assert found.low <= found.slope <= found.high and found.high - found.low < 0.05


def test_win_stay_lose_shift_enforces_nothing():
    found = extortion.line(*points(tabular.named("WSLS")), rng("boot"), 50)
    assert found.high < 0 and found.r2 < 0.8


def test_a_line_by_hand_and_bad_lines():
    """Points (s_Y, s_X) = (0, 0), (1, 2), (2, 1), repeated: slope 1/2, start 1/2, R² = 1/4."""
    y, x = np.tile([0.0, 1.0, 2.0], 70), np.tile([0.0, 2.0, 1.0], 70)
    found = extortion.line(x, y, rng("hand"), 20)
    assert (found.slope, found.start, found.r2) == pytest.approx((0.5, 0.5, 0.25))
    with pytest.raises(ValueError, match="200 or more opponents"):
        extortion.line(x[:100], y[:100], rng("few"), 20)
    with pytest.raises(ValueError, match="all opponents earn the same"):
        extortion.line(x, np.zeros_like(x), rng("same"), 20)


# the memory-one fit


@pytest.mark.parametrize(
    "name, phi, chi, sse, accepted",
    [
        ("TFT", 1 / 3, 1.0, 0.0, True),
        ("ZD3", 1 / 7, 3.0, 0.0, True),
        ("AllD", -1 / 3, -2.0, 0.0, False),
        ("AllC", 1 / 3, 0.0, 4 / 3, False),
        ("WSLS", 0.0, np.nan, 4 / 3, False),
    ],
)
def test_fits_of_known_players(name, phi, chi, sse, accepted):
    """WSLS: p~ = (0, -1, 0, 1), target·S_X = 1, target·(-S_Y) = 2: phi = 0, phi chi = 1/3."""
    found = extortion.fit(tabular.named(name))
    assert (found.phi, found.sse) == pytest.approx((phi, sse), abs=1e-9)
    assert found.chi == pytest.approx(chi, nan_ok=True, abs=1e-9)
    assert found.accepted is accepted and np.isnan(found.kappa)


def test_the_constant_tells_extortion_from_generosity():
    found = extortion.fit(tabular.named("GTFT"), constant=True)
    assert found[:4] == pytest.approx((1 / 9, 4.0, 0.0, 1.0), abs=1e-9) and found.accepted
    assert extortion.fit(tabular.named("GTFT")).sse > 0.1
    found = extortion.fit(tabular.zd(2.0, 0.1), constant=True)
    assert found[:4] == pytest.approx((0.1, 2.0, 0.0, 0.0), abs=1e-9)
    assert np.isnan(extortion.fit(tabular.named("TFT"), constant=True).kappa)  # chi = 1


def test_weights_are_visits():
    """What was never visited does not count; equal weights of any size are no weights."""
    broken = tabular.zd(3.0)
    broken[4] = 0.9  # after DD
    found = extortion.fit(broken, np.array([10.0, 20.0, 5.0, 0.0]))
    assert (found.phi, found.chi, found.sse) == pytest.approx((1 / 7, 3.0, 0.0))
    some = rng("weights").random(5)
    alike = extortion.fit(some, np.full(4, 7.0), constant=True)
    assert alike == pytest.approx(extortion.fit(some, constant=True))
    for wrong in (np.zeros(4), np.array([1.0, 1.0, 1.0, -1.0]), np.ones(3)):
        with pytest.raises(ValueError, match="four weights"):
            extortion.fit(some, wrong)


def test_observed_play_is_the_player():
    """Four rounds, own CCDC against CDCC: p(s0) 1, p(CC) 1, p(CD) 0, p(DC) 1, DD never."""
    own, other = np.array([[1, 1, 0, 1]], np.uint8), np.array([[1, 0, 1, 1]], np.uint8)
    found = extortion.observed(game.outcome(own, other))
    assert found.p.tolist() == [1.0, 1.0, 0.0, 1.0, 0.5]
    assert found.visits.tolist() == [1, 1, 1, 1, 0]
    zd = tabular.zd(3.0)
    streams = (rng("observed", "x"), rng("observed", "y"))
    pool = tabular.Tabular(tabular.sample("uniform", 2000, rng("observed")))
    games = game.play(tabular.Tabular(zd), pool, 2000, 50, streams)
    found = extortion.observed(game.outcome(*games.view(0)))
    assert found.p == pytest.approx(zd, abs=0.02)
    fitted = extortion.fit(found.p, found.visits[1:])
    assert fitted.chi == pytest.approx(3.0, abs=0.2) and fitted.accepted and fitted.sse < 1e-3


# identities


def network(n=400, rounds=40):
    """Codes (n, T) of ZD(3) that meets an untrained recurrent network."""
    settings = models.ModelSettings(hidden=12, rounds=rounds, learner="a2c", q_head=False)
    stack = models.build(settings, [rng("network")])
    with torch.no_grad():  # the read-out starts at 0: give it a policy that depends on the past
        for weight in stack.readout.parameters():
            noise = rng("readout").standard_normal(tuple(weight.shape)).astype(np.float32)
            weight += 0.5 * torch.from_numpy(noise)
    vectors = np.tile(tabular.zd(3.0), (1, n, 1)).astype(np.float32)
    table = Table(0, torch.from_numpy(vectors))
    chance = batch_play.draws([rng("a")], [rng("b")], [rng("c")], table, rounds)
    codes = batch_play.play(Actor(stack), table, chance)[0]
    return codes, game.swap(codes)


def test_akin_identity_with_a_network_as_opponent():
    """The ZD player's true p, its opponent a GRU: equal within chance, game by game."""
    _, codes = network()
    shares = np.stack([np.mean(codes == s, axis=0) for s in exact.OUTCOMES], axis=-1)
    left, right = exact.akin(tabular.zd(3.0), shares)
    after = tabular.zd(3.0)[1:]
    per_game = (after - exact.OWN_C)[codes.astype(int) - 1].mean(axis=1)
    se = per_game.std() / np.sqrt(len(codes))
    assert abs(left - right) < 4 * se + 1e-12
    assert 0.05 < np.isin(codes, (game.CC, game.DC)).mean() < 0.95  # the network varies
    gap = extortion.zd_gap(codes, 3.0, 1 / 7)
    assert gap.bound == pytest.approx(7 / 40) and gap.within


def test_akin_identity_of_observed_play_holds_for_anyone():
    """The network's own p, a counting player's, and both by hand: equal up to rounding."""
    own, other = np.array([[1, 1, 0, 1]], np.uint8), np.array([[1, 0, 1, 1]], np.uint8)
    assert extortion.akin_observed(game.outcome(own, other)) == pytest.approx((0.0, 0.0))
    for codes in network(60):
        left, right = extortion.akin_observed(codes)
        assert left == pytest.approx(right, abs=1e-12)
    streams = (rng("x"), rng("y"))
    pool = tabular.Tabular(tabular.sample("uniform", 50, rng("pool")))
    shaky = Trembling(CertaintyEquivalent(30), 0.1)
    games = game.play(shaky, pool, 50, 30, streams)
    left, right = extortion.akin_observed(game.outcome(*games.view(0)))
    assert left == pytest.approx(right, abs=1e-12) and right != 0
    with pytest.raises(ValueError, match="two rounds"):
        extortion.akin_observed(np.ones((3, 1), np.uint8))


@pytest.mark.parametrize("chi", [1.5, 2.0, 3.0, 5.0])
def test_zd_players_stay_within_the_bound(chi):
    """Any opponent, here the counting player; phi = 1/(1 + 2 chi), so the bound is (1+2chi)/T."""
    zd, rounds = tabular.Tabular(tabular.zd(chi, first=0.0)), 60
    streams = (rng("zd", str(chi), "x"), rng("zd", str(chi), "y"))
    games = game.play(zd, CertaintyEquivalent(rounds), 300, rounds, streams)
    codes = game.outcome(*games.view(0))
    gap = extortion.zd_gap(codes, chi, 1 / (1 + 2 * chi))
    assert gap.bound == pytest.approx((1 + 2 * chi) / rounds) and gap.within
    s_x, s_y = (game.Payoffs().of(*games.view(s)).mean() for s in range(2))
    assert gap.gap == pytest.approx(s_x - chi * s_y)
    wrong = extortion.zd_gap(codes, chi + 4.0, 1 / (1 + 2 * chi))
    assert not wrong.within  # a factor it does not have
