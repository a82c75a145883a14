"""What a game is, the strict parser, and one episode of play.

A game gives texts to players and takes indices of legal texts from them. A state is frozen and
hashable; chance enters in `reset` only, so a state and the actions decide what follows. Payoffs are
general-sum, one number per player, and nobody is called the winner.

    legal text    begins with a space, ends with a full stop, so no text is a prefix of another
    parse         the stripped text must equal exactly one legal text; all else is `Invalid`
    play          an invalid text is never an action: the offender gets the game's worst payoff, the
                  others what they get without agreement, and the episode ends

Shapes: `actions` has one index into `legal` per player of `to_move`, in that order.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

ACCEPT, REFUSE = 0, 1
ANSWERS = (" accept.", " refuse.")


class Invalid(ValueError):
    """A text that is not exactly one of the legal texts."""


class Game(Protocol):
    """The rules of one game with fixed parameters.

    name: first word of the prompt · players: their number · scale: unit of the prospect value
    (pie; T - S; 1 for a share of a board) · worst: the lowest payoff that a player can get.
    """

    name: str
    players: int
    scale: float
    worst: float

    def reset(self, rng: np.random.Generator) -> Any:
        """The first state; frozen and hashable."""

    def to_move(self, state: Any) -> tuple[int, ...]:
        """Players who act now, all at once; () at the end."""

    def observe(self, state: Any, player: int, setting: str = "", forecast: str = "") -> str:
        """The prompt up to the answer, without a final space.

        setting: a letter, shown as "Setting A." · forecast: one sentence, shown after it.
        """

    def legal(self, state: Any, player: int) -> tuple[str, ...]:
        """What the player may say."""

    def step(self, state: Any, actions: tuple[int, ...]) -> Any:
        """The next state."""

    def payoffs(self, state: Any) -> tuple[float, ...]:
        """Of a finished state; ValueError for another."""

    def infoset(self, state: Any, player: int) -> Hashable:
        """Key of all that the player knows; equal keys have equal prompts and legal texts."""

    def batna(self, player: int) -> float:
        """What the player gets without agreement."""


class Chooser(Protocol):
    """Answers for a player: an index of a legal text, or free text that `play` parses."""

    def __call__(
        self, game: Game, state: Any, player: int, rng: np.random.Generator
    ) -> int | str: ...


@dataclass(frozen=True)
class Step:
    """One decision: state before it, player, and the index chosen, -1 for an invalid text."""

    state: Any
    player: int
    action: int
    text: str


@dataclass(frozen=True)
class Episode:
    """Steps in order, the last state, payoffs per player, and the players with an invalid text."""

    steps: tuple[Step, ...]
    final: Any
    payoffs: tuple[float, ...]
    invalid: tuple[int, ...] = ()


def parse(text: str, legal: Sequence[str]) -> int:
    """Index of the legal text that `text` is, up to white space at its ends.

    Raises Invalid for everything else: no first or last number, no other case, no repair.
    """
    stripped = text.strip()
    for index, option in enumerate(legal):
        if stripped == option.strip():
            return index
    shown = stripped if len(stripped) <= 60 else stripped[:57] + "..."
    raise Invalid(f"{shown!r} is none of the {len(legal)} legal texts: answer with one of them")


def prompt(rules: str, cue: str, setting: str = "", forecast: str = "") -> str:
    """Rules, setting, forecast and cue as one line; empty parts are left out."""
    named = f"Setting {setting}." if setting else ""
    return " ".join(part for part in (rules, named, forecast, cue) if part)


def forecast_text(action: str, probability: float) -> str:
    """ "Forecast accept 75." of a legal text or word, the probability in steps of 5 per cent."""
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"forecast of {action!r}: probability {probability} lies outside [0, 1]")
    return f"Forecast {action.strip().rstrip('.')} {5 * round(20 * probability)}."


def check_turn(game: Game, state: Any, player: int) -> None:
    """ValueError unless the player acts in this state."""
    movers = game.to_move(state)
    if player not in movers:
        who = ", ".join(map(str, movers)) if movers else "nobody: it is over"
        raise ValueError(f"{game.name}: player {player} does not move in this state, but {who}")


def check_actions(game: Game, state: Any, actions: Sequence[int]) -> None:
    """ValueError unless there is one legal index for every player who acts."""
    movers = game.to_move(state)
    if len(actions) != len(movers) or not movers:
        raise ValueError(f"{game.name}: {len(actions)} actions for {len(movers)} players to move")
    for player, action in zip(movers, actions, strict=True):
        count = len(game.legal(state, player))
        if not 0 <= action < count:
            raise ValueError(f"{game.name}: player {player} has {count} texts, none is {action}")


def check_over(game: Game, state: Any) -> None:
    """ValueError unless the game is over."""
    if game.to_move(state):
        raise ValueError(f"{game.name}: payoffs of a game that is not over; play it to the end")


def penalised(game: Game, offenders: Sequence[int]) -> tuple[float, ...]:
    """Payoffs after an invalid text: the worst for each offender, the others' batna."""
    return tuple(game.worst if i in offenders else game.batna(i) for i in range(game.players))


def play(
    game: Game, choosers: Sequence[Chooser], rng: np.random.Generator, start: Any = None
) -> Episode:
    """One episode from `start`, by default from a new state. choosers: one per player."""
    if len(choosers) != game.players:
        raise ValueError(f"{game.name}: {len(choosers)} choosers for {game.players} players")
    state = game.reset(rng) if start is None else start
    steps: list[Step] = []
    while movers := game.to_move(state):
        now = [_decide(game, state, i, choosers[i], rng) for i in movers]
        steps += now
        offenders = tuple(step.player for step in now if step.action < 0)
        if offenders:
            return Episode(tuple(steps), state, penalised(game, offenders), offenders)
        state = game.step(state, tuple(step.action for step in now))
    return Episode(tuple(steps), state, game.payoffs(state))


def _decide(game: Game, state: Any, player: int, chooser: Chooser, rng) -> Step:
    answer, legal = chooser(game, state, player, rng), game.legal(state, player)
    if not isinstance(answer, str):
        if not 0 <= answer < len(legal):
            raise ValueError(f"{game.name}: player {player} has {len(legal)} texts, not {answer}")
        return Step(state, player, int(answer), legal[answer])
    try:
        return Step(state, player, parse(answer, legal), answer)
    except Invalid:
        return Step(state, player, -1, answer)


def decisions(game: Game, start: Any) -> Iterator[tuple[Any, int]]:
    """Every (state, player) that can be reached from `start`, each information set once.

    States with the same information sets of all movers are walked once; small games only.
    """
    seen: set[Hashable] = set()
    stack = [start]
    while stack:
        state = stack.pop()
        movers = game.to_move(state)
        keys = [game.infoset(state, i) for i in movers]
        if not movers or all(key in seen for key in keys):
            continue
        yield from ((state, i) for i, key in zip(movers, keys, strict=True) if key not in seen)
        seen.update(keys)
        counts = [len(game.legal(state, i)) for i in movers]
        stack += [game.step(state, actions) for actions in np.ndindex(*counts)]
