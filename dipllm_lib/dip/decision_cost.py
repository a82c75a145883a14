"""What a decision costs: CPU seconds per power-turn of each player, on the same recorded positions.

A call asks a player for several power-turns at once, one of each position, as in the games of an
arena that are played together; every player gets the same calls with the same random numbers. All
are warm: before each timed call comes one that is not counted, on other positions, since a player
may remember what it has seen (the anchor keeps the encodings of its latest 64 positions, a search
those of its anchor). A timed position is new to its player, as in a game. Therefore no two players
may share an anchor object: load it once for each. CPU seconds are summed over the threads of this
process (`run.timing`): on one core, seconds.

The interval resamples calls. The ratio to a base player is that of the means and is resampled with
the same calls for both. A search prices its whole position for the one power that asks; the cost of
a player in seven seats is therefore not seven times this.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, orders
from dipllm_lib.dip.game import Game
from dipllm_lib.dip.orders import Turn
from dipllm_lib.dip.policies import Policy
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.timing import seconds


def recorded(games: Sequence[Game], count: int, rng: np.random.Generator) -> list[Turn]:
    """`count` power-turns of as many positions, drawn without repetition from all phases.

    Power-turn k is of power k mod 7 where it has something to decide. ValueError if the games have
    too few.
    """
    places = [(g, k) for g, one in enumerate(games) for k in range(one.positions().n)]
    found: list[Turn] = []
    for place in rng.permutation(len(places)).tolist():
        if len(found) == count:
            break
        g, k = places[place]
        turn = orders.turn(games[g].positions(), k, len(found) % atlas.N_POWERS)
        if turn is not None:
            found.append(turn)
    if len(found) < count:
        raise ValueError(f"{len(places)} recorded positions give {len(found)} turns, not {count}")
    return found


def measure(
    players: Sequence[Policy], turns: Sequence[Turn], together: int, seed: int
) -> pd.DataFrame:
    """Time every player on `turns`, `together` of them in a call; the first call only warms up.

    Columns agent, call (from 1), turns (in the call), seconds (CPU, per power-turn). ValueError if
    the calls would not all be of one size, or there would be only one.
    """
    if together < 1 or len(turns) % together or len(turns) == together:
        raise ValueError(f"{len(turns)} turns do not make two or more whole calls of {together}")
    calls = [list(turns[first : first + together]) for first in range(0, len(turns), together)]
    rows = []
    for number, asked in enumerate(calls[1:], 1):
        for player in players:
            tasks = iter([
                (calls[0], _generators(seed, 0, together)),
                (asked, _generators(seed, number, together)),
            ])
            spent = seconds(lambda act=player.act, tasks=tasks: act(*next(tasks)), 1)
            row = {"agent": player.name, "call": number, "turns": together}
            rows.append(row | {"seconds": spent / together})
    return pd.DataFrame(rows)


def table(
    measured: pd.DataFrame, base: str, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """One row per agent of `measure`: seconds per power-turn and the ratio to `base`, with
    intervals.

    Columns agent, base, turns, calls, seconds (+ interval), ratio (+ interval). ValueError if
    `base` was not measured or there is only one call.
    """
    spent = measured.pivot(index="call", columns="agent", values="seconds")
    agents = list(dict.fromkeys(measured["agent"]))
    if base not in agents or len(spent) < 2:
        raise ValueError(
            f"{len(spent)} calls of {agents}: need two timed calls or more, and {base!r}"
        )
    picks = rng.integers(0, len(spent), (resamples, len(spent)))
    means = {name: spent[name].to_numpy()[picks].mean(axis=1) for name in agents}
    each = int(measured["turns"].iloc[0])
    rows = []
    for name in agents:
        row = {"agent": name, "base": base, "turns": each * len(spent), "calls": len(spent)}
        row |= _estimate("seconds", spent[name].mean(), means[name])
        ratio = spent[name].mean() / spent[base].mean()
        rows.append(row | _estimate("ratio", ratio, means[name] / means[base]))
    return pd.DataFrame(rows)


def _generators(seed: int, call: int, count: int) -> list[np.random.Generator]:
    return [seeding.child(seed, "decision cost", call, k) for k in range(count)]


def _estimate(name: str, value: float, resampled: np.ndarray) -> dict[str, float]:
    """The three columns of an estimate; the interval is wide enough to hold it."""
    low, high = np.quantile(resampled, [(1 - stats.LEVEL) / 2, (1 + stats.LEVEL) / 2])
    return {name: value, f"{name}_low": min(low, value), f"{name}_high": max(high, value)}
