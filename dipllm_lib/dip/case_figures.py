"""The figures of the case study, drawn from a `case_study.Case`.

Policies have the colours of the other notebooks, and each its own hatch for print in grey: anchor
plain, model hatched, target solid black. Powers have the colours of the board and a marker each.
There is one game, so values and probabilities have no intervals; the only estimate is the worth of
the choice, whose interval is that of the draws of the other powers.
"""

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dipllm_lib.dip import atlas, boards, draw, orders
from dipllm_lib.dip.case_study import Case, Decision, shown
from dipllm_lib.dip.game import Game
from dipllm_lib.dip.pen import COLOURS, INK
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import AGENTS, BLACK, GREY, ORANGE, RED, SKY

POLICIES = {
    "tau": ("anchor", AGENTS["anchor"][0], ""),
    "target": ("target", AGENTS["target"][0], ""),
    "pi": ("model", AGENTS["lm"][0], "////"),
}
MARKERS = "osD^vPX"  # of the powers
PARTS = {"drift": (GREY, ""), "choice": (ORANGE, "////"), "others": (SKY, "....")}


def values(case: Case, decisive: Sequence[Decision] = ()) -> Figure:
    """Value of every power in every position, the power of the case thick; decisive phases are
    bands with their number.
    """
    figure, ax = plotting.axes(2, height=3.2)
    steps = np.arange(len(case.values))
    for number, decision in enumerate(decisive, 1):
        ax.axvspan(decision.k, decision.k + 1, color="#DDDDDD", lw=0, zorder=0)
        ax.text(decision.k + 0.5, 1.01, str(number), transform=ax.get_xaxis_transform(),
                ha="center", va="bottom", fontsize=9, weight="bold")  # fmt: skip
    for power, line in enumerate(100 * case.values.T):
        own = power == case.power
        look = {"lw": 2.6 if own else 1.2, "ms": 5.5 if own else 3.5, "zorder": 4 if own else 3}
        look |= {"marker": MARKERS[power], "mfc": COLOURS[power], "mec": INK, "mew": 0.5}
        colour = GREY if COLOURS[power] == "#FAFAFA" else COLOURS[power]  # white on white
        name = atlas.POWERS[power].title() + (" (the model)" if own else "")
        ax.plot(steps, line, color=colour, label=name, markevery=1, **look)
    ax.set_xticks(steps, _short(case.phases), rotation=90, fontsize=6.5)
    ax.set_xlim(-0.5, steps[-1] + 0.5)
    ax.set_ylim(0, None)
    ax.grid(axis="x", visible=False)
    ax.set_xlabel("position before the phase")
    ax.set_ylabel("value: expected share\nof the sum of squares (%)")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=7)
    return figure


def _short(phases: Sequence[str]) -> list[str]:
    return ["end" if name == "COMPLETED" else name for name in phases]


def decision(here: Decision, most: int, title: str | None = None) -> Figure:
    """Candidates of one turn: probabilities of anchor, target and model (left); what each is worth
    on average over the others' orders, with the middle 80 % of the draws, and against the orders
    that the others gave (right). What was played is in bold with a mark.
    """
    table = shown(here, most)
    labels = _labels(here, table.index)
    heights = [max(3.2, 1.25 * text.count("\n") + 2.0) for text in labels]
    height = 0.75 + 0.135 * sum(heights)
    figure, (left, right) = plotting.axes(
        2, across=2, height=height, width_ratios=[3, 2], sharey=True
    )
    at = np.cumsum(heights) - np.array(heights) / 2
    _bars(left, table, at)
    left.set_yticks(at, labels, fontsize=6.5)
    for tick, played in zip(left.get_yticklabels(), table["played"], strict=True):
        tick.set_fontweight("bold" if played else "normal")
    left.set_ylim(sum(heights), 0)
    left.set_xlabel("probability of the joint order")
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=7, borderaxespad=0)
    _worth(right, here, table, at)
    for ax in (left, right):
        ax.grid(axis="y", visible=False)
    figure.suptitle(title or f"{here.turn.name.title()}, {here.phase}", fontsize=9)
    return figure


def _bars(ax, table: pd.DataFrame, at: np.ndarray) -> None:
    for shift, (column, (name, colour, hatch)) in zip((-0.8, 0, 0.8), POLICIES.items()):
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "lw": 0}
        ax.barh(at + shift, table[column], 0.76, label=name, **look)
    for y, row in zip(at, table.itertuples(), strict=True):
        if row.played:
            top = max(row.tau, row.target, row.pi)
            ax.plot([top], [y], marker="<", color=RED, ms=6, ls="none", clip_on=False, zorder=4)
            ax.annotate("played", (top, y), (6, 0), textcoords="offset points", fontsize=7,
                        va="center", color=RED)  # fmt: skip
    ax.set_xlim(0, 1.15 * max(table[list(POLICIES)].to_numpy().max(), 0.05))


def _worth(ax, here: Decision, table: pd.DataFrame, at: np.ndarray) -> None:
    draws = 100 * here.value_draws[table.index]
    low, high = np.quantile(draws, [0.1, 0.9], axis=1)
    ax.hlines(at, low, high, color=GREY, lw=3, alpha=0.5, label="80 % of the draws")
    ax.plot(100 * table["value"], at, "o", color=BLACK, label="mean over the draws")
    look = {"mfc": "white", "mec": RED, "mew": 1.3, "ms": 5}
    ax.plot(100 * table["hindsight"], at, "D", label="against what they did", **look)
    ax.set_xlabel("value after the phase (%)")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), fontsize=7, borderaxespad=0)


def _labels(here: Decision, rows: Sequence[int], width: int = 44) -> list[str]:
    """What was played in full, of the others the orders that differ from it."""
    texts = []
    for row in rows:
        joint = here.joints[row]
        if row != here.played and not here.turn.adjusts:
            given = here.joints[here.played]
            joint = tuple(a for a, b in zip(joint, given, strict=True) if a != b)
        text = ", ".join(
            orders.to_text(order).replace(" ", "\N{NO-BREAK SPACE}") for order in joint
        )
        part = row != here.played and len(joint) < here.turn.slots
        texts.append(textwrap.fill(f"played, but {text}" if part else text, width))
    return texts


def phases(case: Case, most: int = 4, across: int = 5) -> Figure:
    """All decisions in small: per candidate the three probabilities, the likeliest under the target
    on the left; a triangle marks what was played.
    """
    down = -(-len(case.decisions) // across)
    figure, grid = plotting.axes(
        2, rows=down, across=across, height=1.15, squeeze=False, sharey=True
    )
    for ax in grid.flat[len(case.decisions) :]:
        ax.set_visible(False)
    top = max(shown(here, most)[list(POLICIES)].to_numpy().max() for here in case.decisions)
    for ax, here in zip(grid.flat, case.decisions):
        table = shown(here, most)
        at = np.arange(len(table))
        for shift, (column, (name, colour, hatch)) in zip((-0.27, 0, 0.27), POLICIES.items()):
            look = {"color": colour, "hatch": hatch, "edgecolor": "white", "lw": 0}
            ax.bar(at + shift, table[column], 0.26, label=name, **look)
        above = table[list(POLICIES)].max(axis=1) + 0.09 * top
        played = table["played"].to_numpy()
        ax.plot(at[played], above[played], "v", color=RED, ms=5, label="played")
        names = np.where(table["q"].isna(), "none", (table.index + 1).astype(str))
        ax.set_xticks(at, names, fontsize=6.5)
        ax.set_xlim(-0.6, most + 0.6)
        ax.set_ylim(0, 1.2 * top)
        ax.set_yticks([tick for tick in (0, 0.5, 1) if tick <= 1.2 * top])
        ax.grid(axis="x", visible=False)
        ax.set_title(here.phase, fontsize=7.5)
    text = "rank of the candidate under the target (none: played, but no candidate of the search)"
    figure.supxlabel(text, fontsize=8)
    figure.supylabel("probability", fontsize=8)
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4)
    return figure


def account(case: Case, decisive: Sequence[Decision] = ()) -> Figure:
    """How the value of the power moved in each phase: three parts stacked from zero, a diamond for
    their sum; the bar of the choice has the interval of the draws. Decisive phases have a number.
    """
    figure, ax = plotting.axes(2, height=2.8)
    table, at = case.account, np.arange(len(case.account))
    base = {1: np.zeros(len(at)), -1: np.zeros(len(at))}
    for name, (colour, hatch) in PARTS.items():
        part = 100 * table[name].to_numpy()
        start = np.where(part >= 0, base[1], base[-1])
        look = {"color": colour, "hatch": hatch, "edgecolor": "white", "lw": 0}
        ax.bar(at, part, 0.75, bottom=start, label=name, **look)
        if name == "choice":
            ends = [100 * (table["choice"] - table["choice_low"]), 
                    100 * (table["choice_high"] - table["choice"])]  # fmt: skip
            ax.errorbar(at, start + part, ends, fmt="none", ecolor=BLACK, elinewidth=0.8)
        base[1] += np.maximum(part, 0)
        base[-1] += np.minimum(part, 0)
    change = 100 * (table["after"] - table["before"])
    ax.plot(at, change, "D", color=BLACK, ms=3.5, label="change of value")
    ax.axhline(0, color=BLACK, lw=0.8)
    names = table["phase"].tolist()
    for number, here in enumerate(decisive, 1):
        ax.text(names.index(here.phase), 1.01, str(number), transform=ax.get_xaxis_transform(),
                ha="center", va="bottom", fontsize=9, weight="bold")  # fmt: skip
    ax.set_xticks(at, names, rotation=90, fontsize=6.5)
    ax.set_xlim(-0.6, len(at) - 0.4)
    ax.grid(axis="x", visible=False)
    ax.set_xlabel("phase")
    ax.set_ylabel("change of value (points\nof the sum of squares)")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def sheet(game: Game, across: int = 3) -> Figure:
    """The board at the start of every year and at the end, on one page, without orders."""
    b = game.boards
    years = np.flatnonzero((b.phase == boards.SPRING_MOVES) | (b.phase == boards.OVER)).tolist()
    down = -(-len(years) // across)
    width = plotting.WIDTHS[2]
    height = width / across * draw.SIZE[1] / draw.SIZE[0]
    figure, grid = plotting.axes(
        2, rows=down, across=across, height=height, squeeze=False, layout="none"
    )
    figure.subplots_adjust(0, 0, 1, 1, wspace=0.02, hspace=0.02)
    for ax in grid.flat[len(years) :]:
        ax.set_visible(False)
    for ax, k in zip(grid.flat, years):
        over = b.phase[k] == boards.OVER
        title = f"End, after {b.year[k]}" if over else f"Spring {b.year[k]}"
        draw.draw_board(b, k, ax=ax, title=title)
    return figure
