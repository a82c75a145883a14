"""The gift dilemma: a continuous prisoner's dilemma whose second mover keeps or gives all.

Each holds 1. Player 0 gives g in 0, .1, …, 1; player 1 sees it and gives h = 0 (keep) or 1. A gift
arrives m times as large, m = 2 by default:

    u_0 = 1 - g + m h,       u_1 = 1 - h + m g,       u_0 + u_1 = 2 + (m - 1)(g + h).

Keeping is dominant. With g, h in {0, 1} the payoffs are T = 1 + m, R = m, P = 1, S = 0, hence the
scale 1 + m. The data of the second mover are those of Heffner and FeldmanHall 2022; the multiplier
is ours. Texts count what a player holds as 100.

Shapes: A = 11 gifts.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from dipllm_lib.kto import games

FIRST, SECOND = 0, 1
KEEP, GIVE = 0, 1
CHOICES = (" keep.", " give.")
GRID = 10


@dataclass(frozen=True)
class State:
    """gift of player 0 in tenths and choice of player 1, -1 for not yet made."""

    gift: int = -1
    choice: int = -1


@dataclass(frozen=True)
class GiftPD:
    """The game with a multiplier above 1; payoffs in units of what a player holds."""

    multiplier: int = 2
    name: str = field(default="Gift", init=False)
    players: int = field(default=2, init=False)
    worst: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.multiplier, int) and self.multiplier >= 2):
            raise ValueError(f"multiplier {self.multiplier} of a gift: need a whole number >= 2")

    @property
    def scale(self) -> float:
        """T - S = 1 + m."""
        return 1.0 + self.multiplier

    @property
    def gifts(self) -> np.ndarray:
        """(A,) gifts of the first mover."""
        return np.arange(GRID + 1) / GRID

    def reset(self, rng: np.random.Generator) -> State:
        """The state before the first gift; no chance."""
        return State()

    def to_move(self, state: State) -> tuple[int, ...]:
        """The first mover, then the second."""
        if state.gift < 0:
            return (FIRST,)
        return (SECOND,) if state.choice < 0 else ()

    def observe(self, state: State, player: int, setting: str = "", forecast: str = "") -> str:
        """The prompt; see `Game`."""
        games.check_turn(self, state, player)
        rules = f"Gift. Each holds 100. A gift grows {self.multiplier} times."
        cue = "I give" if player == FIRST else f"They gave {GRID * state.gift}. I"
        return games.prompt(rules, cue, setting, forecast)

    def legal(self, state: State, player: int) -> tuple[str, ...]:
        """Gifts of 0 to 100 by tens, or keep and give."""
        games.check_turn(self, state, player)
        if player == SECOND:
            return CHOICES
        return tuple(f" {GRID * i}." for i in range(GRID + 1))

    def step(self, state: State, actions: tuple[int, ...]) -> State:
        """A gift is made or kept."""
        games.check_actions(self, state, actions)
        return State(actions[0]) if state.gift < 0 else State(state.gift, actions[0])

    def payoffs(self, state: State) -> tuple[float, float]:
        """1 - own gift + m times the other's."""
        games.check_over(self, state)
        first, second = state.gift / GRID, float(state.choice == GIVE)
        m = self.multiplier
        return 1.0 - first + m * second, 1.0 - second + m * first

    def infoset(self, state: State, player: int) -> Hashable:
        """The first gift, once it is made."""
        games.check_turn(self, state, player)
        return self.name, self.multiplier, player, state.gift

    def batna(self, player: int) -> float:
        """Each keeps what it holds."""
        return 1.0


def choice_values(game: GiftPD) -> np.ndarray:
    """(A, 2) payoff of the second mover from keeping and giving after each gift."""
    return 1.0 + game.multiplier * game.gifts[:, None] - np.array([0.0, 1.0])


def gift_values(game: GiftPD, gives: Callable[[np.ndarray], np.ndarray] | np.ndarray) -> np.ndarray:
    """(A,) expected payoff of each first gift against P(give | gift), an array or a function."""
    chances = np.asarray(gives(game.gifts) if callable(gives) else gives, dtype=np.float64)
    if chances.shape != game.gifts.shape or not np.all((chances >= 0.0) & (chances <= 1.0)):
        raise ValueError(
            f"P(give) of shape {chances.shape}: need {game.gifts.shape} numbers in [0, 1]"
        )
    return 1.0 - game.gifts + game.multiplier * chances


def subgame_perfect(game: GiftPD) -> tuple[float, float]:
    """Values of both players under subgame-perfect play: nobody gives."""
    return game.payoffs(State(0, KEEP))
