"""Every figure of notebook 08 can be drawn from its table, and shows what it names."""

import pytest

from dipllm_lib.kto import (
    offer_study,
    prospect_figures,
    prospect_study,
    recovery,
    responder_fits,
)
from dipllm_lib.run import plotting


def labels(figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_curves_and_replies():
    figure = prospect_figures.curves(prospect_study.curves())
    assert len(figure.axes) == 3 and len(figure.axes[0].get_lines()) == 6
    plotting.render(figure)
    figure = prospect_figures.replies(prospect_study.replies())
    assert labels(figure) == ["AllC", "TFT", "AllD", "best reply"]
    plotting.render(figure)


def test_offers_and_references():
    lines = offer_study.offers(prospect_study.LAMS, 0.5)
    best = offer_study.best_offers((1.0, 3.2), (0.0, 0.25))
    figure = prospect_figures.offers(lines, best, 0.5)
    texts = [text.get_text() for text in figure.axes[2].texts]
    assert texts == ["0.4", "0.40", "0.4", "0.40", "0.4", "0.40", "0.5", "0.50"]
    plotting.render(figure)
    figure = prospect_figures.references(offer_study.curves_by_reference())
    assert labels(figure) == ["ρ = 0", "ρ = 0.339", "ρ = 0.5", "ρ = 0.575", "ρ = 0.6"]
    plotting.render(figure)


def test_people():
    models = [responder_fits.logit(), responder_fits.matching()]
    figure = prospect_figures.people(responder_fits.rates(models), prospect_study.LAMS)
    assert labels(figure) == ["people", "logit", "matching"]
    plotting.render(figure)


@pytest.mark.parametrize("sizes", [(200,), (200, 300)])
def test_recovered_and_bargaining(sizes):
    todo = recovery.tasks(sizes, 2, 0, 0)
    table = recovery.summary(recovery.fits([recovery.run(task) for task in todo], todo))
    figure = prospect_figures.recovered(table)
    assert labels(figure) == ["truth", "α = β fitted", "α and β fitted"]
    plotting.render(figure)
    shares = prospect_study.bargaining_curves((0.0, 0.25), (1.0, 3.2))
    figure = prospect_figures.bargaining(shares)
    assert labels(figure) == ["ρ = 0", "ρ = 0.25", "λ = 2.25 and 3.2"]
    plotting.render(figure)
