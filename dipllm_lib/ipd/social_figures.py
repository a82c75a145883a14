"""The figures of notebook 10b, each from one tidy table of `beyond` or `social_tables`.

Settings of a question are drawn in their order with the colours, lines and markers of LOOKS. Every
seed is a thin line or a dot; filled marks are means with 95 % intervals over seeds, hollow dots
seeds that never reached an onset. Numbers that no training gives are dashed, those of a paper
hollow. A question that was not asked gives axes that say so.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dipllm_lib.ipd import lola as lola_learners
from dipllm_lib.ipd.game import STATES
from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, YELLOW

LOOKS = (
    (BLUE, "-", "o"), (RED, "--", "s"), (GREEN, "-.", "^"), (ORANGE, ":", "D"), (PINK, "-", "v"),
    (SKY, "--", "P"), (BLACK, "-.", "X"), (GREY, ":", "h"), (YELLOW, "-", "*"),
)  # fmt: skip
LABELS = {"onset": "onset (phase)", "plateau": "plateau of cooperation"}


def _missing(figure: Figure, axes: Sequence[Axes], question: str) -> Figure:
    """Axes of a question that was not asked."""
    for ax in axes:
        ax.set_axis_off()
    text = f"not run: add {question!r} to social_questions"
    axes[0].text(0.02, 0.5, text, transform=axes[0].transAxes)
    return figure


def _pair(count: int = 2, height: float = plotting.HEIGHT) -> tuple[Figure, list[Axes]]:
    figure, axes = plotting.axes(2, 1, count, height=height, squeeze=False)
    return figure, list(axes.flat)


def numbers(names: Iterable[str]) -> dict[str, float]:
    """Setting -> the number in its name, the mean of several: `b 2 and 3` is at 2.5."""
    found = {name: re.findall(r"\d+(?:\.\d+)?", name) for name in names}
    return {name: float(np.mean([float(x) for x in texts])) for name, texts in found.items()}


def against(
    question: str, summary: pd.DataFrame, seeds: pd.DataFrame, x: Mapping[str, float], label: str
) -> Figure:
    """Onset and plateau of each setting against its number x, named on the plateau.

    summary, seeds: rows of a question in `social_tables.summary` and `per_seed`.
    """
    figure, axes = _pair()
    if summary.empty:
        return _missing(figure, axes, question)
    for ax, measure in zip(axes, LABELS, strict=True):
        low, high = ("low", "high") if measure == "plateau" else ("onset_low", "onset_high")
        for place, row in enumerate(summary.to_dict("records")):
            colour, _, marker = LOOKS[place % len(LOOKS)]
            at, own = x[row["setting"]], seeds[seeds["setting"] == row["setting"]]
            column = own["plateau"] if measure == "plateau" else own["bound"]
            face = np.where(own["censored"], "white", colour)
            ax.scatter([at] * len(own), column, s=9, c=face, edgecolors=colour, lw=0.7, zorder=3)
            ax.plot([at, at], [row[low], row[high]], color=colour)
            ax.plot([at], [row[measure]], color=colour, marker=marker, ms=6, label=row["setting"])
        ax.set_xlabel(label)
        ax.set_ylabel(LABELS[measure])
    axes[0].set_ylim(0, seeds["last"].max() + 1.5)
    axes[1].set_ylim(-0.02, 1.02)
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside upper left", ncols=5)
    return figure


def curves(
    question: str, table: pd.DataFrame, floors: Mapping[str, float], label: str = "phase"
) -> Figure:
    """Cooperation of learners with each other over phases: a colour per setting, thin lines are
    seeds, dashed the noise floor of each, name -> share, if it has one.

    table: rows of a question of `beyond.curves`.
    """
    figure, ax = plotting.axes(2, height=2.8)
    if table.empty:
        return _missing(figure, [ax], question)
    for place, (name, own) in enumerate(table.groupby("setting", sort=False)):
        colour, line, marker = LOOKS[place % len(LOOKS)]
        for _, one in own.groupby("seed"):
            ax.plot(one["phase"], one["cooperation"], color=colour, ls=line, lw=0.5, alpha=0.5)
        mean = own.groupby("phase")["cooperation"].mean()
        ax.plot(mean.index, mean, color=colour, ls=line, marker=marker, lw=1.8, label=name)
        if np.isfinite(floors.get(name, np.nan)):
            ax.axhline(floors[name], color=colour, ls="--", lw=0.8)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel(label)
    ax.set_ylabel("cooperation")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=4)
    return figure


def regret(table: pd.DataFrame) -> Figure:
    """Regret of each training pool (columns) with each set of opponents (rows), a number each.

    table: of `beyond.regrets`.
    """
    wide = table.pivot(index="opponent", columns="trained", values="regret")
    wide = wide.loc[list(dict.fromkeys(table["opponent"])), list(dict.fromkeys(table["trained"]))]
    figure, ax = plotting.axes(2, height=0.8 + 0.17 * len(wide))
    picture = ax.imshow(wide, cmap="Greys", aspect="auto", vmin=0, vmax=wide.max().max() * 1.4)
    for row, column in np.ndindex(wide.shape):
        value = wide.iloc[row, column]
        text = "–" if np.isnan(value) else f"{value:.2f}"
        ax.text(column, row, text, ha="center", va="center", fontsize=6)
    ax.set_xticks(range(len(wide.columns)), list(wide.columns))
    ax.set_yticks(range(len(wide)), list(wide.index), fontsize=6)
    ax.grid(False)
    ax.set_xlabel("pool of the training")
    figure.colorbar(picture, label="regret per round")
    return figure


def lola(table: pd.DataFrame, met: pd.DataFrame) -> Figure:
    """Exact learners: payoffs beside those published, their policies; and what a trained learner
    earns from them.

    table: of `lola.compare` · met: rows of `beyond.regrets` of one training pool.
    """
    figure, axes = _pair(3, 2.8)
    first = table[table["seat"] == 0]
    for y, row in enumerate(first.to_dict("records")):
        colour, line, marker = LOOKS[y]
        axes[0].plot([row["payoff_low"], row["payoff_high"]], [y, y], color=colour)
        axes[0].plot([row["payoff"]], [y], color=colour, marker=marker, ls="none")
        if np.isfinite(row["published_payoff"]):
            cited = "Foerster et al. 2018" if y == 0 else "_"
            plotting.published(axes[0], [row["published_payoff"]], [y + 0.25], cited)
        policy = [row[state] for state in STATES]
        axes[1].plot(STATES, policy, color=colour, ls=line, marker=marker, label=row["pairing"])
    axes[0].set_yticks(range(len(first)), [])
    axes[0].set_ylim(len(first) - 0.5, -0.6)
    axes[0].set_xlabel("payoff per round of the first")
    axes[1].set_ylim(-0.02, 1.02)
    axes[1].set_ylabel("mean P(C) of the first after …")
    _met(axes[2], met)
    _legend(figure, axes)
    return figure


def _met(ax: Axes, met: pd.DataFrame) -> None:
    """What a trained learner earns from frozen learners: itself, AllD and the best response."""
    names = [name for name in lola_learners.FROZEN if name in set(met["opponent"])]
    rows = met.set_index("opponent").loc[names]
    y = np.arange(len(names))
    ax.plot(rows["reward"], y, ls="none", marker="o", color=BLUE, label="trained learner")
    ax.plot(rows["alld"], y, ls="none", marker="X", color=BLACK, label="AllD")
    ax.plot(rows["best"], y, ls="none", marker="|", ms=10, color=GREY, label="best response")
    ax.set_yticks(y, [f"from {name}" for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("reward per round")


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend of all axes."""
    entries: dict[str, object] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    names = [name for name in entries if not name.endswith(", _")]
    handles = [entries[name] for name in names]
    figure.legend(handles, names, loc="outside upper left", ncols=4)


def rates(table: pd.DataFrame) -> Figure:
    """P(C) after each outcome: a colour per training pool, people hollow.

    table: of `beyond.rates`.
    """
    figure, ax = plotting.axes(2, height=2.8)
    names = list(dict.fromkeys(table["who"]))
    for place, name in enumerate(names):
        own, at = table[table["who"] == name], np.arange(6) + 0.08 * (place - len(names) / 2)
        if name == "people":
            plotting.published(ax, at, own["mean"], "eight laboratory studies")
            continue
        colour, _, marker = LOOKS[place % len(LOOKS)]
        ax.vlines(at, own["low"], own["high"], color=colour)
        ax.plot(at, own["mean"], ls="none", color=colour, marker=marker, label=f"trained on {name}")
    ax.set_xticks(range(6), ["first round", *STATES[1:], "overall"])
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel("P(C)")
    ax.set_xlabel("after (own action first)")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=4)
    return figure


def cost(table: pd.DataFrame) -> Figure:
    """Cooperation with the noise of training against CPU seconds of a seed, a line per seed; of
    the question `cost` in `social_tables.cost`."""
    figure, ax = plotting.axes(2, height=2.8)
    if table.empty:
        return _missing(figure, [ax], "cost")
    for place, (name, own) in enumerate(table.groupby("setting", sort=False)):
        colour, line, marker = LOOKS[place % len(LOOKS)]
        for seed, one in own.groupby("seed"):
            label = name if seed == own["seed"].min() else None
            ax.plot(one["seconds"], one["cooperation"], color=colour, ls=line, marker=marker,
                    ms=3, label=label)  # fmt: skip
    ax.set_xscale("log")
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("CPU seconds of a seed")
    ax.set_ylabel("cooperation")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=5)
    return figure
