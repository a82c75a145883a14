"""Figures of memory from the tables of `memory_study`: recall, steadiness, change of rules.

A player has one colour and marker throughout; bars are 95 % intervals over seeds. Adaptation shows
the mean regret per round around the change, since rounds to adapt of censored episodes are only
bounds; the numbers themselves are in the table.
"""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dipllm_lib.ipd import figures
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLACK, BLUE, GREY, ORANGE, RED

LOOKS = {
    "window": (ORANGE, "s"),
    "window + store": (BLUE, "o"),
    "full history": (RED, "D"),
    "Bayes filter": (BLACK, "x"),
    "uniform": (GREY, "v"),
}
PAIRS = (("consistency", "regret"), ("adaptivity", "regret"))
SHORT = "not measured: fewer than 40 rounds"


def recall(table: pd.DataFrame, caption: str = "") -> Figure:
    """Share right over the lag, both arms, the line of chance and of the pass rule."""
    figure, ax = plotting.axes(1)
    for arm, part in table.groupby("arm", sort=False):
        colour, marker = LOOKS[arm]
        ax.plot(part["lag"], part["recall"], color=colour, marker=marker, label=arm)
        ax.vlines(part["lag"], part["recall_low"], part["recall_high"], color=colour)
    plotting.chance(ax, float(table["chance"].iloc[0]), "chance")
    ax.axhline(0.95, color=BLACK, lw=0.8, ls=":", label="works")
    ax.set_xticks(sorted(table["lag"].unique()))
    ax.set_xlabel("rounds since the event")
    ax.set_ylabel("share recalled")
    ax.set_ylim(0, 1.05)
    figure.legend(*ax.get_legend_handles_labels(), ncols=2, loc="outside upper center")
    figures.add_caption(figure, caption)
    return figure


def steadiness(table: pd.DataFrame, caption: str = "") -> Figure:
    """Consistency and adaptivity over regret: steady, and still not deaf. Games that are too short
    for them leave the axes empty, and say so."""
    figure, grid = plotting.axes(2, 1, 2)
    for ax, (y, x) in zip(grid, PAIRS, strict=True):
        if y not in table:
            ax.text(0.5, 0.5, SHORT, ha="center", transform=ax.transAxes, color=GREY)
            ax.set_axis_off()
            continue
        for row in table.to_dict("records"):
            colour, marker = LOOKS[row["arm"]]
            ax.plot([row[x]], [row[y]], marker=marker, ls="none", color=colour, label=row["arm"])
            ax.plot([row[f"{x}_low"], row[f"{x}_high"]], [row[y]] * 2, color=colour)
            ax.plot([row[x]] * 2, [row[f"{y}_low"], row[f"{y}_high"]], color=colour)
        ax.set_xlabel("regret per round, share of the payoff range")
        ax.set_ylabel(y)
        ax.set_ylim(-0.05, 1.05)
    lines, names = grid[0].get_legend_handles_labels()
    if lines:
        figure.legend(lines, names, ncols=5, loc="outside upper center")
    figures.add_caption(figure, caption)
    return figure


def change(table: pd.DataFrame, at: int, line: float, caption: str = "") -> Figure:
    """Mean regret by round; a panel per kind of change and whether it was announced."""
    panels = list(table.groupby(["kind", "announced"], sort=False))
    across = min(3, len(panels))
    rows = -(-len(panels) // across)
    figure, grid = plotting.axes(2, rows, across, squeeze=False)
    for ax in grid.flat[len(panels) :]:
        ax.remove()
    for ((kind, told), part), ax in zip(panels, grid.flat, strict=False):
        for arm, own in part.groupby("arm", sort=False):
            ax.plot(own["round"], own["regret"], color=LOOKS[arm][0], label=arm, lw=1.1)
        ax.axvline(at, color=GREY, lw=0.8, ls=":")
        ax.axhline(line, color=GREY, lw=0.8, ls="--")
        ax.set_title(f"{kind}, {'announced' if told else 'silent'}", loc="left")
        ax.set_xlabel("round")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for row in grid:
        row[0].set_ylabel("regret, share of range")
    lines, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, ncols=5, loc="outside upper center")
    figures.add_caption(figure, caption)
    return figure
