"""The board as a picture: a position with its units and centres, and what a phase's orders did.

A map of our own (`outlines`), sized for two columns of a paper. Armies are squares and fleets
triangles with the initial of their power; a province with a centre has the tint of the centre's
owner. The seven colours are steps of lightness, so they stay apart in grey and for colour-blind
readers. How orders look is told in `marks` and in the legend of every picture. Frame and limits are
the same for all positions, and the same input gives the same bytes.
"""

import io
from collections.abc import Iterator, Mapping
from functools import cache

import matplotlib as mpl
import numpy as np
from matplotlib import colors
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.path import Path

from dipllm_lib.dip import atlas, boards, legal, legend, marks, outlines, pen
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.decisions import YES, Decisions
from dipllm_lib.dip.outlines import HEIGHT, WIDTH
from dipllm_lib.dip.pen import COLOURS, INK, WHITE, Pen
from dipllm_lib.run import plotting

SEA, SHALLOWS, LAND, NEUTRAL = "#D9E6EE", ("#CFDFE9", "#C3D7E4", "#B5CDDD"), "#E9DBBB", "#C9C7C2"
TINT = 0.55  # share of the owner's colour in the tint of a province
COAST, BORDER, SEA_BORDER = "#4E5A63", "#A39A86", "#8FB0C6"
SEA_NAME = "#3F6484"
STRIP, BANNER = 118, 40  # heights of the strip below the map and of the banner above it
SIZE = (plotting.WIDTHS[2], plotting.WIDTHS[2] * (HEIGHT + STRIP + BANNER) / WIDTH)  # inches
SOLO = 18
SEASON = {"S": "Spring", "F": "Fall", "W": "Winter"}
KIND = {"M": "movement", "R": "retreats", "A": "adjustments"}
Z_MAP, Z_DOT, Z_NAME, Z_UNIT, Z_BADGE = 1, 3, 6, 7, 9


def draw_board(
    position: Boards,
    i: int = 0,
    orders: Orders | Mapping[str, list[str]] | None = None,
    made: Decisions | None = None,
    ax: Axes | None = None,
    probabilities: Mapping[str, float] | None = None,
    title: str | None = None,
) -> Axes:
    """Draw position i. `orders`: row i of arrays (or the only row), with the `made` that
    `rules.resolve` gave for them, or texts by power name; without `made` they are adjudicated here.
    `probabilities` by order text: without orders one arrow per text, as wide as it is probable;
    with orders the widths of theirs. `title`: in place of the phase's name.

    ValueError in one line for a position that is not there, orders that are not legal on it, or
    texts and numbers that make no sense.
    """
    if not 0 <= i < position.n:
        raise ValueError(f"there is no position {i}: the batch has {position.n}")
    here = position.take([i])
    found, after, dislodged = [], None, np.zeros(atlas.N_PROVINCES, bool)
    if orders is not None:
        row, made, after = marks.given(here, _row(orders, position.n, i), _row(made, position.n, i))
        dislodged = made.dislodged[0] == YES
        if here.phase[0] != boards.ADJUSTMENTS:
            found = marks.marks(here, row, made)
    if probabilities is not None:
        found = marks.with_chances(here, found, probabilities)
    tool = Pen(board_axes() if ax is None else _prepare(ax))
    _land(tool, here)
    _options(tool, here)
    marks.draw(tool, found, here)
    _units(tool, here, dislodged)
    if here.phase[0] == boards.ADJUSTMENTS and after is not None:
        _adjusted(tool, here, after)
    _banner(tool, phase_title(here) if title is None else title, boards.phase_name(here))
    _counts(tool, here)
    legend.draw(tool)
    return tool.ax


def _row(batch, n: int, i: int):
    """Row i of orders or decisions that have one row per position, or their only row."""
    if batch is None or isinstance(batch, Mapping):
        return batch
    rows = len(batch[0])
    if rows not in (1, n):
        raise ValueError(f"{rows} rows of orders for {n} positions: give one, or one each")
    return type(batch)(*(field[[i if rows == n else 0]] for field in batch))


def board_axes() -> Axes:
    """The axes of a new figure that is all board, two columns of a paper wide."""
    figure = plotting.axes(2, height=SIZE[1], layout="none")[0]
    figure.axes[0].set_position((0, 0, 1, 1))
    return _prepare(figure.axes[0])


def _prepare(ax: Axes) -> Axes:
    ax.set_xlim(0, WIDTH)
    ax.set_ylim(-STRIP, HEIGHT + BANNER)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def draw_game(game) -> Iterator[Figure]:
    """One figure for each phase of a `game.Game`, with its orders; the caller closes them."""
    return (draw_phase(game, k) for k in range(game.boards.n))


def draw_phase(game, k: int) -> Figure:
    """The figure of phase k of a `game.Game`, with its orders and what became of them."""
    over = game.boards.phase[k] == boards.OVER
    title = f"After {game.boards.year[k]}: the game is over ({game.end})" if over else None
    return draw_board(game.boards, k, game.orders[k] or None, title=title).figure


def png(figure: Figure, pixels: int = 1400) -> bytes:
    """A figure as PNG, `pixels` wide, without marks of time or program; closes it."""
    out = io.BytesIO()
    with plotting.style():
        dpi = pixels / figure.get_figwidth()
        figure.savefig(out, format="png", dpi=dpi, metadata=plotting.PNG_MARKS)
    plt.close(figure)
    return out.getvalue()


def svg(figure: Figure) -> bytes:
    """A figure as SVG, without marks of time or program; closes it."""
    out = io.BytesIO()
    with plotting.style():
        mpl.rcParams["svg.hashsalt"] = "board"
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return out.getvalue()


def phase_title(position: Boards, i: int = 0) -> str:
    """`Spring 1901, movement`."""
    if position.phase[i] == boards.OVER:
        return f"After {position.year[i]}: the game is over"
    name = boards.phase_name(position, i)
    return f"{SEASON[name[0]]} {name[1:-1]}, {KIND[name[-1]]}"


def blend(colour: str, ground: str, share: float) -> str:
    """`share` of a colour mixed into another one."""
    a, b = (np.array(colors.to_rgb(x)) for x in (colour, ground))
    return colors.to_hex(share * a + (1 - share) * b)


@cache
def _paths() -> dict[str, list[Path]]:
    """What is the same in every picture: cells by kind, coasts, borders, islands, lakes."""
    cells, neutral, borders = outlines.net()
    kinds = np.append(atlas.KIND, [-1, -1])  # neutral land and the outside count as no sea
    groups: dict[str, list[Path]] = {"coast": [], "border": [], "sea border": []}
    for line in borders:
        if outlines.OUTSIDE in (line.left, line.right):
            continue
        seas = int((kinds[[line.left, line.right]] == atlas.SEA).sum())
        groups[("border", "coast", "sea border")[seas]].append(Path(line.points))
    groups["cells"] = [pen.closed(cell) for cell in cells]
    groups["neutral"] = [pen.closed(cell) for cell in neutral]
    groups["islands"] = [pen.closed(shape) for shape in outlines.ISLAND_SHAPES]
    groups["lakes"] = [pen.closed(shape) for shape in outlines.LAKE_SHAPES]
    groups["caspian"] = [pen.closed(shape) for shape in outlines.CASPIAN_SHAPES]
    return groups


@cache
def _joined(group: str) -> Path:
    return Path.make_compound_path(*_paths()[group])


@cache
def _names(seas: bool) -> Path:
    """The three-letter names of all seas, or of all land, as one path."""
    parts = []
    for p in np.flatnonzero((atlas.KIND == atlas.SEA) == seas).tolist():
        path = pen.word(atlas.CODES[p], 10.8, not seas, seas, 0.5)
        parts.append(Path(path.vertices + outlines.NAMES[p], path.codes))
    return Path.make_compound_path(*parts)


def _land(tool: Pen, here: Boards) -> None:
    """The map with tints, contested provinces, centres and names."""
    frame = np.array([[0, 0], [WIDTH, 0], [WIDTH, HEIGHT], [0, HEIGHT]])
    sea = tool.shape(frame, SEA, Z_MAP)
    for width, colour in zip((34, 21, 9), SHALLOWS, strict=True):
        for group in ("coast", "islands"):
            tool.line(_joined(group), colour, width, Z_MAP).set_clip_path(sea)
    tool.line(_joined("sea border"), SEA_BORDER, 1.4, Z_MAP)
    land = np.flatnonzero(atlas.KIND != atlas.SEA).tolist()
    owner = here.owner[0]
    faces = [LAND if owner[p] < 0 else blend(COLOURS[owner[p]], LAND, TINT) for p in land]
    tool.shapes([_paths()["cells"][p] for p in land], faces, Z_MAP, gid="land")
    tool.shapes(_paths()["neutral"] + _paths()["islands"], NEUTRAL, Z_MAP, COAST, 0.8)
    tool.line(_joined("border"), BORDER, 1.3, Z_MAP)
    tool.shapes(_paths()["lakes"], SHALLOWS[2], Z_MAP)
    tool.shapes(_paths()["caspian"], NEUTRAL, Z_MAP, COAST, 0.8)
    _contested(tool, here)
    tool.line(_joined("coast"), COAST, 1.7, Z_MAP)
    tool.shape(frame, "none", Z_BADGE, INK, 1.6)
    _centres(tool, here)
    tool.letters(_names(True), Z_NAME, SEA_NAME, SEA, gid="sea names")
    tool.letters(_names(False), Z_NAME, INK, "#FBF8F0", gid="land names")


def _contested(tool: Pen, here: Boards) -> None:
    """Hatch the empty provinces that a stand-off closes to retreats."""
    for p in np.flatnonzero(here.contested[0] & (here.unit[0] == 0)).tolist():
        pen.hatch(tool, _paths()["cells"][p], Z_MAP, f"contested-{atlas.CODES[p]}")


def _centres(tool: Pen, here: Boards) -> None:
    """A dot per supply centre in the colour of its owner."""
    provinces = np.flatnonzero(atlas.CENTRE).tolist()
    owners = here.owner[0, provinces].tolist()
    faces = [WHITE if owner < 0 else COLOURS[owner] for owner in owners]
    for radius, fill, edge, gid in ((5.8, WHITE, INK, None), (3.9, faces, INK, "centres")):
        paths = [pen.circle(outlines.CENTRES[p], radius) for p in provinces]
        tool.shapes(paths, fill, Z_DOT, edge, 1.0, gid)


def _units(tool: Pen, here: Boards, dislodged: np.ndarray) -> None:
    """All standing units, and the dislodged ones beside their place. `dislodged` bool (75,): units
    that this movement phase dislodges.
    """
    for p in np.flatnonzero(here.d_unit[0]).tolist():
        spot = outlines.UNITS[here.d_loc[0, p]] + marks.ASIDE
        name = f"dislodged-{atlas.CODES[p]}"
        pen.unit(
            tool, spot, int(here.d_unit[0, p]), int(here.d_power[0, p]), Z_UNIT, name, True, 0.9
        )
    for p in np.flatnonzero(here.unit[0]).tolist():
        spot, name = outlines.UNITS[here.loc[0, p]], f"unit-{atlas.CODES[p]}"
        pen.unit(
            tool, spot, int(here.unit[0, p]), int(here.power[0, p]), Z_UNIT, name, rim=dislodged[p]
        )


def _options(tool: Pen, here: Boards) -> None:
    """Thin arrows from dislodged units to the places that are open to them."""
    if here.phase[0] not in boards.RETREATS:
        return
    lists = legal.legal_orders(here)
    for entry, p in enumerate(lists.province.tolist()):
        start = outlines.UNITS[here.d_loc[0, p]] + marks.ASIDE
        for dest in v.VOCABULARY[lists.of(entry), v.DEST].tolist():
            if dest >= 0:
                line = pen.trim(pen.bow(start, outlines.UNITS[dest]), 12, 5)
                name = f"option-{atlas.CODES[p]}-{atlas.CODES[dest]}"
                pen.thin_arrow(tool, line, marks.Z_LINE, name)


def _adjusted(tool: Pen, here: Boards, after: Boards) -> None:
    """Units built and removed between two positions."""
    for p in np.flatnonzero((here.unit[0] > 0) != (after.unit[0] > 0)).tolist():
        code = atlas.CODES[p]
        if here.unit[0, p]:
            pen.strike(tool, outlines.UNITS[here.loc[0, p]], 12.0, Z_BADGE, f"removed-{code}")
            continue
        spot = outlines.UNITS[after.loc[0, p]]
        pen.unit(tool, spot, int(after.unit[0, p]), int(after.power[0, p]), Z_UNIT, f"built-{code}")
        pen.plus(tool, spot + 11, Z_BADGE, f"plus-{code}")


def _banner(tool: Pen, title: str, name: str) -> None:
    middle = HEIGHT + BANNER / 2
    tool.text(title, (4, middle), 19, Z_NAME, align=0.0, gid="title")
    tool.text(name, (WIDTH - 4, middle), 13, Z_NAME, pen.GREY, align=1.0)


def _counts(tool: Pen, here: Boards) -> None:
    """Bars of the seven centre counts, with the line of a solo win."""
    counts = boards.centres(here)[0].tolist()
    left, step, high, pitch = 88.0, 7.8, 10.8, 15.0
    for power, count in enumerate(counts):
        y = -14.0 - pitch * power
        tool.text(atlas.POWERS[power].title(), (left - 6, y), 11.5, Z_NAME, bold=False, align=1.0)
        if count:
            bottom, top, end = y - high / 2, y + high / 2, left + step * count
            bar = np.array([[left, bottom], [end, bottom], [end, top], [left, top]])
            tool.shape(bar, COLOURS[power], Z_DOT, INK, 0.9, gid=f"count-{power}")
        tool.text(str(count), (left + step * count + 5, y), 11, Z_NAME, align=0.0)
    x = left + step * SOLO
    line = np.array([[x, -6.0], [x, -14 - pitch * 6.6]])
    tool.line(line, pen.ALARM, 1.4, Z_DOT, (5, 3), gid="solo line")
    tool.text(str(SOLO), (x + 4, -14 - pitch * 6.4), 10, Z_NAME, pen.ALARM, align=0.0)
