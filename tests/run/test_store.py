"""What a notebook saves another loads, or is told which notebook to run."""

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dipllm_lib.run import places, profiles, store

PROFILE = profiles.load("smoke", 0)


def shelf(notebook: str = "01_first", profile=PROFILE, **changes) -> store.Shelf:
    return store.Shelf(notebook, profile, replace(profile.dip, **changes))


def entries(home) -> dict:
    path = home / "data" / "smoke" / "MANIFEST.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_table(home):
    table = pd.DataFrame({"x": [0.5, 1 / 3], "n": [1, 2]})
    assert shelf().save_table(table, "01_t") is table
    assert shelf("02_second").load_table("01_t")["x"].tolist() == [0.5, 0.333333]
    assert sorted(p.name for p in (home / "data" / "smoke").glob("01_*")) == [
        "01_t.csv",
        "01_t.tex",
    ]


def test_jsonl(home):
    rows = [{"b": 1, "a": [np.int32(2), 0.1 + 0.2]}, {"é": None}]
    assert shelf().save_jsonl(iter(rows), "01_r.jsonl") == 2
    text = (home / "data" / "smoke" / "01_r.jsonl").read_bytes()
    assert text == '{"a":[2,0.30000000000000004],"b":1}\n{"é":null}\n'.encode()
    assert shelf("02_second").load_jsonl("01_r.jsonl") == rows


def test_arrays(home):
    arrays = {"x": np.arange(6, dtype=np.int8).reshape(2, 3), "y": np.array([0.5])}
    shelf().save_arrays("01_a.npz", **arrays)
    first = (home / "data" / "smoke" / "01_a.npz").read_bytes()
    back = shelf("02_second").load_arrays("01_a.npz")
    assert back["x"].dtype == np.int8 and (back["x"] == arrays["x"]).all()
    shelf().save_arrays("01_a.npz", **arrays)
    assert (home / "data" / "smoke" / "01_a.npz").read_bytes() == first
    with pytest.raises(ValueError, match="arrays of objects"):
        shelf().save_arrays("01_b.npz", x=np.array([{}]))


def test_tensors(home):
    import torch

    tensors = {"w": torch.arange(6.0).reshape(2, 3).T, "b": torch.zeros(2, dtype=torch.bfloat16)}
    shelf().save_tensors("01_v.safetensors", tensors, {"kind": "value", "n": 3})
    first = (home / "data" / "smoke" / "01_v.safetensors").read_bytes()
    back = shelf("02_second").load_tensors("01_v.safetensors")
    assert torch.equal(back["w"], tensors["w"]) and back["b"].dtype == torch.bfloat16
    assert shelf("02_second").load_card("01_v.safetensors") == {"kind": "value", "n": 3}
    reverse = dict(reversed(tensors.items()))
    shelf().save_tensors("01_v.safetensors", reverse, {"n": 3, "kind": "value"})
    assert (home / "data" / "smoke" / "01_v.safetensors").read_bytes() == first
    shelf().save_tensors("01_w.safetensors", tensors)
    assert shelf().load_card("01_w.safetensors") is None


def test_folder(home):
    with shelf().save_folder("01_m") as folder:
        (folder / "adapter_config.json").write_text("{}", encoding="utf-8")
        (folder / "old.json").write_text("{}", encoding="utf-8")
    with shelf().save_folder("01_m") as folder:
        (folder / "adapter_config.json").write_text("{}", encoding="utf-8")
        (folder / "sub").mkdir()
        (folder / "sub" / "w.json").write_text("[1]", encoding="utf-8")
    path = shelf("02_second").folder("01_m")
    assert (path / "sub" / "w.json").read_text(encoding="utf-8") == "[1]"
    volatile = {k.split("01_m/")[1]: e["volatile"] for k, e in entries(home)["files"].items()}
    assert volatile == {"adapter_config.json": True, "sub/w.json": False}
    (path / "extra").write_text("", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="files that were not saved with it"):
        shelf().folder("01_m")


def test_failing_folder_keeps_the_old_one(home):
    with shelf().save_folder("01_m") as folder:
        (folder / "a").write_bytes(b"1")
    with pytest.raises(KeyError):
        with shelf().save_folder("01_m") as folder:
            raise KeyError
    assert [p.name for p in shelf().folder("01_m").iterdir()] == ["a"]


def test_manifest_entry(home):
    shelf().save_text("# card\n", "01_card.md")
    entry = entries(home)["files"]["data/smoke/01_card.md"]
    assert entry == {
        "bytes": 7,
        "sha256": hashlib.sha256(b"# card\n").hexdigest(),
        "notebook": "01_first",
        "profile": "smoke",
        "seed": 0,
        "settings": PROFILE.dip.hash(),
        "volatile": False,
    }


def test_a_save_voids_the_notebooks_entry(home):
    own = shelf()
    own.save_text("1", "01_a.md")
    own.manifest.enter("01_first", {"state": "complete"})
    own.manifest.enter("02_second", {"state": "complete"})
    own.save_text("1", "01_a.md")
    assert list(entries(home)["notebooks"]) == ["02_second"]
    own.manifest.enter("01_first", {"state": "running"})
    with own.save_folder("01_m") as folder:
        (folder / "a").write_bytes(b"1")
    assert entries(home)["notebooks"]["01_first"] == {"state": "running"}


REMEDY = r"run (notebooks/01_\w+|the notebook 01) with profile smoke and seed 0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), "01_r.jsonl is missing"),
        (lambda path: path.write_text("{}\n", encoding="utf-8"), "01_r.jsonl has been changed"),
    ],
)
def test_missing_and_changed(home, change, message):
    shelf().save_jsonl([{"a": 1}], "01_r.jsonl")
    change(home / "data" / "smoke" / "01_r.jsonl")
    with pytest.raises(FileNotFoundError, match=f"{message}.*: {REMEDY}"):
        shelf("02_second").load_jsonl("01_r.jsonl")


def test_the_remedy_names_the_notebook(home, tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "02_q_decomposition.ipynb").write_text("", encoding="utf-8")
    monkeypatch.setattr(places, "root", lambda: tmp_path)
    with pytest.raises(FileNotFoundError) as error:
        shelf("03_third").load_jsonl("02_samples.jsonl")
    assert str(error.value) == (
        "02_samples.jsonl is missing: "
        "run notebooks/02_q_decomposition with profile smoke and seed 0"
    )


def test_file_that_nobody_saved(home):
    shelf().save_text("1", "01_a.md")
    (home / "data" / "smoke" / "01_r.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="01_r.jsonl is not in the manifest"):
        shelf().load_jsonl("01_r.jsonl")


def test_file_of_another_seed_or_profile(home):
    shelf().save_jsonl([1], "01_r.jsonl")
    other = profiles.load("smoke", 1)
    with pytest.raises(FileNotFoundError, match="is of profile smoke and seed 0: run .* seed 1"):
        shelf(profile=other).load_jsonl("01_r.jsonl")
    cpu = home / "data" / "cpu"
    (home / "data" / "smoke").rename(cpu)
    text = (cpu / "MANIFEST.json").read_text(encoding="utf-8")
    (cpu / "MANIFEST.json").write_text(text.replace("data/smoke", "data/cpu"), encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="is of profile smoke and seed 0: run .* cpu"):
        shelf(profile=profiles.load("cpu", 0)).load_jsonl("01_r.jsonl")


def test_names_belong_to_numbers(home):
    with pytest.raises(ValueError, match="saves names like 01_name.jsonl, got '02_r.jsonl'"):
        shelf().save_jsonl([], "02_r.jsonl")
    for name in ("01_../x.jsonl", "01_r.txt", "r.jsonl", "01_"):
        with pytest.raises(ValueError, match="saves names like"):
            shelf().save_jsonl([], name)
    with pytest.raises(ValueError, match="reads only smaller numbers"):
        shelf().load_table("02_t")
    with pytest.raises(ValueError, match="a notebook is called like"):
        shelf("first")


def test_damaged_manifest(home):
    shelf().save_text("1", "01_a.md")
    (home / "data" / "smoke" / "MANIFEST.json").write_text("{", encoding="utf-8")
    with pytest.raises(places.Refused, match="MANIFEST.json is damaged: remove it"):
        shelf().save_text("1", "01_a.md")


def test_tasks_are_computed_once(home):
    calls = []

    def compute():
        calls.append(1)
        return {"x": (1, 2)}

    assert shelf().task("a", compute) == {"x": [1, 2]}
    assert shelf().task("a", compute) == {"x": [1, 2]}
    assert len(calls) == 1
    shelf(explore=0.2).task("a", compute)  # other settings
    assert len(calls) == 2
    shelf(profile=profiles.load("smoke", 1)).task("a", compute)  # another seed
    assert len(calls) == 3
    path = home / "data" / "smoke" / "partial" / "01" / "a.json"
    path.write_text("{half", encoding="utf-8")
    shelf().task("a", compute)
    assert len(calls) == 4
    with pytest.raises(ValueError, match="the name of a task"):
        shelf().task("a/b", compute)


def test_training_folder(home):
    folder = shelf().training("lora")
    (folder / "step_10.json").write_text("{}", encoding="utf-8")
    assert folder == home / "data" / "smoke" / "partial" / "01" / "lora"
    assert (shelf().training("lora") / "step_10.json").exists()
    assert not (shelf(explore=0.2).training("lora") / "step_10.json").exists()


def test_tasks_in_order_with_kept_ones(home):
    alone = store.Shelf("01_first", replace(PROFILE, workers=1), PROFILE.dip)
    alone.tasks(math.sqrt, [4, 16], ["four", "sixteen"])
    kept = home / "data" / "smoke" / "partial" / "01" / "four.json"
    text = kept.read_text(encoding="utf-8").replace("2.0", "-2.0")
    kept.write_text(text, encoding="utf-8")
    assert alone.tasks(math.sqrt, [9, 4, 16], ["nine", "four", "sixteen"]) == [3.0, -2.0, 4.0]
    with pytest.raises(ValueError, match="one distinct key each"):
        alone.tasks(math.sqrt, [1, 2], ["a", "a"])


def test_versions():
    table = store.versions(PROFILE).set_index("item")["value"]
    assert table["python"] == ".".join(map(str, sys.version_info[:3]))
    assert table["threads"] == "2" and table["cpu"]


def test_provenance(home):
    content = shelf().provenance()
    assert content["profile"] == "smoke" and content["seed"] == 0
    assert content["machine"]["threads"] == PROFILE.threads
    assert content["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert content["peak_mb"] > 20 and content["start"].endswith("+00:00")
    text = json.dumps(content)
    import getpass
    import socket

    assert str(home) not in text
    assert f'"{socket.gethostname()}"' not in text and f'"{getpass.getuser()}"' not in text
    assert entries(home)["files"]["data/smoke/01_provenance.json"]["volatile"]


def test_provenance_without_git(home, monkeypatch, tmp_path):
    from dipllm_lib.run import provenance

    assert provenance.commit(tmp_path) == {"commit": None, "dirty": None}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.commit(places.root()) == {"commit": None, "dirty": None}


def test_home_follows_the_package_not_the_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("DIPLLM_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert (store.home() / "dipllm_lib" / "run" / "store.py").is_file()
    monkeypatch.setenv("DIPLLM_HOME", "moved")
    assert store.home() == tmp_path / "moved"


def test_installed_copy_is_refused(tmp_path):
    site = tmp_path / "site-packages"
    package = places.root() / "dipllm_lib"
    shutil.copytree(package, site / "dipllm_lib", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "dipllm_lib", "list"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "error: dipllm_lib is installed as a copy, without its notebooks and data: "
        "run `python -m pip install -e .` in the repository\n"
    )


def test_two_writers_lose_no_entry(home):
    """A notebook by hand beside another: every save of both is in the manifest."""
    code = (
        "import sys\n"
        "from dipllm_lib.run import profiles, store\n"
        "profile = profiles.load('smoke', 0)\n"
        "shelf = store.Shelf(sys.argv[1] + '_x', profile, profile.dip)\n"
        "for k in range(25): shelf.save_text(str(k), f'{sys.argv[1]}_{k}.md')"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, n]) for n in ("01", "02")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert len(entries(home)["files"]) == 50
