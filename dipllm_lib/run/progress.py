"""One bar where a person watches, a few plain lines where a file is written.

    a terminal                      one line, rewritten
    a kernel of JupyterLab          one text display, updated by its id, no widget
    else (papermill, pipes, CI)     a line at the start, at most 8 steps by work, a line at the end

Bars appear after two seconds and change at most five times a second. Plain lines hold no times or
rates, so executed notebooks do not differ by them. `DIPLLM_PROGRESS=bar|plain|off` overrides the
choice.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator

MODES = ("bar", "plain", "off")
STEPS = 8
WAIT = 2.0  # seconds before a bar shows
PAUSE = 0.2  # seconds between two updates of a bar
WIDTH = 30


def _mode() -> str:
    """`terminal`, `display`, `plain` or `off`. Raises ValueError for an unknown override."""
    wish = os.environ.get("DIPLLM_PROGRESS")
    if wish is not None and wish not in MODES:
        raise ValueError(f"DIPLLM_PROGRESS is {wish!r}: use one of {', '.join(MODES)}")
    if wish in ("plain", "off"):
        return wish
    # inside a kernel stdout is never a terminal; JupyterLab names its session, papermill does not
    if "JPY_SESSION_NAME" in os.environ:
        return "display"
    return "terminal" if wish == "bar" or sys.stdout.isatty() else "plain"


def _line(text: str, done: int, total: int | None) -> str:
    """`games  7 of 20`, or `games  7` of an unknown number."""
    return f"{text}  {done}" + ("" if total is None else f" of {total}")


def _bar(text: str, done: int, total: int | None) -> str:
    """The line with a bar in front of the counts."""
    if not total:
        return _line(text, done, total)
    filled = WIDTH * min(done, total) // total
    return f"{text}  [{'#' * filled}{'.' * (WIDTH - filled)}]  {done} of {total}"


def _steps(total: int) -> set[int]:
    """The counts after which a plain line is printed: at most 7, the end has its own."""
    return {total * k // STEPS for k in range(1, STEPS)} - {0, total}


class _Plain:
    """Start, steps by work, end. Without a total: start and end."""

    def __init__(self, text: str, total: int | None):
        self.text, self.total = text, total
        self.steps = _steps(total) if total else set()
        print(_line(text, 0, total), flush=True)

    def update(self, done: int) -> None:
        if done in self.steps:
            print(_line(self.text, done, self.total), flush=True)

    def close(self, done: int) -> None:
        print(_line(self.text, done, self.total), flush=True)


class _Bar:
    """A bar on whatever `show(line, last)` rewrites."""

    def __init__(self, text: str, total: int | None, show: Callable[[str, bool], None]):
        self.text, self.total, self.show = text, total, show
        self.next = time.monotonic() + WAIT
        self.shown = False

    def update(self, done: int) -> None:
        if time.monotonic() >= self.next:
            self.show(_bar(self.text, done, self.total), False)
            self.next, self.shown = time.monotonic() + PAUSE, True

    def close(self, done: int) -> None:
        if self.shown:
            self.show(_bar(self.text, done, self.total), True)


def _terminal() -> Callable[[str, bool], None]:
    """Rewrites one line of the terminal."""

    def show(line: str, last: bool) -> None:
        sys.stdout.write("\r" + line + ("\n" if last else ""))
        sys.stdout.flush()

    return show


def _display() -> Callable[[str, bool], None]:
    """Updates one text display of the running cell."""
    from IPython.display import display

    handles = []

    def show(line: str, last: bool) -> None:
        data = {"text/plain": line}
        if handles:
            handles[0].update(data, raw=True)
        else:
            handles.append(display(data, raw=True, display_id=True))

    return show


def _reporter(text: str, total: int | None):
    """The reporter for where this process prints, or None when progress is off."""
    mode = _mode()
    if mode == "off":
        return None
    if mode == "plain":
        return _Plain(text, total)
    return _Bar(text, total, _terminal() if mode == "terminal" else _display())


def track(iterable: Iterable, total: int | None = None, text: str = "") -> Iterator:
    """Yields from `iterable` and reports how far it is; `total` defaults to its length, if any."""
    if total is None and hasattr(iterable, "__len__"):
        total = len(iterable)
    reporter = _reporter(text or "progress", total)
    if reporter is None:
        yield from iterable
        return
    done = 0
    for item in iterable:
        yield item
        done += 1
        reporter.update(done)
    reporter.close(done)
