"""A game to leaf through: in JupyterLab with a slider, or as one HTML file without a network.

Frames are the pictures of `draw`, one a phase, drawn when they are first looked at and kept. Where
the environment variable DIPLLM_STATIC is 1, as in notebooks that run without a reader, `show` gives
the picture of the chosen phase; and a slider that cannot be shown has the picture as its fallback.
"""

import base64
import html
import json
import os
from pathlib import Path

from dipllm_lib.dip import atlas, boards, draw
from dipllm_lib.dip.game import Game
from dipllm_lib.run import files, plotting

PIXELS = 1400  # width of a frame
PAUSE = 900  # milliseconds between frames that play

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>@TITLE@</title><style>
body { font-family: system-ui, sans-serif; margin: 0 auto; padding: 12px; max-width: 1100px;
  color: #22262b; background: #fff; }
img { width: 100%; max-height: 84vh; object-fit: contain; display: block; }
.bar { display: flex; gap: 10px; align-items: center; margin: 10px 0 6px; }
input { flex: 1; } button { min-width: 4.5em; padding: 4px 8px; font: inherit; }
output { min-width: 5.5em; font-weight: 600; } p { margin: 0; font-size: 13px; color: #5e6267; }
</style></head><body>
<img id="board" alt="">
<div class="bar"><button id="play">Play</button><button id="back" aria-label="back">&#8249;</button>
<input id="slider" type="range" min="0" max="@LAST@" value="@PHASE@" aria-label="phase">
<button id="next" aria-label="next">&#8250;</button><output id="phase"></output></div>
<p>@PLAYERS@</p>
<script>
const frames = @FRAMES@, names = @NAMES@;
const at = id => document.getElementById(id), slider = at("slider");
let timer = null;
function go(k) {
  slider.value = Math.max(0, Math.min(frames.length - 1, k));
  at("board").src = "data:image/png;base64," + frames[slider.value];
  at("board").alt = "board in " + names[slider.value];
  at("phase").textContent = names[slider.value];
}
const step = by => go(Number(slider.value) + by);
function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => {
    if (Number(slider.value) === frames.length - 1) play(false); else step(1);
  }, @PAUSE@) : null;
  at("play").textContent = on ? "Pause" : "Play";
}
slider.oninput = () => go(Number(slider.value));
at("back").onclick = () => step(-1);
at("next").onclick = () => step(1);
at("play").onclick = () => {
  if (timer === null && Number(slider.value) === frames.length - 1) go(0);
  play(timer === null);
};
document.onkeydown = event => {
  if (event.target === slider) return;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by) step(by);
  else if (event.key === "Home") go(0);
  else if (event.key === "End") go(frames.length - 1);
};
go(Number(slider.value));
</script></body></html>
"""


class Frames:
    """The pictures of a game, PNG bytes, drawn when asked for and kept."""

    def __init__(self, game: Game):
        self.game = game
        self.drawn: dict[int, bytes] = {}

    @property
    def names(self) -> list[str]:
        """The name of each phase."""
        return [boards.phase_name(self.game.boards, k) for k in range(self.game.boards.n)]

    def drawing(self, k: int) -> bytes:
        """Phase k, drawn now. ValueError if there is none."""
        if not 0 <= k < self.game.boards.n:
            raise ValueError(f"there is no phase {k}: the game has {self.game.boards.n}")
        return draw.png(draw.draw_phase(self.game, k), PIXELS)

    def png(self, k: int) -> bytes:
        """The picture of phase k, small. ValueError if there is none."""
        if k not in self.drawn:
            self.drawn[k] = plotting.smaller(self.drawing(k))
        return self.drawn[k]


def players(game: Game) -> str:
    """Who plays what: `France: DumbBot`, or the game's name where the players are unknown."""
    seats = [
        f"{power.title()}: {name}"
        for power, name in zip(atlas.POWERS, game.agents, strict=bool(game.agents))
    ]
    return ", ".join(seats) if seats else f"game {game.id}"


def show(game: Game, phase: int = 0) -> object:
    """A slider over the phases with a play button, for JupyterLab; with DIPLLM_STATIC=1 the picture
    of one phase. ValueError if there is no such phase.
    """
    frames = Frames(game)
    if os.environ.get("DIPLLM_STATIC") == "1":
        return plotting.show(frames.drawing(phase))
    return _slider(frames, phase)


def _slider(frames: Frames, phase: int) -> object:
    """The widget: picture above, play button and slider below, then who plays."""
    import ipywidgets as widgets

    last = frames.game.boards.n - 1
    picture = widgets.Image(value=frames.png(phase), format="png", layout={"width": "100%"})
    slider = widgets.SelectionSlider(
        options=[(name, k) for k, name in enumerate(frames.names)],
        value=phase,
        layout={"width": "70%"},
    )
    counter = widgets.Play(min=0, max=last, value=phase, interval=PAUSE)

    def turn(change) -> None:
        slider.value = counter.value = change["new"]
        picture.value = frames.png(change["new"])

    slider.observe(turn, "value")
    counter.observe(turn, "value")
    line = widgets.Label(players(frames.game))
    box = plotting.with_fallback(widgets.VBox)
    return box([picture, widgets.HBox([counter, slider]), line], layout={"max_width": "1000px"})


def save_html(game: Game, path: str | Path, phase: int = 0) -> Path:
    """One HTML file with all frames inside: slider, play button, arrow keys; it needs no network.
    Equal games give equal bytes. ValueError if there is no such phase.
    """
    frames = Frames(game)
    frames.png(phase)
    pictures = [base64.b64encode(frames.png(k)).decode("ascii") for k in range(game.boards.n)]
    fields = {
        "@TITLE@": html.escape(f"Game {game.id}"),
        "@PLAYERS@": html.escape(players(game)),
        "@LAST@": str(game.boards.n - 1),
        "@PHASE@": str(phase),
        "@PAUSE@": str(PAUSE),
        "@NAMES@": json.dumps(frames.names),
        "@FRAMES@": json.dumps(pictures),
    }
    text = PAGE
    for mark, value in fields.items():
        text = text.replace(mark, value)
    files.write_text(Path(path), text)
    return Path(path)
