"""The language model of notebook 03 at play: players that can be sent to another process.

The adapter lies in a folder; `Stored` names it and how the model is asked, and opens it where it
plays. So games with language models are tasks like those of any other player (`chunks`). Players of
the same weights share one model in a process, and a process keeps MODELS of them open.

At play the adapter is part of the base weights (`adapters.merge`), which saves a quarter of the CPU
time of a decision. In bfloat16 the sums are rounded: on 50 held-out power-turns in profile `cpu`
the log-probabilities of 917 joint orders moved by 0.05 nats on average and 0.41 at most. That is
what bfloat16 does anyway: with float32 weights they lie 0.042 nats on average from those with the
adapter beside the weights, 0.044 from those with the adapter in them.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipllm_lib.dip import agent, collect, finetune, variants
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.policies import Policy
from dipllm_lib.lm import adapters
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run.profiles import DiplomacySettings

MODELS = 2  # that a process keeps open: with the adapter and without
PLAYERS = 8  # cost nothing beside their model
NAME = "dipllm"  # under which an adapter is attached


@dataclass(frozen=True)
class Weights:
    """Where a model comes from. folder: of its adapter, "" for the backbone as it is."""

    settings: DiplomacySettings
    seed: int
    folder: str = ""
    offline: bool = True


@dataclass(frozen=True)
class Stored:
    """A language model as a player.

    anchor: file of the anchor that narrows its orders · way: one of `variants.ARMS`, "" as the
    settings say · temperature: None for that of the settings
    """

    name: str
    weights: Weights
    anchor: str
    way: str = ""
    temperature: float | None = None

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn, each drawn from its own generator."""
        return opened(self).act(turns, rngs)


@functools.lru_cache(maxsize=MODELS)
def model(weights: Weights) -> Backbone:
    """The model itself. FileNotFoundError for a folder without an adapter."""
    found = finetune.backbone(weights.settings, weights.seed, weights.offline)
    if weights.folder:
        adapters.load(found, weights.folder, NAME)
        adapters.merge(found)
    return found


@functools.lru_cache(maxsize=PLAYERS)
def opened(stored: Stored) -> Policy:
    """The player itself."""
    settings, anchor = stored.weights.settings, collect.tau(stored.anchor)
    found = model(stored.weights)
    if stored.way:
        found = variants.player(stored.way, found, settings, anchor, stored.name)
    else:
        found = agent.player(found, settings, anchor, stored.name)
    return found if stored.temperature is None else found.at(stored.temperature)
