"""The printed human tables, likeness scores, offers and best replies, and the raw files."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.kto import humans
from dipllm_lib.kto.humans import GIFTS, REJECTIONS
from dipllm_lib.run import seeding

REJECTED = [0.7168, 0.6007, 0.5126, 0.4147, 0.2916, 0.2105, 0.1371, 0.0420, 0.0252, 0.0091]
COOPERATED = [0.165, 0.199, 0.191, 0.206, 0.258, 0.745, 0.742, 0.799, 0.781, 0.807, 0.837]
VALUES = [0.2832, 0.3594, 0.4682, 0.5526, 0.5748, 0.4954, 0.3964, 0.2973, 0.1982, 0.0991, 0.0]


def test_the_tables_have_the_printed_digits():
    np.testing.assert_allclose(REJECTIONS.rates, REJECTED, atol=5.1e-5)
    np.testing.assert_allclose(GIFTS.rates, COOPERATED, atol=5.1e-4)
    assert sum(REJECTIONS.total) == 14_300 == 715 * 20
    assert sum(GIFTS.total) == 6_732 == 306 * 22
    assert len(humans.MEAN_GIFT) == len(GIFTS.x)


def test_rates_between_and_outside_the_columns():
    """.425 lies half-way between .0420 and .0252; 0 is like .05, and all above .5 like .5."""
    found = humans.ultimatum_responder(np.array([0.425, 0.0, 0.05, 0.9, 0.5]))
    half = 1 - (60 + 36) / 2 / 1430
    np.testing.assert_allclose(found, [half, 405 / 1430, 405 / 1430, 1417 / 1430, 1417 / 1430])
    assert humans.gift_pd(0.45) == pytest.approx((158 + 456) / 2 / 612)
    with pytest.raises(ValueError, match="ultimatum: a share must lie in"):
        humans.ultimatum_responder(1.1)


def test_offers_to_people():
    """Section 4.3: best offer .40, uniform play .3386, and .30 earns 96 % of the best."""
    found = humans.offer_values()
    np.testing.assert_allclose(found, VALUES, atol=1.1e-4)
    assert humans.OFFERS[int(found.argmax())] == 0.4
    assert found.mean() == pytest.approx(0.3386, abs=5e-5)
    assert found[3] / found[4] == pytest.approx(0.96, abs=5e-3)


@pytest.mark.parametrize(
    ("rates", "printed"),
    [
        (1 / (1 + np.exp(8.837 - 10.429 * (1 - np.array(REJECTIONS.x)))), 0.0034),
        (REJECTIONS.rates.mean(), 0.157),
        (0.5, 0.243),
        (0.01, 0.920),
        (REJECTIONS.rates, 0.0),
    ],
)
def test_likeness_of_responders(rates, printed):
    assert humans.likeness(REJECTIONS, rates) == pytest.approx(printed, abs=6e-4)


@pytest.mark.parametrize(
    ("rates", "printed"),
    [
        (np.where(np.array(GIFTS.x) < 0.5, 0.204, 0.785), 0.0031),
        (GIFTS.rates.mean(), 0.182),
        (0.01, 1.89),
    ],
)
def test_likeness_of_second_movers(rates, printed):
    assert humans.likeness(GIFTS, rates) == pytest.approx(printed, abs=5e-3 * max(printed, 0.1))


def test_divergence_by_hand_and_at_the_ends():
    assert humans.divergence(0.5, 0.25) == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3))
    np.testing.assert_array_equal(humans.divergence([0, 1, 0.5], [0, 1, 1]), [0, 0, np.inf])
    with pytest.raises(ValueError, match="every rate must lie in"):
        humans.divergence(0.5, 1.5)
    with pytest.raises(ValueError, match=r"need one rate or 10, got shape \(3,\)"):
        humans.likeness(REJECTIONS, np.ones(3) / 3)


def test_fehr_schmidt_thresholds():
    """Section 4.3: the nine columns below one half, from .05 up."""
    printed = [0.056, 0.125, 0.214, 0.333, 0.5, 0.75, 1.167, 2, 4.5]
    offers = np.array(REJECTIONS.x[:-1])
    np.testing.assert_allclose(humans.envy_at(offers), printed, atol=5e-4)
    np.testing.assert_allclose(humans.threshold(humans.envy_at(offers)), offers)
    assert humans.threshold(0.5) == 0.25 and humans.threshold(1e9) < 0.5
    found = humans.fehr_schmidt(np.array([0.0, 0.24, 0.26, 0.5, 1.0]), 0.5)
    assert found.tolist() == [False, False, True, True, True]
    assert bool(humans.fehr_schmidt(0.0, 0.0))
    with pytest.raises(ValueError, match="envy must be at least 0"):
        humans.threshold(-0.1)
    with pytest.raises(ValueError, match="need an offer in"):
        humans.envy_at(0.5)


def test_fehr_schmidt_is_the_sign_of_a_utility():
    offers, envy = np.linspace(0, 0.5, 51), np.array([0.1, 0.4, 2.0])[:, None]
    utility = offers - envy * (1 - 2 * offers)
    clear = np.abs(utility) > 1e-9
    np.testing.assert_array_equal(humans.fehr_schmidt(offers, envy)[clear], (utility >= 0)[clear])


def test_the_pooled_repeated_player_is_that_of_study_2():
    np.testing.assert_allclose(humans.repeated_pd(), tabular.HUMAN, atol=5e-4)
    assert sum(decisions for decisions, _ in humans.REPEATED.values()) == 168_386


@pytest.mark.parametrize(
    ("delta", "name", "printed"),
    [
        (0.5, "AllD", 2.264),
        (0.75, "TFT", 1.888),
        (0.9, "AllC", 2.112),
        (0.95, "AllC", 2.212),
        (0.99, "AllC", 2.304),
    ],
)
def test_best_replies_to_the_pooled_player(delta, name, printed):
    vector, value = humans.best_reply(delta)
    np.testing.assert_array_equal(vector, tabular.named(name))
    assert value == pytest.approx(printed, abs=1e-3)


def test_a_best_reply_is_no_worse_than_any_memory_one_player():
    others = seeding.child(0, "test", "replies").random((300, 5))
    for delta in (0.3, 0.75, 0.97):
        values, _ = exact.discounted(others, humans.repeated_pd(), delta, humans.PAYOFFS)
        assert (values <= humans.best_reply(delta)[1] + 1e-12).all()
    with pytest.raises(ValueError, match="delta 1.0: need a number between 0 and 1"):
        humans.best_reply(1.0)


def test_long_run_against_the_pooled_player():
    found = humans.long_run().set_index("player")
    printed = {
        "AllC": (2.329, 3.448),
        "GTFT": (2.036, 2.759),
        "WSLS": (1.775, 2.553),
        "TFT": (1.724, 1.724),
        "human": (1.612, 1.612),
        "Extort-2": (1.524, 1.262),
        "AllD": (1.403, 0.899),
    }
    assert list(found.index) == list(printed)
    for name, pair in printed.items():
        assert tuple(found.loc[name]) == pytest.approx(pair, abs=1e-3), name


def test_extort_2_keeps_twice_the_surplus_of_anyone():
    others = seeding.child(0, "test", "extort").uniform(0.05, 0.95, (50, 5))
    own, other = exact.stationary(np.array(humans.EXTORT2), others, humans.PAYOFFS)
    np.testing.assert_allclose(own - 1, 2 * (other - 1), atol=1e-10)


def corpus(name: str) -> pd.DataFrame:
    """A raw file of the folder named by DIPLLM_CORPUS, or a skip with the reason."""
    path = Path(os.environ.get("DIPLLM_CORPUS", "")) / "behaviour" / name
    if not os.environ.get("DIPLLM_CORPUS") or not path.is_file():
        pytest.skip(f"DIPLLM_CORPUS names no folder with behaviour/{name}")
    return pd.read_csv(path)


@pytest.mark.corpus
def test_rejections_are_those_of_the_raw_file():
    """There `choice` = 1 is a rejection and `unfairness` the share that the proposer keeps."""
    raw = corpus("ultimatum_responder_2022.csv")
    found = raw.groupby("unfairness")["choice"].agg(["sum", "count"]).iloc[::-1]
    np.testing.assert_allclose(1 - found.index.to_numpy(), REJECTIONS.x)
    assert found["sum"].tolist() == list(REJECTIONS.count)
    assert found["count"].tolist() == list(REJECTIONS.total)
    assert raw["subject"].nunique() == 715


@pytest.mark.corpus
def test_gifts_are_those_of_the_raw_file():
    """Mean own gifts are not in it: they come from the fuller file of the same authors."""
    raw = corpus("prisoners_dilemma_2022.csv")
    done = (raw["sub_contribution_binary"] == "cooperate").groupby(raw["partner_contribution"])
    assert done.sum().tolist() == list(GIFTS.count)
    assert done.count().tolist() == list(GIFTS.total)
    assert raw["subject"].nunique() == 306


@pytest.mark.corpus
def test_repeated_rates_are_those_of_the_raw_file():
    raw = corpus("repeated_pd_transitions.csv")
    total = raw.groupby(["own_last", "other_last"])[["decisions", "cooperations"]].sum()
    keys = [("start", "start"), ("1.0", "1.0"), ("1.0", "0.0"), ("0.0", "1.0"), ("0.0", "0.0")]
    assert [tuple(total.loc[key]) for key in keys] == list(humans.REPEATED.values())
