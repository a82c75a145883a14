"""Figures of the case study: what is drawn is what the tables say."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from dipllm_lib.dip import atlas, boards, case_figures, case_study, game, orders, rules

POWER = atlas.power("FRANCE")


@pytest.fixture(scope="module")
def case() -> case_study.Case:
    """Two positions and one decision with made-up numbers."""
    start = boards.start()
    turn = orders.turn(start, 0, POWER)
    joints = tuple(
        orders.parse_joint(turn, list(texts))
        for texts in (("A MAR H", "A PAR H", "F BRE H"), ("A MAR - SPA", "A PAR H", "F BRE H"),
                      ("A MAR - SPA", "A PAR - PIC", "F BRE - MAO"))
    )  # fmt: skip
    table = pd.DataFrame({
        "joint": ["a", "b", "c"],
        "tau": [0.2, 0.3, 0.1],
        "target": [0.7, 0.3, 0.0],
        "pi": [0.5, 0.1, 0.4],
        "q": [0.2, 0.1, np.nan],
        "value": [0.2, 0.1, 0.3],
        "hindsight": [0.25, 0.15, 0.2],
        "played": [False, False, True],
    })
    draws = np.array([[0.1, 0.3], [0.1, 0.1], [0.2, 0.4]])
    decision = case_study.Decision(0, turn, joints, table, np.zeros(3), np.zeros(3), draws)
    after = rules.resolve(start, orders.no_orders(1))[0]
    after.phase[0] = boards.OVER
    known = game.Game("g", (), 0, boards.Boards.concat([start, after]), [{}] * 2, [{}] * 2, "")
    account = pd.DataFrame([
        {"phase": "S1901M", "decides": True, "before": 0.1, "expected": 0.2, "chosen": 0.15}
        | {"after": 0.3, "drift": 0.1, "choice": -0.05, "choice_low": -0.06, "choice_high": -0.04}
        | {"others": 0.15}
    ])
    values = np.arange(14).reshape(2, 7) / 100
    return case_study.Case(known, POWER, values, (decision,), account)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def widths(ax) -> list[float]:
    return [bar.get_width() for bar in ax.patches]


def test_values_of_all_powers_and_the_bands(case):
    ax = case_figures.values(case, case.decisions).axes[0]
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    assert lines["France (the model)"].tolist() == pytest.approx([2, 9])
    assert len(lines) == 7 and lines["Turkey"].tolist() == pytest.approx([6, 13])
    assert [t.get_text() for t in ax.get_xticklabels()] == ["S1901M", "end"]
    assert [t.get_text() for t in ax.texts] == ["1"]
    styles = {(line.get_color(), line.get_marker()) for line in ax.lines}
    assert len(styles) == 7 and "%" in ax.get_ylabel()


def test_bars_of_a_decision_and_what_was_played(case):
    (decision,) = case.decisions
    left, right = case_figures.decision(decision, 1).axes
    labels = [t.get_text().replace("\N{NO-BREAK SPACE}", " ") for t in left.get_yticklabels()]
    assert labels == ["A MAR H, A PAR H, F BRE H", "A MAR - SPA, A PAR - PIC, F BRE - MAO"]
    assert [t.get_fontweight() for t in left.get_yticklabels()] == ["normal", "bold"]
    assert widths(left) == pytest.approx([0.2, 0.1, 0.7, 0.0, 0.5, 0.4])
    assert len({bar.get_hatch() for bar in left.patches}) == 2
    mean, real = right.lines
    assert mean.get_xdata().tolist() == pytest.approx([20, 30])
    assert real.get_xdata().tolist() == pytest.approx([25, 20])
    (spans,) = right.collections
    ends = np.array([segment[:, 0] for segment in spans.get_segments()])
    assert ends == pytest.approx(np.array([[12, 28], [22, 38]]))  # the middle 80 % of two draws
    left = case_figures.decision(decision, 2).axes[0]
    assert left.get_yticklabels()[1].get_text().replace("\N{NO-BREAK SPACE}", " ") == (
        "played, but A PAR H, F BRE H"
    )


def test_small_pictures_name_the_rank_of_what_was_played(case):
    figure = case_figures.phases(case, most=2)
    ax = figure.axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "2", "none"]
    assert ax.get_title() == "S1901M" and ax.lines[0].get_xdata().tolist() == [2]
    assert [bar.get_height() for bar in ax.patches][:3] == [0.2, 0.3, 0.1]
    (decision,) = case.decisions
    table = decision.table.assign(q=0.1)
    listed = dataclasses.replace(case, decisions=(dataclasses.replace(decision, table=table),))
    ax = case_figures.phases(listed, most=1).axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "3"]


def test_parts_are_stacked_on_their_side_of_zero(case):
    ax = case_figures.account(case, case.decisions).axes[0]
    spans = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in ax.patches]
    assert spans == [pytest.approx(s) for s in ((0, 10), (0, -5), (10, 25))]
    change = next(line for line in ax.lines if line.get_label() == "change of value")
    assert change.get_ydata().tolist() == pytest.approx([20])
    assert len({bar.get_hatch() for bar in ax.patches}) == 3


def test_the_sheet_has_a_board_for_each_spring_and_the_end(case):
    figure = case_figures.sheet(case.game)
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert len(figure.axes) == 3 and len(shown) == 2
