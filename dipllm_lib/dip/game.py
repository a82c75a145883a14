"""Whole games: played in lockstep, recorded, saved and loaded.

`play` advances many games together, so that a policy sees all its turns of a round in one call; a
turn's generator depends on the seed, the game's names, the power and the phase alone, so a game is
the same whichever games are played beside it. A game ends by the first rule of `EndRules` that
applies; `Game.end` names it: `solo`, `last_year`, `stalemate` or `draw`. A game of which only one
power is measured can also end when that power has lost its last centre: `defeated`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dipllm_lib.dip import atlas, boards, orders, outcomes, rules, saved
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.replay import replay_on_package
from dipllm_lib.dip.states import from_state, to_state
from dipllm_lib.run import files, seeding

__all__ = [
    "EndRules", "Game", "from_state", "load", "play", "replay_on_package", "save", "to_state",
]  # fmt: skip


@dataclass(frozen=True)
class EndRules:
    """When a game ends. After the centres of a year are counted: `solo` (a power has that many),
    `last_year`, `stalemate` (no centre changed hands for `stalemate_years`, 0 switches it off); at
    the start of a spring `draw`, with the probability of the latest entry (year, probability) of
    `end_draws` whose year has come. ValueError for numbers that make no sense.
    """

    last_year: int
    stalemate_years: int = 0
    end_draws: tuple[tuple[int, float], ...] = ()
    solo: int = 18

    def __post_init__(self):
        for name in ("last_year", "stalemate_years", "solo"):
            if not isinstance(getattr(self, name), (int, np.integer)):
                raise ValueError(f"{name}={getattr(self, name)!r}: need a whole number")
        if self.last_year < boards.FIRST_YEAR:
            raise ValueError(f"last_year={self.last_year}: the first year is {boards.FIRST_YEAR}")
        if self.stalemate_years < 0 or not 1 <= self.solo <= 34:
            raise ValueError(
                f"stalemate_years={self.stalemate_years}, solo={self.solo}: need >= 0 and 1 to 34"
            )
        if not _draws_fit(self.end_draws):
            raise ValueError(
                f"end_draws={self.end_draws}: need (year, probability) pairs in order of year"
            )

    def draw_probability(self, year: int) -> float:
        """Probability that the game ends at the start of this spring."""
        return next((p for since, p in reversed(self.end_draws) if year >= since), 0.0)

    def after_count(self, owners: list[np.ndarray], year: int) -> str:
        """The rule that ends the game once the centres of `year` are counted, or "". `owners`: int8
        (75,) of each year so far, the opening first.
        """
        held = np.bincount(owners[-1][owners[-1] >= 0], minlength=atlas.N_POWERS)
        if held.max() >= self.solo:
            return "solo"
        if year >= self.last_year:
            return "last_year"
        recent = owners[-self.stalemate_years - 1 :]
        still = len(recent) == self.stalemate_years + 1 and all(
            np.array_equal(recent[0], x) for x in recent
        )
        return "stalemate" if self.stalemate_years and still else ""


def _draws_fit(draws) -> bool:
    """Whether these are pairs of a year and a probability, years increasing."""
    if not isinstance(draws, (tuple, list)):
        return False
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in draws):
        return False
    numbers = all(isinstance(x, (int, float, np.number)) for pair in draws for x in pair)
    years = [year for year, _ in draws]
    return numbers and years == sorted(set(years)) and all(0 <= p <= 1 for _, p in draws)


@dataclass(eq=False)
class Game:
    """The record of one game. `boards` has one position per phase, the last one COMPLETED with the
    final centres if the game is over. Entry k of `orders` (power name -> sorted texts) and
    `results` (unit text -> words) belongs to position k.
    """

    id: str
    agents: tuple[str, ...]  # names of the seven players, powers in order; empty if unknown
    seed: int | None
    boards: Boards
    orders: list[dict[str, list[str]]]
    results: list[dict[str, list[str]]]
    end: str  # rule that ended it, "" if it is not over

    @property
    def final_centres(self) -> np.ndarray:
        """Supply centres of the seven powers in the last position, int64 (7,)."""
        return rules.centres(self.boards)[-1]

    def positions(self) -> Boards:
        """The positions in which something was decided: all but COMPLETED."""
        return self.boards.take(np.flatnonzero(self.boards.phase != boards.OVER))

    def joint(self, k: int, power: int) -> Joint | None:
        """The joint order of a power in position k in slot order, None if it had nothing to decide.
        ValueError if it is not legal.
        """
        this = orders.turn(self.boards, k, power)
        return (
            None
            if this is None
            else orders.sorted_joint(this, self.orders[k].get(atlas.POWERS[power], []))
        )

    def to_saved(self) -> dict:
        """The game in the package's saved-game format, JSON-ready; equal games give equal JSON."""
        return saved.to_saved(self)

    @classmethod
    def from_saved(cls, data: dict) -> "Game":
        """A game from the saved-game format: ours, the package's, or the reduced forms of `saved`.
        ValueError if it is impossible.
        """
        return cls(**saved.from_saved(data))


def save(path: Path, games: Sequence[Game]) -> None:
    """Replace `path` by the saved form of the games, one JSON object a line; whole or not at all,
    and the same games give the same bytes.
    """
    files.write_text(Path(path), "".join(files.to_json(g.to_saved()) + "\n" for g in games))


def load(path: Path) -> list[Game]:
    """The games of a file with one saved game a line. ValueError in one line that names the file
    and the line: no JSON (a file that was cut off), an impossible game. FileNotFoundError if there
    is no such file.
    """
    path, games = Path(path), []
    content = path.read_bytes()
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    for number, line in enumerate(lines, 1):
        where = f"{path.name}, line {number}"
        try:
            games.append(Game.from_saved(json.loads(line.decode("utf-8"))))
        except json.JSONDecodeError as fault:
            raise ValueError(
                f"{where}: no saved game, {fault.msg} at character {fault.pos}"
            ) from None
        except ValueError as fault:
            raise ValueError(f"{where}: {fault}") from None
    return games


class _Table:
    """The games at work: current positions, histories, and who still plays."""

    def __init__(self, seatings, seed: int, names, end: EndRules, watched):
        self.seatings, self.seed, self.names, self.end = seatings, seed, names, end
        self.watched = watched
        self.now = boards.start(len(seatings))
        self.owners = [[self.now.owner[g].copy()] for g in range(len(seatings))]
        self.history = [
            [] for _ in seatings
        ]  # per game (position, orders by power name, results) of each phase
        self.ended = [""] * len(seatings)

    def active(self) -> list[int]:
        return [g for g, rule in enumerate(self.ended) if not rule]

    def round(self) -> None:
        """Play one phase of every game that is not over."""
        games = self.active()
        before = self.now.take(games)
        turns = orders.all_turns(before)
        joints = self._ask(games, turns)
        given = orders.expand(before, joints)
        after, made = rules.resolve(before, given)
        for k, g in enumerate(games):
            texts = {
                atlas.POWERS[p]: sorted(orders.to_text(o) for o in joint)
                for p, joint in sorted(joints[k].items())
            }
            self.history[g].append((
                before.take([k]),
                texts,
                outcomes.words(before, given, made, after, k),
            ))
            self._place(g, before, after, k)

    def _ask(self, games: list[int], turns: list[list[Turn]]) -> list[dict[int, Joint]]:
        """One call per policy object with all its turns, in order of its first turn."""
        asked: dict[int, tuple] = {}
        for k, g in enumerate(games):
            for turn in turns[k]:
                policy = self.seatings[g][turn.power]
                rng = seeding.child(self.seed, *self.names[g], atlas.POWERS[turn.power], turn.phase)
                asked.setdefault(id(policy), (policy, []))[1].append((k, turn, rng))
        joints: list[dict[int, Joint]] = [{} for _ in games]
        for policy, tasks in asked.values():
            answers = policy.act([turn for _, turn, _ in tasks], [rng for _, _, rng in tasks])
            if len(answers) != len(tasks):
                raise ValueError(
                    f"{policy.name}: {len(answers)} joint orders for {len(tasks)} turns"
                )
            for (k, turn, _), joint in zip(tasks, answers):
                turn.check(joint)
                joints[k][turn.power] = tuple(int(order) for order in joint)
        return joints

    def _place(self, g: int, before: Boards, after: Boards, k: int) -> None:
        """Set the next position of game g, and end it if a rule says so."""
        for field, new in zip(self.now, after):
            field[g] = new[k]
        year, phase = int(before.year[k]), int(after.phase[k])
        counted = (
            before.phase[k] in (boards.FALL_MOVES, boards.FALL_RETREATS)
            and phase != boards.FALL_RETREATS
        )
        if counted:
            self.owners[g].append(after.owner[k].copy())
            self.ended[g] = self.end.after_count(self.owners[g], year) or self._defeated(g)
        if not self.ended[g] and phase == boards.SPRING_MOVES:
            chance = self.end.draw_probability(int(after.year[k]))
            rng = seeding.child(self.seed, *self.names[g], "end draw", int(after.year[k]))
            self.ended[g] = "draw" if chance and rng.random() < chance else ""
        if self.ended[g]:
            self.now.phase[g], self.now.year[g] = boards.OVER, year

    def _defeated(self, g: int) -> str:
        """The end of a game whose watched power has no centre left, or ""."""
        lost = self.watched is not None and self.watched[g] not in self.owners[g][-1]
        return "defeated" if lost else ""

    def record(self, g: int) -> Game:
        positions = Boards.concat(
            [position for position, _, _ in self.history[g]] + [self.now.take([g])]
        )
        identity = "-".join(str(part) for part in (self.seed, *self.names[g]))
        agents = tuple(policy.name for policy in self.seatings[g])
        given, results = ([entry[x] for entry in self.history[g]] + [{}] for x in (1, 2))
        return Game(identity, agents, self.seed, positions, given, results, self.ended[g])


def play(
    seatings: Sequence[Sequence],
    seed: int,
    names: Sequence[tuple],
    end: EndRules,
    watched: Sequence[int] | None = None,
) -> list[Game]:
    """Play len(seatings) games from Spring 1901 to their end, in lockstep.

    seatings[g][power] is the policy of a seat; names[g] tells the games of a seed apart; game g
    also ends when the power watched[g] has lost its last centre, after the count of a year. Each
    distinct policy object gets one `act` call a round with all its turns. ValueError if a seating
    is not of seven, names repeat, a watched power is missing, or an order is not legal.
    """
    if len(seatings) != len(names) or len(set(names)) != len(names):
        raise ValueError(
            f"{len(seatings)} games with {len(set(names))} distinct names: need one name each"
        )
    if any(len(seats) != atlas.N_POWERS for seats in seatings):
        raise ValueError("every seating needs seven policies, powers in alphabetical order")
    if watched is not None and len(watched) != len(seatings):
        raise ValueError(f"{len(seatings)} games but {len(watched)} watched powers: name one each")
    table = _Table(seatings, seed, names, end, watched)
    while table.active():
        table.round()
    return [table.record(g) for g in range(len(seatings))]
