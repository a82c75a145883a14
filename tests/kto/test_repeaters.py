"""Players of the repeated dilemma: exact values in two ways, best replies, kinds of labels."""

import numpy as np
import pytest

from dipllm_lib.ipd import exact
from dipllm_lib.ipd import tabular as memory_one
from dipllm_lib.kto import humans, prospect, repeated, training
from dipllm_lib.kto.repeaters import Repeaters
from dipllm_lib.kto.tabular import Objective
from dipllm_lib.run import seeding

NAMES = ("TFT", "GTFT", "WSLS", "GRIM", "AllC", "AllD")
Q = np.stack([
    *(np.ravel(memory_one.named(n)) for n in NAMES),
    repeated.EXTORT2,
    humans.repeated_pd(),
])


def stationary(p: np.ndarray, game: Repeaters) -> np.ndarray:
    """Rows of a memory-one player: the same in every round, for every partner."""
    rows = np.stack([p, 1 - p], axis=1)
    return np.tile(rows, (len(game.q) * game.rounds, 1))


def test_values_are_those_of_the_markov_chain():
    game = Repeaters(Q, 7)
    p = np.array([0.3, 0.9, 0.2, 0.6, 0.1])
    expected, _ = exact.finite(p, Q, 7, repeated.STANDARD)
    assert game.score(stationary(p, game)) == pytest.approx(expected, abs=1e-12)


def test_values_are_action_values_under_the_best_policy():
    """Q of the greedy policy of `repeated.action_values` is that table."""
    game, rounds = Repeaters(Q[2:3], 6), 6
    known = repeated.action_values(repeated.IteratedPD(rounds), Q[2])
    greedy = np.eye(2)[known.argmax(axis=2)]
    worth, _ = game.values(greedy)
    assert worth[0] == pytest.approx(known, abs=1e-12)


def test_drawn_episodes_have_the_exact_payoff_and_visits():
    game = Repeaters(Q[:3], 5)
    probs = stationary(np.array([0.5, 0.8, 0.3, 0.4, 0.6]), game)
    rows, actions, paid = game.play(probs, 20_000, seeding.child(1, "test"))
    assert paid.mean(axis=(1, 2)) == pytest.approx(game.score(probs), abs=0.02)
    seen = np.bincount(rows.ravel(), minlength=75).reshape(3, 5, 5) / 20_000
    assert seen == pytest.approx(game.visits(probs), abs=0.02)
    assert set(np.unique(actions)) == {0, 1}


def test_exact_training_is_within_five_hundredths_of_the_best_reply():
    """Forty rounds; Extort-2, people and random vectors beside the named ones."""
    game = Repeaters(np.concatenate([Q, np.random.default_rng(0).random((4, 5))]), 20)
    found = training.train(game, Objective(), 60)
    assert (game.best() - found.scores[-1] < 0.05).all()
    assert (game.best() - found.scores[0] > 0.2).all()


@pytest.mark.slow
def test_five_seeds_of_drawn_episodes_are_within_five_hundredths_over_forty_rounds():
    for seed in range(5):
        game = Repeaters(Q, 40)
        found = training.train(game, Objective(), 60, 50, seeding.child(seed, "test"))
        assert (game.best() - found.scores[-1] < 0.05).all()


def test_labels_of_steps_leave_less_regret_than_those_of_trajectories():
    regret = {}
    for labels, objective in (
        ("verifier", Objective()),
        ("trajectory", Objective("kto", balance="counts")),
    ):
        game = Repeaters(Q, 10, prospect.ARTICLE, labels)
        found = training.train(game, objective, 40, 50, seeding.child(0, "test"))
        regret[labels] = float((game.best() - found.scores[-1]).mean())
    assert regret["verifier"] < 0.01 < regret["trajectory"]


def test_trajectory_labels_are_one_per_episode_and_returns_add_up():
    game = Repeaters(Q[:2], 4, prospect.NEUTRAL, "trajectory")
    probs = stationary(np.full(5, 0.5), game)
    data = game.data(probs, 10, seeding.child(2, "test"))
    marks = data.labels.reshape(2, 10, 4)
    assert (marks == marks[:, :, :1]).all() and 0 < marks.mean() < 1 and data.unit
    rows, actions, paid = game.play(probs, 10, seeding.child(2, "test"))
    total = paid.sum(axis=2)
    assert (marks[:, :, 0] == (total > total.mean(axis=1, keepdims=True))).all()
    returns = Repeaters(Q[:2], 4, prospect.NEUTRAL, "return")
    told = returns.data(probs, 10, seeding.child(2, "test")).values.reshape(2, 10, 4)
    _, mean = returns.values(probs)
    assert told[:, :, 3] == pytest.approx((paid[:, :, 3] - mean.ravel()[rows[:, :, 3]]) / 5)


def test_parameters_may_differ_by_problem():
    params = [prospect.ARTICLE, prospect.NEUTRAL]
    both = Repeaters(np.stack([Q[0], Q[0]]), 4, params)
    alone = [Repeaters(Q[:1], 4, own) for own in params]
    values = both.data(np.full((40, 2), 0.5)).values.reshape(2, -1)
    for k, game in enumerate(alone):
        assert values[k] == pytest.approx(game.data(np.full((20, 2), 0.5)).values)


def test_what_is_refused():
    with pytest.raises(ValueError, match="labels 'vote'"):
        Repeaters(Q, 4, labels="vote")
    with pytest.raises(ValueError, match="trajectory need episodes"):
        Repeaters(Q, 4, labels="trajectory").data(np.full((160, 2), 0.5))
