"""What all tests share: outputs never go into the repository, nothing contacts a network."""

import os

import matplotlib
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
matplotlib.use("Agg")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A temporary home folder for data and figures, set as DIPLLM_HOME."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("DIPLLM_HOME", str(folder))
    return folder
