"""Tables of study 1 from games and search records: notebooks 01 and 11.

An estimate `x` has its 95 % bootstrap interval in `x_low`, `x_high`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import arena, atlas, boards, game, orders, value_fit
from dipllm_lib.dip.search import Record
from dipllm_lib.dip.targets import PHASES
from dipllm_lib.run import stats


def games_table(games: Sequence[game.Game]) -> pd.DataFrame:
    """One row per game: game, end, last_year, phases, and the final centres of each power."""
    rows = []
    for played in games:
        held = dict(zip(atlas.POWERS, played.final_centres.tolist(), strict=True))
        year, phases = int(played.boards.year[-1]), played.positions().n
        rows.append(
            {"game": played.id, "end": played.end, "last_year": year, "phases": phases} | held
        )
    return pd.DataFrame(rows)


def replay_table(games: Sequence[game.Game]) -> pd.DataFrame:
    """One row per cause of deviation from the package and one for agreement: cause, phases, games.

    Raises ValueError for a difference without a known cause.
    """
    causes: dict[str, list[str]] = {}
    for played in games:
        found = game.replay_on_package(played)["cause"].tolist()
        for cause in found + ["none"] * (played.positions().n - len(found)):
            causes.setdefault(cause, []).append(played.id)
    order = sorted(causes, key=lambda cause: (cause != "none", cause))
    rows = [{"cause": c, "phases": len(causes[c]), "games": len(set(causes[c]))} for c in order]
    return pd.DataFrame(rows)


def reliability(
    predictors: Mapping,
    games: Sequence[game.Game],
    bins: int,
    rng: np.random.Generator,
    resamples: int,
) -> pd.DataFrame:
    """Predicted against realised SoS shares of all powers on unseen games, in bins of equal size.

    predictors: name -> function of positions to (N, 7). Columns predictor, predicted (mean in the
    bin), realised (mean with interval over power-positions), positions (power-positions).
    """
    positions, targets = value_fit.examples(games)
    rows = []
    for name, predict in predictors.items():
        share, realised = predict(positions).astype(np.float64).ravel(), targets.ravel()
        for part in np.array_split(np.argsort(share, kind="stable"), bins):
            mean, low, high = stats.mean_interval(realised[part], rng, resamples)
            rows.append({
                "predictor": name,
                "predicted": share[part].mean(),
                "realised": mean,
                "realised_low": low,
                "realised_high": high,
                "positions": len(part),
            })
    return pd.DataFrame(rows)


def regret_table(
    records: Sequence[Record], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Average external regret over the power-turns of movement phases, iterations on a log scale.

    Columns iteration, regret (mean with interval), turns.
    """
    moves = [r for r in records if int(r.boards.phase[0]) in boards.MOVES]
    curves = np.concatenate([record.regret for record in moves], axis=1)
    rows = []
    for t in np.unique(np.geomspace(1, len(curves), 16).round().astype(int)).tolist():
        mean, low, high = stats.mean_interval(curves[t - 1], rng, resamples)
        row = {"iteration": t, "regret": mean, "regret_low": low, "regret_high": high}
        rows.append(row | {"turns": curves.shape[1]})
    return pd.DataFrame(rows)


def diagnostics_table(records: Sequence[Record]) -> pd.DataFrame:
    """Means over power-turns by kind of phase: candidates, entropies, KL to the anchor, spread and
    gain of the values (see `PowerRecord.diagnostics`)."""
    rows = [
        {"phase": record.phase[0] + record.phase[-1], **power.diagnostics()}
        for record in records
        for power in record.powers
    ]
    table = pd.DataFrame(rows).groupby("phase", sort=True)
    return table.mean().assign(turns=table.size()).reset_index()


def lam_table(
    found: pd.DataFrame, lams: Sequence[float], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """The λ sweep of `search_checks.compare` with `lam_variants`: lam, positions, turns, then
    entropy of the target and gain over the anchor, means over power-turns with two candidates or
    more; intervals resample positions.
    """
    rows = []
    found = found[found["candidates"] > 1]
    for lam in lams:
        part = found[found["variant"] == f"{lam:g}"]
        by_position = part.groupby("position")[["entropy_target", "gain"]].mean()
        row = {"lam": lam, "positions": len(by_position), "turns": len(part)}
        for name, column in (("entropy", "entropy_target"), ("gain", "gain")):
            values = by_position[column].to_numpy()
            mean, low, high = stats.mean_interval(values, rng, resamples)
            row |= {name: mean, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def scores(
    tables: Sequence[pd.DataFrame], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """One row per agent against six others: agent, opponents, games, and every measure of `arena`
    with its interval, shares in % (centres in centres).
    """
    long = arena.summary(pd.concat(list(tables), ignore_index=True), rng, resamples)
    rows = []
    for (one, six), part in long.groupby(["one", "six"], sort=False):
        row = {"agent": one, "opponents": six, "games": int(part["games"].iloc[0])}
        for line in part.to_dict("records"):
            unit = 1.0 if line["measure"] == "centres" else 100.0
            for key, ending in (("mean", ""), ("low", "_low"), ("high", "_high")):
                row[line["measure"] + ending] = unit * line[key]
        rows.append(row)
    return pd.DataFrame(rows)


def legality_table(played: Mapping[str, Sequence[game.Game]]) -> pd.DataFrame:
    """Orders of the one agent of `arena` games, looked up in the legal orders of their positions.

    played: agent -> games in order of their numbers. Columns agent, phase, turns, orders, legal.
    """
    rows = []
    for name, games in played.items():
        for number, one in enumerate(games):
            power = atlas.POWERS[number % atlas.N_POWERS]
            for k in range(one.boards.n - 1):
                turn = orders.turn(one.boards, k, atlas.POWERS.index(power))
                if turn is not None:
                    given = one.orders[k].get(power, [])
                    rows.append((name, PHASES[turn.phase[-1]], len(given), _legal(turn, given)))
    table = pd.DataFrame(rows, columns=["agent", "phase", "orders", "legal"])
    groups = table.groupby(["agent", "phase"], sort=False)
    return groups[["orders", "legal"]].sum().assign(turns=groups.size()).reset_index()


def _legal(turn: orders.Turn, texts: Sequence[str]) -> int:
    """How many of the orders are legal for their unit (in adjustments: for the power)."""
    ids = [orders.from_text(text, turn.boards) for text in texts]
    known = {order for ids in turn.lists for order in ids.tolist()} | {orders.WAIVE_ID}
    return sum(order in known for order in ids)


def free_text_table(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What `agent.raw_legality` found, one row per agent.

    Columns agent, turns, whole (share of texts that are one legal joint order), orders (share of
    the orders due that stand legal before the first that is not).
    """
    rows = []
    for name, table in found.items():
        share = table["legal_orders"].sum() / table["slots"].sum()
        whole = table["all_legal"].mean()
        rows.append({"agent": name, "turns": len(table), "whole": whole, "orders": share})
    return pd.DataFrame(rows)
