"""The shape of every notebook: what a reader may rely on before anything runs."""

import ast
import re
import sys
import warnings
from pathlib import Path

import nbformat
import pytest

from dipllm_lib.run import pipeline, profiles
from dipllm_lib.run.graph import shipped
from dipllm_lib.run.places import number

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "notebooks").glob("*.ipynb"))
ALLOWED = {"numpy", "pandas", "matplotlib", "IPython", "dipllm_lib"} | set(sys.stdlib_module_names)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try)
FORBIDDEN_NAMES = {"exit", "quit", "input", "open", "eval", "exec"}
FORBIDDEN_ATTRIBUTES = {("os", "chdir"), ("sys", "path"), ("sys", "exit"), ("time", "time")}


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [c for c in read(path).cells if c.cell_type == "code"]


def table_entries(text: str, row: str) -> list[str]:
    """The backticked names in the row `| row | ... |` of a markdown table."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return re.findall(r"`([^`]+)`", line)


def test_the_folder_holds_exactly_the_notebooks_of_the_graph():
    assert [p.stem for p in FILES] == [n.name for n in pipeline.GRAPH]


@pytest.fixture(params=FILES, ids=lambda p: p.stem)
def path(request) -> Path:
    return request.param


def test_format(path):
    raw = read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nbformat.validate(raw)
    assert (raw.nbformat, raw.nbformat_minor) == (4, 5)
    assert raw.metadata.kernelspec.name == "python3"
    assert not {"widgets", "papermill", "execution"} & set(raw.metadata)
    ids = [c.id for c in raw.cells]
    assert len(set(ids)) == len(ids)
    assert path.stat().st_size <= 100_000


def test_no_outputs_and_no_counts(path):
    assert all(not c.outputs and c.execution_count is None for c in code_cells(path))
    assert all("execution" not in c.metadata for c in code_cells(path))


def test_one_parameters_cell_with_two_literals(path):
    cells = code_cells(path)
    tagged = [i for i, c in enumerate(cells) if "parameters" in c.metadata.get("tags", [])]
    assert tagged == [1]
    body = ast.parse(cells[1].source).body
    values = {s.targets[0].id: ast.literal_eval(s.value) for s in body}
    assert values == {"profile": "smoke", "seed": 0}


def test_cells_are_short_and_explained(path):
    """The imports, one name per line, may be longer."""
    cells = read(path).cells
    code = [c for c in cells if c.cell_type == "code"]
    assert len(cells) - len(code) >= len(code)
    for c in code[1:]:
        assert len([line for line in c.source.splitlines() if line.strip()]) <= 15, c.source


def test_no_definitions_no_shell_no_escape(path):
    for c in code_cells(path):
        for node in ast.walk(ast.parse(c.source)):
            assert not isinstance(node, DEFINITIONS)
            if isinstance(node, ast.Assign):
                assert not isinstance(node.value, ast.Lambda)
            if isinstance(node, ast.Name):
                assert node.id not in FORBIDDEN_NAMES
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in FORBIDDEN_ATTRIBUTES


def test_imports_are_few_and_in_the_first_code_cell(path):
    for i, c in enumerate(code_cells(path)):
        for node in ast.walk(ast.parse(c.source)):
            if isinstance(node, ast.Import):
                names = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            else:
                continue
            assert i == 0
            assert {n.split(".")[0] for n in names} <= ALLOWED


def test_no_absolute_paths(path):
    text = path.read_text(encoding="utf-8")
    folders = "|".join(("home", "root", "Users", "tmp", "opt", "usr", "var", "mnt"))
    assert not re.search(rf"(?<![\w.:/])/({folders})/|\b[A-Z]:\\\\", text)


def test_its_table_is_the_graph(path):
    node = next(n for n in pipeline.GRAPH if n.name == path.stem)
    text = read(path).cells[0].source
    assert set(table_entries(text, "reads")) == set(node.reads)
    assert sorted(table_entries(text, "writes")) == sorted(node.writes)
    assert all(name < node.number for name in (number(r) for r in node.reads if not shipped(r)))
    assert all(number(name) == node.number for name in node.writes)


def test_it_says_what_was_found_where_it_departs_and_what_to_try(path):
    text = "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")
    for heading in ("What was found", "Where this departs from the paper", "Three things to try"):
        assert f"## {heading}" in text, heading


def glossary() -> dict[str, str]:
    """Term -> its line, from the tables below `## Words` of 00."""
    cells = [c.source for c in read(FILES[0]).cells if c.source.startswith("## Words")]
    assert len(cells) == 1
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", cells[0], flags=re.M)
    return {term: text for names, text in rows for term in re.split(r", | and ", names)}


def headings(path: Path) -> list[str]:
    """The headings of a notebook without code and without codes of claims (C1, K15)."""
    text = "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")
    return re.findall(r"^#+ (.*)", re.sub(r"`[^`\n]*`|\b[A-Z]\d+\b(?!C)", "", text), flags=re.M)


def test_the_glossary_has_the_abbreviations_and_symbols_of_all_headings():
    known = set(" ".join(glossary()).split())
    for path in FILES:
        for heading in headings(path):
            short = re.findall(r"\b[A-Z0-9]*[A-Z]{2,}\b|\bA2C\b|[α-ω]", heading)
            assert set(short) <= known, (path.name, heading)


def test_the_title_of_each_notebook_that_has_words_of_the_field_is_explained():
    plain = {"00_overview", "11_evaluation", "12_case_study", "13_claims"}
    for path in FILES:
        title, known = headings(path)[0].lower(), {term.lower() for term in glossary()}
        found = [t for t in known if re.search(rf"(?<!\w){re.escape(t)}s?(?!\w)", title)]
        assert bool(found) != (path.stem in plain), title


def test_every_word_of_the_glossary_is_used():
    cells = [c.source for path in FILES for c in read(path).cells]
    text = "\n".join(cell for cell in cells if not cell.startswith("## Words")).lower()
    assert [term for term in glossary() if term.lower() not in text] == []


def test_no_profile_is_special():
    """A profile changes numbers, never code paths."""
    sources = [p for d in ("dip", "lm") for p in (ROOT / "dipllm_lib" / d).glob("*.py")]
    texts = [p.read_text(encoding="utf-8") for p in sources]
    texts += [c.source for p in FILES for c in code_cells(p)]
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Compare):
                constants = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                assert not set(profiles.NAMES) & {c for c in constants if isinstance(c, str)}
