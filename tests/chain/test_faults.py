"""Missing, damaged and outdated files at every notebook of the real chain, without a kernel."""

import ast
import json
import shutil

import pytest

from dipllm_lib.run import execute, pipeline, places, skip, sources
from dipllm_lib.run.graph import producer, shipped

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch):
    """Any start of a kernel fails the test."""

    def forbidden(*arguments):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(execute, "run", forbidden)


def first_file(path):
    """`path` itself, of a folder its first file."""
    return sorted(p for p in path.rglob("*") if p.is_file())[0] if path.is_dir() else path


def test_a_missing_input_stops_it_with_the_notebook_to_run(copy, notebook, capsys):
    """Each input in turn; an input of the repository cannot be taken away here."""
    run = pipeline.plan("smoke", 0)
    for name in (name for name in notebook.reads if not shipped(name)):
        path = run.input(name)
        away = path.with_name(f"away_{path.name}")
        path.rename(away)
        assert pipeline.reproduce(run, only=notebook.number, force=True) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines == [
            f"{notebook.name}  failed in its inputs",
            f"  {name} is missing",
            f"  run notebooks/{producer(run.graph, name).name} with profile smoke and seed 0",
            f"  executed copy: {copy.data}/executed/{notebook.name}.ipynb",
        ]
        away.rename(path)


def cut(path) -> None:
    """Take away the second half of a file, of a folder of its first file."""
    file = first_file(path)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def test_a_cut_output_is_seen_by_its_writer_and_its_readers(copy, notebook):
    run = pipeline.plan("smoke", 0)
    assert skip.reason(run, notebook) is None
    for path in copy.outputs(notebook):
        cut(path)
        fault = run.manifest.fault(path, "smoke", 0)
        assert fault.startswith("has been changed since it was saved")
    first = copy.outputs(notebook)[0].name
    assert skip.reason(run, notebook).startswith(f"{first} has been changed since it was saved")
    for reader in run.graph:
        if any(not shipped(n) and producer(run.graph, n) == notebook for n in reader.reads):
            fault, remedy = skip.missing_input(run, reader)
            assert "has been changed since it was saved" in fault
            assert remedy == f"run notebooks/{notebook.name} with profile smoke and seed 0"


def test_a_damaged_manifest_is_one_line(copy):
    path = copy.data / "MANIFEST.json"
    path.write_text(path.read_text(encoding="utf-8")[:1000], encoding="utf-8")
    with pytest.raises(places.Refused, match="data/smoke/MANIFEST.json is damaged: remove it"):
        pipeline.reproduce(pipeline.plan("smoke", 0))


def reasons(copy, package) -> dict[str, str | None]:
    run = pipeline.plan("smoke", 0, package=package)
    return {notebook.name: skip.reason(run, notebook) for notebook in run.graph}


def test_a_changed_module_reruns_those_that_import_it(copy, tmp_path):
    """The loss of study 3 touches its notebooks and none of studies 1 and 2."""
    package = tmp_path / "dipllm_lib"
    shutil.copytree(sources.PACKAGE, package)
    assert set(reasons(copy, package).values()) == {None}
    with open(package / "kto" / "loss.py", "a", encoding="utf-8") as file:
        file.write("\n# a comment\n")
    changed = {name for name, reason in reasons(copy, package).items() if reason}
    assert "09_kto_language_games" in changed
    assert all(name[:2] in ("08", "09", "10", "11", "12", "13") for name in changed)


def test_prose_reruns_nothing_and_code_its_notebook(copy, notebook, tmp_path):
    folder = tmp_path / "notebooks"
    shutil.copytree(copy.ROOT / "notebooks", folder)
    path = folder / f"{notebook.name}.ipynb"
    content = json.loads(path.read_text(encoding="utf-8"))
    prose = next(c for c in content["cells"] if c["cell_type"] == "markdown")
    prose["source"] = ["# Quite another text"]
    path.write_text(json.dumps(content), encoding="utf-8")
    run = pipeline.plan("smoke", 0, folder=folder)
    assert skip.reason(run, notebook) is None
    last = [c for c in content["cells"] if c["cell_type"] == "code"][-1]
    last["source"] = ["x = 1\n", *last["source"]]
    ast.parse("".join(last["source"]))
    path.write_text(json.dumps(content), encoding="utf-8")
    assert skip.reason(run, notebook) == "source changed"
