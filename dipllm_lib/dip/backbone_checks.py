"""Does it matter what the language model has read before? Models at equal data.

The main model of a profile stands beside the scratch Llama on the same power-turns, once from
random weights and once after it has read recorded games (`pretrain`). Same rows, packing and
objective; every model has the learning rate of its own setting. A difference is paired by held-out
power-turn, so its interval speaks of power-turns, not of other trainings.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.dip import finetune, pretrain
from dipllm_lib.dip.finetune import Fitted
from dipllm_lib.run import stats
from dipllm_lib.run.profiles import DiplomacySettings


def scratch(settings: DiplomacySettings) -> DiplomacySettings:
    """The same training for a scratch Llama: all weights, float32, its own learning rate."""
    return dataclasses.replace(
        settings, backbone="scratch", dtype="float32", lora_rank=0, finetune_lr=settings.scratch_lr
    )


def scratch_fits(
    rows: Sequence[dict],
    heldout: Sequence[dict],
    games: Sequence[Mapping],
    settings: DiplomacySettings,
    seed: int,
    folder: Path,
) -> tuple[dict[str, Fitted], pd.DataFrame]:
    """Scratch models trained on `rows`: one after reading `games` (saved games), and one from
    random weights unless that is the main model already. Returns them and the history of the
    reading. folder: keeps checkpoints.
    """
    own, found = scratch(settings), {}
    if settings.backbone != "scratch":
        found["scratch"] = finetune.fit(
            rows, heldout, own, seed, name="scratch", checkpoint=folder / "scratch.safetensors"
        )
    reader = finetune.backbone(own, seed)
    wanted = pretrain.PretrainSettings.of(settings)
    checkpoint = folder / "pretrained.safetensors"
    history, _ = pretrain.run(reader, games, wanted, seed, checkpoint)
    found["scratch after games"] = finetune.fit(
        rows, heldout, own, seed, name="games", start=reader,
        checkpoint=folder / "games.safetensors",
    )  # fmt: skip
    return found, history


def table(
    main: tuple[str, int, pd.DataFrame, pd.DataFrame],
    others: Mapping[str, Fitted],
    rng: np.random.Generator,
    resamples: int,
) -> pd.DataFrame:
    """One row per model: model, parameters, before and after (mean KL in nats per power-turn),
    difference (after, minus that of the main model, paired) with its interval.

    main: name, parameters, and its tables of `finetune.evaluate` before and after.
    """
    each = [main]
    each += [(name, f.backbone.parameters(), f.before, f.after) for name, f in others.items()]
    rows, reference = [], main[3]["kl"].to_numpy()
    for name, parameters, before, after in each:
        gap, low, high = stats.mean_interval(after["kl"].to_numpy() - reference, rng, resamples)
        row = {"model": name, "parameters": parameters}
        row |= {"before": before["kl"].mean(), "after": after["kl"].mean()}
        rows.append(row | {"difference": gap, "difference_low": low, "difference_high": high})
    return pd.DataFrame(rows)
