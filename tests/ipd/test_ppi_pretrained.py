"""A model that has learned its D_0: the gate opens, and the learned Q is that of the rollouts."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dipllm_lib.ipd import batch_play, ppi, ppi_data, ppi_q, ppi_settings
from dipllm_lib.ipd.batch_play import Table
from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.run import seeding

SETTINGS = replace(
    ppi_settings.CPU,
    model=ModelSettings(hidden=32, rounds=30),
    rounds=30,
    first_games=10_000,
    first_steps=2_000,
    tabular_share=1.0,
)
MC = replace(SETTINGS, q="mc", rollouts=64)


@pytest.mark.slow
def test_gate_and_head_against_rollouts():
    """Bias of the learned Q(C) - Q(D) below .15 in each round that is looked at."""
    run = ppi.PPI(SETTINGS, [(0, 0)])
    run.pretrain()
    assert abs(run.gap[0]) < SETTINGS.gate
    codes = ppi_data.random_games(run.agents, SETTINGS, 200, "compare")[0]
    obs = torch.from_numpy(batch_play.before(codes).astype(np.int64))
    actors = [
        ppi_q.Improved(run.stack, s, streams=[seeding.child(0, "mc")]) for s in (SETTINGS, MC)
    ]
    found = []
    with torch.inference_mode():
        states = [actor.start(Table(0, torch.zeros((1, 200, 5)))) for actor in actors]
        for t in range(SETTINGS.rounds - SETTINGS.horizon + 1):
            features, states[0] = run.stack.step(states[0], obs[..., t])
            if t in (0, 5, 10, 15):
                heads = run.stack.read(features)
                quiet = torch.zeros(1, 200)
                given = [a.difference(states[0], heads, obs[..., t], quiet) for a in actors]
                found.append([x.numpy()[0] for x in given])
    head, rollouts = np.array(found).transpose(1, 0, 2)
    assert np.abs((head - rollouts).mean(axis=1)).max() < 0.15
    # Both see the same games as worth a C: what they agree on is more than their means.
    late = np.corrcoef(head[-1], rollouts[-1])[0, 1]
    assert late > 0.3 and head.mean() < -0.5
    print(run.gap, (head - rollouts).mean(axis=1), late, head.mean(axis=1))
