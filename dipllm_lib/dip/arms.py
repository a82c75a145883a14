"""Running training arms at equal data and equal steps, and the table of their divergences.

An arm (`arm_list`) is one task: plain data in, JSON out, its weights in a folder. It begins with
the same weights, sees the same positions in the same order for the same number of steps, and is
measured on the same held-out power-turns, so that two arms differ in what they name and in nothing
else. The measure is KL(pi* || pi_phi) with the model masked as at play, pi* always that of the
search, whatever the arm was trained on; differences are paired by held-out power-turn, so their
intervals speak of power-turns and not of other trainings. How an arm plays is another question:
`player` makes a policy of its weights for the arena.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.torch import load_file

from dipllm_lib.dip import (
    arm_rows,
    collect,
    finetune,
    independent,
    ppo,
    preference,
    pretrain,
    samples,
)
from dipllm_lib.dip.agent import LMAgent
from dipllm_lib.dip.arm_list import FIRST, Arm, ArmSettings
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.independent import IndependentUnits
from dipllm_lib.dip.narrowing import Narrowing
from dipllm_lib.dip.records import Record
from dipllm_lib.dip.rowwise import RowwiseValue
from dipllm_lib.dip.value import ValueNet
from dipllm_lib.lm import adapters
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding, stats
from dipllm_lib.run.profiles import DiplomacySettings

NAME = "arm"  # under which the weights of every arm are attached
START = "start"  # folder of the weights that have read games


@dataclass(frozen=True)
class Sources:
    """Paths of the files that arms read: samples of 02, searches, anchor and value net of 01, and
    games of the anchor with itself.
    """

    samples: str
    search: str
    anchor: str
    value: str
    games: str


@dataclass(frozen=True)
class Job:
    """One task. folder: where the weights of all arms lie, each in a folder of its key."""

    arm: Arm
    settings: DiplomacySettings
    seed: int
    sources: Sources
    folder: str


def scratch(settings: DiplomacySettings, arm: Arm | None = None) -> DiplomacySettings:
    """The settings of a scratch Llama of the arms' size, or of that of `arm`."""
    sizes = ArmSettings.of(settings)
    hidden, layers, heads = (arm.size if arm else None) or (sizes.hidden, sizes.layers, sizes.heads)
    return replace(
        settings, backbone="scratch", dtype="float32", lora_rank=0, scratch_hidden=hidden,
        scratch_layers=layers, scratch_heads=heads, pretrain_positions=sizes.reading,
        pretrain_precision="float32",
    )  # fmt: skip


def training(settings: DiplomacySettings, arm: Arm) -> FinetuneSettings:
    """How an arm is trained."""
    sizes = ArmSettings.of(settings)
    wanted = replace(
        FinetuneSettings.of(settings), pack="position", lr=sizes.lr, batch=sizes.batch,
        steps=sizes.steps, evaluations=1,
    )  # fmt: skip
    return replace(wanted, **dict(arm.changes))


def begin(job: Job) -> Backbone:
    """The model that an arm starts from. FileNotFoundError if games have to be read first."""
    model = finetune.backbone(scratch(job.settings, job.arm), job.seed)
    if job.arm.start == "games":
        adapters.load(model, Path(job.folder) / START, pretrain.NAME)
    return model


def read(job: Job) -> list[dict]:
    """Task: the start of the arms reads recorded games; rows of its history that were measured."""
    Path(job.folder).mkdir(parents=True, exist_ok=True)
    settings = scratch(job.settings)
    model = finetune.backbone(settings, job.seed)
    games = _lines(job.sources.games)
    wanted = pretrain.PretrainSettings.of(settings)
    checkpoint = Path(job.folder) / "reading.safetensors"
    history, _ = pretrain.run(model, games, wanted, job.seed, checkpoint)
    card = pretrain.card(model, wanted, history, "10_ablations")
    _save(model, pretrain.NAME, Path(job.folder) / START, card)
    return history.dropna(subset="masked")[["step", "tokens", "heldout", "masked"]].to_dict(
        "records"
    )


def _save(model: Backbone, name: str, folder: Path, card: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    adapters.save(model, name, folder, card)


def split(job: Job) -> tuple[list[dict], list[dict]]:
    """(training rows, held-out rows) of whole games: the same for all arms but for their share."""
    rows = _lines(job.sources.samples)
    sizes = len(rows), ArmSettings.of(job.settings).heldout
    games, rng = job.settings.finetune_heldout_games, seeding.child(job.seed, "arms", "split")
    train, aside = samples.split(rows, *sizes, rng, "position", games)
    return arm_rows.shared(train, job.arm.games, job.seed), aside


def _lines(path: str) -> list[dict]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _narrowing(job: Job) -> Narrowing:
    """What the model of an arm may say."""
    if job.arm.candidates == "legal":
        return Narrowing()
    anchor, limit = collect.tau(job.sources.anchor), job.settings.agent_candidate_limit
    return Narrowing(job.arm.candidates, anchor, limit)


def run(job: Job) -> dict:
    """Task: train one arm, keep its weights, measure it.

    Returns {arm, group, against, games, steps, seconds, history, and by held-out power-turn
    lists game, phase, power, kl, covered, offered}. ValueError for an arm that the data do not
    allow.
    """
    begun, arm = time.perf_counter(), job.arm
    Path(job.folder).mkdir(parents=True, exist_ok=True)
    train, aside = split(job)
    narrow = arm_rows.remembered(_narrowing(job))
    model = begin(job) if arm.method != "none" else weights(job)
    history = _trained(job, model, train, narrow)
    if arm.method != "none":
        card = f"# {arm.name}\n\n- One of the arms of notebooks/10_ablations.ipynb: {arm}\n"
        _save(model, NAME, Path(job.folder) / arm.key, card)
        _checkpoint(job).unlink(missing_ok=True)
    facts = {"arm": arm.name, "group": arm.group, "against": arm.against}
    facts["games"] = len({row["game"] for row in train}) if arm.method != "none" else 0
    facts |= {
        "steps": int(history["step"].max()) if len(history) else 0,
        "history": history.to_dict("records"),
    }
    facts |= _measured(job, model, aside, narrow)
    return facts | {"seconds": time.perf_counter() - begun}


def _checkpoint(job: Job) -> Path:
    """Where an unfinished training is kept."""
    return Path(job.folder) / f"{job.arm.key}.safetensors"


def weights(job: Job) -> Backbone:
    """The model of an arm that was trained before; of one with method `none` that of `against`,
    which has to be the first arm.
    """
    arm = job.arm
    if arm.method == "none":
        if arm.against != FIRST:
            raise ValueError(f"arm {arm.name!r}: only the first arm can be asked in another way")
        arm = Arm(FIRST, "objective")
    model = finetune.backbone(scratch(job.settings, arm), job.seed)
    adapters.load(model, Path(job.folder) / arm.key, NAME)
    return model


def _trained(
    job: Job, model: Backbone, rows: Sequence[dict], narrow: arm_rows.Narrow
) -> pd.DataFrame:
    """Train `model` in place; the history, without held-out measurements."""
    arm, sizes = job.arm, ArmSettings.of(job.settings)
    if arm.method == "none":
        return pd.DataFrame()
    adapters.attach(model, NAME, 0)
    if arm.games == 0:
        return pd.DataFrame()
    wanted = training(job.settings, arm)
    rows = arm_rows.enough(rows, wanted.steps * wanted.batch, job.seed)
    checkpoint = _checkpoint(job)
    if arm.method == "ppo":
        value_fn = RowwiseValue(ValueNet.from_tensors(load_file(job.sources.value)))
        records = _records(job, rows)
        return ppo.ppo(model, NAME, records, value_fn, wanted, sizes, job.seed, checkpoint)
    searches = _lines(job.sources.search) if arm.lam is not None else ()
    rows, _ = arm_rows.offered(arm_rows.aimed(rows, arm, searches), narrow)
    if arm.method == "independent":
        found = independent.samples(rows, model, wanted)
    else:
        found = samples.build(rows, model, wanted, arm_rows.chooser(arm, narrow))
    if arm.method == "dpo":
        return preference.dpo(model, NAME, found, wanted, sizes, job.seed, checkpoint)
    history = finetune.train(model, NAME, found, [], wanted, job.seed, checkpoint)
    return history[history["step"] > 0].drop(columns="kl")


def _records(job: Job, rows: Sequence[dict]) -> list[Record]:
    """The searches of the positions in `rows`."""
    some = {(row["game"], row["phase"]) for row in rows}
    found = (r for r in _lines(job.sources.search) if (r["game"], r["phase"]) in some)
    return [Record.from_json(row) for row in found]


def _measured(job: Job, model: Backbone, aside: Sequence[dict], narrow: arm_rows.Narrow) -> dict:
    """By held-out power-turn, in their order: kl (nats) and covered (the model's mass on the
    candidates), None where no candidate is on offer; offered: mass of pi* that is.
    """
    rows, mass = arm_rows.offered(aside, narrow)
    wanted = training(job.settings, job.arm)
    if job.arm.method == "independent":
        measured = independent.evaluate(model, rows)
    else:
        found = samples.build(rows, model, wanted, arm_rows.chooser(job.arm, narrow))
        measured = finetune.evaluate(model, found)
    values = measured[["kl", "covered"]].to_dict("records")
    told, empty = iter(values), {"kl": None, "covered": None}
    table = [next(told) if one > 0 else empty for one in mass]
    result = {name: [row[name] for row in aside] for name in ("game", "phase", "power")}
    result |= {name: [row[name] for row in table] for name in empty}
    return result | {"offered": mass.tolist()}


def player(job: Job, name: str | None = None) -> LMAgent:
    """The trained model of an arm as a policy at the temperature of play."""
    settings, arm = job.settings, job.arm
    if arm.method == "independent":
        return IndependentUnits(weights(job), settings.agent_temperature, name or arm.name)
    options = {"narrowing": _narrowing(job), "spoken": (arm.units, 0)}
    temperature, top_p = settings.agent_temperature, settings.agent_top_p
    return LMAgent(weights(job), temperature, name or arm.name, top_p, **options)


def jobs(
    arms: Sequence[Arm],
    settings: DiplomacySettings,
    seed: int,
    sources: Sources,
    folder: str | Path,
) -> tuple[list[Job], list[str]]:
    """(tasks of `run`, their keys)."""
    found = [Job(arm, settings, seed, sources, str(folder)) for arm in arms]
    return found, [arm.key for arm in arms]


def table(found: Sequence[dict], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """One row per result of `run`: arm, group, games, steps, kl (mean, nats per power-turn, with
    interval), covered and offered (mean shares), against, difference to that arm (paired by
    held-out power-turn, with interval; NaN for an arm against itself), turns (in the difference).
    """
    kl = {one["arm"]: np.array(one["kl"], np.float64) for one in found}
    rows = []
    for one in found:
        own, other = kl[one["arm"]], kl[one["against"]]
        row = {name: one[name] for name in ("arm", "group", "games", "steps")}
        row |= _interval("kl", own[np.isfinite(own)], rng, resamples)
        row["covered"] = np.nanmean(np.array(one["covered"], np.float64))
        row |= {"offered": np.mean(one["offered"]), "against": one["against"]}
        both = np.isfinite(own) & np.isfinite(other)
        row |= _interval("difference", (own - other)[both], rng, resamples)
        if one["arm"] == one["against"]:
            row |= dict.fromkeys(("difference", "difference_low", "difference_high"), np.nan)
        rows.append(row | {"turns": int(both.sum())})
    return pd.DataFrame(rows)


def _interval(name: str, values: np.ndarray, rng: np.random.Generator, resamples: int) -> dict:
    found = stats.mean_interval(values, rng, resamples)
    return dict(zip((name, f"{name}_low", f"{name}_high"), found, strict=True))
