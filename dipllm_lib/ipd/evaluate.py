"""Probes of trained agents at fixed phases: whom they play, with how much noise, round by round.

Opponents: `learner` (the other learner of the seed), named memory-one strategies, `tabular` (fresh
draws from a pool). Noise levels are names of Actors: of amortised PPI `on` plays with the decision
noise of the training, `half` with half of it, `off` with none. All levels, and all arms of an
experiment, meet the same opponents with the same random numbers, which are named by seed, learner
and phase; differences between them are paired.

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

from dipllm_lib.ipd import batch_play, identity, tabular
from dipllm_lib.ipd.batch_play import Actor, Draws, Table
from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.run import seeding

LEARNER, POOL = "learner", "tabular"
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
            if name not in (LEARNER, POOL):
                tabular.named(name)

    def payoffs_of(self, seat: int) -> Payoffs:
        """Payoffs of seat 0 or 1; whoever sits opposite of one has the other's."""
        return self.payoffs if self.other_payoffs is None or seat == 0 else self.other_payoffs


@dataclass(frozen=True, eq=False)
class Probe:
    """Means over the games of a probe. agents: (seed, seat) of each · rewards (A, L, O, 2) and
    cooperation (A, L, O, 2, T), own and opponent · alld (A, O): reward of AllD in the same place,
    NaN against learners."""

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
) -> Probe:
    """Play the games of a probe. actors: one per noise level, of the agents (seed, seat)."""
    table, chance = _seats(agents, phase, settings)
    shape = (len(agents), len(actors), len(settings.opponents))
    rewards, curves = np.empty((*shape, 2)), np.empty((*shape, 2, settings.rounds))
    for k, actor in enumerate(actors.values()):
        for o, codes in enumerate(_by_opponent(actor, table, chance, settings)):
            own, other = batch_play.own_actions(codes), batch_play.other_actions(codes)
            curves[:, k, o, 0], curves[:, k, o, 1] = own.mean(axis=1), other.mean(axis=1)
            for i, (_, seat) in enumerate(agents):
                rewards[i, k, o, 0] = settings.payoffs_of(seat).of(own[i], other[i]).mean()
                rewards[i, k, o, 1] = settings.payoffs_of(1 - seat).of(other[i], own[i]).mean()
    alld = _alld(agents, table, chance, settings)
    return Probe(settings, list(agents), phase, tuple(actors), rewards, curves, alld)


def _by_opponent(actor: Actor, table: Table, chance: Draws, settings: ProbeSettings) -> list:
    """Codes (A, games, T) of each opponent, in the order of the settings."""
    codes = batch_play.play(actor, table, chance)
    names = _in_order(settings.opponents)
    found = dict(zip(names, np.split(codes, len(names), axis=1), strict=True))
    return [found[name] for name in settings.opponents]


def _in_order(opponents: Sequence[str]) -> list[str]:
    """Games against learners come first, as a Table wants it."""
    return sorted(opponents, key=lambda name: name != LEARNER)


def _alld(
    agents: Sequence[tuple[int, int]], table: Table, chance: Draws, settings: ProbeSettings
) -> np.ndarray:
    """(A, O) mean reward of AllD against the same tabular opponents and random numbers."""
    found = np.full((len(table.vectors), len(settings.opponents)), np.nan)
    others = [name for name in settings.opponents if name != LEARNER]
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

    def stream(agent: tuple[int, int], name: str) -> np.random.Generator:
        return seeding.child(agent[0], "ipd", "probe", agent[1], name, phase)

    n = settings.games
    learners = n if LEARNER in settings.opponents else 0
    others = [name for name in settings.opponents if name != LEARNER]
    vectors, told = [], []
    for agent in agents:
        drawn = tabular.sample(settings.pool, n, stream(agent, "pool"), settings.a)
        parts = [drawn if x == POOL else np.tile(tabular.named(x), (n, 1)) for x in others]
        vectors.append(np.concatenate(parts) if parts else np.empty((0, 5)))
        whom = (learners, vectors[-1], settings.pool, stream(agent, "identity"), settings.a)
        told.append(identity.shown(settings.identity, *whom))
    z = None if told[0] is None else torch.from_numpy(np.stack(told).astype(np.float32))
    table = Table(learners, torch.from_numpy(np.stack(vectors).astype(np.float32)), z)
    streams = [[stream(a, name) for a in agents] for name in ("actions", "decisions", "replies")]
    return table, batch_play.draws(*streams, table, settings.rounds)
