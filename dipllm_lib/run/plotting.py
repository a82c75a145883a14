"""One style, one colour and marker per agent, and figures that are the same bytes when drawn twice.

The style starts from matplotlib's own defaults, never from the user's matplotlibrc. Colours are
those of Okabe and Ito (2008), distinct for colour-blind readers; a marker always goes with a
colour. Functions take `ax=None`, draw from a tidy table and return the axes.
"""

import base64
import contextlib
import io
from collections.abc import Iterator

import matplotlib as mpl
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from PIL import Image as Bitmap

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PINK, GREY = "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#7F7F7F"

AGENTS = {
    "Hold": (GREY, "x"),
    "RandomLegal": (YELLOW, "v"),
    "RandBot": (SKY, "^"),
    "DumbBot": (PINK, "s"),
    "anchor": (BLUE, "o"),
    "search": (RED, "D"),
    "lm": (GREEN, "P"),
    "lm+search": (ORANGE, "*"),
    "lm untrained": (GREY, "P"),
    "lm, all legal": (SKY, "+"),
    "lm, T = 1": (ORANGE, "3"),
    "random candidates": (YELLOW, ">"),
    "value-greedy": (PINK, "p"),
    "value-greedy, T = 1": (PINK, "1"),
    "one-shot": (SKY, "<"),
    "independent units": (GREEN, "8"),
    "anchor tuned": (BLUE, "H"),
    "scratch lm": (GREEN, "$s$"),
    "target": (BLACK, "X"),
    "heuristic": (SKY, "h"),
    "value net": (RED, "d"),
}

WIDTHS = {1: 3.4, 2: 7.0}  # inches: one and two columns of a paper
HEIGHT = 2.5  # inches, per row of axes
DPI = 200
COLOURS = 128  # of a picture in a notebook
SHOWN = 0.7  # width of the display in a notebook as a share of the pixels
PNG_MARKS = {"Software": None}
PDF_MARKS = {"CreationDate": None, "Creator": None, "Producer": None}
STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "figure.constrained_layout.use": True,
    "figure.max_open_warning": 0,
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Inside the block matplotlib has the style of all figures."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def axes(
    columns: int = 1, rows: int = 1, across: int = 1, height: float = HEIGHT, **options
) -> tuple:
    """(figure, axes): `columns` of a paper wide, `rows` x `across` axes, `height` inches a row.

    From here on the style holds in the whole process, since labels and lines are made after this
    call.
    """
    if columns not in WIDTHS:
        raise ValueError(f"a figure is 1 or 2 columns wide, got {columns}")
    mpl.rcdefaults()
    mpl.rcParams.update(STYLE)
    size = (WIDTHS[columns], height * rows)
    return plt.subplots(rows, across, figsize=size, **options)


def render(figure) -> tuple[bytes, bytes]:
    """(png, pdf) of a figure without marks of time or program; closes it."""
    png, pdf = io.BytesIO(), io.BytesIO()
    with style():
        figure.savefig(png, format="png", dpi=DPI, metadata=PNG_MARKS)
        figure.savefig(pdf, format="pdf", metadata=PDF_MARKS)
    plt.close(figure)
    return png.getvalue(), pdf.getvalue()


def smaller(png: bytes) -> bytes:
    """The same picture with a palette of COLOURS: a third of the bytes, the same to the eye."""
    bitmap = Bitmap.open(io.BytesIO(png)).convert("RGB")
    out = io.BytesIO()
    palette = bitmap.quantize(COLOURS, Bitmap.Quantize.FASTOCTREE, dither=Bitmap.Dither.NONE)
    palette.save(out, format="png", optimize=True)
    return out.getvalue()


def show(png: bytes) -> object:
    """A display of a rendered figure, small enough to read beside text and to keep in a file."""
    from IPython.display import Image

    width = int.from_bytes(png[16:20], "big")  # of the header, in pixels
    return Image(data=smaller(png), format="png", width=round(width * SHOWN))


def with_fallback(kind: type) -> type:
    """A kind of ipywidgets box whose first child, a picture, is shown where no widget can be."""

    class Viewer(kind):
        def _repr_mimebundle_(self, **kwargs) -> dict:
            bundle = super()._repr_mimebundle_(**kwargs)
            picture = base64.b64encode(self.children[0].value).decode("ascii")
            return bundle | {"image/png": picture}

    return Viewer


def curve(
    table: pd.DataFrame,
    x: str,
    y: str,
    by: str | None = None,
    band: tuple[str, str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Lines of `y` over `x`, one per value of `by` (an agent), with a band between two columns."""
    ax = axes()[1] if ax is None else ax
    groups = [(None, table)] if by is None else list(table.groupby(by, sort=False))
    for name, part in groups:
        colour, marker = (BLUE, "o") if name is None else AGENTS[name]
        ax.plot(part[x], part[y], color=colour, marker=marker, label=name)
        if band is not None:
            ax.fill_between(part[x], part[band[0]], part[band[1]], color=colour, alpha=0.2, lw=0)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if by is not None:
        ax.legend()
    return ax


def intervals(
    table: pd.DataFrame, agent: str, mean: str, low: str, high: str, ax: Axes | None = None
) -> Axes:
    """One row per agent: its mean with its interval, the first row on top."""
    ax = axes()[1] if ax is None else ax
    for row, line in enumerate(table.to_dict("records")):
        colour, marker = AGENTS[line[agent]]
        ax.plot([line[low], line[high]], [row, row], color=colour)
        ax.plot([line[mean]], [row], color=colour, marker=marker, ls="none")
    ax.set_yticks(range(len(table)), list(table[agent]))
    ax.invert_yaxis()
    ax.set_xlabel(mean)
    return ax


def chance(ax: Axes, value: float, text: str, vertical: bool = False) -> Axes:
    """A dashed line of what no skill gives."""
    draw = ax.axvline if vertical else ax.axhline
    draw(value, color=GREY, ls="--", lw=1, label=text)
    return ax


def published(ax: Axes, x, y, citation: str) -> Axes:
    """Numbers of a paper: hollow and named so, never in the look of a measurement."""
    ax.plot(x, y, ls="none", marker="o", mfc="none", color=BLACK, label=f"paper, {citation}")
    return ax
