"""Why agents that are told their opponent earn less than the exact best response to it.

One learner of each seed of the arm Opponent ID meets fresh opponents of the pool, known to it by z,
without decision noise. The same opponents, with the same random numbers, meet players that take
away one cause of the loss each:

    operator    no network: greedy on the exact Q over H rounds of the mean policy of the stored
                games, Eq. 1 iterated over the phases: loss of horizon, decision noise and old data
    distilled   the network, new, fitted by cross-entropy to the best response's actions on
                the games of D0: loss of the network and of its input
    head        the trained agents with their learned Q: the arm as it is
    rollouts    the same weights, Q from K rollouts inside the model, as published
    opponents   the same weights, Q from K rollouts with the true opponents: no error of the replies

What is missing to the exact value is measured in pairs, as the reward of the planned best response
minus that of the player, game by game; of `operator` it is exact.

Shapes: A agents, n games each, T rounds; vectors (A, n, 5), s0 first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from dipllm_lib.ipd import (
    batch_play,
    best_response,
    contrasts,
    exact,
    figures,
    identity,
    mechanism_ppi,
    mixed_pool,
    models,
    ppi_data,
    ppi_fit,
    ppi_q,
    ppi_runs,
    seats,
    tabular,
)
from dipllm_lib.ipd.batch_play import Table
from dipllm_lib.ipd.ppi_settings import PPISettings
from dipllm_lib.ipd.stack import Stack
from dipllm_lib.run.profiles import IPDSettings

ARM = "identity"
KINDS = ("operator", "distilled", "head", "rollouts", "opponents")
NAMES = {
    "operator": "exact Q of the stored games, greedy",
    "distilled": "same network, fitted to the best response",
    "head": "learned Q",
    "rollouts": "same weights, rollouts inside the model",
    "opponents": "same weights, rollouts with the opponent",
}
Agents = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Task:
    """One player for some seeds. trained: folder of the trainings of the arm (mixed_pool.Task.key)
    · rollouts: K of an action, for `rollouts` and `opponents`. ValueError for another kind."""

    kind: str
    settings: IPDSettings
    seeds: tuple[int, ...]
    trained: str
    rollouts: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind {self.kind!r} of a player: use {', '.join(KINDS)}")

    @property
    def key(self) -> str:
        """A name for files and tasks."""
        return f"gap.{self.kind}.{self.rollouts}.{self.seeds[0]}-{self.seeds[-1]}"

    @property
    def agents(self) -> list[tuple[int, int]]:
        """(seed, 0) of each: the first learner of every seed."""
        return [(seed, 0) for seed in self.seeds]

    @property
    def player(self) -> str:
        """What it is called in tables."""
        return NAMES[self.kind] + (f", K {self.rollouts}" if self.rollouts else "")


def tasks(settings: IPDSettings, arms: Sequence[mixed_pool.Task]) -> list[Task]:
    """All players for the seeds of the finished trainings `arms`, those of Opponent ID by PPI."""
    kinds: list[tuple[str, int]] = [("operator", 0), ("distilled", 0)]
    kinds += [("head", 0)] if settings.q == "head" else []
    kinds += [(kind, k) for k in settings.identity_rollouts for kind in ("rollouts", "opponents")]
    own = [task for task in arms if (task.learner, task.arm) == ("ppi", ARM)]
    return [
        Task(kind, settings, task.seeds, str(Path(task.folder) / task.key), k)
        for kind, k in kinds
        for task in own
    ]


def run(task: Task) -> list[dict]:
    """One row per seed: player, seed, missing (reward per round), cooperation of the player."""
    own, n = mixed_pool.ppi(task.settings, ARM), task.settings.identity_games
    vectors = opponents(task.agents, own, n)
    if task.kind == "operator":
        found = [_operator_row(row, own) for row in vectors]
    else:
        found = _played(_actor(task, own), task.agents, vectors, own)
    rows = zip(task.seeds, found, strict=True)
    return [
        {"player": task.player, "seed": seed, "missing": missing, "cooperation": cooperation}
        for seed, (missing, cooperation) in rows
    ]


def opponents(agents: Agents, own: PPISettings, n: int) -> np.ndarray:
    """(A, n, 5) fresh agents of the pool, the same for all players."""
    streams = ppi_data.generators(agents, "gap", "opponents")
    return np.stack([tabular.sample(own.pool, n, rng, own.a) for rng in streams])


def _played(
    actor: batch_play.Actor, agents: Agents, vectors: np.ndarray, own: PPISettings
) -> list[tuple[float, float]]:
    """(missing, cooperation) of each agent, the same chance for the actor and the best response."""
    told = np.stack([identity.code(row) for row in vectors]).astype(np.float32)
    shown = torch.from_numpy(vectors.astype(np.float32)), torch.from_numpy(told)
    table = Table(0, *shown)
    streams = [ppi_data.generators(agents, "gap", x) for x in ("actions", "decisions", "replies")]
    chance = batch_play.draws(*streams, table, own.rounds)
    plan = best_response.best_response(vectors.reshape(-1, 5), own.rounds, own.payoffs).policy
    planned = seats.Seated(best_response.Planned(plan), chunk=vectors.shape[1])
    rewards, codes = [], np.empty(0)
    for player in (planned, actor):
        codes = batch_play.play(player, table, chance)
        earned = own.payoffs.of(batch_play.own_actions(codes), batch_play.other_actions(codes))
        rewards.append(earned.mean(axis=(1, 2)))
    cooperation = batch_play.own_actions(codes).mean(axis=(1, 2))
    return list(zip((rewards[0] - rewards[1]).tolist(), cooperation.tolist(), strict=True))


def _operator_row(vectors: np.ndarray, own: PPISettings) -> tuple[float, float]:
    """(missing, cooperation) of `operator` against vectors (n, 5), both exact."""
    policy = operator(vectors, own)
    earned, _ = exact.finite(policy, vectors, own.rounds, own.payoffs)
    best = best_response.best_response(vectors, own.rounds, own.payoffs).value
    outcomes = exact.occupancy(policy, vectors, own.rounds)
    return float((best - earned).mean()), float(outcomes[:, :2].sum(axis=1).mean())


def operator(vectors: np.ndarray, own: PPISettings) -> np.ndarray:
    """(n, 5) 0 or 1: C where the exact Q of the last phase asks for it, against vectors (n, 5).

    Q is that of one policy, the mean of all stored games by outcome: coin flips in D0, then in
    each phase P(C) = Phi((Q(C) - Q(D)) / sigma), weighted by games against tabular agents.
    """
    seen = exact.as_seen(vectors)
    mean, games = np.full(seen.shape, 0.5), own.first_games
    for phase in range(1, own.phases + 1):
        q = action_values(seen, mean, own)
        gain = q[..., 0] - q[..., 1]
        sigma = own.noise_at(phase)
        played = torch.special.ndtr(torch.from_numpy(gain / sigma)).numpy() if sigma else gain > 0
        mean = (games * mean + own.tabular_games * played) / (games + own.tabular_games)
        games += own.tabular_games
    return (gain > 0).astype(np.float64)


def action_values(seen: np.ndarray, policy: np.ndarray, own: PPISettings) -> np.ndarray:
    """(n, 5, 2) return over H rounds of C and of D after s0, CC, CD, DC, DD, later own actions by
    `policy`; seen: P(C) of the opponent, both (n, 5) in the own view."""
    r, s, t, p = own.payoffs.by_state
    after = np.zeros(seen.shape)
    for _ in range(own.horizon):
        cc, cd, dc, dd = (own.discount * after[:, [k]] for k in (1, 2, 3, 4))
        if_c = seen * (r + cc) + (1.0 - seen) * (s + cd)
        if_d = seen * (t + dc) + (1.0 - seen) * (p + dd)
        after = policy * if_c + (1.0 - policy) * if_d
    return np.stack([if_c, if_d], axis=-1)


def _actor(task: Task, own: PPISettings) -> batch_play.Actor:
    """The player of a network."""
    if task.kind == "distilled":
        return Greedy(distilled(task.agents, own, task.settings.identity_steps))
    kept = ppi_runs.load(Path(task.trained) / "state.npz")
    first = {k: v[::2] for k, v in kept.items() if k.startswith("weight.")}
    stack = mechanism_ppi.weights(own, first, task.agents)
    if task.kind == "head":
        return ppi_q.Improved(stack, own, 0.0)
    q = {"rollouts": "mc", "opponents": "env"}[task.kind]
    rolled = replace(own, q=q, rollouts=task.rollouts, common=task.settings.mc_common)
    streams = ppi_data.generators(task.agents, "gap", task.kind, task.rollouts)
    return ppi_q.Improved(stack, rolled, 1.0, streams)


def distilled(agents: Agents, own: PPISettings, steps: int) -> Stack:
    """New networks of the arm, fitted to the actions of the best response on the games of D0."""
    codes, z, known = ppi_data.random_games(agents, own, own.first_games, "D0")
    obs = batch_play.before(codes)
    wanted = np.stack([best_actions(*pair, own) for pair in zip(known, obs, strict=True)])
    stack = models.build(own.model, ppi_data.generators(agents, "weights", 0))
    adam = ppi_fit.optimiser(stack, own)
    streams = ppi_data.generators(agents, "gap", "batches")
    order = [ppi_data.Batches(rng, 0, codes.shape[1], own.batch) for rng in streams]
    rows = np.arange(len(agents))[:, None]
    for step in range(steps):
        index = np.stack([batches.next() for batches in order])
        seen = torch.from_numpy(obs[rows, index].astype(np.int64))
        odds = stack.read(stack.unroll(seen, torch.from_numpy(z[rows, index])))["own"]
        loss = ppi_fit.surprise(odds, torch.from_numpy(wanted[rows, index]))
        adam.zero_grad(set_to_none=True)
        loss.sum().backward()
        stack.clip_per_agent(own.clip_norm)
        late = own.late_rate if step >= ppi_fit.LATE * steps else 1.0
        adam.param_groups[0]["lr"] = own.lr * late
        adam.step()
    return stack


def best_actions(vectors: np.ndarray, obs: np.ndarray, own: PPISettings) -> np.ndarray:
    """bool (n, T), True = C: the best response to vectors (n, 5) after obs (n, T)."""
    found = np.empty(obs.shape, dtype=bool)
    for first in range(0, len(vectors), best_response.CHUNK):
        part = slice(first, first + best_response.CHUNK)
        plan = best_response.best_response(vectors[part], own.rounds, own.payoffs).policy
        seen = obs[part].astype(np.int64)[..., None]
        found[part] = np.take_along_axis(plan, seen, axis=2)[..., 0] == 1
    return found


@dataclass(frozen=True, eq=False)
class Greedy:
    """An Actor: the likelier action of the head `own`."""

    stack: Stack
    chunk: int = ppi_q.CHUNK

    def start(self, table: Table) -> Any:
        """The state before the first round."""
        return self.stack.start(table.n, table.z)

    def act(
        self, state: Any, obs: torch.Tensor, u: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, Any]:
        """Actions bool (A, n) and the next state; no chance is used."""
        features, state = self.stack.step(state, obs)
        return self.stack.read(features)["own"] > 0, state


def table(
    rows: pd.DataFrame, gain: float, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Columns player, missing, low, high, seeds (over seeds), reward and cooperation.

    rows: of `run`, all players · gain: that of the best response over AllD on the pool, so reward
    = 1 + gain - missing.
    """
    found = figures.bands(rows, ("player",), "missing", rng, resamples)
    found = found.rename(columns={"mean": "missing"})
    own = rows.groupby("player")["cooperation"].mean()
    return found.assign(reward=1.0 + gain - found["missing"], cooperation=found["player"].map(own))


def causes(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Label -> value of each seed, stated to be positive: what each player misses, then what each
    other one earns above the learned Q, if there is one."""
    players = rows.groupby("player", sort=False)
    missing = {name: part.set_index("seed")["missing"] for name, part in players}
    found = {f"{name}: missing": own for name, own in missing.items()}
    head = missing.pop(NAMES["head"], None)
    if head is not None:
        for name, own in missing.items():
            found[f"{name} − {NAMES['head']}"] = contrasts.difference(head, own)
    return found
