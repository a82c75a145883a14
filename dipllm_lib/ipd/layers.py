"""Layers with weights for A agents: one leading axis on every weight, and products as `bmm`.

An agent's numbers are drawn from its own generator, so they depend on nothing but its seed.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn


def stacked(draw, generators: Sequence[np.random.Generator]) -> nn.Parameter:
    """(A, …) float32: `draw(rng)` of every agent's generator."""
    return nn.Parameter(
        torch.tensor(np.stack([draw(rng) for rng in generators]).astype(np.float32))
    )


def uniform(generators, shape: tuple[int, ...], bound: float) -> nn.Parameter:
    """(A, *shape) from U(-bound, bound)."""
    return stacked(lambda rng: rng.uniform(-bound, bound, shape), generators)


class Linear(nn.Module):
    """y = x W + b for every agent. weight (A, inputs, outputs), bias (A, outputs).

    Both start at U(-1, 1)/sqrt(inputs), the default of PyTorch's linear layer, or at 0.
    """

    def __init__(self, generators, inputs: int, outputs: int, zero: bool = False):
        super().__init__()
        bound = 0.0 if zero else inputs**-0.5
        self.weight = uniform(generators, (inputs, outputs), bound)
        self.bias = uniform(generators, (outputs,), bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (A, …, inputs) -> (A, …, outputs)."""
        flat = x.reshape(len(x), -1, x.shape[-1])
        y = torch.baddbmm(self.bias.unsqueeze(1), flat, self.weight)
        return y.reshape(*x.shape[:-1], y.shape[-1])

    def columns(self, x: torch.Tensor) -> torch.Tensor:
        """The same, each output contiguous: few outputs of many rows are then cheap to take apart,
        forward and backward.
        """
        flat = x.reshape(len(x), -1, x.shape[-1]).transpose(1, 2)
        y = torch.baddbmm(self.bias.unsqueeze(2), self.weight.transpose(1, 2), flat)
        return y.reshape(len(x), -1, *x.shape[1:-1]).movedim(1, -1)


class LayerNorm(nn.Module):
    """Each vector to mean 0 and variance 1, then an agent's own scale and shift (A, width)."""

    def __init__(self, generators, width: int):
        super().__init__()
        self.weight = stacked(lambda _: np.ones(width), generators)
        self.bias = stacked(lambda _: np.zeros(width), generators)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (A, n, S, width) -> the same shape."""
        normal = nn.functional.layer_norm(x, x.shape[-1:])
        return torch.addcmul(self.bias[:, None, None], normal, self.weight[:, None, None])
