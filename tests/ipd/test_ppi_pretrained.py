"""A model that has learned its D_0: the gate opens, and the learned Q is that of the rollouts."""

import math
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
    model=ModelSettings(hidden=32, rounds=20),
    rounds=20,
    batch=64,
    first_steps=4_500,
    tabular_share=1.0,
)
MC = replace(SETTINGS, q="mc", rollouts=32)
GAMES = 300


def differences(run, t_max):
    """Q(C) - Q(D) of the head and of rollouts, each (t_max + 1, GAMES), in held-out D_0 games."""
    codes = ppi_data.random_games(run.agents, SETTINGS, GAMES, "compare")[0]
    obs = torch.from_numpy(batch_play.before(codes).astype(np.int64))
    streams = [seeding.child(0, "mc")]
    actors = [ppi_q.Improved(run.stack, s, streams=streams) for s in (SETTINGS, MC)]
    found, quiet = [], torch.zeros(1, GAMES)
    with torch.inference_mode():
        state = actors[0].start(Table(0, torch.zeros((1, GAMES, 5))))
        for t in range(t_max + 1):
            features, state = run.stack.step(state, obs[..., t])
            heads = run.stack.read(features)
            given = [actor.difference(state, heads, obs[..., t], quiet) for actor in actors]
            found.append([x.numpy()[0] for x in given])
    return np.array(found).transpose(1, 0, 2)


@pytest.mark.slow
def test_gate_and_head_against_rollouts():
    """Bias of the learned Q(C) - Q(D) below .15 over the rounds that have targets.

    In the first round it is -1: the opponent's answers to C and to D have the same law. Later it is
    lower, since an own C tells that the own D_0 agent will go on to pay for C.
    """
    run = ppi.PPI(SETTINGS, [(0, 0)])
    run.pretrain()
    assert abs(run.gap[0]) < SETTINGS.gate
    head, rollouts = differences(run, SETTINGS.rounds - SETTINGS.horizon)
    assert abs((head - rollouts).mean()) < 0.15
    assert head[0].mean() == pytest.approx(-1.0, abs=0.25)
    assert head[-1].mean() < -1.5 and rollouts[-1].mean() < -1.5
    by_game = np.corrcoef(head[-1], rollouts[-1])[0, 1]
    assert by_game > 4 / math.sqrt(GAMES)  # four standard errors of no relation
    assert math.isclose(head[0].std(), 0.0, abs_tol=1e-5)  # nothing is known yet
