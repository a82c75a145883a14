"""The base model of the three roles: built, read from its stage 1, and shared.

`bare` is the untrained base. Stage 1 trains an adapter on it (rank 0: all weights), and `shared` is
the base with that merged in: read in float32, added in float32, then rounded once to the precision
of play. Role adapters go on top of it and stay float32.
"""

from dataclasses import dataclass
from pathlib import Path

from dipllm_lib.kto import fitting, roles, vocabulary
from dipllm_lib.lm import adapters, backbones
from dipllm_lib.lm.backbones import DTYPES, Backbone
from dipllm_lib.run.profiles_kto import KTOSettings

STAGE = "stage1"
SCRATCH = {"hidden": 128, "layers": 4, "heads": 4, "key_heads": 2, "inner": 352}


@dataclass(frozen=True)
class Recipe:
    """What makes a base; hashable, so that a worker builds it once. stage: folder of stage 1, ""
    for the untrained base · targets and rank: of the role adapters."""

    kind: str
    folder: str
    dtype: str
    seed: int
    rank: int
    targets: tuple[str, ...]
    stage: str = ""

    @classmethod
    def of(cls, settings: KTOSettings, seed: int, stage: Path | str = "") -> "Recipe":
        """The recipe of a profile."""
        kind, folder, dtype = settings.lm_base, settings.lm_folder, settings.lm_dtype
        targets = tuple(settings.lm_targets)
        return cls(kind, folder, dtype, seed, settings.lora_rank, targets, str(stage))

    def __call__(self) -> Backbone:
        """The shared base, or the untrained one without a stage 1, with the role adapters."""
        backbone = shared(self) if self.stage else bare(self)
        roles.attach(backbone, self.rank, self.targets, self.seed)
        return backbone


def bare(recipe: Recipe, dtype: str = "") -> Backbone:
    """The untrained base in `dtype`, by default the recipe's."""
    return backbones.load(
        recipe.kind,
        base_model=recipe.folder,
        dtype=dtype or recipe.dtype,
        words=vocabulary.words(),
        seed=recipe.seed,
        **SCRATCH,
    )


def shared(recipe: Recipe, dtype: str = "") -> Backbone:
    """The base after stage 1 with frozen weights, in `dtype`, by default the recipe's.

    ValueError for a recipe without a stage 1.
    """
    if not recipe.stage:
        raise ValueError("the shared base needs the folder of stage 1: run stages.pretrain first")
    backbone = bare(recipe, "float32")
    adapters.load(backbone, Path(recipe.stage), STAGE)
    adapters.merge(backbone)
    backbone.model.to(DTYPES[dtype or recipe.dtype])
    for parameter in backbone.model.parameters():
        parameter.requires_grad_(False)
    backbone.model.eval()
    return backbone


def rates(settings: KTOSettings, forecasts: bool = False) -> fitting.Rates:
    """The three rates of the schedule times the profile's factor, which is another for forecasts:
    cross-entropy has a minimum and stands more."""
    own = fitting.Rates(settings.lm_first, settings.lm_peak, settings.lm_last)
    return own.scaled(settings.lm_forecast_factor if forecasts else settings.lm_rate_factor)
