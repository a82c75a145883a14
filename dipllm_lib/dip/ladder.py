"""The ladder of rule-based players: pairings 1 against 6, and whether the expected order holds.

    Hold < RandomLegal < RandBot < Easy < DumbBot port < DumbBot < SoftDumbBot < BR-1

Neighbours are called (lower, higher). For each two pairings are played, one `higher` against six
`lower` and one `lower` against six `higher`, on the same games (power, seed). Their paired
difference of SoS, 0 for equal players, decides:

    holds          its 95 % interval lies above 0
    reversed       below 0
    not resolved   otherwise

Further pairings fill the matrix (row the one, column the six) with fewer games. A game is a task of
plain data, named by its number, so it comes out the same in any process and in any order.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from dipllm_lib.dip import arena, game
from dipllm_lib.dip.bestreply import BestReply
from dipllm_lib.dip.easy import Easy
from dipllm_lib.dip.policies import DumbBot, Hold, Policy, RandBot, RandomLegal, SoftDumbBot
from dipllm_lib.run import stats

NAMES = (
    "Hold", "RandomLegal", "RandBot", "Easy", "DumbBot port", "DumbBot", "SoftDumbBot", "BR-1",
)  # fmt: skip


class LadderSettings(Protocol):
    """The settings read here; games are multiples of 7, `ladder_matrix_games` may be 0."""

    anchor_temperature: float
    anchor_uniform: float
    ladder_games: int
    ladder_matrix_games: int
    ladder_last_year: int
    ladder_stalemate_years: int


def players(settings: LadderSettings) -> dict[str, Policy]:
    """The players by name, in the expected order."""
    soft = SoftDumbBot(settings.anchor_temperature, settings.anchor_uniform)
    dumb = [DumbBot("port"), DumbBot("original")]
    found = [Hold(), RandomLegal(), RandBot(), Easy(), *dumb, soft, BestReply(soft)]
    return {policy.name: policy for policy in found}


def neighbours(names: Sequence[str] = NAMES) -> list[tuple[str, str]]:
    """(lower, higher) of all neighbours in the order `names`."""
    return list(zip(names[:-1], names[1:]))


def schedule(settings: LadderSettings) -> list[tuple[str, str, int]]:
    """(one, six, games) of every pairing: neighbours both ways, then the rest of the matrix."""
    close = [pair for low, high in neighbours() for pair in ((high, low), (low, high))]
    rest = [(one, six) for one in NAMES for six in NAMES if (one, six) not in close]
    plan = [(*pair, settings.ladder_games) for pair in close]
    if settings.ladder_matrix_games:
        plan += [(*pair, settings.ladder_matrix_games) for pair in rest]
    for _, _, games in plan:
        arena.seats(games)
    return plan


def tasks(settings: LadderSettings, seed: int) -> tuple[list[tuple], list[str]]:
    """(tasks of `ladder_game`, their keys) for the whole schedule."""
    count = sum(games for _, _, games in schedule(settings))
    return [(settings, seed, n) for n in range(count)], [f"ladder{n}" for n in range(count)]


def ladder_game(task: tuple[LadderSettings, int, int]) -> dict:
    """(settings, seed, number) -> row of one game: one, six, game, seed_index, power, end, year and
    the measures of the one (`arena`). Numbers count the games of the schedule, pairing after
    pairing; ValueError beyond the last.
    """
    settings, seed, number = task
    one, six, g = _game_of(settings, number)
    found = players(settings)
    end = game.EndRules(settings.ladder_last_year, settings.ladder_stalemate_years)
    played = arena.play_one(found[one], found[six], g, end, seed)
    row = arena.score([played], [g % 7]).to_dict("records")[0]
    return {"one": one, "six": six, "game": g, "seed_index": g // 7, **row}


def _game_of(settings: LadderSettings, number: int) -> tuple[str, str, int]:
    """(one, six, game of the pairing) of a task's number."""
    left = number
    for one, six, games in schedule(settings):
        if 0 <= left < games:
            return one, six, left
        left -= games
    raise ValueError(f"game {number}: the schedule of the ladder has {number - left} games")


def order(
    rows: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
    names: Sequence[str] = NAMES,
    measure: str = "sos",
) -> pd.DataFrame:
    """One row per pair of neighbours: lower, higher, games, mean, low and high of `measure` for the
    higher against six lower (up), for the lower against six higher (down) and for the difference,
    and the column "expected order holds". ValueError if a pairing is missing or unbalanced.
    """
    table = []
    for low, high in neighbours(names):
        up, down = _pairing(rows, high, low), _pairing(rows, low, high)
        means = [_interval(up, measure, rng, resamples), _interval(down, measure, rng, resamples)]
        means.append(arena.difference(up, down, measure, rng, resamples))
        row = {"lower": low, "higher": high, "games": len(up)}
        for name, values in zip(("up", "down", "difference"), means):
            row |= {name: values[0], f"{name} low": values[1], f"{name} high": values[2]}
        table.append({**row, "expected order holds": verdict(*means[2][1:])})
    return pd.DataFrame(table)


def verdict(low: float, high: float) -> str:
    """What the interval of a difference says: holds, reversed or not resolved."""
    return "holds" if low > 0 else "reversed" if high < 0 else "not resolved"


def matrix(rows: pd.DataFrame, measure: str = "sos", names: Sequence[str] = NAMES) -> pd.DataFrame:
    """Mean over powers of `measure`: index the one, columns the six, NaN for what was not
    played."""
    means = rows.groupby(["one", "six", "power"])[measure].mean().groupby(["one", "six"]).mean()
    return means.unstack("six").reindex(index=names, columns=names)


def population(
    rows: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
    names: Sequence[str] = NAMES,
    measure: str = "sos",
) -> pd.DataFrame:
    """Mean of each player as the one against six of every other player, all pairings with the same
    games: one, games, mean, low, high. ValueError if a pairing is missing.
    """
    table = []
    for one in names:
        parts = [_pairing(rows, one, six) for six in names if six != one]
        games = min(len(part) for part in parts)
        equal = pd.concat([part[part["game"] < games] for part in parts])
        cells = equal["six"] + " " + equal["power"]
        values = stats.mean_interval(
            equal[measure].to_numpy(), rng, resamples, cells.to_numpy() if games > 7 else None
        )
        table.append(dict(zip(("one", "games", "mean", "low", "high"), (one, games, *values))))
    return pd.DataFrame(table)


def _pairing(rows: pd.DataFrame, one: str, six: str) -> pd.DataFrame:
    """The games of one against six, in order of the game."""
    found = rows[(rows["one"] == one) & (rows["six"] == six)].sort_values("game")
    if len(found) == 0 or found["power"].value_counts().nunique() != 1 or len(found) % 7:
        raise ValueError(
            f"{one} against six {six}: {len(found)} games, need every power equally often"
        )
    return found


def _interval(rows: pd.DataFrame, measure: str, rng: np.random.Generator, resamples: int):
    """(mean, low, high) within powers."""
    strata = rows["power"].to_numpy() if len(rows) > 7 else None
    return stats.mean_interval(rows[measure].to_numpy(), rng, resamples, strata)
