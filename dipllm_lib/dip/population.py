"""Populations: seven seats drawn from a pool of agents, and what 1v6 pairings say about a pool.

Games of a pool of A agents come in blocks of A games. In a block every power draws its own random
order of the agents, so each agent has each power exactly once, an agent can sit on several powers
of a game, and who meets whom is chance. The draw of block b is the stream ("population", b), the
play of game g has the names ("population", g): two pools that differ in one agent have the same
seatings and the same random numbers until play diverges.

Rows of these games: one per (game, seat) with game, block, power, agent, copies (seats of that
agent in the game), end, year and the measures of `arena`. The means of an agent over a block are
one value, since games of a block belong together and the shares of a game sum to 1; intervals
resample blocks and want twenty or more. Of a single block, as in smoke, they resample the powers.

From the rows of 1v6 pairings come the two readings of Xu et al. 2025, Table 1 and Fig. 4: an agent
as the one, averaged over its pairings (`as_one`), and what six of it leave to the one (`as_six`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.dip import arena, atlas, game
from dipllm_lib.dip.arena import MEASURES
from dipllm_lib.dip.policies import Policy
from dipllm_lib.run import claims, seeding, stats

ESTIMATE = ("mean", "low", "high")


@dataclass(frozen=True)
class Population:
    """The games of a pool (a plan of `chunks`). ValueError for a pool of less than two, two agents
    of one name, or games that are no multiple of the pool.
    """

    agents: tuple[Policy, ...]
    games: int
    end: game.EndRules
    seed: int
    name: str = "population"

    def __post_init__(self):
        names = [agent.name for agent in self.agents]
        if len(names) < 2 or len(set(names)) != len(names):
            raise ValueError(f"a pool needs two agents or more with distinct names, got {names}")
        if self.games < 1 or self.games % len(names):
            fault = f"{self.games} games leave seats unbalanced"
            raise ValueError(f"{fault}: use a positive multiple of {len(names)}")

    def seating(self, number: int) -> list[int]:
        """Place in the pool of the agent on each power of game `number`."""
        block, row = divmod(number, len(self.agents))
        rng = seeding.child(self.seed, "population", block)
        return [int(rng.permutation(len(self.agents))[row]) for _ in range(atlas.N_POWERS)]

    def play(self, numbers: Sequence[int]) -> list[game.Game]:
        """These games, in lockstep: an agent answers all its turns of all of them in one call."""
        seatings = [[self.agents[k] for k in self.seating(g)] for g in numbers]
        return game.play(seatings, self.seed, [("population", g) for g in numbers], self.end)

    def table(self, played: Sequence[game.Game], numbers: Sequence[int]) -> pd.DataFrame:
        """The rows of games that `play` returned for these numbers."""
        if len(played) != len(numbers):
            raise ValueError(f"{len(played)} games but {len(numbers)} numbers")
        rows = []
        for one, number in zip(played, numbers):
            seats = [self.agents[k].name for k in self.seating(number)]
            head = {"game": number, "block": number // len(self.agents)}
            rows += [head | row for row in seat_rows(one, seats)]
        return pd.DataFrame(rows)


def seat_rows(played: game.Game, seats: Sequence[str]) -> list[dict]:
    """A row for each seat of a game: power, agent, copies, end, year, measures. seats: the agents'
    names, powers in order.
    """
    held, year = played.final_centres, int(played.boards.year[-1])
    return [
        {
            "power": atlas.POWERS[power],
            "agent": agent,
            "copies": seats.count(agent),
            "end": played.end,
            "year": year,
            **arena.outcome(held, power),
        }
        for power, agent in enumerate(seats)
    ]


def _blocks(rows: pd.DataFrame, agent: str) -> pd.DataFrame:
    """Means of the measures of an agent by block; of a single block the measures by power.
    ValueError unless it has every power once in each block.
    """
    own = rows[rows["agent"] == agent]
    counts = own.groupby(["block", "power"]).size()
    if not len(own) or len(counts) != rows["block"].nunique() * 7 or counts.max() > 1:
        raise ValueError(f"{agent}: seats are unbalanced, {len(own)} rows; need whole blocks")
    by = "block" if rows["block"].nunique() > 1 else "power"
    return own.groupby(by)[list(MEASURES)].mean()


def summary(rows: pd.DataFrame, rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Means over powers for each agent of the pool, intervals over blocks: agent, measure, mean,
    low, high, games, blocks.
    """
    games, count = rows["game"].nunique(), rows["block"].nunique()
    out = []
    for agent in rows["agent"].unique():
        blocks = _blocks(rows, agent)
        for measure in MEASURES:
            found = stats.mean_interval(blocks[measure].to_numpy(), rng, resamples)
            row = {"agent": agent, "measure": measure} | dict(zip(ESTIMATE, found))
            out.append(row | {"games": games, "blocks": count})
    return pd.DataFrame(out)


def difference(
    rows: pd.DataFrame,
    first: str,
    second: str,
    rng: np.random.Generator,
    resamples: int,
    measure: str = "sos",
) -> tuple[float, float, float]:
    """(mean, low, high) of first - second, paired by block, in which both have every power once."""
    a, b = (_blocks(rows, agent)[measure].to_numpy() for agent in (first, second))
    return stats.paired_interval(a, b, rng, resamples)


def differences(
    rows: pd.DataFrame,
    agent: str,
    rng: np.random.Generator,
    resamples: int,
    measure: str = "sos",
) -> pd.DataFrame:
    """`agent` minus every other agent of the pool: one, other, measure, blocks, mean, low, high,
    verdict (`holds` if the interval lies above 0).
    """
    out = []
    for other in rows["agent"].unique():
        if other != agent:
            found = difference(rows, agent, other, rng, resamples, measure)
            row = {"one": agent, "other": other, "measure": measure}
            row |= {"blocks": rows["block"].nunique()} | dict(zip(ESTIMATE, found))
            out.append(row | {"verdict": claims.verdict(*found, above=0)})
    return pd.DataFrame(out)


def by_power(
    rows: pd.DataFrame, rng: np.random.Generator, resamples: int, measure: str = "sos"
) -> pd.DataFrame:
    """`measure` of each agent on each power: agent, power, games, mean, low, high."""
    return arena.by_power(rows, rng, resamples, measure, by=("agent",))


def as_one(
    rows: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
    names: Sequence[str] | None = None,
    measures: Sequence[str] = MEASURES,
) -> pd.DataFrame:
    """The population table (Xu et al. 2025, Table 1): the mean of an agent over its pairings as the
    one, against six of every other agent, all pairings with the same number of games.

    rows: of 1v6 pairings (`arena`). names: the pool, default every agent that was the one. Games of
    one number share their random numbers in all pairings, so the mean over the pairings is one
    value per game number, resampled within powers. Columns agent, opponents (how many), measure,
    mean, low, high, games (per pairing). ValueError if a pairing is missing.
    """
    return _reading(rows, "one", "six", names, measures, rng, resamples)


def as_six(
    rows: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
    names: Sequence[str] | None = None,
    measures: Sequence[str] = MEASURES,
) -> pd.DataFrame:
    """The reverse reading, 6v1: what six of an agent leave to the one, the mean over all other
    agents as the one. Low scores mean a strong six. Columns as `as_one`.
    """
    return _reading(rows, "six", "one", names, measures, rng, resamples)


def _reading(rows, side: str, other: str, names, measures, rng, resamples) -> pd.DataFrame:
    pool = list(dict.fromkeys(rows[side]) if names is None else names)
    out = []
    for agent in pool:
        others = [name for name in pool if name != agent]
        cells = _cells(rows[rows[side] == agent], other, agent, others)
        strata = cells["power"].to_numpy() if len(cells) > 7 else None
        for measure in measures:
            values = cells[measure].to_numpy()
            found = stats.mean_interval(values, rng, resamples, strata)
            row = {"agent": agent, "opponents": len(others), "measure": measure}
            out.append(row | dict(zip(ESTIMATE, found)) | {"games": len(cells)})
    return pd.DataFrame(out)


def _cells(rows: pd.DataFrame, other: str, agent: str, others: Sequence[str]) -> pd.DataFrame:
    """Means of the measures over the other agents for each game number, with its power; of the game
    numbers that all pairings have.
    """
    kept = rows[rows[other].isin(others)]
    per_game = kept.groupby("game")[other].nunique()
    common = kept[kept["game"].isin(per_game.index[per_game == len(others)])]
    missing = [name for name in others if name not in set(kept[other])]
    if missing or not len(common) or len(common) % (7 * len(others)):
        raise ValueError(f"{agent}: need whole pairings with {others}, missing {missing}")
    cells = common.groupby(["game", "power"], sort=True)[list(MEASURES)].mean()
    return cells.reset_index()
