"""The import closure of notebook code, on a package made for the test and on the real one."""

from pathlib import Path

import pytest

from dipllm_lib.run import sources

FILES = {
    "__init__.py": "",
    "run/__init__.py": "",
    "run/store.py": "import json\n",
    "run/stats.py": "",
    "dip/__init__.py": "from . import atlas\n",
    "dip/atlas.py": "",
    "dip/rules.py": "def f():\n    from dipllm_lib.run import stats\n",
    "dip/search.py": "from .rules import f\nfrom ..run.store import x\n",
    "kto/__init__.py": "",
    "kto/loss.py": "import dipllm_lib.run.store\n",
}


@pytest.fixture
def package(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "dipllm_lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "dipllm_lib"


def names(code: str, package: Path) -> list[str]:
    return [p.relative_to(package).as_posix() for p in sources.closure(code, package)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import numpy", []),
        ("from dipllm_lib.run import store", ["__init__.py", "run/__init__.py", "run/store.py"]),
        (
            "import dipllm_lib.kto.loss as loss",
            ["__init__.py", "kto/__init__.py", "kto/loss.py", "run/__init__.py", "run/store.py"],
        ),
        (
            "from dipllm_lib.dip.search import f",
            ["__init__.py", "dip/__init__.py", "dip/atlas.py", "dip/rules.py", "dip/search.py"]
            + ["run/__init__.py", "run/stats.py", "run/store.py"],
        ),
        ("from dipllm_lib.run import nothing", ["__init__.py", "run/__init__.py"]),
    ],
)
def test_closure(package, code, expected):
    assert names(code, package) == expected


def test_hash_follows_what_is_imported(package):
    code = "from dipllm_lib.dip import search"
    before = sources.code_hash(code, package)
    (package / "kto" / "loss.py").write_text("x = 1\n", encoding="utf-8")
    assert sources.code_hash(code, package) == before
    (package / "run" / "stats.py").write_text("x = 1\n", encoding="utf-8")  # inside a function
    assert sources.code_hash(code, package) != before
    assert sources.code_hash(code + "\nx = 1", package) != sources.code_hash(code, package)


def test_package_hash_covers_all(package):
    before = sources.package_hash(package)
    (package / "kto" / "loss.py").write_text("x = 1\n", encoding="utf-8")
    assert sources.package_hash(package) != before


def test_real_package():
    found = names("from dipllm_lib.run import store", sources.PACKAGE)
    assert {"run/store.py", "run/manifest.py", "run/plotting.py", "run/profiles.py"} <= set(found)
    assert not [name for name in found if not name.startswith(("run/", "__init__"))]
