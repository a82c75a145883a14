"""The scale of the forest by hand; both figures twice, with every grade."""

import pandas as pd
import pytest

from dipllm_lib.run import claims_figures, grades, plotting

CLAIMS = pd.DataFrame(
    [
        ("C1", "effect", "text", 14.3, 29.4, 0.3, 0.2, 0.4, "contradicted"),
        ("C2", "effect", "text", 1.0, 0.15, 0.5, 0.2, 0.8, "same direction"),
        ("C3", "effect", "text", 0.0, 2.0, 9.0, 1.0, 40.0, "reproduced"),
        ("C4", "effect", "text", 0.0, 2.0, -0.5, -9.0, 1.0, "not supported"),
        ("C5", "effect", "text", 0.0, 2.0, 1.0, 1.0, 1.0, "not testable here"),
        ("C6", "effect", "beside", 0.0, 2.0, 1.0, 0.5, 1.5, "same direction"),
        ("C7", "region", "text", 0.0, 2.0, 1.0, 0.5, 1.5, "reproduced"),
        ("C8", "effect", "text", 0.0, float("nan"), 1.0, 0.5, 1.5, "same direction"),
    ],
    columns=["claim", "kind", "of", "bound", "number", "mean", "low", "high", "verdict"],
).assign(text="t", study="1")


def test_zero_is_the_bound_and_one_is_what_is_stated():
    found = claims_figures.scaled(CLAIMS).set_index("claim")
    assert list(found.index) == ["C1", "C2", "C3", "C4", "C5"]
    assert found.loc["C1", "mean"] == pytest.approx((0.3 - 14.3) / 15.1)
    assert found.loc["C2", ["mean", "low", "high"]].tolist() == pytest.approx([
        0.5 / 0.85,
        0.2 / 0.85,
        0.8 / 0.85,
    ])  # below a bound: the ends change places


@pytest.mark.parametrize("draw", [claims_figures.grades_by_study, claims_figures.forest])
def test_drawn_twice_it_is_the_same_file(draw):
    assert plotting.render(draw(CLAIMS)) == plotting.render(draw(CLAIMS))


def test_every_bar_holds_its_count():
    figure = claims_figures.grades_by_study(CLAIMS)
    (ax,) = figure.axes
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "study 1, the text",
        "study 1, beside it",
    ]
    assert [t.get_text() for t in ax.texts] == ["2", "2", "1", "1", "1", "1"]
    assert set(claims_figures.LOOKS) == set(grades.GRADES)
    plotting.plt.close(figure)
