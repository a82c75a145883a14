"""Probes of trained agents at fixed phases: whom they play, with how much noise, round by round.

Opponents: `learner` (the other learner of the seed), named memory-one strategies, `tabular` (fresh
draws from a pool), `frozen` (trained agents that are given, with their own noise) and `Bayes` (the
certainty-equivalent player, k = 1). Noise levels are names of Actors: of amortised PPI `on` plays
with the decision noise of the training, `half` with half of it, `off` with none. All levels, and
all arms of an experiment, meet the same opponents with the same random numbers, which are named by
seed, learner and phase; differences between them are paired.

AllD earns 1 on every pool that is symmetric under C <-> D, so what a learner earns above AllD
against the same opponents and the same random numbers (`alld`) estimates its gain with less chance.

Shapes: A agents, L noise levels, O opponents, T rounds. Seat: the number of the learner in its
seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from dipllm_lib.ipd import batch_play, identity, seats, tabular
from dipllm_lib.ipd.batch_play import Actor, Draws, Table
from dipllm_lib.ipd.certainty import CertaintyEquivalent
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.run import seeding

LEARNER, POOL = "learner", "tabular"
FROZEN, BAYES = "frozen", "Bayes"
GIVEN = (FROZEN, BAYES)  # players of more than one round's memory
OPPONENTS = (LEARNER, "TFT", "AllC", "AllD", POOL)
NOISE = {"on": 1.0, "half": 0.5, "off": 0.0}  # share of the decision noise of training
EARLY, LATE = 5, 20  # rounds at the begin and at the end of a game that the table shows
KEYS = ("seed", "phase", "seat", "opponent", "noise")
SEATS = ("", "other_")


@dataclass(frozen=True)
class ProbeSettings:
    """What is played at a probe. games: of every agent with each opponent at each noise level."""

    rounds: int
    games: int = 200
    opponents: tuple[str, ...] = OPPONENTS
    pool: str = "uniform"  # of the opponent `tabular`
    a: float = 0.5
    identity: str = "none"  # what the agents are told, as in their training
    payoffs: Payoffs = Payoffs()
    other_payoffs: Payoffs | None = None  # of seat 1, None: the same

    def __post_init__(self) -> None:
        if self.games < 1 or self.rounds < 1 or not self.opponents:
            raise ValueError("a probe needs at least one game, one round and one opponent")
        if len(set(self.opponents)) != len(self.opponents):
            raise ValueError(f"an opponent is named twice: {self.opponents}")
        for name in self.opponents:
            if name not in (LEARNER, POOL, *GIVEN):
                tabular.named(name)

    def payoffs_of(self, seat: int) -> Payoffs:
        """Payoffs of seat 0 or 1; whoever sits opposite of one has the other's."""
        return self.payoffs if self.other_payoffs is None or seat == 0 else self.other_payoffs

    @property
    def memory_one(self) -> list[str]:
        """The opponents that are vectors, in order."""
        return [name for name in self.opponents if name not in (LEARNER, *GIVEN)]


@dataclass(frozen=True, eq=False)
class Probe:
    """Means over the games of a probe. agents: (seed, seat) of each · rewards (A, L, O, 2) and
    cooperation (A, L, O, 2, T), own and opponent · alld (A, O): reward of AllD in the same place,
    NaN against all but memory-one opponents."""

    settings: ProbeSettings
    agents: Sequence[tuple[int, int]]
    phase: int
    levels: tuple[str, ...]
    rewards: np.ndarray
    cooperation: np.ndarray
    alld: np.ndarray

    def _index(self) -> tuple[pd.DataFrame, np.ndarray]:
        """One row per agent, level and opponent, and their places (rows, 3)."""
        places = np.array(list(np.ndindex(self.rewards.shape[:3])))
        rows = [
            (self.agents[i][0], self.phase, self.agents[i][1], self.settings.opponents[o], level)
            for i, k, o in places.tolist()
            for level in (self.levels[k],)
        ]
        return pd.DataFrame(rows, columns=list(KEYS)), places

    def table(self) -> pd.DataFrame:
        """Columns KEYS, games, then of the agent and with `other_` of its opponent: reward,
        cooperation, early (its first 5 rounds), late (its last 20); alld."""
        frame, (i, k, o) = self._index()[0], self._index()[1].T
        frame["games"] = self.settings.games
        for seat, prefix in enumerate(SEATS):
            curve = self.cooperation[i, k, o, seat]
            frame[f"{prefix}reward"] = self.rewards[i, k, o, seat]
            frame[f"{prefix}cooperation"] = curve.mean(axis=1)
            frame[f"{prefix}early"] = curve[:, :EARLY].mean(axis=1)
            frame[f"{prefix}late"] = curve[:, -LATE:].mean(axis=1)
        frame["alld"] = self.alld[i, o]
        return frame

    def by_round(self) -> pd.DataFrame:
        """Columns KEYS, round (from 1), cooperation, other_cooperation."""
        frame, places = self._index()
        rounds, (i, k, o) = self.settings.rounds, places.T
        frame = frame.loc[frame.index.repeat(rounds)].reset_index(drop=True)
        frame["round"] = np.tile(np.arange(1, rounds + 1), len(places))
        for seat, prefix in enumerate(SEATS):
            frame[f"{prefix}cooperation"] = self.cooperation[i, k, o, seat].ravel()
        return frame

    def arrays(self) -> dict[str, np.ndarray]:
        """The measured numbers as plain arrays."""
        return {"rewards": self.rewards, "cooperation": self.cooperation, "alld": self.alld}


def probe(
    actors: Mapping[str, Actor],
    agents: Sequence[tuple[int, int]],
    phase: int,
    settings: ProbeSettings,
    frozen: Actor | None = None,
) -> Probe:
    """Play the games of a probe. actors: one per noise level, of the agents (seed, seat) · frozen:
    the opponent of that name, its agent i plays agent i. ValueError where it is missing."""
    if FROZEN in settings.opponents and frozen is None:
        raise ValueError("a probe against `frozen` needs the frozen agents")
    table, chance = _seats(agents, phase, settings)
    given = _given(agents, phase, settings, frozen)
    shape = (len(agents), len(actors), len(settings.opponents))
    rewards, curves = np.empty((*shape, 2)), np.empty((*shape, 2, settings.rounds))
    for k, actor in enumerate(actors.values()):
        for o, codes in enumerate(_by_opponent(actor, table, chance, settings, given)):
            own, other = batch_play.own_actions(codes), batch_play.other_actions(codes)
            curves[:, k, o, 0], curves[:, k, o, 1] = own.mean(axis=1), other.mean(axis=1)
            for i, (_, seat) in enumerate(agents):
                rewards[i, k, o, 0] = settings.payoffs_of(seat).of(own[i], other[i]).mean()
                rewards[i, k, o, 1] = settings.payoffs_of(1 - seat).of(other[i], own[i]).mean()
    alld = _alld(agents, table, chance, settings)
    return Probe(settings, list(agents), phase, tuple(actors), rewards, curves, alld)


def _by_opponent(
    actor: Actor, table: Table, chance: Draws, settings: ProbeSettings, given: Mapping
) -> list:
    """Codes (A, games, T) of each opponent, in the order of the settings."""
    # games against learners come first, as a Table wants it
    names = [LEARNER] * (LEARNER in settings.opponents) + settings.memory_one
    found = {}
    if names:
        codes = batch_play.play(actor, table, chance)
        found = dict(zip(names, np.split(codes, len(names), axis=1), strict=True))
    for name, (rival, own, theirs) in given.items():
        size = (len(table.vectors), settings.games, identity.SIZE)
        z = None if table.z is None else torch.zeros(size)  # as learners
        pairs = Table(settings.games, table.vectors[:, :0], z)
        found[name] = batch_play.play(actor, pairs, own, (rival, theirs))
    return [found[name] for name in settings.opponents]


def _given(
    agents: Sequence[tuple[int, int]], phase: int, settings: ProbeSettings, frozen: Actor | None
) -> dict[str, tuple[Actor, Draws, Draws]]:
    """The opponents of GIVEN with the chance of both sides."""
    players = {FROZEN: frozen, BAYES: seats.Seated(CertaintyEquivalent(settings.rounds))}
    pairs = Table(settings.games, torch.empty(len(agents), 0, 5))
    found = {}
    for name in GIVEN:
        if name in settings.opponents:
            sides = []
            for side in ("own", "other"):
                purposes = [f"{name} {side} {x}" for x in ("actions", "decisions", "replies")]
                streams = [[_stream(a, x, phase) for a in agents] for x in purposes]
                sides.append(batch_play.draws(*streams, pairs, settings.rounds))
            found[name] = players[name], *sides
    return found


def _stream(agent: tuple[int, int], name: str, phase: int) -> np.random.Generator:
    """The generator of an agent's probe for one purpose."""
    return seeding.child(agent[0], "ipd", "probe", agent[1], name, phase)


def _alld(
    agents: Sequence[tuple[int, int]], table: Table, chance: Draws, settings: ProbeSettings
) -> np.ndarray:
    """(A, O) mean reward of AllD against the same tabular opponents and random numbers."""
    found = np.full((len(table.vectors), len(settings.opponents)), np.nan)
    others = settings.memory_one
    if others:
        alone = Table(0, table.vectors)
        p = table.learners
        luck = Draws(chance.own[..., p:], chance.noise[..., p:], chance.tabular)
        codes = batch_play.play(batch_play.MemoryOne(tabular.named("AllD")), alone, luck)
        own, other = batch_play.own_actions(codes), batch_play.other_actions(codes)
        pay = [settings.payoffs_of(seat) for _, seat in agents]
        paid = np.stack([p.of(x, y) for p, x, y in zip(pay, own, other, strict=True)])
        parts = np.split(paid.mean(axis=2), len(others), axis=1)
        for name, part in zip(others, parts, strict=True):
            found[:, settings.opponents.index(name)] = part.mean(axis=1)
    return found


def _seats(
    agents: Sequence[tuple[int, int]], phase: int, settings: ProbeSettings
) -> tuple[Table, Draws]:
    """Opponents and chance of a probe, the same for all noise levels and arms."""

    n = settings.games
    learners = n if LEARNER in settings.opponents else 0
    others = settings.memory_one
    vectors, told = [], []
    for agent in agents:
        drawn = tabular.sample(settings.pool, n, _stream(agent, "pool", phase), settings.a)
        parts = [drawn if x == POOL else np.tile(tabular.named(x), (n, 1)) for x in others]
        vectors.append(np.concatenate(parts) if parts else np.empty((0, 5)))
        whom = (learners, vectors[-1], settings.pool, _stream(agent, "identity", phase), settings.a)
        told.append(identity.shown(settings.identity, *whom))
    z = None if told[0] is None else torch.from_numpy(np.stack(told).astype(np.float32))
    table = Table(learners, torch.from_numpy(np.stack(vectors).astype(np.float32)), z)
    streams = [
        [_stream(a, name, phase) for a in agents] for name in ("actions", "decisions", "replies")
    ]
    return table, batch_play.draws(*streams, table, settings.rounds)
