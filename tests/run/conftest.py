"""A small chain of notebooks, made with nbformat in a temporary folder, and a process that runs it.

01_first draws numbers and keeps two tasks; 02_second reads them and writes a table, a folder and a
figure; 03_third reads the table. Faults are added as code cells by the tests.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from dipllm_lib.run import graph, pipeline

CHAIN = (
    graph.Notebook(
        "01_first", minutes=(0.1, 1, 10), files=("01_draws.jsonl",), tables={"01_sum": graph.CLOSE}
    ),
    graph.Notebook(
        "02_second",
        minutes=(0.1, 1, 10),
        reads=("01_draws.jsonl",),
        files=("02_model",),
        tables={"02_scores": graph.STATISTICAL},
        figures=("02_scores",),
    ),
    graph.Notebook(
        "03_third", minutes=(0.1, 1, 10), reads=("02_scores",), tables={"03_end": graph.EXACT}
    ),
)
CELLS = {
    "01_first": [
        "from dipllm_lib.run import profiles, seeding, store\nimport pandas as pd",
        "SETTINGS",
        "draw = lambda k: shelf.task(f'draw_{k}', lambda: seeding.child(seed, k).random())\n"
        "draws = [draw(0), draw(1)]",
        "lines = shelf.save_jsonl([{'x': x} for x in draws], '01_draws.jsonl')",
        "shelf.save_table(pd.DataFrame({'sum': [sum(draws)]}), '01_sum')",
        "card = shelf.provenance()",
    ],
    "02_second": [
        "from dipllm_lib.run import plotting, profiles, store\nimport pandas as pd",
        "SETTINGS",
        "x = [row['x'] for row in shelf.load_jsonl('01_draws.jsonl')]",
        "scores = pd.DataFrame({'agent': ['lm', 'anchor'], 'mean': x})\n"
        "scores['low'], scores['high'] = scores['mean'] - 0.1, scores['mean'] + 0.1",
        "shelf.save_table(scores, '02_scores')",
        "with shelf.save_folder('02_model') as folder:\n"
        "    (folder / 'weights.md').write_text(str(x), encoding='utf-8')",
        "figure, ax = plotting.axes()\n"
        "plotting.intervals(scores, 'agent', 'mean', 'low', 'high', ax)",
        "shelf.save_figure(figure, '02_scores')",
        "card = shelf.provenance()",
    ],
    "03_third": [
        "from dipllm_lib.run import profiles, store",
        "SETTINGS",
        "shelf.save_table(shelf.load_table('02_scores')[['agent']], '03_end')",
        "card = shelf.provenance()",
    ],
}
SETTINGS = "p = profiles.load(profile, seed)\nshelf = store.Shelf('{name}', p, p.dip)"
DRIVER = """
import sys
sys.path.insert(0, {tests!r})
import importlib.util
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
spec = importlib.util.spec_from_file_location("chain_of_tests", {conftest!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from dipllm_lib.run import pipeline
from dipllm_lib.run.places import Refused
from pathlib import Path
try:
    run = pipeline.plan("smoke", {seed}, module.CHAIN, Path({folder!r}))
    sys.exit(pipeline.reproduce(run, **{options!r}))
except Refused as error:
    print(f"error: {{error}}", file=sys.stderr)
    sys.exit(1)
"""


def write_notebook(folder: Path, name: str, cells: list[str], prose: str = "A step.") -> Path:
    """A notebook of the house shape: title, imports, parameters, settings, then prose and code."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    notebook.cells.append(nbformat.v4.new_markdown_cell(f"# {name}"))
    parameters = nbformat.v4.new_code_cell('profile = "smoke"\nseed = 0')
    parameters.metadata["tags"] = ["parameters"]
    for number, cell in enumerate(cells):
        text = SETTINGS.format(name=name) if cell == "SETTINGS" else cell
        notebook.cells.append(nbformat.v4.new_code_cell(text))
        if number == 0:
            notebook.cells.append(parameters)
        notebook.cells.append(nbformat.v4.new_markdown_cell(prose))
    path = folder / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


class Chain:
    """The notebooks of CHAIN in a folder, and ways to run them."""

    def __init__(self, folder: Path, home: Path):
        self.folder, self.home = folder, home
        self.data, self.figures = home / "data" / "smoke", home / "figures" / "smoke"
        folder.mkdir()
        for name in CELLS:
            self.write(name)

    def write(self, name: str, extra: dict[int, str] | None = None, prose: str = "A step.") -> None:
        """Write one notebook, `extra` cells put in front of those with the given index."""
        cells = list(CELLS[name])
        for index in sorted(extra or {}, reverse=True):
            cells.insert(index, extra[index])
        write_notebook(self.folder, name, cells, prose)

    def run(self, seed: int = 0, package: Path | None = None) -> graph.Run:
        """The plan, for calls in this process."""
        options = {} if package is None else {"package": package}
        return pipeline.plan("smoke", seed, CHAIN, self.folder, **options)

    def reproduce(self, **options) -> int:
        """Run in this process; returns the exit code."""
        return pipeline.reproduce(self.run(), **options)

    def start(self, home: Path | None = None, seed: int = 0, **options) -> subprocess.Popen:
        """Run in a process of its own session, stdin closed; `options` go to `reproduce`."""
        code = DRIVER.format(
            tests=str(Path(__file__).parent),
            conftest=__file__,
            folder=str(self.folder),
            options=options,
            seed=seed,
        )
        environment = {**os.environ, "DIPLLM_HOME": str(home or self.home)}
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def states(self) -> dict[str, str]:
        """Notebook -> why it must run, or None."""
        from dipllm_lib.run import skip

        return {notebook.name: skip.reason(self.run(), notebook) for notebook in CHAIN}

    def manifest(self) -> dict:
        """The content of MANIFEST.json."""
        return json.loads((self.data / "MANIFEST.json").read_text(encoding="utf-8"))

    def hashes(self) -> dict[str, str]:
        """Path -> hash of everything that two equal runs must share."""
        entries = self.manifest()["files"]
        return {name: e["sha256"] for name, e in entries.items() if not e["volatile"]}


@pytest.fixture
def chain(tmp_path, home):
    """The chain in a fresh folder with a fresh home."""
    return Chain(tmp_path / "notebooks", home)


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A folder for one finished run of the chain, which each test copies."""
    return tmp_path_factory.mktemp("template")


@pytest.fixture
def finished(chain, template):
    """The chain after a whole run."""
    kept = template / "home"
    if not kept.exists():
        run = chain.start(home=kept)
        out, err = run.communicate(timeout=600)
        assert (run.returncode, err) == (0, "")
        lines = out.splitlines()
        assert [line.split()[:2] for line in lines[:3]] == [
            ["01_first", "done"],
            ["02_second", "done"],
            ["03_third", "done"],
        ]
        assert lines[0].endswith(" s, 4 files") and lines[1].endswith(" s, 6 files")
        assert lines[3].startswith("total ") and "peak memory of a process" in lines[3]
    shutil.copytree(kept, chain.home, dirs_exist_ok=True)
    return chain


def descendants(process: int) -> list[psutil.Process]:
    """All living processes below `process`."""
    return psutil.Process(process).children(recursive=True)


def wait_for(condition, seconds: float, what: str):
    """Poll until `condition()` is true and return its value; fail after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def all_gone(processes: list[psutil.Process], seconds: float) -> None:
    """Fail if one of `processes` is alive after `seconds`."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    assert not alive, f"alive after {seconds} s: {alive}"


@pytest.fixture
def helpers():
    """The functions above, for test modules."""
    return Helpers


class Helpers:
    """Names that test modules use."""

    descendants = staticmethod(descendants)
    wait_for = staticmethod(wait_for)
    all_gone = staticmethod(all_gone)
    write_notebook = staticmethod(write_notebook)
    dedent = staticmethod(textwrap.dedent)
    INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
