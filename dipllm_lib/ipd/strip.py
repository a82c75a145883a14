"""One game of two agents round by round: what they did, what could be known, what would have paid.

    strip      the moves of both; below, the best response to the true opponent where that is a
               memory-one agent (exact, dynamic programming to the end of the game), and what the
               Bayes player (`certainty`) would have done, both after the same history
    beliefs    the posterior over memory-one agents: five independent Beta laws, one for each
               situation, uniform before the first round; their means
    chance     how often the agent itself plays C after this history: over copies of it that see the
               same rounds and differ in their decision noise

Situations are named in the view of the left agent: after CD it had played C and the other D.
`show` is a viewer for JupyterLab; with DIPLLM_STATIC=1, as where nobody sits before the notebook,
it is the picture of one game.

Shapes: T rounds; codes of rounds are those of `game`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from dipllm_lib.ipd import batch_play, best_response, exact, tabular
from dipllm_lib.ipd.batch_play import Actor, Table
from dipllm_lib.ipd.certainty import CertaintyEquivalent
from dipllm_lib.ipd.game import STATES
from dipllm_lib.ipd.seats import Seated
from dipllm_lib.run import plotting, seeding

COPIES = 200
NAMES = ("TFT", "AllC", "AllD", "GRIM", "WSLS", "GTFT", "ZD3", "random")
BAYES = "Bayes player"
COLOURS = {"C": plotting.BLUE, "D": plotting.ORANGE}


@dataclass(frozen=True)
class Agent:
    """actor: a stack of one agent · vector: (5,) of a memory-one agent, None of any other."""

    name: str
    actor: Actor
    vector: np.ndarray | None = None


def cast(learned: Mapping[str, Actor], rounds: int) -> dict[str, Agent]:
    """Learned agents (stacks of one), then the memory-one agents of NAMES and the Bayes player."""
    found = {name: Agent(name, actor) for name, actor in learned.items()}
    for name in NAMES:
        vector = tabular.named(name)
        found[name] = Agent(name, batch_play.MemoryOne(vector), vector)
    return found | {BAYES: Agent(BAYES, Seated(CertaintyEquivalent(rounds)))}


class Strip(NamedTuple):
    """codes (T,) in the left agent's view · chance (T,) of its C · best (T,) moves of the best
    response, None where the opponent has a longer memory · bayes (T,) moves of the Bayes player ·
    means, spreads (T, 5) of the posterior before each round."""

    left: Agent
    right: Agent
    codes: np.ndarray
    chance: np.ndarray
    best: np.ndarray | None
    bayes: np.ndarray
    means: np.ndarray
    spreads: np.ndarray


def play(left: Agent, right: Agent, rounds: int, seed: int, number: int = 0) -> Strip:
    """Game `number` of two agents with all that is shown of it."""
    names = "ipd", "strip", left.name, right.name, number
    table = Table(1, torch.empty(1, 0, 5))
    own, theirs = (
        batch_play.draws(
            *([seeding.child(seed, *names, side, x)] for x in ("u", "noise", "none")), table, rounds
        )
        for side in ("left", "right")
    )
    codes = batch_play.play(left.actor, table, own, (right.actor, theirs))[0, 0]
    share = chance(left.actor, codes, seeding.child(seed, *names, "copies"))
    return Strip(left, right, codes, share, best(right, codes), bayes(codes), *posterior(codes))


def posterior(codes: np.ndarray, a: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (T, 5) before each round of the opponent's probability of C in
    each situation, prior Beta(a, a), after the answers of the rounds before."""
    seen, answer = batch_play.before(codes), batch_play.other_actions(codes)
    told = np.zeros((len(codes), len(STATES), 2))
    told[np.arange(len(codes)), seen, 1 - answer] = 1.0  # C, then D
    counts = a + np.cumsum(told, axis=0) - told
    total = counts.sum(axis=2)
    mean = counts[..., 0] / total
    return mean, np.sqrt(mean * (1.0 - mean) / (total + 1.0))


def best(right: Agent, codes: np.ndarray) -> np.ndarray | None:
    """uint8 (T,) moves of the best response to a memory-one agent after the history of `codes`."""
    if right.vector is None:
        return None
    policy = best_response.best_response(right.vector, len(codes)).policy[0]
    return policy[np.arange(len(codes)), batch_play.before(codes)]


def bayes(codes: np.ndarray) -> np.ndarray:
    """uint8 (T,) what the Bayes player does after the history of `codes`, whoever made it."""
    player, moves = CertaintyEquivalent(len(codes)), []
    state = player.start(1)
    for seen in batch_play.before(codes):
        move, state = player.act(state, np.array([seen], dtype=np.uint8), np.zeros(1))
        moves.append(move[0])
    return np.array(moves, dtype=np.uint8)


@torch.inference_mode()
def chance(
    actor: Actor, codes: np.ndarray, rng: np.random.Generator, copies: int = COPIES
) -> np.ndarray:
    """(T,) share of C among copies of an agent that all see the history of `codes`."""
    size = 1, copies
    state = actor.start(Table(copies, torch.empty(1, 0, 5)))
    found = []
    for seen in batch_play.before(codes):
        u, noise = rng.random(size, np.float32), rng.standard_normal(size, np.float32)
        obs = torch.full(size, int(seen), dtype=torch.int64)
        moves, state = actor.act(state, obs, torch.from_numpy(u), torch.from_numpy(noise))
        found.append(float(moves.float().mean()))
    return np.array(found)


def told(strip: Strip) -> str:
    """One line: what both earned a round, and the value of the best response."""
    own, other = batch_play.own_actions(strip.codes), batch_play.other_actions(strip.codes)
    pay = exact.STANDARD
    text = f"{strip.left.name} earns {pay.of(own, other).mean():+.2f} a round,"
    text += f" {strip.right.name} {pay.of(other, own).mean():+.2f}"
    if strip.right.vector is not None:
        value = best_response.best_response(strip.right.vector, len(own)).value[0]
        text += f"; the best response to {strip.right.name} earns {value:+.2f}"
    return text.replace("-", "−")


def draw(strip: Strip) -> Figure:
    """Strip, beliefs and chance of C, above each other."""
    sizes = {"height_ratios": [1.3, 1.3, 1.0]}
    figure, (top, middle, low) = plotting.axes(2, 3, height=1.5, sharex=True, gridspec_kw=sizes)
    _moves(top, strip)
    _beliefs(figure, middle, strip)
    rounds = np.arange(1, len(strip.codes) + 1)
    low.bar(rounds, strip.chance, color=plotting.GREY, width=0.8)
    low.set_ylim(0, 1)
    low.xaxis.set_major_locator(MaxNLocator(integer=True))
    low.set_ylabel("chance of C")
    low.set_xlabel(f"round; bars: {strip.left.name} after this history")
    figure.supxlabel(told(strip), fontsize=7, x=0.01, ha="left")
    return figure


def _moves(ax, strip: Strip) -> None:
    """Rows of squares, filled for C and hollow for D."""
    own, other = batch_play.own_actions(strip.codes), batch_play.other_actions(strip.codes)
    rows = {strip.right.name + " ": other, strip.left.name: own}
    if strip.best is not None:
        rows["best response"] = strip.best
    rows |= {"Bayes player's move": strip.bayes}
    rounds = np.arange(1, len(own) + 1)
    for y, moves in enumerate(rows.values()):
        for move, name in ((1, "C"), (0, "D")):
            some, face = rounds[moves == move], COLOURS[name] if move else "none"
            style = {"ls": "none", "marker": "s", "ms": 5, "mfc": face, "mec": COLOURS[name]}
            ax.plot(some, np.full(len(some), y), **style, label=None if y else name)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(False)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)


def _beliefs(figure: Figure, ax, strip: Strip) -> None:
    """Posterior means by situation and round, a dot on the situation of the round."""
    extent = 0.5, len(strip.codes) + 0.5, len(STATES) - 0.5, -0.5
    image = ax.imshow(strip.means.T, vmin=0, vmax=1, cmap="cividis", aspect="auto", extent=extent)
    seen = batch_play.before(strip.codes)
    style = {"ls": "none", "marker": "o", "ms": 2.5, "color": "white", "mec": plotting.BLACK}
    ax.plot(np.arange(1, len(seen) + 1), seen, **style)
    labels = [f"after {name}" if i else "start" for i, name in enumerate(STATES)]
    if strip.right.vector is not None:
        true = exact.as_seen(strip.right.vector)[0]
        labels = [f"{name} ({p:.2f})" for name, p in zip(labels, true, strict=True)]
    ax.set_yticks(range(len(STATES)), labels)
    ax.grid(False)
    figure.colorbar(image, ax=ax, label="believed P(C)", pad=0.01)


def show(
    agents: Mapping[str, Agent], left: str, right: str, rounds: int, seed: int, number: int = 0
) -> object:
    """Choose two agents and the number of their game; with DIPLLM_STATIC=1 the picture of one.

    ValueError for a name that is not among the agents.
    """
    for name in (left, right):
        if name not in agents:
            raise ValueError(f"there is no agent {name!r}: {', '.join(agents)}")

    def picture(*chosen) -> bytes:
        a, b, k = chosen
        return plotting.render(draw(play(agents[a], agents[b], rounds, seed, k)))[0]

    if os.environ.get("DIPLLM_STATIC") == "1":
        return plotting.show(picture(left, right, number))
    return _viewer(list(agents), picture, (left, right, number))


def _viewer(names: list[str], picture, chosen: tuple[str, str, int]) -> object:
    """The widget: picture above, the choices below."""
    import ipywidgets as widgets

    shown = widgets.Image(value=picture(*chosen), format="png", layout={"width": "100%"})
    left, right = (
        widgets.Dropdown(options=names, value=name, description=text)
        for name, text in zip(chosen[:2], ("agent", "against"), strict=True)
    )
    number = widgets.BoundedIntText(value=chosen[2], min=0, max=999, description="game")

    def turn(change) -> None:
        shown.value = picture(left.value, right.value, number.value)

    for one in (left, right, number):
        one.observe(turn, "value")
    box = plotting.with_fallback(widgets.VBox)
    return box([shown, widgets.HBox([left, right, number])], layout={"max_width": "1000px"})
