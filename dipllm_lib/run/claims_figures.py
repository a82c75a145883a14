"""Pictures of the table of claims: grades by study, and what was found over what is stated.

A grade has a grey level and a hatch besides its colour, so that the figure can be printed.
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dipllm_lib.run import plotting
from dipllm_lib.run.grades import AGAIN, CONTRADICTED, GRADES, OPEN, OURS, TEXT, UNTESTED

LOOKS = dict(zip(GRADES, (
    (plotting.BLUE, ""), (plotting.SKY, ""), ("#DDDDDD", ""), (plotting.RED, "////"),
    ("white", ".."),
), strict=True))  # fmt: skip
WHO = {TEXT: "the text", AGAIN: "the text, at other noise", OURS: "beside it"}
SPAN = 3.0  # ends of the axis of `forest`, in stated effects
ROW = 0.135  # inches per row of `forest`


def grades_by_study(claims: pd.DataFrame) -> Figure:
    """One bar per study and who says it, its rows by grade; counts are written into it."""
    groups = [
        (f"study {study}, {WHO[who]}", part["verdict"].value_counts())
        for study in sorted(claims["study"].astype(str).unique())
        for who in WHO
        if len(part := claims[(claims["study"].astype(str) == study) & (claims["of"] == who)])
    ]
    figure, ax = plotting.axes(2, height=0.34 * len(groups) + 0.9)
    for at, (_, found) in enumerate(groups):
        left = 0
        for grade, (colour, hatch) in LOOKS.items():
            count = int(found.get(grade, 0))
            ax.barh(at, count, left=left, color=colour, hatch=hatch, edgecolor="black", lw=0.5)
            if count:
                place = {"x": left + count / 2, "y": at, "ha": "center", "va": "center"}
                box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"}
                ax.text(s=str(count), fontsize=7, bbox=box, **place)
            left += count
    ax.set_yticks(range(len(groups)), [name for name, _ in groups])
    ax.invert_yaxis()
    ax.set_xlabel("claims")
    ax.grid(axis="y", visible=False)
    marks = [Patch(fc=c, hatch=h, ec="black", lw=0.5, label=g) for g, (c, h) in LOOKS.items()]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), fontsize=7)
    return figure


def scaled(claims: pd.DataFrame) -> pd.DataFrame:
    """Effects of the texts with a stated number: claim, text, study, verdict, and mean, low, high
    as (value - bound) / (stated - bound): 0 is no effect, 1 what is stated."""
    kept = (claims["kind"] == "effect") & claims["number"].notna() & (claims["of"] == TEXT)
    part = claims[kept & claims["mean"].notna() & (claims["number"] != claims["bound"])]
    size = part["number"] - part["bound"]
    ends = [(part[name] - part["bound"]) / size for name in ("low", "high")]
    found = part[["claim", "text", "study", "verdict"]].copy()
    found["mean"] = (part["mean"] - part["bound"]) / size
    found["low"], found["high"] = np.minimum(*ends), np.maximum(*ends)
    return found.reset_index(drop=True)


def forest(claims: pd.DataFrame) -> Figure:
    """The rows of `scaled`; an arrow where a row leaves the axis, hollow if contradicted."""
    found = scaled(claims)
    figure, ax = plotting.axes(2, height=ROW * len(found) + 1.1)
    ax.axvline(0, color=plotting.BLACK, lw=0.8)
    plotting.chance(ax, 1, "as stated", vertical=True)
    for at, row in enumerate(found.itertuples()):
        _row(ax, at, row)
    ax.set_yticks(range(len(found)), [f"{r.claim}  {r.text}" for r in found.itertuples()])
    ax.tick_params(axis="y", labelsize=5.5)
    ax.set_ylim(len(found) - 0.4, -0.6)
    ax.set_xlim(-SPAN, SPAN)
    ax.set_xlabel("effect found / effect stated (0: none, 1: as stated)")
    ax.grid(axis="y", visible=False)
    marks = [Line2D([], [], label=grade, **_look(grade)) for grade in GRADES]
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), fontsize=7)
    return figure


def _look(grade: str) -> dict:
    """Line and marker of a grade; neither colour nor shape alone tells it."""
    pale = grade in (OPEN, UNTESTED)
    colour = plotting.GREY if pale else LOOKS[grade][0]
    marker = dict(zip(GRADES, ("o", "s", "D", "o", "x"), strict=True))[grade]
    fill = "white" if grade == CONTRADICTED else colour
    return {"color": colour, "lw": 1.2, "marker": marker, "ms": 3.5, "mfc": fill}


def _row(ax: Axes, at: int, row) -> None:
    """One interval, clipped to the axis."""
    look = _look(row.verdict)
    arrow = {"color": look["color"], "ms": 4, "ls": "none", "clip_on": False}
    if abs(row.mean) > SPAN:
        side = np.sign(row.mean)
        ax.plot([side * SPAN], [at], marker="<" if side < 0 else ">", **arrow)
        return
    ax.plot(np.clip([row.low, row.high], -SPAN, SPAN), [at, at], color=look["color"], lw=1.2)
    ax.plot([row.mean], [at], **look)
    for end, mark in ((row.low, "<"), (row.high, ">")):
        if abs(end) > SPAN:
            ax.plot([np.sign(end) * SPAN], [at], marker=mark, **arrow)
