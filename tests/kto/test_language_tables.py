"""Tables, timings and figures of notebook 09 on a tiny model."""

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.kto import (
    coordinator,
    language,
    language_figures,
    language_tables,
    latency,
    lm_scores,
    pool,
    roles,
    ultimatum,
)
from dipllm_lib.kto.fitting import Item, Rates
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import TabularPolicy

GAMES = pool.catalogue(10)


@pytest.fixture
def backbone(tiny):
    found = tiny()
    roles.attach(found, 2, ("q_proj", "v_proj"), 0)
    return found


def test_sizes_count_every_weight_once(backbone):
    table = language_tables.sizes(backbone).set_index("part")
    assert list(table.index) == ["base", *roles.NAMES]
    whole = sum(p.numel() for p in backbone.model.parameters())
    assert table["weights"].sum() == whole
    assert table["share"]["executor"] == table["weights"]["executor"] / table["weights"]["base"]


def lines_of(rates):
    """Lines of a history with these learning rates."""
    fixed = {"game": "g", "loss": 1.0, "norm": 1.0, "z0": 0.0, "contexts": 8, "samples": 9}
    return [fixed | {"step": k + 1, "lr": lr} for k, lr in enumerate(rates)]


def test_rates_of_a_history():
    lines = lines_of((1.0, 4.0, 2.0, 0.5))
    table = language_tables.history({"executor": lines, "kto": lines[:2]})
    found = language_tables.rates(table).set_index("role")
    assert found.loc["executor"].tolist() == [4, 1.0, 4.0, 0.5]
    assert found.loc["kto"].tolist() == [2, 1.0, 4.0, 4.0]


def test_labelled_by_hand():
    row = {"game": "g", "setting": "A", "value": [0.5, -1.0], "desirable": [True, False]}
    table = language_tables.labelled([row | {"omega": [1.0, 3.0]}, row | {"omega": [2.0, 2.0]}])
    one = table.iloc[0]
    assert (one["contexts"], one["samples"], one["desirable"]) == (2, 4, 0.5)
    assert one["weight_desirable"] == pytest.approx(3 / 8) and one["mean_v"] == -0.25


def test_how_far_a_policy_moved(gifts):
    items = [Item(c, np.array([0]), np.ones(1), np.ones(1, bool), "g") for c in gifts]
    old = TabularPolicy()
    new = TabularPolicy({gifts[0].key: np.log([0.9, 0.1])})
    table = language_tables.moved(old, new, items)
    far = 0.9 * np.log(1.8) + 0.1 * np.log(0.2)
    assert table["largest"][0] == pytest.approx(far) and table["kl"][0] == pytest.approx(far / 11)


def test_verdicts_hold_the_lines():
    policies = {"pt_kto": TabularPolicy()}
    scores = lm_scores.table(policies, GAMES)
    table = language_tables.verdicts(scores, language_tables.partners(policies, 10))
    assert table["reached"].tolist() == ["no"] * 4 and table["line"].tolist() == [
        0.95,
        0.4,
        0.05,
        0.05,
    ]


def test_precision_of_the_same_weights(gifts, tmp_path, monkeypatch):
    """A float32 and a bfloat16 base of one recipe differ, by little; each sums to 1."""
    monkeypatch.setattr(language, "shared", language.bare)
    recipe = language.Recipe("scratch", "", "float32", 0, 2, ("q_proj",))
    items = [Item(c, np.array([0]), np.ones(1), np.ones(1, bool), "g") for c in gifts]
    table, ms = language_tables.precision(recipe, items)
    assert (
        0 < table["tv"][0] < 0.05 and table["same"][0] >= 0.5 and set(ms) == {"float32", "bfloat16"}
    )


def test_timings_have_a_row_per_rung_and_budget(backbone):
    bench = latency.Bench(backbone, 10, 0)
    rungs = bench.rungs(3)
    assert rungs["rung"].tolist() == list(latency.RUNGS) and (rungs["p95"] >= rungs["p50"]).all()
    budgets = bench.budgets(4, (1e6, 0.0))
    assert budgets["full"].tolist() == [1.0, 0.0] and budgets["within"][0] == 1.0
    shares = budgets[list(latency.RUNGS)].sum(axis=1)
    assert shares.to_numpy() == pytest.approx(1.0)
    assert budgets["cache"][1] + budgets["reference"][1] == 1.0
    caching = bench.caching(12).set_index("cache")["hits"]
    assert caching["off"] == 0.0 and caching["warm"] == 1.0 and 0 < caching["cold"] < 1


def test_histories_are_different_and_named_by_the_seed():
    found = latency.histories(5, 0)
    assert len({one.history for one in found}) == 5 and found == latency.histories(5, 0)


def test_figures_are_drawn_from_the_tables(backbone):
    policies = {"random": TabularPolicy(), "pt_kto": LMPolicy(backbone, "executor")}
    scores = lm_scores.table(policies, GAMES)
    values = ultimatum.offer_values(GAMES["ultimatum"], np.ones(11))
    drawn = [
        language_figures.two_scores(language_tables.likeness(scores), "one seed"),
        language_figures.offers(language_tables.offers(policies, "AF"), values, "one seed"),
        language_figures.partners(language_tables.partners(policies, 10), "one seed"),
    ]
    lines = lines_of([1e-4] * 6)
    drawn.append(
        language_figures.training(language_tables.history({"executor": lines}), "one seed")
    )
    rungs = pd.DataFrame({"rung": latency.RUNGS, "p50": 1.0, "p95": 2.0})
    drawn.append(language_figures.rungs(rungs, 800.0, "one seed"))
    for figure in drawn:
        assert figure.get_supxlabel() == "one seed"


def test_rates_are_scaled_together():
    assert Rates().scaled(2.0) == Rates(1e-5, 4e-5, 2e-6)


def test_reachable_information_sets_are_distinct():
    for variant in coordinator.variants(10):
        places = coordinator.reachable(variant)
        keys = [variant.game.infoset(s, i) for s, i in places]
        assert len(set(keys)) == len(keys)
