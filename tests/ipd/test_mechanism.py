"""The three steps as tasks: who meets whom, what is carried over, stop and resume, panels."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import (
    a2c_settings,
    batch_play,
    mechanism,
    mixed_pool,
    ppi_runs,
    published,
    steps,
)
from dipllm_lib.ipd import mechanism_contrasts as contrasts
from dipllm_lib.ipd import mechanism_tables as panels
from dipllm_lib.ipd.a2c import A2C
from dipllm_lib.ipd.batch_play import Table
from dipllm_lib.ipd.ppi import PPI
from dipllm_lib.ipd.steps import Sizes
from dipllm_lib.run import profiles, seeding

SETTINGS = replace(
    profiles.load("smoke", 0).ipd,
    probe_games=4, hidden=8, trajectories=12, first_trajectories=40, first_steps=4, steps=2,
    batch=8, a2c_batch=8, a2c_seeds=2,
)  # fmt: skip
SIZES = Sizes(phases=(1, 3, 3), iterations=(4, 6, 6), copies=2, line_games=1)
SETTINGS = replace(SETTINGS, a2c_block=2, a2c_probe_blocks=1)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def task(step, folder, learner="ppi", sizes=SIZES, **more):
    (found,) = mechanism.tasks(learner, step, SETTINGS, sizes, 0, folder, **more)
    return found


def chain(folder, learner, last="step3"):
    order = ("pretrain",) * (learner == "ppi") + steps.STEPS
    names = order[: order.index(last) + 1]
    return {step: [mechanism.run(task(step, folder, learner))] for step in names}


@pytest.fixture(scope="module", params=["ppi", "a2c"])
def found(request, tmp_path_factory):
    return chain(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def extorters(tmp_path_factory):
    """The folder of a chain of PPI that ends with step 2."""
    folder = tmp_path_factory.mktemp("extorters")
    chain(folder, "ppi", "step2")
    return folder


def test_settings_of_the_steps():
    one, two, three = (steps.ppi(SETTINGS, SIZES, step) for step in steps.STEPS)
    assert (one.tabular_games, one.learner_games) == (12, 0)
    assert (two.tabular_games, two.learner_games) == (0, 12) and two.first_games == 40
    assert three.first_games == 40 + 3 * 12 and three.phases == 3  # data of step 2
    assert steps.ppi(SETTINGS, replace(SIZES, start="weights"), "step3").first_games == 40
    assert SIZES.start_of(three) == "both" and SIZES.start_of(replace(three, reinit=True)) == "data"
    with pytest.raises(ValueError, match="unknown start 'none'"):
        Sizes(start="none")
    with pytest.raises(ValueError, match="three numbers >= 1"):
        Sizes(phases=(1, 2))
    with pytest.raises(ValueError, match="unknown step 'step4'"):
        steps.ppi(SETTINGS, SIZES, "step4")


def test_the_paper_s_columns_of_a2c():
    """Columns of Table 2, by step: rate, lambda, rescaling, entropy and normalisation."""
    paper = profiles.load("paper", 0).ipd
    sizes = Sizes(iterations=(50_000, 100_000, 10_000), columns=True)
    for step in steps.STEPS:
        own, column = steps.a2c(paper, sizes, step), a2c_settings.PAPER[step]
        for name in (*steps.COLUMN, "iterations", "tabular", "learners", "chunk", "pool"):
            assert getattr(own, name) == getattr(column, name), (step, name)
    small = steps.a2c(SETTINGS, SIZES, "step1")
    assert (small.tabular, small.learners, small.other_games) == (1.0, 1, 0)
    assert small.games == 8 and steps.a2c(SETTINGS, SIZES, "step2").tabular_games == 0


def test_tasks_are_blocks_of_seeds(tmp_path):
    settings = replace(SETTINGS, seeds=5, seeds_together=2)
    made = mechanism.tasks("ppi", "step1", settings, SIZES, 2, tmp_path)
    assert [t.seeds for t in made] == [(2000, 2001), (2002, 2003), (2004,)]
    assert made[0].agents == [(2000, 0), (2001, 0)]
    starts = [task("step3", tmp_path, sizes=replace(SIZES, start=s)).key for s in steps.STARTS]
    assert len(set(starts)) == 3 and task("step3", tmp_path).key == starts[2]
    with pytest.raises(ValueError, match="no step 'pretrain' of 'a2c'"):
        task("pretrain", tmp_path, "a2c")
    with pytest.raises(FileNotFoundError, match="run pretrain of ppi"):
        mechanism.run(task("step1", tmp_path))


def test_results_are_plain_and_hold_every_seed(found):
    for step, (one,) in found.items():
        json.dumps(one, allow_nan=False)
        assert one["steps"] > 0 and one["seconds"] > 0 and one["step"] == step
        for name in one["tables"]:
            assert set(mixed_pool.joined([one], name)["seed"]) == {0, 1}, (step, name)
    for step in steps.STEPS:
        for name in ("training", "probes"):
            table = mixed_pool.joined(found[step], name)
            reward = 2 * table["other_cooperation"] - table["cooperation"]
            assert table["reward"].to_numpy(float) == pytest.approx(
                reward.to_numpy(float), abs=1e-5
            )
    opponents = {s: set(mixed_pool.joined(found[s], "training")["opponent"]) for s in steps.STEPS}
    assert opponents == {"step1": {"tabular"}, "step2": {"frozen"}, "step3": {"learner"}}


def test_panels_have_every_seed_and_seat_and_all_noise_levels(found):
    learner = found["step1"][0]["learner"]
    made = {
        "A": panels.panel_a(found["step1"]), "B": panels.panel_b(found["step1"], further=True),
        "C": panels.panel_c(found["step2"]), "D": panels.panel_d(found["step2"]),
        "E": panels.panel_e(found["step3"]), "F": panels.panel_f(found["step3"]),
    }  # fmt: skip
    for name, table in made.items():
        seats = {0} if name in "AB" else {0, 1}
        places = {(seed, seat) for seed in (0, 1) for seat in seats}
        for _, own in table.groupby(["noise", "opponent"]):
            assert set(zip(own["seed"], own["seat"])) == places, name
        assert set(table["noise"]) == {"on", "half", "off"}
        keys = ["seed", panels.axis(table), *(["round"] if "round" in table else []), "seat"]
        assert not table.duplicated([*keys, "opponent", "noise"]).any()
        reward = 2 * table["other_cooperation"] - table["cooperation"]
        assert table["reward"].to_numpy(float) == pytest.approx(reward.to_numpy(float), abs=1e-5)
        if panels.FIGURES[learner] + name in published.PANELS:
            beside = published.beside(table, panels.FIGURES[learner] + name)
            assert len(beside) == len(published.landmarks(panels.FIGURES[learner] + name))
    assert set(made["B"]["opponent"]) == {*steps.FIXED, *steps.FURTHER}
    assert set(made["F"][panels.axis(made["F"])]) == {0}
    with pytest.raises(ValueError, match="made of step1 of one learner"):
        panels.panel_a(found["step2"])


def test_a_finished_step_gives_its_agents_to_play(found, tmp_path_factory):
    """Each alone has the weights of its place in the stack, and plays the same games again."""
    learner = found["step1"][0]["learner"]
    folder = tmp_path_factory.mktemp("agents")
    chain(folder, learner, "step1")
    made = task("step1", folder, learner)
    alone, state = mechanism.actors(made), ppi_runs.load(made.own / "state.npz")
    assert list(alone) == [(0, 0), (1, 0)]
    join = "." if learner == "ppi" else "/"
    for i, actor in enumerate(alone.values()):
        for name, weight in actor.stack.named_parameters():
            assert np.array_equal(weight[0].detach().numpy(), state[f"weight{join}{name}"][i])
    table = Table(0, torch.full((1, 3, 5), 0.5))
    streams = [[seeding.child(0, "agents", name)] for name in ("u", "noise", "other")]
    chance = batch_play.draws(*streams, table, SETTINGS.rounds)
    games = [batch_play.play(mechanism.actors(made)[0, 0], table, chance) for _ in range(2)]
    assert games[0].shape == (1, 3, SETTINGS.rounds) and np.array_equal(*games)


def test_sizes_of_a_profile():
    own = steps.sizes(profiles.load("cpu", 0).ipd)
    assert own.phases == (8, 18, 20) and own.iterations == (1500, 1500, 1000)
    assert (own.start, own.columns, own.opponents, own.copies, own.line_games) == (
        "", False, 200, 20, 20,
    )  # fmt: skip
    paper = steps.sizes(profiles.load("paper", 0).ipd)
    assert paper.columns and paper.iterations == (50_000, 100_000, 10_000)


def test_both_extorters_see_one_game_of_panel_f(found):
    """The two seats of F play each other: what one does is what the other meets."""
    f = panels.panel_f(found["step3"])
    first, second = (f[f["seat"] == s].reset_index(drop=True) for s in (0, 1))
    assert first["cooperation"].equals(second["other_cooperation"])
    assert first["other_reward"].equals(second["reward"])


def test_meters_and_contrasts_of_a_run(found):
    rng = seeding.child(0, "meters")
    lines, fits = panels.lines(found["step2"], rng, 20), panels.fits(found["step2"])
    assert len(lines) == 4 * 2 and set(lines["opponents"]) == {200, 202}
    assert len(fits) == 4 * 2 and set(fits["against"]) == {"frozen", "tabular"}
    shares = panels.shares(found["step2"], rng, 50)
    assert set(zip(shares["window"], shares["noise"])) == {
        (w, n) for w in ("late", "game end") for n in ("on", "half", "off")
    }
    conceded = {"AllD": 0.1, "tabular": 0.05}
    made = contrasts.step1(found["step1"], conceded) + contrasts.against(found["step1"], {"x": 1.0})
    made += contrasts.step2(found["step2"]) + contrasts.step3(found["step3"])
    judged = contrasts.judged(made, rng, 50)
    assert list(judged) == list(contrasts.COLUMNS) and (judged["seeds"] == 2).all()
    assert not judged.duplicated(["panel", "key", "noise"]).any()
    assert {p[1] for p in judged["panel"]} == set("ABCDEF") and set(judged["verdict"]) == {"open"}
    assert len(contrasts.per_seed(made)) == 2 * len(made)
    chi = contrasts.chi(shares, found["step2"][0]["learner"], 2)
    assert list(chi) == list(contrasts.COLUMNS) and len(chi) == 6


def test_the_frozen_agent_is_that_of_step_1_and_is_not_trained(tmp_path, extorters):
    one, two = (ppi_runs.state(task(s, extorters).own) for s in ("step1", "step2"))
    pre = ppi_runs.state(task("pretrain", extorters).own)
    assert np.array_equal(one["data.0"], pre["data.0"][::2])
    assert np.array_equal(two["data.0"], pre["data.0"])
    before = {k: v for k, v in one.items() if k.startswith("weight.")}
    mechanism.run(task("step2", tmp_path, before=extorters))
    after = ppi_runs.state(task("step1", extorters).own)
    assert all(np.array_equal(before[k], after[k]) for k in before)
    # two independent extorters of one seed
    name = next(iter(before))
    assert not np.allclose(two[name][0], two[name][1])


@pytest.mark.parametrize("found", ["ppi"], indirect=True, scope="module")
@pytest.mark.parametrize("start", steps.STARTS)
def test_where_step_3_begins(tmp_path, extorters, start, found):
    sizes = replace(SIZES, start=start)
    made = task("step3", tmp_path, sizes=sizes, before=extorters)
    result = mechanism.run(made)
    two, three = ppi_runs.state(task("step2", extorters).own), ppi_runs.state(made.own)
    own = steps.ppi(SETTINGS, sizes, "step3")
    all_of_2 = np.concatenate([two[f"data.{k}"] for k in range(4)], axis=1)
    expected = two["data.0"] if start == "weights" else all_of_2
    assert np.array_equal(three["data.0"], expected) and three["data.0"].shape[1] == own.first_games
    assert result["start"] == start
    # panel F is the same under all three
    f, default = panels.panel_f([result]), panels.panel_f(found["step3"])
    assert f["cooperation"].equals(default["cooperation"])


def test_phase_1_of_step_3_plays_the_extorters(tmp_path, extorters):
    """Its first games are those of a run with the weights of step 2, nothing fitted."""
    made = task("step3", tmp_path, before=extorters)
    own = steps.ppi(SETTINGS, SIZES, "step3")
    two = ppi_runs.state(task("step2", extorters).own)
    run = PPI(steps.ppi(SETTINGS, SIZES, "step3"), made.agents)
    run.pretrain(np.concatenate([two[f"data.{k}"] for k in range(4)], axis=1))
    state = run.state() | {k: v for k, v in two.items() if k.startswith("weight.")}
    expected = PPI.resume(own, made.agents, state).advance()
    mechanism.run(made)
    assert np.array_equal(ppi_runs.state(made.own)["data.1"], expected)


@pytest.mark.parametrize("learner", ["ppi", "a2c"])
def test_a_stopped_step_goes_on_and_steps_can_be_handed_over(tmp_path, monkeypatch, learner):
    """Stopped in the middle of step 2, gone on from a copy of step 1: the tables of a whole run."""
    whole = chain(tmp_path / "whole", learner, "step2")["step2"][0]
    chain(tmp_path / "parted", learner, "step1")
    names = ("pretrain",) * (learner == "ppi") + ("step1",)
    done = [task(step, tmp_path / "parted", learner) for step in names]
    mechanism.hand_over(done, tmp_path / "copy")
    names = {path.name for path in (tmp_path / "copy" / done[-1].key).iterdir()}
    assert names == {"state.npz"}  # nobody trains on the games of step 1 again
    assert not list((tmp_path / "copy").glob("*/probe.*"))
    assert "seconds" not in ppi_runs.load(tmp_path / "copy" / done[-1].key / "state.npz")
    parted = task("step2", tmp_path / "own", learner, before=tmp_path / "copy")
    kind, name = (PPI, "advance") if learner == "ppi" else (A2C, "train")
    real, calls = getattr(kind, name), []

    def stops(run, *given):
        calls.append(0)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(run, *given)

    monkeypatch.setattr(kind, name, stops)
    with pytest.raises(KeyboardInterrupt):
        mechanism.run(parted)
    found = mechanism.run(parted)
    assert len(calls) == 1 + 3 and found["tables"] == whole["tables"]
    with pytest.raises(FileNotFoundError, match="no state to hand over"):
        mechanism.hand_over([task("step3", tmp_path / "own", learner)], tmp_path / "copy")
