"""The anchor net on searched policies: loss two ways, learning, one kind of phase a batch, arms."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.dip import anchor_net, anchor_tune, arm_list, arms, boards, orders, samples, targets
from dipllm_lib.run import profiles

SIZES = anchor_tune.TuneSettings(steps=6, batch=2, lr=1e-2, dropout=0.0, joint_orders=3)


@pytest.fixture(scope="module")
def net():
    torch.set_num_threads(1)
    return anchor_net.Net(anchor_net.Shape(16, 1, 2, 16), 0).export()


@pytest.fixture(scope="module")
def rows(searches):
    return list(targets.sample_rows(searches, "final"))


def test_the_loss_is_the_weighted_likelihood_of_the_net(net, rows):
    """Against exact log-probabilities in numpy, position by position."""
    found = anchor_tune.targets(rows, 3)
    some = [t for t in found if int(t.boards.phase[0]) in boards.MOVES][:3]
    expected, turns_ = 0.0, 0
    for target in some:
        turns = {turn.power: turn for turn in orders.turns(target.boards)}
        for power, joints, weights in zip(
            target.powers, target.joints, target.weights, strict=True
        ):
            assert weights.sum() == pytest.approx(1) and len(joints) <= 3
            expected -= float(weights @ net.log_prob(turns[power], joints))
            turns_ += 1
    loss = anchor_tune._loss(anchor_net.of_anchor(net), some, "float32").item()
    assert loss == pytest.approx(expected / turns_, rel=1e-4)


def test_it_learns_and_is_a_function_of_the_seed(net, rows):
    before = samples.policy_kl(rows, net).mean()
    settings = replace(SIZES, steps=30, dropout=0.1)
    tuned, history = anchor_tune.fit(rows, net, settings, 0)
    assert samples.policy_kl(rows, tuned).mean() < before - 0.2
    assert list(history["step"]) == list(range(1, 31)) and history["lr"].iloc[-1] < 1e-3
    again, _ = anchor_tune.fit(rows, net, replace(settings, steps=4), 0)
    once, _ = anchor_tune.fit(rows, net, replace(settings, steps=4), 0)
    other, _ = anchor_tune.fit(rows, net, replace(settings, steps=4), 1)
    assert again.to_bytes() == once.to_bytes() != other.to_bytes()


def test_a_batch_has_one_kind_of_phase(rows):
    found = anchor_tune.targets(rows, 2)
    steps = anchor_tune.plan(found, replace(SIZES, steps=25), 4)
    phase = np.array([int(t.boards.phase[0]) for t in found])
    kinds = np.where(phase == boards.ADJUSTMENTS, 2, phase % 2)
    assert len(steps) == 25 and all(len(set(kinds[some])) == 1 for some in steps)
    first = [i for some in steps for i in some][: len(found)]
    assert sorted(first) == list(range(len(found)))


def test_arms_of_the_net(net, rows, tmp_path, monkeypatch):
    """From files to results that the table of the arms reads, and to players."""
    small = arm_list.ArmSettings(heldout=10)
    monkeypatch.setattr(arm_list.ArmSettings, "of", classmethod(lambda cls, settings: small))
    monkeypatch.setattr(anchor_tune.TuneSettings, "of", classmethod(lambda cls, settings: SIZES))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "samples.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "anchor.safetensors").write_bytes(net.to_bytes())
    paths = ("samples.jsonl", "", "anchor.safetensors", "", "")
    sources = arms.Sources(*(str(tmp_path / path) for path in paths))
    jobs, keys = arms.jobs(
        anchor_tune.listed()[:2], profiles.load("smoke", 0).dip, 0, sources, tmp_path
    )
    found = [anchor_tune.run(job) for job in jobs]
    assert [one["games"] for one in found] == [2, 0] and [one["steps"] for one in found] == [6, 0]
    _, aside = arms.split(jobs[1])
    assert found[1]["kl"] == pytest.approx(samples.policy_kl(aside, net))
    table = arms.table(found, np.random.default_rng(0), 50)
    gap = np.subtract(found[1]["kl"], found[0]["kl"]).mean()
    assert table["difference"].iloc[1] == pytest.approx(gap)
    player = anchor_tune.player(jobs[0])
    turns = orders.turns(anchor_tune.targets(rows, 1)[0].boards)
    rngs = [np.random.default_rng(k) for k in range(len(turns))]
    for turn, joint in zip(turns, player.act(turns, rngs), strict=True):
        turn.check(joint)
    assert player.name == anchor_tune.ALL and len(set(keys)) == 2
