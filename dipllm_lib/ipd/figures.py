"""The figures of study 2 (notebooks 04 to 07), each from one tidy table.

Unit of every mean and interval is the seed: the mean of its learners where the seats have the same
role. Bands are 95 % percentile bootstrap intervals over seeds. Every seed is drawn as a thin line
of its arm, whatever became of it; numbers that no training gives (a noise floor, an exact value)
are dashed and named at the right edge.

Tables have the columns seed, seat, opponent, noise, cooperation, reward and phase or iteration, and
arm where several are drawn; curves inside a game have round. An arm and an opponent have one colour
and marker throughout (KeyError for one without).
"""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dipllm_lib.run import plotting, stats
from dipllm_lib.run.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY

ARMS = {  # label, colour, line, marker; solid, dashed and dotted as in the paper
    "mixed": ("mixed pool", BLUE, "-", "o"),
    "identity": ("Opponent ID", RED, "--", "s"),
    "no_tabular": ("No Tabular", GREEN, ":", "^"),
    "literal": ("β literal", ORANGE, "-.", "v"),
    "tabular": ("ID of tabular only", PINK, "-.", "P"),
    "permuted": ("ID permuted", SKY, "-.", "X"),
    # sides of a game and starts of step 3, in 05 to 07
    "own": ("learner", RED, "-", "D"),
    "pool": ("average tabular agent", ORANGE, "-", "s"),
    "extorter": ("extorter", RED, "-", "p"),
    "frozen": ("Fixed-ICL", SKY, "-", "h"),
    "seat 0": ("extorter 0", BLUE, "-", "o"),
    "seat 1": ("extorter 1", ORANGE, "--", "s"),
    "both": ("weights and data", BLUE, "-", "o"),
    "data": ("data", GREEN, ":", "^"),
    "weights": ("weights", RED, "--", "s"),
}
OPPONENTS = {
    "learner": ("learner", RED, "-", "D"),
    "TFT": ("TFT", BLUE, "-", "o"),
    "AllC": ("AllC", GREEN, "--", "^"),
    "AllD": ("AllD", BLACK, "--", "X"),
    "tabular": ("average tabular", ORANGE, "-", "s"),
    "GTFT": ("GTFT", SKY, "-.", "<"),
    "GRIM": ("GRIM", PINK, "-.", ">"),
    "WSLS": ("WSLS", GREY, "-.", "P"),
    "frozen": ("Fixed-ICL", SKY, "-", "h"),
    "extorter": ("extorter", RED, "-", "p"),
    "ZD1.5": ("ZD, χ = 1.5", ORANGE, ":", "1"),
    "ZD2": ("ZD, χ = 2", PINK, ":", "2"),
    "ZD3": ("ZD, χ = 3", RED, ":", "3"),
    "ZD5": ("ZD, χ = 5", BLACK, ":", "4"),
    "Bayes": ("Bayes player", GREEN, "-.", "*"),
}
MEASURES = {
    "cooperation": "cooperation",
    "reward": "reward per round",
    "other_cooperation": "cooperation of the opponent",
    "other_reward": "reward of the opponent",
}
VERDICTS = {"shown": (BLACK, BLACK), "reversed": (RED, RED), "open": (GREY, "white")}
GAP = 0.075  # least distance of two labels at the right edge, in heights of the axes
EVERY = 8  # markers on a line, about
WRAP = 54  # characters of a line of a contrast's name


class Panel(NamedTuple):
    """What one pair of axes shows over training: a measure against an opponent at a noise level."""

    opponent: str = "learner"
    measure: str = "cooperation"
    noise: str = "on"


class Reference(NamedTuple):
    """A number that no training gives, with its name; drawn where the panel matches, None = any."""

    value: float
    text: str
    opponent: str | None = None
    measure: str | None = "cooperation"
    noise: str | None = None

    def belongs(self, panel: Panel) -> bool:
        """Whether it is drawn in `panel`."""
        own = self.opponent, self.measure, self.noise
        return all(a is None or a == b for a, b in zip(own, panel, strict=True))


PANELS = tuple(Panel(o, m) for o in ("learner", "tabular") for m in ("cooperation", "reward"))


def bands(
    table: pd.DataFrame, keys: Sequence[str], measure: str, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Columns keys, mean, low, high, seeds: of `measure` over seeds, within each value of keys.

    A seed counts once, with the mean of its rows. ValueError for a missing column.
    """
    _need(table, ["seed", measure, *keys])
    own = table.groupby([*keys, "seed"], sort=False)[measure].mean().reset_index()
    rows = []
    for name, part in own.groupby(list(keys), sort=False):
        found = stats.mean_interval(part[measure], rng, resamples)
        rows.append((*name, *found, len(part)))
    return pd.DataFrame(rows, columns=[*keys, "mean", "low", "high", "seeds"])


def training(
    table: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
    panels: Sequence[Panel] = PANELS,
    references: Sequence[Reference] = (),
    across: int = 2,
    seats: bool = False,
    caption: str = "",
) -> Figure:
    """Measures over phases or iterations (Fig. 1): mean, band and thin lines, a colour per arm.

    seats: a thin line per learner instead of one per seed, where the seats may part. caption: small
    print below, for all that departs from the paper. ValueError for a panel without rows.
    """
    x = "phase" if "phase" in table else "iteration"
    _need(table, [x, "arm", "seat", "opponent", "noise"])
    figure, grid = layout(len(panels), across)
    for panel, ax in zip(panels, grid, strict=False):
        shown = (table["opponent"] == panel.opponent) & (table["noise"] == panel.noise)
        if not shown.any():
            raise ValueError(f"nothing to draw against {panel.opponent} at noise {panel.noise}")
        for arm, part in table[shown].groupby("arm", sort=False):
            thin = ["seed", "seat"] if seats else ["seed"]
            _curve(ax, part, x, panel.measure, ARMS[arm], rng, resamples, thin)
        against = OPPONENTS[panel.opponent][0]
        ax.set_title(f"against {against}, noise {panel.noise}", loc="left")
        ax.set_xlabel(x)
        _finish(ax, panel.measure, [r for r in references if r.belongs(panel)])
    add_legend(figure, grid)
    add_caption(figure, caption)
    return figure


def within(
    table: pd.DataFrame,
    rng: np.random.Generator,
    resamples: int,
    panels: str | None = None,
    measures: Sequence[str] = ("cooperation",),
    thin: bool = False,
    references: Sequence[Reference] = (),
    caption: str = "",
) -> Figure:
    """Measures round by round of a game (Fig. 3, Fig. 2 B, D, F): a colour per opponent.

    panels: a column whose values get axes of their own, as arm, phase or noise; a row per measure.
    thin: also a line per seed. ValueError if anything but seed and seat varies inside a curve.
    """
    _need(table, ["seed", "seat", "opponent", "round"])
    groups = [("", table)] if panels is None else list(table.groupby(panels, sort=False))
    figure, grid = layout(len(groups) * len(measures), len(groups))
    places = [(m, name, part) for m in measures for name, part in groups]
    for ax, (measure, name, part) in zip(grid, places, strict=False):
        for opponent, rows in part.groupby("opponent", sort=False):
            if rows.duplicated(["seed", "seat", "round"]).any():
                raise ValueError(f"{opponent}: several rows of a seed, seat and round; select one")
            lines = ["seed"] if thin else []
            _curve(ax, rows, "round", measure, OPPONENTS[opponent], rng, resamples, lines)
        if panels is not None:
            label = ARMS[name][0] if panels == "arm" else f"{panels} {name}"
            ax.set_title(label, loc="left")
        ax.set_xlabel("round of the game")
        _finish(ax, measure, [r for r in references if r.measure in (None, measure)])
    add_legend(figure, grid)
    add_caption(figure, caption)
    return figure


def forest(
    judged: pd.DataFrame,
    per_seed: pd.DataFrame,
    unit: str = "difference in cooperation",
    caption: str = "",
) -> Figure:
    """Contrasts with intervals over seeds, a dot per seed, the verdict in words beside.

    judged: columns contrast, mean, low, high, verdict (of VERDICTS); a row each, first on top.
    per_seed: columns contrast, seed, value. A contrast whose mean is nan, since it is not defined,
    is left out. ValueError for a contrast without seeds, or if none is left.
    """
    _need(judged, ["contrast", "mean", "low", "high", "verdict"])
    _need(per_seed, ["contrast", "seed", "value"])
    judged = judged[judged["mean"].notna()]
    if judged.empty:
        raise ValueError("no contrast with a number: nothing to draw")
    figure, ax = plotting.axes(2, height=0.8 + 0.3 * len(judged))
    for y, line in enumerate(judged.to_dict("records")):
        own = per_seed.loc[per_seed["contrast"] == line["contrast"], "value"].to_numpy()
        if not len(own):
            raise ValueError(f"contrast {line['contrast']!r} has no seeds")
        colour, face = VERDICTS[line["verdict"]]
        ax.plot(own, np.full(len(own), y + 0.22), ls="none", marker=".", ms=3, color=GREY)
        ax.plot([line["low"], line["high"]], [y, y], color=colour)
        ax.plot([line["mean"]], [y], marker="s", ls="none", mfc=face, color=colour)
        estimate = f"{line['mean']:+.2f} [{line['low']:+.2f}, {line['high']:+.2f}]"
        text = f"{estimate.replace('-', '−')}, {line['verdict']}, {len(own)} seeds"
        place = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 7}
        ax.text(1.02, y, text, **place)
    ax.axvline(0, color=GREY, ls="--", lw=1)
    names = [textwrap.fill(name, WRAP) for name in judged["contrast"]]
    ax.set_yticks(range(len(judged)), names, fontsize=7)
    ax.set_ylim(len(judged) - 0.5, -0.5)
    ax.set_xlabel(f"{unit}; dots: seeds, filled: the interval excludes 0")
    add_caption(figure, caption)
    return figure


class Line(NamedTuple):
    """x, y to draw over axes number `place` of a figure, counted as its panels; look: label,
    colour, line and marker as in ARMS; a line of "none" is hollow marks, as for published numbers.
    """

    place: int
    x: Sequence[float]
    y: Sequence[float]
    look: tuple[str, str, str, str]


def overlay(figure: Figure, lines: Sequence[Line]) -> Figure:
    """Draw lines that no training gives over a figure of this module, and name them in its legend;
    returns the figure."""
    for one in lines:
        label, colour, line, marker = one.look
        hollow = {"mfc": "none", "ms": 5} if line == "none" else {"markevery": EVERY, "ms": 3}
        style = {"ls": line, "marker": marker, "lw": 1.0, "label": label, "zorder": 1.5}
        figure.axes[one.place].plot(one.x, one.y, color=colour, **style, **hollow)
    for legend in figure.legends:
        legend.remove()
    add_legend(figure, figure.axes)
    return figure


def _need(table: pd.DataFrame, columns: Sequence[str]) -> None:
    """ValueError for columns that are not there."""
    missing = [name for name in columns if name not in table]
    if missing:
        raise ValueError(f"the table has no column {', '.join(missing)}: {list(table.columns)}")


def layout(count: int, across: int) -> tuple[Figure, list[Axes]]:
    """`count` axes, `across` in a row; those left over are hidden."""
    across = min(across, count)
    rows = -(-count // across)
    figure, grid = plotting.axes(1 if across == 1 else 2, rows, across, squeeze=False)
    for ax in grid.flat[count:]:
        ax.set_visible(False)
    return figure, list(grid.flat)


def _curve(
    ax: Axes,
    part: pd.DataFrame,
    x: str,
    measure: str,
    look: tuple[str, str, str, str],
    rng: np.random.Generator,
    resamples: int,
    thin: Sequence[str],
) -> None:
    """Mean over seeds with its band, and a thin line per value of the columns `thin`."""
    label, colour, line, marker = look
    found = bands(part, [x], measure, rng, resamples).sort_values(x)
    for _, own in part.groupby(list(thin)) if thin else ():
        seen = own.groupby(x)[measure].mean()
        ax.plot(seen.index, seen, color=colour, ls=line, lw=0.5, alpha=0.45)
    ax.fill_between(found[x], found["low"], found["high"], color=colour, alpha=0.2, lw=0)
    every = max(1, len(found) // EVERY)
    ax.plot(found[x], found["mean"], color=colour, ls=line, marker=marker, markevery=every,
            lw=1.8, label=label)  # fmt: skip


def _finish(ax: Axes, measure: str, references: Sequence[Reference]) -> None:
    """Name of the y axis, its range for shares, and the references with their names."""
    ax.set_ylabel(MEASURES[measure])
    if measure.endswith("cooperation"):
        ax.set_ylim(-0.02, 1.02)
    for one in references:
        ax.axhline(one.value, color=GREY, ls="--", lw=0.9)
    low, high = ax.get_ylim()
    places = [(one.value - low) / (high - low) for one in references]
    for one, y in zip(references, _apart(places), strict=True):
        ax.text(1.01, y, one.text, transform=ax.transAxes, va="center", fontsize=6, color=GREY)


def _apart(places: Sequence[float]) -> list[float]:
    """The same heights pushed up, in their order, until any two are GAP apart."""
    found, last = list(places), -np.inf
    for i in np.argsort(places, kind="stable"):
        found[i] = last = max(places[i], last + GAP)
    return found


def add_legend(figure: Figure, grid: Sequence[Axes]) -> None:
    """One legend of all axes, above them."""
    entries: dict[str, object] = {}
    for ax in grid:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    names, handles = list(entries), list(entries.values())
    figure.legend(handles, names, loc="outside upper left", ncols=3)


def add_caption(figure: Figure, caption: str) -> None:
    """Small print below the axes, none if it is empty."""
    if caption:
        figure.supxlabel(caption, fontsize=6, x=0.01, ha="left")
