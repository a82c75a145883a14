"""Cut and choose.

A cake of length 1 in two halves. To player i the left half is worth w, the right half 1 - w, spread
evenly inside each half; with w = ½ the cake is homogeneous. Player 0 cuts at x, player 1 takes the
left or the right piece, player 0 keeps the other, and each counts its own piece:

    left piece of a cut at x  =  2 w x                      x <= ½
                                 w + (1 - w)(2 x - 1)       x >  ½

w is private: it is drawn for each player from `types` and only its owner sees it. Bounds without
envy: the chooser gets at least ½ by its own value, and so does a cutter that cuts at its own half
point, whatever the other is. The homogeneous cake is cut at ½.

Shapes: A = grid + 1 cuts x = 0, 1/grid, …, 1. Texts count length and worth as 100.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dipllm_lib.kto import games

CUTTER, CHOOSER = 0, 1
LEFT, RIGHT = 0, 1
PIECES = (" left.", " right.")
HOMOGENEOUS = (50,)
PRIVATE = (10, 30, 50, 70, 90)
TIES = ("worst", "best")
CLOSE = 1e-12


@dataclass(frozen=True)
class State:
    """worths: of the left half to cutter and chooser, per cent · cut and piece: indices, -1 for not
    yet made."""

    worths: tuple[int, int]
    cut: int = -1
    piece: int = -1


@dataclass(frozen=True)
class CutAndChoose:
    """types: worths of the left half in per cent, each as likely · grid: a divisor of 100."""

    grid: int = 10
    types: tuple[int, ...] = HOMOGENEOUS
    name: str = field(default="Cake", init=False)
    players: int = field(default=2, init=False)
    scale: float = field(default=1.0, init=False)
    worst: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.grid < 1 or 100 % self.grid:
            raise ValueError(f"grid {self.grid} of the cake: need a divisor of 100")
        whole = all(isinstance(w, int) and 0 <= w <= 100 for w in self.types)
        if not self.types or not whole:
            raise ValueError(f"types {self.types} of the cake: need whole numbers from 0 to 100")

    @property
    def cuts(self) -> np.ndarray:
        """(A,) places of the cut."""
        return np.arange(self.grid + 1) / self.grid

    def reset(self, rng: np.random.Generator) -> State:
        """Draws the worths of both players."""
        first, second = rng.integers(len(self.types), size=2).tolist()
        return State((self.types[first], self.types[second]))

    def to_move(self, state: State) -> tuple[int, ...]:
        """The cutter, then the chooser."""
        if state.cut < 0:
            return (CUTTER,)
        return (CHOOSER,) if state.piece < 0 else ()

    def observe(self, state: State, player: int, setting: str = "", forecast: str = "") -> str:
        """The prompt; see `Game`."""
        games.check_turn(self, state, player)
        worth = state.worths[player]
        rules = (
            f"Cake from 0 to 100. Left half worth {worth} to me. Right half worth {100 - worth}."
        )
        cue = (
            "They choose. I cut at"
            if player == CUTTER
            else f"They cut at {self._at(state)}. I take"
        )
        return games.prompt(rules, cue, setting, forecast)

    def legal(self, state: State, player: int) -> tuple[str, ...]:
        """Places of the cut, or the two pieces."""
        games.check_turn(self, state, player)
        if player == CHOOSER:
            return PIECES
        return tuple(f" {100 * i // self.grid}." for i in range(self.grid + 1))

    def step(self, state: State, actions: tuple[int, ...]) -> State:
        """A cut or a choice."""
        games.check_actions(self, state, actions)
        if state.cut < 0:
            return replace(state, cut=int(actions[0]))
        return replace(state, piece=int(actions[0]))

    def payoffs(self, state: State) -> tuple[float, float]:
        """Worth of each one's piece to itself."""
        games.check_over(self, state)
        left = [float(left_worth(state.cut / self.grid, w / 100)) for w in state.worths]
        if state.piece == LEFT:
            return 1.0 - left[CUTTER], left[CHOOSER]
        return left[CUTTER], 1.0 - left[CHOOSER]

    def infoset(self, state: State, player: int) -> Hashable:
        """The own worth, and the cut once it is made."""
        games.check_turn(self, state, player)
        return self.name, self.grid, player, state.worths[player], state.cut

    def batna(self, player: int) -> float:
        """Nobody eats without an agreement."""
        return 0.0

    def _at(self, state: State) -> int:
        return 100 * state.cut // self.grid


def left_worth(cut: np.ndarray | float, worth: np.ndarray | float) -> np.ndarray:
    """Worth of the left piece of a cut in [0, 1] when the left half is worth `worth` in [0, 1]."""
    cut = np.asarray(cut, dtype=np.float64)
    return np.where(cut <= 0.5, 2.0 * worth * cut, worth + (1.0 - worth) * (2.0 * cut - 1.0))


def half_point(worth: float) -> float:
    """Place at which both pieces are worth ½ to a player; ValueError outside 0 <= worth <= 1."""
    if not 0.0 <= worth <= 1.0:
        raise ValueError(f"worth {worth} of the left half: need a number in [0, 1]")
    if worth >= 0.5:
        return 0.25 / worth
    return 0.5 + 0.5 * (0.5 - worth) / (1.0 - worth)


def piece_values(game: CutAndChoose, worth: int) -> np.ndarray:
    """(A, 2) worth of the left and the right piece of each cut to a player of this type."""
    left = left_worth(game.cuts, worth / 100)
    return np.stack([left, 1.0 - left], axis=1)


def cut_values(
    game: CutAndChoose, own: int, others: Sequence[int] | None = None, ties: str = "worst"
) -> np.ndarray:
    """(A,) expected worth of each cut to a cutter of type `own`, by enumeration of the chooser.

    others: types that the chooser may have, each as likely; all of the game by default, one if it
    is known. A chooser takes the piece that it values more; ties go against the cutter, or with
    ties = "best" in its favour. ValueError for other ties, or no type.
    """
    if ties not in TIES:
        raise ValueError(f"ties {ties!r}: use one of {', '.join(TIES)}")
    others = game.types if others is None else tuple(others)
    if not others:
        raise ValueError("cut_values needs at least one type of chooser")
    mine, total = piece_values(game, own), np.zeros(game.grid + 1)
    for worth in others:
        theirs = piece_values(game, worth)
        takes_left = theirs[:, LEFT] > theirs[:, RIGHT] + CLOSE
        tie = np.abs(theirs[:, LEFT] - theirs[:, RIGHT]) <= CLOSE
        rest = np.where(takes_left, mine[:, RIGHT], mine[:, LEFT])
        even = mine.min(axis=1) if ties == "worst" else mine.max(axis=1)
        total += np.where(tie, even, rest)
    return total / len(others)


def safe_cut(game: CutAndChoose, worth: int) -> tuple[float, float]:
    """(cut, worth of its smaller piece): the cut of the grid that no chooser can make bad."""
    smaller = piece_values(game, worth).min(axis=1)
    best = int(smaller.argmax())
    return float(game.cuts[best]), float(smaller[best])
