"""Notebook 10b: which runs are wanted, each once, and what its tables and answers say."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from dipllm_lib.ipd import beyond, beyond_contrasts, mixed_pool, social, social_figures, social_runs
from dipllm_lib.ipd.beyond import BASE
from dipllm_lib.run import plotting, profiles, seeding

SMOKE = replace(profiles.load("smoke", 0).ipd, hidden=8, social_questions=())


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def test_the_base_run_is_smaller_and_else_that_of_the_mixed_pool():
    cpu = profiles.load("cpu", 0).ipd
    own, of = beyond.base(cpu), mixed_pool.ppi(cpu)
    changed = {name for name in vars(own) if getattr(own, name) != getattr(of, name)}
    assert changed == {"pool", "first_games", "games", "phases", "first_steps", "steps"}
    assert (own.pool, own.a) == ("beta", 0.5)
    paper = beyond.base(profiles.load("paper", 0).ipd)
    assert (paper.q, paper.model.input, paper.model.hidden) == ("head", "joint", 128)


@pytest.mark.parametrize("name", profiles.NAMES)
def test_every_question_of_a_profile_has_its_tasks(name, tmp_path):
    settings = profiles.load(name, 0).ipd
    wanted = beyond.tasks(settings, 2, tmp_path)
    asked = list(dict.fromkeys(task.question for task in wanted))
    assert asked == [BASE, *(q for q in social.QUESTIONS if q in settings.social_questions)]
    assert len({task.key for task in wanted}) == len(wanted)
    assert {s for t in wanted for s in t.seeds} == set(range(2000, 2000 + settings.social_seeds))
    settings_ = profiles.load("cpu", 0).ipd
    longer = replace(settings_, social_questions=(*settings_.social_questions, "sizes"))
    more = beyond.once(beyond.tasks(longer, 2, tmp_path))
    assert set(beyond.once(beyond.tasks(settings_, 2, tmp_path))) < set(more)


def test_the_base_run_is_trained_once(tmp_path):
    """Of cpu's 24 settings the base run is five: one in each question that shares its game."""
    wanted = beyond.tasks(profiles.load("cpu", 0).ipd, 0, tmp_path)
    new = beyond.once(wanted)
    assert (len(wanted), len(new)) == (24, 20)
    same = [(t.question, t.setting) for t in wanted if t.own == wanted[0].own]
    assert same == [
        (BASE, "beta 0.5"), ("diversity", "beta 0.5"), ("mixing", "0.5"),
        ("exploration", "base"), ("payoffs", "b 2"),
    ]  # fmt: skip
    listed = beyond.listed(wanted).set_index("question")["runs"]
    assert listed.sum() == 20 * 3 and listed[social.QUESTIONS["mixing"]] == 5 * 3


def test_unknown_names_are_refused(tmp_path):
    for changes, text in (
        ({"social_questions": ("luck",)}, "unknown questions .'luck'."),
        ({"social_pool": "people"}, "unknown pool 'people'"),
        ({"social_questions": ("exploration",), "social_exploration": ("x",)}, "unknown settings"),
    ):
        with pytest.raises(ValueError, match=text):
            beyond.tasks(replace(SMOKE, **changes), 0, tmp_path)


def trained(settings, folder):
    wanted = beyond.tasks(settings, 0, folder)
    results = [social_runs.run(task) for task in beyond.once(wanted)]
    return beyond.spread(wanted, results), results


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    torch.set_num_threads(1)
    settings = replace(SMOKE, social_questions=("mixing", "payoffs", "goods"))
    return trained(settings, tmp_path_factory.mktemp("runs"))


def test_one_result_for_every_setting(found):
    everything, results = found
    assert len(results) == 5 and len(everything) == 1 + 2 + 3 + 1
    half = beyond.of(everything, "mixing")[1]
    assert half["setting"] == "0.5" and "shift" not in half["tables"]
    assert half["tables"]["probes"] == everything[0]["tables"]["probes"]
    curves = beyond.curves(everything)
    assert len(curves) == 7 * 2 * 2 and curves["cooperation"].between(0, 1).all()
    cost = beyond.cost(results)
    assert len(cost) == 5 and (cost[["first", "phases"]] > 0).all(axis=None)


def test_without_any_question_the_base_run_answers(tmp_path):
    """Tables and figures of what was not asked are there, and say so."""
    everything, _ = trained(SMOKE, tmp_path)
    gains = pd.DataFrame({"pool": ["uniform"], "gain": [0.05]})
    lines = beyond_contrasts.lines(everything, gains, "uniform")
    assert list(lines) == [BASE]
    answers, values = beyond_contrasts.judged(lines, seeding.child(0, "x"), 20)
    assert set(answers["verdict"]) == {"open"} and len(values) > len(answers)
    empty = beyond.rows(answers, "mixing")
    assert empty.empty and "asked" not in empty
    seeds = beyond.rows(beyond.by_question(everything, lambda own: pd.DataFrame()), "mixing")
    for figure in (
        social_figures.against("mixing", empty, seeds, {}, "x"),
        social_figures.curves("mixing", beyond.rows(beyond.curves(everything), "mixing"), {}),
        social_figures.cost(empty),
    ):
        assert "not run: add" in figure.axes[0].texts[0].get_text()
        plotting.render(figure)


def test_answers_of_the_questions(found):
    everything, _ = found
    lines = beyond_contrasts.lines(everything, pd.DataFrame(), "uniform")
    assert list(lines["mixing"]) == ["0.5 − 0"]
    assert list(lines["payoffs"]) == [
        "plateau, per unit of benefit", "who gets 3 gives more than who gets 2",
    ]  # fmt: skip
    assert list(lines["goods"]) == ["r 2: plateau − noise floor"]
    assert "cooperation: own partner − partners of other seeds" in lines[BASE]
    seeds = beyond.by_question(everything, beyond.social_tables.per_seed)
    plateau = beyond.rows(seeds, "mixing").pivot(index="seed", columns="setting", values="plateau")
    expected = (plateau["0.5"] - plateau["0"]).tolist()
    assert lines["mixing"]["0.5 − 0"].tolist() == pytest.approx(expected)


def test_slopes_over_the_pools_by_hand():
    """Gain .05 and .25; plateaus .2 and .6: .2 per .1; onsets 4 (never) and 2: one phase sooner."""
    rows, tables = ("seed", "phase", "seat", "opponent", "noise", "cooperation", "reward"), {}
    for name, curve in {"uniform": (0.1, 0.1, 0.2), "corners": (0.2, 0.6, 0.6)}.items():
        data = [
            (0, k, seat, who, level, value, 1.0)
            for k, value in enumerate(curve, 1)
            for seat in range(2)
            for who in ("learner", "TFT", "tabular")
            for level in ("on", "half", "off")
        ]
        tables[name] = {"probes": mixed_pool.plain(pd.DataFrame(data, columns=rows))}
    found = [
        {"question": "diversity", "setting": name, "players": 2, "tables": own}
        for name, own in tables.items()
    ]
    gain = pd.DataFrame({"pool": ["uniform", "corners"], "gain": [0.05, 0.25]})
    lines = beyond_contrasts.diversity(found, gain)
    assert lines["plateau, per 0.1 of gain"].tolist() == pytest.approx([0.2])
    assert lines["phases sooner, per 0.1 of gain"].tolist() == pytest.approx([1.0])


def test_regrets_and_rates_of_every_pool(found):
    shifts = beyond.shifted(found[0])
    assert list(shifts) == ["uniform"]
    rng = seeding.child(0, "x")
    table = beyond.regrets(shifts, "half", rng, 50).set_index("opponent")
    assert {"TFT", "LOLA", "naive learner", "corners", "human"} <= set(table.index)
    raw = shifts["uniform"]["shift"].query("opponent == 'TFT' and noise == 'half'")
    assert table.loc["TFT", "regret"] == pytest.approx(raw["regret"].mean())
    assert (table["regret_low"] <= table["regret"]).all()
    rates = beyond.rates(shifts, rng, 50)
    people = rates[rates["who"] == "people"].set_index("state")["mean"]
    assert people["CC"] == 0.916 and people["overall"] == 0.449
    for figure in (social_figures.regret(table.reset_index()), social_figures.rates(rates)):
        plotting.render(figure)


def test_a_missing_value_everywhere_is_a_number():
    table = pd.DataFrame({"x": [None, None], "name": ["a", "b"]})
    assert beyond._numbers(table)["x"].dtype == np.float64


def test_numbers_of_settings():
    found = social_figures.numbers(["b 2", "b 2 and 3", "0.25", "GRU 16"])
    assert list(found.values()) == [2.0, 2.5, 0.25, 16.0]


def test_the_public_good_by_formula_chain_and_simulation():
    """r 1.6, 2.0, 2.4: all-C .6, 1.0, 1.4; a lone C -.467, -.333, -.2."""
    table = beyond.goods_check((1.6, 2.0, 2.4), 20, 400, seeding.child(0, "goods"))
    wide = table.pivot(index="r", columns="agents", values="exact")
    assert wide["three AllC"].tolist() == pytest.approx([0.6, 1.0, 1.4])
    lone = wide["AllC beside two AllD"].tolist()
    assert lone == pytest.approx([-0.467, -0.333, -0.2], abs=5e-4)
    known = table.dropna(subset="formula")
    np.testing.assert_allclose(known["exact"], known["formula"], atol=1e-12)
    assert ((table["simulated"] - table["exact"]).abs() <= 4 * table["se"] + 1e-9).all()
