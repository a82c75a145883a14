"""What is asked of Ray before a task runs, and that each refusal is one line. Needs no Ray."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dipllm_lib import __main__ as cli
from dipllm_lib.run import parallel, ray_backend, ray_connect, task_env
from dipllm_lib.run.places import Refused

SMOKE = ["reproduce", "--profile", "smoke"]


def one_line(capsys, code: int, words: list[str]) -> str:
    """Run a command that must fail with `code`; its one line."""
    assert cli.main(words) == code
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1
    return shown.err.strip()


def test_unknown_backend(monkeypatch, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([*SMOKE, "--backend", "dask"])
    assert stop.value.code == 2
    assert "invalid choice: 'dask'" in capsys.readouterr().err.splitlines()[-1]
    monkeypatch.setenv("DIPLLM_BACKEND", "dask")
    with pytest.raises(ValueError, match="DIPLLM_BACKEND must be one of process, ray, got 'dask'"):
        parallel.map(abs, [1, 2], 2, 1)


def test_an_address_without_ray(home, capsys):
    said = one_line(capsys, 2, [*SMOKE, "--address", "127.0.0.1:6379"])
    assert said == "--address belongs to Ray: write --backend ray --address HOST:PORT"


def test_ray_is_missing(home, monkeypatch, capsys):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setitem(sys.modules, "ray", None)
    line = "Ray is not installed: run `python -m pip install -e '.[ray]'` in the repository"
    assert one_line(capsys, 1, [*SMOKE, "--backend", "ray"]) == f"error: {line}"
    monkeypatch.setitem(os.environ, "DIPLLM_BACKEND", "ray")
    with pytest.raises(Refused, match="Ray is not installed"):
        parallel.map(abs, [1, 2], 2, 1)


def test_flags_decide_and_not_the_environment(home, monkeypatch):
    monkeypatch.setenv("DIPLLM_BACKEND", "ray")
    seen = []
    monkeypatch.setattr(
        cli.pipeline, "reproduce", lambda run, *options: seen.append(parallel.backend()) or 0
    )
    assert cli.main(SMOKE) == 0
    assert seen == ["process"] and os.environ["DIPLLM_BACKEND"] == "ray"


@pytest.mark.parametrize("text", ["127.0.0.1", "6379", "host:0", "a b:1", "ray://host:1", ":9"])
def test_no_address(text):
    with pytest.raises(Refused, match="an address of Ray is HOST:PORT, like 10.0.0.1:6379, got"):
        ray_connect.address(text)


def test_an_address(capsys):
    assert ray_connect.address("node-7.cluster:6379") == "node-7.cluster:6379"


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.skipif(not ray_connect.installed(), reason="Ray is not installed")
@pytest.mark.parametrize("where", ["127.0.0.1:9", "somewhere"])
def test_nobody_listens(home, where):
    words = [sys.executable, "-m", "dipllm_lib", *SMOKE, "--backend", "ray", "--address", where]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    expected = {
        "127.0.0.1:9": "error: nothing answers at 127.0.0.1:9 (Connection refused): start Ray "
        "there with `ray start --head --port 9`, or mend the address\n",
        "somewhere": "error: an address of Ray is HOST:PORT, like 10.0.0.1:6379, got 'somewhere'\n",
    }
    assert done.stderr == expected[where]


def test_what_ray_says_about_a_start_is_one_line():
    with pytest.raises(Refused, match="^cannot connect to here: two lines; of text$"):
        with ray_connect.Refusals("here", KeyError):
            raise ConnectionError("two\nlines") from OSError("of  text")
    with pytest.raises(Refused, match="^cannot connect to here: 'a key'$"):
        with ray_connect.Refusals("here", KeyError):
            raise KeyError("a key")
    with pytest.raises(Refused, match=r"^here did not start in time, is .* Run again: late$"):
        with ray_connect.Refusals("here", KeyError):
            raise Exception("late")
    with pytest.raises(IndexError), ray_connect.Refusals("here", KeyError):
        raise IndexError("of ours")


def test_environment_of_a_worker(home, monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("DIPLLM_BACKEND", "ray")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    monkeypatch.setenv("SECRET", "stays here")
    env = ray_backend.environment(3)
    assert {env[name] for name in task_env.THREAD_VARIABLES} == {"3"}
    assert env["OPENBLAS_CORETYPE"] == "Haswell" and env["DIPLLM_HOME"] == str(home)
    assert env["DIPLLM_BACKEND"] == "process" and env["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    root, rest = env["PYTHONPATH"].split(os.pathsep)
    assert (Path(root) / "pyproject.toml").exists() and rest == "elsewhere"
    assert "SECRET" not in env


def test_a_machine_that_differs_is_named(home):
    own, mark = ray_backend.fingerprint(), home / "mark"
    mark.touch()
    ray_backend._agree(json.dumps(own), str(mark))
    with pytest.raises(Refused, match=r"^the machine \S+ of the cluster has numpy \S+, not 1.0: "):
        ray_backend._agree(json.dumps(own | {"numpy": "1.0"}), str(mark))
    with pytest.raises(Refused, match=f"does not see {home}: set DIPLLM_HOME to a folder that all"):
        ray_backend._agree(json.dumps(own), str(home / "gone"))


def test_the_mark_is_gone_after_a_map(home):
    with ray_backend._mark() as mark:
        assert Path(mark).is_relative_to(home) and Path(mark).exists()
    assert not Path(mark).exists()
