"""The iterated prisoner's dilemma as a language game.

Payoffs T 5, R 3, P 1, S 0. The length is T rounds that are known, or each round is followed by
another with probability δ. The payoff of an episode is

    finite         (1/T) Σ u_t
    continuation   (1 - δ) Σ u_t, whose mean is the discounted payoff of `ipd.exact.discounted`

so both lie on the scale of one round, the second on average: a long episode pays more. The prompt
shows the last 8 rounds, own choice first. Legal text 0 is always to cooperate and 1 to defect; with
neutral labels their names are J and F, which of them is which and which is named first is drawn by
`reset`. All four cells stand in the rules.

Memory-one vectors (s0, CC, CD, DC, DD), own action first, are those of `ipd.tabular`; exact values
are those of `ipd.exact` and `ipd.best_response`.

Shapes: outcomes in the order s0, CC, CD, DC, DD; actions in the order cooperate, defect.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from dipllm_lib.ipd import best_response, exact, tabular
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.kto import games

COOPERATE, DEFECT = 0, 1
WORDS_LABELS = ("cooperate", "defect")
NEUTRAL_LABELS = ("J", "F")
LABELS = ("words", "neutral")
STANDARD = Payoffs(reward=3.0, sucker=0.0, temptation=5.0, punishment=1.0)
WINDOW = 8
# Extort-2 of Stewart and Plotkin 2012: own - P = 2 (other - P) with these payoffs.
EXTORT2 = (1.0, 8 / 9, 1 / 2, 1 / 3, 0.0)


@dataclass(frozen=True)
class State:
    """history: actions of both players by round · length: rounds to play, hidden if drawn ·
    names: words for cooperate and defect · defect_first: the rules name it first."""

    length: int
    names: tuple[str, str]
    defect_first: bool = False
    history: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class IteratedPD:
    """`rounds` rounds, or continuation with probability `delta` where that is given.

    labels: words or neutral · window: past rounds that are seen · counted: the round number is
    seen; without it and with window 1 the information sets are those of memory-one play.
    """

    rounds: int = 10
    delta: float | None = None
    labels: str = "words"
    window: int = WINDOW
    counted: bool = True
    pays: Payoffs = STANDARD
    name: str = field(default="Repeated", init=False)
    players: int = field(default=2, init=False)

    def __post_init__(self) -> None:
        if self.delta is not None and not 0.0 <= self.delta < 1.0:
            raise ValueError(f"continuation {self.delta}: need 0 <= delta < 1")
        if self.rounds < 1 or self.window < 0:
            raise ValueError(f"rounds {self.rounds}, window {self.window}: need >= 1 and >= 0")
        if self.labels not in LABELS:
            raise ValueError(f"labels {self.labels!r}: use one of {', '.join(LABELS)}")

    @property
    def scale(self) -> float:
        """T - S."""
        return self.pays.temptation - self.pays.sucker

    @property
    def worst(self) -> float:
        """S."""
        return self.pays.sucker

    def reset(self, rng: np.random.Generator) -> State:
        """Draws the length, if it is not known, and the neutral names."""
        length = self.rounds if self.delta is None else int(rng.geometric(1.0 - self.delta))
        if self.labels == "words":
            return State(length, WORDS_LABELS)
        swapped, defect_first = rng.integers(2, size=2).astype(bool).tolist()
        return State(length, NEUTRAL_LABELS[::-1] if swapped else NEUTRAL_LABELS, defect_first)

    def to_move(self, state: State) -> tuple[int, ...]:
        """Both at once, in every round."""
        return (0, 1) if len(state.history) < state.length else ()

    def observe(self, state: State, player: int, setting: str = "", forecast: str = "") -> str:
        """The prompt; see `Game`."""
        games.check_turn(self, state, player)
        text = games.prompt(self._rules(state), "", setting, forecast)
        return " ".join(part for part in (text, self._past(state, player), "I") if part)

    def legal(self, state: State, player: int) -> tuple[str, ...]:
        """To cooperate, then to defect, by their names."""
        games.check_turn(self, state, player)
        return tuple(f" {name}." for name in state.names)

    def step(self, state: State, actions: tuple[int, ...]) -> State:
        """One round."""
        games.check_actions(self, state, actions)
        history = (*state.history, tuple(int(a) for a in actions))
        return State(state.length, state.names, state.defect_first, history)

    def payoffs(self, state: State) -> tuple[float, float]:
        """Per round, or (1 - δ) times the sum."""
        games.check_over(self, state)
        weight = 1.0 / self.rounds if self.delta is None else 1.0 - self.delta
        total = self.round_payoffs(state).sum(axis=0) * weight
        return float(total[0]), float(total[1])

    def round_payoffs(self, state: State) -> np.ndarray:
        """(t, 2) payoffs of both players in the rounds played so far."""
        played = 1 - np.array(state.history, dtype=np.int64).reshape(-1, 2)  # ipd has C = 1
        return np.stack([self.pays.of(*played.T), self.pays.of(*played.T[::-1])], axis=1)

    def round_of(self, state: State) -> int:
        """Number of finished rounds."""
        return len(state.history)

    def splice(self, first: State, second: State, at: int) -> State:
        """The new state of a game whose rules change at round `at`: names are drawn once."""
        return first

    def infoset(self, state: State, player: int) -> Hashable:
        """Names, parameters that are seen, the round if counted, and the rounds of the window."""
        games.check_turn(self, state, player)
        seen = tuple(outcome(actions, player) for actions in self._window(state))
        names = (state.names, state.defect_first)
        return self.name, player, self.pays, self.delta, self._round(state), names, seen

    def batna(self, player: int) -> float:
        """P: what both get when neither cooperates."""
        return self.pays.punishment

    def _round(self, state: State) -> tuple[int, int] | None:
        """(round from 1, rounds), None if the player is not told."""
        counted = self.counted and self.delta is None
        return (len(state.history) + 1, self.rounds) if counted else None

    def _window(self, state: State) -> tuple[tuple[int, int], ...]:
        return state.history[max(0, len(state.history) - self.window) :]

    def _rules(self, state: State) -> str:
        c, d = state.names
        r, s, t, p = (f"{value:g}" for value in self.pays.by_state)
        cells = [f"Both {c} {r}.", f"Both {d} {p}.", f"I alone {d} {t}.", f"I alone {c} {s}."]
        if state.defect_first:
            cells = [cells[1], cells[0], cells[3], cells[2]]
        parts = ["Repeated game.", *cells]
        if self.delta is not None:
            parts.append(f"Goes on with chance {100 * self.delta:g}.")
        return " ".join(parts)

    def _past(self, state: State, player: int) -> str:
        """Round number and last rounds, own choice first, as letters."""
        letters = [name[0].upper() for name in state.names]
        seen = [letters[a[player]] + letters[a[1 - player]] for a in self._window(state)]
        parts = ["Mine first " + " ".join(seen) + "."] if seen else []
        counted = self._round(state)
        if counted:
            parts.append(f"Round {counted[0]} of {counted[1]}.")
        return " ".join(parts)


def outcome(actions: tuple[int, int], player: int) -> int:
    """1 … 4 for CC, CD, DC, DD of one round, own action first, as in `ipd.game`."""
    return 1 + 2 * actions[player] + actions[1 - player]


def last_outcome(state: State, player: int) -> int:
    """0 before the first round, else the outcome of the last one as the player sees it."""
    return outcome(state.history[-1], player) if state.history else 0


@dataclass(frozen=True)
class MemoryOne:
    """Chooser with P(C) after s0, CC, CD, DC, DD; ValueError as in `ipd.tabular.check`."""

    vector: tuple[float, ...]

    def __post_init__(self) -> None:
        checked = tabular.check(np.array(self.vector))[0]
        object.__setattr__(self, "vector", tuple(checked.tolist()))

    def probabilities(self, game: IteratedPD, state: State, player: int) -> np.ndarray:
        """(2,) of cooperate and defect."""
        p = self.vector[last_outcome(state, player)]
        return np.array([p, 1.0 - p])

    def __call__(
        self, game: IteratedPD, state: State, player: int, rng: np.random.Generator
    ) -> int:
        """One uniform number a decision."""
        cooperates = rng.random() < self.vector[last_outcome(state, player)]
        return COOPERATE if cooperates else DEFECT


def pair_values(game: IteratedPD, p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact payoffs, each (n,), of memory-one players p and q, (n, 5) or (5,)."""
    if game.delta is None:
        return exact.finite(p, q, game.rounds, game.pays)
    return exact.discounted(p, q, game.delta, game.pays)


def best_value(game: IteratedPD, q: np.ndarray) -> np.ndarray:
    """(n,) exact payoff of the best reply of any memory to q (n, 5).

    With continuation the problem is a Markov decision process over five outcomes, so one of the 32
    deterministic memory-one vectors is best.
    """
    q = tabular.check(q)
    if game.delta is None:
        return best_response.best_response(q, game.rounds, game.pays).value
    corners = tabular.corners()
    values = [exact.discounted(corners, row, game.delta, game.pays)[0].max() for row in q]
    return np.array(values)


def best_vectors(game: IteratedPD, q: np.ndarray) -> np.ndarray:
    """(k, 5) the deterministic vectors that earn the best value against one q, continuation form.

    Several where an outcome never occurs. ValueError for a finite game, whose best reply depends on
    the round: use `action_values`.
    """
    if game.delta is None:
        raise ValueError("best_vectors needs continuation; use action_values for a known length")
    corners = tabular.corners()
    values = exact.discounted(corners, tabular.check(q)[0], game.delta, game.pays)[0]
    return corners[values >= values.max() - 1e-12]


def action_values(game: IteratedPD, q: np.ndarray) -> np.ndarray:
    """(T, 5, 2) best sum of payoffs from a round on, by outcome seen before it and own action.

    q: (5,) of the opponent in its own view. Index 0 of T is the first round; with continuation T is
    1, the sum is expected over the random length, and the values are those of every round.
    """
    seen = exact.as_seen(q)[0]
    matrix = game.pays.matrix[::-1, ::-1]  # [own, other] with cooperate first
    rounds = game.rounds if game.delta is None else 1
    values = np.empty((rounds, 5, 2))
    after = np.zeros(5) if game.delta is None else game.delta * _endless(game, q)
    for t in range(rounds - 1, -1, -1):
        for own in (COOPERATE, DEFECT):
            at = [matrix[own, other] + after[1 + 2 * own + other] for other in (0, 1)]
            values[t, :, own] = seen * at[0] + (1.0 - seen) * at[1]
        after = values[t].max(axis=1)
    return values


def _endless(game: IteratedPD, q: np.ndarray) -> np.ndarray:
    """(5,) best discounted sum from each outcome: the best corner's, solved exactly.

    A corner that is best from every outcome exists; it is found by taking the best of all 32 at
    each outcome, with every outcome as the start.
    """
    seen, corners = exact.as_seen(q)[0], tabular.corners()
    own = game.pays.by_state
    values = np.empty((len(corners), 5))
    for k, p in enumerate(corners):
        rows = exact.joint(p, seen)  # (5, 4), also from the start
        inner = np.linalg.solve(np.eye(4) - game.delta * rows[1:], rows[1:] @ own)
        values[k, 1:] = inner
        values[k, 0] = rows[0] @ (own + game.delta * inner)
    return values.max(axis=0)
