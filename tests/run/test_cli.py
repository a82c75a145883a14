"""python -m dipllm_lib: flags, exit codes, one line for what cannot be done."""

import json
import subprocess
import sys

import pytest

from dipllm_lib import __main__ as cli
from dipllm_lib import bench, bench_table
from dipllm_lib.run import pipeline, places


@pytest.mark.parametrize(
    "words",
    [
        ["reproduce", "--sede", "1"],
        ["reproduce", "--see", "1"],
        ["reproduce", "--seed", "three"],
        ["reproduce", "--seed", "-1"],
        ["reproduce", "--profile", "fast"],
        ["reproduce", "--prof", "smoke"],
        ["reproduce", "03"],
        ["list", "--force"],
        ["mend"],
        [],
    ],
)
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    assert "error:" in capsys.readouterr().err.splitlines()[-1]


def test_flags_reach_the_pipeline(monkeypatch):
    calls = []
    monkeypatch.setattr(
        pipeline, "reproduce", lambda run, *options: calls.append((run.profile, options)) or 130
    )
    words = ["reproduce", "--profile", "smoke", "--seed", "4", "--from", "02", "--force"]
    assert cli.main(words) == 130
    assert cli.main(["reproduce", "--only", "11"]) == 130
    assert [(p.name, p.seed, options) for p, options in calls] == [
        ("smoke", 4, ("02", None, True)),
        ("cpu", 0, (None, "11", False)),
    ]


def test_refusal_is_one_line(monkeypatch, capsys):
    def refuse(run, *options):
        raise places.Refused("not enough disk")

    monkeypatch.setattr(pipeline, "reproduce", refuse)
    assert cli.main(["reproduce"]) == 1
    assert capsys.readouterr() == ("", "error: not enough disk\n")


def test_home_without_rights_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("DIPLLM_HOME", str(tmp_path / "file"))
    assert cli.main(["reproduce", "--profile", "smoke"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: [Errno 20] Not a directory") and len(err.splitlines()) == 1


def test_unknown_notebook(home, capsys):
    assert cli.main(["reproduce", "--profile", "smoke", "--only", "99"]) == 1
    assert capsys.readouterr().err.startswith("error: there is no notebook 99: 00, 01")


def test_verify_without_a_reference(home, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(places, "reference", lambda: tmp_path / "reference")
    assert cli.main(["verify", "--profile", "smoke"]) == 1
    line = "error: there is no reference run in data/reference yet: nothing to compare with\n"
    assert capsys.readouterr() == ("", line)


def test_interrupt_before_the_first_notebook(monkeypatch, capsys):
    def interrupt(run, *options):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "reproduce", interrupt)
    assert cli.main(["reproduce"]) == 130
    assert capsys.readouterr().err == "stopped\n"


@pytest.fixture
def benches(monkeypatch):
    """Two benches of one row each, which say how they were called, on a machine without a name."""

    def fake(ours: float):
        row = {"name": "judged, boards", "ours": ours, "peer": 3.0, "unit": "phases/s"}
        return lambda quick, note: [row | {"ratio": (ours / 3) / (2 if quick else 1)}]

    monkeypatch.setattr(bench, "BENCHES", {"rules": fake(600.0), "games": fake(2.0)})
    monkeypatch.setattr(bench_table, "machine", lambda: "two cores, Python 3.11")


GAMES = {
    "bench": "games",
    "name": "judged, boards",
    "ours": 2.0,
    "peer": 3.0,
    "unit": "phases/s",
    "ratio": 2 / 3,
    "machine": "two cores, Python 3.11",
}


def test_bench(benches, capsys):
    assert cli.main(["bench", "games", "games", "--json"]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line) for line in shown.out.splitlines()] == [GAMES]
    assert shown.err == "# two cores, Python 3.11\n"
    assert cli.main(["bench", "games", "--quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == GAMES | {"ratio": 1 / 3}
    assert cli.main(["bench"]) == cli.main(["bench", "all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == lines[3:] and lines[0].split() == ["name", "ours", "peer", "unit", "ratio"]
    assert [line.split()[2:] for line in lines[1:3]] == [
        ["600", "3", "phases/s", "200"],
        ["2", "3", "phases/s", "0.667"],
    ]
    assert cli.main(["bench", "rulez"]) == 2
    assert capsys.readouterr().err == "no bench rulez: there are rules, games\n"


def test_bench_writes_one_csv(benches, tmp_path, capsys):
    assert cli.main(["bench", "all", "--csv", str(tmp_path / "bench.csv")]) == 0
    assert (tmp_path / "bench.csv").read_text(encoding="utf-8") == (
        "bench,name,ours,peer,unit,ratio,machine\n"
        'rules,"judged, boards",600,3,phases/s,200,"two cores, Python 3.11"\n'
        'games,"judged, boards",2,3,phases/s,0.6667,"two cores, Python 3.11"\n'
    )
    capsys.readouterr()
    nowhere = tmp_path / "none" / "bench.csv"
    assert cli.main(["bench", "--csv", str(nowhere)]) == 2
    assert f"there is no folder {nowhere.parent}" in capsys.readouterr().err
    assert cli.main(["bench", "rules-diff", "--csv", str(tmp_path / "bench.csv")]) == 2


def test_a_bench_without_what_it_needs_is_one_line(benches, monkeypatch, capsys):
    def without(quick, note):
        raise FileNotFoundError("the model package is not installed: run `pip install it`")

    monkeypatch.setitem(bench.BENCHES, "rules", without)
    assert cli.main(["bench", "all"]) == 1
    assert capsys.readouterr().err.splitlines()[1:] == [
        "error: the model package is not installed: run `pip install it`"
    ]


def test_as_a_command_from_another_folder(home, tmp_path):
    command = [sys.executable, "-m", "dipllm_lib", "list", "--profile", "smoke"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines() if line[0] != " "]
    assert names == [notebook.name for notebook in pipeline.GRAPH]
