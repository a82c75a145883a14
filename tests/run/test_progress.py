"""Where progress prints what, with golden lines."""

import io
import subprocess
import sys

import pytest

from dipllm_lib.run import progress


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    monkeypatch.delenv("DIPLLM_PROGRESS", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


def test_plain_lines(capsys):
    assert list(progress.track(range(100), text="games")) == list(range(100))
    expected = ["games  0 of 100"] + [f"games  {n} of 100" for n in (12, 25, 37, 50, 62, 75, 87)]
    assert capsys.readouterr().out.splitlines() == [*expected, "games  100 of 100"]


def test_plain_small_and_empty(capsys):
    list(progress.track([5, 6], text="t"))
    list(progress.track([], text="none"))
    assert capsys.readouterr().out.splitlines() == [
        "t  0 of 2",
        "t  1 of 2",
        "t  2 of 2",
        "none  0 of 0",
        "none  0 of 0",
    ]


def test_plain_without_total(capsys):
    list(progress.track(iter("abc"), text="rows"))
    assert capsys.readouterr().out.splitlines() == ["rows  0", "rows  3"]


def test_at_most_twenty_lines_and_no_return(capsys):
    list(progress.track(range(12_345)))
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 20
    assert "\r" not in out


def test_off(monkeypatch, capsys):
    monkeypatch.setenv("DIPLLM_PROGRESS", "off")
    assert list(progress.track("ab")) == ["a", "b"]
    assert capsys.readouterr().out == ""


def test_unknown_override(monkeypatch):
    monkeypatch.setenv("DIPLLM_PROGRESS", "loud")
    with pytest.raises(ValueError, match="DIPLLM_PROGRESS is 'loud': use one of bar, plain, off"):
        list(progress.track([1]))


def test_terminal_rewrites_one_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    clock = iter([0.0, 1.0, 3.0, 3.1, 3.3, 9.0, 9.0, 9.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    list(progress.track(range(3), text="games"))
    bars = screen.getvalue().split("\r")
    assert bars[0] == ""  # nothing before two seconds
    assert bars[1] == "games  [" + "#" * 20 + "." * 10 + "]  2 of 3"
    assert bars[-1].endswith("3 of 3\n")
    assert "\n" not in "".join(bars[:-1])


def test_quick_loop_shows_no_bar(monkeypatch, capsys):
    monkeypatch.setenv("DIPLLM_PROGRESS", "bar")
    list(progress.track(range(50)))
    assert capsys.readouterr().out == ""


def test_jupyterlab_updates_one_display(monkeypatch):
    shown, updates = [], []

    class Handle:
        def update(self, data, raw):
            updates.append(data)

    def display(data, raw, display_id):
        shown.append(data)
        return Handle()

    monkeypatch.setenv("JPY_SESSION_NAME", "x.ipynb")
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress, "WAIT", 0)
    monkeypatch.setattr(progress, "PAUSE", 0)
    list(progress.track(range(4), text="games"))
    assert len(shown) == 1
    assert list(shown[0]) == ["text/plain"]
    assert updates[-1]["text/plain"].endswith("4 of 4")


def test_plain_override_in_jupyterlab(monkeypatch, capsys):
    monkeypatch.setenv("JPY_SESSION_NAME", "x.ipynb")
    monkeypatch.setenv("DIPLLM_PROGRESS", "plain")
    list(progress.track([1], text="t"))
    assert capsys.readouterr().out.splitlines() == ["t  0 of 1", "t  1 of 1"]


def test_a_pipe_gets_plain_lines():
    code = "from dipllm_lib.run import progress; list(progress.track([1, 2], text='t'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "t  0 of 2\nt  1 of 2\nt  2 of 2\n"


def test_closing_early_is_quiet(capsys):
    for item in progress.track(range(10), text="t"):
        if item == 2:
            break
    assert capsys.readouterr().out.splitlines() == ["t  0 of 10", "t  1 of 10", "t  2 of 10"]
