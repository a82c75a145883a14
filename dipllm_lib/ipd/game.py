"""The iterated prisoner's dilemma of two players: payoffs, what is seen, and play.

In every round both choose C = 1 or D = 0 at once. With the payoffs of Weis, Woelczyk et al. 2026
(Table 1), R, S, T, P = 1, -1, 2, 0, this is the donation game with benefit 2 and cost 1:

    r = -own + 2 other,    so the mean reward of X is 2 c_Y - c_X for cooperation rates c.

Before each round a player sees the last round with its own action first: 0 = start, 1 = CC, 2 = CD,
3 = DC, 4 = DD. The opponent sees the same round with 2 and 3 exchanged (`swap`).

Chance is one uniform number per seat and round. All of them are drawn before the first round, so
that two arms of an experiment can share them whatever their players do. Only actions are stored;
rewards and observations follow from them.

Shapes: n games, T rounds.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

C, D = 1, 0
S0, CC, CD, DC, DD = range(5)
STATES = ("s0", "CC", "CD", "DC", "DD")
SWAP = np.array([S0, CC, DC, CD, DD], dtype=np.uint8)


@dataclass(frozen=True)
class Payoffs:
    """Reward R, sucker S, temptation T and punishment P of one player.

    Both players have the same unless a function takes those of the other.

    ValueError if they form no dilemma: T > R > P > S and 2R > T + S are needed.
    """

    reward: float = 1.0
    sucker: float = -1.0
    temptation: float = 2.0
    punishment: float = 0.0

    def __post_init__(self) -> None:
        r, s, t, p = self.reward, self.sucker, self.temptation, self.punishment
        if not np.all(np.isfinite([r, s, t, p])) or not (t > r > p > s and 2 * r > t + s):
            raise ValueError(
                f"payoffs R {r}, S {s}, T {t}, P {p} are no prisoner's dilemma: "
                "need finite T > R > P > S and 2R > T + S"
            )

    @classmethod
    def donation(cls, benefit: float, cost: float) -> "Payoffs":
        """The donation game: C costs the player `cost` and gives the other `benefit`, 0 < c < b."""
        return cls(benefit - cost, -cost, benefit, 0.0)

    @property
    def matrix(self) -> np.ndarray:
        """(2, 2) float64, [own action, other action] with D = 0 and C = 1."""
        rows = [[self.punishment, self.temptation], [self.sucker, self.reward]]
        return np.array(rows, dtype=np.float64)

    @property
    def by_state(self) -> np.ndarray:
        """(4,) float64 own payoff of the outcomes CC, CD, DC, DD: R, S, T, P."""
        values = [self.reward, self.sucker, self.temptation, self.punishment]
        return np.array(values, dtype=np.float64)

    def of(self, own: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Own reward, float64, in the shape of the two arrays of actions."""
        return self.matrix[own, other]


def outcome(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Codes CC … DD of one or more rounds, uint8, own action first."""
    return (DD - 2 * np.asarray(own, np.uint8) - np.asarray(other, np.uint8)).astype(np.uint8)


def observe(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """uint8 (n, T): what is seen before each round of the games own, other (n, T); first S0."""
    seen = np.zeros(np.shape(own), dtype=np.uint8)
    seen[:, 1:] = outcome(own, other)[:, :-1]
    return seen


def swap(obs: np.ndarray) -> np.ndarray:
    """The same observations as the opponent sees them: CD and DC are exchanged."""
    return SWAP[obs]


def cooperation(own: np.ndarray) -> np.ndarray:
    """(n,) share of C among the actions own (n, T) of one player."""
    return np.mean(own, axis=-1, dtype=np.float64)


class Player(Protocol):
    """Plays n games at once. A state belongs to the player; `act` gives the next one back."""

    def start(self, n: int) -> Any:
        """The state before the first round of n games."""

    def act(self, state: Any, obs: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, Any]:
        """Actions uint8 (n,) and the next state.

        obs: uint8 (n,) in the player's own view · u: (n,) uniform numbers in [0, 1), the only
        source of chance; C is played where u < P(C).
        """


@dataclass(frozen=True, eq=False)
class Episodes:
    """Actions of n finished games: left and right, uint8 (n, T), 1 = C and 0 = D."""

    left: np.ndarray
    right: np.ndarray

    def __post_init__(self) -> None:
        for name, actions in (("left", self.left), ("right", self.right)):
            if actions.ndim != 2 or actions.dtype != np.uint8 or actions.max(initial=0) > C:
                raise ValueError(f"{name}: actions must be uint8 (n, T) of 0 and 1")
        if self.left.shape != self.right.shape:
            shapes = f"{self.left.shape} and {self.right.shape}"
            raise ValueError(f"left and right actions have shapes {shapes}: they must be equal")

    def view(self, seat: int) -> tuple[np.ndarray, np.ndarray]:
        """(own, other) actions of seat 0 (left) or 1 (right)."""
        if seat not in (0, 1):
            raise ValueError(f"seat {seat!r}: use 0 (left) or 1 (right)")
        return (self.left, self.right) if seat == 0 else (self.right, self.left)


def play(
    left: Player,
    right: Player,
    n: int,
    rounds: int,
    streams: tuple[np.random.Generator, np.random.Generator],
) -> Episodes:
    """n games of `rounds` rounds; streams: one generator per seat, each asked once for (n, T)."""
    if n < 1 or rounds < 1:
        raise ValueError(f"need n >= 1 games and rounds >= 1, got n {n} and rounds {rounds}")
    uniforms = [stream.random((n, rounds)) for stream in streams]
    players, states = (left, right), [left.start(n), right.start(n)]
    actions = np.empty((2, n, rounds), dtype=np.uint8)
    obs = np.zeros((2, n), dtype=np.uint8)
    for t in range(rounds):
        for seat, player in enumerate(players):
            u = uniforms[seat][:, t]
            actions[seat, :, t], states[seat] = player.act(states[seat], obs[seat], u)
        obs[0] = outcome(actions[0, :, t], actions[1, :, t])
        obs[1] = swap(obs[0])
    return Episodes(actions[0], actions[1])
