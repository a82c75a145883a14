"""JupyterLab as a reader sees it: a headless browser opens a notebook and runs all its cells.

The server listens on the loopback device, its notebooks are a copy, its outputs go to a temporary
home. The browser is any Chromium, found by name or by DIPLLM_BROWSER; it is spoken to in its own
protocol over a websocket, so nothing but the browser must be installed. DIPLLM_SHOTS names a folder
that keeps the screenshots.
"""

import base64
import json
import os
import re
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
import websocket

from dipllm_lib.run import pipeline

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("DIPLLM_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(
        BROWSER is None,
        reason=f"no browser: install one of {', '.join(BROWSERS)} or name it with DIPLLM_BROWSER",
    ),
]
ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 600  # seconds for a notebook on a busy machine
QUIET = (  # a browser that asks nobody anything
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)
BAR = re.compile(r"\[(#*)(\.*)\]  (\d+) of (\d+)")
PANEL = '[...jupyterapp.shell.widgets("main")].find(panel => panel.title.label === "%s.ipynb")'
CELLS = """JSON.stringify(%s.content.widgets.map((cell, place) => ({
    place, kind: cell.model.type, count: cell.model.executionCount ?? null,
    outputs: (cell.model.outputs?.toJSON() ?? []).map(output => ({
        kind: output.output_type, name: output.name, mimes: Object.keys(output.data ?? {}),
        text: [output.ename ?? output.data?.["text/plain"] ?? output.text ?? ""].flat().join("")
    }))})))"""
IDLE = "%s.sessionContext.session.kernel.status === 'idle'"


def wait_for(what: str, ready, seconds: float = 120):
    """The first true value of `ready()`."""
    until = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < until, f"{what} did not come in {seconds} s"
        time.sleep(0.2)
    return found


def answers(url: str) -> bytes | None:
    """What a local server answers, or None while it does not."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.read()
    except OSError:
        return None


class Page:
    """One tab of a browser, over its own protocol."""

    def __init__(self, address: str):
        self.socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self.calls = 0
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method: str, **parameters) -> dict:
        """Send one command and wait for its answer; events in between are passed over."""
        self.calls += 1
        self.socket.send(json.dumps({"id": self.calls, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.calls:
                assert "error" not in message, (method, message)
                return message["result"]

    def value(self, expression: str):
        """What an expression is worth in the page; None while it raises an error."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return None if "exceptionDetails" in result else result["result"].get("value")

    def click(self, selector: str, text: str) -> None:
        """Press the mouse on the shown element of a selector with exactly this text."""
        places = f"""(() => {{
            const found = [...document.querySelectorAll({json.dumps(selector)})]
                .find(node => node.textContent.trim() === {json.dumps(text)});
            const box = found.getBoundingClientRect();
            return box.width ? [box.x + box.width / 2, box.y + box.height / 2] : null;
        }})()"""
        x, y = wait_for(f"{text!r} on the page", lambda: self.value(places))
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def scroll(self, name: str, place: int) -> None:
        """Bring a cell to the top, as a reader who follows the run does."""
        content = f"{PANEL % name}.content"
        self.value(f"{content}.activeCellIndex = {place}; {content}.scrollToItem({place}, 'start')")

    def screenshot(self, name: str) -> None:
        """Keep a picture of the page if somebody wants to look at it."""
        if folder := os.environ.get("DIPLLM_SHOTS"):
            data = self.call("Page.captureScreenshot", format="png")["data"]
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(data))

    def cells(self, name: str) -> list[dict]:
        """Every cell of an open notebook: place, kind, count and outputs."""
        return json.loads(self.value(CELLS % PANEL % name) or "[]")

    def idle(self, name: str) -> bool:
        """Whether the kernel of an open notebook waits."""
        return bool(self.value(IDLE % PANEL % name))


def ended(process: subprocess.Popen) -> None:
    """Stop a process and wait for it."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Path:
    """The home folder of the kernels."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def lab(outputs, tmp_path_factory):
    """Address and token of a JupyterLab on a copy of the notebooks, without anybody's settings."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {f"JUPYTER_{name}_DIR": str(folder / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    own |= {f"JUPYTERLAB_{n}_DIR": str(folder / n) for n in ("SETTINGS", "WORKSPACES")}
    own |= {"DIPLLM_HOME": str(outputs), "IPYTHONDIR": str(folder / "ipython")}
    own |= {"JUPYTER_TOKEN": secrets.token_hex(16), "PYTHONPATH": str(ROOT)}
    env = {name: v for name, v in os.environ.items() if name != "DIPLLM_PROGRESS"} | own
    command = [sys.executable, "-m", "jupyterlab", "notebooks", "--no-browser", "--allow-root"]
    command += ["--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"]
    command += ["--LabApp.expose_app_in_browser=True"]
    no_news = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (folder / "CONFIG/labconfig").mkdir(parents=True)
    (folder / "CONFIG/labconfig/page_config.json").write_text(json.dumps(no_news), "utf-8")
    with (folder / "log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for("JupyterLab", lambda: answers(f"{address}/api?token={own['JUPYTER_TOKEN']}"))
        yield address, own["JUPYTER_TOKEN"]
    finally:
        ended(server)


@pytest.fixture
def page(tmp_path_factory):
    """An empty tab of a fresh headless browser: one that leaves an unsaved notebook would ask."""
    folder = tmp_path_factory.mktemp("browser")
    command = [BROWSER, "--headless", "--remote-debugging-port=0", f"--user-data-dir={folder}"]
    command += [*QUIET, "--disable-gpu", "--window-size=1300,1500", "about:blank"]
    command += ["--no-sandbox"] * (hasattr(os, "getuid") and os.getuid() == 0)
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    told = folder / "DevToolsActivePort"
    try:
        wait_for("the browser", lambda: told.exists() and told.read_text(encoding="utf-8"))
        port = told.read_text(encoding="utf-8").split()[0]
        tabs = json.loads(wait_for("a tab", lambda: answers(f"http://127.0.0.1:{port}/json/list")))
        yield Page(next(t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page"))
    finally:
        ended(browser)


def run_all(page: Page, lab: tuple[str, str], name: str) -> tuple[list[dict], dict]:
    """Open a notebook, choose Run All Cells from the menu and wait.

    -> its code cells, and by the place of a cell every text that its bar showed.
    """
    address, token = lab
    page.call("Page.navigate", url=f"{address}/lab/tree/{name}.ipynb?reset&token={token}")
    wait_for("the kernel", lambda: page.cells(name) and page.idle(name))
    page.click(".lm-TabBar-tabLabel", f"{name}.ipynb")
    page.screenshot(f"{name[:2]}_opened")
    page.click(".lm-MenuBar-itemLabel", "Run")
    page.click(".lm-Menu-itemLabel", "Run All Cells")
    bars, until = {}, time.monotonic() + PATIENCE
    while True:
        code = [cell for cell in page.cells(name) if cell["kind"] == "code"]
        assert [o["text"] for c in code for o in c["outputs"] if o["kind"] == "error"] == []
        for cell in code:
            texts = [o["text"] for o in cell["outputs"] if BAR.search(o["text"])]
            seen = bars.setdefault(cell["place"], []) if texts else []
            if new := [text for text in texts if text not in seen]:
                seen += new
                page.scroll(name, cell["place"])
                page.screenshot(f"{name[:2]}_bar")
        if all(cell["count"] for cell in code) and page.idle(name):
            return code, bars
        assert time.monotonic() < until, f"{name} did not end: {[c['count'] for c in code]}"
        time.sleep(0.1)


def look(page: Page, name: str, place: int, shot: str) -> list[int]:
    """Scroll to a cell; width and height of the first picture in its output, once it is there."""
    page.scroll(name, place)
    cell = f"{PANEL % name}.content.widgets[{place}]"
    size = f"""(() => {{
        const picture = {cell}.node.querySelector(".jp-OutputArea-output img");
        const shown = picture.naturalWidth && picture.getBoundingClientRect().height;
        return shown ? [picture.naturalWidth, picture.naturalHeight] : null;
    }})()"""
    found = wait_for(f"the picture of cell {place}", lambda: page.value(size))
    page.screenshot(shot)
    return found


def declared(home: Path, name: str) -> set[Path]:
    node = next(node for node in pipeline.GRAPH if node.name == name)
    return set(node.outputs(home / "data/smoke", home / "figures/smoke"))


def written(home: Path, number: str) -> set[Path]:
    """What a notebook left in data and figures; a folder counts as one."""
    return {p for part in ("data", "figures") for p in (home / part / "smoke").glob(f"{number}_*")}


def steady(home: Path, number: str) -> dict[str, str]:
    """Hash of every file of a notebook in the manifest that may not differ."""
    manifest = json.loads((home / "data/smoke/MANIFEST.json").read_text(encoding="utf-8"))
    files = {n: f for n, f in manifest["files"].items() if Path(n).name.startswith(f"{number}_")}
    return {n: f["sha256"] for n, f in files.items() if not f["volatile"]}


FIGURES = {"00_overview": "00_opening", "04_ipd_mixed_pool": "04_ppi"}


def place_of(name: str, figure: str) -> int:
    """The cell of a notebook that saves a figure."""
    cells = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells
    return next(i for i, cell in enumerate(cells) if f', "{figure}")' in cell.source)


def png_size(path: Path) -> list[int]:
    """Width and height in the header of a PNG file."""
    return list(struct.unpack(">II", path.read_bytes()[16:24]))


def papermill(name: str, home: Path) -> None:
    """The same notebook as `reproduce` runs it, into another home."""
    command = [sys.executable, "-m", "dipllm_lib", "reproduce", "--profile", "smoke"]
    env = os.environ | {"DIPLLM_HOME": str(home), "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, "--only", name[:2]], cwd=home, env=env, check=True)


@pytest.mark.parametrize("name", FIGURES)
def test_run_all_cells_gives_what_papermill_gives(name, page, lab, outputs, tmp_path):
    number, place = name[:2], place_of(name, FIGURES[name])
    code, bars = run_all(page, lab, name)
    assert [cell["count"] for cell in code] == list(range(1, len(code) + 1))
    assert written(outputs, number) == declared(outputs, name)
    drawn = next(cell for cell in code if cell["place"] == place)
    assert ["image/png" in output["mimes"] for output in drawn["outputs"]] == [True]
    saved = png_size(outputs / "figures/smoke" / f"{FIGURES[name]}.png")
    assert look(page, name, place, f"{number}_figure") == saved
    for at, texts in bars.items():
        check_bar(next(cell for cell in code if cell["place"] == at), texts)
    assert number == "00" or max(map(len, bars.values())) >= 3, bars
    papermill(name, tmp_path)
    assert steady(outputs, number) == steady(tmp_path, number)


def check_bar(cell: dict, texts: list[str]) -> None:
    """One bar, text only, which moved on to its end and left one output."""
    shown = [output for output in cell["outputs"] if BAR.search(output["text"])]
    assert [output["mimes"] for output in shown] == [["text/plain"]]
    found = [tuple(map(int, BAR.search(text).groups()[2:])) for text in texts]
    assert found == sorted(set(found)) and len({total for _, total in found}) == 1, texts
    assert found[-1][0] == found[-1][1]
    marks = [len(BAR.search(text)[1]) for text in texts]
    assert marks == sorted(marks) and (len(marks) == 1 or marks[0] < marks[-1])
