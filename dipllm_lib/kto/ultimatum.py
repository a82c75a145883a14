"""The ultimatum: one offer, one answer.

    accepted  (1 - o, o),      refused  (0, 0),        o = 0, 1/n, …, 1 on a grid of n + 1 offers

Player 0 proposes, player 1 answers. Payoffs are shares of the pie; texts count the pie as 100.
Subgame-perfect play offers the smallest unit, or 0 if ties are accepted; people are unlike that, so
the exact value of an offer is taken against a given responder:

    value(o) = (1 - o) P(accept | o).

Shapes: A = n + 1 offers.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from dipllm_lib.kto import games
from dipllm_lib.kto.games import ACCEPT, ANSWERS

PROPOSER, RESPONDER = 0, 1
GRIDS = (10, 20, 100)
RULES = "Ultimatum. Pie 100. If refused, both get 0."


@dataclass(frozen=True)
class State:
    """offer and answer: indices of legal texts, -1 for not yet given."""

    offer: int = -1
    answer: int = -1


@dataclass(frozen=True)
class Ultimatum:
    """The game on a grid of 10, 20 or 100 steps; the unit of payoff is the pie."""

    grid: int = 10
    name: str = field(default="Ultimatum", init=False)
    players: int = field(default=2, init=False)
    scale: float = field(default=1.0, init=False)
    worst: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.grid not in GRIDS:
            raise ValueError(f"grid {self.grid} of the ultimatum: use one of {GRIDS}")

    @property
    def offers(self) -> np.ndarray:
        """(A,) offers to the responder, shares of the pie."""
        return np.arange(self.grid + 1) / self.grid

    def reset(self, rng: np.random.Generator) -> State:
        """The state before the offer; no chance."""
        return State()

    def to_move(self, state: State) -> tuple[int, ...]:
        """The proposer, then the responder."""
        if state.offer < 0:
            return (PROPOSER,)
        return (RESPONDER,) if state.answer < 0 else ()

    def observe(self, state: State, player: int, setting: str = "", forecast: str = "") -> str:
        """The prompt; see `Game`."""
        games.check_turn(self, state, player)
        if player == PROPOSER:
            return games.prompt(RULES, "I offer", setting, forecast)
        cue = f"They offer {self._percent(state.offer)}. I"
        return games.prompt(RULES, cue, setting, forecast)

    def legal(self, state: State, player: int) -> tuple[str, ...]:
        """Offers of 0 to 100, or the two answers."""
        games.check_turn(self, state, player)
        if player == RESPONDER:
            return ANSWERS
        return tuple(f" {self._percent(i)}." for i in range(self.grid + 1))

    def step(self, state: State, actions: tuple[int, ...]) -> State:
        """The offer or the answer is given."""
        games.check_actions(self, state, actions)
        return State(actions[0]) if state.offer < 0 else State(state.offer, actions[0])

    def payoffs(self, state: State) -> tuple[float, float]:
        """Shares of the pie of proposer and responder."""
        games.check_over(self, state)
        if state.answer != ACCEPT:
            return 0.0, 0.0
        return 1.0 - state.offer / self.grid, state.offer / self.grid

    def infoset(self, state: State, player: int) -> Hashable:
        """The offer, once it is made."""
        games.check_turn(self, state, player)
        return self.name, self.grid, player, state.offer

    def batna(self, player: int) -> float:
        """Both get 0 without agreement."""
        return 0.0

    def _percent(self, index: int) -> int:
        return 100 * index // self.grid


def offer_values(
    game: Ultimatum, accepts: Callable[[np.ndarray], np.ndarray] | np.ndarray
) -> np.ndarray:
    """(A,) expected payoff of each offer, (1 - o) P(accept | o).

    accepts: the probabilities (A,), or a function of the offers such as a human responder.
    ValueError for another shape or a number outside [0, 1].
    """
    chances = np.asarray(accepts(game.offers) if callable(accepts) else accepts, dtype=np.float64)
    if chances.shape != game.offers.shape or not np.all((chances >= 0.0) & (chances <= 1.0)):
        raise ValueError(
            f"P(accept) of shape {chances.shape}: need {game.offers.shape} numbers in [0, 1]"
        )
    return (1.0 - game.offers) * chances


def answer_values(game: Ultimatum) -> np.ndarray:
    """(A, 2) payoff of the responder from accepting and refusing each offer."""
    return np.stack([game.offers, np.zeros(game.grid + 1)], axis=1)


def subgame_perfect(game: Ultimatum, ties: str = "accept") -> tuple[float, float]:
    """(offer, value of the proposer) when the responder takes what pays; an offer of 0 is a tie."""
    if ties not in ("accept", "refuse"):
        raise ValueError(f"ties {ties!r}: use 'accept' or 'refuse'")
    accepts = game.offers >= 0.0 if ties == "accept" else game.offers > 0.0
    values = offer_values(game, accepts.astype(np.float64))
    best = int(values.argmax())
    return float(game.offers[best]), float(values[best])
