"""The search finds a planted optimum; variants have one objective each."""

import numpy as np
import pytest

from dipllm_lib.kto import cem, labels, variants
from dipllm_lib.kto.prospect import ARTICLE
from dipllm_lib.run import seeding

PLANTED = np.array([0.7, 0.5, 3.0, 0.25])


def test_a_planted_optimum_is_found_by_every_seed():
    width = cem.HIGH - cem.LOW

    def score(rows):
        return -(((rows - PLANTED) / width) ** 2).sum(axis=1)

    for seed in range(5):
        found = cem.cem(score, seeding.child(seed, "test"), cem.Sizes(12, 32, 8))
        assert np.abs((found.centre - PLANTED) / width).max() < 0.08
        assert found.score == pytest.approx(score(found.best[None])[0])
        assert found.history.shape == (12, 32, 5)


def test_the_box_is_never_left_and_the_same_seed_gives_the_same_path():
    def score(rows):
        return rows.sum(axis=1)

    one, two = (cem.cem(score, seeding.child(3, "test")) for _ in range(2))
    assert (one.history == two.history).all()
    inside = one.history[:, :, :4]
    assert (inside >= cem.LOW).all() and (inside <= cem.HIGH).all()
    assert (one.best > (cem.LOW + cem.HIGH) / 2).all()


def test_the_planted_setting_is_chosen():
    worth = dict(zip("ABCDEF", (0.1, 0.2, 0.9, 0.3, 0.0, 0.2)))
    for seed in range(5):
        letter, chances = cem.cem_settings(
            lambda names: np.array([worth[n] for n in names]), "ABCDEF", seeding.child(seed, "t")
        )
        assert letter == "C" and chances.sum() == pytest.approx(1.0) and chances.max() > 0.5


def test_equal_settings_share_the_elite():
    _, chances = cem.cem_settings(lambda n: np.zeros(len(n)), "AB", seeding.child(0, "test"))
    assert 0.2 < chances[0] < 0.8


def test_what_the_search_refuses():
    with pytest.raises(ValueError, match="elite <= population"):
        cem.Sizes(elite=20)
    with pytest.raises(ValueError, match="a finite number per candidate"):
        cem.cem(lambda rows: np.full(len(rows), np.nan), seeding.child(0, "test"))


def test_rows_of_the_six_settings():
    rows = variants.rows_of("ultimatum", list(labels.SETTINGS))
    assert rows[0].tolist() == [0.88, 0.92, 2.25, 0.5] and rows[5, 3] == 0.0
    assert variants.article("gift")[0, 3] == pytest.approx(1 / 3)
    assert cem.params_of(rows[0]) == ARTICLE


def test_every_type_has_one_objective_and_other_variants_held_out():
    assert set(variants.TYPES.values()) == set(cem.OBJECTIVES)
    for table in (variants.ENVY, variants.BREAKDOWN, variants.PARTNERS):
        assert not set(table["training"]) & set(table["held out"])
    with pytest.raises(ValueError, match="unknown type 'chess'"):
        variants.score("chess", "training", variants.Inner())


def test_lambda_is_worth_something_in_breakdown_and_nothing_in_the_ultimatum():
    """Own payoff over lambda 3.2, 2.25, 1, the settings B, A, C."""
    inner = variants.Inner()
    rows = variants.rows_of("breakdown", "BAC")
    share = variants.score("breakdown", "training", inner)(rows)
    assert share[0] < share[1] < share[2]
    flat = variants.score("ultimatum", "training", inner)(variants.rows_of("ultimatum", "AC"))
    assert (flat > 0.98).all() and abs(flat[0] - flat[1]) < 0.01


def test_likeness_of_a_kept_table_column_by_hand():
    """A responder that always accepts is 1e-6 from never refusing."""
    rates = np.array([0.5, 0.25])
    found = variants._divergence(rates, np.array([[1e-9, 0.25]]), "training")
    expected = 0.5 * np.log(0.5 / 1e-6) + 0.5 * np.log(0.5 / (1 - 1e-6))
    assert found == pytest.approx([expected])
    assert variants._divergence(rates, np.array([[1e-9, 0.25]]), "held out") == pytest.approx([0])
