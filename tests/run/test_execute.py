"""Judging a notebook run: on notebooks made by hand, and on real kernels."""

import os
import sys

import nbformat
import pytest

from dipllm_lib.run import execute, profiles
from dipllm_lib.run.execute import Failed
from dipllm_lib.run.places import Refused

PROFILE = profiles.load("smoke", 0)
PARAMETERS = {"profile": "smoke", "seed": 0}


def cell(text="x = 1", count=1, outputs=(), tags=()):
    made = nbformat.v4.new_code_cell(text, execution_count=count, outputs=list(outputs))
    made.metadata["tags"] = list(tags)
    return made


def stream(name, text):
    return nbformat.v4.new_output("stream", name=name, text=text)


def error(name, value):
    return nbformat.v4.new_output("error", ename=name, evalue=value, traceback=[])


def judged(*cells):
    execute.judge(nbformat.v4.new_notebook(cells=list(cells)))


def test_a_good_run():
    prose = nbformat.v4.new_markdown_cell("text")
    judged(
        prose, cell(), cell(count=2, tags=["injected-parameters"]), cell("", None), cell(count=3)
    )
    judged(cell(outputs=[stream("stdout", "1\n"), stream("stderr", "\n")]))


@pytest.mark.parametrize(
    ("cells", "where", "cause"),
    [
        ([cell(), cell("y = 2\nz", None)], "cell 2 (y = 2)", "ran as number None, not 2"),
        ([cell(count=2)], "cell 1 (x = 1)", "ran as number 2, not 1"),
        ([cell(), cell(count=3)], "cell 2 (x = 1)", "ran as number 3, not 2"),
        ([cell(outputs=[error("SystemExit", "0")])], "cell 1 (x = 1)", "SystemExit: 0"),
        (
            [cell(outputs=[error("E", "\x1b[31mfirst\nlast\x1b[0m\n")])],
            "cell 1 (x = 1)",
            "E: last",
        ),
        (
            [cell(), cell("y", 2, tags=["injected-parameters"]), cell("z", None)],
            "cell 2 (z)",
            "ran as number None, not 3",
        ),
        (
            [cell(outputs=[stream("stderr", "\nw.py:3: Warning: old\n")])],
            "cell 1 (x = 1)",
            "wrote to stderr: w.py:3: Warning: old",
        ),
    ],
)
def test_bad_runs(cells, where, cause):
    with pytest.raises(Failed) as failure:
        judged(*cells)
    assert failure.value.where == where
    assert failure.value.cause.startswith(cause)


def test_unknown_and_missing_parameters(tmp_path, helpers):
    path = helpers.write_notebook(tmp_path, "01_first", ["x = 1"])
    execute.check_parameters(path, PARAMETERS)
    with pytest.raises(Refused, match="01_first.ipynb has no parameter sede, only profile, seed"):
        execute.run(path, {"profile": "smoke", "sede": 1}, tmp_path / "copy.ipynb", PROFILE)
    assert not (tmp_path / "copy.ipynb").exists()
    with pytest.raises(Refused, match="there is no notebook 02_x.ipynb"):
        execute.check_parameters(tmp_path / "02_x.ipynb", PARAMETERS)


def test_one_tagged_cell(tmp_path):
    path = tmp_path / "01_first.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell(count=None)]), path)
    with pytest.raises(Refused, match="has 0 cells tagged `parameters`, not one"):
        execute.parameter_names(path)


def test_code_must_be_plain_python(tmp_path, helpers):
    path = helpers.write_notebook(tmp_path, "01_first", ["x = 1", "!ls"])
    with pytest.raises(Refused, match="01_first.ipynb, code cell 3 is not plain Python"):
        execute.code(path)


def test_environment(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "x")
    variables = execute.environment(PROFILE)
    assert variables["OMP_NUM_THREADS"] == variables["MKL_NUM_THREADS"] == "2"
    assert variables["OPENBLAS_NUM_THREADS"] == "1"
    assert variables["HF_HUB_OFFLINE"] == variables["TQDM_DISABLE"] == "1"
    assert variables["JPY_SESSION_NAME"] is None
    assert "PYTHONHASHSEED" not in variables
    assert execute.environment(profiles.load("paper", 0))["HF_HUB_OFFLINE"] is None


# real kernels


def run(tmp_path, helpers, *cells):
    path = helpers.write_notebook(tmp_path, "01_first", ["import os, sys", *cells])
    copy = tmp_path / "executed" / "copy.ipynb"
    execute.run(path, PARAMETERS, copy, PROFILE)
    return nbformat.read(copy, as_version=4)


def failure_of(tmp_path, helpers, *cells):
    with pytest.raises(Failed) as failure:
        run(tmp_path, helpers, *cells)
    return failure.value


@pytest.mark.slow
def test_kernel_of_a_good_run(tmp_path, helpers, monkeypatch, capfd):
    """Environment, parameters, interpreter; the parent's variables are as before; no noise."""
    monkeypatch.setenv("JPY_SESSION_NAME", "x.ipynb")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    names = ["OMP_NUM_THREADS", "HF_HUB_OFFLINE", "TQDM_DISABLE", "TOKENIZERS_PARALLELISM"]
    names += ["CUBLAS_WORKSPACE_CONFIG", "DIPLLM_PROGRESS", "DIPLLM_STATIC", "JPY_SESSION_NAME"]
    notebook = run(
        tmp_path,
        helpers,
        f"[os.environ.get(name) for name in {names}]",
        "[sys.executable, profile, seed, sys.flags.hash_randomization]",
        "from dipllm_lib.run import progress\nfor k in progress.track(range(1000)): pass",
    )
    shown = [c.outputs for c in notebook.cells if c.cell_type == "code" and c.outputs]
    expected = ["2", "1", "1", "false", ":4096:8", "plain", "1", None]
    assert shown[0][0].data["text/plain"] == str(expected)
    assert shown[1][0].data["text/plain"] == f"['{sys.executable}', 'smoke', 0, 1]"
    printed = "".join(output.text for output in shown[2])
    assert len(printed.splitlines()) == 9 and "\r" not in printed
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert os.environ["JPY_SESSION_NAME"] == "x.ipynb"
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_error_in_a_cell(tmp_path, helpers):
    failure = failure_of(tmp_path, helpers, "x = [1]\nx[3]", "y = 2")
    assert failure.where == "cell 5 (x = [1])"
    assert failure.cause == "IndexError: list index out of range"
    assert (tmp_path / "executed" / "copy.ipynb").exists()


@pytest.mark.slow
def test_exit_in_a_cell(tmp_path, helpers):
    failure = failure_of(tmp_path, helpers, "sys.exit(0)", "y = 2")
    assert failure.where == "cell 5 (sys.exit(0))"
    assert failure.cause.startswith("SystemExit")


@pytest.mark.slow
def test_dead_kernel_and_warning_and_input(tmp_path, helpers):
    failure = failure_of(tmp_path, helpers, "os._exit(0)")
    assert failure.where == "cell 5 (os._exit(0))"
    assert failure.cause == "the kernel died: killed, or out of memory"
    failure = failure_of(tmp_path, helpers, "print('w', file=sys.stderr)")
    assert failure.cause == "wrote to stderr: w"
    failure = failure_of(tmp_path, helpers, "input('?')")
    assert failure.cause.startswith("StdinNotImplementedError")


@pytest.mark.slow
def test_own_stderr_of_the_kernel_is_passed_on(tmp_path, helpers, capfd):
    run(tmp_path, helpers, "n = os.write(os.dup(sys.__stderr__.fileno()), b'plain words\\n')")
    assert "plain words" in capfd.readouterr().err
