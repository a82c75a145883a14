"""Figures of study 2 draw what their tables say: means, every seed, references, verdicts."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from dipllm_lib.ipd import contrasts, figures, steps
from dipllm_lib.ipd.figures import ARMS, OPPONENTS, Panel, Reference
from dipllm_lib.run import plotting, seeding

PANEL = [Panel()]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def rng():
    return seeding.child(0, "figures")


def over_training(x="phase"):
    """Arm a, seed s, phase k: cooperation of the seats .1 k + .1 s and that plus .2."""
    rows = []
    for a, arm in enumerate(("mixed", "no_tabular")):
        for seed in range(3):
            for phase in (1, 2, 3):
                for seat in (0, 1):
                    for opponent in ("learner", "tabular"):
                        c = 0.1 * phase + 0.1 * seed + 0.2 * seat - 0.05 * a
                        row = {"seed": seed, x: phase, "seat": seat, "arm": arm}
                        row |= {"opponent": opponent, "noise": "on"}
                        rows.append(row | {"cooperation": c, "reward": 2 * c})
    return pd.DataFrame(rows)


def within_game(**more):
    rows = [
        {"seed": seed, "seat": seat, "opponent": name, "round": t, "cooperation": seed / 2 + t / 9}
        for seed in range(2)
        for seat in range(2)
        for name in ("learner", "TFT", "AllC", "AllD", "tabular")
        for t in (1, 2, 3)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**more)


def thick(ax):
    return [line for line in ax.lines if line.get_linewidth() > 1.5]


def thin(ax):
    return [line for line in ax.lines if line.get_linewidth() == 0.5]


def test_bands_weigh_seeds_alike():
    """Seed 0 has two rows of .2, .4, seed 1 one of .9: the mean is that of .3 and .9."""
    table = pd.DataFrame({"seed": [0, 0, 1], "phase": 1, "c": [0.2, 0.4, 0.9]})
    found = figures.bands(table, ["phase"], "c", rng(), 400)
    assert found[["phase", "seeds"]].to_numpy().tolist() == [[1, 2]]
    assert found.loc[0, ["mean", "low", "high"]].tolist() == pytest.approx([0.6, 0.3, 0.9])
    with pytest.raises(ValueError, match="no column d"):
        figures.bands(table, ["phase"], "d", rng(), 400)


def test_training_draws_means_bands_and_every_seed():
    figure = figures.training(over_training(), rng(), 200)
    assert len(figure.axes) == 4
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["against learner, noise on"] * 2 + ["against average tabular, noise on"] * 2
    first = figure.axes[0]
    assert [line.get_color() for line in thick(first)] == [
        ARMS[a][1] for a in ("mixed", "no_tabular")
    ]
    assert [line.get_linestyle() for line in thick(first)] == ["-", ":"]
    assert thick(first)[0].get_ydata() == pytest.approx([0.3, 0.4, 0.5])
    assert thick(first)[1].get_ydata() == pytest.approx([0.25, 0.35, 0.45])
    assert len(thin(first)) == 6  # three seeds of two arms
    assert thin(first)[0].get_ydata() == pytest.approx([0.2, 0.3, 0.4])
    assert thick(figure.axes[1])[0].get_ydata() == pytest.approx([0.6, 0.8, 1.0])
    band = first.collections[0].get_datalim(first.transData)
    assert 0.2 <= band.y0 < 0.3 and 0.5 < band.y1 <= 0.6  # within the means of the seeds
    assert first.get_xlabel() == "phase" and first.get_ylabel() == "cooperation"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["mixed pool", "No Tabular"]


def test_seats_can_be_drawn_apart_and_x_may_be_iterations():
    figure = figures.training(over_training("iteration"), rng(), 50, PANEL, seats=True)
    (ax,) = figure.axes
    assert len(thin(ax)) == 12 and ax.get_xlabel() == "iteration"
    assert thin(ax)[1].get_ydata() - thin(ax)[0].get_ydata() == pytest.approx(0.2)


def test_references_stand_in_their_panels_with_names_that_do_not_overlap():
    references = [
        Reference(1.0, "AllD", "tabular", "reward"),
        Reference(1.0187, "Bayes-optimal", "tabular", "reward"),
        Reference(0.202, "noise floor", noise="on"),
    ]
    axes = figures.training(over_training(), rng(), 50, references=references).axes
    seen = [[text.get_text() for text in ax.texts] for ax in axes]
    assert seen == [["noise floor"], [], ["noise floor"], ["AllD", "Bayes-optimal"]]
    dashed = [line.get_ydata()[0] for line in axes[3].lines if line.get_linewidth() == 0.9]
    assert dashed == [1.0, 1.0187]
    low, high = (text.get_position()[1] for text in axes[3].texts)
    assert high - low == pytest.approx(figures.GAP)
    assert figures._apart([0.5, 0.1, 0.52]) == pytest.approx([0.5, 0.1, 0.575])


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(ValueError, match="nothing to draw against TFT at noise half"):
        figures.training(over_training(), rng(), 50, [Panel("TFT", "reward", "half")])
    with pytest.raises(ValueError, match="no column arm"):
        figures.training(over_training().drop(columns="arm"), rng(), 50)
    with pytest.raises(KeyError, match="nobody"):
        figures.training(over_training().assign(arm="nobody"), rng(), 50)
    with pytest.raises(ValueError, match="several rows of a seed, seat and round"):
        figures.within(pd.concat([within_game(noise="on"), within_game(noise="off")]), rng(), 50)


def test_within_has_a_colour_per_opponent_and_a_panel_per_value():
    table = pd.concat([within_game(phase=8), within_game(phase=26)])
    figure = figures.within(table, rng(), 50, panels="phase", thin=True)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["phase 8", "phase 26"]
    for ax in figure.axes:
        assert [line.get_color() for line in thick(ax)] == [
            OPPONENTS[name][1] for name in ("learner", "TFT", "AllC", "AllD", "tabular")
        ]
        assert thick(ax)[0].get_xdata().tolist() == [1, 2, 3]
        assert thick(ax)[0].get_ydata() == pytest.approx(0.25 + np.array([1, 2, 3]) / 9)
        assert len(thin(ax)) == 10
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["learner", "TFT", "AllC", "AllD", "average tabular"]
    assert len({(o[1], o[2], o[3]) for o in OPPONENTS.values()}) == len(OPPONENTS)


def test_forest_says_the_verdict_and_shows_every_seed():
    values = {
        "mixed − No Tabular": pd.Series([0.3, 0.4, 0.5]),
        "ID − floor": pd.Series([-0.1, 0.0, 0.2]),
        "tabular − AllD": pd.Series([-0.3, -0.2, -0.1]),
    }
    judged = contrasts.judged(values, rng(), 500)
    (ax,) = figures.forest(judged, contrasts.per_seed(values), caption="T 50").axes
    points = [line for line in ax.lines if line.get_marker() == "s"]
    means = [tuple(line.get_xydata()[0]) for line in points]
    assert means == [pytest.approx(p) for p in ((0.4, 0), (0.1 / 3, 1), (-0.2, 2))]
    assert [line.get_markerfacecolor() for line in points] == [
        plotting.BLACK,
        "white",
        plotting.RED,
    ]
    dots = [line.get_xdata().tolist() for line in ax.lines if line.get_marker() == "."]
    assert dots == [own.tolist() for own in values.values()]
    texts = [text.get_text() for text in ax.texts]
    assert [text.split(", ")[-2:] for text in texts] == [
        [word, "3 seeds"] for word in ("shown", "open", "reversed")
    ]
    assert texts[2].startswith("−0.20 [−0.") and ax.figure.get_supxlabel() == "T 50"
    del values["ID − floor"]
    with pytest.raises(ValueError, match="'ID − floor' has no seeds"):
        figures.forest(judged, contrasts.per_seed(values))


def test_forest_leaves_out_what_is_not_defined():
    values = {"share": pd.Series([0.3, 0.4, 0.5]), "drift": pd.Series([0.1, 0.2, 0.3])}
    judged = contrasts.judged(values, rng(), 50)
    undefined = {"contrast": "χ − 1", "mean": np.nan, "low": np.nan, "high": np.nan}
    rows = [*judged.to_dict("records"), undefined | {"seeds": 3, "verdict": "open"}]
    (ax,) = figures.forest(pd.DataFrame(rows), contrasts.per_seed(values)).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["share", "drift"]
    with pytest.raises(ValueError, match="no contrast with a number"):
        figures.forest(pd.DataFrame(rows[2:]), contrasts.per_seed(values))


def test_lines_over_a_figure_are_named_once():
    figure = figures.training(over_training(), rng(), 50)
    look = ("best response", plotting.BLACK, "--", "")
    lines = [figures.Line(place, [1, 3], [0.2, 0.4], look) for place in (0, 2)]
    figures.overlay(figure, lines)
    assert figure.axes[0].lines[-1].get_ydata().tolist() == [0.2, 0.4]
    assert figure.axes[1].lines[-1].get_linestyle() != "--"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["mixed pool", "No Tabular", "best response"] and len(figure.legends) == 1


def test_every_evaluator_has_a_look():
    assert {*steps.FIXED, *steps.FURTHER, "frozen", "learner"} <= set(OPPONENTS)


def test_the_same_bytes_twice():
    def drawn():
        references = [Reference(0.202, "noise floor")]
        return figures.training(over_training(), rng(), 50, PANEL, references, caption="T 50, H 32")

    assert plotting.render(drawn()) == plotting.render(drawn())
