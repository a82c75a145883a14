"""Sequence models of the dilemma: a GRU as published and a causal Transformer, one interface.

    settings = ModelSettings(core="gru", input="joint", hidden=32)
    stack = build(settings, [seeding.child(seed, "ipd", "weights", i) for seed in seeds])
    features = stack.unroll(obs)                            # (A, n, T, F), training
    state = stack.start(n)
    features, state = stack.step(state, obs[:, :, 0])       # (A, n, F), play
    heads = stack.read(features)                            # own, reply, q | policy, value

Pairs of actions are in the order C, D everywhere. Settings and layouts are in `model_settings`, the
cores in `gru` and `transformer`, the heads and the stack of agents in `stack`.
"""

from collections.abc import Sequence

import numpy as np

from dipllm_lib.ipd.model_settings import ModelSettings
from dipllm_lib.ipd.stack import Stack, join

__all__ = ["ModelSettings", "Stack", "build", "join"]


def build(settings: ModelSettings, generators: Sequence[np.random.Generator]) -> Stack:
    """A stack of untrained agents, one generator for each one's first weights.

    An agent's weights depend on its generator only, not on the others. The core is drawn before the
    heads, so PPI and A2C models of one generator and layout start with the same core.
    """
    if len(generators) == 0:
        raise ValueError("a stack needs at least one agent: give one generator for each")
    return Stack(settings, generators)
