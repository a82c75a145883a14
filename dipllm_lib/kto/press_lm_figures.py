"""The figure of the learned negotiator: its training, what its messages are worth, and its SoS."""

import pandas as pd
from matplotlib.figure import Figure

from dipllm_lib.run import plotting
from dipllm_lib.run.plotting import BLACK, BLUE, GREEN, GREY, RED

LOOKS = {"imitation": (BLUE, "-"), "forecast": (GREEN, "--")}
STAGES = ("base", "imitation", "pt_kto")
MARKS = {"proposal": "o", "reply": "s"}
SMOOTH = 5  # steps of a running mean


def learned(history: pd.DataFrame, measures: pd.DataFrame, differences: pd.DataFrame) -> Figure:
    """Loss of the steps of cross-entropy (that of `pt_kto` depends on the weights of its batch, and
    is in the table alone); mean worth of what is said on games held out, as a share of the best
    text's; SoS of the seat in points, paired by game."""
    figure, (left, middle, right) = plotting.axes(2, 1, 3, 2.8)
    for stage, (colour, line) in LOOKS.items():
        own = history[history["stage"] == stage]
        part = own["loss"].rolling(SMOOTH, min_periods=1).mean()
        left.plot(own["step"], part, color=colour, ls=line, label=stage)
    left.set(xlabel="step", ylabel="loss, nats per decision", ylim=(0, None))
    left.set_title("1 training", loc="left", fontsize=8)
    left.legend(fontsize=7)
    _worth(middle, measures)
    names = [f"{one.arm.split()[0]} − {one.minus.split()[0]}" for one in differences.itertuples()]
    for y, one in enumerate(differences.itertuples()):
        right.plot([100 * one.low, 100 * one.high], [y, y], color=BLACK, lw=1.2)
        face = BLACK if one.changed else "white"
        right.plot([100 * one.value], [y], "s", color=BLACK, mfc=face)
    plotting.chance(right, 0, "no change", vertical=True)
    right.set_yticks(range(len(names)), names)
    right.set_ylim(len(names) - 0.4, -0.6)
    right.set_xlabel("SoS of the seat, points")
    right.set_title("3 at the table", loc="left", fontsize=8)
    return figure


def _worth(ax, measures: pd.DataFrame) -> None:
    """What the executor's messages are worth after each stage, and those of RuleNegotiator."""
    for kind, marker in MARKS.items():
        own = measures[measures["kind"] == kind].set_index("stage").reindex(STAGES)
        share = own["worth"] / own["best"]
        ax.plot(range(len(STAGES)), share, marker=marker, color=RED, label=kind, mfc="white")
        rule = own["rule"].iloc[0] / own["best"].iloc[0]
        ax.plot([len(STAGES)], [rule], marker=marker, color=BLUE, ls="none")
    ax.axhline(0, color=GREY, lw=0.8)
    ax.set_xticks(range(len(STAGES) + 1), [*STAGES, "Rule"], rotation=30)
    ax.set_ylabel("worth, share of the best text's")
    ax.set_title("2 what is said is worth", loc="left", fontsize=8)
    ax.legend(fontsize=7)
