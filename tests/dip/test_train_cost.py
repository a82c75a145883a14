"""The packed training does the work of one sample per unit: the same gradient, fewer tokens."""

from dataclasses import replace

import pytest
import torch

from dipllm_lib.dip import finetune, train_cost
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.lm import adapters
from dipllm_lib.run import profiles

SETTINGS = replace(
    profiles.load("smoke", 0).dip, scratch_hidden=32, scratch_layers=2, finetune_joint_orders=3
)


@pytest.fixture(scope="module")
def rows():
    return train_cost.mid_game_rows(SETTINGS, 0, 1)


def model(rank=0, settings=SETTINGS):
    torch.set_num_threads(1)
    backbone = finetune.backbone(settings, 0)
    adapters.attach(backbone, "orders", rank)
    return backbone


def test_unit_samples_are_the_beginnings_of_joint_orders(rows):
    """One per distinct beginning of the kept joint orders; weights add up by unit."""
    row = next(r for r in rows if len(r["joints"][0]) >= 2)
    backbone = model()
    samples = finetune.build([row], backbone, SETTINGS)
    units = train_cost.unit_samples([row], samples, backbone)
    kept = [tuple(row["joints"][k]) for k in samples[0].kept]
    prefixes = {joint[: d + 1] for joint in kept for d in range(len(joint))}
    assert len(units) == len(prefixes) < sum(map(len, kept))
    first = {}
    for joint, weight in zip(kept, samples[0].weights, strict=True):
        first[joint[0]] = first.get(joint[0], 0.0) + weight
    found = [u.weights[0] for u in units if u.prompt == samples[0].prompt]
    assert sorted(found) == pytest.approx(sorted(first.values()))
    assert sum(u.weights[0] for u in units) == pytest.approx(len(kept[0]))


@pytest.mark.parametrize(("rank", "softmax"), [(0, "tokens"), (4, "legal")])
def test_gradients_are_equal(rows, rank, softmax):
    backbone = model(rank)
    for name, parameter in adapters.trainable(backbone):
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(1))
    settings = replace(FinetuneSettings.of(SETTINGS), softmax=softmax)
    samples = finetune.build(rows, backbone, SETTINGS)
    units = train_cost.unit_samples(rows, samples, backbone)
    peer = train_cost.gradient(backbone, units, settings)
    for pack in ("position", "turn"):
        ours = train_cost.gradient(backbone, samples, replace(settings, pack=pack))
        assert (ours - peer).norm() < 1e-4 * peer.norm()


def test_cost_rows(rows):
    told = []
    found = train_cost.cost(model(), rows, SETTINGS, passes=1, sample=8, note=told.append)
    assert [set(row) for row in found] == [{"name", "ours", "peer", "unit", "ratio"}] * 2
    assert all(row["ratio"] == row["ours"] / row["peer"] > 1 for row in found)
    assert len(told) == 1 and "7 power-turns" in told[0]


@pytest.mark.slow
def test_packed_training_is_five_times_faster():
    settings = profiles.load("smoke", 0).dip
    rows = train_cost.mid_game_rows(settings, 0, 2)
    backbone = model(0, settings)
    by_position, by_turn = train_cost.cost(backbone, rows, settings)
    assert by_position["ratio"] >= 5 and by_turn["ratio"] > 1
