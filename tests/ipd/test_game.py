"""The game: payoffs from both seats, views, exact sequences, and who draws what."""

import numpy as np
import pytest

from dipllm_lib.ipd import game, tabular
from dipllm_lib.ipd.game import CC, CD, DC, DD, S0, C, D
from dipllm_lib.run import seeding

# Axelrod 4.14.0, Match(..., turns=12, game=Game(r=1, s=-1, t=2, p=0)): actions and total scores.
AXELROD = [
    ("TFT", "TFT", "CCCCCCCCCCCC", "CCCCCCCCCCCC", 12, 12),
    ("TFT", "WSLS", "CCCCCCCCCCCC", "CCCCCCCCCCCC", 12, 12),
    ("TFT", "AllD", "CDDDDDDDDDDD", "DDDDDDDDDDDD", -1, 2),
    ("TFT", "STFT", "CDCDCDCDCDCD", "DCDCDCDCDCDC", 6, 6),
    ("WSLS", "AllD", "CDCDCDCDCDCD", "DDDDDDDDDDDD", -6, 12),
    ("WSLS", "STFT", "CDDCDDCDDCDD", "DCDDCDDCDDCD", 4, 4),
    ("GRIM", "AllD", "CDDDDDDDDDDD", "DDDDDDDDDDDD", -1, 2),
    ("GRIM", "STFT", "CDDDDDDDDDDD", "DCDDDDDDDDDD", 1, 1),
    ("AllC", "AllD", "CCCCCCCCCCCC", "DDDDDDDDDDDD", -12, 24),
    ("AllC", "STFT", "CCCCCCCCCCCC", "DCCCCCCCCCCC", 10, 13),
    ("STFT", "STFT", "DDDDDDDDDDDD", "DDDDDDDDDDDD", 0, 0),
]


def streams(*names):
    return seeding.child(0, *names, "left"), seeding.child(0, *names, "right")


def between(left, right, n=1, rounds=6):
    players = (tabular.Tabular(tabular.named(name)) for name in (left, right))
    return game.play(*players, n, rounds, streams(left, right))


def letters(actions):
    return "".join("DC"[a] for a in actions)


def test_payoffs_of_the_four_outcomes_from_both_seats():
    left, right = np.array([[C, C, D, D]], np.uint8), np.array([[C, D, C, D]], np.uint8)
    games, pay = game.Episodes(left, right), game.Payoffs()
    np.testing.assert_array_equal(pay.of(*games.view(0)), [[1, -1, 2, 0]])
    np.testing.assert_array_equal(pay.of(*games.view(1)), [[1, 2, -1, 0]])
    np.testing.assert_array_equal(pay.by_state, [1, -1, 2, 0])
    np.testing.assert_array_equal(pay.matrix, [[0, 2], [-1, 1]])


@pytest.mark.parametrize(
    "values",
    [
        (2, -1, 1, 0),  # R above T
        (1, 0, 2, -1),  # S above P
        (1, -1, 2, 1),  # P equals R
        (1, -1, 3, 0),  # 2R = T + S: taking turns is as good
        (float("nan"), -1, 2, 0),
        (1, -float("inf"), 2, 0),
    ],
)
def test_what_is_no_dilemma_is_refused(values):
    with pytest.raises(ValueError, match="no prisoner's dilemma"):
        game.Payoffs(*values)


def test_the_matrix_of_lola_is_ours_minus_two():
    ours, theirs = game.Payoffs(), game.Payoffs(-1, -3, 0, -2)
    np.testing.assert_array_equal(ours.matrix, theirs.matrix + 2)


def test_rewards_follow_from_two_cooperation_rates():
    players = (tabular.Tabular(tabular.sample("uniform", 50, rng)) for rng in streams("agents"))
    games = game.play(*players, 50, 30, streams("rewards"))
    for seat in range(2):
        own, other = games.view(seat)
        expected = 2 * game.cooperation(other) - game.cooperation(own)
        reward = game.Payoffs().of(own, other).mean(axis=1)
        np.testing.assert_allclose(reward, expected, atol=1e-12)
    np.testing.assert_allclose(game.cooperation(np.array([[1, 1, 0, 1]], np.uint8)), [0.75])


def test_each_seat_sees_its_own_action_first():
    own, other = np.array([[C, C, D, D, C]], np.uint8), np.array([[C, D, C, D, D]], np.uint8)
    seen = game.observe(own, other)
    assert seen.dtype == np.uint8
    np.testing.assert_array_equal(seen, [[S0, CC, CD, DC, DD]])  # the last round is seen by nobody
    np.testing.assert_array_equal(game.observe(other, own), [[S0, CC, DC, CD, DD]])
    np.testing.assert_array_equal(game.swap(seen), game.observe(other, own))
    np.testing.assert_array_equal(game.swap(game.swap(seen)), seen)


def test_players_are_shown_what_observe_gives():
    left, right = Recorder(0.3), Recorder(0.6)
    games = game.play(left, right, 4, 9, streams("shown"))
    for seat, player in enumerate((left, right)):
        np.testing.assert_array_equal(np.stack(player.obs, axis=1), game.observe(*games.view(seat)))


@pytest.mark.parametrize(
    "left, right, own, other",
    [
        ("TFT", "AllD", "CDDDDD", "DDDDDD"),
        ("TFT", "WSLS", "CCCCCC", "CCCCCC"),
        ("GRIM", "STFT", "CDDDDD", "DCDDDD"),
        ("STFT", "WSLS", "DCDDCD", "CDDCDD"),
    ],
)
def test_sequences_by_hand(left, right, own, other):
    games = between(left, right, n=3)
    for i in range(3):
        assert (letters(games.left[i]), letters(games.right[i])) == (own, other)


@pytest.mark.parametrize("left, right, own, other, s_x, s_y", AXELROD)
def test_sequences_and_scores_of_axelrod(left, right, own, other, s_x, s_y):
    games = between(left, right, rounds=12)
    assert (letters(games.left[0]), letters(games.right[0])) == (own, other)
    totals = [game.Payoffs().of(*games.view(seat)).sum() for seat in range(2)]
    assert totals == [s_x, s_y]


class Recorder:
    """Plays C with one probability and keeps what it was given."""

    def __init__(self, p):
        self.p, self.u, self.obs = p, [], []

    def start(self, n):
        return None

    def act(self, state, obs, u):
        self.u.append(u.copy())
        self.obs.append(obs.copy())
        return (u < self.p).astype(np.uint8), state


def test_uniforms_are_drawn_up_front_and_alike_in_every_arm():
    expected = [stream.random((5, 7)) for stream in streams("arms")]
    for p, q in ((0.1, 0.9), (0.8, 0.2)):  # two arms whose games differ
        left, right = Recorder(p), Recorder(q)
        games = game.play(left, right, 5, 7, streams("arms"))
        np.testing.assert_array_equal(np.stack(left.u, axis=1), expected[0])
        np.testing.assert_array_equal(np.stack(right.u, axis=1), expected[1])
        np.testing.assert_array_equal(games.left, expected[0] < p)


def test_the_same_streams_give_the_same_bytes():
    one, two = (between("random", "GTFT", 20, 10) for _ in range(2))
    assert one.left.tobytes() == two.left.tobytes() and one.right.tobytes() == two.right.tobytes()
    assert 0.3 < one.left.mean() < 0.7


def test_bad_input():
    player = tabular.Tabular(tabular.named("TFT"))
    for n, rounds in ((0, 5), (5, 0)):
        with pytest.raises(ValueError, match="need n >= 1 games and rounds >= 1"):
            game.play(player, player, n, rounds, streams("bad"))
    good = np.zeros((2, 3), np.uint8)
    for bad in (good.astype(np.int64), good[0], good + 2):
        with pytest.raises(ValueError, match="right: actions must be uint8"):
            game.Episodes(good, np.asarray(bad))
    with pytest.raises(ValueError, match="must be equal"):
        game.Episodes(good, good[:1])
    with pytest.raises(ValueError, match="seat 2"):
        game.Episodes(good, good).view(2)
