"""Exact payoffs and likeness of policies that are known."""

import numpy as np
import pytest

from dipllm_lib.kto import games, humans, lm_scores, pool
from dipllm_lib.kto.policies import TabularPolicy
from dipllm_lib.kto.pool import Bargainer, Mixed
from dipllm_lib.run import seeding

GAMES = pool.catalogue(10)


class Rule:
    """A policy that gives its whole mass to one text."""

    def __init__(self, text):
        self.text = text

    def log_probs(self, contexts):
        return [
            np.log([0.999999999 if a == self.text else 1e-12 for a in c.legal]) for c in contexts
        ]


def test_offers_by_hand():
    uniform = lm_scores.offers(TabularPolicy())
    assert uniform["payoff"] == pytest.approx(0.3386, abs=5e-5)
    assert uniform["best"] == pytest.approx(0.5748, abs=5e-5)
    fair = lm_scores.offers(Rule(" 40."))
    assert fair["payoff"] == pytest.approx(0.5748, abs=5e-5) and fair["modal"] == 0.4


def test_answers_and_gifts():
    yes, no = lm_scores.answers(Rule(" accept.")), lm_scores.answers(Rule(" refuse."))
    assert yes["payoff"] == pytest.approx(yes["best"]) and no["payoff"] == pytest.approx(
        0, abs=1e-6
    )
    assert yes["likeness"] > 0.9 and lm_scores.answers(TabularPolicy())["likeness"] < 0.25
    keep = lm_scores.giving(Rule(" keep."))
    assert keep["payoff"] == pytest.approx(keep["best"]) and keep["likeness"] > 1.8
    assert keep["best"] == pytest.approx(2.0)


def test_the_repeated_game_is_exact():
    """Against TFT with delta .9 always to cooperate is best, 3 a round; against AllD it earns 0."""
    found = {
        one["member"]: one for one in lm_scores.against(Rule(" cooperate."), GAMES["repeated"])
    }
    assert found["TFT"]["regret"] == pytest.approx(0, abs=1e-6)
    assert found["AllD"]["payoff"] == pytest.approx(0, abs=1e-6) and found["AllD"]["best"] == 1.0
    assert found["AllC"]["best"] == 5.0
    assert all(one["regret"] >= -1e-9 for one in found.values())
    people = np.array(humans.repeated_pd())
    assert lm_scores.repeated_likeness(people) == pytest.approx(0, abs=1e-9)


def test_a_stationary_bargain_equals_its_simulation():
    game, rng = GAMES["bargaining"], seeding.child(0, "bargain")
    keep = np.full(11, 1 / 11)
    accept = np.where(game.shares <= 0.6, 0.7, 0.2)
    value = lm_scores.stationary(game, keep, accept, (7, 0.6))

    class Own:
        def __call__(self, game, state, player, rng):
            if state.keep < 0:
                return Mixed()(game, state, player, rng)
            return int(rng.random() >= accept[state.keep])

    other, total = Bargainer(0.7, 0.6), []
    for k in range(4000):
        seats = [Own(), other] if k % 2 == 0 else [other, Own()]
        total.append(games.play(game, seats, rng).payoffs[k % 2])
    assert np.mean(total) == pytest.approx(value, abs=4 * np.std(total) / 63)


def test_the_best_bargain_is_at_least_every_other():
    game = GAMES["bargaining"]
    for kept, least in pool.BARGAINERS.values():
        other = round(kept * game.grid), least
        best = lm_scores.best_bargain(game, other)
        for keep in np.eye(11):
            assert lm_scores.stationary(game, keep, np.full(11, 0.5), other) <= best + 1e-12
    assert lm_scores.best_bargain(game, (5, 0.5)) == pytest.approx(0.5)


def test_table_has_a_row_per_arm_and_game():
    table = lm_scores.table({"random": TabularPolicy()}, GAMES)
    assert len(table) == 6 and (table["regret"] >= 0).all()
    assert table["likeness"].notna().sum() == 3
    assert (table["share"] == table["payoff"] / table["best"]).all()
