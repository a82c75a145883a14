"""Strokes, curves, letters and unit symbols in the frame of the map, whatever the size of the axes.

Lengths, line widths and letters are all in map units (the map is 1000 wide), so a picture keeps
its proportions at any size. Letters are drawn as outlines: no font is needed to show a picture.
"""

from functools import cache

import numpy as np
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.textpath import TextPath

from dipllm_lib.dip import atlas, outlines

# powers in order; from dark to light: Germany, England, Austria, Italy, France, Turkey, Russia
COLOURS = ("#BF3329", "#2F3E96", "#6AB5EA", "#26282C", "#34A263", "#FAFAFA", "#F0D43A")
INK, WHITE, GREY = "#22262B", "#FFFFFF", "#85898E"
ALARM, GOOD, WAVE = "#C4161C", "#1E7B34", "#1F6FA8"
CAP_HEIGHT = 0.729  # of DejaVu Sans, as a share of its size
STEPS = np.linspace(0, 1, 25)[:, None]
HALF = 10.0  # half the side of an army's square


class Pen:
    """Draws on axes whose data coordinates are map units."""

    def __init__(self, ax: Axes):
        box = ax.get_window_extent()
        self.ax = ax
        self.points = box.width / ax.figure.dpi * 72 / outlines.WIDTH  # of a map unit

    def line(self, path, colour, width, z, dash=None, gid=None, alpha=None) -> PathPatch:
        """A stroke along a Path or along points (K, 2). `dash`: lengths on and off, map units."""
        path = path if isinstance(path, Path) else Path(path)
        lw = width * self.points
        style = "-" if dash is None else (0, [max(x, 0.01) * self.points / lw for x in dash])
        patch = PathPatch(
            path, fc="none", ec=colour, lw=lw, ls=style, zorder=z, alpha=alpha, joinstyle="round"
        )
        # a round cap would close the gaps of dashes, and makes dots of dashes without length
        patch.set_capstyle("butt" if dash and dash[0] > 0 else "round")
        patch.set_gid(gid)
        return self.ax.add_artist(patch)  # unlike add_patch without measuring it

    def shape(self, path, face, z, edge="none", width=0.0, gid=None, alpha=None) -> PathPatch:
        """A filled Path, or polygon (K, 2), with an edge."""
        path = path if isinstance(path, Path) else closed(path)
        lw = width * self.points
        patch = PathPatch(
            path, fc=face, ec=edge, lw=lw, zorder=z, alpha=alpha, joinstyle="round", gid=gid
        )
        return self.ax.add_artist(patch)

    def shapes(self, paths, faces, z, edge="none", width=0.0, gid=None) -> PathCollection:
        """Many filled paths with a colour each, in one artist."""
        lw = width * self.points
        made = PathCollection(paths, facecolors=faces, edgecolors=edge, linewidths=lw, zorder=z)
        made.set_gid(gid)
        return self.ax.add_artist(made)

    def text(
        self, text, xy, size, z, colour=INK, halo=None, bold=True, italic=False, align=0.5, gid=None
    ) -> None:
        """Letters at xy: their middle if align is 0.5, their left end if 0, the right one if 1."""
        path = word(text, size, bold, italic, align).deepcopy()
        path.vertices = path.vertices + np.asarray(xy, float)
        self.letters(path, z, colour, halo, 2.6, gid)

    def letters(self, path: Path, z, colour, halo=None, width=2.6, gid=None) -> None:
        """Outlines of letters with a rim in the colour `halo`."""
        if halo is not None:
            self.line(path, halo, width, z, alpha=0.8)
        self.shape(path, colour, z, gid=gid)


def closed(points: np.ndarray) -> Path:
    """The polygon (K, 2) as a closed path."""
    return Path(np.concatenate([points, points[:1]]), closed=True)


@cache
def word(text: str, size: float, bold: bool, italic: bool, align: float) -> Path:
    """Outlines of a text, `align` of its width and half the height of a capital at the origin."""
    font = FontProperties(
        family="DejaVu Sans",
        weight="bold" if bold else "normal",
        style="italic" if italic else "normal",
    )
    path = TextPath((0, 0), text, size=size, prop=font)
    box = path.get_extents()
    shift = np.array([box.x0 + align * box.width, CAP_HEIGHT * size / 2])
    return Path(path.vertices - shift, path.codes)


def circle(xy, radius: float) -> Path:
    """A circle as a path."""
    unit = Path.unit_circle()
    return Path(unit.vertices * radius + np.asarray(xy, float), unit.codes)


def bow(start, end, bend: float = 0.1) -> np.ndarray:
    """A slightly bent curve between two points, (25, 2): bent to the left as seen from the start,
    so that the way back does not cover it.
    """
    a, b = np.asarray(start, float), np.asarray(end, float)
    middle = (a + b) / 2 + bend * np.array([a[1] - b[1], b[0] - a[0]])
    return (1 - STEPS) ** 2 * a + 2 * STEPS * (1 - STEPS) * middle + STEPS**2 * b


def through(stops: list) -> np.ndarray:
    """A smooth curve through two or more points (Catmull-Rom), (K, 2)."""
    p = np.asarray(stops, float)
    p = np.concatenate([[2 * p[0] - p[1]], p, [2 * p[-1] - p[-2]]])
    parts = []
    for a, b, c, d in zip(p, p[1:], p[2:], p[3:]):
        linear, square, cubic = c - a, 2 * a - 5 * b + 4 * c - d, 3 * b - a - 3 * c + d
        parts.append(b + (linear * STEPS + square * STEPS**2 + cubic * STEPS**3) / 2)
    return np.concatenate([part[:-1] for part in parts] + [parts[-1][-1:]])


def trim(curve: np.ndarray, start: float, end: float) -> np.ndarray:
    """A curve (K, 2) without its first `start` and last `end` of length; a fifth of it stays at
    least.
    """
    steps = np.hypot(*np.diff(curve, axis=0).T)
    at = np.concatenate([[0], np.cumsum(steps)])
    cut = min(1.0, 0.8 * at[-1] / (start + end)) if start + end else 1.0
    low, high = start * cut, at[-1] - end * cut
    inner = at[(at > low) & (at < high)]
    return _along(curve, at, np.concatenate([[low], inner, [high]]))


def _along(curve: np.ndarray, at: np.ndarray, where) -> np.ndarray:
    return np.column_stack([np.interp(where, at, curve[:, k]) for k in range(2)])


def part_way(curve: np.ndarray, share: float) -> np.ndarray:
    """The point (2,) at a share of a curve's length."""
    at = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(curve, axis=0).T))])
    return _along(curve, at, [share * at[-1]])[0]


def head(curve: np.ndarray, length: float, width: float) -> np.ndarray:
    """Triangle (3, 2) of an arrow that ends where the curve ends."""
    tip = curve[-1]
    back = trim(curve, 0, length)[-1]
    along = (tip - back) / max(float(np.hypot(*(tip - back))), 1e-9)
    base = tip - length * along
    side = np.array([-along[1], along[0]]) * width / 2
    return np.array([tip, base + side, base - side])


def cross(xy, size: float) -> Path:
    """Two strokes that cross at xy."""
    ends = np.array([[-1, -1], [1, 1], [-1, 1], [1, -1]]) * size + np.asarray(xy, float)
    return Path(ends, [Path.MOVETO, Path.LINETO] * 2)


def waves(xy, radius: float) -> Path:
    """A ring of twelve waves round xy."""
    turn = np.linspace(0, 2 * np.pi, 145)
    reach = radius + 2.0 * np.sin(12 * turn)
    return Path(np.column_stack([np.cos(turn), np.sin(turn)]) * reach[:, None] + np.asarray(xy))


@cache
def symbol(unit: int) -> Path:
    """The square of an army, the triangle of a fleet, round the origin."""
    if unit == atlas.ARMY_UNIT:
        return closed(np.array([[-HALF, -HALF], [HALF, -HALF], [HALF, HALF], [-HALF, HALF]]))
    return closed(np.array([[-14.0, -9.5], [14.0, -9.5], [0.0, 14.0]]))


def ink(face: str) -> str:
    """Black or white, whichever reads better on a colour."""
    red, green, blue = colors.to_rgb(face)
    return INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else WHITE


def unit(tool: Pen, xy, kind: int, power: int, z, name=None, rim=False, size=1.0) -> None:
    """Symbol of a unit with the initial of its power; `rim`: red, for a dislodged one."""
    shape = symbol(kind)
    path = Path(shape.vertices * size + np.asarray(xy, float), shape.codes)
    tool.line(path, ALARM if rim else WHITE, 7.0 if rim else 4.6, z)
    tool.shape(path, COLOURS[power], z, INK, 1.5, gid=name)
    low = 3.4 if kind == atlas.FLEET_UNIT else 0.0
    letter = 12.5 if kind == atlas.ARMY_UNIT else 10.5
    spot = np.asarray(xy, float) - (0, low * size)
    tool.text(atlas.POWERS[power][0], spot, letter * size, z, ink(COLOURS[power]))


def arrow(tool: Pen, line: np.ndarray, colour, width: float, failed: bool, z, name=None) -> None:
    """A move along a line: solid with a head, or dashed with a cross at its end."""
    dash, size = ((7.0, 4.0) if failed else None), 9.0 + width
    body = line if failed else trim(line, 0, size - 2)
    tool.line(body, INK, width + 1.8, z, dash)
    tool.line(body, colour, width, z, dash, gid=name)
    if failed:
        strike(tool, line[-1], 4.4, z + 3, _end(name))  # above units and names
    else:
        tool.shape(head(line, size, size), colour, z, INK, 0.9, gid=_end(name))


def _end(name: str | None) -> str | None:
    """Name of the stroke at the end of a line."""
    return None if name is None else f"{name}-end"


def dotted(tool: Pen, line: np.ndarray, colour, rim, width: float, z, name=None) -> None:
    """A support along a line: dots, and a knob at its end."""
    gap = (0, width + 3.4)
    tool.line(line, rim, width + 1.6, z, gap)
    tool.line(line, colour, width, z, gap, gid=name)
    tool.shape(circle(line[-1], 3.4), colour, z, rim, 1.0, gid=_end(name))


def ring(tool: Pen, xy, colour, width: float, z, name=None, radius: float = 17.0) -> None:
    """The waves of a convoying fleet."""
    tool.line(waves(xy, radius), WHITE, width + 2.2, z)
    tool.line(waves(xy, radius), colour, width, z, gid=name)


def bar(tool: Pen, xy, width: float, z, name=None) -> None:
    """The bar of a holding unit, below it."""
    line = np.asarray(xy, float) + np.array([[-9.0, -14.5], [9.0, -14.5]])
    tool.line(line, WHITE, width + 2.4, z)
    tool.line(line, INK, width, z, gid=name)


def strike(tool: Pen, xy, size: float, z, name=None) -> None:
    """A red cross: failed, disbanded or removed."""
    tool.line(cross(xy, size), WHITE, 5.0, z)
    tool.line(cross(xy, size), ALARM, 2.6, z, gid=name)


def plus(tool: Pen, xy, z, name=None) -> None:
    """A green plus at xy, for a unit that was built."""
    middle = np.asarray(xy, float)
    tool.shape(circle(middle, 6.4), GOOD, z, WHITE, 1.6, gid=name)
    ends = np.array([[-3.6, 0], [3.6, 0], [0, -3.6], [0, 3.6]]) + middle
    tool.line(Path(ends, [Path.MOVETO, Path.LINETO] * 2), WHITE, 2.0, z)


def thin_arrow(tool: Pen, line: np.ndarray, z, name=None) -> None:
    """A retreat that is open to a dislodged unit."""
    tool.line(line, ALARM, 1.1, z, (4.0, 2.5), gid=name)
    tool.shape(head(line, 7, 6), ALARM, z)


def centre(tool: Pen, xy, face, z) -> None:
    """The dot of a supply centre in its owner's colour."""
    tool.shape(circle(xy, 5.8), WHITE, z, INK, 1.0)
    tool.shape(circle(xy, 3.9), face, z, INK, 1.0)


def hatch(tool: Pen, path: Path, z, name=None) -> None:
    """Thin red stripes across a place that is closed to retreats."""
    (x0, y0), (x1, y1) = path.get_extents().get_points()
    starts = np.arange(x0 - (y1 - y0), x1, 7.0)
    ends = np.column_stack([starts, np.full_like(starts, y0), starts + y1 - y0,
                            np.full_like(starts, y1)]).reshape(-1, 2)  # fmt: skip
    stripes = Path(ends, [Path.MOVETO, Path.LINETO] * len(starts))
    tool.line(stripes, ALARM, 1.2, z, gid=name, alpha=0.6).set_clip_path(path, tool.ax.transData)
