"""Leagues of three games and five arms over seeds: tasks for `shelf.tasks`, and their tables.

A task is one league (game, arm, seed) from its first to its last round; it gives rows that JSON can
hold. Judged after every round, all by exact expectations:

    exploitability   sum over seats of the regret of the policy against itself
    pool regret      mean regret against the scripted members, the same for every arm
    held out         payoff from, and regret against, players that no arm meets

Regrets are over the scale of the game. Unit of every interval is the seed; seed k of all arms of a
game is paired, though it shares no random number: the arms draw other data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.ipd import contrasts
from dipllm_lib.kto import arenas, exploitability, league, league_members, payoff_matrix
from dipllm_lib.kto.arenas import Arena, Player
from dipllm_lib.kto.league import ARMS, League, Sizes
from dipllm_lib.kto.objective_study import summary
from dipllm_lib.kto.tabular import Objective
from dipllm_lib.run import seeding
from dipllm_lib.run.profiles_kto import KTOSettings

SLUGS = dict(zip(ARMS, ("pool", "even", "uniform", "self-play", "no-play"), strict=True))
MAIN = "pool"
ORDER = (("pool", "self-play"), ("self-play", "no play"), ("pool", "no play"))
VARIANTS = ("pool, x(1 - x)", "pool, uniform")


@dataclass(frozen=True)
class Task:
    """One league."""

    seed: int
    game: str
    arm: str
    settings: KTOSettings


def tasks(settings: KTOSettings, seed: int) -> tuple[list[Task], list[str]]:
    """All leagues with their keys."""
    found = [
        Task(seed + k, game, arm, settings)
        for game in league_members.GAMES
        for arm in ARMS
        for k in range(settings.tabular_seeds)
    ]
    return found, [f"league-{t.game}-{SLUGS[t.arm]}-{t.seed}" for t in found]


def sizes(settings: KTOSettings) -> Sizes:
    """Sizes of a league in a profile."""
    own = (settings.objective_kappa, settings.objective_tau)
    objective = Objective("pt_kto", *own, "exact_batch", "none", settings.objective_steps)
    objective = Objective(**{**vars(objective), "rate": settings.league_rate})
    counts = (settings.league_members, settings.league_updates, settings.league_decisions)
    return Sizes(*counts, settings.league_self, settings.league_mix, objective)


def arena(settings: KTOSettings, game: str) -> Arena:
    """A game at the sizes of a profile."""
    own = (settings.ipd_rounds, settings.league_bargain, settings.league_delta)
    return league_members.arena(game, *own)


def run(task: Task) -> dict:
    """Rows `rounds`, `held_out` and `weights`, and the `state` of a league with the main pool."""
    game = arena(task.settings, task.game)
    own = League(game, task.arm, task.seed, sizes(task.settings))
    found: dict = {"rounds": [], "held_out": [], "weights": []}
    _judge(own, found)
    for _ in range(task.settings.league_rounds):
        weights, number = own.play_round(), own.round
        head = {"seed": task.seed, "game": task.game, "arm": task.arm, "round": number}
        pairs = weights.items()
        found["weights"] += [head | {"member": name, "weight": w} for name, w in pairs]
        _judge(own, found)
    return found | {"state": own.state() if task.arm == MAIN else None}


def _judge(own: League, found: dict) -> None:
    """Adds the rows of the policy of now."""
    game, player = own.arena, own.player
    head = {"seed": own.seed, "game": game.name, "arm": own.arm, "round": own.round}
    pool = [m.player for m in league_members.scripted(game)]
    gaps = [arenas.regret(game, player, p) / game.scale for p in pool]
    self_gap = exploitability.exploitability(game, player) / game.scale
    found["rounds"].append(head | {"exploitability": self_gap, "pool_regret": float(np.mean(gaps))})
    for member in league_members.held_out(game):
        found["held_out"].append(head | _met(game, player, member))


def _met(game: Arena, player: Player, member: league_members.Member) -> dict:
    """Payoff, best payoff and normalised regret against one player."""
    value, best = game.payoffs(player, member.player), game.best(member.player)
    regret = arenas.regret(game, player, member.player) / game.scale
    facts = {"payoff": float(value.mean()), "best": float(best.mean()), "regret": regret}
    return {"opponent": member.name} | facts


def rows_of(results: Sequence[Mapping], name: str) -> list[dict]:
    """The rows `name` of all results, in order."""
    return [row for result in results for row in result[name]]


def by_round(results: Sequence[Mapping], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Columns game, arm, round, exploitability and pool_regret with intervals, seeds; round 0 is
    the base."""
    keys, measures = ["game", "arm", "round"], ["exploitability", "pool_regret"]
    return summary(rows_of(results, "rounds"), keys, measures, rng, resamples)


def weights(results: Sequence[Mapping]) -> pd.DataFrame:
    """Columns game, arm, round, member, weight (mean over seeds; 0 where a seed has no such
    member)."""
    rows = pd.DataFrame(rows_of(results, "weights"))
    keys, seeds = ["game", "arm", "round", "member"], rows["seed"].nunique()
    table = rows.groupby(keys, sort=False)["weight"].sum() / seeds
    return table.reset_index()


def final(results: Sequence[Mapping]) -> list[dict]:
    """Held-out rows of the last round."""
    rows = rows_of(results, "held_out")
    last = max(row["round"] for row in rows)
    return [row for row in rows if row["round"] == last]


def arms(results: Sequence[Mapping], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Columns game, opponent, arm, payoff and regret with intervals, seeds, best: the last round
    against the held-out players; the base is the first arm of each."""
    rows = [row | {"arm": "base"} for row in rows_of(results, "held_out") if row["round"] == 0]
    rows = [*rows, *final(results)]
    keys = ["game", "opponent", "arm"]
    order = {name: k for k, name in enumerate(("base", *ARMS))}
    names = list(dict.fromkeys((row["game"], row["opponent"]) for row in rows))
    rows.sort(key=lambda row: (names.index((row["game"], row["opponent"])), order[row["arm"]]))
    table = summary(rows, keys, ["payoff", "regret"], rng, resamples)
    best = pd.DataFrame(rows).groupby(keys, sort=False)["best"].first().reset_index()
    return table.merge(best, on=keys)


def lines(results: Sequence[Mapping]) -> dict[str, pd.Series]:
    """Differences of arms by seed, stated to be positive: held-out payoff over the scale of the
    game, mean over its held-out players; last "all games", the mean of the three."""
    rows = pd.DataFrame(final(results))
    means = rows.groupby(["game", "arm", "seed"], sort=False)["regret"].mean()
    base = [row for row in rows_of(results, "held_out") if row["round"] == 0]
    start = pd.DataFrame(base).groupby(["game", "arm", "seed"], sort=False)["regret"].mean()
    games, found = list(dict.fromkeys(rows["game"])), {}
    wanted = [*ORDER, *((MAIN, other) for other in VARIANTS)]
    for one, two in wanted:
        name = f"{one} − {two}" if two not in VARIANTS else f"{one}, x² − {two}"
        parts = [means[game, two] - means[game, one] for game in games]
        found |= _named(games, name, parts)
    parts = [start[game, MAIN] - means[game, MAIN] for game in games]
    return found | _named(games, f"{MAIN} − base", parts)


def _named(games: Sequence[str], name: str, parts: Sequence[pd.Series]) -> dict[str, pd.Series]:
    found = {f"{game}: {name}": part for game, part in zip(games, parts, strict=True)}
    return found | {f"all games: {name}": sum(parts) / len(parts)}


def judged(
    results: Sequence[Mapping], rng: np.random.Generator, resamples: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Contrasts with their verdicts, and the value of each seed."""
    found = lines(results)
    return contrasts.judged(found, rng, resamples), contrasts.per_seed(found)


def matrices(results: Sequence[Mapping], wanted: Sequence[Task]) -> pd.DataFrame:
    """Payoff matrices of the main pool of the first seed at its end, with those held out, per
    game."""
    first, found = min(task.seed for task in wanted), []
    for task, result in zip(wanted, results, strict=True):
        if task.seed == first and task.arm == MAIN:
            found.append(_matrix(task, result["state"]))
    return pd.concat(found, ignore_index=True)


def _matrix(task: Task, state: Mapping) -> pd.DataFrame:
    game = arena(task.settings, task.game)
    own = league.resumed(game, task.arm, task.seed, sizes(task.settings), state)
    members = [*own.members, *league_members.held_out(game)]
    rng = seeding.child(task.seed, "kto", "league", "matrix", task.game)
    counts = (task.settings.league_episodes, task.settings.league_resamples)
    return payoff_matrix.table(game, members, *counts, rng)
