"""The figures of notebook 10c, each from one table of `objective_study`."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dipllm_lib.ipd import figures
from dipllm_lib.kto import humans
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY

LOOKS = {  # of an objective or arm: colour, marker
    "sft": (GREY, "s"),
    "wmle": (ORANGE, "^"),
    "wmle, mean V": (ORANGE, "v"),
    "a2c": (SKY, "h"),
    "kto": (GREEN, "D"),
    "pt_kto": (BLUE, "o"),
    "pt_pair": (PINK, "P"),
    "literal_sign": (RED, "X"),
    "step, verifier V": (BLUE, "o"),
    "step, verifier label": (GREEN, "D"),
    "step, return": (SKY, "h"),
    "trajectory": (RED, "X"),
    "start": (GREY, "x"),
    "no play": (ORANGE, "^"),
    "self-play": (RED, "X"),
    "pool + 15 % self-play": (SKY, "h"),
    "pool": (BLUE, "o"),
}
LINE = {"ls": "none"}


def objectives(table: pd.DataFrame, start: float, caption: str = "") -> Figure:
    """Value of every arm with its interval; a panel per regime and reference."""
    panels = list(table.groupby(["regime", "reference"], sort=False))
    figure, grid = plotting.axes(2, 2, 2, height=2.2, sharex=True, squeeze=False)
    best = humans.offer_values().max()
    for (name, part), ax in zip(panels, grid.flat, strict=True):
        _rows(ax, part, "arm", "value")
        ax.axvline(best, color=BLACK, ls=":", lw=1, label="best offer")
        plotting.chance(ax, start, "start", vertical=True)
        ax.set_title(f"{name[0]}, {name[1]}", loc="left")
    for ax in grid[-1]:
        ax.set_xlabel("share of the pie kept, from people")
    grid[0, 0].legend(loc="upper left", fontsize=6)
    figures.add_caption(figure, caption)
    return figure


def _rows(ax, part: pd.DataFrame, name: str, value: str) -> None:
    """One row per arm, the first on top."""
    for y, line in enumerate(part.to_dict("records")):
        colour, marker = LOOKS[line[name]]
        ends = [line[f"{value}_low"], line[f"{value}_high"]]
        ax.plot(ends, [y, y], color=colour)
        ax.plot([line[value]], [y], color=colour, marker=marker, **LINE)
    ax.set_yticks(range(len(part)), list(part[name]))
    ax.set_ylim(len(part) - 0.5, -0.5)


def cells(table: pd.DataFrame, caption: str = "") -> Figure:
    """Mean offer in the nine cells, a panel per kind of weights, darker = larger lambda."""
    kinds = list(dict.fromkeys(table["weights"]))
    figure, grid = plotting.axes(2, 1, len(kinds), height=2.3, sharey=True)
    shades = {1.0: SKY, 2.25: BLUE, 3.2: BLACK}
    for kind, ax in zip(kinds, grid, strict=True):
        own = table[table["weights"] == kind]
        for lam, part in own.groupby("lam"):
            look = {"color": shades[lam], "marker": "o", "label": f"λ = {lam:g}"}
            ax.plot(part["rho"], part["mean_offer"], **look)
        ax.axhline(0.4, color=BLACK, ls=":", lw=1)
        ax.set_title(kind, loc="left", fontsize=7)
        ax.set_xlabel("reference ρ")
        ax.set_xticks([0.05, 0.3, 0.5])
    grid[0].set_ylabel("mean offer")
    grid[0].legend(fontsize=6)
    figures.add_caption(figure, caption)
    return figure


def labels(rows: pd.DataFrame, table: pd.DataFrame, caption: str = "") -> Figure:
    """Regret per round by partner (mean over seeds), and over all partners with intervals."""
    figure, grid = plotting.axes(2, 1, 2, height=2.8, width_ratios=[3, 2])
    names = list(dict.fromkeys(rows["partner"]))
    means = rows.groupby(["arm", "partner"], sort=False)["regret"].mean()
    for arm in dict.fromkeys(rows["arm"]):
        colour, marker = LOOKS[arm]
        values = [means[arm, name] for name in names]
        grid[0].plot(range(len(names)), values, color=colour, marker=marker, label=arm, **LINE)
    grid[0].set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=6)
    grid[0].set_ylabel("below the best reply, per round")
    grid[0].legend(fontsize=6)
    _rows(grid[1], table, "arm", "regret")
    grid[1].set_xlabel("mean over partners")
    grid[1].tick_params(axis="y", labelsize=6)
    figures.add_caption(figure, caption)
    return figure


def pools(table: pd.DataFrame, caption: str = "") -> Figure:
    """What each training partner is worth, from people and from responders nobody has met."""
    figure, grid = plotting.axes(2, 1, 2, height=2.2, sharey=True)
    for ax, (value, text) in zip(
        grid, (("people", "people"), ("held_out", "held-out responders")), strict=True
    ):
        _rows(ax, table, "arm", value)
        ax.set_xlabel(f"share of the pie kept, from {text}")
    figures.add_caption(figure, caption)
    return figure


def mixture(table: pd.DataFrame, switches: pd.DataFrame, caption: str = "") -> Figure:
    """Offers over the share of accepting partners; the line is exact."""
    looks = list(dict.fromkeys(table["value_function"]))
    figure, grid = plotting.axes(2, 1, len(looks), height=2.3, sharey=True)
    drawn = (("pool", BLUE, "o", "pool"), ("self_play", RED, "x", "own responder"))
    for look, ax in zip(looks, grid, strict=True):
        own = table[table["value_function"] == look]
        moves = switches[switches["value_function"] == look]
        edges = [own["share"].min(), *moves["share"], own["share"].max()]
        offers = [own["best"].iloc[0], *moves["after"]]
        ax.stairs(offers, edges, baseline=None, color=BLACK, label="best offer, exact")
        for column, colour, marker, text in drawn:
            ax.plot(own["share"], own[column], color=colour, marker=marker, label=text, **LINE)
        ax.set_title(look.replace("rho", "ρ"), loc="left")
        ax.set_xlabel("share q of accepting partners")
    grid[0].set_ylabel("most likely offer")
    grid[0].legend(fontsize=6)
    figures.add_caption(figure, caption)
    return figure


def meta(rows: pd.DataFrame, caption: str = "") -> Figure:
    """Left: held-out score minus ARTICLE's by type, a dot per seed. Right: the λ and ρ found."""
    figure, grid = plotting.axes(2, 1, 2, height=2.5)
    kinds = list(dict.fromkeys(rows["type"]))
    colours = dict(zip(kinds, (BLUE, RED, GREEN, ORANGE, PINK), strict=True))
    for y, kind in enumerate(kinds):
        own = rows[rows["type"] == kind]
        for shift, column, marker in ((-0.15, "cem", "o"), (0.15, "setting", "s")):
            gain = own[column] - own["article"]
            place = np.full(len(own), y + shift)
            grid[0].plot(gain, place, color=colours[kind], marker=marker, ms=3, **LINE)
        if kind != "repeated":  # rho does nothing there
            look = {"color": colours[kind], "marker": "o", "label": kind}
            grid[1].plot(own["lam"], own["rho"], **look, **LINE)
    grid[0].axvline(0, color=GREY, ls="--", lw=1)
    objectives = rows.groupby("type", sort=False)["objective"].first()
    grid[0].set_yticks(range(len(kinds)), [f"{k}, {objectives[k]}" for k in kinds], fontsize=7)
    grid[0].set_ylim(len(kinds) - 0.5, -0.5)
    grid[0].set_xscale("symlog", linthresh=0.01)
    grid[0].set_xlabel("held out, minus ARTICLE\n(circle: CEM, square: setting)")
    grid[1].plot([2.25], [0.5], marker="*", ms=9, color=BLACK, label="ARTICLE", **LINE)
    grid[1].set_xlabel("λ that CEM found")
    grid[1].set_ylabel("reference ρ that CEM found")
    grid[1].legend(fontsize=6)
    figures.add_caption(figure, caption)
    return figure


def language(table: pd.DataFrame, caption: str = "") -> Figure:
    """Exact payoff of the language model by step; a panel per setting, a line per objective."""
    settings = list(dict.fromkeys(table["setting"]))
    figure, grid = plotting.axes(2, 1, len(settings), height=2.6, sharey=True, squeeze=False)
    for letter, ax in zip(settings, grid[0], strict=True):
        for arm, part in table[table["setting"] == letter].groupby("arm", sort=False):
            colour, marker = LOOKS[arm]
            ax.plot(part["step"], part["value"], color=colour, marker=marker, ms=3, label=arm)
        ax.axhline(humans.offer_values().max(), color=BLACK, ls=":", lw=1)
        ax.set_title(f"setting {letter}", loc="left")
        ax.set_xlabel("step")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    grid[0, 0].set_ylabel("share of the pie kept, from people")
    grid[0, 0].legend(fontsize=6, ncols=2)
    figures.add_caption(figure, caption)
    return figure
