"""The five stages of the text as functions; each writes one artefact that the next one reads.

    1  pretrain   pool transcripts -> base           language-model loss on the answer tokens
    2  collect    base             -> trajectories   pi_ref plays the pool
    3  label      trajectories     -> samples        payoff, reference, V, label, weight
    4  optimise   samples          -> an adapter     one role; pi_ref is where it starts, as numbers
    5  snapshot   adapter          -> the new pi_ref (the league grows from here)

Stages 2 to 4 of the executor are repeated in rounds. On the data of another policy the loss has no
inner minimum: undesirable texts are pushed down without end, and what was likely before gains most.
On its own data the first step of a round is the policy gradient of expected prospect value. (A
table shows it: with 5 % of uniform play the ultimatum ends at 50 instead of 40.) The repeated game
is the exception: its labels depend on the action alone, and half of its play is uniform, so that
both actions are seen wherever the policy has settled.

A training keeps a checkpoint and goes on from it; a finished one is read back. So a run that is
stopped goes on where it was, whatever the stage.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.kto import (
    coordinator,
    fitting,
    games,
    language,
    lm_labels,
    pool,
    roles,
    trajectories,
)
from dipllm_lib.kto.fitting import Item, Objective, Rates, Role
from dipllm_lib.kto.language import STAGE, Recipe
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.kto.policies import Policy
from dipllm_lib.kto.trajectories import Trajectory
from dipllm_lib.lm import adapters
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding
from dipllm_lib.run.profiles_kto import KTOSettings

HELD_OUT = 0.15  # share of the transcripts that stage 1 is judged on
MIX = {"repeated": 0.5}  # share of uniform play of the learner in stage 2, else none
PROBED = 64  # contexts of a measurement, at most
TURNS = 7  # of the executor until every game had its own
UNIT = "unit"  # adapter of the arm with unit weights


def transcripts(settings: KTOSettings, seed: int) -> list[Trajectory]:
    """Pool members among themselves: what stage 1 reads."""
    matches = pool.transcripts(settings.lm_episodes)
    return trajectories.collect(matches, settings.ipd_rounds, seed, "transcripts", {})


def split(
    given: Sequence[Trajectory], settings: KTOSettings, seed: int
) -> tuple[list[Item], list[Item]]:
    """(training, held out) items of stage 1, by episode."""
    rng = seeding.child(seed, "kto", "transcripts split")
    out = rng.random(len(given)) < HELD_OUT
    catalogue = pool.catalogue(settings.ipd_rounds)
    parts = [
        [t for t, own in zip(given, out, strict=True) if own == want] for want in (False, True)
    ]
    return tuple(lm_labels.reading(part, catalogue, seed) for part in parts)


def digest(given: Sequence[Item], *more) -> str:
    """16 hex digits of items and whatever else a checkpoint must agree on."""
    found = hashlib.sha256(json.dumps([str(part) for part in more]).encode("utf-8"))
    for item in given:
        found.update(item.context.prompt.encode("utf-8") + item.actions.astype("<i8").tobytes())
        found.update(np.round(item.omega, 9).astype("<f8").tobytes())
    return found.hexdigest()[:16]


def pretrain(
    recipe: Recipe,
    given: Sequence[Item],
    settings: KTOSettings,
    seed: int,
    folder: Path,
    checkpoint: Path | None = None,
) -> list[dict]:
    """Stage 1: train the base on the answers of the transcripts and write it into `folder`, as an
    adapter or, for rank 0, with all weights. Returns the history."""
    backbone = language.bare(recipe)
    rank, peak = settings.lm_pretrain_rank, settings.lm_pretrain_rate
    sizes = (rank, roles.ALPHA, 0.0, seed, recipe.targets)
    adapters.attach(backbone, STAGE, *sizes)
    policy = LMPolicy(backbone, STAGE if rank else BASE, normalise=False)
    rates = Rates(peak / 4, peak, peak / 20)
    role = Role(policy, STAGE, settings.lm_pretrain_steps, rates, seed)
    key = digest(given, settings.hash(), seed, STAGE)
    contexts = settings.lm_pretrain_contexts
    fixed = role, given, Objective("ce"), contexts, seed, checkpoint, key
    history = fitting.fit(*fixed, turn=len(given))  # every game as often as any other
    adapters.save(backbone, STAGE, folder, _card(backbone, STAGE, history))
    return history


NOTEBOOK = "09_kto_language_games"
TASKS = {  # of the adapters that notebook 09 saves
    STAGE: "texts of four language games against a scripted pool",
    roles.EXECUTOR: "own answers in four language games, labelled by prospect value against a pool",
    roles.OPPONENT: "what the other player of the pool does next, in the same games",
    roles.COORDINATOR: "letters of settings A to F, labelled by the payoff of a window of games",
}


def _card(
    backbone: Backbone, name: str, history: Sequence[Mapping], notebook: str = NOTEBOOK
) -> str:
    """Five true lines for the folder of an adapter: base, data, weights, result, limits."""
    tenth = max(1, len(history) // 10)
    first, last = (
        np.mean([row["loss"] for row in rows]) for rows in (history[:tenth], history[-tenth:])
    )
    lines = [
        f"# {name}\n",
        f"- Base model: {backbone.name}, {backbone.origin}.",
        f"- Task and data: {TASKS[name]}; made by notebooks/{notebook}.ipynb.",
        f"- Trained: {adapters.words(backbone, name)}; {len(history)} steps of AdamW, one seed.",
        f"- Result: mean training loss {first:.3f} in the first tenth of the steps, {last:.3f} in"
        " the last; what that is worth in the games: the tables of that notebook.",
        "- Limits: a demonstration on a small model; it answers only in the texts of these games.",
    ]
    return "\n".join(lines) + "\n"


def measured(policy: LMPolicy, given: Sequence[Item], seed: int) -> pd.DataFrame:
    """Per game: decisions, loss (nats per decision, over the whole vocabulary), uniform (the same
    of a uniform choice over A(h)), legal_mass, valid (share of free answers that are legal)."""
    rows = []
    for kind in sorted({item.game for item in given}):
        own = [item for item in given if item.game == kind][:PROBED]
        contexts = [item.context for item in own]
        raw = LMPolicy(policy.backbone, policy.adapter, normalise=False).log_probs(contexts)
        said = policy.say(
            contexts, [seeding.child(seed, "kto", "say", kind, k) for k in range(len(own))]
        )
        counts = np.array([len(item.actions) for item in own])
        losses = [-row[item.actions].sum() for row, item in zip(raw, own, strict=True)]
        even = [len(item.actions) * np.log(len(item.context.legal)) for item in own]
        row = {"game": kind, "decisions": int(counts.sum())}
        row |= {"loss": float(sum(losses) / counts.sum())}
        row |= {"uniform": float(sum(even) / counts.sum())}
        row |= {"legal_mass": float(np.mean([np.exp(r).sum() for r in raw]))}
        rows.append(row | {"valid": float(np.mean([_valid(*p) for p in zip(said, own)]))})
    return pd.DataFrame(rows)


def _valid(text: str, item: Item) -> bool:
    try:
        games.parse(text, item.context.legal)
    except games.Invalid:
        return False
    return True


def rows_of(
    policy: Policy, settings: KTOSettings, kinds: Sequence[str] = pool.GAMES
) -> dict[str, dict[str, dict]]:
    """game -> partner told, "" for none -> probabilities by information set: how a policy plays
    under setting A."""
    found = {}
    for variant in coordinator.variants(settings.ipd_rounds):
        if variant.part == coordinator.TRAINING and variant.kind in kinds:
            names = ("", *pool.VECTORS) if variant.kind == "repeated" else ("",)
            sentences = {name: lm_labels.partner(name) if name else "" for name in names}
            found[variant.kind] = {
                name: coordinator.table(policy, variant, "A", sentence)
                for name, sentence in sentences.items()
            }
    game, contexts, keys = pool.catalogue(settings.ipd_rounds)["ultimatum"], [], []
    for k in range(game.grid + 1):
        state = trajectories.STATES["ultimatum"](k)
        contexts.append(lm_labels.context(game, state, 1, "A"))
        keys.append(game.infoset(state, 1))
    rows = policy.log_probs(contexts)
    found["ultimatum"][""] |= {key: np.exp(row) for key, row in zip(keys, rows, strict=True)}
    return found


def collect(
    policy: Policy, settings: KTOSettings, seed: int, number: int = 1, workers: int = 1
) -> list[dict]:
    """Stage 2: rows of the trajectories of the learner against the pool, in round `number`."""
    matches, found = pool.collection(settings.lm_episodes), rows_of(policy, settings)
    name = f"collect {number}"
    played = trajectories.collect(matches, settings.ipd_rounds, seed, name, found, MIX, workers)
    return [one.row() | {"round": number} for one in played]


def label(rows: Sequence[Mapping], settings: KTOSettings, seed: int) -> list[dict]:
    """Stage 3: rows of the labelled samples of the training split (see `lm_labels.rows`)."""
    played = [Trajectory.of(row) for row in rows]
    samples = lm_labels.label(played, pool.catalogue(settings.ipd_rounds), seed)
    training, _ = lm_labels.weigh(samples, seed)
    return lm_labels.rows(training)


def optimise(
    backbone: Backbone,
    name: str,
    given: Sequence[Item],
    count: int,
    settings: KTOSettings,
    seed: int,
    checkpoint: Path | None = None,
    objective: Objective | None = None,
) -> list[dict]:
    """Stage 4: train one role's adapter on from where it is, which is pi_ref (at first the base);
    returns the history."""
    objective = objective or objective_of(name, settings)
    if objective.name != "ce":
        given = fitting.referred(given, LMPolicy(backbone, name))
    rates = language.rates(settings, objective.name == "ce")
    role = Role(LMPolicy(backbone, name), name, count, rates, seed)
    key = digest(given, settings.hash(), seed, name, objective)
    return fitting.fit(role, given, objective, settings.contexts, seed, checkpoint, key)


def rounds(
    backbone: Backbone,
    settings: KTOSettings,
    seed: int,
    kept: Path,
    task: Callable[[str, Callable[[], list]], list],
) -> tuple[list[dict], list[dict], list[dict]]:
    """Stages 2 to 4 of the executor in `lm_rounds` rounds, each from its own pi_ref and on its own
    play: (rows of trajectories, rows of samples, history with a column round).

    task: keeps a value under a name until the notebook is complete, as `Shelf.task` does.
    ValueError where a round would have fewer than three steps.
    """
    count = settings.executor_steps // settings.lm_rounds
    found, samples, history = [], [], []
    for number in range(1, settings.lm_rounds + 1):
        own = LMPolicy(backbone, roles.EXECUTOR)
        rows = task(f"games-{number}", functools.partial(collect, own, settings, seed, number))
        labelled = label(rows, settings, seed + number)
        items, file = lm_labels.executor_items(labelled), kept / f"executor-{number}.safetensors"
        lines = optimise(backbone, roles.EXECUTOR, items, count, settings, seed + number, file)
        found += rows
        samples += [row | {"collection": number} for row in labelled]
        history += [line | {"step": line["step"] + (number - 1) * count} for line in lines]
    return found, samples, history


def unit_rounds(
    backbone: Backbone,
    settings: KTOSettings,
    seed: int,
    kept: Path,
    task: Callable[[str, Callable[[], list]], list],
) -> list[dict]:
    """The arm with unit weights: an adapter `UNIT` that learns the offers of the ultimatum by plain
    KTO, in as many rounds and with as many steps on them as the executor; the history."""
    steps = max(3, settings.executor_steps // settings.lm_rounds // TURNS)
    matches = [m for m in pool.collection(settings.lm_episodes) if m.seats[0] == ""]
    matches = [m for m in matches if m.game == "ultimatum"]
    history: list[dict] = []
    for number in range(1, settings.lm_rounds + 1):
        own = LMPolicy(backbone, UNIT)
        rows = task(
            f"unit-{number}", functools.partial(_offered, own, matches, settings, seed, number)
        )
        items = lm_labels.executor_items(label(rows, settings, seed + number), unit=True)
        file, plain = kept / f"unit-{number}.safetensors", Objective("kto", settings.lm_kappa)
        lines = optimise(backbone, UNIT, items, steps, settings, seed + number, file, plain)
        history += [line | {"step": line["step"] + (number - 1) * steps} for line in lines]
    return history


def _offered(policy: Policy, matches, settings: KTOSettings, seed: int, number: int) -> list[dict]:
    """Rows of the proposer's episodes of a round."""
    found, name = rows_of(policy, settings, ["ultimatum"]), f"unit {number}"
    played = trajectories.collect(matches, settings.ipd_rounds, seed, name, found, MIX)
    return [one.row() for one in played]


def objective_of(name: str, settings: KTOSettings) -> Objective:
    """The objective of a role at the profile's temperature."""
    return Objective(roles.OBJECTIVES[name].name, settings.lm_kappa)


def snapshot(
    backbone: Backbone,
    name: str,
    history: Sequence[Mapping],
    folder: Path,
    notebook: str = NOTEBOOK,
) -> None:
    """Stage 5, its first half: the trained adapter as a member to be, and as the next pi_ref."""
    adapters.save(backbone, name, folder, _card(backbone, name, history, notebook))
