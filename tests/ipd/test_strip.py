"""One game round by round: hand-made histories, beliefs counted by hand, and the viewer."""

import base64

import ipywidgets as widgets
import numpy as np
import pytest
from IPython.display import Image
from matplotlib import pyplot as plt

from dipllm_lib.ipd import batch_play, strip, tabular
from dipllm_lib.ipd.game import CC, CD, DC, DD
from dipllm_lib.ipd.strip import Agent
from dipllm_lib.run import plotting, seeding

T = 12
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def reader(monkeypatch):
    monkeypatch.delenv("DIPLLM_STATIC", raising=False)
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def agents():
    return strip.cast({}, T)


def test_the_cast_has_the_learned_ones_first():
    actor = batch_play.MemoryOne(tabular.named("random"))
    found = strip.cast({"me": actor}, T)
    assert list(found) == ["me", *strip.NAMES, strip.BAYES]
    assert found["me"].vector is None and found["me"].actor is actor
    assert found["TFT"].vector.tolist() == [1, 1, 0, 1, 0]


def test_moves_of_known_pairs(agents):
    """AllD exploits TFT once; TFT and WSLS cooperate throughout."""
    codes = strip.play(agents["AllD"], agents["TFT"], T, 0).codes
    assert codes.tolist() == [DC] + [DD] * (T - 1)
    assert strip.play(agents["TFT"], agents["WSLS"], T, 0).codes.tolist() == [CC] * T


def test_the_posterior_counts_answers_in_the_own_view():
    """After CC, then CD, twice DC: the answers were C; D after CC; C after CD; C after DC."""
    mean, spread = strip.posterior(np.array([CC, CD, DC, DC], dtype=np.uint8))
    assert mean[0].tolist() == [0.5] * 5 and spread[0, 0] == pytest.approx(1 / np.sqrt(12))
    assert mean[1].tolist() == pytest.approx([2 / 3, 0.5, 0.5, 0.5, 0.5])
    assert mean[2].tolist() == pytest.approx([2 / 3, 1 / 3, 0.5, 0.5, 0.5])
    assert mean[3].tolist() == pytest.approx([2 / 3, 1 / 3, 2 / 3, 0.5, 0.5])
    assert spread[3, 2] == pytest.approx(np.sqrt(2 / 9 / 4))  # of Beta(2, 1)


def test_the_best_response_stands_beside_the_move(agents):
    """To TFT it cooperates until the last round, after any history; to AllD never."""
    found = strip.play(agents["AllD"], agents["TFT"], T, 0)
    assert found.best.tolist() == [1] * (T - 1) + [0]
    assert strip.play(agents["TFT"], agents["AllD"], T, 0).best.tolist() == [0] * T
    assert strip.play(agents["TFT"], agents[strip.BAYES], T, 0).best is None


def test_the_bayes_player_does_what_its_row_says(agents):
    """Its moves in its own game are those it would make after the same history."""
    for name in ("TFT", "WSLS", "random"):
        found = strip.play(agents[strip.BAYES], agents[name], T, 3)
        assert found.bayes.tolist() == batch_play.own_actions(found.codes).tolist()
        assert found.chance.tolist() == found.bayes.tolist()


def test_the_chance_of_a_memory_one_agent_is_its_probability(agents):
    vector = np.array([0.2, 0.9, 0.1, 0.5, 0.3])
    codes = np.array([CC, CD, DC, DD, CC], dtype=np.uint8)
    actor = batch_play.MemoryOne(vector)
    share = strip.chance(actor, codes, seeding.child(0, "chance"), 40_000)
    assert share == pytest.approx([0.2, 0.9, 0.1, 0.5, 0.3], abs=0.012)


def test_a_game_has_a_number_and_repeats(agents):
    games = [strip.play(agents["random"], agents["random"], T, 0, k).codes for k in (0, 0, 1)]
    assert np.array_equal(games[0], games[1]) and not np.array_equal(games[0], games[2])


def test_told_in_words(agents):
    """AllD earns 2 once in 12 rounds, TFT loses 1; the best response cooperates until the end."""
    text = strip.told(strip.play(agents["AllD"], agents["TFT"], T, 0))
    assert text == ("AllD earns +0.17 a round, TFT −0.08; the best response to TFT earns +1.08")
    assert "best" not in strip.told(strip.play(agents["TFT"], agents[strip.BAYES], T, 0))


def test_the_picture_shows_moves_and_beliefs(agents):
    found = strip.play(agents["AllD"], agents["TFT"], T, 0)
    top, middle, low = strip.draw(found).axes[:3]
    rows = [label.get_text() for label in top.get_yticklabels()]
    assert rows == ["TFT ", "AllD", "best response", "Bayes player's move"]
    assert top.lines[0].get_xdata().tolist() == [1]  # TFT's only C
    assert np.array_equal(middle.images[0].get_array(), found.means.T)
    assert [t.get_text() for t in middle.get_yticklabels()][2:4] == [
        "after CD (1.00)",
        "after DC (0.00)",
    ]
    assert [bar.get_height() for bar in low.patches] == [0.0] * T


def test_the_viewer_changes_with_its_choices(agents):
    view = strip.show(agents, "AllD", "TFT", T, 0)
    picture, (left, right, number) = view.children[0], view.children[1].children
    assert isinstance(left, widgets.Dropdown) and left.options == tuple(agents)
    first = picture.value
    right.value = "WSLS"
    second = picture.value
    assert first[:8] == second[:8] == PNG and first != second
    right.value = "TFT"
    assert picture.value == first
    bundle = view._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]) == first and number.value == 0


def test_without_a_reader_it_is_a_picture(agents, monkeypatch):
    monkeypatch.setenv("DIPLLM_STATIC", "1")
    shown = strip.show(agents, "AllD", "TFT", T, 0)
    png = plotting.render(strip.draw(strip.play(agents["AllD"], agents["TFT"], T, 0)))[0]
    assert isinstance(shown, Image) and shown.data == plotting.smaller(png)
    with pytest.raises(ValueError, match="there is no agent 'nobody': TFT, AllC"):
        strip.show(agents, "AllD", "nobody", T, 0)


def test_agents_of_longer_memory_have_no_best_response(agents):
    long = Agent("long", agents[strip.BAYES].actor)
    assert strip.best(long, np.full(T, DD, dtype=np.uint8)) is None
