"""The tables of memory: recall, consistency with adaptivity, rounds to adapt; per seed, then means.

    recall        share right at each lag, with and without the store (`recall`)
    consistency   C against every stationary partner, adaptivity AllC against AllD, regret per round
                  over the payoff range, for the three arms, the Bayes filter and a uniform player
    change        at round 20 of 40 payoffs, delta or the opponent's type change, announced or
                  silent (a type is never announced): rounds to adapt and rounds to recover,
                  censored shares, regret after the change

One task is one seed of one part: recall, or an arena, where it trains every arm and plays all
tests. A seed's number is the mean over its episodes; intervals are over seeds. The median over
episodes of all seeds is beside the mean, since censored episodes count as the rounds that were
left.

Shapes: one row per (seed, arm, ...) out of `run`; tidy tables with low and high out of the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.kto import adaptation, memory_players, recall
from dipllm_lib.kto import arena as arenas
from dipllm_lib.kto.arena import Arena, Log
from dipllm_lib.kto.memory_players import ARMS, STORE, Size
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.profiles_kto import KTOSettings

BAYES, UNIFORM = "Bayes filter", "uniform"
PLAYERS = (*ARMS, BAYES, UNIFORM)
RULE = "5/3/1/0"
ARENAS = {"repeated": arenas.repeated_game, "bargaining": arenas.bargaining}
PARTS = (*ARENAS, "recall")
MEASURES = ("rounds", "recovery")


@dataclass(frozen=True)
class Task:
    """One part of one seed. episodes: of each test · at: first round of the new rules, from 0."""

    part: str
    seed: int
    size: Size
    recall: recall.Size
    lags: tuple[int, ...]
    episodes: int
    at: int


def tasks(settings: KTOSettings, seed: int) -> tuple[list[Task], list[str]]:
    """Tasks and their keys."""
    size = Size(settings.memory_rounds, *settings.memory_training)
    asked = recall.Size(*settings.memory_recall)
    found = [
        Task(
            part,
            seed + k,
            size,
            asked,
            settings.memory_lags,
            settings.memory_episodes,
            settings.memory_change,
        )
        for part in PARTS
        for k in range(settings.memory_seeds)
    ]
    return found, [f"memory-{task.part}-{task.seed}" for task in found]


def uniform(actions: int) -> Callable[[Log], np.ndarray]:
    """A player that plays every action alike."""
    return lambda log: np.full((len(log.states), actions), 1 / actions)


def run(task: Task) -> list[dict]:
    """Rows of one task, column `table` says of which table."""
    if task.part not in ARENAS:
        found = recall.run((task.seed, task.recall, task.lags))
        return [row | {"table": "recall"} for row in found]
    arena, rows = ARENAS[task.part](), []
    players = {arm: memory_players.train(arena, arm, task.size, task.seed) for arm in ARMS}
    players[BAYES] = arenas.Bayes(arena, task.size.rounds)
    players[UNIFORM] = uniform(arena.actions)
    for name, player in players.items():
        own = {"seed": task.seed, "arm": name, "arena": arena.name}
        if arena.name == "repeated":
            rows += [own | row for row in _stationary(task, arena, player)]
        rows += [own | row for row in _changes(task, arena, player)]
    return rows


def _played(task: Task, arena: Arena, player, path: Sequence, name: str):
    """Log, and regrets (B, T) over the scale of the player and of a uniform choice in its states:
    episodes on one path of types."""
    rng = seeding.child(task.seed, "kto", "memory test", arena.name, name)
    types, told = (np.repeat(part, task.episodes, axis=0) for part in path)
    log, chances = memory_players.play(player, arena, types, told, rng)
    own, even = memory_players.regrets(arena, log, chances, types)
    return log, own / arena.scale, even / arena.scale


def probed(arena: Arena, player, log: Log, pays: np.ndarray, rounds: Sequence[int]) -> np.ndarray:
    """(5, X, B, A) distributions at the probe rounds (from 1) of real histories whose last outcome
    is replaced. pays: (A, 2) under the rules in force; rounds beyond the length are an error."""
    found = []
    for round_ in rounds:
        if round_ > log.round:
            raise ValueError(f"probe at round {round_} of {log.round}: play at least that many")
        seen = log.cut(round_ - 1)
        outcomes = [(a, b) for a in range(arena.actions) for b in (arenas.GOOD, arenas.BAD)]
        found.append([player(seen.replaced(a, b, pays[a, b])) for a, b in outcomes])
    return np.array(found)


def _stationary(task: Task, arena: Arena, player) -> list[dict]:
    """Consistency against every partner, or regret alone where the game is too short for it."""
    long = task.size.rounds >= adaptation.ROUNDS
    rows, late = [], {}
    for partner in arenas.PARTNERS:
        kind = arena.index(f"{partner} {RULE}")
        path = memory_players.paths(arena, task.size.rounds, [kind], kind, task.size.rounds, False)
        log, regret, _ = _played(task, arena, player, path, partner)
        row = {"table": "stationary", "partner": partner, "regret": float(regret.mean())}
        if long:
            pays = arena.pays[kind]
            early = probed(arena, player, log, pays, adaptation.EARLY)
            late[partner] = probed(arena, player, log, pays, adaptation.LATE)
            row["consistency"] = _mean(adaptation.consistency, early, late[partner])
        rows.append(row)
    if long:
        found = _mean(adaptation.adaptivity, late["AllC"], late["AllD"])
        rows.append({"table": "stationary", "partner": "AllC, AllD", "adaptivity": found})
    return rows


def _mean(measure, first: np.ndarray, second: np.ndarray) -> float:
    """Mean of a measure over episodes; arrays (5, X, B, A)."""
    return float(np.mean([measure(first[:, :, b], second[:, :, b]) for b in range(first.shape[2])]))


def changes(arena: Arena) -> list[tuple[str, str, str, bool]]:
    """(kind, from, to, announced) of every tested change: all that alter the best reply."""
    if arena.name == "bargaining":
        pairs = [(a, b) for a in arena.labels for b in arena.labels if a != b]
        return [("delta", a, b, told) for a, b in pairs for told in (True, False)]
    rules, found = tuple(arenas.PAYS), []
    for first, second in (rules, rules[::-1]):
        pair = f"GTFT {first}", f"GTFT {second}"
        found += [("payoffs", *pair, told) for told in (True, False)]
    for first, second in (("TFT", "AllD"), ("AllD", "TFT"), ("AllC", "TFT"), ("TFT", "AllC")):
        found.append(("type", f"{first} {RULE}", f"{second} {RULE}", False))
    return found


def _changes(task: Task, arena: Arena, player) -> list[dict]:
    """One row per change: rounds to adapt and to recover of each episode, shares that never did,
    regret after the change and by round."""
    rows = []
    for kind, first, second, told in changes(arena):
        types = arena.index(first), arena.index(second)
        path = memory_players.paths(arena, task.size.rounds, [types[0]], types[1], task.at, told)
        _, regret, even = _played(task, arena, player, path, f"{first} {second} {int(told)}")
        each = [adaptation.rounds_to_adapt(own, task.at, 1.0) for own in regret]
        pairs = zip(regret, even, strict=True)
        back = [adaptation.rounds_to_recover(*pair, task.at) for pair in pairs]
        rows.append({
            "table": "change",
            "kind": kind,
            "first": first,
            "second": second,
            "announced": told,
            "each": [one.rounds for one in each],
            "rounds": float(np.mean([one.rounds for one in each])),
            "rounds_never": float(np.mean([one.censored for one in each])),
            "recovery": float(np.mean([one.rounds for one in back])),
            "recovery_never": float(np.mean([one.censored for one in back])),
            "after": float(regret[:, task.at :].mean()),
            "curve": regret.mean(axis=0).tolist(),
        })
    return rows


def recalled(rows: Sequence[dict], seed: int, resamples: int) -> pd.DataFrame:
    """Rows lag, arm, seeds, recall with its interval, chance, reached (>= .95 at this lag)."""
    table = pd.DataFrame([row for row in rows if row["table"] == "recall"])
    found = []
    for (lag, arm), part in table.groupby(["lag", "arm"], sort=False):
        row = {"lag": lag, "arm": arm, "seeds": len(part)}
        row |= _interval("recall", part["recall"], seed, resamples, f"{lag} {arm}")
        found.append(row | {"chance": part["chance"].iloc[0], "reached": row["recall"] >= 0.95})
    return pd.DataFrame(found)


def stationary(rows: Sequence[dict], seed: int, resamples: int) -> pd.DataFrame:
    """Rows arm, seeds, then consistency, adaptivity, regret (share of the range) with intervals,
    and `apart`, consistency minus that of the window arm, paired over seeds. Without the first two
    where the game was too short."""
    table = pd.DataFrame([row for row in rows if row["table"] == "stationary"])
    measures = [m for m in ("consistency", "adaptivity", "regret") if m in table]
    means = table.groupby(["arm", "seed"], sort=False)[measures].mean()
    found = []
    for arm in PLAYERS:
        own = means.loc[arm]
        row = {"arm": arm, "seeds": len(own)}
        for measure in measures:
            row |= _interval(measure, own[measure], seed, resamples, arm)
        for measure in measures if arm != ARMS[0] else ():
            gap = own[measure] - means.loc[ARMS[0]][measure]
            row |= _interval(f"{measure}_gain", gap, seed, resamples, arm)
        found.append(row)
    return pd.DataFrame(found)


def adapted(rows: Sequence[dict], seed: int, resamples: int) -> pd.DataFrame:
    """Rows kind, announced, arm, seeds, episodes, median (rounds to adapt), then means with
    intervals over seeds: rounds (to adapt), recovery (rounds), after (regret per round after the
    change, share of the range); rounds_never, recovery_never: censored shares."""
    table = pd.DataFrame([row for row in rows if row["table"] == "change"])
    found = []
    for (kind, told, arm), part in table.groupby(["kind", "announced", "arm"], sort=False):
        each = [k for own in part["each"] for k in own]
        row = {"kind": kind, "announced": told, "arm": arm, "seeds": part["seed"].nunique()}
        row |= {"episodes": len(each), "median": float(np.median(each))}
        for measure in (*MEASURES, "after"):
            own = part.groupby("seed")[measure].mean()
            row |= _interval(measure, own, seed, resamples, f"{kind} {told} {arm}")
        found.append(row | {f"{m}_never": float(part[f"{m}_never"].mean()) for m in MEASURES})
    return pd.DataFrame(found)


def compared(rows: Sequence[dict], seed: int, resamples: int) -> pd.DataFrame:
    """Rows measure, kind, announced, arm, seeds, value, low, high (over seeds). Of the arm with a
    store: its rounds minus those of the Bayes filter, paired by seed. Of uniform play: the share of
    its episodes that count as adapted."""
    table = pd.DataFrame([row for row in rows if row["table"] == "change"])
    found = []
    for measure in MEASURES:
        for (kind, told), part in table.groupby(["kind", "announced"], sort=False):
            means = part.groupby(["arm", "seed"])[[measure, f"{measure}_never"]].mean()
            gap = means.loc[STORE][measure] - means.loc[BAYES][measure]
            passed = 1.0 - means.loc[UNIFORM][f"{measure}_never"]
            for arm, own in ((STORE, gap), (UNIFORM, passed)):
                label = f"{measure} {kind} {told} {arm}"
                row = {"measure": measure, "kind": kind, "announced": told, "arm": arm}
                numbers = _interval("value", own, seed, resamples, label)
                ends = {"low": numbers["value_low"], "high": numbers["value_high"]}
                found.append(row | {"seeds": len(own), "value": numbers["value"]} | ends)
    return pd.DataFrame(found)


def curves(rows: Sequence[dict]) -> pd.DataFrame:
    """Rows kind, announced, arm, round (from 0), regret: means over changes and seeds."""
    groups: dict[tuple, list] = {}
    for row in rows:
        if row["table"] == "change":
            groups.setdefault((row["kind"], row["announced"], row["arm"]), []).append(row["curve"])
    return pd.DataFrame([
        {"kind": kind, "announced": told, "arm": arm, "round": t, "regret": value}
        for (kind, told, arm), own in groups.items()
        for t, value in enumerate(np.mean(own, axis=0).tolist())
    ])


def _interval(name: str, values, seed: int, resamples: int, label: str) -> dict[str, float]:
    rng = seeding.child(seed, "kto", "memory", name, label)
    mean, low, high = stats.mean_interval(values, rng, resamples)
    return {name: mean, f"{name}_low": low, f"{name}_high": high}
