"""What enters a core in a round, as tables over the five observations.

Every modality of a round is a function of its observation o: the observation itself, the own action
and the reward of the round before. So an embedding is a row of a table (A, 5, width), and a
product of one-hot rows with such a table is all that a core does per round.
"""

import torch
from torch import nn

from dipllm_lib.ipd.layers import Linear
from dipllm_lib.ipd.model_settings import ACTIONS, OWN, ModelSettings


class Tokens(nn.Module):
    """The linear layers of the modalities. width: of each; joint has the observation only."""

    def __init__(self, settings: ModelSettings, generators, width: int):
        super().__init__()
        self.input = settings.input
        self.observation = Linear(generators, settings.codes, width)
        self.single = settings.learner == "a2c" or self.input == "joint"
        if not self.single:
            self.action = Linear(generators, ACTIONS, width)
            self.reward = Linear(generators, 1, width)
        rewards = torch.tensor(settings.rewards).unsqueeze(1)
        self.register_buffer("rewards", rewards, persistent=False)
        own = torch.eye(ACTIONS)[list(OWN)]
        own[0] = 0.0  # before the first round there is no action
        self.register_buffer("own", own, persistent=False)

    @property
    def width(self) -> int:
        """Width of one token."""
        beside = self.input == "concat" and not self.single
        return self.observation.bias.shape[1] * (3 if beside else 1)

    def observations(self) -> torch.Tensor:
        """(A, codes, width) of the observation alone."""
        return self.observation.weight + self.observation.bias.unsqueeze(1)

    def actions(self) -> torch.Tensor:
        """(A, 2, width) of the own actions C, D."""
        return self.action.weight + self.action.bias.unsqueeze(1)

    def rewarded(self) -> torch.Tensor:
        """(A, 5, width) of the reward that came with each observation."""
        return self.reward(self.rewards.expand(len(self.reward.weight), -1, -1))

    def rounds(self) -> torch.Tensor:
        """(A, 5, width): the one token of a round; of the observation if there are three."""
        seen = self.observations()
        if self.single or self.input == "interleaved":
            return seen
        acted = self.action(self.own.expand(len(seen), -1, -1))
        all_three = (seen, acted, self.rewarded())
        return torch.cat(all_three, -1) if self.input == "concat" else sum(all_three)
