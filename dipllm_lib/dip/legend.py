"""The legend of a board picture: every mark once, drawn by the strokes that draw it on the map."""

import numpy as np

from dipllm_lib.dip import atlas, pen
from dipllm_lib.dip.marks import CUT, DULL, PALE
from dipllm_lib.dip.pen import Pen

LEFT, TOP, PITCH, COLUMN, ROWS = 395.0, -18.0, 27.0, 152.0, 4
LENGTH = 40.0  # of a sample line
Z = 6
POWER = atlas.power("FRANCE")
COLOUR = pen.COLOURS[POWER]
ENTRIES = (
    "army", "fleet", "supply centre", "dislodged", "move", "move failed", "support",
    "support cut", "hold", "convoys", "void order", "retreat open", "no retreat", "disbanded",
    "built",
)  # fmt: skip


def draw(tool: Pen) -> None:
    """All entries in columns of four."""
    for number, text in enumerate(ENTRIES):
        column, row = divmod(number, ROWS)
        spot = np.array([LEFT + COLUMN * column, TOP - PITCH * row])
        _sample(tool, text, spot + (LENGTH / 2, 0))
        tool.text(text, spot + (LENGTH + 6, 0), 11.5, Z, bold=False, align=0.0)


def _sample(tool: Pen, text: str, at: np.ndarray) -> None:
    line = at + np.linspace([-LENGTH / 2, 0], [LENGTH / 2, 0], 9)
    short, colour = line[:-1] if text == "move failed" else line, COLOUR
    if text in ("move", "move failed"):
        pen.arrow(tool, short, colour, 2.8, text == "move failed", Z)
    elif text in ("support", "support cut", "void order"):
        fill, rim = {"support cut": DULL[CUT], "void order": DULL[PALE]}.get(
            text, (colour, pen.INK)
        )
        pen.dotted(tool, line, fill, rim, 2.9, Z)
    elif text == "retreat open":
        pen.thin_arrow(tool, line, Z)
    elif text == "supply centre":
        pen.centre(tool, at, colour, Z)
    elif text == "no retreat":
        box = at + np.array([[-14, -8], [14, -8], [14, 8], [-14, 8]])
        pen.hatch(tool, pen.closed(box), Z)
    else:
        _unit_sample(tool, text, at)


def _unit_sample(tool: Pen, text: str, at: np.ndarray) -> None:
    kind = atlas.FLEET_UNIT if text in ("fleet", "convoys") else atlas.ARMY_UNIT
    if text == "convoys":
        pen.ring(tool, at, pen.WAVE, 1.8, Z, radius=12.0)
    if text == "hold":
        at = at + (0, 4)
        pen.bar(tool, at, 2.4, Z)
    size = 0.6 if text == "convoys" else 0.8
    pen.unit(tool, at, kind, POWER, Z, rim=text == "dislodged", size=size)
    if text == "disbanded":
        pen.strike(tool, at, 9.0, Z)
    if text == "built":
        pen.plus(tool, at + 9, Z)
