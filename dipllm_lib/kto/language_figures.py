"""The figures of notebook 09, each from one tidy table. One seed of the language model: bars and
bands show decisions or windows, never seeds, and every caption says so.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dipllm_lib.kto import humans
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY

ARMS = {
    "random": (GREY, "x"),
    "untrained": (SKY, "v"),
    "pi_ref": (ORANGE, "s"),
    "kto": (GREEN, "^"),
    "pt_kto": (RED, "D"),
}
FORECASTS = {
    "majority": (GREY, "x", ":"),
    "repeat last": (PINK, "v", ":"),
    "pi_ref": (ORANGE, "s", "--"),
    "opponent": (RED, "D", "-"),
    "Bayes": (BLACK, "*", "-."),
}
LEAST = 0.01  # half width of an axis of differences that may all be 0
ROLES = {"stage 1": ORANGE, "executor": RED, "kto": GREEN, "opponent": BLUE, "coordinator": PINK}


def _finish(figure: Figure, caption: str) -> Figure:
    figure.supxlabel(caption, fontsize=7, color=GREY)
    return figure


def training(table: pd.DataFrame, caption: str) -> Figure:
    """Learning rate and loss of every step. table: of `language_tables.history`."""
    figure, (left, right) = plotting.axes(2, 1, 2)
    for role, own in table.groupby("role", sort=False):
        colour = ROLES[role]
        left.plot(own["step"], own["lr"], color=colour, label=role)
        part = own["loss"] / own["loss"].iloc[0]
        right.plot(own["step"], part.rolling(5, min_periods=1).mean(), color=colour, label=role)
    left.set(xlabel="step", ylabel="learning rate", yscale="log", title="logged rates")
    right.set(xlabel="step", ylabel="loss, share of the first step", title="mean of five steps")
    right.set_yscale("log")
    left.legend(ncols=2)
    return _finish(figure, caption)


def offers(table: pd.DataFrame, values: np.ndarray, caption: str) -> Figure:
    """Offers of every arm under setting A, and what an offer earns from people. values: (11,)."""
    figure, axes = plotting.axes(2, 1, 1)
    at, own = np.arange(11), table[table["setting"] == "A"]
    wide = 0.8 / len(own)
    for k, row in enumerate(own.to_dict("records")):
        chances = [row[f"p{10 * i}"] for i in at]
        place = at + wide * (k - (len(own) - 1) / 2)
        axes.bar(place, chances, wide, color=ARMS[row["arm"]][0], label=row["arm"])
    axes.plot(at, values, color=BLACK, marker=".", linestyle="--", label="value of the offer")
    axes.set_xticks(at, [f"{10 * i}" for i in at])
    axes.set(xlabel="offer, per cent of the pie", ylabel="probability; share earned")
    axes.legend(ncols=3)
    return _finish(figure, caption)


def partners(table: pd.DataFrame, caption: str) -> Figure:
    """Regret per round against each member, told or not, beside the line of .05."""
    figure, both = plotting.axes(2, 1, 2, sharey=True)
    for axes, told in zip(both, ("named", "unknown"), strict=True):
        own = table[table["told"] == told]
        names = list(dict.fromkeys(own["member"]))
        for arm, part in own.groupby("arm", sort=False):
            colour, marker = ARMS[arm]
            axes.plot(
                part["regret"], [names.index(m) for m in part["member"]], marker, color=colour,
                label=arm,
            )  # fmt: skip
        axes.axvline(0.05, color=BLACK, linewidth=0.8, linestyle="--")
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel="regret per round", title=f"partner {told}")
    both[0].invert_yaxis()
    both[1].legend()
    return _finish(figure, caption)


def two_scores(table: pd.DataFrame, caption: str) -> Figure:
    """Payoff and human-likeness as two axes, one panel per game that people left a table for."""
    games = list(dict.fromkeys(table["game"]))
    figure, panels = plotting.axes(2, 1, len(games), sharey=True)
    for axes, game in zip(np.atleast_1d(panels), games, strict=True):
        for row in table[table["game"] == game].itertuples():
            colour, marker = ARMS[row.arm]
            axes.plot(max(row.likeness, 1e-3), row.share, marker, color=colour, label=row.arm)
        axes.axvline(humans.HUMAN_LIKE, color=BLACK, linewidth=0.8, linestyle="--")
        axes.set(xscale="log", xlim=(5e-4, 20), ylim=(0, 1.05), title=game.split(",")[0])
        axes.set_xlabel("divergence from people, nats")
        axes.set_xticks([1e-3, 1e-2, 1e-1, 1, 10])
    np.atleast_1d(panels)[0].set_ylabel("payoff, share of the best")
    np.atleast_1d(panels)[-1].legend()
    return _finish(figure, caption)


def forecasts(table: pd.DataFrame, caption: str) -> Figure:
    """Top-1 and Brier score by round, with intervals over decisions."""
    figure, both = plotting.axes(2, 1, 2)
    rounds = [name for name in dict.fromkeys(table["rounds"]) if name != "all"]
    for axes, what in zip(both, ("top1", "brier"), strict=True):
        for k, (name, own) in enumerate(table.groupby("forecast", sort=False)):
            own = own[own["rounds"] != "all"]
            colour, marker, line = FORECASTS[name]
            at = np.array([rounds.index(r) for r in own["rounds"]]) + 0.08 * (k - 2)
            ends = np.abs(own[[f"{what}_low", f"{what}_high"]].to_numpy().T - own[what].to_numpy())
            axes.errorbar(
                at, own[what], ends, color=colour, marker=marker, linestyle=line, label=name,
                capsize=2,
            )  # fmt: skip
        axes.set_xticks(range(len(rounds)), rounds)
        axes.set(xlabel="round", ylabel={"top1": "top-1", "brier": "Brier score"}[what])
    both[0].legend()
    return _finish(figure, caption)


def chosen(table: pd.DataFrame, caption: str) -> Figure:
    """What each chooser of a setting gains over A, by game, training and held-out variants."""
    marks = {"coordinator": (RED, "D"), "CEM": (BLUE, "o"), "best fixed": (BLACK, "*")}
    marks |= {"random": (GREY, "x")}
    figure, both = plotting.axes(2, 1, 2, sharey=True)
    for axes, (part, own) in zip(both, table.groupby("part", sort=False), strict=True):
        games = list(dict.fromkeys(own["game"]))
        for k, (name, (colour, marker)) in enumerate(marks.items()):
            rows = own[own["chooser"] == name]
            at = np.array([games.index(g) for g in rows["game"]]) + 0.15 * (k - 1.5)
            ends = np.abs(rows[["low", "high"]].to_numpy().T - rows["gain"].to_numpy())
            axes.errorbar(
                rows["gain"], at, xerr=ends, color=colour, marker=marker, linestyle="", label=name,
                capsize=2,
            )  # fmt: skip
        axes.axvline(0, color=BLACK, linewidth=0.8)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, -LEAST), max(high, LEAST))
        axes.locator_params(axis="x", nbins=4)
        axes.set_yticks(range(len(games)), games)
        axes.set(xlabel="payoff minus that of A, share of the scale", title=part)
    both[0].invert_yaxis()
    both[1].legend()
    return _finish(figure, caption)


def rungs(table: pd.DataFrame, budget: float, caption: str) -> Figure:
    """p50 and p95 of every rung beside the budget, in ms."""
    figure, axes = plotting.axes(2, 1, 1)
    at = np.arange(len(table))
    axes.barh(at, table["p95"], color=SKY, label="p95")
    axes.barh(at, table["p50"], 0.4, color=BLUE, label="p50")
    axes.axvline(budget, color=BLACK, linestyle="--", linewidth=0.8, label="budget")
    axes.set_yticks(at, table["rung"])
    axes.invert_yaxis()
    axes.set(xlabel="ms per decision")
    axes.legend()
    return _finish(figure, caption)
