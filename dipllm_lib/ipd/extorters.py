"""Games behind the meters of extortion: trained extorters against many opponents.

The enforcement line wants opponents that differ: tabular agents of the pool, and copies of the
frozen victim whose weights are moved by noise of rising size. Copy i has every weight matrix moved
by `size` times its own root mean square, so the small ones still infer and the large ones do not.

The memory-one fit is made of observed play against the victim, and against the tabular agents,
whose play visits every outcome.

Shapes: A agents, m opponents of each, g games with each of them, T rounds.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from dipllm_lib.ipd import batch_play, exact, extortion, tabular
from dipllm_lib.ipd.batch_play import Actor, Table
from dipllm_lib.ipd.game import STATES
from dipllm_lib.ipd.models import Stack
from dipllm_lib.run import seeding

SMALLEST, LARGEST = 0.02, 0.5  # sizes of the first and the last copy
TABULAR, COPY, VICTIM = "tabular", "copy", "frozen"
PAYOFFS = exact.STANDARD


@dataclass(frozen=True)
class Games:
    """rounds T · pool of the tabular agents · opponents m, games g with each of them and with each
    copy · victim_games: with the victim itself."""

    rounds: int
    pool: str = "uniform"
    opponents: int = 200
    games: int = 20
    victim_games: int = 200


def size(i: int, count: int) -> float:
    """Size of copy i of `count`, evenly spaced on a logarithmic scale."""
    if not 0 <= i < count:
        raise ValueError(f"no copy {i} of {count}")
    share = i / (count - 1) if count > 1 else 0.0
    return SMALLEST * (LARGEST / SMALLEST) ** share


@torch.no_grad()
def perturbed(stack: Stack, size: float, streams: Sequence[np.random.Generator]) -> Stack:
    """A copy whose weights w are w + size · rms(w) · N(0, 1), one generator per agent."""
    if len(streams) != stack.agents:
        raise ValueError(f"{len(streams)} generators for {stack.agents} agents")
    moved = copy.deepcopy(stack)
    for _, weight in moved.named_parameters():
        scale = weight.flatten(1).square().mean(dim=1).sqrt()
        noise = np.stack([rng.standard_normal(weight.shape[1:], np.float32) for rng in streams])
        weight += size * scale.view(-1, *[1] * (weight.ndim - 1)) * torch.from_numpy(noise)
    return moved


def measure(
    actor: Actor,
    agents: Sequence[tuple[int, int]],
    victim: Actor,
    copies: Sequence[Actor],
    sizes: Games,
    end: int,
) -> dict[str, pd.DataFrame]:
    """Play all games of agents (seed, seat), the extorters; victim and copies: agent i meets agent
    i · end: the phase, a name of the random numbers.

    line   seed, seat, kind, number, s_x, s_y, games: means of one opponent each
    fits   seed, seat, against, visits, p and visits of s0, CC, CD, DC, DD: observed play
    """
    pool = _pool_games(actor, agents, sizes, end)
    own = _rival_games(actor, agents, victim, sizes.victim_games, sizes.rounds, end, "victim")
    lines = [_points(agents, pool.reshape(len(agents), sizes.opponents, sizes.games, -1), TABULAR)]
    for i, other in enumerate(copies):
        found = _rival_games(actor, agents, other, sizes.games, sizes.rounds, end, f"copy {i}")
        lines.append(_points(agents, found[:, None], COPY, i))
    fits = [_rates(agents, own, VICTIM), _rates(agents, pool, TABULAR)]
    return {
        "line": pd.concat(lines, ignore_index=True),
        "fits": pd.concat(fits, ignore_index=True),
    }


def _streams(agents: Sequence, end: int, *names: str) -> list[list[np.random.Generator]]:
    purposes = "actions", "decisions", "replies"
    return [
        [seeding.child(seed, "ipd", "extorter", seat, end, *names, x) for seed, seat in agents]
        for x in purposes
    ]


def _pool_games(actor: Actor, agents: Sequence, sizes: Games, end: int) -> np.ndarray:
    """Codes (A, m g, T) against m tabular agents, g games in a row with each."""
    vectors = []
    for seed, seat in agents:
        rng = seeding.child(seed, "ipd", "extorter", seat, end, "pool")
        drawn = tabular.sample(sizes.pool, sizes.opponents, rng)
        vectors.append(np.repeat(drawn, sizes.games, axis=0))
    table = Table(0, torch.from_numpy(np.stack(vectors).astype(np.float32)))
    chance = batch_play.draws(*_streams(agents, end, "pool"), table, sizes.rounds)
    return batch_play.play(actor, table, chance)


def _rival_games(
    actor: Actor, agents: Sequence, rival: Actor, n: int, rounds: int, end: int, name: str
) -> np.ndarray:
    """Codes (A, n, T) against agent i of `rival`."""
    table = Table(n, torch.empty(len(agents), 0, 5))
    sides = [
        batch_play.draws(*_streams(agents, end, name, side), table, rounds)
        for side in ("own", "other")
    ]
    return batch_play.play(actor, table, sides[0], (rival, sides[1]))


def _points(agents: Sequence, codes: np.ndarray, kind: str, first: int = 0) -> pd.DataFrame:
    """Mean payoffs per opponent of codes (A, m, g, T)."""
    own, other = batch_play.own_actions(codes), batch_play.other_actions(codes)
    x = PAYOFFS.of(own, other).mean(axis=(2, 3))
    y = PAYOFFS.of(other, own).mean(axis=(2, 3))
    rows = [
        (*agents[i], kind, first + k, x[i, k], y[i, k], codes.shape[2])
        for i, k in np.ndindex(x.shape)
    ]
    return pd.DataFrame(rows, columns=["seed", "seat", "kind", "number", "s_x", "s_y", "games"])


def _rates(agents: Sequence, codes: np.ndarray, against: str) -> pd.DataFrame:
    """Observed play of codes (A, n, T)."""
    rows = []
    for agent, own in zip(agents, codes, strict=True):
        found = extortion.observed(own)
        row = dict(zip(("seed", "seat"), agent, strict=True)) | {"against": against}
        row |= {f"p_{s}": float(p) for s, p in zip(STATES, found.p, strict=True)}
        row |= {f"n_{s}": int(v) for s, v in zip(STATES, found.visits, strict=True)}
        rows.append(row)
    return pd.DataFrame(rows)
