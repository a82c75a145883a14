"""What the code promises: arrows, no circles, no dead names, sizes, errors, randomness."""

import ast
import graphlib
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "dipllm_lib").rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in LIBRARY}
# longer than 50 lines, and why
LONG = {
    "dip/links.py table": "one array after another, each filled by a few lines",
    "run/claims_dip.py theory": "one claim after another",
}


def module(path: Path) -> str:
    """Dotted name of a file of the library."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path): path for path in LIBRARY}


def imports(tree: ast.AST) -> dict[str, str]:
    """Local name -> what it stands for, `module` or `module.name`, imports in functions too."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return found


def modules_of(tree: ast.AST) -> set[str]:
    """The modules of the library that a piece of code imports."""
    targets = set(imports(tree).values())
    return {t if t in MODULES else t.rpartition(".")[0] for t in targets} & set(MODULES)


def test_arrows_run_one_way():
    allowed = {"run": {"run"}, "lm": {"lm", "run"}, "dip": {"dip", "lm", "run"}}
    allowed["ipd"] = {"ipd", "run"}
    allowed["kto"] = {"kto", "dip", "ipd", "lm", "run"}
    for path, tree in TREES.items():
        area = path.parent.name
        if area in allowed:
            targets = {m.split(".")[1] for m in modules_of(tree) if m.count(".")}
            assert targets <= allowed[area], path


def circle(links: dict[str, set[str]]) -> list[str] | None:
    """The modules of a circle in order, or None."""
    try:
        graphlib.TopologicalSorter(links).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_no_circle_of_imports():
    """Imports inside functions count; that of a module by itself, for its command, does not."""
    links = {name: modules_of(TREES[path]) - {name} for name, path in MODULES.items()}
    assert circle(links) is None
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is not None


# behaviour under the interpreter and the linter


def test_heavy_and_foreign_packages_are_imported_late():
    """`run` starts without torch, and nothing imports the AGPL package at its top."""
    code = "import sys, dipllm_lib.run.pipeline, dipllm_lib.__main__; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    late = {"'torch'", "'transformers'", "'diplomacy'", "'ray'"}
    assert not late & set(done.stdout[1:-2].split(", "))
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                text = ast.unparse(node)
                assert not re.match(r"(import|from) diplomacy\b", text), path


def test_sizes():
    """Files up to 400 lines; functions of the library up to 50 but the named ones, others to 80."""
    tests = {p: ast.parse(p.read_text(encoding="utf-8")) for p in (ROOT / "tests").rglob("*.py")}
    for path, tree in (TREES | tests).items():
        assert path.read_text(encoding="utf-8").count("\n") <= 400, path
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                key = (
                    f"{path.relative_to(ROOT / 'dipllm_lib') if path in TREES else ''} {node.name}"
                )
                most = 50 if path in TREES and key not in LONG else 80
                assert node.end_lineno - node.lineno < most, key


def test_no_broad_except_and_no_global_randomness():
    for path, tree in TREES.items():
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, path
                assert ast.unparse(node.type) not in ("Exception", "BaseException"), path
        assert not re.search(r"^\s*(import random|from random)\b", text, flags=re.M), path
        calls = re.findall(r"np\.random\.(\w+)", text)
        assert set(calls) <= {"Generator", "PCG64", "Philox", "SeedSequence", "default_rng"}, path
        assert "default_rng(" not in text or path.name == "seeding.py", path


def test_public_functions_are_annotated_and_documented():
    missing = []
    for path, tree in TREES.items():
        if not ast.get_docstring(tree):
            missing.append(path.name)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                compiled = any(
                    d in ("kernel", "numba.njit(cache=True)", "njit(cache=True)")
                    for d in map(ast.unparse, node.decorator_list)
                )
                if not ast.get_docstring(node) or not (compiled or node.returns):
                    missing.append(f"{path.name}: {node.name}")
    assert not missing


def test_the_linter_sees_a_file_opened_without_encoding():
    """PLW1514 is a preview rule: without `preview` it checks nothing and passes."""
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", "dipllm_lib/x.py", "-"]
    done = subprocess.run(
        command, input='open("x").close()\n', capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1 and "without explicit `encoding`" in done.stdout


@pytest.mark.parametrize("kind", [DeprecationWarning, FutureWarning])
def test_an_old_call_from_the_library_is_an_error(kind):
    """pyproject's filter holds for every test: what our modules call is not on its way out."""
    with pytest.raises(kind):
        warnings.warn_explicit("old", kind, "x.py", 1, module="dipllm_lib.run.store")


def test_nothing_can_ask_for_a_login():
    """No tracker is in the lock, none is imported."""
    trackers = {"wandb", "mlflow", "neptune", "comet_ml", "clearml", "tensorboard", "trackio"}
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert not trackers & set(re.findall(r"^([\w.-]+)==", lock, flags=re.M))
    targets = [target for tree in TREES.values() for target in imports(tree).values()]
    assert not trackers & {target.split(".")[0] for target in targets}
