"""A tiny scratch model (34 thousand weights) and hand-made choices for the tests of `lm`."""

import pytest
import torch

from dipllm_lib.lm import backbones

WORDS = (*(f"w{i}" for i in range(1, 40)), ";", "\n")


class Table:
    """A choice whose slots do not depend on each other: a list of options per slot."""

    def __init__(self, *slots):
        self.slots = [list(slot) for slot in slots]

    def options(self, chosen):
        return self.slots[len(chosen)] if len(chosen) < len(self.slots) else []


@pytest.fixture
def table():
    return Table


@pytest.fixture
def tiny():
    """Makes a fresh scratch backbone; keyword arguments go to `backbones.load`."""
    torch.set_num_threads(1)

    def make(**changes):
        sizes = {"hidden": 32, "layers": 2, "heads": 2, "words": WORDS, "seed": 0}
        return backbones.load("scratch", **(sizes | changes))

    return make
