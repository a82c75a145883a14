"""Panels of the three steps as figures: both sides, landmarks where the paper has them."""

import pandas as pd
import pytest
from matplotlib import pyplot as plt

from dipllm_lib.ipd import figures, mechanism_contrasts, published
from dipllm_lib.ipd import mechanism_figures as drawn
from dipllm_lib.run import seeding

NUMBERS = {"cooperation": 0.2, "reward": 0.5, "other_cooperation": 0.4, "other_reward": 0.1}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def rng():
    return seeding.child(0, "figures")


def rows(opponents=("frozen",), **axis):
    (name, values) = next(iter(axis.items()))
    return pd.DataFrame([
        {"seed": s, name: x, "seat": k, "opponent": o, "noise": n, **NUMBERS}
        for s in (0, 1) for x in values for k in (0, 1) for o in opponents for n in ("on", "off")
    ])  # fmt: skip


def hollow(ax):
    return [(line.get_xdata()[0], line.get_ydata()[0])
            for line in ax.lines if line.get_markerfacecolor() == "none"]  # fmt: skip


def test_both_sides_of_a_game_are_rows():
    both = drawn.sides(rows(phase=(1, 2)), "extorter", "frozen")
    means = both.groupby("arm")[["cooperation", "reward"]].mean()
    assert means.loc["extorter"].tolist() == pytest.approx([0.2, 0.5])
    assert means.loc["frozen"].tolist() == pytest.approx([0.4, 0.1])
    assert both[both["arm"] == "frozen"]["other_reward"].unique().tolist() == [0.5]


def test_over_training_draws_the_landmarks_of_both_sides():
    """2C: .88 and .24 from phase 10 on, .9 and in the last phase; a short run has the last only."""
    both = drawn.sides(rows(phase=range(1, 13)), "extorter", "frozen")
    figure = drawn.over_training(both, "2C", rng(), 50)
    assert len(figure.axes) == 4
    assert sorted(hollow(figure.axes[0])) == [(12, 0.24), (12, 0.88), (12, 0.9)]
    assert hollow(figure.axes[1]) == []
    assert sorted(hollow(figure.axes[2])) == [(12, 0.45), (12, 0.66)]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["extorter", "Fixed-ICL", drawn.PAPER] and len(figure.legends) == 1


def test_inside_a_game_of_step_1_has_its_exact_lines():
    own = rows(("TFT", "AllD"), round=range(1, 21))
    own = own[own["noise"] == "on"]
    curves = pd.DataFrame([
        {"player": p, "opponent": o, "round": t, "cooperation": 1.0, "reward": 1.0}
        for p in drawn.PLAYERS for o in ("TFT", "AllD") for t in range(1, 21)
    ])  # fmt: skip
    figure = drawn.inside_step1(own, curves, "2B", rng(), 50)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["opponent TFT", "opponent AllD"] * 2
    assert (14, 0.5) in hollow(figure.axes[2]) and (20, 1.0) in hollow(figure.axes[0])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {look[0] for look in drawn.PLAYERS.values()} <= set(names)


def test_inside_with_and_without_roles():
    own = rows(round=range(1, 31))
    figure = drawn.inside(own, "2D", rng(), 50, ("extorter", "frozen"))
    assert len(figure.axes) == 4
    assert (30, 1.05) in hollow(figure.axes[0]) and (30, 0.2) in hollow(figure.axes[0])
    figure = drawn.inside(rows(("learner",), round=range(1, 31)), "2F", rng(), 50)
    assert hollow(figure.axes[2]) == [(3, 0.03), (25, 0.14), (30, 0.17)]


def test_the_enforcement_line_marks_the_victim():
    points = pd.DataFrame([
        {"seed": s, "seat": k, "kind": kind, "s_x": 2.0 * y, "s_y": y}
        for s in range(3) for k in (0, 1) for kind in ("tabular", "copy") for y in (0.1, 0.2, 0.3)
    ])  # fmt: skip
    victims = pd.DataFrame([
        {"seed": s, "seat": k, "s_x": 0.6, "s_y": 0.2} for s in range(3) for k in (0, 1)
    ])  # fmt: skip
    figure = drawn.enforcement(points, victims)
    assert len(figure.axes) == 4
    line = figure.axes[0].lines[-1]
    assert line.get_ydata() == pytest.approx([0.2, 0.6])
    assert figure.axes[0].lines[-2].get_xydata().tolist() == [[0.2, 0.6]]


def test_references_of_players_that_are_there():
    values = pd.DataFrame({"player": ["AllD", "x"], "reward": [1.0, 1.1]})
    (one,) = drawn.references(values, {"AllD": "AllD", "y": "none"})
    assert (one.value, one.text, one.opponent, one.measure) == (1.0, "AllD", "tabular", "reward")


def test_the_noise_enters_the_names_of_contrasts():
    table = pd.DataFrame({"contrast": ["a", "a", "a"], "noise": ["on", "half", "off"]})
    names = mechanism_contrasts.with_noise(table, ("on", "off"))["contrast"].tolist()
    assert names == ["a, noise on", "a, noise off"]


def test_every_panel_s_opponents_have_a_colour():
    assert {one.opponent for one in published.LANDMARKS} <= set(figures.OPPONENTS)
