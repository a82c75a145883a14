"""Cut and choose: payoffs, prompts, enumeration and the bounds without envy."""

import numpy as np
import pytest

from dipllm_lib.kto import cutting, games
from dipllm_lib.kto.cutting import CutAndChoose, State
from dipllm_lib.run import seeding


def rng(*names):
    return seeding.child(0, "kto", "cake", *names)


def test_prompts():
    game = CutAndChoose(10, (70,))
    start = game.reset(rng())
    rules = "Cake from 0 to 100. Left half worth 70 to me. Right half worth 30."
    assert game.observe(start, 0) == rules + " They choose. I cut at"
    after = game.step(start, (4,))
    text = rules + " Setting A. Forecast left 60. They cut at 40. I take"
    assert game.observe(after, 1, "A", "Forecast left 60.") == text
    assert game.legal(after, 1) == (" left.", " right.")
    assert game.legal(start, 0)[:3] == (" 0.", " 10.", " 20.")


def test_worths_are_private():
    game = CutAndChoose(10, cutting.PRIVATE)
    one, other = State((10, 90)), State((10, 30))
    assert game.infoset(one, 0) == game.infoset(other, 0)
    assert game.observe(one, 0) == game.observe(other, 0)
    assert game.infoset(State((10, 90), 5), 1) != game.infoset(State((10, 30), 5), 1)
    drawn = {game.reset(rng(k)).worths for k in range(300)}
    assert len(drawn) == 25


def test_payoffs_by_hand():
    game = CutAndChoose(10, (20, 80))
    # cut at .4: to the cutter left is .8 of .8, to the chooser .8 of .2
    assert game.payoffs(State((80, 20), 4, cutting.LEFT)) == pytest.approx((0.36, 0.16))
    assert game.payoffs(State((80, 20), 4, cutting.RIGHT)) == pytest.approx((0.64, 0.84))
    assert game.payoffs(State((80, 20), 5, cutting.RIGHT)) == pytest.approx((0.8, 0.8))


@pytest.mark.parametrize("worth", cutting.PRIVATE)
def test_pieces_add_to_the_cake(worth):
    game = CutAndChoose(20, (worth,))
    assert cutting.piece_values(game, worth).sum(axis=1) == pytest.approx(1.0)
    for cut in range(21):
        for piece in (0, 1):
            assert sum(game.payoffs(State((worth, worth), cut, piece))) == pytest.approx(1.0)
            mirrored = CutAndChoose(20, (100 - worth,))
            same = mirrored.payoffs(State((100 - worth,) * 2, 20 - cut, 1 - piece))
            assert game.payoffs(State((worth, worth), cut, piece)) == pytest.approx(same)


def test_a_homogeneous_cake_is_cut_in_the_middle():
    for grid in (10, 20, 100):
        values = cutting.cut_values(CutAndChoose(grid), 50)
        assert values.argmax() == grid // 2 and values.max() == 0.5
        assert cutting.safe_cut(CutAndChoose(grid), 50) == (0.5, 0.5)


def test_bounds_without_envy():
    for worth in range(0, 101, 5):
        at = cutting.half_point(worth / 100)
        assert float(cutting.left_worth(at, worth / 100)) == pytest.approx(0.5)
        game = CutAndChoose(100, (worth,))
        assert cutting.piece_values(game, worth).max(axis=1).min() >= 0.5  # chooser
        step = 2.0 * max(worth, 100 - worth) / 100 / 100
        assert cutting.safe_cut(game, worth)[1] >= 0.5 - step / 2 - 1e-12


def test_a_known_chooser_can_be_used():
    game = CutAndChoose(100, (20, 80))
    values = cutting.cut_values(game, 80, others=[20])
    # the chooser leaves the left piece up to its half point .6875, worth .875 to the cutter
    assert values.argmax() == 68 and values.max() == pytest.approx(0.8 + 0.2 * 0.36)
    assert cutting.cut_values(game, 80).max() >= cutting.safe_cut(game, 80)[1]
    assert np.all(cutting.cut_values(game, 50, ties="best") >= cutting.cut_values(game, 50))


def test_values_are_those_of_play():
    game = CutAndChoose(10, (10, 30, 70))
    want = cutting.cut_values(game, 30)
    for cut in range(11):
        got = []
        for other in game.types:
            pieces = cutting.piece_values(game, other)[cut]
            if abs(pieces[0] - pieces[1]) > 1e-12:
                choosers = (lambda *_: cut, lambda *_, p=pieces: int(p.argmax()))
                got.append(games.play(game, choosers, rng(), State((30, other))).payoffs[0])
        if len(got) == 3:
            assert np.mean(got) == pytest.approx(want[cut])


def test_bad_input():
    with pytest.raises(ValueError, match="grid 3"):
        CutAndChoose(3)
    with pytest.raises(ValueError, match="types"):
        CutAndChoose(10, (0.5,))
    with pytest.raises(ValueError, match="worth 2"):
        cutting.half_point(2)
    with pytest.raises(ValueError, match="ties"):
        cutting.cut_values(CutAndChoose(), 50, ties="left")
    with pytest.raises(ValueError, match="at least one type"):
        cutting.cut_values(CutAndChoose(), 50, [])
