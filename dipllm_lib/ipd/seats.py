"""Players of `game` in the seats of stacked agents, and players whose hand trembles.

`batch_play` steps A agents with n games each; a `game.Player` plays any number of games. `Seated`
lets one player take all A seats, with a state of A n games. So a player without a network, such as
the certainty-equivalent one, meets trained agents, and either can be measured against the same
opponents.

Shapes: A agents, n games of each.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dipllm_lib.ipd.batch_play import Table
from dipllm_lib.ipd.game import Player


@dataclass(frozen=True)
class Seated:
    """An Actor of `batch_play` in which every agent plays as `player`."""

    player: Player
    chunk: int = 4096

    def start(self, table: Table) -> None:
        """The state: None before the first round, when the number of agents is known."""
        return None

    def act(
        self, state: Any, obs: torch.Tensor, u: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, Any]:
        """Actions bool (A, n) and the next state; `noise` is not used."""
        state = self.player.start(obs.numel()) if state is None else state
        seen = obs.numpy().astype(np.uint8).ravel()
        actions, state = self.player.act(state, seen, u.numpy().ravel())
        return torch.from_numpy(actions.astype(bool)).reshape(obs.shape), state


@dataclass(frozen=True)
class Trembling:
    """A deterministic player whose every action is flipped with probability `rate` in [0, 1].

    The uniform number of a round decides about the flip, so the player itself must not use it.
    """

    player: Player
    rate: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise ValueError(f"tremble rate {self.rate} lies outside [0, 1]")

    def start(self, n: int) -> Any:
        """The player's own state of n games."""
        return self.player.start(n)

    def act(self, state: Any, obs: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, Any]:
        """The player's action, or the other one where u < rate."""
        actions, state = self.player.act(state, obs, u)
        return (actions ^ (u < self.rate)).astype(np.uint8), state
