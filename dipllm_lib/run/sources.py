"""Which code a notebook depends on, and its hash.

The closure of a piece of code are all modules of the package that it imports, directly or through
others, also inside functions, found in the syntax tree. Prose of a notebook does not count, nor do
modules that it never imports.
"""

import ast
import hashlib
from pathlib import Path

import dipllm_lib

PACKAGE = Path(dipllm_lib.__file__).parent


def _file(module: str, package: Path) -> Path | None:
    """The file of `dipllm_lib.a.b` below `package`, or None for a name inside a module."""
    base = package.joinpath(*module.split(".")[1:])
    if (base / "__init__.py").is_file():
        return base / "__init__.py"
    return base.with_suffix(".py") if base.with_suffix(".py").is_file() else None


def _imported(tree: ast.AST, module: str, is_package: bool) -> set[str]:
    """Dotted names that `tree` may import; `module` is its own name, for relative imports."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                parts = module.split(".")
                kept = parts[: len(parts) - node.level + is_package]
                origin = ".".join(kept + ([node.module] if node.module else []))
            names.add(origin)
            names.update(f"{origin}.{alias.name}" for alias in node.names)
    return names


def _with_parents(name: str) -> list[str]:
    """`a.b.c` -> a, a.b, a.b.c: importing a module runs the packages above it."""
    parts = name.split(".")
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


def closure(code: str, package: Path = PACKAGE) -> list[Path]:
    """The files below `package` that `code` imports, transitively, sorted."""
    found: set[Path] = set()
    waiting = [(ast.parse(code), "__main__", False)]
    while waiting:
        for name in _imported(*waiting.pop()):
            if name.split(".")[0] != dipllm_lib.__name__:
                continue
            for module in _with_parents(name):
                file = _file(module, package)
                if file and file not in found:
                    found.add(file)
                    tree = ast.parse(file.read_text(encoding="utf-8"))
                    waiting.append((tree, module, file.name == "__init__.py"))
    return sorted(found)


def _hash(code: str, paths: list[Path], package: Path) -> str:
    """First 16 hex digits of the sha256 of `code` and of the named files."""
    digest = hashlib.sha256(code.encode("utf-8"))
    for path in paths:
        digest.update(b"\0" + path.relative_to(package).as_posix().encode("utf-8") + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def code_hash(code: str, package: Path = PACKAGE) -> str:
    """Hash of `code` and of its closure."""
    return _hash(code, closure(code, package), package)


def package_hash(package: Path = PACKAGE) -> str:
    """Hash of all modules of the package."""
    return _hash("", sorted(package.rglob("*.py")), package)
