"""A student changes one line of notebook 10b: width, mixture or payoff give a new figure.

The notebook itself is run by the runner, with the line in its settings cell changed, at `smoke`
sizes and with the questions that the figure needs.
"""

import nbformat
import pytest

from dipllm_lib.run import pipeline, places

pytestmark = pytest.mark.slow

NAME = "10b_ipd_beyond"
LINE = "settings = here.ipd"
# the questions of the figures, few pairs of LOLA, which none of them shows
QUESTIONS = 'social_questions=("mixing", "payoffs"), social_seeds=1, lola_pairs=4'


def figures(folder, monkeypatch, change: str = "") -> dict[str, bytes]:
    """Run the notebook with `change` in its line of settings; the bytes of its pictures."""
    source = places.root() / "notebooks" / f"{NAME}.ipynb"
    notebook = nbformat.read(source, 4)
    (cell,) = [c for c in notebook.cells if c.cell_type == "code" and LINE in c.source]
    new = f"settings = dataclasses.replace(here.ipd, {QUESTIONS}{change})"
    cell.source = cell.source.replace(LINE, new)
    nbformat.write(notebook, folder / f"{NAME}.ipynb")
    monkeypatch.setenv("DIPLLM_HOME", str(folder / "home"))
    chain = tuple(one for one in pipeline.GRAPH if one.name == NAME)
    run = pipeline.plan("smoke", 0, chain, folder)
    assert pipeline.reproduce(run) == 0
    return {path.stem: path.read_bytes() for path in run.figures.glob("*.png")}


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return figures(tmp_path_factory.mktemp("unchanged"), patch)


@pytest.mark.parametrize(
    ("change", "moved", "kept"),
    [
        ("hidden=8", {"10b_mixing", "10b_payoffs", "10b_regret"}, set()),
        pytest.param(
            "social_shares=(0.1, 0.9), social_ratios=(1.5, 3.0)",
            {"10b_mixing", "10b_payoffs"},
            {"10b_regret"},
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_one_line_gives_a_new_figure(change, moved, kept, unchanged, tmp_path, monkeypatch):
    found = figures(tmp_path, monkeypatch, f", {change}")
    assert set(found) == set(unchanged)
    assert not [name for name in moved if found[name] == unchanged[name]]
    assert not [name for name in kept if found[name] != unchanged[name]]
