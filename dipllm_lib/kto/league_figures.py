"""The figures of the league, each from one table of `league_study`."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dipllm_lib.ipd import figures
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLUE, GREEN, GREY, ORANGE, RED, SKY

LOOKS = {  # arm -> colour, marker
    "base": (GREY, "x"),
    "pool": (BLUE, "o"),
    "pool, x(1 - x)": (SKY, "h"),
    "pool, uniform": (GREEN, "D"),
    "self-play": (RED, "X"),
    "no play": (ORANGE, "^"),
}
TALL, SMALL = 4.4, 5.5  # inches of a figure with a row per member, points of its names
STEP = 5  # every so many columns of a matrix are numbered
UNITS = {"ultimatum": "share of the pie", "repeated": "per round", "bargaining": "share of the pie"}


def matrix(table: pd.DataFrame, caption: str = "") -> Figure:
    """Exact payoff of the row from the column, a panel per game, darker is more. Columns have the
    numbers of the rows."""
    games = list(dict.fromkeys(table["game"]))
    figure, grid = plotting.axes(2, 1, len(games), height=TALL, squeeze=False)
    for game, ax in zip(games, grid[0], strict=True):
        part = table[table["game"] == game]
        names = list(dict.fromkeys(part["row"]))
        wide = part.pivot(index="row", columns="column", values="exact").loc[names, names]
        _squares(figure, ax, wide, UNITS[game])
        numbers = range(1, len(names) + 1)
        labels = [f"({k}) {name}" for k, name in zip(numbers, names, strict=True)]
        ax.set_yticks(range(len(names)), labels, fontsize=SMALL)
        places = [k for k in numbers if k == 1 or k % STEP == 0]
        ax.set_xticks([k - 1 for k in places], places, fontsize=SMALL)
        ax.set_title(game, loc="left")
    figures.add_caption(figure, caption)
    return figure


def weights(table: pd.DataFrame, arm: str = "pool", caption: str = "") -> Figure:
    """Weight of every member in each round, a panel per game, darker is more."""
    part = table[table["arm"] == arm]
    games = list(dict.fromkeys(part["game"]))
    figure, grid = plotting.axes(2, 1, len(games), height=TALL, squeeze=False)
    for game, ax in zip(games, grid[0], strict=True):
        own = part[part["game"] == game]
        names = list(dict.fromkeys(own["member"]))
        wide = own.pivot(index="member", columns="round", values="weight").loc[names]
        _squares(figure, ax, wide, "probability")
        ax.set_title(game, loc="left")
        ax.set_xlabel("round")
    figures.add_caption(figure, caption)
    return figure


def _squares(figure: Figure, ax, wide: pd.DataFrame, unit: str) -> None:
    """One square per entry, grey where there is none, names on both sides and a scale below."""
    ax.grid(False)
    ax.set_facecolor("#DDDDDD")
    image = ax.imshow(wide.to_numpy(), cmap="Blues", vmin=0, aspect="auto")
    ax.set_yticks(range(len(wide)), list(wide.index), fontsize=SMALL)
    columns = list(wide.columns)
    ax.set_xticks(range(len(columns)), columns, fontsize=SMALL)
    bar = figure.colorbar(image, ax=ax, location="bottom", shrink=0.8, pad=0.02)
    bar.set_label(unit, fontsize=6)
    bar.ax.tick_params(labelsize=6)


def over_rounds(table: pd.DataFrame, measure: str = "exploitability", caption: str = "") -> Figure:
    """Exploitability (or pool_regret) by round over the scale of the game, a panel per game, a line
    per arm with its interval over seeds."""
    games = list(dict.fromkeys(table["game"]))
    figure, grid = plotting.axes(2, 1, len(games), height=2.4, squeeze=False)
    for game, ax in zip(games, grid[0], strict=True):
        for arm, part in table[table["game"] == game].groupby("arm", sort=False):
            colour, marker = LOOKS[arm]
            ax.plot(part["round"], part[measure], color=colour, marker=marker, ms=3, label=arm)
            ends = part[f"{measure}_low"], part[f"{measure}_high"]
            ax.fill_between(part["round"], *ends, color=colour, alpha=0.2, lw=0)
        ax.set_title(game, loc="left")
        ax.set_xlabel("round")
        ax.set_ylim(bottom=0)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    grid[0, 0].set_ylabel(f"{measure.replace('_', ' ')}, over the scale")
    handles, names = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), fontsize=6)
    figures.add_caption(figure, caption)
    return figure


def executor_round(table: pd.DataFrame, caption: str = "") -> Figure:
    """The last round of the language model: the weight of each member, and the regret against it
    before (the ring) and after."""
    part = table[table["round"] == table["round"].max()].reset_index(drop=True)
    figure, (left, right) = plotting.axes(2, 1, 2, height=2.6, sharey=True)
    left.barh(part.index, part["weight"], color=BLUE, height=0.6)
    left.set_yticks(part.index, list(part["member"]), fontsize=7)
    left.set_ylim(len(part) - 0.5, -0.5)
    left.set_xlabel("probability of meeting it")
    for y, row in enumerate(part.to_dict("records")):
        ends = row["regret_before"], row["regret_after"]
        right.plot(ends, [y, y], color=GREY, lw=0.8)
        marks = {"color": BLUE, "ls": "none", "marker": "o"}
        first = {"label": "before"} if y == 0 else {}
        right.plot([ends[0]], [y], mfc="none", ms=7, **marks, **first)
        right.plot([ends[1]], [y], **marks, **({"label": "after"} if y == 0 else {}))
    right.set_xlim(left=-0.01)
    right.set_xlabel("regret, share of the pie")
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    figures.add_caption(figure, caption)
    return figure


def arms(table: pd.DataFrame, caption: str = "") -> Figure:
    """Regret of every arm against the held-out players, 0 is the exact best reply."""
    groups = list(table.groupby(["game", "opponent"], sort=False))
    across = 2
    rows = -(-len(groups) // across)
    figure, grid = plotting.axes(2, rows, across, height=1.7, squeeze=False)
    for ax in grid.flat[len(groups) :]:
        ax.set_axis_off()
    for (name, part), ax in zip(groups, grid.flat, strict=False):
        for y, line in enumerate(part.to_dict("records")):
            colour, marker = LOOKS[line["arm"]]
            ax.plot([line["regret_low"], line["regret_high"]], [y, y], color=colour)
            ax.plot([line["regret"]], [y], color=colour, marker=marker, ls="none")
        ax.set_yticks(range(len(part)), list(part["arm"]), fontsize=7)
        ax.set_ylim(len(part) - 0.5, -0.5)
        ax.set_xlim(left=-0.01)
        ax.set_title(f"{name[0]}: {name[1]}", loc="left", fontsize=8)
        ax.set_xlabel("regret over the scale", fontsize=7)
    figures.add_caption(figure, caption)
    return figure
