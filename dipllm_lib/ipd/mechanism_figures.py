"""The figures of the three steps (notebooks 05 to 07), from the panels of `mechanism_tables`.

Panels over training have a row per measure and a column per level of noise; panels inside a game a
row per measure and a column per opponent or level of noise. Published landmarks are hollow marks at
the end of the window that they are read from, where our axis has it; those of a panel stand in its
axes with the noise of training. Lines without training, as a best response, are thin.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dipllm_lib.ipd import figures, published
from dipllm_lib.ipd import mechanism_tables as panels
from dipllm_lib.ipd.figures import ARMS, OPPONENTS, Line, Panel, Reference
from dipllm_lib.run.plotting import BLACK, GREY, ORANGE, RED, SKY

MEASURES = ("reward", "cooperation")
PAPER = "paper, by eye"
SMOOTH = {"best response": 1, "Bayes player": 5}  # rounds of a mean
PLAYERS = {
    "best response": ("best response", BLACK, "--", ""),
    "Bayes player": ("Bayes player, mean of 5 rounds", GREY, "-.", ""),
}
KINDS = {"tabular": ("tabular agent", ORANGE, "s"), "copy": ("copy of Fixed-ICL", SKY, "h")}


def sides(table: pd.DataFrame, own: str, other: str, column: str = "arm") -> pd.DataFrame:
    """Both players of each game as rows: `column` names them, and the numbers of the opponent take
    the place of the own ones."""
    swapped = {name: f"other_{name}" for name in MEASURES}
    swapped |= {b: a for a, b in swapped.items()}
    theirs = table.rename(columns=swapped)[list(table.columns)]
    return pd.concat([table.assign(**{column: own}), theirs.assign(**{column: other})])


def by_seat(table: pd.DataFrame) -> pd.DataFrame:
    """An arm for each seat."""
    return table.assign(arm="seat " + table["seat"].astype(str))


def over_training(
    table: pd.DataFrame,
    panel: str,
    rng: np.random.Generator,
    resamples: int,
    references: Sequence[Reference] = (),
    caption: str = "",
) -> Figure:
    """Panels A, C and E. table: with a column arm, one of figures.ARMS · panel: as 2C, whose
    landmarks are drawn, none for another name; an arm that is the opponent has those of `other_`.
    """
    (opponent,) = table["opponent"].unique()
    noises = list(dict.fromkeys(table["noise"]))
    shown = [Panel(opponent, measure, noise) for measure in MEASURES for noise in noises]
    figure = figures.training(
        table, rng, resamples, shown, references, across=len(noises), caption=caption
    )
    arms, known = list(dict.fromkeys(table["arm"])), table[panels.axis(table)].unique()
    lines = []
    for place, one in enumerate(shown):
        figure.axes[place].set_title(f"noise {one.noise}", loc="left")
        if len(known) == 1:
            figure.axes[place].set_xticks(known)
        if one.noise == noises[0]:
            lines += _marks(table, panel, one.measure, opponent, place, ARMS[arms[0]][1])
            if arms[-1] in ("pool", "frozen"):
                other = f"other_{one.measure}"
                lines += _marks(table, panel, other, opponent, place, ARMS[arms[-1]][1])
    return figures.overlay(figure, lines)


def inside_step1(
    table: pd.DataFrame,
    curves: pd.DataFrame,
    panel: str,
    rng: np.random.Generator,
    resamples: int,
    caption: str = "",
) -> Figure:
    """Panel B: a column per opponent, with the lines of reference_curves.curves. The Bayes player
    is deterministic, so its moves against one that is too jump: it is drawn as a moving mean."""
    figure = figures.within(table, rng, resamples, "opponent", MEASURES, thin=True, caption=caption)
    opponents, lines = list(dict.fromkeys(table["opponent"])), []
    for row, measure in enumerate(MEASURES):
        for column, name in enumerate(opponents):
            place = row * len(opponents) + column
            for player, look in PLAYERS.items():
                own = curves[(curves["player"] == player) & (curves["opponent"] == name)]
                drawn = own[measure].rolling(SMOOTH[player], center=True, min_periods=1).mean()
                lines.append(Line(place, own["round"], drawn, look))
            colour = OPPONENTS[name][1]
            lines += _marks(table, panel, measure, name, place, colour)
    return figures.overlay(figure, lines)


def inside(
    table: pd.DataFrame,
    panel: str,
    rng: np.random.Generator,
    resamples: int,
    names: tuple[str, str] | None = None,
    caption: str = "",
) -> Figure:
    """Panels D and F: a column per level of noise. names: of both sides, as extorter and frozen;
    None where they have the same role."""
    (opponent,) = table["opponent"].unique()
    noises = list(dict.fromkeys(table["noise"]))
    both = table if names is None else sides(table, *names, column="opponent")
    figure = figures.within(both, rng, resamples, "noise", MEASURES, thin=True, caption=caption)
    lines = []
    for row, measure in enumerate(MEASURES):
        place = row * len(noises)
        own = OPPONENTS[opponent if names is None else names[0]][1]
        lines += _marks(table, panel, measure, opponent, place, own)
        if names is not None:
            colour = OPPONENTS[names[1]][1]
            lines += _marks(table, panel, f"other_{measure}", opponent, place, colour)
    return figures.overlay(figure, lines)


def _marks(
    table: pd.DataFrame, panel: str, column: str, opponent: str, place: int, colour: str
) -> list[Line]:
    """The landmarks of a column of a panel, at the last x of their windows."""
    if panel not in published.PANELS:
        return []
    found = published.landmarks(panel)
    axis = "round" if "round" in table else panels.axis(table)
    lines = []
    for one in found:
        if (one.column, one.opponent) == (column, opponent):
            inside = table.loc[published.window(table[axis], one.first, one.last), axis]
            if len(inside):
                look = (PAPER, colour, "none", "o")
                lines.append(Line(place, [inside.max()], [one.value], look))
    return lines


def enforcement(points: pd.DataFrame, victims: pd.DataFrame, caption: str = "") -> Figure:
    """Meter 2: what an extorter and its opponent earn, a mark per opponent, axes per extorter of
    the first four. points: table `line` of the results · victims: columns seed, seat, s_x, s_y, the
    play against Fixed-ICL itself."""
    agents = list(points.groupby(["seed", "seat"]).groups)[:4]
    figure, grid = figures.layout(len(agents), len(agents))
    for (seed, seat), ax in zip(agents, grid, strict=False):
        own = points[(points["seed"] == seed) & (points["seat"] == seat)]
        for kind, (label, colour, marker) in KINDS.items():
            some = own[own["kind"] == kind]
            look = {"ls": "none", "ms": 2.5, "mew": 0.5, "label": label}
            ax.plot(some["s_y"], some["s_x"], color=colour, marker=marker, **look)
        met = victims[(victims["seed"] == seed) & (victims["seat"] == seat)]
        style = {"ls": "none", "marker": "*", "ms": 9, "color": RED, "label": "Fixed-ICL"}
        ax.plot(met["s_y"], met["s_x"], **style)
        slope, start = np.polyfit(own["s_y"], own["s_x"], 1)
        ends = np.array([own["s_y"].min(), own["s_y"].max()])
        ax.plot(ends, start + slope * ends, color=BLACK, label="regression")
        ax.set_title(f"seed {seed}, extorter {seat}", loc="left")
        ax.set_xlabel("reward of the opponent")
    grid[0].set_ylabel("reward of the extorter")
    figures.add_legend(figure, grid)
    figures.add_caption(figure, caption)
    return figure


def references(values: pd.DataFrame, names: Mapping[str, str]) -> list[Reference]:
    """Reference lines of step 1's reward on the pool. names: player of reference_curves.values ->
    its label; those that are not in the table are left out."""
    rewards = values.set_index("player")["reward"]
    return [
        Reference(float(rewards[player]), text, "tabular", "reward")
        for player, text in names.items()
        if player in rewards
    ]
