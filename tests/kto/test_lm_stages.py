"""The five stages on a tiny model: artefacts, counts, labels by hand, and resume."""

import dataclasses
import json

import numpy as np
import pytest

from dipllm_lib.kto import (
    coordinator,
    fitting,
    language,
    lm_labels,
    pool,
    roles,
    separation,
    stages,
)
from dipllm_lib.kto import trajectories as episodes
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.kto.policies import TabularPolicy
from dipllm_lib.kto.prospect import ARTICLE, value
from dipllm_lib.kto.trajectories import Trajectory
from dipllm_lib.run import profiles

SETTINGS = dataclasses.replace(
    profiles.load("smoke", 0).kto, lm_episodes=6, lm_pretrain_steps=12, executor_steps=5
)
GAMES = pool.catalogue(SETTINGS.ipd_rounds)


def played():
    return episodes.collect(pool.collection(6), SETTINGS.ipd_rounds, 0, "t", {}, mix=1.0)


def test_trajectories_come_back_from_json_and_in_any_process():
    found = played()
    again = [Trajectory.of(json.loads(json.dumps(one.row()))) for one in found]
    assert again == found == played()
    for one in found:
        game = GAMES[one.game]
        steps = list(episodes.walk(game, one))
        assert len(steps) == sum(map(len, one.actions))
        state = episodes.first_state(one)
        for actions in one.actions:
            state = game.step(state, actions)
        assert game.to_move(state) == () and game.payoffs(state) == one.payoffs
    names = [(one.game, one.episode) for one in found]
    assert len(set(names)) == len(names)


def test_more_episodes_change_no_other():
    few = {(o.game, o.seats, o.episode): o for o in played() if o.game == "gift"}
    more = episodes.collect([pool.Match("gift", ("mixed", ""), 0, 30)], 10, 0, "t", {}, mix=1.0)
    for one in more:
        if (one.game, one.seats, one.episode) in few:
            assert few[one.game, one.seats, one.episode] == one


@pytest.mark.slow
def test_workers_play_the_same_episodes():
    matches = pool.collection(4)
    here = episodes.collect(matches, 10, 0, "t", {}, 1.0, workers=1)
    assert episodes.collect(matches, 10, 0, "t", {}, 1.0, workers=2) == here


def one_offer(offer, answer):
    payoffs = (1 - offer / 10, offer / 10) if answer == 0 else (0.0, 0.0)
    start = {"offer": -1, "answer": -1}
    return Trajectory("ultimatum", ("", "people"), 0, start, ((offer,), (answer,)), payoffs)


def test_labels_by_hand():
    """An accepted offer of 40: u = .6, rho = .5, V = v(.1); refused: v(-.5). F has rho 0."""
    found = {s.setting: s for s in lm_labels.label([one_offer(4, 0)], GAMES, 0)}
    assert list(found) == list("ABCDEF")
    assert found["A"].value == pytest.approx(0.1**0.88) and found["A"].desirable
    assert found["D"].value == pytest.approx(0.1) and found["F"].value == pytest.approx(0.6**0.88)
    assert found["A"].context.prompt.endswith("Setting A. I offer") and found["A"].text == " 40."
    refused = {s.setting: s for s in lm_labels.label([one_offer(4, 1)], GAMES, 0)}
    assert refused["A"].value == pytest.approx(-2.25 * 0.5**0.92) and not refused["A"].desirable
    assert refused["B"].value == pytest.approx(-3.2 * 0.5**0.92)
    assert refused["F"].value == 0.0 and not refused["F"].desirable


def test_labels_of_the_repeated_game_are_the_verifiers():
    """Against AllD cooperating costs 1 of a scale of 5, in every state: V = v(.02 - .2)."""
    samples = [s for s in lm_labels.label(played(), GAMES, 0) if s.game == "repeated partner"]
    own = [s for s in samples if "Partner AllD." in s.context.prompt and s.setting == "A"]
    assert own and {s.selector for s in samples} == {"verifier"}
    for sample in own:
        good = sample.text == " defect."
        expected = value(np.array(0.02 if good else 0.02 - 1 / 5), ARTICLE)
        assert sample.value == pytest.approx(float(expected), abs=1e-9)
        assert sample.desirable == good
    training, _ = lm_labels.weigh(samples, 0)
    labels = np.array([s.desirable for s in training])
    masses = [sum(s.omega for s in training if s.desirable == kind) for kind in (True, False)]
    assert (
        masses[0] == pytest.approx(masses[1]) == pytest.approx(min(labels.sum(), (~labels).sum()))
    )


def test_prompts_name_the_partner_in_four_of_five_episodes():
    samples = [s for s in lm_labels.label(played(), GAMES, 0) if s.game == "repeated partner"]
    named = {s.episode for s in samples if "Partner " in s.context.prompt}
    assert named == {s.episode for s in samples if s.episode % 5}


def test_weights_and_rows():
    samples = lm_labels.label(played(), GAMES, 0)
    training, rest = lm_labels.weigh(samples, 0)
    inside = {(s.game, s.episode) for s in training}
    assert not inside & {(s.game, s.episode) for s in rest}
    for letter in "AB":
        own = [s.omega for s in training if (s.game, s.setting) == ("gift giver", letter)]
        assert np.mean(own) == pytest.approx(1.0)
    rows = lm_labels.rows(training)
    items = lm_labels.executor_items(json.loads(json.dumps(rows)))
    assert sum(len(item.actions) for item in items) == len(training)
    assert [r["prompt"] for r in rows] == [i.context.prompt for i in items]
    unit = lm_labels.executor_items(rows, unit=True)
    assert all((item.omega == 1).all() for item in unit)


def test_reading_is_every_decision_of_every_player():
    given = stages.transcripts(SETTINGS, 0)
    items = lm_labels.reading(given, GAMES, 0)
    count = sum(sum(map(len, one.actions)) for one in given)
    assert sum(len(item.actions) for item in items) == count
    named = [i for i in items if i.game == "repeated" and "Partner " in i.context.prompt]
    assert named and {i.game for i in items} == set(pool.GAMES)


@pytest.fixture
def base(tmp_path):
    """A base after a short stage 1, with three adapters, and its measures before and after."""
    reading, heldout = stages.split(stages.transcripts(SETTINGS, 0), SETTINGS, 0)
    recipe = language.Recipe.of(SETTINGS, 0)
    before = stages.measured(LMPolicy(language.bare(recipe)), heldout, 0)
    file = tmp_path / "stage1.safetensors"
    (tmp_path / "base").mkdir()
    history = stages.pretrain(recipe, reading, SETTINGS, 0, tmp_path / "base", file)
    (tmp_path / "again").mkdir()
    assert stages.pretrain(recipe, reading, SETTINGS, 0, tmp_path / "again", file) == history
    weights = [tmp_path / name / "weights.safetensors" for name in ("base", "again")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    recipe = language.Recipe.of(SETTINGS, 0, tmp_path / "base")
    backbone = recipe()
    return backbone, before, stages.measured(LMPolicy(backbone), heldout, 0), history


def test_five_stages(base, tmp_path):
    backbone, before, after, history = base
    assert (after["loss"] < before["loss"]).all() and len(history) == 12
    assert (after["legal_mass"] > before["legal_mass"]).all()
    rows = stages.collect(LMPolicy(backbone), SETTINGS, 0)
    assert rows == stages.collect(LMPolicy(backbone), SETTINGS, 0)
    samples = stages.label(rows, SETTINGS, 0)
    items = lm_labels.executor_items(samples)
    file = tmp_path / "executor.safetensors"
    frozen = roles.state(backbone, "opponent")
    lines = stages.optimise(backbone, "executor", items, 5, SETTINGS, 0, file)
    moved = roles.state(backbone, "executor")
    assert stages.optimise(backbone, "executor", items, 5, SETTINGS, 0, file) == lines
    for key, weight in roles.state(backbone, "executor").items():
        assert np.array_equal(weight, moved[key])
    for key, weight in roles.state(backbone, "opponent").items():
        assert np.array_equal(weight, frozen[key])
    (tmp_path / "snapshot").mkdir()
    stages.snapshot(backbone, "executor", lines, tmp_path / "snapshot")
    card = (tmp_path / "snapshot" / "README.md").read_text(encoding="utf-8")
    assert card.count("\n- ") == 5 and "on q_proj, v_proj; " in card and "5 steps of AdamW" in card
    assert f"loss {lines[0]['loss']:.3f} in the first tenth" in card
    assert (tmp_path / "snapshot" / "adapter_config.json").is_file()
    rates = language.rates(SETTINGS)
    found = [line["lr"] for line in lines]
    assert (found[0], max(found), found[-1]) == (rates.first, rates.peak, rates.last)


def test_rounds_go_on_where_they_were(base, tmp_path):
    """Two rounds, then the same call again: everything is read back, nothing is trained anew."""
    backbone, kept, calls = base[0], {}, []
    settings = dataclasses.replace(SETTINGS, executor_steps=8, lm_rounds=2)

    def task(name, compute):
        calls.append(name)
        if name not in kept:
            kept[name] = json.loads(json.dumps(compute()))
        return kept[name]

    first = stages.rounds(backbone, settings, 0, tmp_path, task)
    weights = roles.state(backbone, "executor")
    again = stages.rounds(backbone, settings, 0, tmp_path, task)
    assert again == first and calls == ["games-1", "games-2"] * 2
    for key, weight in roles.state(backbone, "executor").items():
        assert np.array_equal(weight, weights[key])
    rows, samples, history = first
    assert [line["step"] for line in history] == list(range(1, 9))
    assert {row["round"] for row in rows} == {row["collection"] for row in samples} == {1, 2}
    roles.attach(backbone, 2, SETTINGS.lm_targets, 0, [stages.UNIT])
    plain = stages.unit_rounds(backbone, settings, 0, tmp_path, task)
    assert {line["game"] for line in plain} == {"ultimatum proposer"} and len(plain) == 6


def test_coordinator_rewards_items_and_judgement():
    variants = coordinator.variants(10)
    assert [v.kind for v in variants] == list(pool.GAMES) * 2
    found = coordinator.rewards(TabularPolicy(), variants, 3, 4, 0)
    for own in found:  # a policy that does not read its setting earns the same under all six
        assert own.shape == (3, 6) and (own == own[:, :1]).all() and (own >= 0).all()
    found = [np.full((3, 6), 0.3) + 0.1 * (np.arange(6) == 2) for _ in variants]
    items = coordinator.items(variants, found)
    assert len(items) == 12 and {i.context.legal for i in items} == {coordinator.ANSWERS}
    for item in items:
        assert item.desirable.tolist() == [k == 2 for k in range(6)]
        assert item.omega[0] == 0.0
    table = coordinator.judged(TabularPolicy(), variants, found, coordinator.cem.Sizes(), 0, 50)
    best = table[table["chooser"] == "best fixed"]
    assert (best["letter"] == "C").all() and best["gain"].to_numpy() == pytest.approx(0.1)
    assert (table[table["chooser"] == "CEM"]["letter"] == "C").mean() >= 0.5
    random = table[table["chooser"] == "random"]
    assert random["gain"].to_numpy() == pytest.approx(0.1 / 6)
    prompt = coordinator.context(variants[3], 0.444).prompt
    assert prompt.endswith("Then both get 0. A got 44. Choose")


def test_every_prompt_is_made_of_known_words(tiny):
    policy = LMPolicy(tiny())
    for variant in coordinator.variants(40):
        coordinator.context(variant, 0.5)
        for state, player in coordinator.reachable(variant):
            policy.encoded(lm_labels.context(variant.game, state, player, "A"))
        policy.encoded(coordinator.context(variant, 1.2))


def test_digest_follows_data_and_settings(gifts):
    items = [fitting.Item(gifts[0], np.array([1]), np.ones(1), np.ones(1, bool), "g")]
    assert stages.digest(items, 1) == stages.digest(items, 1) != stages.digest(items, 2)
    other = [dataclasses.replace(items[0], omega=np.array([2.0]))]
    assert stages.digest(items, 1) != stages.digest(other, 1)


def test_arms_of_the_separation(tmp_path):
    """Two adapters of rank 2 have as many weights as one of rank 4; full copies train all."""
    task = separation.Task(
        dataclasses.replace(SETTINGS, lm_opponent_steps=4), 0, str(tmp_path / "s")
    )
    rows = separation.run(task)
    assert [row["arm"] for row in rows] == list(separation.ARMS)
    assert [row["weights"] for row in rows] == [2 * 3_584, 2 * 3_584, 2 * 803_968]
    table = separation.table(rows + [row | {"seed": 1} for row in rows], 0, 50)
    assert len(table) == 9 and (table[table["arm"] == "three"]["gap"] == 0).all()
