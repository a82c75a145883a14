"""Payoffs of their own for each player: exact payoffs, returns and means by hand, one training."""

from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.ipd import evaluate, exact, ppi, ppi_q, ppi_settings, tabular
from dipllm_lib.ipd.batch_play import MemoryOne
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.ipd.model_settings import ModelSettings

LOW, HIGH = Payoffs.donation(2.0, 1.0), Payoffs.donation(3.0, 1.0)
SETTINGS = replace(
    ppi_settings.SMOKE,
    model=ModelSettings(hidden=8, rounds=20),
    first_games=60,
    games=20,
    first_steps=4,
    steps=2,
    batch=16,
)


def test_the_donation_game_by_hand():
    assert LOW == Payoffs()
    np.testing.assert_array_equal(HIGH.by_state, [2.0, -1.0, 3.0, 0.0])
    np.testing.assert_array_equal(Payoffs.donation(1.25, 1.0).by_state, [0.25, -1.0, 1.25, 0.0])
    for b, c in ((1.0, 1.0), (2.0, 0.0), (1.0, 2.0)):
        with pytest.raises(ValueError, match="no prisoner's dilemma"):
            Payoffs.donation(b, c)


def test_exact_payoffs_of_each_player():
    """s_X = b_X c_Y - c_X with the b of each: only Y's number moves when Y's benefit does."""
    p, q = tabular.named("random"), tabular.named("AllC")
    np.testing.assert_allclose(exact.finite(p, q, 10, LOW, HIGH), [[1.5], [0.5]])
    np.testing.assert_allclose(exact.discounted(p, q, 0.9, HIGH, LOW), [[2.5], [0.0]])
    # whoever is X: the two calls are the same game
    v = np.array([0.3, 0.9, 0.1, 0.6, 0.2])
    x, y = exact.finite(v, p, 30, LOW, HIGH)
    np.testing.assert_allclose(exact.finite(p, v, 30, HIGH, LOW), [y, x])


def test_returns_and_means_follow_the_seat():
    settings = replace(SETTINGS, horizon=2, other_payoffs=HIGH)
    codes = np.array([[[1, 2, 3]], [[1, 2, 3]]], dtype=np.uint8)  # CC, CD, DC of learner 0 and 1
    np.testing.assert_allclose(ppi_q.returns(codes, settings), [[[0.0, 1.0]], [[1.0, 2.0]]])
    found = ppi.measures(codes, settings)
    # own and other cooperation are 2/3; rewards: 1 - 1 + 2 and 2 - 1 + 3; of the other side 2 ↔ 3
    np.testing.assert_allclose(found[0], [2 / 3, 2 / 3, 2 / 3, (2 + 3 - 1) / 3])
    np.testing.assert_allclose(found[1], [2 / 3, 4 / 3, 2 / 3, (1 + 2 - 1) / 3])
    same = replace(settings, other_payoffs=None)
    np.testing.assert_array_equal(ppi_q.returns(codes, same)[0], ppi_q.returns(codes, same)[1])


def test_equal_payoffs_named_twice_change_nothing():
    """Two ways to the same numbers, from D_0 to the last phase."""
    runs = []
    for other in (None, Payoffs()):
        run = ppi.PPI(replace(SETTINGS, other_payoffs=other), ppi.pairs([3]))
        run.pretrain()
        for _ in range(2):
            run.advance()
        runs.append(run)
    np.testing.assert_array_equal(runs[0].store.codes, runs[1].store.codes)
    assert runs[0].table().equals(runs[1].table())


def test_two_learners_with_different_payoffs():
    """Rewards of both learners follow from cooperation with their own benefit, in every phase."""
    run = ppi.PPI(replace(SETTINGS, other_payoffs=HIGH), ppi.pairs([0, 1]))
    run.pretrain()
    for _ in range(SETTINGS.phases):
        run.advance()
    table = run.table()
    benefit = np.where(table["learner"] == 0, 2.0, 3.0)
    expected = benefit * table["learner_other_cooperation"] - table["learner_cooperation"]
    np.testing.assert_allclose(table["learner_reward"], expected, atol=1e-12)
    theirs = (5 - benefit) * table["learner_cooperation"] - table["learner_other_cooperation"]
    np.testing.assert_allclose(table["learner_other_reward"], theirs, atol=1e-12)


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="must be 0 and 1 of each seed"):
        ppi.PPI(replace(SETTINGS, other_payoffs=HIGH, tabular_share=1.0), ppi.pairs([0, 1], 1))
    with pytest.raises(ValueError, match="other_payoffs need q 'head'"):
        replace(SETTINGS, other_payoffs=HIGH, q="mc")


def test_probes_pay_each_seat_by_its_own_benefit():
    """AllC in both seats against the other, TFT and AllD: 1 or 2 with C, -1 with D; AllD earns its
    own benefit once from TFT."""
    settings = evaluate.ProbeSettings(
        10, 3, ("learner", "TFT", "AllD"), payoffs=LOW, other_payoffs=HIGH
    )
    actor = MemoryOne(tabular.named("AllC"))
    found = evaluate.probe({"off": actor}, [(0, 0), (0, 1)], 1, settings)
    np.testing.assert_allclose(found.rewards[:, 0, :, 0], [[1, 1, -1], [2, 2, -1]])
    np.testing.assert_allclose(found.rewards[:, 0, :, 1], [[2, 2, 3], [1, 1, 2]])
    np.testing.assert_allclose(found.alld[:, 1:], [[0.2, 0.0], [0.3, 0.0]])
