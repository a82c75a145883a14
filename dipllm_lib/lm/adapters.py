"""LoRA adapters by name on one base model, and the full-weight case (rank 0).

LoRA (Hu et al. 2021) adds (alpha / r) B A to a linear layer W of shape (out, in): A (r, in) random,
B (out, r) zero, so a new adapter changes nothing; r (in + out) weights per layer are trained. All
linear layers of the transformer blocks carry it unless others are named; the output matrix never
does. Adapters are float32
also on a bfloat16 base: steps of 1e-4 would be lost in 8 bits.

Saved form: plain peft (`adapter_config.json`, `adapter_model.safetensors`) with `base.json`, the
name and fingerprint of the base model it belongs to; or for rank 0 `weights.json` and
`weights.safetensors`; a model card `README.md` beside either. No path of a machine is in them.
"""

import contextlib
import json
import warnings
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

import torch
from peft import (
    LoraConfig,
    PeftModel,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from safetensors.torch import load_file, save_file

from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding

LEVELS = 1 << 16  # dropout draws 16 bits per value
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def attach(
    backbone: Backbone,
    name: str,
    rank: int,
    alpha: int = 32,
    dropout: float = 0.0,
    seed: int = 0,
    targets: Sequence[str] = TARGETS,
) -> int:
    """Give the backbone a trainable adapter `name`, make it the active one; returns the trainable
    count.

    rank 0 trains all weights of the base instead. The new weights depend on (seed, name) and the
    sizes only. targets: names of the linear layers that carry the adapter, some of TARGETS.
    Raises ValueError for a name in use, rank 0 beside an adapter, rank 0 in bfloat16, and an
    unknown target.
    """
    if rank == 0:
        return _attach_all(backbone, name)
    if name in names(backbone):
        raise ValueError(f"the backbone already has an adapter {name!r}: choose another name")
    if not targets or not set(targets) <= set(TARGETS):
        raise ValueError(f"an adapter goes on some of {', '.join(TARGETS)}, not on {targets}")
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=list(targets),
        task_type="CAUSAL_LM",
    )
    wrapped = isinstance(backbone.model, PeftModel)
    with warnings.catch_warnings(), seeding.torch_seed(seed, "adapter", name):
        # peft reads a property that transformers has renamed
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing")
        if wrapped:
            backbone.model.add_adapter(name, config)
        else:
            backbone.model = get_peft_model(backbone.model, config, adapter_name=name)
    # set afterwards: peft would replace it by the folder the model was read from
    backbone.model.peft_config[name].base_model_name_or_path = backbone.name
    for module in backbone.model.modules():
        if name in getattr(module, "lora_dropout", {}) and dropout:
            module.lora_dropout[name] = Dropout(dropout)
    switch(backbone, name)
    backbone.model.eval()
    return _check_count(backbone, rank, targets)


class Dropout(torch.nn.Module):
    """torch.nn.Dropout with p in steps of 1 / 65536, from a quarter of the draws: on a CPU they
    were a seventh of a training step.
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = round(p * LEVELS) / LEVELS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        least = torch.iinfo(torch.int64).min
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        bits = draws.random_(least, None).view(torch.int16)[: x.numel()].view(x.shape)
        kept = bits >= round(self.p * LEVELS) - LEVELS // 2
        return x * kept.to(x.dtype).div_(1 - self.p)


def _attach_all(backbone: Backbone, name: str) -> int:
    if isinstance(backbone.model, PeftModel):
        raise ValueError("rank 0 trains all weights: it needs a backbone without adapters")
    if backbone.head.dtype != torch.float32:
        raise ValueError("rank 0 trains all weights and needs dtype float32, or set lora_rank")
    for parameter in backbone.model.parameters():
        parameter.requires_grad_(True)
    backbone.source["trained"] = name
    return sum(p.numel() for _, p in trainable(backbone))


def _check_count(backbone: Backbone, rank: int, targets: Sequence[str]) -> int:
    """Trainable count of the active adapter; raises ValueError if it is not the sum of r (in +
    out).
    """
    layers = [m for n, m in backbone.causal.named_modules() if n.rpartition(".")[2] in targets]
    expected = sum(rank * (layer.in_features + layer.out_features) for layer in layers)
    count = sum(p.numel() for _, p in trainable(backbone))
    if count != expected or not count:
        raise ValueError(f"the adapter has {count} trainable weights, its formula gives {expected}")
    return count


def names(backbone: Backbone) -> list[str]:
    """Names of the adapters on the backbone, sorted."""
    return sorted(getattr(backbone.model, "peft_config", {}))


def trainable(backbone: Backbone) -> list[tuple[str, torch.nn.Parameter]]:
    """Trainable parameters with their names, in the model's order; a tied matrix appears once."""
    return [(n, p) for n, p in backbone.model.named_parameters() if p.requires_grad]


def words(backbone: Backbone, name: str) -> str:
    """What is trained under `name`, in a few words for model cards."""
    if name not in names(backbone):
        return f"all weights, {sum(p.numel() for _, p in trainable(backbone)):,}"
    config = backbone.model.peft_config[name]
    own = [p for n, p in backbone.model.named_parameters() if f".{name}." in n]
    return (
        f"LoRA of rank {config.r}, alpha {config.lora_alpha:g}, on "
        f"{', '.join(t for t in TARGETS if t in config.target_modules)}; "
        f"{sum(p.numel() for p in own):,} weights; peft {metadata.version('peft')}"
    )


def switch(backbone: Backbone, name: str) -> None:
    """Make adapter `name` the active, trainable one. Raises ValueError for an unknown name."""
    if name not in names(backbone):
        raise ValueError(f"no adapter {name!r} on this backbone, only {names(backbone)}")
    backbone.model.set_adapter(name)


@contextlib.contextmanager
def off(backbone: Backbone) -> Iterator[None]:
    """The base model without any adapter, inside the context."""
    if not isinstance(backbone.model, PeftModel):
        raise ValueError("this backbone has no adapter to switch off")
    with backbone.model.disable_adapter():
        yield


def merge(backbone: Backbone) -> None:
    """Add the active adapter to the base weights, which are changed, and take it away: for play. No
    other adapter fits on them, nor can this one be saved. Without an adapter nothing is done.

    Each sum is rounded to the precision of the base once. In bfloat16 that moves log-probabilities
    as far as bfloat16 moves them anyway: see `dip.lm_play`.
    """
    if isinstance(backbone.model, PeftModel):
        backbone.source["merged"] = backbone.model.active_adapter
        backbone.model = backbone.model.merge_and_unload()


def save(backbone: Backbone, name: str, folder: Path, card: str) -> None:
    """Write adapter `name` (or all weights, for rank 0) and its model card into the existing
    `folder`.

    The same weights give the same bytes: one metadata key, sorted JSON.
    """
    folder = Path(folder)
    if name in names(backbone):
        tensors = get_peft_model_state_dict(
            backbone.model, adapter_name=name, save_embedding_layers=False
        )
        config = backbone.model.peft_config[name].to_dict()
        config |= {"inference_mode": True, "target_modules": sorted(config["target_modules"])}
        stem, facts = "adapter", {k: _plain(v) for k, v in config.items()}
        base = {"name": backbone.name, "fingerprint": backbone.fingerprint()}
        _write_json(folder / "base.json", base | {"source": backbone.source})
    elif backbone.source.get("trained") == name:
        tensors = dict(trainable(backbone))
        stem, facts = "weights", {"name": backbone.name, "source": backbone.source}
    else:
        raise ValueError(f"no adapter {name!r} on this backbone, only {names(backbone)}")
    tensors = {k: v.detach().cpu().contiguous() for k, v in sorted(tensors.items())}
    target = "adapter_model" if stem == "adapter" else "weights"
    save_file(tensors, folder / f"{target}.safetensors", metadata={"format": "pt"})
    (folder / f"{target}.safetensors").chmod(0o644)
    config_name = "adapter_config.json" if stem == "adapter" else "weights.json"
    _write_json(folder / config_name, facts)
    (folder / "README.md").write_text(card, encoding="utf-8", newline="\n")


def _write_json(path: Path, facts: dict) -> None:
    text = json.dumps(facts, sort_keys=True, indent=1) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


def _plain(value):
    """JSON form of a value of a peft config: sets sorted, enumerations by value."""
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return getattr(value, "value", value)


def load(backbone: Backbone, folder: Path, name: str) -> None:
    """Put what `save` wrote onto a bare or adapted backbone, under `name`, and make it the active
    one.

    Raises FileNotFoundError for an empty folder, ValueError for weights of another model.
    """
    folder = Path(folder)
    if (folder / "adapter_config.json").is_file():
        _load_adapter(backbone, folder, name)
    elif (folder / "weights.json").is_file():
        _load_all(backbone, folder, name)
    else:
        raise FileNotFoundError(f"{folder.name} holds no adapter: run the notebook that trains it")


def _load_adapter(backbone: Backbone, folder: Path, name: str) -> None:
    _check_base(backbone, folder)
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    sizes = config["r"], config["lora_alpha"], config["lora_dropout"]
    attach(backbone, name, *sizes, targets=config["target_modules"])
    tensors = load_file(folder / "adapter_model.safetensors")
    result = set_peft_model_state_dict(backbone.model, tensors, adapter_name=name)
    missing = [key for key in result.missing_keys if f".{name}." in key]
    if missing or result.unexpected_keys:
        raise ValueError(f"{folder.name} does not fit this model: {len(missing)} weights missing")


def _check_base(backbone: Backbone, folder: Path) -> None:
    """Raise ValueError unless the adapter in `folder` was trained on these base weights."""
    if not (folder / "base.json").is_file():
        raise FileNotFoundError(
            f"{folder.name} has no base.json that names its base model: load it with peft itself"
        )
    base = json.loads((folder / "base.json").read_text(encoding="utf-8"))
    if base["name"] != backbone.name:
        raise ValueError(f"{folder.name} was trained on {base['name']}, not on {backbone.name}")
    found = backbone.fingerprint()
    if base["fingerprint"] != found:
        raise ValueError(
            f"{folder.name} was trained on {base['name']} with other weights: fingerprint"
            f" {base['fingerprint'][:16]}, not {found[:16]}"
        )


def _load_all(backbone: Backbone, folder: Path, name: str) -> None:
    facts = json.loads((folder / "weights.json").read_text(encoding="utf-8"))
    if facts["name"] != backbone.name:
        raise ValueError(f"{folder.name} holds weights of {facts['name']}, not of {backbone.name}")
    attach(backbone, name, 0)
    tensors, found = load_file(folder / "weights.safetensors"), dict(trainable(backbone))
    wrong = [k for k in found if k not in tensors or tensors[k].shape != found[k].shape]
    if wrong or len(tensors) != len(found):
        raise ValueError(f"{folder.name} does not fit this model, first at {(wrong or ['-'])[0]}")
    with torch.no_grad():
        for key, parameter in found.items():
            parameter.copy_(tensors[key])
    backbone.source = facts["source"] | {"trained": name}
