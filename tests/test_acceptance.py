"""tests/README.md: every symptom and check of an artifact has a test here that holds it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[int, list[str]]:
    """Number -> the tests named in the last column of the table under a heading."""
    section = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line.split("|") for line in section.splitlines() if re.match(r"\| \d", line)]
    return {int(cells[1]): re.findall(r"`([^`]+)`", cells[-2]) for cells in lines}


@pytest.mark.parametrize(("heading", "most"), [("Symptoms", 38), ("Checks", 12)])
def test_every_number_has_a_test(heading, most):
    found = rows(heading)
    assert list(found) == list(range(1, most + 1))
    assert all(found.values())


def test_every_named_test_exists():
    """`file::test`, below tests/; `.ci/run` may be named, too."""
    for names in [*rows("Symptoms").values(), *rows("Checks").values()]:
        for name in names:
            if name == ".ci/run":
                continue
            file, _, test = name.partition("::")
            tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
            functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
            assert test in functions and test.startswith("test_"), name
