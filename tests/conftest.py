"""What all tests share: outputs never go into the repository, nothing contacts a network."""

import os

import matplotlib
import matplotlib.pyplot as plt
import pytest

from dipllm_lib.run import provenance

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
matplotlib.use("Agg")


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the frozen corpus and the golden playthroughs anew and show what changed",
    )


def pytest_collection_modifyitems(items):
    """The run of the chain first: it is the longest, and two files are run at a time. What only
    looks at it comes last, so that nobody waits for it.
    """
    order = {"test_smoke.py": 0, "test_faults.py": 2, "test_killed.py": 2}
    items.sort(key=lambda item: order.get(item.path.name, 1))


@pytest.fixture(autouse=True)
def closed_figures():
    """Figures that a test has drawn do not stay open for the next one."""
    yield
    plt.close("all")


@pytest.fixture
def rewrite(request) -> bool:
    """Whether recorded results are to be written instead of compared."""
    return request.config.getoption("--rewrite")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A temporary home folder for data and figures, set as DIPLLM_HOME."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("DIPLLM_HOME", str(folder))
    return folder


def pytest_terminal_summary(terminalreporter):
    """The largest process of the whole test run, kernels and workers included."""
    terminalreporter.write_line(f"peak memory of a process: {provenance.peak_mb()} MiB")
