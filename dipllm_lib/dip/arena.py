"""One agent against six of another: seats rotated, seeds paired, five outcome measures.

Measures of the one agent at the end of a game (C = supply centres of a power):

    sos        C_i^2 / sum_j C_j^2                        sos_solo   the same, 1 and 0 after a solo
    win        C_i >= 18                                  defeated   C_i = 0
    survived   C_i >= 1 and no win of its own             centres    C_i
    most_sc    nobody has won and nobody has more than C_i (ties count)

Game g puts the one agent on power g mod 7 and belongs to seed index g div 7; its name is
("arena", g), whatever the pairing. So two arms share the end-year draws and the opponents' random
numbers of each game until play diverges, and an agent under two names plays identical games. Par
is 1/7.
"""

from typing import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, game
from dipllm_lib.dip.value import solo, sos
from dipllm_lib.run import stats

MEASURES = ("sos", "sos_solo", "win", "most_sc", "survived", "defeated", "centres")
PAR = 1 / 7


def outcome(final_centres: np.ndarray, power: int, needed: int = 18) -> dict[str, float]:
    """The measures of `power` in a game that ended with `final_centres` (7,)."""
    held = np.asarray(final_centres)
    own = held[power]
    won = bool(own >= needed)
    return {
        "sos": float(sos(held)[power]),
        "sos_solo": float(solo(held, needed)[power]),
        "win": float(won),
        "most_sc": float(held.max() < needed and own == held.max()),
        "survived": float(own >= 1 and not won),
        "defeated": float(own == 0),
        "centres": float(own),
    }


def score(games: Sequence, seats: Sequence[int]) -> pd.DataFrame:
    """One row per game: power of the seat, end rule, last year, and the measures of the seat."""
    if len(games) != len(seats):
        raise ValueError(f"{len(games)} games but {len(seats)} seats: name one power per game")
    rows = []
    for played, power in zip(games, seats):
        rows.append({
            "power": atlas.POWERS[power],
            "end": played.end,
            "year": int(played.boards.year[-1]),
            **outcome(played.final_centres, power),
        })
    return pd.DataFrame(rows)


def seats(games: int) -> list[int]:
    """Power of the one agent in each game, all seven equally often. ValueError if that fails."""
    if games < 7 or games % 7:
        raise ValueError(f"{games} games leave seats unbalanced: use a positive multiple of 7")
    return [g % 7 for g in range(games)]


def play(one, six, games: int, end: game.EndRules, seed: int) -> list[game.Game]:
    """The games of a pairing, in order of the game index, in lockstep."""
    return _play(one, six, range(len(seats(games))), end, seed)


def play_one(one, six, number: int, end: game.EndRules, seed: int) -> game.Game:
    """Game `number` of the pairing alone: the same game as in `play`, a task for one process."""
    return _play(one, six, [number], end, seed)[0]


def _play(one, six, numbers: Sequence[int], end: game.EndRules, seed: int) -> list[game.Game]:
    seatings = [[one if power == g % 7 else six for power in range(7)] for g in numbers]
    return game.play(seatings, seed, [("arena", g) for g in numbers], end)


def one_vs_six(one, six, games: int, end: game.EndRules, seed: int) -> pd.DataFrame:
    """Agent `one` on one power against six copies of `six`.

    One row per game: one, six, game, seed_index, power, end, year and the measures of the one.
    """
    return table(play(one, six, games, end, seed), one.name, six.name)


def table(played: Sequence, one: str, six: str) -> pd.DataFrame:
    """The rows of `one_vs_six` for games that `play` returned."""
    rows = score(played, seats(len(played)))
    rows.insert(0, "one", one)
    rows.insert(1, "six", six)
    rows.insert(2, "game", np.arange(len(played)))
    rows.insert(3, "seed_index", np.arange(len(played)) // 7)
    return rows


def summary(rows: pd.DataFrame, rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Mean over powers of the per-power means, with 95 % bootstrap intervals within powers.

    With one game per power nothing varies within a power; games are then resampled across powers,
    which can only widen the interval. rows: of one or several pairings. Columns one, six, measure,
    mean, low, high, games. ValueError if a pairing does not have every power equally often.
    """
    out = []
    for (one, six), pairing in rows.groupby(["one", "six"], sort=False):
        count = pairing["power"].value_counts()
        if len(count) != 7 or count.nunique() != 1:
            raise ValueError(f"{one} against six {six}: seats are unbalanced, {count.to_dict()}")
        for measure in MEASURES:
            values = pairing[measure].to_numpy()
            mean, low, high = stats.mean_interval(values, rng, resamples, _strata(pairing))
            out.append({
                "one": one,
                "six": six,
                "measure": measure,
                "mean": mean,
                "low": low,
                "high": high,
                "games": len(pairing),
            })
    return pd.DataFrame(out)


def difference(
    first: pd.DataFrame, second: pd.DataFrame, measure: str, rng, resamples: int
) -> tuple[float, float, float]:
    """(mean, low, high) of first - second, paired by game, resampled within powers.

    ValueError if the two tables are not of the same games.
    """
    a, b = (rows.sort_values("game") for rows in (first, second))
    if a["game"].tolist() != b["game"].tolist() or a["power"].tolist() != b["power"].tolist():
        raise ValueError("a paired difference needs the same games and seats in both tables")
    values = (rows[measure].to_numpy() for rows in (a, b))
    return stats.paired_interval(*values, rng, resamples, _strata(a))


def _strata(pairing: pd.DataFrame) -> np.ndarray | None:
    """Power of each game; None where each power has one game and nothing varies within it."""
    return pairing["power"].to_numpy() if len(pairing) > 7 else None
