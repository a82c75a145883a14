"""The evaluation's figures draw what their tables say, in the colour of the agent."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors
from matplotlib import pyplot as plt

from dipllm_lib.dip import beside, published
from dipllm_lib.dip import evaluation_figures as drawn
from dipllm_lib.run.plotting import AGENTS


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def line(agent, opponents="anchor", sos=10.0, **more):
    row = {"agent": agent, "opponents": opponents, "games": 70}
    for measure in published.FIVE:
        row |= {measure: sos, f"{measure}_low": sos - 2, f"{measure}_high": sos + 2}
    return row | more


def labelled(figure):
    """Every axis says what it is, or shares the label of the figure."""
    shared = figure.get_supxlabel()
    return all(ax.get_xlabel() or shared for ax in figure.axes)


def hollow(ax):
    """(x, y) of the paper's points that are not missing."""
    (points,) = [own for own in ax.lines if str(own.get_label()).startswith("paper")]
    assert points.get_markerfacecolor() == "none"
    found = np.array(points.get_xydata(), float)
    return [tuple(pair) for pair in found[np.isfinite(found).all(axis=1)]]


def test_population_bars_have_the_length_and_colour_of_their_agent():
    table = pd.DataFrame([line("lm", sos=15.0), line("Hold", sos=1.0)])
    figure = drawn.population(beside.scores("Table 1", table, {"lm": "DipLLM", "Hold": None}))
    assert len(figure.axes) == 5 and labelled(figure)
    bars = figure.axes[0].containers[0]
    assert [bar.get_width() for bar in bars] == [15.0, 1.0]
    assert [colors.to_hex(bar.get_facecolor()).upper() for bar in bars] == [
        AGENTS[name][0] for name in ("lm", "Hold")
    ]
    assert hollow(figure.axes[0]) == [(23.0, 0)] and hollow(figure.axes[1]) == [(22.3, 0)]
    ticks = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert ticks == ["lm\n(paper: DipLLM)", "Hold"]
    with pytest.raises(KeyError, match="nobody"):
        table = pd.DataFrame([line("nobody")])
        drawn.population(beside.scores("Table 1", table, {"nobody": None}))


def test_matrix_cells_say_number_interval_verdict_and_paper_and_can_be_read():
    pairs = {("lm", "anchor"): 40.0, ("anchor", "lm"): 3.0, ("lm", "Hold"): 15.0}
    table = pd.DataFrame([line(*pair, sos=value) for pair, value in pairs.items()])
    names = {"lm": "DipLLM", "anchor": "DipNet", "Hold": None}
    figure = drawn.matrix(beside.matrix(table, names))
    (ax,) = figure.axes
    texts = {text.get_text(): text.get_position() for text in ax.texts}
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "anchor\n(paper: DipNet)", "lm\n(paper: DipLLM)",
    ]  # fmt: skip
    assert texts["3.0 ▼"][0] == 1 and texts["40.0 ▲"][0] == 0 and texts["15.0 ·"][0] == 2
    assert "[38.0, 42.0]  (29.4)" in texts and "[13.0, 17.0]" in texts
    grey = np.array((0.299, 0.587, 0.114))
    shades = [area.get_facecolor()[0, :3] @ grey for area in ax.collections]
    for k, shade in enumerate(shades):
        for text in ax.texts[2 * k : 2 * k + 2]:
            assert abs(colors.to_rgb(text.get_color()) @ grey - shade) > 0.4
    assert len(shades) == 3 and shades[1] < shades[2] < shades[0]  # 40, 15 and 3 %


def test_steps_stand_at_equal_distances_with_both_sources():
    names = {f"search {n}": n for n in (0, 1, 4)}
    table = pd.DataFrame([line("lm", name, sos=20.0 - n) for name, n in names.items()])
    figure = drawn.steps(beside.scores("Fig. 5", table, names, "opponents"), "lm", "iterations")
    (ax,) = figure.axes
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "1", "2", "4", "8", "16"]
    assert hollow(ax) == [(1, 16.7), (2, 16.6), (3, 16.4), (4, 15.7), (5, 15.3)]
    (ours,) = ax.containers
    assert ours[0].get_xydata().tolist() == [[0, 20], [1, 19], [3, 16]]
    assert labelled(figure) and ours[0].get_color() == AGENTS["lm"][0]
    table = pd.DataFrame([line("lm+search", sos=16.0)])
    figure = drawn.steps(beside.scores("Table 6", table, {"lm+search": 5}), "lm+search", "n")
    assert [ax.get_ylabel() for ax in figure.axes] == [drawn.LABELS[m] for m in published.FIVE]


def test_amounts_have_a_line_and_a_marker_per_agent():
    table = pd.DataFrame([
        line(agent, sos=10.0 + n, data_games=n) for agent in ("lm", "anchor") for n in (0, 2, 24)
    ])
    names = {"lm": "DipLLM", "anchor": "DipNet fine-tuned"}
    figure = drawn.amounts(beside.amounts(table, names, 24))
    (ax,) = figure.axes
    found = [container[0] for container in ax.containers]
    assert found[0].get_xydata().tolist() == [[0, 10], [2 / 24, 12], [1, 34]]
    assert (
        len({own.get_linestyle() for own in found}) == len({own.get_marker() for own in found}) == 2
    )
    paper = [own for own in ax.lines if str(own.get_label()).startswith("paper")]
    assert [own.get_marker() for own in paper] == ["o", "s"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "2", "24"] and labelled(figure)


def test_forest_fills_what_is_resolved():
    table = pd.DataFrame({
        "contrast": ["a − b", "c − b", "d − b"],
        "mean": [2.0, 1.0, -3.0],
        "low": [1.0, -1.0, -4.0],
        "high": [3.0, 3.0, -2.0],
        "games": 70,
        "part": ["first", "first", "second"],
        "paper": [np.nan, 5.0, np.nan],
    })
    figure = drawn.forest(table, group="part")
    (ax,) = figure.axes
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels == ["first", "a − b", "c − b", "second", "d − b"]
    points = [own for own in ax.lines if own.get_marker() == "s"]
    assert [tuple(own.get_xydata()[0]) for own in points] == [(2, 1), (1, 2), (-3, 4)]
    assert [own.get_markerfacecolor() == "white" for own in points] == [False, True, False]
    assert "−3.0 [−4.0, −2.0], 70" in [text.get_text() for text in ax.texts]
    assert hollow(ax) == [(5, 2)] and labelled(figure)
    assert drawn.forest(table[list(table.columns[:5])]).axes[0].get_legend() is None


def test_cost_shows_the_share_that_the_paper_names():
    table = pd.DataFrame({"agent": ["search", "lm"], "base": "search", "seconds": [2.0, 0.5]})
    for name, values in (("seconds", table["seconds"]), ("ratio", table["seconds"] / 2)):
        table = table.assign(**{
            name: values,
            f"{name}_low": values / 2,
            f"{name}_high": values * 2,
        })
    (ax,) = drawn.cost(table).axes
    (band,) = ax.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((0.2, 0.4))
    assert [text.get_text() for text in ax.texts] == ["base of the ratios", "× 0.25 [0.12, 0.5]"]
    assert ax.get_xscale() == "log" and ax.get_xlabel() == "CPU seconds per power-turn"
