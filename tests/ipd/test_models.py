"""Stacked sequence models: sizes, two ways to run them, and agents that share nothing."""

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import models
from dipllm_lib.ipd.models import ModelSettings
from dipllm_lib.run import seeding


def built(agents: int = 2, **fields) -> models.Stack:
    names = [seeding.child(5, "models", i) for i in range(agents)]
    return models.build(ModelSettings(**fields), names)


def episodes(agents: int = 2, n: int = 3, rounds: int = 6, name: str = "obs") -> torch.Tensor:
    return torch.from_numpy(seeding.child(5, name).integers(0, 5, (agents, n, rounds)))


SIZES = [
    (3_845, {"hidden": 32}),
    (8_069, {"hidden": 48}),
    (52_229, {"hidden": 128}),
    (63_336, {"hidden": 128, "input": "interleaved", "q_head": False}),
    (63_336, {"hidden": 128, "input": "summed", "q_head": False}),
    (87_912, {"hidden": 128, "input": "concat", "q_head": False}),
    (62_531, {"hidden": 128, "input": "interleaved", "learner": "a2c"}),
]


@pytest.mark.parametrize("size, fields", SIZES)
def test_parameters_of_one_agent(size, fields):
    assert built(**fields).parameters_per_agent() == size


def stepped(stack, obs, z=None):
    state, rounds = stack.start(obs.shape[1], z), []
    for t in range(obs.shape[2]):
        features, state = stack.step(state, obs[:, :, t])
        rounds.append(features)
    return torch.stack(rounds, 2)


@pytest.mark.parametrize("fields", [{}, {"input": "interleaved"}, {"input": "summed"}])
def test_an_unrolled_episode_is_its_steps(fields):
    stack, obs = built(**fields), episodes()
    assert np.allclose(stack.unroll(obs).detach(), stepped(stack, obs).detach(), atol=1e-5)
