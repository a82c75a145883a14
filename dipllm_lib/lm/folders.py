"""What the folder of a saved model must hold before the transformers library is asked to read it.

Its own messages for a half-copied folder run over many lines or name a hub; these are one line.
"""

import json
from pathlib import Path

FORMATS = (("model.safetensors", "*.safetensors"), ("pytorch_model.bin", "pytorch_model*.bin"))
TOKENIZERS = ("tokenizer.json", "tokenizer.model")


def find(base_model: str, offline: bool) -> bool:
    """Whether `base_model` is a folder (of a whole Llama), not a hub id.

    Raises FileNotFoundError if it is neither, or if the folder lacks config, weights or tokenizer;
    ValueError for a model of another family and a file that cannot be read.
    """
    folder = Path(base_model)
    local = bool(base_model) and folder.is_dir()
    if not base_model or (not local and offline):
        raise FileNotFoundError(
            f"model folder {base_model!r} not found: set `base_model` to a folder with config.json"
        )
    if local:
        _check_family(folder)
        _check_weights(folder)
        if not any((folder / name).is_file() for name in TOKENIZERS):
            raise FileNotFoundError(f"{folder} has no {TOKENIZERS[0]}: copy the tokenizer too")
    return local


def _check_family(folder: Path) -> None:
    """Raise ValueError unless the folder holds a Llama: scoring reads its output matrix."""
    config = folder / "config.json"
    if not config.is_file():
        raise FileNotFoundError(f"{folder} has no config.json: give the folder of a saved model")
    kind = read_json(config).get("model_type")
    if kind != "llama":
        raise ValueError(f"{folder} holds a model of type {kind!r}: only `llama` is supported")


def _check_weights(folder: Path) -> None:
    """Raise FileNotFoundError unless one format of weights is there with all files of its index."""
    for name, pattern in FORMATS:
        if not any(folder.glob(pattern)):
            continue
        index = folder / f"{name}.index.json"
        if (folder / name).is_file() or not index.is_file():
            return
        parts = sorted(set(read_json(index)["weight_map"].values()))
        missing = [part for part in parts if not (folder / part).is_file()]
        if not missing:
            return
        raise FileNotFoundError(
            f"{folder} lacks {missing[0]} and {len(missing) - 1} more of {len(parts)} files of"
            " weights: copy them too"
        )
    raise FileNotFoundError(f"{folder} has no weights: copy its *.safetensors files too")


def read_json(path: Path) -> dict:
    """A JSON file of a model folder. ValueError in one line if it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}): copy it again") from None
