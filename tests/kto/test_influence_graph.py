"""The document and its schema, the three panels, the page: the same bytes when made twice."""

import copy
import html
import json
import re

import numpy as np
import pytest

from dipllm_lib.kto import (
    influence,
    influence_cases,
    influence_figures,
    influence_graph,
    influence_grounds,
    influence_page,
)
from dipllm_lib.kto.policies import Context
from dipllm_lib.kto.repeated import State
from dipllm_lib.kto.wiring import Module, Situation
from dipllm_lib.run import plotting

NAMES = ("cooperate", "defect")


class Last:
    """Forecasts from the last round alone: P = .9 after its cooperation, .3 after its defection."""

    def log_probs(self, contexts):
        found = [0.5 if not c.key else 0.9 if c.key[-1][1] == 0 else 0.3 for c in contexts]
        return [np.log([p, 1 - p]) for p in found]


MODULE = Module(Last(), Last(), lambda s, i: Context(s.history, "", NAMES))
AT = [Situation(State(9, NAMES, history=((0, 1), (1, 1), (0, 0))), 0)]


@pytest.fixture
def document():
    _, wiring, given = influence_cases.bargainer(4, 0, 0)
    edges, found = influence.measure(wiring, given, 0, 20)
    chosen = influence_graph.timeline(
        [("repeated", "A", 0.4), ("repeated", "B", 0.5), ("bargaining", "F", 0.3)],
        {"repeated": (0.5, 0.5), "bargaining": (0.25, 0.0)},
    )
    grounds = influence_grounds.top(influence_grounds.grounds(MODULE, AT), 0)
    shares = influence_graph.shares(found, 0)
    return influence_graph.to_json(
        edges, shares, grounds, chosen, {"seed": 0, "game": "bargaining"}
    )


def test_grounds_by_hand():
    table = influence_grounds.grounds(MODULE, AT)
    assert table["round"].tolist() == [1, 2, 3] and table["ago"].tolist() == [3, 2, 1]
    # only the last round counts: without it the second one is the last, .9 becomes .3
    effect = 0.9 * np.log(3) + 0.1 * np.log(1 / 7)
    assert table["effect"].tolist() == [0.0, 0.0, pytest.approx(effect)]
    first = influence_grounds.top(table, 0, 2)
    assert first["round"].tolist() == [3, 2]
    assert first["text"].iloc[0] == "Round 3: own cooperate, other's cooperate"
    assert first["text"].iloc[1] == "Round 2: own defect, other's defect"
    twice = influence_grounds.grounds(MODULE, AT * 2)  # one situation, asked for as two
    assert twice["state"].tolist() == [0] * 3 + [1] * 3
    assert influence_grounds.top(twice, 0, 2).equals(first)
    short = influence_grounds.grounds(MODULE, AT, window=1)
    assert short["round"].tolist() == [3] and len(influence_grounds.by_age(table)) == 3
    assert influence_grounds.grounds(MODULE, [Situation(State(9, NAMES), 0)]).empty


def test_the_document_is_of_its_schema(document):
    read = json.loads(influence_graph.text(document))
    assert read == document
    influence_graph.check(read)
    assert [edge["name"] for edge in read["edges"]] == list(influence.EDGES)
    assert read["nodes"][-1] == {"name": "action", "kind": "action", "connected": True}
    by = {node["name"]: node for node in read["nodes"]}
    assert by["lambda"]["kind"] == "parameter" and by["lambda"]["connected"]
    assert by["cache"] == {"name": "cache", "kind": "module", "connected": False}
    assert sum(row["share"] for row in read["decision"]) == pytest.approx(1.0)
    assert read["timeline"][1]["lambda"] == 3.2
    assert [row["rho"] for row in read["timeline"]] == [0.5, 0.5, 0.0]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("edges", 0, "value"), float("nan"), "edges.0. adapter is not finite"),
        (("edges", 3, "n"), 1.5, "edges.3..n is 1.5: need int"),
        (("edges", 1, "source"), "soul", "edges.1. leads from or to a node"),
        (("version",), 2, "version 2: need 1"),
        (("grounds",), None, "without grounds"),
    ],
)
def test_a_broken_document_is_refused(document, place, value, message):
    broken = copy.deepcopy(document)
    if place == ("grounds",):
        del broken["grounds"]
    else:
        inner = broken
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
    with pytest.raises(ValueError, match=message):
        influence_graph.check(broken)
    more = copy.deepcopy(document)
    more["edges"][0]["colour"] = "red"
    with pytest.raises(ValueError, match=r"edges\[0\] has"):
        influence_graph.check(more)


def test_page_and_figure_are_the_same_bytes_twice(document):
    page = influence_page.html(document)
    assert page == influence_page.html(json.loads(influence_graph.text(document)))
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|src=|href=", page)
    assert page.count("<tr data-ends=") == len(document["edges"])
    assert page.count('<g class="node"') == len(document["nodes"])
    frame = influence_page.show(document).data
    assert html.unescape(frame.split('srcdoc="')[1].split('" width')[0]) == page
    figures = [plotting.render(influence_figures.draw(document, "a caption")) for _ in range(2)]
    assert figures[0] == figures[1]


def test_panels_without_modeller_and_coordinator(document):
    bare = document | {"grounds": [], "timeline": []}
    figure = influence_figures.draw(bare)
    words = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert words == ["no modeller is connected", "no coordinator is connected"]
    assert influence_page.html(bare).count("None in this configuration.") == 2
    plotting.render(figure)


def test_shares_of_nothing_are_zero(document):
    found = influence.Effects({n: np.zeros(1) for n in influence_graph.MODULES}, {}, {})
    assert [row["share"] for row in influence_graph.shares(found, 0)] == [0.0] * 6
