"""The figures of negotiation, from the tables of `press_study`.

A negotiator has one colour and one marker throughout; grey works too, since every row is named or
has its marker. Intervals are 95 % bootstrap intervals over games. No number of a paper is drawn:
none is published.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY

LOOKS = {
    "Silent": (GREY, "x"),
    "Random": (SKY, "v"),
    "RuleNegotiator": (BLUE, "o"),
    "Deviator": (ORANGE, "s"),
    "Sanctioner": (GREEN, "D"),
    "PhasedNegotiator": (RED, "P"),
    "LMNegotiator": (PINK, "*"),
}
KINDS = ("peace", "zone", "alliance", "support")
CONTROLS = (", binding", ", none")  # arms of another effect: hollow


def _look(line: dict) -> dict:
    """Colour and marker of a row; hollow where the arm is a control."""
    colour, marker = LOOKS[line["negotiator"]]
    face = "white" if line["arm"].endswith(CONTROLS) else colour
    return {"color": colour, "marker": marker, "mfc": face}


def _arm_rows(table: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """The rows of some arms, in their order; arms without a row are left out."""
    known = [arm for arm in arms if (table["arm"] == arm).any()]
    return pd.concat([table[table["arm"] == arm] for arm in known])


def _bar(ax, line: dict, y: float, **look) -> None:
    """An estimate with its interval at height y."""
    ax.plot([line["low"], line["high"]], [y, y], color=look["color"], lw=1.2)
    ax.plot([line["value"]], [y], ls="none", **look)


def acceptance(table: pd.DataFrame, arms: Sequence[str]) -> Figure:
    """Share of proposals that were accepted, a panel per kind, a row per arm; `table`: of
    `press_study.acceptance`."""
    rows = _arm_rows(table, arms)
    names = list(dict.fromkeys(rows["arm"]))
    height = 0.9 + 0.24 * len(names)
    figure, grid = plotting.axes(2, 1, len(KINDS), height, sharey=True, sharex=True)
    for ax, kind in zip(grid, KINDS, strict=True):
        for line in rows[rows["kind"] == kind].to_dict("records"):
            _bar(ax, line, names.index(line["arm"]), **_look(line))
        ax.set_title(kind, loc="left")
        ax.set_xlim(-0.02, 1.02)
    _name_rows(grid[0], names)
    figure.supxlabel("share of these proposals that were accepted", fontsize=8)
    return figure


def keeping(table: pd.DataFrame, arms: Sequence[str]) -> Figure:
    """Promise keeping, a row per arm: by the definition, and in black without duties that no
    candidate could meet; `table`: of `press_study.behaviour`."""
    both = ("promise keeping", "keeping where possible")
    rows = _arm_rows(table[table["metric"].isin(both)], arms)
    names = list(dict.fromkeys(rows["arm"]))
    figure, ax = plotting.axes(2, height=0.9 + 0.26 * len(names))
    for line in rows.to_dict("records"):
        y = names.index(line["arm"])
        if line["metric"] == both[0]:
            _bar(ax, line, y, **_look(line))
            text = f"{line['value']:.3f}, {line['n']:.0f}"
            ax.text(1.02, y, text, transform=ax.get_yaxis_transform(), va="center", fontsize=7)
        else:
            _bar(ax, line, y + 0.25, color=BLACK, marker="|")
    _name_rows(ax, names)
    beside = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 7}
    ax.text(1.02, -0.8, "share kept, exposed", **beside)
    ax.set_xlim(right=1.01)
    ax.set_xlabel("share of exposed agreements that were kept; black: of those that could be kept")
    return figure


def differences(table: pd.DataFrame) -> Figure:
    """SoS with press minus without in percentage points, a row per arm and measure, filled where
    the interval excludes 0; `table`: of `press_study.differences`."""
    measures = [m for m in ("negotiators", "spread") if (table["measure"] == m).any()]
    rows = table[table["measure"].isin(measures)]
    names = list(dict.fromkeys(rows["arm"]))
    figure, grid = plotting.axes(
        2, 1, len(measures), 0.9 + 0.26 * len(names), sharey=True, squeeze=False
    )
    titles = {"negotiators": "mean of the negotiators", "spread": "spread over the seven"}
    for ax, measure in zip(grid[0], measures, strict=True):
        for line in rows[rows["measure"] == measure].to_dict("records"):
            points = {k: 100 * line[k] for k in ("value", "low", "high")}
            look = {"color": BLACK if line["changed"] else GREY, "marker": "s"}
            face = BLACK if line["changed"] else "white"
            _bar(ax, points, names.index(line["arm"]), mfc=face, **look)
        plotting.chance(ax, 0, "no change", vertical=True)
        ax.set_title(titles[measure], loc="left")
    _name_rows(grid[0][0], names)
    figure.supxlabel(
        "SoS with press − without, percentage points; filled: interval excludes 0", fontsize=8
    )
    return figure


def phases(table: pd.DataFrame, arms: Sequence[str]) -> Figure:
    """The three phases: goodwill and avalanche by year, punishment as a difference of
    probabilities; `table`: of `press_study.phases`."""
    rows = _arm_rows(table, arms)
    figure, grid = plotting.axes(2, 1, 3, 2.9)
    names = [arm for arm in arms if (rows["arm"] == arm).any()]
    for ax, statistic in ((grid[0], "goodwill"), (grid[2], "avalanche")):
        part = rows[rows["statistic"] == statistic]
        for place, (arm, own) in enumerate(part.groupby("arm", sort=False)):
            shift = 0.06 * (place - len(names) / 2)
            look = _look(own.iloc[0].to_dict())
            bars = np.abs(own[["low", "high"]].to_numpy().T - own["value"].to_numpy())
            ax.errorbar(own["year"] + shift, own["value"], bars, elinewidth=0.8, label=arm, **look)
        ax.set_xticks(sorted(part["year"].unique().astype(int)))
        ax.set_xlabel("year")
        ax.set_ylim(bottom=-0.05 * ax.get_ylim()[1])
    made = rows[(rows["statistic"] == "punishment") & (rows["alliance"] == "proposed")]
    for place, line in enumerate(made.to_dict("records")):
        if line["n"] > 0:
            _bar(grid[1], line, place, **_look(line))
    if not (made["n"] > 0).any():
        middle = {"transform": grid[1].transAxes, "ha": "center", "fontsize": 8}
        grid[1].text(0.5, 0.5, "nobody refused twice in time", **middle)
    plotting.chance(grid[1], 0, "no reaction", vertical=True)
    grid[1].set_yticks([])
    grid[1].set_ylim(len(made) - 0.5, -0.5)
    grid[0].set_title("1 goodwill: share of balanced offers", loc="left", fontsize=8)
    grid[1].set_title("2 punishment: alliance proposed", loc="left", fontsize=8)
    grid[2].set_title("3 avalanches per power and game", loc="left", fontsize=8)
    grid[1].set_xlabel("P(after two refusals) − P(else)")
    handles, labels = grid[0].get_legend_handles_labels()
    more = [x for x in zip(*grid[2].get_legend_handles_labels()) if x[1] not in labels]
    handles, labels = handles + [h for h, _ in more], labels + [text for _, text in more]
    figure.legend(handles, labels, loc="outside upper left", ncols=3, fontsize=7)
    return figure


def _name_rows(ax, names: Sequence[str]) -> None:
    """Rows of an axis named, the first on top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
