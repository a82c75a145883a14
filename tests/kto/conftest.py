"""A tiny scratch model that reads the texts of the games, and contexts of the ultimatum."""

import pytest
import torch

from dipllm_lib.kto import gift, ultimatum, vocabulary
from dipllm_lib.kto.policies import Context
from dipllm_lib.lm import backbones


@pytest.fixture
def offers():
    """Contexts of the proposer under some settings."""

    def make(letters="ABCDEF", game=ultimatum.Ultimatum(), player=0, state=None):
        state = state or ultimatum.State()
        return [
            Context((letter, state), game.observe(state, player, letter), game.legal(state, player))
            for letter in letters
        ]

    return make


@pytest.fixture
def gifts():
    """Contexts of the second mover of the gift game after each first gift, setting A."""
    game, states = gift.GiftPD(), [gift.State(k) for k in range(11)]
    return [Context(s, game.observe(s, 1, "A"), game.legal(s, 1)) for s in states]


@pytest.fixture
def tiny():
    """Makes a fresh scratch backbone; keyword arguments go to `backbones.load`."""
    torch.set_num_threads(1)

    def make(**changes):
        sizes = {"hidden": 32, "layers": 2, "heads": 2, "words": vocabulary.words(), "seed": 0}
        return backbones.load("scratch", **(sizes | changes))

    return make
