"""python -m dipllm_lib: flags, exit codes, one line for what cannot be done."""

import json
import subprocess
import sys
import types

import pytest

from dipllm_lib import __main__ as cli
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


def test_bench(monkeypatch, capsys):
    module = types.ModuleType("dipllm_lib.bench")
    row = {"name": "rules", "ours": 1.5, "peer": 3.0, "unit": "ms", "ratio": 2.0}
    module.machine = lambda: "one core"
    module.BENCHES = {"rules": lambda quick, note: [row | {"ours": 1.0 if quick else 1.5}]}
    monkeypatch.setitem(sys.modules, "dipllm_lib.bench", module)
    assert cli.main(["bench", "rules", "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [row]
    assert cli.main(["bench", "--quick", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ours"] == 1.0
    assert cli.main(["bench"]) == 0
    shown = capsys.readouterr()
    assert shown.out.split() == ["rules", "1.5", "3", "ms", "2"]
    assert shown.err == "# one core\n"
    assert cli.main(["bench", "rulez"]) == 2
    assert capsys.readouterr().err == "no bench rulez: there are rules\n"


def test_as_a_command_from_another_folder(home, tmp_path):
    command = [sys.executable, "-m", "dipllm_lib", "list", "--profile", "smoke"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines() if line[0] != " "]
    assert names == [notebook.name for notebook in pipeline.GRAPH]
