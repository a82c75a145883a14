"""A one-shot game played again and again by the same players, with a memory of past rounds.

The payoff of an episode is the mean over its rounds. The prompt shows the actions of the last
rounds in the words of the game, oldest first, and the own gain of the last one:

    Ultimatum. Pie 100. If refused, both get 0. Past 40 accept. 30 refuse. I last got 0. Turn 3 of
    20. I offer

All chance is drawn by `reset`: a start for every round.

Shapes: t finished rounds.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dipllm_lib.kto import games
from dipllm_lib.kto.games import Game

WINDOW = 8


@dataclass(frozen=True)
class State:
    """starts: first state of every round · now: state of the round at work · actions: legal texts
    said in it so far · past: (last state, texts) of each finished round."""

    starts: tuple[Any, ...]
    now: Any
    actions: tuple[str, ...] = ()
    past: tuple[tuple[Any, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Repetition:
    """`rounds` rounds of `game`; window: past rounds that are seen · counted: the round number is
    seen."""

    game: Game
    rounds: int
    window: int = WINDOW
    counted: bool = True
    name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.window < 0:
            raise ValueError(f"rounds {self.rounds}, window {self.window}: need >= 1 and >= 0")
        object.__setattr__(self, "name", f"Repeated {self.game.name}")

    @property
    def players(self) -> int:
        """Those of the game."""
        return self.game.players

    @property
    def scale(self) -> float:
        """That of the game."""
        return self.game.scale

    @property
    def worst(self) -> float:
        """The worst payoff of a round: that of all of them is not lower."""
        return self.game.worst

    def reset(self, rng: np.random.Generator) -> State:
        """Draws what `game` draws, for every round."""
        starts = tuple(self.game.reset(rng) for _ in range(self.rounds))
        return State(starts, starts[0])

    def to_move(self, state: State) -> tuple[int, ...]:
        """Those of the round; () when all rounds are over."""
        return () if self.round_of(state) == self.rounds else self.game.to_move(state.now)

    def observe(self, state: State, player: int, setting: str = "", forecast: str = "") -> str:
        """The prompt of the round with the memory before its cue; see `Game`."""
        games.check_turn(self, state, player)
        before = " ".join(part for part in (forecast, self._memory(state, player)) if part)
        return self.game.observe(state.now, player, setting, before)

    def legal(self, state: State, player: int) -> tuple[str, ...]:
        """Those of the round."""
        games.check_turn(self, state, player)
        return self.game.legal(state.now, player)

    def step(self, state: State, actions: tuple[int, ...]) -> State:
        """One step of the round, and the start of the next one when it is over."""
        games.check_actions(self, state, actions)
        movers = self.game.to_move(state.now)
        said = zip(movers, actions, strict=True)
        texts = (*state.actions, *(self.game.legal(state.now, i)[a].strip(" .") for i, a in said))
        now = self.game.step(state.now, actions)
        if self.game.to_move(now):
            return replace(state, now=now, actions=texts)
        past = (*state.past, (now, texts))
        following = state.starts[len(past)] if len(past) < self.rounds else now
        return State(state.starts, following, (), past)

    def payoffs(self, state: State) -> tuple[float, ...]:
        """Means over the rounds."""
        games.check_over(self, state)
        return tuple(self.round_payoffs(state).mean(axis=0).tolist())

    def round_of(self, state: State) -> int:
        """Number of finished rounds."""
        return len(state.past)

    def round_payoffs(self, state: State) -> np.ndarray:
        """(t, players) payoffs of the finished rounds."""
        rows = [self.game.payoffs(end) for end, _ in state.past]
        return np.array(rows, dtype=np.float64).reshape(-1, self.players)

    def infoset(self, state: State, player: int) -> Hashable:
        """That of the round, the rounds of the window, the last gain and the round number."""
        games.check_turn(self, state, player)
        counted = (self.round_of(state), self.rounds) if self.counted else None
        seen = tuple(texts for _, texts in self._window(state))
        inner = self.game.infoset(state.now, player)
        return self.name, inner, seen, self._last_gain(state, player), counted

    def batna(self, player: int) -> float:
        """That of the game."""
        return self.game.batna(player)

    def splice(self, first: State, second: State, at: int) -> State:
        """The new state `first` with what `second` has drawn from round `at` on."""
        starts = first.starts[:at] + second.starts[at:]
        return State(starts, starts[0])

    def _window(self, state: State) -> tuple:
        return state.past[max(0, len(state.past) - self.window) :]

    def _last_gain(self, state: State, player: int) -> int | None:
        """Own payoff of the last round in per cent, None before the second round."""
        if not state.past or not self.window:
            return None
        return round(100 * self.game.payoffs(state.past[-1][0])[player])

    def _memory(self, state: State, player: int) -> str:
        seen, gain = self._window(state), self._last_gain(state, player)
        parts = []
        if seen:
            parts.append("Past " + " ".join(" ".join(texts) + "." for _, texts in seen))
            parts.append(f"I last got {gain}.")
        if self.counted:
            parts.append(f"Turn {self.round_of(state) + 1} of {self.rounds}.")
        return " ".join(parts)
