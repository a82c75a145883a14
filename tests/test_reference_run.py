"""The committed reference run: one whole run of `cpu`, unedited, small, no trace of a machine."""

import re
from pathlib import Path

import pytest

from dipllm_lib.run import copies, execute, files, pipeline, reference
from dipllm_lib.run import reference_files as kept

ROOT = Path(__file__).resolve().parent.parent
DATA, FIGURES, NOTEBOOKS = (ROOT / name for name in reference.FOLDERS)
pytestmark = pytest.mark.skipif(
    not (DATA / "MANIFEST.json").exists(), reason="no reference run is committed yet"
)
NAMES = [notebook.name for notebook in pipeline.GRAPH]


@pytest.fixture(scope="module")
def manifest():
    return files.read_json(DATA / "MANIFEST.json")


def test_it_is_a_whole_run_of_cpu(manifest):
    run = manifest["run"]
    assert (run["profile"], run["seed"]) == ("cpu", 0)
    assert list(manifest["notebooks"]) == sorted(NAMES)
    assert re.fullmatch("[0-9a-f]{40}", run["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
    total = sum(entry["seconds"] for entry in manifest["notebooks"].values())
    assert run["seconds"] == pytest.approx(total, abs=0.1)


def test_no_kept_file_was_edited_added_or_lost(manifest):
    found = {
        path.relative_to(ROOT).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": files.sha256(path),
        }
        for folder in (DATA, FIGURES, NOTEBOOKS)
        for path in files.inside(folder)
        if path != DATA / "MANIFEST.json"
    }
    assert found == manifest["kept"]


def test_it_has_every_table_figure_and_notebook_of_the_chain():
    tables = sorted(name for notebook in pipeline.GRAPH for name in notebook.tables)
    figures = sorted(name for notebook in pipeline.GRAPH for name in notebook.figures)
    assert kept.kept_tables(DATA) == tables
    assert [path.stem for path in files.inside(FIGURES)] == figures
    assert [path.stem for path in files.inside(NOTEBOOKS)] == sorted(NAMES)


def test_all_carry_the_source_hash_of_the_manifest(manifest):
    source = manifest["run"]["source"]
    assert {kept.picture_source(path) for path in files.inside(FIGURES)} == {source}
    marks = {str(files.read_json(path)["metadata"]["dipllm"]) for path in files.inside(NOTEBOOKS)}
    assert marks == {str({"profile": "cpu", "seed": 0, "source": source})}


def test_sizes():
    kept.check_sizes([*files.inside(DATA), *files.inside(FIGURES)], files.inside(NOTEBOOKS))


@pytest.mark.parametrize("name", NAMES)
def test_executed_copies(name):
    """They ran to the end, show the tables that are kept, and lost what a run leaves in them."""
    text = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert not re.search(r'"papermill"|"execution"|"widgets"|widget-view', text)
    copy = files.read_json(NOTEBOOKS / f"{name}.ipynb")
    assert not any("\r" in part for _, part in copies.texts(copy))
    execute.judge(copy)
    for table, rows in copies.shown(copy).items():
        assert copies.table_fault(rows, kept.table_text(DATA, table)) is None, table


def test_no_text_names_a_place():
    words = re.compile(kept.HOMES)
    for path in files.inside(NOTEBOOKS):
        for place, text in copies.texts(files.read_json(path)):
            kept.check_text(text, f"{path.name}, {place}", words)
    for name, text in kept.texts(DATA):
        kept.check_text(text, name, words)


def test_readme_says_what_the_run_took_and_found(manifest):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    claims = kept.read_table(DATA, reference.CLAIMS)
    assert reference.readme_text(text, manifest, claims) == text
