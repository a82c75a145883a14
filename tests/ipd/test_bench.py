"""The cost table of the dilemma: its form, and that both sides of it compute the same."""

import dataclasses

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import bench, models, ppi_q, ppi_settings
from dipllm_lib.run import seeding

SETTINGS = dataclasses.replace(ppi_settings.SMOKE, batch=8)
UNITS = ["rounds/s", "rounds/s", "rounds/s", "rollouts/s"]


@pytest.fixture
def stack() -> models.Stack:
    return models.build(SETTINGS.model, [seeding.child(2, "bench", i) for i in range(2)])


@pytest.fixture
def codes() -> np.ndarray:
    return seeding.child(2, "codes").integers(1, 5, (2, 8, 20)).astype(np.uint8)


def test_rows_of_the_table():
    notes = []
    rows = bench.bench_ipd(True, notes.append)
    assert [list(row) for row in rows] == [["name", "ours", "peer", "unit", "ratio"]] * 4
    assert [row["name"].split(",")[0] for row in rows] == ["training"] * 2 + ["acting", "rollouts"]
    assert [row["unit"] for row in rows] == UNITS
    assert all(row["ratio"] == pytest.approx(row["ours"] / row["peer"]) for row in rows)
    assert len(notes) == 1 and notes[0].startswith("20 agents, 3845 parameters each, 50 rounds")


@pytest.mark.parametrize("cells", [True, False])
def test_both_sides_take_the_same_training_step(stack, codes, cells):
    """Equal losses and equal gradients; without a clip, since torch's extra biases have a norm."""
    free = dataclasses.replace(SETTINGS, clip_norm=1e9)
    plains = [bench.Plain(stack, i, cells) for i in range(2)]
    alone = [bench.plain_step(plain, codes[i], free)()[0] for i, plain in enumerate(plains)]
    assert np.allclose(bench.stack_step(stack, codes, free)(), alone, rtol=0, atol=1e-5)
    for i, plain in enumerate(plains):
        ours = (stack.core.input, stack.core.hidden, stack.core.bias, stack.readout["heads"].weight)
        inputs, hidden, bias = list(plain.core.parameters())[:3]
        for a, b in zip(ours, (inputs, hidden, bias, plain.heads.weight), strict=True):
            assert torch.allclose(
                a.grad[i], b.grad.mT if b.dim() > 1 else b.grad, rtol=0, atol=1e-5
            )


@torch.no_grad()
def test_both_sides_roll_out_the_same_futures(stack, codes):
    obs = bench.observations(codes[:, :, :6])
    streams = [seeding.child(2, "chance", i) for i in range(2)]
    chance = ppi_q.uniforms(streams, 8, SETTINGS)
    found = bench.differences(stack, obs, chance, SETTINGS)
    assert found.shape == (2, 8) and found.std() > 0.5
    for i in range(2):
        plain = bench.Plain(stack, i)
        alone = bench.plain_differences(plain, obs[i], chance[:, :, i], SETTINGS)
        assert torch.allclose(alone, found[i], rtol=0, atol=1e-5)
