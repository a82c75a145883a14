"""What a decision costs: CPU seconds per power-turn of each player, on the same recorded positions.

A call asks a player for several power-turns at once, one of each position, as in the games of an
arena that are played together; every player gets the same calls with the same random numbers. Each
call is made once before it is timed, so all are warm, and the best of the passes counts
(`run.timing`). CPU seconds are summed over the threads of this process: on one core, seconds.

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
    players: Sequence[Policy], turns: Sequence[Turn], together: int, seed: int, passes: int = 1
) -> pd.DataFrame:
    """Time every player on `turns`, `together` of them in a call.

    Columns agent, call, turns (in the call), seconds (CPU, per power-turn). ValueError if the calls
    would not all be of one size.
    """
    if together < 1 or len(turns) % together:
        raise ValueError(f"{len(turns)} turns do not make whole calls of {together}")
    rows = []
    for first in range(0, len(turns), together):
        asked, call = list(turns[first : first + together]), first // together
        for player in players:
            again = iter([_generators(seed, call, together) for _ in range(passes + 1)])
            spent = seconds(lambda p=player, r=again, a=asked: p.act(a, next(r)), passes)
            row = {"agent": player.name, "call": call, "turns": together}
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
        raise ValueError(f"{len(spent)} calls of {agents}: need two calls or more, and {base!r}")
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
