"""The command `verify`: a finished run of the small chain against a reference run made of it."""

import dataclasses
import json

import pandas as pd
import pytest

from dipllm_lib.run import files, pipeline, provenance, reference, verify
from dipllm_lib.run.graph import CLOSE, EXACT, STATISTICAL, TIMING
from dipllm_lib.run.places import Refused

pytestmark = pytest.mark.slow


@pytest.fixture
def both(finished, tmp_path, monkeypatch):
    """The run and the folder of its reference run."""
    root = tmp_path / "repository"
    files.write_text(root / "README.md", "| `cpu` | c | - | - | - |\n")
    monkeypatch.setattr(reference, "check", lambda run, root: None)
    monkeypatch.setattr(reference, "git", lambda root, *words: "0" * 40)
    reference.replace(finished.run(), root)
    return finished, root / "data" / "reference"


@pytest.fixture
def run_verify(both, capsys):
    """() -> (exit code, lines) of `verify`, with the rule of 02_scores as given."""

    def call(rule=STATISTICAL):
        chain, folder = both
        run = chain.run()
        first, second, third = run.graph
        second = dataclasses.replace(second, tables={"02_scores": rule})
        capsys.readouterr()
        code = verify.verify(dataclasses.replace(run, graph=(first, second, third)), folder)
        return code, capsys.readouterr().out.splitlines()

    return call


def change_manifest(folder, change):
    """`change(content)` on the reference run's manifest."""
    path = folder / "MANIFEST.json"
    content = files.read_json(path)
    change(content)
    files.write_text(path, json.dumps(content))


def plant(folder, name, table):
    """Another table in the reference run, as if it had been kept so."""
    path = folder / f"{name}.csv"
    files.write_text(path, table.to_csv(index=False))
    entry = {"bytes": path.stat().st_size, "sha256": files.sha256(path)}
    change_manifest(folder, lambda c: c["kept"].update({f"data/reference/{name}.csv": entry}))


def elsewhere(folder, **changes):
    """The reference run becomes that of another machine."""
    changes = changes or {"threads": 99}
    change_manifest(folder, lambda c: c["run"]["machine"].update(changes))


def scores(folder):
    return pd.read_csv(folder / "02_scores.csv")


def test_equal_runs(run_verify):
    code, lines = run_verify()
    assert code == 0
    assert lines[0] == "equal machine: every table and figure must be exact"
    assert lines[-1] == "3 of 3 tables agree with the reference run"
    assert [line.split()[:3] for line in lines[1:-1]] == [
        ["01_sum", "exact", "same"],
        ["02_scores", "exact", "same"],
        ["03_end", "exact", "same"],
        ["figures", "exact", "same"],
    ]


def test_equal_runs_elsewhere(both, run_verify):
    elsewhere(both[1])
    code, lines = run_verify()
    assert code == 0
    assert lines[0] == "another machine: each table within its rule, figures are not compared"
    assert [line.split()[:2] for line in lines[1:-1]] == [
        ["01_sum", "close"],
        ["02_scores", "statistical"],
        ["03_end", "exact"],
    ]


@pytest.mark.parametrize(
    ("rule", "shift", "here", "there"),
    [(EXACT, 1e-5, 1, 1)]
    + [(CLOSE, 1e-6, 1, 0), (CLOSE, 0.01, 1, 1)]
    + [(STATISTICAL, 0.19, 1, 0), (STATISTICAL, 0.21, 1, 1)]
    + [(TIMING, 9.0, 0, 0)],
)
def test_a_planted_change(both, run_verify, rule, shift, here, there):
    """Own 0.1 around the mean, factor 2: 0.19 passes and 0.21 does not."""
    folder = both[1]
    table = scores(folder)
    table.loc[1, "mean"] += shift
    plant(folder, "02_scores", table)
    code, lines = run_verify(rule)
    assert code == here
    assert f"{3 - here} of 3 tables agree" in lines[-1]
    rows = [line for line in lines if line.startswith("    line 3, agent anchor: mean 0.")]
    assert len(rows) == here
    told = "within" if there == 0 else "outside"
    word = f"{told} its rule for other machines, {rule.kind}"
    assert any(word in line for line in lines) is (here == 1 and rule is not EXACT)
    elsewhere(folder)
    code, lines = run_verify(rule)
    assert code == there
    rows = [line for line in lines if line.startswith("    line 3, agent anchor: mean 0.")]
    assert len(rows) == there


@pytest.mark.parametrize("key", ["cpu", "threads", "task_threads", "python", "lock"])
def test_what_makes_another_machine(both, run_verify, key):
    elsewhere(both[1], **{key: "other"})
    assert run_verify()[1][0].startswith("another machine")


def test_what_does_not(both, run_verify):
    elsewhere(both[1], cores=99, memory_gb=0.1, platform="other")
    assert run_verify()[1][0].startswith("equal machine")


def test_other_code_and_versions_are_noted(both, run_verify):
    def change(content):
        content["run"]["source"] = "0"
        content["run"]["versions"]["numpy"] = "1.0"

    change_manifest(both[1], change)
    own = provenance.versions()["numpy"]
    assert run_verify()[1][1:3] == [
        "note: dipllm_lib is not the code of the reference run",
        f"note: numpy {own}, reference 1.0",
    ]


def test_a_figure_with_other_bytes(both, run_verify):
    change_manifest(both[1], lambda c: c["figures"].update({"02_scores": "0"}))
    code, lines = run_verify()
    assert code == 1
    place = next(k for k, line in enumerate(lines) if line.startswith("figures"))
    assert lines[place].split()[1:] == ["exact", "DIFFERS", "bytes:", "1", "of", "1", "differ"]
    assert lines[place + 1] == "    02_scores.png has other bytes"
    assert lines[-1] == "3 of 3 tables agree with the reference run"
    elsewhere(both[1])
    assert run_verify()[0] == 0


def test_other_columns_and_rows(both, run_verify):
    folder = both[1]
    table = scores(folder)
    plant(folder, "02_scores", table.rename(columns={"low": "least"}))
    code, lines = run_verify()
    assert code == 1 and "columns: least missing; low new" in "\n".join(lines)
    plant(folder, "02_scores", table[:1])
    code, lines = run_verify()
    assert code == 1 and "    only in this run: agent anchor" in lines


def forget(folder, name):
    (folder / f"{name}.csv").unlink()
    change_manifest(folder, lambda c: c["kept"].pop(f"data/reference/{name}.csv"))


def test_tables_that_one_side_lacks(both, run_verify):
    folder = both[1]
    forget(folder, "01_sum")
    plant(folder, "02_older", pd.DataFrame({"x": [1]}))
    code, lines = run_verify()
    assert code == 1
    assert [line.split(": ", 1)[1] for line in lines if "DIFFERS" in line] == [
        "the reference run has no such table",
        "only the reference has this table",
    ]


def test_notebooks_that_are_not_complete(both, run_verify, finished):
    """Their tables are not compared, the others are; the run as a whole has not passed."""
    (finished.data / "03_end.csv").unlink()
    with finished.run().manifest.change() as content:
        content["run"] = {}
    code, lines = run_verify()
    assert code == 1
    assert lines[-2:] == [
        "03_third  not compared: 03_end.csv is missing",
        "2 of 2 tables agree with the reference run",
    ]
    assert not any(line.startswith("03_end") for line in lines)


def test_nothing_to_compare(both, tmp_path, finished):
    chain, folder = both
    with pytest.raises(Refused, match="there is no reference run in data/reference yet"):
        verify.verify(chain.run(), tmp_path / "nowhere")
    with pytest.raises(Refused, match="the reference run has seed 0, this one 1: not comparable"):
        verify.verify(chain.run(seed=1), folder)
    cpu = pipeline.plan("cpu", 0, chain.run().graph, chain.folder)
    with pytest.raises(Refused, match="the reference run has profile smoke, this one cpu"):
        verify.verify(cpu, folder)
    change_manifest(folder, lambda c: c["run"].update(profile="cpu"))
    with pytest.raises(Refused, match="no notebook of profile cpu is complete: run `python -m"):
        verify.verify(cpu, folder)


def test_a_reference_run_that_is_not_in_order(both):
    chain, folder = both
    (folder / "01_sum.csv").write_text("sum\n1\n", encoding="utf-8")
    changed = "data/reference/01_sum.csv is not as the reference run left it: put it back with"
    with pytest.raises(Refused, match=changed):
        verify.verify(chain.run(), folder)
    files.write_text(folder.with_name(".reference.swap.json"), "[true]\n")
    with pytest.raises(Refused, match="was being replaced when that was stopped"):
        verify.verify(chain.run(), folder)
