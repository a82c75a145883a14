"""LoRA adapters: count, seeds, names, plain peft files, a new process, and the full-weight case."""

import json
import os
import subprocess
import sys

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file

from dipllm_lib.lm import adapters

IDS = torch.tensor([[1, 5, 7, 2]])


def logits(backbone):
    with torch.inference_mode():
        return backbone.causal(input_ids=IDS).logits


def disturb(backbone):
    """Weights as after some training: B of a fresh adapter is zero and would hide faults."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for _, parameter in adapters.trainable(backbone):
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))


def test_count_by_hand_and_no_change_at_first(tiny):
    """Width 32, inner 128, rank 4: per layer 4 (4 (32+32) + 3 (32+128)) = 2,944 weights."""
    backbone = tiny()
    before = logits(backbone)
    assert adapters.attach(backbone, "first", 4) == 2 * 2944
    assert torch.equal(logits(backbone), before)
    assert not backbone.head.requires_grad


def test_weights_depend_on_seed_and_name_alone(tiny):
    def first(seed, name, draws=0):
        backbone = tiny()
        torch.rand(draws)
        adapters.attach(backbone, name, 2, seed=seed)
        return next(p for n, p in adapters.trainable(backbone) if "lora_A" in n)

    assert torch.equal(first(0, "first"), first(0, "first", draws=1))
    assert not torch.equal(first(0, "first"), first(1, "first"))
    assert not torch.equal(first(0, "first"), first(0, "second"))


def test_two_adapters_switch_and_off(tiny):
    backbone = tiny()
    base = logits(backbone)
    adapters.attach(backbone, "first", 2)
    disturb(backbone)
    with_a = logits(backbone)
    assert adapters.attach(backbone, "second", 3) == 2 * 2944 * 3 // 4
    assert adapters.names(backbone) == ["first", "second"]
    assert torch.equal(logits(backbone), base)
    adapters.switch(backbone, "first")
    assert torch.equal(logits(backbone), with_a) and not torch.equal(with_a, base)
    with adapters.off(backbone):
        assert torch.equal(logits(backbone), base)
    assert torch.equal(logits(backbone), with_a)
    with pytest.raises(ValueError, match="no adapter 'third'"):
        adapters.switch(backbone, "third")
    with pytest.raises(ValueError, match="already has an adapter 'first'"):
        adapters.attach(backbone, "first", 2)


def test_saved_adapter_is_plain_peft_and_repeats_its_bytes(tiny, tmp_path):
    backbone = tiny()
    adapters.attach(backbone, "orders", 2, alpha=8)
    disturb(backbone)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        adapters.save(backbone, "orders", tmp_path / name, "# orders\n")
    files = sorted(p.name for p in (tmp_path / "one").iterdir())
    expected = ["README.md", "adapter_config.json", "adapter_model.safetensors", "base.json"]
    assert files == expected
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    config = json.loads((tmp_path / "one" / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == "scratch-llama-32x2"
    plain = PeftModel.from_pretrained(tiny().model, tmp_path / "one")
    with torch.inference_mode():
        assert torch.equal(plain(input_ids=IDS).logits, logits(backbone))
    other = tiny()
    adapters.load(other, tmp_path / "one", "mine")
    assert torch.equal(logits(other), logits(backbone)) and adapters.names(other) == ["mine"]


RELOAD = """
import sys, numpy as np, torch
from dipllm_lib.lm import adapters, backbones
torch.set_num_threads(1)
words = (*(f"w{i}" for i in range(1, 40)), ";", "\\n")
backbone = backbones.load("scratch", hidden=32, layers=2, heads=2, words=words, seed=0)
adapters.load(backbone, sys.argv[1], "first")
with torch.inference_mode():
    print(backbone.causal(input_ids=torch.tensor([[1, 5, 7, 2]])).logits.numpy().tobytes().hex())
"""


@pytest.mark.slow
def test_reload_in_a_new_process(tiny, tmp_path):
    backbone = tiny()
    adapters.attach(backbone, "first", 2)
    disturb(backbone)
    adapters.save(backbone, "first", tmp_path, "# a\n")
    command = [sys.executable, "-c", RELOAD, str(tmp_path)]
    done = subprocess.run(command, check=True, timeout=120, capture_output=True, env=os.environ)
    assert done.stdout.decode().strip() == logits(backbone).numpy().tobytes().hex()


def test_rank_zero_trains_saves_and_loads_all_weights(tiny, tmp_path):
    backbone = tiny()
    assert adapters.attach(backbone, "orders", 0) == backbone.parameters()
    disturb(backbone)
    adapters.save(backbone, "orders", tmp_path, "# orders\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "README.md",
        "weights.json",
        "weights.safetensors",
    ]
    other = tiny(seed=9)
    adapters.load(other, tmp_path, "orders")
    assert torch.equal(logits(other), logits(backbone))


def test_bad_loads_are_one_line(tiny, tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no adapter"):
        adapters.load(tiny(), tmp_path, "first")
    backbone = tiny()
    adapters.attach(backbone, "first", 2)
    with pytest.raises(ValueError, match="without adapters"):
        adapters.attach(backbone, "second", 0)
    with pytest.raises(ValueError, match="no adapter 'second'"):
        adapters.save(backbone, "second", tmp_path, "")
    adapters.save(backbone, "first", tmp_path, "")
    with pytest.raises(
        ValueError, match="trained on scratch-llama-32x2, not on scratch-llama-64x2"
    ):
        adapters.load(tiny(hidden=64), tmp_path, "first")
    with pytest.raises(ValueError) as error:
        adapters.load(tiny(seed=1), tmp_path, "first")
    told = f"{tmp_path.name} was trained on scratch-llama-32x2 with other weights: fingerprint"
    assert str(error.value).startswith(told) and "\n" not in str(error.value)
    (tmp_path / "base.json").unlink()
    with pytest.raises(FileNotFoundError, match="no base.json that names its base model"):
        adapters.load(tiny(), tmp_path, "first")
    with pytest.raises(ValueError, match="needs dtype float32"):
        adapters.attach(tiny(dtype="bfloat16"), "first", 0)
    with pytest.raises(ValueError, match="no adapter to switch off"), adapters.off(tiny()):
        pass


def test_adapter_of_either_precision_fits_the_other(tiny, tmp_path):
    backbone = tiny(dtype="bfloat16")
    adapters.attach(backbone, "first", 2)
    adapters.save(backbone, "first", tmp_path, "")
    adapters.load(tiny(), tmp_path, "first")


def test_tied_output_matrix_stays_frozen_and_out_of_the_file(tiny, tmp_path):
    """Embedding and output are one matrix: an adapter leaves it alone, rank 0 trains it once."""
    backbone = tiny()
    adapters.attach(backbone, "first", 2)
    assert backbone.causal.get_input_embeddings().weight is backbone.head
    adapters.save(backbone, "first", tmp_path, "")
    names = load_file(tmp_path / "adapter_model.safetensors")
    assert names and all(".lora_A." in name or ".lora_B." in name for name in names)
    every = tiny()
    adapters.attach(every, "all", 0)
    assert [n for n, p in adapters.trainable(every) if p is every.head] == [
        "model.embed_tokens.weight"
    ]
    disturb(every)
    assert every.causal.get_input_embeddings().weight is every.head


def test_adapter_of_a_bfloat16_base_is_float32(tiny):
    backbone = tiny(dtype="bfloat16")
    adapters.attach(backbone, "first", 2)
    assert {p.dtype for _, p in adapters.trainable(backbone)} == {torch.float32}
    assert backbone.head.dtype == torch.bfloat16


def test_dropout_drops_its_share_and_keeps_the_mean():
    """100,000 values, p = 0.25: sd of the share 0.0014; each of four places of a draw alike."""
    dropout = adapters.Dropout(0.25)
    torch.manual_seed(0)
    found = dropout(torch.ones(100_000))
    assert sorted(found.unique().tolist()) == [0.0, pytest.approx(4 / 3)]
    for place in range(4):
        assert (found[place::4] == 0).float().mean().item() == pytest.approx(0.25, abs=0.01)
    torch.manual_seed(0)
    assert torch.equal(dropout(torch.ones(100_000)), found)
    assert dropout(torch.ones(5)).shape == (5,)
    assert torch.equal(dropout.eval()(found), found)


def test_adapters_have_this_dropout_where_they_have_one(tiny):
    backbone = tiny()
    adapters.attach(backbone, "first", 2, dropout=0.05)
    adapters.attach(backbone, "second", 2)
    layer = backbone.causal.model.layers[0].mlp.up_proj
    assert layer.lora_dropout["first"].p == round(0.05 * 65536) / 65536
    assert isinstance(layer.lora_dropout["second"], torch.nn.Identity)


def test_a_merged_adapter_is_the_sum_and_fits_no_other(tiny, tmp_path):
    """In float32 the logits are those of the adapter; the weights are W + (alpha / r) B A."""
    backbone = tiny()
    adapters.attach(backbone, "some", 4, alpha=8)
    disturb(backbone)
    adapters.save(backbone, "some", tmp_path, "")
    before, layer = logits(backbone), backbone.causal.model.layers[1].mlp.down_proj
    delta = 2 * layer.lora_B["some"].weight @ layer.lora_A["some"].weight
    expected = (layer.base_layer.weight + delta).detach()
    adapters.merge(backbone)
    assert torch.allclose(logits(backbone), before, atol=1e-5)
    assert torch.allclose(backbone.causal.model.layers[1].mlp.down_proj.weight, expected, atol=1e-6)
    assert adapters.names(backbone) == [] and backbone.source["merged"] == "some"
    with pytest.raises(ValueError, match="other weights"):
        adapters.load(backbone, tmp_path, "again")
    after = logits(backbone)
    adapters.merge(backbone)  # nothing to merge
    assert torch.equal(logits(backbone), after)


def test_targets_and_the_sizes_of_study_3(tiny, tmp_path):
    """Tiny Llama of study 3 (803,968 weights): rank 2 on q and v trains 4 (2 256 + 2 192)."""
    words = [f"w{i}" for i in range(511)]
    sizes = {"hidden": 128, "layers": 4, "heads": 4, "key_heads": 2, "inner": 352}
    backbone = tiny(words=words, **sizes)
    assert backbone.parameters() == 803_968
    assert adapters.attach(backbone, "role", 2, targets=("q_proj", "v_proj")) == 3_584
    disturb(backbone)
    expected = logits(backbone)
    adapters.save(backbone, "role", tmp_path, "# role\n")
    other = tiny(words=words, **sizes)
    adapters.load(other, tmp_path, "role")
    assert torch.equal(logits(other), expected)
    assert sum(p.numel() for _, p in adapters.trainable(other)) == 3_584
    for wrong in ((), ("lm_head",)):
        with pytest.raises(ValueError, match="an adapter goes on some of q_proj"):
            adapters.attach(backbone, "wrong", 2, targets=wrong)
