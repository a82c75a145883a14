"""Offers by λ and reference: the printed grid, and what labels raise."""

import numpy as np
import pytest

from dipllm_lib.kto import humans, offer_study
from dipllm_lib.kto.offer_study import HUNDREDTHS, TENTHS
from dipllm_lib.kto.prospect import ARTICLE, NEUTRAL, ProspectParams


def test_without_prospect_theory_an_offer_is_worth_its_money_less_the_reference():
    for kind in offer_study.KINDS:
        found = offer_study.worth(TENTHS, 0.25, NEUTRAL, kind)
        np.testing.assert_allclose(found, humans.offer_values(TENTHS) - 0.25, atol=1e-12)
    with pytest.raises(ValueError, match="kind 'cpt': use plain or weighted"):
        offer_study.worth(TENTHS, 0.25, NEUTRAL, "cpt")


def test_both_kinds_agree_without_weighting():
    own = ProspectParams(0.88, 0.92, 2.25, 1.0, 1.0)
    found = [offer_study.worth(HUNDREDTHS, 0.4, own, kind) for kind in offer_study.KINDS]
    np.testing.assert_allclose(*found, atol=1e-12)


def test_lambda_does_not_move_the_best_offer():
    """Section 4.3: .40 for ρ 0, .25, .5, .6 and λ up to 6; .38 to .40 by hundredths up to 3.2; .50
    at λ = 10 for ρ .25 and .5."""
    table = offer_study.best_offers((1.0, 2.25, 3.2, 6.0, 10.0), (0.0, 0.25, 0.5, 0.6))
    plain = table[table["kind"] == "plain"]
    assert (plain.loc[plain["lam"] <= 6, "best"] == 0.4).all()
    assert plain.loc[plain["lam"] <= 3.2, "best_fine"].between(0.38, 0.40).all()
    last = plain[plain["lam"] == 10].set_index("rho")["best"]
    assert last.to_dict() == {0.0: 0.4, 0.25: 0.5, 0.5: 0.5, 0.6: 0.4}


def test_decision_weights_let_lambda_move_it():
    """Our finding: with w, a refusal of 4 % counts as more, and λ = 3.2 offers one half at .25."""
    table = offer_study.best_offers((2.25, 3.2), (0.0, 0.25, 0.5, 0.6))
    weighted = table[table["kind"] == "weighted"].set_index(["lam", "rho"])
    assert (weighted.loc[2.25, "best"] == 0.4).all()
    assert weighted.loc[3.2, "best"].to_dict() == {0.0: 0.4, 0.25: 0.5, 0.5: 0.4, 0.6: 0.4}
    assert weighted.loc[(3.2, 0.25), "share"] == pytest.approx(0.4954 / 0.5748, abs=2e-4)


def test_who_values_own_payoff_only_refuses_nothing():
    for params in (ARTICLE, NEUTRAL):
        table = offer_study.refusals((0.5, 1.0, 3.2, 10.0), (0.0, 0.3, 0.5, 1.0), params)
        assert (table["refused"] == 0).all() and (table["least"] > 0).all()


def test_labels_of_equal_weight_concede_unless_the_reference_is_high():
    """Section 3.3: unit weights with a low reference offer .60 to .70 on average, worth .30 to .40;
    |v| weights, or the equal split as reference, offer .40."""
    table = offer_study.by_reference().set_index(["reference", "weights"])
    weighted = table.xs("|v|", level="weights")
    assert (weighted["offers"] == "0.4").all()
    unit = table.xs("unit", level="weights")
    assert unit.loc["status_quo", "offers"] == "0.5 0.6 0.7 0.8 0.9"
    assert unit.loc["status_quo", "mean_offer"] == pytest.approx(0.7)
    assert unit.loc["status_quo", "money"] == pytest.approx(0.2973, abs=5e-5)
    assert unit.loc["equal_split", "offers"] == "0.4"
    assert unit.loc["last_round, .40 accepted", "offers"] == "0.3"
    assert unit.loc["expected, uniform play", "rho"] == pytest.approx(0.3386, abs=5e-5)


def test_an_outcome_at_the_reference_is_no_gain():
    assert offer_study.above(np.array([0.4]), 0.6)[0] == 0
    assert offer_study.above(np.array([1.0]), 0.0)[0] == 0


def test_the_first_step_raises_the_offers_named():
    """κ/4 p(a) E[±ω | a]: from uniform play the largest gradient is that of the named offer."""
    lines = offer_study.curves_by_reference()
    best = lines.loc[lines.groupby(["rho", "weights"])["signal"].idxmax()]
    assert (best.loc[best["weights"] == "|v|", "offer"] == 0.4).all()
    assert lines["signal"].abs().max() == 1


def test_columns_of_offers():
    table = offer_study.offers((1.0, 3.2), 0.5)
    assert list(table.columns) == ["offer", "accepted", "money", "v_1", "v_3.2"]
    assert table.loc[40, "money"] == pytest.approx(0.6 * (1 - 60 / 1430))
