"""Leafing through a game: the slider in Python, the static picture, the one HTML file."""

import base64
import json
import re

import ipywidgets as widgets
import pytest
from IPython.display import Image
from matplotlib import pyplot as plt

from dipllm_lib.dip import cases, draw, viewer

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def game():
    return cases.random_games(1, 0, 1901)[0]


@pytest.fixture(autouse=True)
def reader(monkeypatch):
    """Somebody sits at the notebook, unless a test says otherwise; small pictures do here."""
    monkeypatch.setattr(viewer, "PIXELS", 300)
    monkeypatch.delenv("DIPLLM_STATIC", raising=False)


def parts(view) -> tuple:
    picture, (counter, slider), line = view.children[0], view.children[1].children, view.children[2]
    return picture, counter, slider, line


def test_moving_the_slider_or_the_play_button_changes_the_picture(game):
    view = viewer.show(game)
    picture, counter, slider, line = parts(view)
    assert isinstance(picture, widgets.Image) and isinstance(counter, widgets.Play)
    assert [name for name, _ in slider.options][:2] == ["S1901M", "F1901M"]
    assert line.value.startswith("Austria: RandomLegal, England: RandomLegal")
    first = picture.value
    slider.value = 1
    second = picture.value
    assert first[:8] == second[:8] == PNG and first != second and counter.value == 1
    counter.value = 0
    assert picture.value == first and slider.value == 0


def test_frames_are_drawn_once_and_only_when_asked_for(game, monkeypatch):
    drawn = []
    monkeypatch.setattr(draw, "draw_phase", lambda game, k: (drawn.append(k), plt.subplots()[0])[1])
    _, _, slider, _ = parts(viewer.show(game, 1))
    for k in (0, 1, 0):
        slider.value = k
    assert drawn == [1, 0]


def test_a_slider_that_cannot_be_shown_has_a_picture_beside_it(game):
    view = viewer.show(game, 1)
    bundle = view._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert base64.b64decode(bundle["image/png"]) == view.children[0].value
    json.dumps(bundle)


def test_without_a_reader_it_is_the_picture_of_the_phase(game, monkeypatch):
    monkeypatch.setenv("DIPLLM_STATIC", "1")
    shown = viewer.show(game, 1)
    assert isinstance(shown, Image)
    assert shown.data == viewer.Frames(game).png(1)


def test_the_html_file_stands_alone_and_repeats_byte_for_byte(game, tmp_path):
    path = viewer.save_html(game, tmp_path / "game.html", phase=1)
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"https?://|src=[\"'](?!data:)|<link|@[A-Z]+@", text)
    frames = json.loads(re.search(r"frames = (\[.*?\])", text)[1])
    names = json.loads(re.search(r"names = (\[.*?\])", text)[1])
    assert len(frames) == len(names) == game.boards.n and names[-1] == "COMPLETED"
    assert all(base64.b64decode(frame)[:8] == PNG for frame in frames)
    assert f'max="{game.boards.n - 1}" value="1"' in text
    for key in ("ArrowLeft", "ArrowRight", 'id="slider"', 'id="play"'):
        assert key in text
    again = viewer.save_html(game, tmp_path / "again.html", phase=1)
    assert again.read_bytes() == path.read_bytes()


def test_a_game_without_known_players_has_its_name(game):
    assert viewer.players(type(game).from_saved(game.to_saved() | {"agents": []})) == (
        f"game {game.id}"
    )


@pytest.mark.parametrize("call", [viewer.show, lambda g, k: viewer.save_html(g, "no.html", k)])
def test_a_phase_that_is_not_there_is_refused(game, call):
    with pytest.raises(ValueError, match=f"there is no phase 99: the game has {game.boards.n}"):
        call(game, 99)
