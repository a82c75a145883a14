"""Episodes as rows that can be written, read and walked again: stage 2 of the five.

A row keeps the first state and the actions; since chance enters in `reset` only, they give every
state back. An episode draws from a generator of its own name, so it is the same in this process and
in any worker, and an episode more or less changes no other.

Shapes: actions, per move one index per player who moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dipllm_lib.kto import bargaining, games, gift, pool, repeated, ultimatum
from dipllm_lib.kto.games import Game
from dipllm_lib.kto.pool import Match, Table
from dipllm_lib.run import parallel, seeding

STATES = {
    "ultimatum": ultimatum.State,
    "gift": gift.State,
    "repeated": repeated.State,
    "bargaining": bargaining.State,
}


@dataclass(frozen=True)
class Trajectory:
    """One episode. seats: members by seat, "" for the learner · start: the first state as a dict ·
    payoffs: one per player."""

    game: str
    seats: tuple[str, str]
    episode: int
    start: Mapping
    actions: tuple[tuple[int, ...], ...]
    payoffs: tuple[float, ...]

    @property
    def learner(self) -> int:
        """Seat of the learner; ValueError where both are members."""
        if "" not in self.seats:
            raise ValueError(f"episode {self.episode} of {self.game} has no learner in it")
        return self.seats.index("")

    def row(self) -> dict:
        """JSON-able form."""
        return asdict(self)

    @classmethod
    def of(cls, row: Mapping) -> "Trajectory":
        """From `row`, also after JSON."""
        actions = tuple(tuple(int(a) for a in one) for one in row["actions"])
        start = {name: _frozen(value) for name, value in row["start"].items()}
        rest = row["game"], tuple(row["seats"]), row["episode"], start
        return cls(*rest, actions, tuple(row["payoffs"]))


def first_state(trajectory: Trajectory) -> Any:
    """The state that the episode began with."""
    return STATES[trajectory.game](**trajectory.start)


def _frozen(value):
    return tuple(_frozen(part) for part in value) if isinstance(value, (list, tuple)) else value


def walk(game: Game, trajectory: Trajectory) -> Iterator[tuple[Any, int, int]]:
    """(state, player, action) of every decision, in order."""
    state = first_state(trajectory)
    for actions in trajectory.actions:
        movers = game.to_move(state)
        yield from ((state, i, a) for i, a in zip(movers, actions, strict=True))
        state = game.step(state, actions)


def told(game: str, episode: int) -> bool:
    """Whether the learner's prompt names its partner: in four of five repeated games."""
    return game == "repeated" and episode % 5 != 0


@dataclass(frozen=True)
class Task:
    """A match to be played. rounds: mean length of the repeated game · rows: probabilities of the
    learner by information set, for each partner that it is told, "" for none · mix: its share of
    uniform play."""

    match: Match
    rounds: int
    seed: int
    name: str
    rows: Mapping
    mix: float


def play(task: Task) -> list[dict]:
    """The episodes of one match as rows; runs in any process."""
    match = task.match
    game = pool.catalogue(task.rounds)[match.game]
    return [_episode(task, game, k) for k in range(match.first, match.first + match.episodes)]


def _episode(task: Task, game: Game, number: int) -> dict:
    match = task.match
    rng = seeding.child(task.seed, "kto", task.name, match.game, number)
    partner = "".join(match.seats) if told(match.game, number) else ""
    learner = Table(task.rows.get(partner, {}), task.mix)
    choosers = [pool.member(match.game, name, rng) if name else learner for name in match.seats]
    start = game.reset(rng)
    episode = games.play(game, choosers, rng, start)
    moves: list[list[int]] = []
    state = None
    for step in episode.steps:
        if step.state is not state:
            moves.append([])
        state = step.state
        moves[-1].append(step.action)
    actions = tuple(map(tuple, moves))
    return Trajectory(
        match.game, match.seats, number, asdict(start), actions, episode.payoffs
    ).row()


def collect(
    matches: Sequence[Match],
    rounds: int,
    seed: int,
    name: str,
    rows: Mapping[str, Mapping[str, Mapping]],
    mix: Mapping[str, float] | float = 0.0,
    workers: int = 1,
) -> list[Trajectory]:
    """All episodes of the matches. rows: game -> partner told, "" for none -> probabilities of the
    learner by information set.

    mix: share of uniform play, of all games or by game · name: of the collection; a second one
    under the same name draws the same chance.
    """
    shares = mix if isinstance(mix, Mapping) else {m.game: mix for m in matches}
    tasks = [
        Task(m, rounds, seed, name, rows.get(m.game, {}), shares.get(m.game, 0.0)) for m in matches
    ]
    played = parallel.map(play, tasks, workers, 1)
    return [Trajectory.of(row) for part in played for row in part]
