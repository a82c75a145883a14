"""Bargaining by alternating offers as a language game.

In round t = 0, 1, … player t mod 2 keeps a share k of the pie, the other accepts or refuses. After
T refusals both get 0. Two forms of impatience:

    discounting   a share x accepted in round t pays δ^t x
    breakdown     after each refusal talks end with probability 1 - p and both get 0

With breakdown T may be open. When it ends is drawn by `reset` and hidden. The exact solutions are
in `bargaining_exact`.

Shapes: A = grid + 1 shares k = 0, 1/grid, …, 1. Payoffs are shares of the pie; texts count it as
100.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from dipllm_lib.kto import games
from dipllm_lib.kto.games import ACCEPT, ANSWERS

PIE = 100


@dataclass(frozen=True)
class State:
    """round from 0 · keep: offer on the table, -1 for none · limit: rounds until talks end, -1 for
    never · refused: last share of each player that was refused, -1 for none · done, agreed."""

    limit: int
    round: int = 0
    keep: int = -1
    refused: tuple[int, int] = (-1, -1)
    done: bool = False
    agreed: bool = False


@dataclass(frozen=True)
class AlternatingOffers:
    """The game with a discount `delta`, or with a chance `go_on` (p) that talks survive a refusal.

    grid: steps of the pie, a divisor of 100 · rounds: T, None for open, which needs go_on < 1.
    """

    grid: int = 10
    rounds: int | None = 6
    delta: float = 1.0
    go_on: float = 1.0
    name: str = field(default="Bargaining", init=False)
    players: int = field(default=2, init=False)
    scale: float = field(default=1.0, init=False)
    worst: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.grid < 1 or PIE % self.grid:
            raise ValueError(f"grid {self.grid} of the bargaining: need a divisor of {PIE}")
        if not (0.0 < self.delta <= 1.0 and 0.0 <= self.go_on <= 1.0):
            raise ValueError(
                f"delta {self.delta}, go_on {self.go_on}: need 0 < delta <= 1, 0 <= go_on <= 1"
            )
        if self.delta < 1.0 and self.go_on < 1.0:
            raise ValueError("delta < 1 and go_on < 1: choose discounting or breakdown, not both")
        if self.rounds is None and self.go_on == 1.0:
            raise ValueError("open bargaining without breakdown may never end: give rounds")
        if self.rounds is not None and self.rounds < 1:
            raise ValueError(f"rounds {self.rounds} of the bargaining: need at least one")

    @property
    def shares(self) -> np.ndarray:
        """(A,) shares that a proposer can keep."""
        return np.arange(self.grid + 1) / self.grid

    def reset(self, rng: np.random.Generator) -> State:
        """Draws the round after which talks end, if they can."""
        if self.go_on == 1.0:
            return State(-1)
        return State(int(rng.geometric(1.0 - self.go_on)))

    def to_move(self, state: State) -> tuple[int, ...]:
        """The proposer of the round, then the other."""
        if state.done:
            return ()
        proposer = state.round % 2
        return (proposer,) if state.keep < 0 else (1 - proposer,)

    def observe(self, state: State, player: int, setting: str = "", forecast: str = "") -> str:
        """The prompt; see `Game`."""
        games.check_turn(self, state, player)
        cue = "I keep" if state.keep < 0 else f"They keep {self._percent(state.keep)}. I"
        if self.rounds is not None:
            cue = f"Round {state.round + 1} of {self.rounds}. {cue}"
        return games.prompt(self._rules(), cue, setting, forecast)

    def legal(self, state: State, player: int) -> tuple[str, ...]:
        """Shares to keep, or the two answers."""
        games.check_turn(self, state, player)
        if state.keep >= 0:
            return ANSWERS
        return tuple(f" {self._percent(i)}." for i in range(self.grid + 1))

    def step(self, state: State, actions: tuple[int, ...]) -> State:
        """An offer, an agreement, or a refusal that may be the last."""
        games.check_actions(self, state, actions)
        if state.keep < 0:
            return replace(state, keep=int(actions[0]))
        if actions[0] == ACCEPT:
            return replace(state, done=True, agreed=True)
        refused = list(state.refused)
        refused[state.round % 2] = state.keep
        over = state.round + 1 in (self.rounds, state.limit)
        return replace(state, round=state.round + 1, keep=-1, refused=tuple(refused), done=over)

    def payoffs(self, state: State) -> tuple[float, float]:
        """Shares of both, discounted; 0, 0 without agreement."""
        games.check_over(self, state)
        if not state.agreed:
            return 0.0, 0.0
        worth = self.delta**state.round
        left = self.grid - state.keep
        both = worth * state.keep / self.grid, worth * left / self.grid
        return both if state.round % 2 == 0 else both[::-1]

    def infoset(self, state: State, player: int) -> Hashable:
        """Parameters, the round if their number is known, and the offer on the table.

        Earlier offers are left out: they change nothing that can still be had.
        """
        games.check_turn(self, state, player)
        at = state.round if self.rounds is not None else None
        rules = (self.grid, self.rounds, self.delta, self.go_on)
        return self.name, rules, player, at, state.keep

    def batna(self, player: int) -> float:
        """Both get 0 without agreement."""
        return 0.0

    def _percent(self, index: int) -> int:
        return PIE * index // self.grid

    def _rules(self) -> str:
        rules = f"Bargaining. Pie {PIE}."
        if self.go_on < 1.0:
            chance = f"{100 * (1 - self.go_on):g}"
            return f"{rules} A refusal ends it with chance {chance}. Then both get 0."
        if self.delta < 1.0:
            return f"{rules} Each refusal cuts it to {100 * self.delta:g} percent."
        return rules
