"""The figures of the evaluation (notebooks 10 and 11), each from one tidy table.

Inputs are joined tables of `beside` (row, column, agent, paper, ours, ours_low, ours_high, games),
of `contrasts` and of `decision_cost`. An agent has one colour and marker throughout
(`plotting.AGENTS`, KeyError for one without); numbers of the paper are hollow. What tells things
apart in colour also does in grey: every row is named on an axis, lines differ in their markers.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from dipllm_lib.dip.published import CITATION, PAR, TIME_SHARE
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import AGENTS, BLACK, GREY

LABELS = {
    "sos": "SoS (%)",
    "sos_solo": "SoS, solo counts all (%)",
    "win": "win (%)",
    "most_sc": "most SC (%)",
    "survived": "survived (%)",
    "defeated": "defeated (%)",
    "centres": "centres",
}


def population(joined: pd.DataFrame, measures: Sequence[str] = ()) -> Figure:
    """Bars of every agent, a panel per measure, intervals as whiskers, the paper's hollow.

    joined: of `beside.scores`; rows without one of ours are left out, their numbers stand in the
    table. measures: default all in `joined`.
    """
    joined = joined[joined["ours"].notna()]
    measures = list(measures or dict.fromkeys(joined["column"]))
    agents = list(dict.fromkeys(joined["agent"]))
    names = [_place(joined, agent) for agent in agents]
    height = 1.0 + 0.3 * len(agents)
    figure, grid = plotting.axes(2, 1, len(measures), height, squeeze=False, sharey=True)
    for ax, measure in zip(grid[0], measures, strict=True):
        part = joined[joined["column"] == measure].set_index("agent").loc[agents]
        rows = np.arange(len(agents))
        colours = [AGENTS[agent][0] for agent in agents]
        ax.barh(rows, part["ours"], 0.7, color=colours, edgecolor=BLACK, lw=0.6, alpha=0.75)
        ax.hlines(rows, part["ours_low"], part["ours_high"], color=BLACK, lw=1.6)
        plotting.published(ax, part["paper"], rows, CITATION)
        if measure == "sos":
            plotting.chance(ax, PAR, "equal players", vertical=True)
        ax.set_xlabel(LABELS[measure])
        ax.set_xlim(left=0)
        ax.grid(axis="y", visible=False)
    grid[0][0].set_yticks(range(len(agents)), names)
    grid[0][0].invert_yaxis()
    _legend_above(figure, grid[0][0])
    return figure


def matrix(joined: pd.DataFrame, limit: float = 8.0) -> Figure:
    """One (row) against six (column): SoS in % with its interval, the paper's below it.

    joined: of `beside.matrix`; pairings that were not played are left out, a triangle up marks an
    interval above par, down one below it, a dot one that holds it. Darker is more, on a log scale
    between par / limit and par * limit.
    """
    played = joined[joined["ours"].notna()]
    ones = list(dict.fromkeys(played["agent"]))
    sixes = _together(ones, dict.fromkeys(played["opponents"]))
    height = 0.9 + 0.42 * len(ones)
    figure, ax = plotting.axes(2, height=height)
    scale, colour = Normalize(-np.log2(limit), np.log2(limit)), colormaps["YlGnBu"]
    for line in played.to_dict("records"):
        i, j = ones.index(line["agent"]), sixes.index(line["opponents"])
        shade = colour(0.85 * float(np.clip(scale(np.log2(max(line["ours"], 0.1) / PAR)), 0, 1)))
        ax.fill_between([j - 0.5, j + 0.5], i - 0.5, i + 0.5, color=shade, lw=0)
        ink = "white" if np.dot(shade[:3], (0.299, 0.587, 0.114)) < 0.5 else BLACK
        options = {"ha": "center", "va": "center", "color": ink}
        mark = "▲" if line["ours_low"] > PAR else "▼" if line["ours_high"] < PAR else "·"
        ax.text(j, i - 0.2, f"{line['ours']:.1f} {mark}", fontsize=7, **options)
        between = f"[{line['ours_low']:.1f}, {line['ours_high']:.1f}]"
        paper = "" if np.isnan(line["paper"]) else f"  ({line['paper']:.1f})"
        ax.text(j, i + 0.22, between + paper, fontsize=5.5, **options)
    below = [_place(joined, six, "opponents") for six in sixes]
    ax.set_xticks(range(len(sixes)), below, fontsize=6)
    ax.set_yticks(range(len(ones)), [_place(joined, one) for one in ones])
    ax.set_xlabel("six opponents")
    ax.set_ylabel("one player")
    ax.set_xlim(-0.5, len(sixes) - 0.5)
    ax.set_ylim(len(ones) - 0.5, -0.5)
    ax.grid(False)
    note = f"SoS (%) [95 % interval] (paper); par {PAR:.1f}: ▲ above, ▼ below, · not resolved"
    ax.set_title(note, fontsize=7, loc="left")
    return figure


def steps(joined: pd.DataFrame, agent: str, xlabel: str, measures: Sequence[str] = ()) -> Figure:
    """A measure over a number, with intervals: iterations of the opponents (Fig. 5), rollouts on
    top (Table 6).

    joined: of `beside.scores` for a table whose rows are numbers; they stand at equal distances.
    agent: whose colour the line has. measures: a panel each, default all in `joined`.
    """
    measures = list(measures or dict.fromkeys(joined["column"]))
    wide = 1 if len(measures) == 1 else 2
    figure, grid = plotting.axes(wide, 1, len(measures), squeeze=False)
    colour, marker = AGENTS[agent]
    at = {row: k for k, row in enumerate(sorted(set(joined["row"])))}
    for ax, measure in zip(grid[0], measures, strict=True):
        part = joined[joined["column"] == measure].sort_values("row")
        ours, x = part[part["ours"].notna()], part["row"].map(at)
        _errorbars(ax, ours["row"].map(at), ours, color=colour, marker=marker, label=agent)
        plotting.published(ax, x, part["paper"], CITATION)
        if measure == "sos":
            plotting.chance(ax, PAR, "equal players")
        ax.set_xticks(list(at.values()), [f"{row:g}" for row in at])
        ax.set_ylabel(LABELS[measure])
        ax.margins(0.12)
    figure.supxlabel(xlabel, fontsize=8)
    _legend_above(figure, grid[0][0], 3 if wide == 2 else 2)
    return figure


def amounts(joined: pd.DataFrame, ax=None) -> Figure:
    """SoS over the share of the games that training used (Fig. 6), a line per agent.

    joined: of `beside.amounts`. x is the share of all games, on a scale that begins with none.
    """
    ax = plotting.axes()[1] if ax is None else ax
    hollow = {}
    for k, (curve, part) in enumerate(joined.groupby("curve", sort=False)):
        ours, agent = part[part["ours"].notna()], part["agent"].iloc[0]
        colour, marker = AGENTS[agent]
        _errorbars(
            ax, ours["share"], ours, color=colour, marker=marker, ls="-:"[k % 2], label=agent
        )
        plotting.published(ax, part["share"], part["paper"], curve)
        hollow[ax.lines[-1]] = "os"[k % 2]
    for line, marker in hollow.items():
        line.set_marker(marker)
    plotting.chance(ax, PAR, "equal players")
    total, most = joined["paper_games"].max(), joined["data_games"].max()
    ax.set_xscale("symlog", linthresh=0.05)
    shares = sorted(set(joined.loc[joined["ours"].notna(), "share"]))
    ax.set_xticks(shares, [f"{share * most:.0f}" for share in shares])
    ax.set_xlim(-0.01, 1.2)
    ax.minorticks_off()
    ax.set_xlabel(f"games for training, of {most:.0f} (paper: of {total:.0f})")
    ax.set_ylabel(LABELS["sos"])
    _legend_above(ax.figure, ax, columns=2)
    return ax.figure


def both(table: pd.DataFrame) -> Figure:
    """SoS of every agent with its interval, a panel for each kind of opponents.

    table: of `report.scores`, every agent against every kind, in the same order.
    """
    names = list(dict.fromkeys(table["agent"]))
    kinds = table.groupby("opponents", sort=False)
    figure, grid = plotting.axes(
        2, 1, kinds.ngroups, height=0.9 + 0.2 * len(names), squeeze=False, sharey=True
    )
    for ax, (name, part) in zip(grid[0], kinds, strict=True):
        y = [names.index(agent) for agent in part["agent"]]
        ax.hlines(y, part["sos_low"], part["sos_high"], color=BLACK)
        ax.plot(part["sos"], y, ls="none", marker="s", color=BLACK)
        plotting.chance(ax, PAR, "equal players", vertical=True)
        ax.set_title(f"against six {name}")
        ax.set_xlabel(LABELS["sos"])
    grid[0][0].set_yticks(range(len(names)), names)
    grid[0][0].invert_yaxis()
    _legend_above(figure, grid[0][0])
    return figure


def forest(
    table: pd.DataFrame,
    unit: str = "difference in SoS (points)",
    group: str | None = None,
    digits: int = 1,
    count: str = "games",
) -> Figure:
    """Paired differences with intervals, one row each: filled where the interval excludes 0.

    table: columns contrast, mean, low, high, `count` and, where the paper has one, paper (its
    difference); group: a column whose values become headings; digits: of the printed estimates.
    """
    lines, labels, y = [], [], 0
    for name, part in [("", table)] if group is None else table.groupby(group, sort=False):
        if name:
            labels.append((y, name, True))
            y += 1
        for line in part.to_dict("records"):
            labels.append((y, line["contrast"], False))
            lines.append((y, line))
            y += 1
    figure, ax = plotting.axes(2, height=0.7 + 0.22 * y)
    beside = partial(ax.text, transform=ax.get_yaxis_transform(), va="center", fontsize=7)
    beside(1.02, -0.8, f"estimate [95 % interval], {count}")
    for place, line in lines:
        resolved = line["low"] > 0 or line["high"] < 0
        ax.plot([line["low"], line["high"]], [place, place], color=BLACK if resolved else GREY)
        face = BLACK if resolved else "white"
        ax.plot([line["mean"]], [place], marker="s", mfc=face, color=BLACK if resolved else GREY)
        numbers = [f"{line[name]:+.{digits}f}" for name in ("mean", "low", "high")]
        text = f"{numbers[0]} [{numbers[1]}, {numbers[2]}], {line[count]}"
        beside(1.02, place, text.replace("-", "−"))
    papers = [(line["paper"], y) for y, line in lines if not np.isnan(line.get("paper", np.nan))]
    if papers:
        plotting.published(ax, *zip(*papers), CITATION)
    ax.axvline(0, color=GREY, ls="--", lw=1)
    ax.set_yticks([y for y, _, _ in labels], [text for _, text, _ in labels])
    for tick, (_, _, heading) in zip(ax.get_yticklabels(), labels, strict=True):
        tick.set_fontweight("bold" if heading else "normal")
    ax.set_ylim(y - 0.5, -0.5)
    ax.set_xlabel(f"{unit}; filled: the interval excludes 0")
    if papers:
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    return figure


def cost(table: pd.DataFrame, ax=None) -> Figure:
    """CPU seconds per power-turn with intervals; the ratio to the base is written beside.

    table: of `decision_cost.table`. Grey: what the paper says of its model, 10 to 20 % of the time
    of its searching opponent, as that share of our base.
    """
    ax = plotting.axes(2, height=0.9 + 0.27 * len(table))[1] if ax is None else ax
    plotting.intervals(table, "agent", "seconds", "seconds_low", "seconds_high", ax=ax)
    base = table["base"].iloc[0]
    spent = float(table.set_index("agent").loc[base, "seconds"])
    label = f"{TIME_SHARE[0]:.0f}–{TIME_SHARE[1]:.0f} % of {base}: {CITATION}"
    ax.axvspan(*(spent * share / 100 for share in TIME_SHARE), color=GREY, alpha=0.25, label=label)
    for row, line in enumerate(table.to_dict("records")):
        text = f"× {line['ratio']:.2g} [{line['ratio_low']:.2g}, {line['ratio_high']:.2g}]"
        text = "base of the ratios" if line["agent"] == base else text
        ax.text(1.02, row, text, transform=ax.get_yaxis_transform(), va="center", fontsize=7)
    ax.set_xscale("log")
    ax.set_xlabel("CPU seconds per power-turn")
    ax.set_ylim(len(table) - 0.5, -0.5)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0)
    return ax.figure


def _place(joined: pd.DataFrame, name: str, column: str = "agent") -> str:
    """Our name; a second line says what the paper has in this place."""
    key = {"agent": "row", "opponents": "column"}[column]
    place = joined.loc[joined[column] == name, key].iloc[0]
    return name if place == "–" else f"{name}\n(paper: {place})"


def _together(first: Sequence[str], others: Sequence[str]) -> list[str]:
    """`others` in the order of `first` where they are in it, then the rest."""
    return [name for name in first if name in others] + [x for x in others if x not in first]


def _errorbars(ax, x, table: pd.DataFrame, **look) -> None:
    """Estimates with intervals, joined by a line."""
    bars = [table["ours"] - table["ours_low"], table["ours_high"] - table["ours"]]
    ax.errorbar(x, table["ours"], yerr=bars, capsize=2, elinewidth=1, **look)


def _legend_above(figure: Figure, ax, columns: int = 3) -> None:
    """The legend of `ax` above all axes."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=columns)
