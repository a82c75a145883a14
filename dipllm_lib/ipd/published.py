"""Published numbers of Weis, Woelczyk et al. 2026 for the panels of the mechanism.

Read off the plots of the paper by eye, good to 0.03, unless `source` says text. They stand beside
our numbers and are never drawn as measured. Panels 2A to 2F are PPI, 4A to 4F A2C (five seeds),
both with games of 100 rounds; B, D and F are rounds of a game, the others phases or iterations.

A landmark holds over a window from `first` to `last`: integers count phases or rounds from 1, or
from the end when negative; fractions are shares of the whole axis.
"""

from typing import NamedTuple

import pandas as pd

READ, TEXT = "figure", "text"


class Landmark(NamedTuple):
    """column: of the panel's table, `other_` for the opponent · value: what the paper shows."""

    panel: str
    column: str
    opponent: str
    first: float
    last: float
    value: float
    source: str = READ


LANDMARKS = (
    Landmark("2A", "reward", "tabular", 1, -1, 1.0),
    Landmark("2A", "other_reward", "tabular", 1, -1, -0.4),
    Landmark("2A", "cooperation", "tabular", 1, -1, 0.07),
    Landmark("2A", "other_cooperation", "tabular", 1, -1, 0.53),
    Landmark("2B", "cooperation", "TFT", 1, 1, 0.0),
    Landmark("2B", "cooperation", "TFT", 14, 14, 0.5),
    Landmark("2B", "cooperation", "TFT", 50, 50, 0.97),
    Landmark("2B", "reward", "TFT", -1, -1, 1.0),
    Landmark("2B", "reward", "AllC", 1, -1, 2.0),
    Landmark("2B", "reward", "AllD", 1, 1, -0.28),
    Landmark("2B", "reward", "AllD", -1, -1, -0.08),
    Landmark("2B", "cooperation", "AllD", 1, 1, 0.28),
    Landmark("2B", "cooperation", "AllD", -1, -1, 0.09),
    Landmark("2B", "reward", "tabular", 1, -1, 1.0),
    Landmark("2B", "cooperation", "tabular", 1, -1, 0.09),
    Landmark("2C", "reward", "frozen", 10, -1, 0.88),
    Landmark("2C", "reward", "frozen", -1, -1, 0.9, TEXT),
    Landmark("2C", "other_reward", "frozen", 10, -1, 0.24),
    Landmark("2C", "cooperation", "frozen", 10, -1, 0.45),
    Landmark("2C", "other_cooperation", "frozen", 10, -1, 0.66),
    Landmark("2D", "reward", "frozen", -1, -1, 1.05),
    Landmark("2D", "other_reward", "frozen", -1, -1, 0.20),
    Landmark("2D", "cooperation", "frozen", -1, -1, 0.48),
    Landmark("2D", "other_cooperation", "frozen", -1, -1, 0.76),
    Landmark("2D", "cooperation", "frozen", 25, 25, 0.53),
    Landmark("2E", "cooperation", "learner", 2, 2, 0.13),
    Landmark("2E", "cooperation", "learner", 9, 9, 0.95),
    Landmark("2F", "cooperation", "learner", 3, 3, 0.03),
    Landmark("2F", "cooperation", "learner", 25, 25, 0.14),
    Landmark("2F", "cooperation", "learner", -1, -1, 0.17),
    Landmark("4A", "reward", "tabular", -1, -1, 1.03),
    Landmark("4A", "other_reward", "tabular", -1, -1, -0.45),
    Landmark("4B", "cooperation", "TFT", 20, 20, 1.0),
    Landmark("4B", "cooperation", "TFT", -5, -1, 0.6),
    Landmark("4C", "reward", "frozen", -1, -1, 1.32),
    Landmark("4C", "reward", "frozen", -1, -1, 1.25, TEXT),
    Landmark("4C", "other_reward", "frozen", -1, -1, -0.03),
    Landmark("4C", "cooperation", "frozen", -1, -1, 0.41),
    Landmark("4C", "other_cooperation", "frozen", -1, -1, 0.87),
    Landmark("4E", "cooperation", "learner", 0.4, 0.5, 0.94),
    Landmark("4E", "cooperation", "learner", 0.75, 1.0, 0.57),
    Landmark("4F", "cooperation", "learner", 20, 20, 0.6),
    Landmark("4F", "cooperation", "learner", -1, -1, 0.07),
)
PANELS = tuple(dict.fromkeys(one.panel for one in LANDMARKS))

# (panel, key of a contrast) -> difference that the landmarks imply, where they imply one
CONTRASTS = {
    ("2A", "alld"): 1.0 - 1.0,  # AllD earns exactly 1 on this pool
    ("2B", "TFT"): 0.97 - 0.0,
    ("2C", "share"): 0.88 - 0.24,
    ("2C", "chi"): 0.88 / 0.24 - 1.0,
    ("2D", "share"): 1.05 - 0.20,
    ("2D", "chi"): 1.05 / 0.20 - 1.0,
    ("2E", "seat 0"): 0.95 - 0.13,
    ("2E", "seat 1"): 0.95 - 0.13,
    ("2F", "within"): 0.17 - 0.03,
    ("4A", "alld"): 1.03 - 1.0,
    ("4C", "share"): 1.32 + 0.03,
}


def landmarks(panel: str) -> tuple[Landmark, ...]:
    """Those of a panel; ValueError lists the panels that have some."""
    found = tuple(one for one in LANDMARKS if one.panel == panel)
    if not found:
        raise ValueError(f"no landmarks of panel {panel!r}: use one of {', '.join(PANELS)}")
    return found


def contrast(panel: str, key: str) -> float:
    """The paper's difference for a contrast, nan where it does not show both ends."""
    return CONTRASTS.get((panel, key), float("nan"))


def window(axis: pd.Series, first: float, last: float) -> pd.Series:
    """Which rows of the axis (phases, iterations, rounds) lie in a landmark's window.

    Where a fixed phase or round is not on the axis none do: a shorter run has no such number.
    """
    known = sorted(axis.unique())

    def place(end: float) -> float:
        if isinstance(end, float):
            return end * known[-1]
        return known[end] if end < 0 and -end <= len(known) else end

    return (axis >= place(first)) & (axis <= place(last))


def beside(table: pd.DataFrame, panel: str, noise: str = "on") -> pd.DataFrame:
    """The landmarks of a panel with our mean: columns panel, measure, opponent, axis, first, last,
    paper, source, ours (mean over seeds, nan where our run has no such phase or round).

    table: of the panel, with columns seed, opponent, noise, the measures, and round, phase or
    iteration as its axis.
    """
    axis = next(name for name in ("round", "phase", "iteration") if name in _axis(table, panel))
    rows = []
    for one in landmarks(panel):
        own = table[(table["opponent"] == one.opponent) & (table["noise"] == noise)]
        if own.empty:
            raise ValueError(f"panel {panel} has no rows against {one.opponent}, noise {noise}")
        means = own[window(own[axis], one.first, one.last)].groupby("seed")[one.column].mean()
        row = {"panel": panel, "measure": one.column, "opponent": one.opponent, "axis": axis}
        row |= {"first": one.first, "last": one.last, "paper": one.value, "source": one.source}
        rows.append(row | {"ours": float(means.mean())})
    return pd.DataFrame(rows)


def _axis(table: pd.DataFrame, panel: str) -> list[str]:
    """Columns that can be the axis: rounds for B, D and F only."""
    return [c for c in table if (c == "round") == (panel[1] in "BDF")]
