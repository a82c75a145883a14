"""The Bayes filter over memory-one types, by hand and against simulated frequencies."""

import numpy as np
import pytest

from dipllm_lib.ipd import tabular
from dipllm_lib.kto import games, partner_types, repeated
from dipllm_lib.kto.repeated import IteratedPD, MemoryOne, State
from dipllm_lib.run import seeding

POOL = np.stack([tabular.named("TFT"), tabular.named("AllD"), np.full(5, 0.5)])


def after(*rounds, length=10):
    return State(length, repeated.WORDS_LABELS, history=rounds)


def test_posterior_by_hand():
    assert partner_types.posterior(POOL, after(), 0) == pytest.approx([1 / 3] * 3)
    # the partner cooperated first: TFT has 1, AllD 0, the coin 1/2
    assert partner_types.posterior(POOL, after((1, 0)), 0) == pytest.approx([2 / 3, 0, 1 / 3])
    # then it answered our D by C, which TFT never does
    assert partner_types.posterior(POOL, after((1, 0), (0, 0)), 0) == pytest.approx([0, 0, 1])
    # seen from the other seat player 0 opened with D, which TFT never does
    assert partner_types.posterior(POOL, after((1, 0)), 1) == pytest.approx([0, 2 / 3, 1 / 3])
    assert partner_types.forecast(POOL, after((1, 0)), 0) == pytest.approx(1 / 6)
    prior = np.array([0.2, 0.8, 0.0])
    assert partner_types.forecast(POOL, after(), 0, prior) == pytest.approx(0.2)


def test_hazard_lets_a_type_return():
    state = after((0, 0), (1, 0), (0, 1))  # TFT all along
    stay = partner_types.posterior(POOL[:2], state, 0)
    move = partner_types.posterior(POOL[:2], state, 0, hazard=0.05)
    assert stay.tolist() == [1.0, 0.0] and move == pytest.approx([0.95125, 0.04875])
    with pytest.raises(ValueError, match="round 4: none of the 2 types"):
        partner_types.posterior(POOL[:2], after(*state.history, (0, 1), (0, 1)), 0)
    switched = partner_types.posterior(POOL[:2], after((0, 0), (0, 1)), 0, hazard=0.05)
    assert switched == pytest.approx([0.05 * 0.5, 0.95 + 0.05 * 0.5])


def test_forecasts_are_calibrated():
    rng, game, hits = seeding.child(0, "kto", "types"), IteratedPD(6), []
    for _ in range(1500):
        partner = MemoryOne(tuple(POOL[rng.integers(3)]))
        episode = games.play(game, (MemoryOne((0.5,) * 5), partner), rng)
        for t, actions in enumerate(episode.final.history):
            seen = State(6, repeated.WORDS_LABELS, history=episode.final.history[:t])
            hits.append((partner_types.forecast(POOL, seen, 0), actions[1] == 0))
    table = np.array(hits)
    for low, high in ((0.05, 0.3), (0.3, 0.55), (0.55, 0.9)):
        rows = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        assert abs(rows[:, 0].mean() - rows[:, 1].mean()) < 0.04


def test_values_are_exact_when_the_type_is_known():
    game, state = IteratedPD(10), after((1, 0), (0, 1), (0, 0))
    values = partner_types.averaged_values(game, POOL, state, 0)
    known = repeated.action_values(game, POOL[0])[3, 1]
    weights = partner_types.posterior(POOL, state, 0)
    each = [repeated.action_values(game, q)[3, 1] for q in POOL]
    assert values == pytest.approx(weights @ np.array(each))
    alone = partner_types.averaged_values(game, POOL[:1], state, 0)
    assert alone == pytest.approx(known)


def test_bad_input():
    with pytest.raises(ValueError, match="need 3 weights"):
        partner_types.posterior(POOL, after(), 0, np.ones(3))
    with pytest.raises(ValueError, match="hazard 1.0"):
        partner_types.posterior(POOL, after(), 0, hazard=1.0)
    with pytest.raises(ValueError, match="player 2"):
        partner_types.posterior(POOL, after(), 2)
    with pytest.raises(ValueError, match="nobody"):
        partner_types.averaged_values(IteratedPD(1), POOL, after((0, 0), length=1), 0)
