"""The three panels of the Strategy Influence Graph, from its document (`influence_graph`).

1   active modules: their shares of the total effect at one decision, and the mean effects with
    95 % intervals over states beside them
2   grounds of the forecast: the effect of deleting a past round, the top five with their text
3   time line: the chosen alpha, beta, lambda and rho by game and window, with the payoff
"""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dipllm_lib.ipd import figures
from dipllm_lib.kto import influence_graph
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED

LOOKS = {  # of a line of panel 3
    "alpha": (BLUE, "o", "α"),
    "beta": (GREEN, "s", "β"),
    "lambda": (RED, "D", "λ"),
    "rho": (ORANGE, "^", "ρ"),
}
HEIGHT = 2.2


def draw(document: Mapping, caption: str = "") -> Figure:
    """Three rows of axes, two columns wide: 1 (two axes), 2, 3."""
    influence_graph.check(document)
    figure, grid = plotting.axes(2, 3, 2, height=HEIGHT)
    _decision(grid[0, 0], document)
    _modules(grid[0, 1], document)
    for row in (1, 2):
        for ax in grid[row]:
            ax.remove()
    lower = figure.add_subplot(grid[0, 0].get_gridspec()[1, :])
    _grounds(lower, document)
    _timeline(figure.add_subplot(grid[0, 0].get_gridspec()[2, :]), document)
    figures.add_caption(figure, caption)
    return figure


def _decision(ax, document: Mapping) -> None:
    """Panel 1, left: shares at one decision."""
    rows = document["decision"]
    names = [row["module"] for row in rows]
    ax.barh(range(len(rows)), [row["share"] for row in rows], color=BLUE, height=0.6)
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ax.set_xlabel("share of the total effect")
    ax.set_title("1  active modules, one decision", loc="left")


def _modules(ax, document: Mapping) -> None:
    """Panel 1, right: mean effects; hollow where a module is not connected."""
    rows = [row for row in document["edges"] if row["unit"] == "nats"]
    for y, row in enumerate(rows):
        fill = BLUE if row["connected"] else "none"
        ax.plot([row["low"], row["high"]], [y, y], color=BLUE)
        ax.plot([row["value"]], [y], marker="o", ls="none", color=BLUE, mfc=fill)
    ax.set_yticks(range(len(rows)), [row["name"] for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("nats, mean over states, 95 %")
    count = max((row["n"] for row in rows), default=0)
    ax.set_title(f"all edges in nats, {count} states", loc="left")


def _grounds(ax, document: Mapping) -> None:
    """Panel 2."""
    rows = document["grounds"]
    ax.set_title("2  grounds of the forecast: effect of deleting a round", loc="left")
    ax.set_xlabel("nats")
    if not rows:
        _nothing(ax, "no modeller is connected")
        return
    ax.barh(range(len(rows)), [row["effect"] for row in rows], color=PINK, height=0.6)
    words = [row["text"].replace(": ", "\n", 1) for row in rows]  # else they take half the width
    ax.set_yticks(range(len(rows)), words, fontsize=7)
    ax.set_ylim(len(rows) - 0.5, -0.5)


def _timeline(ax, document: Mapping) -> None:
    """Panel 3: steps of each parameter, the payoff on the right axis, games by name."""
    ax.set_title("3  chosen parameters and payoff", loc="left")
    table = pd.DataFrame(document["timeline"])
    if table.empty:
        _nothing(ax, "no coordinator is connected")
        return
    for name, (colour, marker, label) in LOOKS.items():
        look = {"color": colour, "marker": marker, "label": label, "ms": 3, "lw": 1}
        ax.plot(table["step"], table[name], drawstyle="steps-post", **look)
    ax.set_ylim(-0.1, 3.5)
    ax.set_ylabel("parameter")
    ax.set_xlabel("payoff window")
    ax.set_xlim(-0.2, len(table) - 0.2)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    other = ax.twinx()
    other.plot(table["step"], table["payoff"], color=GREY, lw=1, ls="--", label="payoff")
    other.set_ylabel("payoff, share of the scale")
    other.set_ylim(0, 1)
    other.grid(visible=False)
    other.spines["right"].set_visible(True)
    starts = table.groupby("game", sort=False)["step"].min()
    for game, step in starts.items():
        ax.axvline(step, color=BLACK, lw=0.5, ls=":")
        ax.text(step, 3.45, f" {game}", va="top", fontsize=7)
    lines = [*ax.get_lines()[: len(LOOKS)], other.get_lines()[0]]
    names = [one.get_label() for one in lines]
    ax.legend(lines, names, ncols=5, loc="upper center", bbox_to_anchor=(0.5, -0.25))


def _nothing(ax, words: str) -> None:
    ax.text(0.5, 0.5, words, ha="center", va="center", transform=ax.transAxes, color=GREY)
    ax.set_xticks([])
    ax.set_yticks([])
