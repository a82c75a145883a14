"""Arms at play: sent to another process and back, asked in every way, tables of their games."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from dipllm_lib.dip import (
    anchor_net,
    anchor_tune,
    arena,
    arm_list,
    arm_play,
    arms,
    atlas,
    boards,
    combine,
    game,
    orders,
    policies,
    rules,
    targets,
    variants,
)
from dipllm_lib.dip.arm_list import Arm
from dipllm_lib.run import places, profiles, seeding

SETTINGS = replace(
    profiles.load("smoke", 0).dip, tune_steps=2, search_candidates=4, arms_draws=8, arms_hidden=16,
    arms_layers=1, arms_steps=2, arms_heldout=10,
)  # fmt: skip
SUPERVISED = Arm("text", "factorisation", changes=(("objective", "bc_argmax"),), start="random")
SINGLE = Arm("single", "factorisation", method="independent", start="random")
NET = Arm("net", anchor_tune.GROUP, "net")


@pytest.fixture(scope="module")
def jobs(searches, tmp_path_factory):
    """Trained arms by name; the anchor has random weights, the value net those of data/inputs."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("arm play")
    content = {"samples": list(targets.sample_rows(searches, "final")), "search": searches}
    for name, rows in content.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    net = anchor_net.Net(anchor_net.Shape(16, 1, 2, 16), 0).export()
    (folder / "anchor.safetensors").write_bytes(net.to_bytes())
    value = places.root() / "data" / "inputs" / "value_human.safetensors"
    paths = (str(folder / f"{name}") for name in ("samples.jsonl", "search.jsonl"))
    sources = arms.Sources(*paths, str(folder / "anchor.safetensors"), str(value), "")
    listed = [SUPERVISED, SINGLE, NET]
    made, _ = arms.jobs(listed, SETTINGS, 0, sources, folder / "weights")
    for job in made:
        (anchor_tune.run if job.arm is NET else arms.run)(job)
    return {job.arm.name: job for job in made}


def generators(n):
    return [np.random.default_rng([4, k]) for k in range(n)]


def test_a_stored_player_is_the_arm_and_can_be_sent(jobs):
    turns = orders.turns(boards.start(), 0)
    for name in ("text", "net"):
        stored = arm_play.Stored(name, jobs[name])
        sent = pickle.loads(pickle.dumps(stored))
        direct = arms.player(jobs[name]) if name == "text" else anchor_tune.player(jobs[name])
        expected = direct.act(turns, generators(len(turns)))
        assert sent.act(turns, generators(len(turns))) == expected
    assert len(pickle.dumps(stored)) < 20_000  # settings and paths, no weights
    with pytest.raises(FileNotFoundError):
        missing = replace(jobs["text"], folder=jobs["text"].folder + "nowhere")
        arm_play.Stored("x", missing).act(turns, generators(len(turns)))


def test_every_way_of_asking_plays_legal_games(jobs):
    """One game of each: names, legal orders, and the same game when it is played again."""
    ways = [way for way in variants.ARMS if way != variants.RETRIES]
    players = [arm_play.Stored(way, jobs["text"], way) for way in ways]
    players += [arm_play.Stored("single", jobs["single"])]
    players += [arm_play.Stored("text, search 3", jobs["text"], iterations=3)]
    players += [arm_play.Stored("beside", jobs["text"], weights=(1.0, 0.5))]
    end, outcomes = game.EndRules(1901), {}
    for one in players:
        plan = arena.Pairing(one, policies.RandomLegal(), 7, end, 0)
        (played,) = plan.play([2])
        assert arm_play.opened(one).name == one.name == plan.table([played], [2])["one"][0]
        outcomes[one.name] = played.to_saved()
        assert arm_play.opened(one) is arm_play.opened(replace(one))
    plain = arm_play.Stored("legal orders", jobs["text"])
    (played,) = arena.Pairing(plain, policies.RandomLegal(), 7, end, 0).play([2])
    assert outcomes["legal orders"] == played.to_saved()
    orders_of = {name: saved["phases"] for name, saved in outcomes.items()}
    assert orders_of["text, search 3"] != orders_of["legal orders"] != orders_of["beside"]


def test_single_units_are_learned_and_measured_as_a_product(jobs):
    """The divergence of the arm is that of its player, and its steps are those of the others."""
    one, other = arms.run(jobs["single"]), arms.run(jobs["text"])
    rows = arms.split(jobs["single"])[1]
    found = arms.samples.policy_kl(rows, arms.player(jobs["single"]).at(1.0))
    assert one["kl"] == pytest.approx(found, abs=1e-4)
    assert one["steps"] == other["steps"] == 2 and one["kl"] != other["kl"]


def test_the_model_beside_the_anchor_on_held_out_power_turns(jobs):
    heard = arm_play.known(jobs["text"])
    json.dumps(heard, allow_nan=False)
    rows = arms.split(jobs["text"])[1]
    tables = [combine.table(*t) for t in zip(heard["target"], heard["log_tau"], heard["log_p"])]
    assert heard["game"] == [row["game"] for row in rows] and len(tables) == len(rows) == 7
    best, plain = combine.fit(tables), combine.divergences(tables, 1, 0).mean()
    assert combine.divergences(tables, *best).mean() <= plain


def test_texts_are_told_by_player_and_phase(jobs):
    stored = arm_play.Stored("one-shot, FT", jobs["text"], variants.ONE_SHOT)
    said = arm_play.said(stored)
    assert said == arm_play.said(stored) and len(said) == 7
    turn = orders.turns(rules.start())[0]
    arm_play.opened(stored).act([turn], [seeding.child(0, "a game of this process")])
    assert arm_play.said(stored) == said
    table = arm_play.texts({"one-shot, FT": said, "again": said})
    assert table["agent"].unique().tolist() == ["one-shot, FT", "again"]
    assert table.groupby("agent")["turns"].sum().tolist() == [7, 7]


def rows(one, six, sos):
    held = {measure: 0.0 for measure in arena.MEASURES}
    return [
        {"one": one, "six": six, "game": g, "seed_index": g // 7, "power": atlas.POWERS[g % 7]}
        | held
        | {"sos": sos + 0.01 * (g % 3)}
        for g in range(14)
    ]


def test_the_steps_between_the_corners_of_table_2():
    """Every name of the table once, rows those of the arm that plays so; the corners are the
    paper's.
    """
    names = set(arm_play.SAME.values())
    found = pd.DataFrame([r for k, name in enumerate(names) for r in rows(name, "anchor", k / 99)])
    table = arm_play.factorised(found)
    assert table["one"].unique().tolist() == list(arm_play.SAME)
    for name, played in arm_play.SAME.items():
        own = table.loc[table["one"] == name, "sos"].tolist()
        assert own == found.loc[found["one"] == played, "sos"].tolist()
    places = [place for place in arm_play.TABLE_2.values() if place]
    assert places == ["no AF, no FT", "FT only", "AF only", "AF and FT"]
    known = {arm.name for arm in arm_list.every()}
    extra = {one.name for one in arm_play.factorisation(dict.fromkeys(known))}
    assert names == (names & known) | extra | {variants.RANDOM}
    for first, second in arm_play.STEPS.values():
        assert first != second and {first, second} <= set(arm_play.SAME)
    corners = {name: arm_play.TABLE_2[name] for name in arm_play.SAME}
    for step, (_, first, second) in arm_play.STEPS_2.items():
        assert tuple(corners[name] for name in arm_play.STEPS[step]) == (first, second)
    with pytest.raises(ValueError, match="no games of 'exact_kl'"):
        arm_play.factorised(found[found["one"] != "exact_kl"])


def test_curves_and_slopes_by_hand():
    """SoS = .01 + .02 log(1 + games) gives a slope of 2 points, whatever else varies by game."""
    games = {name: 12 * k for names in arm_play.curves().values() for k, name in enumerate(names)}
    found = pd.DataFrame([
        row
        for names in arm_play.curves().values()
        for name in names
        for row in rows(name, "anchor", 0.01 + 0.02 * float(np.log1p(games[name])))
    ])
    table = arm_play.slopes(found, games, np.random.default_rng(0), 50)
    assert table["slope"].tolist() == pytest.approx([2.0] * 4)
    assert table["verdict"].tolist() == ["holds"] * 4 and table["arms"].tolist() == [5, 4] * 2
    assert table["least"].tolist() == [0, 12] * 2
    found.loc[found["one"] == arm_list.START, "sos"] -= 0.5  # a bad start steepens the first only
    again = arm_play.slopes(found, games, np.random.default_rng(0), 50)["slope"]
    assert again[0] > 3 and again[1:].tolist() == pytest.approx([2.0] * 3)
    scores = found.groupby("one")["sos"].mean().rename_axis("agent").reset_index()
    scores = pd.concat([scores.assign(opponents=six) for six in ("anchor", "other")])
    amounts = arm_play.amounts(scores, games, "anchor")
    assert amounts["data_games"].tolist() == [0, 12, 24, 36, 48] * 2
    assert amounts["agent"].tolist() == ["anchor tuned"] * 5 + ["scratch lm"] * 5


def test_pairs_are_named_by_what_is_subtracted():
    pairs, questions = arm_play.pairs(arm_list.every())
    assert pairs["list − list at play"] == ("list", "list at play")
    assert questions["list − list at play"] == "candidates" and arm_list.FIRST not in pairs
    assert len(pairs) == len(questions) == len(arm_list.every()) - 1
