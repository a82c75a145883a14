"""The chain under the runner: complete, skipped, stopped, by hand, beside others."""

import dataclasses
import json
import os
import shutil

import pytest

from dipllm_lib.run import execute, files, graph, pipeline, places, profiles, skip, sources

pytestmark = pytest.mark.slow


@pytest.fixture
def no_kernel(monkeypatch):
    """Any start of a kernel fails the test."""

    def forbidden(*arguments):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(execute, "run", forbidden)


def complete(chain) -> list[str]:
    return [name for name, reason in chain.states().items() if reason is None]


def test_manifest_of_a_whole_run(finished):
    manifest = finished.manifest()
    assert set(manifest["notebooks"]) == {"01_first", "02_second", "03_third"}
    entry = manifest["notebooks"]["02_second"]
    assert set(entry) == {"state", "source", "settings", "seed", "inputs", "seconds", "peak_mb"}
    assert 0 < entry["seconds"] < 120 and 20 < entry["peak_mb"] < 1500
    run = manifest["run"]
    assert run["source"] == sources.package_hash()
    settings = json.loads(json.dumps(dataclasses.asdict(profiles.load("smoke", 0).dip)))
    assert run["settings"]["dip"] == settings
    paths = {p.relative_to(finished.home).as_posix() for p in files.inside(finished.home)}
    listed = {p for p in paths if "/executed/" not in p and "MANIFEST" not in p and "lock" not in p}
    assert listed == set(manifest["files"])
    assert not list(finished.home.rglob(".lock"))
    assert not any((finished.data / "partial").iterdir())


def test_executed_copies(finished):
    for name in ("01_first", "02_second", "03_third"):
        path = finished.data / "executed" / f"{name}.ipynb"
        text = path.read_text(encoding="utf-8")
        assert "\\r" not in text and path.stat().st_size < 1_000_000
        assert files.read_json(path)["metadata"].get("widgets") is None
        assert 'execution_count": 1' not in (finished.folder / path.name).read_text("utf-8")


def test_second_run_skips_without_a_kernel(finished, no_kernel, capsys):
    assert finished.reproduce() == 0
    lines = capsys.readouterr().out.splitlines()
    names = ("01_first", "02_second", "03_third")
    assert lines[:3] == [f"{name}  skipped, unchanged" for name in names]


def test_prose_changes_nothing(finished):
    finished.write("02_second", prose="Quite another text.")
    assert len(complete(finished)) == 3


def test_code_changes_one(finished):
    finished.write("02_second", {4: "y = 1"})
    assert finished.states() == {"01_first": None, "02_second": "source changed", "03_third": None}


def test_module_changes_what_imports_it(finished, tmp_path):
    package = tmp_path / "dipllm_lib"
    shutil.copytree(sources.PACKAGE, package)
    run = finished.run(package=package)
    assert [skip.reason(run, notebook) for notebook in run.graph] == [None, None, None]
    (package / "dip" / "extra.py").write_text("x = 1\n", encoding="utf-8")
    assert [skip.reason(run, notebook) for notebook in run.graph] == [None, None, None]
    with open(package / "run" / "stats.py", "a", encoding="utf-8") as file:
        file.write("\n# a comment\n")
    assert [skip.reason(run, notebook) for notebook in run.graph] == [None, None, None]
    with open(package / "run" / "seeding.py", "a", encoding="utf-8") as file:
        file.write("\n# a comment\n")
    reasons = [skip.reason(run, notebook) for notebook in run.graph]
    assert reasons == ["source changed"] * 3  # the store needs seeding for worker processes


def test_settings_and_seed_change_all(finished):
    run = finished.run(seed=1)
    assert {skip.reason(run, notebook) for notebook in run.graph} == {"seed changed"}
    dip = dataclasses.replace(run.profile.dip, explore=0.2)
    other = dataclasses.replace(
        finished.run(), profile=dataclasses.replace(finished.run().profile, dip=dip)
    )
    assert {skip.reason(other, notebook) for notebook in other.graph} == {"settings changed"}


def test_changed_and_missing_outputs(finished):
    (finished.data / "02_scores.csv").write_text("agent\n", encoding="utf-8")
    states = finished.states()
    assert states["02_second"] == "02_scores.csv has been changed since it was saved"
    assert states["03_third"] is None  # it will be looked at again after 02 has run
    (finished.figures / "02_scores.pdf").unlink()
    (finished.data / "02_scores.csv").unlink()
    assert finished.states()["02_second"].endswith("is missing")


def test_equal_bytes_leave_the_rest_unchanged(finished, capsys):
    before = finished.hashes()
    finished.write("01_first", {4: "y = 1"})
    assert finished.reproduce() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("01_first  done")
    assert lines[1:3] == ["02_second  skipped, unchanged", "03_third  skipped, unchanged"]
    assert finished.hashes() == before


def test_other_bytes_rerun_what_reads_them(finished, capsys):
    finished.write("01_first", {3: "draws = [0.25, 0.5]"})
    assert finished.reproduce() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["done", "done", "done"]


def test_force_only_from(finished, capsys):
    assert finished.reproduce(only="02", force=True) == 0
    assert finished.reproduce(first="03") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("02_second  done")
    assert lines[2] == "03_third  skipped, unchanged"
    with pytest.raises(places.Refused, match="there is no notebook 04: 01, 02, 03"):
        finished.reproduce(only="04")


def test_missing_input(chain, capsys, no_kernel):
    assert chain.reproduce(only="02") == 1
    assert capsys.readouterr().out.splitlines() == [
        "02_second  failed in its inputs",
        "  01_draws.jsonl is missing",
        "  run notebooks/01_first with profile smoke and seed 0",
    ]


def test_changed_input(finished, capsys, no_kernel):
    (finished.data / "01_draws.jsonl").write_text('{"x":1}\n', encoding="utf-8")
    assert finished.reproduce(only="02", force=True) == 1
    out = capsys.readouterr().out
    assert "01_draws.jsonl has been changed since it was saved\n  run notebooks/01_first" in out


def test_failure_in_four_lines(chain, capsys):
    chain.write("01_first", {3: "values = [1]\nvalues[7]"})
    assert chain.reproduce() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "01_first  failed in cell 9 (values = [1])",
        "  IndexError: list index out of range",
        "  mend this and run the same command to go on",
        f"  executed copy: {chain.data}/executed/01_first.ipynb",
    ]
    assert chain.states() == {"01_first": "failed", "02_second": "not run", "03_third": "not run"}


@pytest.mark.parametrize(
    ("cell", "cause"),
    [
        ("n = shelf.save_text('x', '01_extra.md')", "01_extra.md is not declared in chain.py"),
        ("(shelf.data / '01_sum.tex').unlink()", "01_sum.tex is missing"),
        ("n = (shelf.data / '01_sum.tex').write_text('')", "01_sum.tex has been changed"),
    ],
)
def test_outputs_must_be_as_declared(chain, capsys, cell, cause):
    chain.write("01_first", {6: cell})
    assert chain.reproduce() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "01_first  failed in its outputs"
    assert lines[1].startswith(f"  {cause}")
    assert chain.states()["01_first"] == "failed"


def test_early_exit_is_a_failure(chain, capsys):
    chain.write("01_first", {6: "import sys\nsys.exit(0)"})
    assert chain.reproduce() == 1
    assert "01_first  failed in cell 15 (import sys)" in capsys.readouterr().out


def test_outputs_of_earlier_code_are_removed(finished, no_kernel):
    (finished.data / "01_old.csv").write_text("x\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="a kernel was started"):
        finished.reproduce(only="01", force=True)
    assert not list(finished.data.glob("01_*"))
    assert list(finished.data.glob("02_*"))


def test_refusal_leaves_everything(finished, monkeypatch):
    """No kernel, or a notebook without its parameters: nothing is removed first."""
    before = finished.hashes()

    def refuse():
        raise places.Refused("there is no kernel python3")

    monkeypatch.setattr(pipeline.guards, "kernel", refuse)
    with pytest.raises(places.Refused):
        finished.reproduce(only="01", force=True)
    (finished.folder / "01_first.ipynb").unlink()
    with pytest.raises(places.Refused, match="there is no notebook 01_first.ipynb in notebooks/"):
        finished.reproduce()
    assert finished.hashes() == before
    assert finished.manifest()["notebooks"]["01_first"]["state"] == "complete"


def test_a_part_is_no_whole_run(finished):
    assert finished.reproduce(only="03", force=True) == 0
    assert finished.manifest()["run"] == {}
    assert finished.reproduce() == 0
    assert finished.manifest()["run"]["profile"] == "smoke"


def test_second_run_of_the_same_profile(chain):
    folder = chain.data
    folder.mkdir(parents=True)
    (folder / ".lock").write_text(str(os.getpid()), encoding="utf-8")
    run = chain.start()
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1 and out == ""
    line = f"data/smoke is being written by process {os.getpid()}: wait for it, or stop it"
    assert err == f"error: {line}\n"
    assert chain.states()["01_first"] == "not run"


def test_not_enough_disk(chain, monkeypatch, no_kernel):
    monkeypatch.setitem(pipeline.guards.NEED_MB, "smoke", 10**9)
    with pytest.raises(places.Refused, match="not enough disk: 1000000000 MB needed"):
        chain.reproduce()
    assert not (chain.data / ".lock").exists()


def test_two_homes_at_once(chain, tmp_path, monkeypatch):
    """Also under two hash seeds: same hashes."""
    runs = []
    for seed in ("0", "1"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        runs.append(chain.start(home=tmp_path / f"home{seed}"))
    for run in runs:
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0, out + err
    hashes = []
    for seed in ("0", "1"):
        chain.data = tmp_path / f"home{seed}" / "data" / "smoke"
        hashes.append(chain.hashes())
    assert hashes[0] == hashes[1]


def test_list(finished, capsys):
    finished.write("02_second", {4: "y = 1"})
    print("\n".join(pipeline.lines(finished.run())))
    assert capsys.readouterr().out.splitlines() == [
        "01_first   complete          0.1 min     reads nothing",
        "           writes 01_draws.jsonl, 01_sum",
        "02_second  source changed    0.1 min     reads 01_draws.jsonl",
        "           writes 02_model, 02_scores",
        "03_third   complete          0.1 min     reads 02_scores",
        "           writes 03_end",
    ]


def test_clean(finished, capsys):
    cache = finished.home / "data" / "cache" / "model"
    cache.mkdir(parents=True)
    (finished.home / "data" / "inputs").mkdir()
    pipeline.clean(finished.run())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("removing data/smoke: ") and "MB" in lines[0]
    assert lines[1].startswith("removing figures/smoke: 2 files")
    assert not finished.data.exists() and not finished.figures.exists()
    assert cache.exists() and (finished.home / "data" / "inputs").exists()
    pipeline.clean(finished.run(), cache=True)
    assert not cache.exists()


def test_graph_is_checked_before_anything_runs(chain):
    broken = (dataclasses.replace(graph.Notebook("01_a", (1, 1, 1)), reads=("02_x",)),)
    with pytest.raises(ValueError, match="no notebook that writes 02_x"):
        pipeline.plan("smoke", 0, broken, chain.folder)
