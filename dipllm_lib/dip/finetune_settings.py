"""The settings of one training, with what is right as default.

`FinetuneSettings.of` reads them from the settings of a profile, where each has the prefix
`finetune_`; a profile that does not name one of the switches has the default of this table. Names
of the switches are those of the discrepancy list: each value is a form found in the paper, in its
code, or the one that follows from its Eq. 5.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields

from dipllm_lib.lm.steps import SCHEDULES
from dipllm_lib.lm.tree_scores import SOFTMAX

OBJECTIVES = ("exact_kl", "paper_eq6", "bc_sample", "bc_argmax")
EQ6_DATA = ("uniform", "pi_star", "tau")
EQ6_WEIGHTS = ("per_state", "raw")
BC_SOURCES = ("tau", "pi_star")
PACKS = ("turn", "position")


@dataclass(frozen=True)
class FinetuneSettings:
    """Size and switches of a training; ValueError for a value that is not known.

    epochs · steps: of the optimiser, whatever the amount of data; 0: as many as `epochs` give ·
    batch: items of a step, power-turns or positions as `pack` says · lr · evaluations: held-out
    measurements besides the first · joint_orders: at most so many per power-turn in the loss,
    draws with `bc_sample` · max_length: longest prompt with one joint order in tokens ·
    objective, eq6_data, eq6_weights, bc_source: see `objectives` · softmax: see `tree_scores` ·
    pack: a row is one power-turn, or one position with its powers as branches · tokens: padded
    tokens of one backward pass · schedule, warmup: see `steps` · checkpointing:
    recompute activations, less memory.
    """

    epochs: int
    batch: int
    lr: float
    evaluations: int
    joint_orders: int
    max_length: int
    objective: str = "exact_kl"
    softmax: str = "tokens"
    eq6_data: str = "uniform"
    eq6_weights: str = "per_state"
    bc_source: str = "tau"
    pack: str = "turn"
    tokens: int = 1024
    schedule: str = "linear"
    warmup: int = 0
    checkpointing: bool = False
    steps: int = 0

    def __post_init__(self):
        known = {
            "objective": OBJECTIVES,
            "softmax": SOFTMAX,
            "eq6_data": EQ6_DATA,
            "eq6_weights": EQ6_WEIGHTS,
            "bc_source": BC_SOURCES,
            "pack": PACKS,
            "schedule": SCHEDULES,
        }
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise ValueError(
                    f"unknown finetune.{name} {getattr(self, name)!r}:"
                    f" use one of {', '.join(values)}"
                )
        for name in ("epochs", "batch", "evaluations", "joint_orders", "max_length", "tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"finetune.{name} is {getattr(self, name)}: needs at least 1")
        if self.steps < 0:
            raise ValueError(f"finetune.steps is {self.steps}: needs 0 (by epochs) or more")

    @classmethod
    def of(cls, settings) -> "FinetuneSettings":
        """The finetune_* fields of a profile's settings; a FinetuneSettings as it is."""
        if isinstance(settings, cls):
            return settings
        names = [f.name for f in fields(cls) if hasattr(settings, f"finetune_{f.name}")]
        return cls(**{name: getattr(settings, f"finetune_{name}") for name in names})

    def hash(self) -> str:
        """First 16 hex digits of the sha256 of all values."""
        text = json.dumps(asdict(self), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
