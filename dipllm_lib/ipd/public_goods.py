"""The repeated public goods game of three players: payoffs, memory-one agents, the exact chain.

In every round each player keeps or gives one unit; k gifts are multiplied by r and shared by all:

    reward = r k / 3 - own,    1 < r < 3,

so a gift costs its giver 1 - r/3 > 0 whatever the others do, while all give r - 1 > 0 to each.

Before each round a player sees its own last action and how many of the others gave:

    code = 1 + 3 (1 - own) + (2 - j),   j others gave;   0 = start

which for two players is the coding CC, CD, DC, DD of `game`. A memory-one agent has seven
probabilities of C (giving), one per code. Three of them form a Markov chain on the eight joint
actions, state 4 (1 - a) + 2 (1 - b) + (1 - c), so state 0 is CCC and 7 is DDD.

Shapes: n games, T rounds; players on an axis of length 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipllm_lib.ipd.game import Player

PLAYERS = 3
CODES = 1 + 2 * PLAYERS
STATES = ("s0", "C2", "C1", "C0", "D2", "D1", "D0")  # own action, number of others that gave
ACTIONS = 1 - ((np.arange(8)[:, None] >> np.arange(2, -1, -1)) & 1)  # (8, 3), state -> actions
# Named agents: `all` gives if every other gave, `any` if one of the others did, both open with C.
NAMED = {
    "AllC": (1.0,) * CODES,
    "AllD": (0.0,) * CODES,
    "all": (1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0),
    "any": (1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0),
    "random": (0.5,) * CODES,
}


@dataclass(frozen=True)
class PublicGoods:
    """r: the factor of the gifts, 1 < r < 3 (else ValueError: no dilemma)."""

    r: float = 2.0

    def __post_init__(self) -> None:
        if not 1.0 < self.r < PLAYERS:
            raise ValueError(f"factor r {self.r}: a public goods dilemma needs 1 < r < {PLAYERS}")

    @property
    def by_state(self) -> np.ndarray:
        """(6,) own reward of the codes 1 … 6."""
        own = np.repeat([1, 0], PLAYERS)
        others = np.tile(np.arange(PLAYERS - 1, -1, -1), 2)
        return self.r * (own + others) / PLAYERS - own

    def of(self, actions: np.ndarray) -> np.ndarray:
        """Rewards float64 (…, 3) of actions (…, 3), 1 = C."""
        given = np.asarray(actions, dtype=np.float64)
        return self.r * given.sum(axis=-1, keepdims=True) / PLAYERS - given


def code(own: np.ndarray, others: np.ndarray, players: int = PLAYERS) -> np.ndarray:
    """Codes uint8 of rounds; own 0 or 1, others: how many of the other players gave."""
    found = 1 + players * (1 - np.asarray(own, np.int64)) + players - 1 - np.asarray(others)
    return found.astype(np.uint8)


def check(vectors: np.ndarray) -> np.ndarray:
    """Agents as float64 (n, 7), one vector becomes (1, 7). ValueError as in `tabular.check`."""
    array = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    if array.ndim != 2 or array.shape[1] != CODES:
        raise ValueError(f"agents of shape {np.shape(vectors)}: need (n, {CODES}), s0 first")
    bad = ~((array >= 0.0) & (array <= 1.0))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        value = array[row, column]
        raise ValueError(f"agent {row}: P(C | {STATES[column]}) = {value} lies outside [0, 1]")
    return np.ascontiguousarray(array)


def named(name: str) -> np.ndarray:
    """(7,) vector of a named agent; ValueError lists the names."""
    if name not in NAMED:
        raise ValueError(f"unknown agent {name!r}: use one of {', '.join(NAMED)}")
    return np.array(NAMED[name])


def sample(pool: str, n: int, rng: np.random.Generator, a: float = 0.5) -> np.ndarray:
    """(n, 7) agents of a pool: `uniform`, `beta` (Beta(a, a)) or `corners` (0 or 1 each)."""
    if n < 1 or not (np.isfinite(a) and a > 0):
        raise ValueError(f"need n >= 1 agents and a finite a > 0, got n {n} and a {a}")
    if pool == "uniform":
        return rng.random((n, CODES))
    if pool == "beta":
        return rng.beta(a, a, (n, CODES))
    if pool == "corners":
        return rng.integers(2, size=(n, CODES)).astype(np.float64)
    raise ValueError(f"unknown pool {pool!r} of public goods: use uniform, beta or corners")


@dataclass(frozen=True, eq=False)
class Tabular:
    """Memory-one players of seven probabilities, one vector per game or one for all."""

    vectors: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", check(self.vectors))

    def start(self, n: int) -> np.ndarray:
        """The state: the probabilities (n, 7), which never change."""
        if len(self.vectors) not in (1, n):
            raise ValueError(f"{len(self.vectors)} agents cannot play {n} games: need 1 or {n}")
        return np.broadcast_to(self.vectors, (n, CODES))

    def act(
        self, state: np.ndarray, obs: np.ndarray, u: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """C where u < P(C | obs)."""
        return (u < state[np.arange(len(obs)), obs]).astype(np.uint8), state


def observed(actions: np.ndarray) -> np.ndarray:
    """Codes uint8 (…, 3) of rounds as each of the three sees them; actions (…, 3)."""
    actions = np.asarray(actions, dtype=np.int64)
    return code(actions, actions.sum(axis=-1, keepdims=True) - actions)


def play(
    players: Sequence[Player],
    n: int,
    rounds: int,
    streams: Sequence[np.random.Generator],
) -> np.ndarray:
    """Actions uint8 (n, T, 3) of n games; one player and one generator per seat, each generator
    asked once, for (n, T), before the first round. A player sees codes 0 … 6."""
    if n < 1 or rounds < 1:
        raise ValueError(f"need n >= 1 games and rounds >= 1, got n {n} and rounds {rounds}")
    if len(players) != PLAYERS or len(streams) != PLAYERS:
        raise ValueError(f"{len(players)} players, {len(streams)} streams: need {PLAYERS} of each")
    uniforms = [stream.random((n, rounds)) for stream in streams]
    states = [player.start(n) for player in players]
    actions = np.empty((n, rounds, PLAYERS), dtype=np.uint8)
    obs = np.zeros((n, PLAYERS), dtype=np.uint8)
    for t in range(rounds):
        for seat, player in enumerate(players):
            seen, u = obs[:, seat], uniforms[seat][:, t]
            actions[:, t, seat], states[seat] = player.act(states[seat], seen, u)
        obs = observed(actions[:, t])
    return actions


def chain(agents: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """v_0 (n, 8) and M (n, 8, 8) of three memory-one agents, each (7,) or (n, 7)."""
    checked = [check(vectors) for vectors in agents]
    n = max(map(len, checked))
    if len(checked) != PLAYERS or any(len(vectors) not in (1, n) for vectors in checked):
        sizes = [len(vectors) for vectors in checked]
        raise ValueError(f"agents {sizes}: need three, of equal numbers or one for all games")
    probabilities = np.stack([np.broadcast_to(v, (n, CODES)) for v in checked], axis=-1)
    seen = observed(ACTIONS)  # (8, 3)
    after = probabilities[:, seen, np.arange(PLAYERS)]  # (n, 8, 3)
    return _joint(probabilities[:, 0]), _joint(after)


def _joint(chance: np.ndarray) -> np.ndarray:
    """(…, 8) probabilities of the joint actions for independent chances of C (…, 3)."""
    each = np.where(ACTIONS == 1, chance[..., None, :], 1.0 - chance[..., None, :])
    return each.prod(axis=-1)


def occupancy(agents: Sequence[np.ndarray], rounds: int) -> np.ndarray:
    """(n, 8) share of rounds in each joint action."""
    if rounds < 1:
        raise ValueError(f"rounds {rounds}: need at least one round")
    now, matrix = chain(agents)
    total = np.zeros_like(now)
    for _ in range(rounds):
        total += now
        now = (now[:, None, :] @ matrix)[:, 0]
    return total / rounds


def finite(
    agents: Sequence[np.ndarray], rounds: int, goods: PublicGoods
) -> tuple[np.ndarray, np.ndarray]:
    """Rewards per round (n, 3) and shares of C (n, 3) of three agents over `rounds` rounds."""
    shares = occupancy(agents, rounds)
    return shares @ goods.of(ACTIONS), shares @ ACTIONS.astype(np.float64)
