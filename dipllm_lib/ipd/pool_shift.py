"""Trained agents against opponents that they were not trained with: regret, and other seeds.

A frozen stack of agents (any Actor of `batch_play`; a `game.Player` in the form of `seats.Seated`)
plays sets of memory-one opponents. What it earns is held against the exact best response to each
single opponent, which no player of any memory beats:

    regret = mean over opponents of (value of the best response - mean reward),  >= 0 but for chance

Players with a longer memory, those of Axelrod for instance, have no such reference here: their rows
have no best response and no regret.

All agents and noise levels meet the same opponents, and all levels have the same random numbers.

Shapes: A agents, k opponents of a set, T rounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from dipllm_lib.ipd import batch_play, best_response, exact, identity, seats, tabular
from dipllm_lib.ipd.batch_play import Actor, Table
from dipllm_lib.ipd.game import Payoffs, Player
from dipllm_lib.run import seeding

Agents = Sequence[tuple[int, int]]  # (seed, seat) of each agent
CHIS = (1.0, 1.5, 2.0, 3.0, 5.0)
TREMBLES = (0.01, 0.02, 0.05)
BETAS = (0.5, 0.25, 0.1)


@dataclass(frozen=True)
class ShiftSettings:
    """rounds of a game · games: of every agent with every set, each opponent of a set as often as
    the others, at least once · identity: what the agents are told, as in their training."""

    rounds: int
    games: int = 200
    payoffs: Payoffs = exact.STANDARD
    identity: str = "none"

    def __post_init__(self) -> None:
        identity.check(self.identity)
        if self.rounds < 1 or self.games < 1:
            raise ValueError(f"need rounds and games >= 1, got {self.rounds} and {self.games}")


def strategies() -> dict[str, np.ndarray]:
    """Sets of one opponent: named ones, ZD players that open with D, TFT that trembles, humans."""
    found = {name: tabular.named(name)[None] for name in tabular.NAMED}
    found |= {f"ZD {chi:g}": tabular.zd(chi, first=0.0)[None] for chi in CHIS}
    tit = tabular.named("TFT")
    found |= {f"TFT, tremble {rate:g}": tabular.tremble(tit, rate) for rate in TREMBLES}
    return found | {"human": np.array(tabular.HUMAN)[None]}


def pools(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Sets of n draws of the pools uniform, Beta, families, and all 32 corners."""
    found = {"uniform": tabular.sample("uniform", n, rng)}
    found |= {f"beta {a:g}": tabular.sample("beta", n, rng, a) for a in BETAS}
    return found | {"families": tabular.sample("families", n, rng), "corners": tabular.corners()}


def _stream(agent: tuple[int, int], *names: str | int) -> np.random.Generator:
    seed, seat = agent
    return seeding.child(seed, "ipd", "shift", seat, *names)


def _draws(agents: Agents, name: str, table: Table, rounds: int) -> batch_play.Draws:
    purposes = ("actions", "decisions", "replies")
    streams = [[_stream(agent, name, purpose) for agent in agents] for purpose in purposes]
    return batch_play.draws(*streams, table, rounds)


def regret(
    actors: Mapping[str, Actor],
    agents: Agents,
    opponents: Mapping[str, np.ndarray],
    settings: ShiftSettings,
) -> pd.DataFrame:
    """Every agent against every set of opponents, name -> vectors (k, 5).

    actors: one per noise level. Columns seed, seat, opponent, noise, games, reward, cooperation,
    other_cooperation, other_reward, best and best_cooperation (of the best response), alld (what
    AllD would earn, exact), regret.
    """
    rows = []
    for name, given in opponents.items():
        vectors = tabular.check(given)
        repeated = np.repeat(vectors, max(settings.games // len(vectors), 1), axis=0)
        seated = torch.from_numpy(np.stack([repeated] * len(agents)).astype(np.float32))
        table = Table(0, seated, _told(agents, name, repeated, settings))
        chance = _draws(agents, name, table, settings.rounds)
        best = best_response.best_response(vectors, settings.rounds, settings.payoffs)
        alld, _ = exact.finite(tabular.named("AllD"), vectors, settings.rounds, settings.payoffs)
        known = {
            "best": float(best.value.mean()),
            "best_cooperation": float(best.cooperation.mean()),
            "alld": float(alld.mean()),
        }
        for level, actor in actors.items():
            codes = batch_play.play(actor, table, chance)
            found = _measured(agents, codes, settings.payoffs)
            rows.append(found.assign(opponent=name, noise=level, **known))
    joined = pd.concat(rows, ignore_index=True)
    return joined.assign(regret=joined["best"] - joined["reward"])


def _told(
    agents: Agents, name: str, vectors: np.ndarray, settings: ShiftSettings
) -> torch.Tensor | None:
    if settings.identity == "none":
        return None
    told = [
        identity.shown(settings.identity, 0, vectors, "uniform", _stream(agent, name, "identity"))
        for agent in agents
    ]
    return torch.from_numpy(np.stack(told).astype(np.float32))


def _measured(agents: Agents, codes: np.ndarray, payoffs: Payoffs) -> pd.DataFrame:
    """One row per agent of its games codes (A, n, T)."""
    own, other = batch_play.own_actions(codes), batch_play.other_actions(codes)
    found = pd.DataFrame(list(agents), columns=["seed", "seat"])
    found["games"] = codes.shape[1]
    values = {
        "reward": payoffs.of(own, other),
        "cooperation": own,
        "other_reward": payoffs.of(other, own),
        "other_cooperation": other,
    }
    for name, value in values.items():
        found[name] = value.mean(axis=(1, 2), dtype=np.float64)
    return found


def meet(
    actors: Mapping[str, Actor],
    agents: Agents,
    players: Mapping[str, Player],
    settings: ShiftSettings,
) -> pd.DataFrame:
    """Every agent against players of any memory; the columns of `regret`, best, best_cooperation,
    alld and regret being NaN."""
    nobody = torch.empty(len(agents), 0, 5)
    told = None
    if settings.identity != "none":  # like learners
        told = torch.zeros(len(agents), settings.games, identity.SIZE)
    table, rows = Table(settings.games, nobody, told), []
    for name, player in players.items():
        own = _draws(agents, name, table, settings.rounds)
        theirs = _draws(agents, f"{name}, the player", table, settings.rounds)
        for level, actor in actors.items():
            codes = batch_play.play(actor, table, own, (seats.Seated(player), theirs))
            found = _measured(agents, codes, settings.payoffs)
            rows.append(found.assign(opponent=name, noise=level))
    unknown = dict.fromkeys(("best", "best_cooperation", "alld", "regret"), float("nan"))
    return pd.concat(rows, ignore_index=True).assign(**unknown)


@dataclass(frozen=True)
class Rearranged:
    """A stack of agents in another order: seat i is taken by agent order[i] of `actor`."""

    actor: Actor
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.order))):
            raise ValueError(f"order {self.order} is no permutation of the agents")

    @property
    def chunk(self) -> int:
        """That of the actor."""
        return self.actor.chunk

    def start(self, table: Table) -> Any:
        """The state of the actor."""
        return self.actor.start(table)

    def act(
        self, state: Any, obs: torch.Tensor, u: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, Any]:
        """Actions (A, n) in the new order."""
        order = torch.tensor(self.order)
        seat = torch.argsort(order)  # of each agent
        actions, state = self.actor.act(state, obs[seat], u[seat], noise[seat])
        return actions[order], state


def crossplay(
    actor: Actor, agents: Agents, settings: ShiftSettings, rival: Actor | None = None
) -> pd.DataFrame:
    """Learner 0 of every seed with learner 1 of every seed, as they met in training if the seeds
    are the same. One row per agent and other seed: seed, seat, other_seed, games, reward,
    cooperation, other_reward, other_cooperation.

    rival: the same agents as a second actor, `actor` itself by default. ValueError unless agents
    are (seed, 0), (seed, 1) side by side.
    """
    seeds = [seed for seed, _ in agents[::2]]
    if list(agents) != [(seed, seat) for seed in seeds for seat in range(2)]:
        raise ValueError(f"cross-play needs learners 0 and 1 of each seed side by side: {agents}")
    told = None
    if settings.identity != "none":
        told = torch.zeros(len(agents), settings.games, identity.SIZE)
    table = Table(settings.games, torch.empty(len(agents), 0, 5), told)
    rows = []
    for shift in range(len(seeds)):
        other = [(i // 2 + shift) % len(seeds) for i in range(len(agents))]
        order = tuple(2 * k + 1 - i % 2 for i, k in enumerate(other))
        own = _draws(agents, f"seed + {shift}", table, settings.rounds)
        theirs = _draws(agents, f"seed + {shift}, the other", table, settings.rounds)
        seated = Rearranged(rival or actor, order)
        codes = batch_play.play(actor, table, own, (seated, theirs))
        found = _measured(agents, codes, settings.payoffs)
        rows.append(found.assign(other_seed=[seeds[k] for k in other]))
    return pd.concat(rows, ignore_index=True)


def matrix(table: pd.DataFrame, measure: str = "cooperation", seat: int = 0) -> pd.DataFrame:
    """Seeds x seeds: `measure` of learner `seat` of the row's seed with the column's other one."""
    own = table[table["seat"] == seat]
    return own.pivot(index="seed", columns="other_seed", values=measure)
