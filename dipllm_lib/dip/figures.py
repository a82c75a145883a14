"""The figures of study 1, each drawn from one tidy table so that it can be redrawn from its csv.

Every function takes `ax=None` (or draws a small grid of axes), returns the figure, and names units
on its axes. An estimate `x` stands with its interval in `x_low`, `x_high`.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import AGENTS, BLACK, BLUE, GREEN, GREY, ORANGE, RED, SKY

PAR = 100 / 7  # SoS of a player against six of its own kind, in %


def regret(table: pd.DataFrame, ax=None) -> Figure:
    """Average external regret of piKL-Hedge. Columns iteration, regret (+ interval)."""
    ax = plotting.axes()[1] if ax is None else ax
    plotting.curve(table, "iteration", "regret", band=("regret_low", "regret_high"), ax=ax)
    ax.set_xlabel("iteration of piKL-Hedge")
    ax.set_ylabel("average regret (share of SoS)")
    ax.set_ylim(bottom=0)
    return ax.figure


def reliability(table: pd.DataFrame, ax=None) -> Figure:
    """Predicted against realised share of the sum of squares on held-out games.

    Columns predictor, predicted, realised (+ interval), positions.
    """
    ax = plotting.axes()[1] if ax is None else ax
    top = float(table[["predicted", "realised_high"]].max().max()) * 1.05
    ax.plot([0, top], [0, top], color=GREY, ls="--", lw=1, label="calibrated")
    for name, part in table.groupby("predictor", sort=False):
        colour, marker = AGENTS[name]
        bars = [part["realised"] - part["realised_low"], part["realised_high"] - part["realised"]]
        ax.errorbar(
            part["predicted"], part["realised"], yerr=bars, color=colour, marker=marker, label=name
        )
    ax.set_xlabel("predicted share of the sum of squares")
    ax.set_ylabel("realised share")
    ax.legend()
    return ax.figure


def scores(table: pd.DataFrame, column: str = "sos", ax=None) -> Figure:
    """One measure per agent with its interval, in %, and the line of equal players.

    Columns agent, `column` (+ interval).
    """
    if ax is None:
        ax = plotting.axes(height=0.6 + 0.32 * len(table))[1]
    plotting.intervals(table, "agent", column, f"{column}_low", f"{column}_high", ax=ax)
    plotting.chance(ax, PAR, "equal players", vertical=True)
    ax.set_xlabel("share of the sum of squares (%)")
    ax.set_ylim(len(table) - 0.5, -0.5)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    return ax.figure


def matrix(table: pd.DataFrame, ax=None) -> Figure:
    """One against six: rows the one, columns the six; numbers and colour in % SoS, par is white.

    `table`: index and columns are players, NaN for what was not played.
    """
    ax = plotting.axes(columns=2, height=3.4)[1] if ax is None else ax
    shares = 100 * table.to_numpy(dtype=np.float64)
    # above and below par the same colour means the same factor
    scale = np.log2(np.maximum(shares, 0.5) / PAR)
    image = ax.imshow(scale, cmap="RdBu", vmin=-2.8, vmax=2.8, aspect="auto")
    for (i, j), share in np.ndenumerate(shares):
        if np.isfinite(share):
            dark = abs(scale[i, j]) > 1.8
            colour = "white" if dark else BLACK
            ax.text(j, i, f"{share:.1f}", ha="center", va="center", color=colour, fontsize=7)
    ax.set_xticks(range(len(table.columns)), table.columns, rotation=20, ha="right")
    ax.set_yticks(range(len(table.index)), table.index)
    ax.set_xlabel("six opponents")
    ax.set_ylabel("one player")
    ax.grid(False)
    marks = [-2, -1, 0, 1, 2]
    bar = ax.figure.colorbar(image, ax=ax, label="SoS (%)", ticks=marks)
    bar.ax.set_yticklabels([f"{PAR * 2.0**mark:.1f}" for mark in marks])
    return ax.figure


def first_moves(table: pd.DataFrame) -> Figure:
    """Frequency in the imitated games (grey) beside the anchor's probability (blue) of opening
    joint orders. Columns power, joint, frequency, probability.
    """
    figure, ax = plotting.axes(columns=2, height=0.19 * len(table) + 0.6)
    gap = table["power"].ne(table["power"].shift()).cumsum() * 0.7
    place = -(np.arange(len(table)) + gap.to_numpy())
    ax.barh(place + 0.2, table["frequency"], 0.38, color=GREY, label="imitated games")
    ax.barh(place - 0.2, table["probability"], 0.38, color=BLUE, label="anchor")
    names = [f"{row.power.title()}: {row.joint}" for row in table.itertuples()]
    ax.set_yticks(place, names, fontsize=6)
    ax.set_xlabel("share of the games, probability")
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    ax.margins(y=0.01)
    return figure


def variants(table: pd.DataFrame) -> Figure:
    """What λ does: entropy of the target (left) and gain in value over the anchor (right).

    Columns lam, entropy, gain (+ intervals).
    """
    figure, axes = plotting.axes(columns=2, across=2)
    for ax, column, label in zip(
        axes, ("entropy", "gain"), ("entropy of the target / log K", "value gained over the anchor")
    ):
        ax.plot(table["lam"], table[column], color=RED, marker="o")
        ax.fill_between(
            table["lam"], table[f"{column}_low"], table[f"{column}_high"], color=RED, alpha=0.2
        )
        ax.set_xscale("log")
        ax.set_xlabel("strength of the anchor λ")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
    return figure


def target(table: pd.DataFrame, units: Sequence[str], title: str) -> Figure:
    """Anchor and target of each candidate of one power-turn, and how its unit values fall.

    table: joint (text), anchor, target, and one column `Q1`, `Q2`, … per unit, most probable target
    first; Q0, the log of the whole mass, is 0. units: their names in the same order.
    """
    height = 0.8 + 0.26 * len(table)
    figure, (left, right) = plotting.axes(2, across=2, height=height, width_ratios=[3, 2])
    rows = np.arange(len(table))
    for shift, name in ((-0.2, "anchor"), (0.2, "target")):
        left.barh(rows + shift, table[name], 0.38, color=AGENTS[name][0], label=name)
    left.set_yticks(rows, list(table["joint"]), fontsize=6)
    left.set_xlabel("probability")
    left.invert_yaxis()
    left.legend(loc="lower right")
    values = table[[f"Q{d + 1}" for d in range(len(units))]].to_numpy()
    steps = np.arange(len(units) + 1)
    for row, path in enumerate(np.column_stack([np.zeros(len(table)), values])):
        look = {"color": BLACK, "lw": 1.8, "zorder": 3} if row == 0 else {"color": SKY, "lw": 1}
        label = {0: "most probable", 1: "other candidates"}.get(row)
        right.plot(steps, path, marker="o", ms=3, label=label, **look)
    right.set_xticks(steps, ["no unit", *units])
    right.set_xlabel("orders fixed up to")
    right.set_ylabel("unit value (nats)")
    right.legend(loc="lower left")
    figure.suptitle(title, fontsize=9)
    return figure


def exploitability(table: pd.DataFrame, ax=None) -> Figure:
    """Deviation gain of the average policies over λ, per rule, against the bound λ δ.

    Columns rule, lam, gain (+ interval), bound; means over games.
    """
    ax = plotting.axes()[1] if ax is None else ax
    looks = {"normalised": (BLUE, "o"), "literal": (RED, "s")}
    for name, part in table.groupby("rule", sort=False):
        colour, marker = looks[name]
        ax.plot(part["lam"], part["gain"], color=colour, marker=marker, label=f"{name} rule")
        ax.fill_between(part["lam"], part["gain_low"], part["gain_high"], color=colour, alpha=0.2)
    bound = table.drop_duplicates("lam")
    ax.plot(bound["lam"], bound["bound"], color=BLACK, ls=":", label="bound λδ")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("strength of the anchor λ")
    ax.set_ylabel("largest gain from deviating")
    ax.legend()
    return ax.figure


def convergence(table: pd.DataFrame, lam: float) -> Figure:
    """Deviation gain over the iterations at one lam, a panel per rule, a line per kind of game.

    Columns family, rule, lam, T, gain.
    """
    rules = list(dict.fromkeys(table["rule"]))
    figure, axes = plotting.axes(columns=2, across=len(rules))
    table = table[table["lam"] == lam]
    for ax, rule in zip(np.atleast_1d(axes), rules, strict=True):
        part = table[table["rule"] == rule]
        for (name, line), colour, marker in zip(
            part.groupby("family", sort=False), (BLUE, RED, GREEN, ORANGE), "osD^"
        ):
            ax.plot(line["T"], line["gain"], color=colour, marker=marker, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(table["gain"].clip(lower=1e-5).min() / 1.5, 1)
        ax.set_title(f"{rule} rule, λ = {lam:g}")
        ax.set_xlabel("iterations T")
    np.atleast_1d(axes)[0].set_ylabel("largest gain from deviating")
    np.atleast_1d(axes)[0].legend()
    return figure


def loss(history: pd.DataFrame, divergence: pd.DataFrame) -> Figure:
    """Training loss by step with its mean over a tenth of the steps, and KL(target ‖ model) on
    held-out power-turns where it was measured.

    history: step, loss, kl. divergence: policy, kl (nats); its row `anchor` is a dashed line.
    """
    figure, (left, right) = plotting.axes(2, across=2)
    window = max(len(history) // 10, 1)
    left.plot(history["step"], history["loss"], color=GREY, lw=0.6, alpha=0.6, label="one step")
    mean = history["loss"].rolling(window, center=True, min_periods=1).mean()
    left.plot(history["step"], mean, color=GREEN, label=f"mean of {window} steps")
    left.set_ylim(bottom=0)
    left.legend()
    left.set_xlabel("optimiser step")
    left.set_ylabel("training loss (nats per power-turn)")
    measured = history.dropna(subset="kl")
    colour, marker = AGENTS["lm"]
    right.plot(measured["step"], measured["kl"], color=colour, marker=marker, label="lm")
    anchor = divergence.set_index("policy")["kl"]["anchor"]
    plotting.chance(right, anchor, "anchor")
    right.set_xlabel("optimiser step")
    right.set_ylabel("held-out KL to the target (nats)")
    right.set_ylim(bottom=0)
    right.legend()
    return figure


def openings(table: pd.DataFrame, most: int = 4) -> Figure:
    """Opening orders of each unit under four policies, as grouped bars (paper, Fig. 7).

    Columns unit, order, anchor, before, after, target. Drawn are the `most` orders of a unit that
    any policy gives most often, target first, and the sum of all others.
    """
    looks = {"anchor": BLUE, "before": SKY, "after": GREEN, "target": BLACK}
    units = list(dict.fromkeys(table["unit"]))
    figure, grid = plotting.axes(2, across=len(units), squeeze=False, sharey=True)
    for ax, unit in zip(grid[0], units, strict=True):
        part = table[table["unit"] == unit].set_index("order")[list(looks)]
        shown = part.loc[part.max(axis=1).nlargest(most, keep="first").index]
        shown = shown.sort_values("target", ascending=False, kind="stable")
        shown.loc["other"] = part.sum() - shown.sum()
        for k, (name, colour) in enumerate(looks.items()):
            places = np.arange(len(shown)) + 0.2 * (k - 1.5)
            ax.bar(places, shown[name], 0.2, color=colour, label=name)
        labels = [order.removeprefix(unit).removeprefix(" - ").strip() for order in shown.index]
        ax.set_xticks(range(len(shown)), labels, rotation=35, ha="right")
        ax.set_title(unit)
    grid[0][0].set_ylabel("probability")
    grid[0][-1].legend()
    return figure
