"""Proposers of the ultimatum: the nine cells, signs, pools, and drawn data against exact ones."""

import numpy as np
import pytest

from dipllm_lib.kto import humans, proposers, prospect, training
from dipllm_lib.kto.prospect import ARTICLE, ProspectParams
from dipllm_lib.kto.tabular import Objective
from dipllm_lib.run import seeding

BEST = humans.offer_values().max()
CELLS = [(rho, lam) for rho in (0.05, 0.3, 0.5) for lam in (1.0, 2.25, 3.2)]


def nine(objective: Objective) -> training.Learned:
    params = [ProspectParams(0.88, 0.92, lam) for _, lam in CELLS]
    values = proposers.prospect_values([rho for rho, _ in CELLS], params)
    game = proposers.Proposers(np.tile(proposers.people(), (9, 1)), values)
    return training.train(game, objective, 60)


def one(objective: Objective, rho: float = 0.5, episodes: int = 0, seed: int = 0, rounds=60):
    values = proposers.prospect_values([rho], [ARTICLE])
    game = proposers.Proposers(proposers.people()[None], values)
    return training.train(game, objective, rounds, episodes, seeding.child(seed, "test"))


def test_pt_kto_has_98_per_cent_of_the_best_in_all_nine_cells():
    found = nine(Objective())
    assert (found.scores[-1] >= proposers.PASS * BEST).all()
    assert (found.probs.argmax(axis=1) == 4).all()


def test_unit_weights_concede_where_the_reference_is_low():
    """Mean offer .6 to .7, value .3 to .4; with one half as reference they find .40."""
    found = nine(Objective("kto"))
    mean = found.probs @ proposers.OFFERS
    assert (mean[:6] > 0.55).all() and (found.scores[-1, :6] < 0.41).all()
    assert (found.probs[6:].argmax(axis=1) == 4).all()


@pytest.mark.parametrize("balance", ["counts", "masses"])
def test_balancing_outcome_labels_moves_the_offer(balance):
    found = nine(Objective(balance=balance))
    assert ((found.probs @ proposers.OFFERS)[:6] > 0.44).sum() >= 3
    assert (found.scores[-1] < proposers.PASS * BEST).sum() >= 3


@pytest.mark.parametrize("rho", [0.05, 0.3, 0.5])
def test_the_literal_sign_lowers_payoff_below_the_start_and_the_right_one_raises_it(rho):
    wrong, right = (one(Objective(name), rho).scores[:, 0] for name in ("literal_sign", "pt_pair"))
    assert wrong[-1] < 0.01 < wrong[0] < right[-1]
    assert wrong[1] < wrong[0]  # from the first round on
    assert right[-1] >= proposers.PASS * BEST


def test_ten_seeds_of_drawn_data_pass_with_modal_offer_40():
    for seed in range(10):
        found = one(Objective(), episodes=200, seed=seed)
        assert found.scores[-1, 0] >= proposers.PASS * BEST
        assert proposers.OFFERS[found.probs[0].argmax()] == 0.4


def test_drawn_data_have_the_exact_gradient_on_average():
    """Enough episodes give the exact path."""
    exact = one(Objective(), rounds=2).probs
    drawn = one(Objective(), rounds=2, episodes=400_000).probs
    assert drawn == pytest.approx(exact, abs=0.01)


def test_exact_switch_points_of_the_pool():
    """.72 of the specification is .711 rounded up to the next hundredth."""
    expected = [q for q, *_ in proposers.switch_points()]
    assert expected == pytest.approx([0.1814, 0.4577, 0.5213], abs=2e-4)
    prospects = proposers.switch_points(0.5, ARTICLE)
    assert [q for q, *_ in prospects] == pytest.approx([0.5495, 0.6900, 0.7111], abs=2e-4)
    assert [after for *_, after in prospects] == [0.3, 0.2, 0.1]


@pytest.mark.parametrize(
    "look", [(0.0, None, (0.1, 0.3, 0.5, 0.7)), (0.5, ARTICLE, (0.4, 0.6, 0.7, 0.9))]
)
def test_a_proposer_trained_in_a_pool_ends_at_its_best_offer(look):
    rho, params, shares = look
    values = proposers.prospect_values([rho] * 4, [params or prospect.NEUTRAL] * 4)
    game = proposers.Proposers(np.stack([proposers.mixed(q) for q in shares]), values)
    found = training.train(game, Objective(), 60)
    best = [proposers.best_offer(q, rho, params) for q in shares]
    assert proposers.OFFERS[found.probs.argmax(axis=1)].tolist() == best


def test_self_play_ends_at_ten_and_earns_359_from_people():
    found = proposers.self_play(1.0, 0.5, ARTICLE, Objective(), 60)
    assert proposers.OFFERS[found.probs[0].argmax()] == 0.1
    assert found.scores[-1, 0] == pytest.approx(0.3594, abs=0.003)
    assert proposers.self_play(0.0, 0.5, ARTICLE, Objective(), 60).scores[-1, 0] > 0.574


def test_no_play_is_uniform_over_offers_up_to_one_half():
    probs = proposers.heuristic_only(Objective("kto"), 60)
    assert probs[0, :6] == pytest.approx([1 / 6] * 6, abs=0.01)


def test_weighted_likelihood_of_outcomes_prefers_lucky_low_offers():
    """exp(V / tau) of outcomes; of mean V it does not."""
    values = proposers.prospect_values([0.3], [ARTICLE])
    sampled, mean = (
        training.train(
            proposers.Proposers(proposers.people()[None], values, expected), Objective("wmle"), 60
        )
        for expected in (False, True)
    )
    assert sampled.scores[-1, 0] < 0.9 * BEST < mean.scores[-1, 0]
    assert sampled.probs[0] @ proposers.OFFERS < 0.3


def test_what_is_refused():
    with pytest.raises(ValueError, match="share 1.5"):
        proposers.mixed(1.5)
    with pytest.raises(ValueError, match="needs a round"):
        one(Objective(), rounds=0)
