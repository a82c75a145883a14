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

The reverse, six X against the one Y, is the pairing with `one` Y and `six` X, read as the score
that six X leave to Y (`both_ways`).

Tables of rows have one row per game: one, six, game, seed_index, power, end, year and the measures
of the one, shares as numbers from 0 to 1. Estimates have mean, low and high, a 95 % interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, game
from dipllm_lib.dip.policies import Policy
from dipllm_lib.dip.value import solo, sos
from dipllm_lib.run import claims, stats

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


@dataclass(frozen=True)
class Pairing:
    """The games of `one` against six copies of `six`. Any of them can be played alone or beside
    others and is the same game (a plan of `chunks`).

    stop: a game ends once the one has no centre left. All its measures are fixed then; `end` and
    `year` of the row are not those of the whole game. ValueError if seats are unbalanced.
    """

    one: Policy
    six: Policy
    games: int
    end: game.EndRules
    seed: int
    stop: bool = False

    def __post_init__(self):
        seats(self.games)

    @property
    def name(self) -> str:
        """For messages and names of tasks."""
        return f"{self.one.name} vs {self.six.name}"

    def play(self, numbers: Sequence[int]) -> list[game.Game]:
        """These games, in lockstep."""
        powers = [g % 7 for g in numbers]
        seatings = [[self.one if p == seat else self.six for p in range(7)] for seat in powers]
        names = [("arena", g) for g in numbers]
        return game.play(seatings, self.seed, names, self.end, powers if self.stop else None)

    def table(self, played: Sequence[game.Game], numbers: Sequence[int]) -> pd.DataFrame:
        """The rows of games that `play` returned for these numbers."""
        return _table(played, self.one.name, self.six.name, numbers)


def play(one, six, games: int, end: game.EndRules, seed: int) -> list[game.Game]:
    """The games of a pairing, in order of the game index, in lockstep."""
    return Pairing(one, six, games, end, seed).play(range(games))


def play_one(one, six, number: int, end: game.EndRules, seed: int) -> game.Game:
    """Game `number` of the pairing alone: the same game as in `play`, a task for one process."""
    return Pairing(one, six, 7, end, seed).play([number])[0]


def one_vs_six(one, six, games: int, end: game.EndRules, seed: int) -> pd.DataFrame:
    """Agent `one` on one power against six copies of `six`.

    One row per game: one, six, game, seed_index, power, end, year and the measures of the one.
    """
    return table(play(one, six, games, end, seed), one.name, six.name)


def table(played: Sequence, one: str, six: str) -> pd.DataFrame:
    """The rows of `one_vs_six` for games that `play` returned."""
    return _table(played, one, six, range(len(seats(len(played)))))


def _table(played: Sequence, one: str, six: str, numbers: Sequence[int]) -> pd.DataFrame:
    rows = score(played, [g % 7 for g in numbers])
    rows.insert(0, "one", one)
    rows.insert(1, "six", six)
    rows.insert(2, "game", np.array(numbers, np.int64))
    rows.insert(3, "seed_index", np.array(numbers, np.int64) // 7)
    return rows


def summary(
    rows: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
    measures: Sequence[str] = MEASURES,
) -> pd.DataFrame:
    """Mean over powers of the per-power means, with 95 % bootstrap intervals within powers.

    With one game per power nothing varies within a power; games are then resampled across powers,
    which can only widen the interval. rows: of one or several pairings. Columns one, six, measure,
    mean, low, high, games. ValueError if a pairing does not have every power equally often.
    """
    out = []
    for (one, six), pairing in rows.groupby(["one", "six"], sort=False):
        _check_balance(pairing, f"{one} against six {six}")
        for measure in measures:
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


def _check_balance(rows: pd.DataFrame, who: str) -> None:
    count = rows["power"].value_counts()
    if len(count) != 7 or count.nunique() != 1:
        raise ValueError(f"{who}: seats are unbalanced, {count.to_dict()}")


def square(table: pd.DataFrame, names: Sequence[str], value: str = "mean") -> pd.DataFrame:
    """`value` of a summary of one measure as a matrix: index the one, columns the six, NaN for what
    was not played. ValueError if a pairing occurs twice.
    """
    if table.duplicated(["one", "six"]).any():
        raise ValueError("a matrix shows one measure: a pairing occurs twice in the table")
    return table.pivot(index="one", columns="six", values=value).reindex(names, columns=names)


def by_power(
    rows: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
    measure: str = "sos",
    by: Sequence[str] = ("one", "six"),
) -> pd.DataFrame:
    """`measure` on each power: the columns of `by`, power, games, mean, low, high. The interval of
    a single game is that game.
    """
    out = []
    for keys, part in rows.groupby(list(by), sort=False):
        for power in atlas.POWERS:
            values = part.loc[part["power"] == power, measure].to_numpy()
            found = stats.mean_interval(values, rng, resamples)
            row = dict(zip(by, keys)) | {"power": power, "games": len(values)}
            out.append(row | dict(zip(("mean", "low", "high"), found)))
    return pd.DataFrame(out)


def ends(rows: pd.DataFrame) -> pd.DataFrame:
    """How the games of each pairing ended: one, six, games, mean last year, and the share of each
    rule. Where more than 60 % end by `stalemate`, scores compare openings only.
    """
    groups = rows.groupby(["one", "six"], sort=False)
    shares = groups["end"].value_counts(normalize=True).unstack("end", fill_value=0.0)
    shares = shares.reindex(columns=sorted(shares.columns))
    table = pd.DataFrame({"games": groups.size(), "year": groups["year"].mean()})
    return table.join(shares).reset_index()


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


def differences(
    rows: pd.DataFrame,
    reference: str,
    rng: np.random.Generator,
    resamples: int,
    measure: str = "sos",
) -> pd.DataFrame:
    """Every agent minus the agent `reference` against the same six, paired by game; only the games
    that both have. Columns one, other, six, measure, games, mean, low, high, verdict (`holds` if
    the interval lies above 0). ValueError if the reference has not played a six.
    """
    out = []
    for (one, six), first in rows[rows["one"] != reference].groupby(["one", "six"], sort=False):
        second = rows[(rows["one"] == reference) & (rows["six"] == six)]
        common = np.intersect1d(first["game"], second["game"])
        if not len(common):
            raise ValueError(f"{reference} has no game against six {six} that {one} has, too")
        pair = [part[part["game"].isin(common)] for part in (first, second)]
        _check_balance(pair[0], f"{one} and {reference} against six {six}")
        found = difference(*pair, measure, rng, resamples)
        row = {"one": one, "other": reference, "six": six, "measure": measure}
        row |= {"games": len(common)} | dict(zip(("mean", "low", "high"), found))
        out.append(row | {"verdict": claims.verdict(*found, above=0)})
    return pd.DataFrame(out)


def both_ways(
    rows: pd.DataFrame,
    first: str,
    second: str,
    rng: np.random.Generator,
    resamples: int,
    measure: str = "sos",
) -> dict[str, object]:
    """1 against 6 and 6 against 1 of two agents: `up` is the score of one `first` against six
    `second`, `down` what six `first` leave to one `second`, `gap` their paired difference, 0 for
    equal agents; each with _low and _high; games, verdict of gap > 0.
    """
    up = rows[(rows["one"] == first) & (rows["six"] == second)]
    down = rows[(rows["one"] == second) & (rows["six"] == first)]
    row: dict[str, object] = {"first": first, "second": second, "games": len(up)}
    for name, part in (("up", up), ("down", down)):
        _check_balance(part, f"{first} and {second}, {name}")
        found = stats.mean_interval(part[measure].to_numpy(), rng, resamples, _strata(part))
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), found))
    found = difference(up, down, measure, rng, resamples)
    row |= dict(zip(("gap", "gap_low", "gap_high"), found))
    return row | {"verdict": claims.verdict(*found, above=0)}


def _strata(pairing: pd.DataFrame) -> np.ndarray | None:
    """Power of each game; None where each power has one game and nothing varies within it."""
    return pairing["power"].to_numpy() if len(pairing) > 7 else None
