"""Figures: same bytes twice, closed, in one style."""

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from dipllm_lib.run import plotting, profiles, store

TABLE = pd.DataFrame({
    "iteration": [1, 2, 4, 1, 2, 4],
    "regret": [0.5, 0.3, 0.2, 0.6, 0.5, 0.4],
    "low": [0.4, 0.2, 0.1, 0.5, 0.4, 0.3],
    "high": [0.6, 0.4, 0.3, 0.7, 0.6, 0.5],
    "agent": ["anchor"] * 3 + ["search"] * 3,
})


def drawn():
    figure, (left, right) = plotting.axes(columns=2, across=2)
    plotting.curve(TABLE, "iteration", "regret", "agent", ("low", "high"), ax=left)
    plotting.intervals(TABLE[::3], "agent", "regret", "low", "high", ax=right)
    plotting.chance(left, 1 / 7, "chance")
    plotting.published(left, [2], [0.4], "Xu et al. 2025")
    return figure


def test_same_bytes_twice(home):
    shelf = store.Shelf("01_first", profiles.load("smoke", 0), profiles.load("smoke", 0).dip)
    contents = []
    for _ in range(2):
        image = shelf.save_figure(drawn(), "01_regret")
        folder = home / "figures" / "smoke"
        contents.append([(folder / f"01_regret.{e}").read_bytes() for e in ("png", "pdf")])
    assert contents[0] == contents[1]
    assert plt.get_fignums() == []
    assert image.data == plotting.smaller(contents[0][0]) and len(image.data) < len(contents[0][0])
    png, pdf = contents[0]
    assert int.from_bytes(png[16:20], "big") == 1400  # 7 inches at 200 dpi
    assert b"Software" not in png and b"Matplotlib" not in png
    assert b"CreationDate" not in pdf and b"matplotlib" not in pdf.lower()
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert len(png) < 150_000


def test_user_settings_do_not_count():
    first = plotting.render(drawn())
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "lines.linewidth": 9}):
        second = plotting.render(drawn())
    assert first == second


def test_style_is_left_as_it_was():
    with mpl.rc_context({"font.size": 13}):
        with plotting.style():
            assert mpl.rcParams["font.size"] == 8
        assert mpl.rcParams["font.size"] == 13


def test_agents_differ_in_more_than_colour():
    looks = list(plotting.AGENTS.values())
    assert len(set(looks)) == len(looks)
    assert len({marker for _, marker in looks}) >= len(looks) - 1


def test_unknown_agent():
    table = TABLE.assign(agent="nobody")
    with pytest.raises(KeyError, match="nobody"):
        plotting.curve(table, "iteration", "regret", "agent")
    plt.close("all")


def test_paper_numbers_are_hollow():
    _, ax = plotting.axes()
    plotting.published(ax, [1], [2], "Xu et al. 2025")
    line = ax.lines[0]
    assert line.get_markerfacecolor() == "none" and line.get_linestyle() == "None"
    assert line.get_label() == "paper, Xu et al. 2025"
    plt.close("all")


def test_width():
    with pytest.raises(ValueError, match="1 or 2 columns wide, got 3"):
        plotting.axes(columns=3)
