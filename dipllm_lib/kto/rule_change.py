"""A game whose parameters change at one round.

`before` and `after` are two parametrisations of one repeated game: two `IteratedPD` of one length,
or two `Repetition` of one class of game and one length. Rounds 0 … at-1 are played and paid by
`before`, rounds at … T-1 by `after`; a past round keeps its payoff. The payoff of an episode is the
mean over all rounds.

    announced   from round `at` on the prompt begins "New rules." and states those of `after`
    silent      the prompt goes on stating those of `before`; only payoffs tell

A silent change therefore needs the same legal texts before and after it. A change of the opponent
is `Switching`, a chooser, and no change of the game.

Shapes: T rounds.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dipllm_lib.kto import games
from dipllm_lib.kto.games import Chooser, Game
from dipllm_lib.kto.repeated import IteratedPD
from dipllm_lib.kto.repetition import Repetition

Inner = IteratedPD | Repetition


@dataclass(frozen=True)
class RuleChange:
    """before, after: the game under both rules · at: first round of the new ones, 1 … T-1."""

    before: Inner
    after: Inner
    at: int
    announced: bool = True

    def __post_init__(self) -> None:
        if _kind(self.before) != _kind(self.after):
            raise ValueError(
                f"rules change from {self.before.name} to {self.after.name}: need the same game"
            )
        if not 1 <= self.at < self.before.rounds:
            raise ValueError(f"change at round {self.at}: need 1 to {self.before.rounds - 1}")

    @property
    def name(self) -> str:
        """Of the game."""
        return f"{self.before.name} with a change"

    @property
    def players(self) -> int:
        """Of the game."""
        return self.before.players

    @property
    def scale(self) -> float:
        """The larger one, so that a change is measured in one unit."""
        return max(self.before.scale, self.after.scale)

    @property
    def worst(self) -> float:
        """The lower one."""
        return min(self.before.worst, self.after.worst)

    @property
    def rounds(self) -> int:
        """T."""
        return self.before.rounds

    def reset(self, rng: np.random.Generator) -> Any:
        """What both draw; the rounds from `at` on take what `after` has drawn."""
        first, second = self.before.reset(rng), self.after.reset(rng)
        return self.before.splice(first, second, self.at)

    def to_move(self, state: Any) -> tuple[int, ...]:
        """Those of the game in force."""
        return self.in_force(state).to_move(state)

    def observe(self, state: Any, player: int, setting: str = "", forecast: str = "") -> str:
        """The prompt of the rules that the player is told; see `Game`."""
        text = self._told(state).observe(state, player, setting, forecast)
        return f"New rules. {text}" if self._new(state) and self.announced else text

    def legal(self, state: Any, player: int) -> tuple[str, ...]:
        """Those of the game in force; ValueError if a silent change would betray itself."""
        texts = self.in_force(state).legal(state, player)
        if self._told(state).legal(state, player) != texts:
            raise ValueError("a silent change of the legal texts is not possible: announce it")
        return texts

    def step(self, state: Any, actions: tuple[int, ...]) -> Any:
        """One step under the rules in force."""
        return self.in_force(state).step(state, actions)

    def payoffs(self, state: Any) -> tuple[float, ...]:
        """Means over all rounds, each under its own rules."""
        games.check_over(self, state)
        return tuple(self.round_payoffs(state).mean(axis=0).tolist())

    def round_of(self, state: Any) -> int:
        """Number of finished rounds."""
        return self.before.round_of(state)

    def round_payoffs(self, state: Any) -> np.ndarray:
        """(t, players) payoffs of the finished rounds, each under its own rules."""
        first, second = self.before.round_payoffs(state), self.after.round_payoffs(state)
        return np.concatenate([first[: self.at], second[self.at :]])

    def infoset(self, state: Any, player: int) -> Hashable:
        """That of the rules that the player is told, and whether a change was announced."""
        new = self._new(state) and self.announced
        return self.name, new, self._told(state).infoset(state, player)

    def batna(self, player: int) -> float:
        """The lower one."""
        return min(self.before.batna(player), self.after.batna(player))

    def in_force(self, state: Any) -> Inner:
        """The game by whose rules this round is played."""
        return self.after if self._new(state) else self.before

    def _new(self, state: Any) -> bool:
        return self.round_of(state) >= self.at

    def _told(self, state: Any) -> Inner:
        return self.after if self._new(state) and self.announced else self.before


@dataclass(frozen=True)
class Switching:
    """A chooser that is `before` in rounds 0 … at-1 and `after` from then on: an opponent that
    changes its type. For games with `round_of`."""

    before: Chooser
    after: Chooser
    at: int

    def __call__(self, game: Game, state: Any, player: int, rng: np.random.Generator) -> int | str:
        """What the chooser of this round says."""
        chooser = self.after if game.round_of(state) >= self.at else self.before
        return chooser(game, state, player, rng)


def _kind(game: Inner) -> tuple:
    """What must not change: the class, the number of rounds and what is remembered."""
    if isinstance(game, Repetition):
        return Repetition, type(game.game), game.rounds, game.window, game.counted
    if not isinstance(game, IteratedPD):
        raise ValueError(f"{type(game).__name__} has no rounds: put it into a Repetition")
    if game.delta is not None:
        raise ValueError("rules change at a round of a known length: give rounds, not delta")
    return IteratedPD, game.rounds, game.labels, game.window, game.counted
