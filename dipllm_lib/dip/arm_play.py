"""The arms of notebook 10 at play: policies that can be sent to another process.

A trained arm lies in a folder; `Stored` names it and how it is asked, and opens it where it plays.
So the games of all arms are tasks like those of any cheap player (`chunks.rows`).

The 2 x 2 of Xu et al. 2025, Table 2, factorisation (AF) and fine-tuning (FT), changes three things
at once: one text for all units, no candidate list, other labels. `factorisation` has the steps in
between, each with and without FT: one free text; units that do not know of each other; unit by unit
among all legal orders; unit by unit among the anchor's likeliest orders; and, without a model, a
random one of these. Without FT is the start of all arms, which has read games but no target.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from safetensors.torch import load_file

from dipllm_lib.dip import (
    agent,
    anchor_tune,
    arm_list,
    arms,
    collect,
    combine,
    contrasts,
    samples,
    variants,
)
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.policies import Policy
from dipllm_lib.dip.rowwise import RowwiseValue
from dipllm_lib.dip.value import ValueNet
from dipllm_lib.run import claims, seeding

OPEN = 2  # models that a process keeps open
WITHOUT, WITH = "no FT", "FT"
# name in the table of factorisation -> name under which it plays
SAME = {
    f"{variants.ONE_SHOT}, {WITHOUT}": f"{variants.ONE_SHOT}, {WITHOUT}",
    f"{variants.ONE_SHOT}, {WITH}": f"{variants.ONE_SHOT}, {WITH}",
    f"{variants.INDEPENDENT}, {WITHOUT}": f"{variants.INDEPENDENT}, {WITHOUT}",
    f"{variants.INDEPENDENT}, {WITH}": arm_list.INDEPENDENT,
    f"{variants.LEGAL}, {WITHOUT}": arm_list.START,
    f"{variants.LEGAL}, {WITH} on texts": arm_list.SUPERVISED,
    f"{variants.LEGAL}, {WITH}": arm_list.FIRST,
    f"{variants.CANDIDATES}, {WITHOUT}": f"{variants.CANDIDATES}, {WITHOUT}",
    f"{variants.CANDIDATES}, {WITH}": arm_list.LISTED,
    variants.RANDOM: variants.RANDOM,
}
TABLE_2 = dict.fromkeys(SAME) | {
    f"{variants.ONE_SHOT}, {WITHOUT}": "no AF, no FT",
    f"{variants.ONE_SHOT}, {WITH}": "FT only",
    f"{variants.LEGAL}, {WITHOUT}": "AF only",
    f"{variants.LEGAL}, {WITH}": "AF and FT",
}
# what a step gains -> (with it, without it), names of SAME
STEPS = {
    "FT of texts": (f"{variants.ONE_SHOT}, {WITH}", f"{variants.ONE_SHOT}, {WITHOUT}"),
    "a mask on texts": (f"{variants.LEGAL}, {WITH} on texts", f"{variants.ONE_SHOT}, {WITH}"),
    "AF without FT": (f"{variants.LEGAL}, {WITHOUT}", f"{variants.ONE_SHOT}, {WITH}"),
    "FT with AF": (f"{variants.LEGAL}, {WITH}", f"{variants.LEGAL}, {WITHOUT}"),
    "units know each other": (f"{variants.LEGAL}, {WITH}", f"{variants.INDEPENDENT}, {WITH}"),
    "candidates of the anchor": (f"{variants.CANDIDATES}, {WITH}", f"{variants.LEGAL}, {WITH}"),
    "a model among candidates": (f"{variants.CANDIDATES}, {WITH}", variants.RANDOM),
}
STEPS_2 = {
    "FT of texts": ("Table 2", "FT only", "no AF, no FT"),
    "AF without FT": ("Table 2", "AF only", "FT only"),
    "FT with AF": ("Table 2", "AF and FT", "AF only"),
}


@dataclass(frozen=True)
class Stored:
    """A player of one arm.

    way: one of `variants.ARMS`; "": as the arm was trained · iterations: of a search on top, 0
    without · weights: (a, w) of `combine`, to play it beside the anchor
    """

    name: str
    job: arms.Job
    way: str = ""
    iterations: int = 0
    weights: tuple[float, float] | None = None

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn, each drawn from its own generator."""
        return opened(self).act(turns, rngs)


@functools.lru_cache(maxsize=OPEN)
def opened(stored: Stored) -> Policy:
    """The player itself. FileNotFoundError for an arm that has not been trained."""
    job = stored.job
    if job.arm.group == anchor_tune.GROUP:
        return anchor_tune.player(job, stored.name)
    settings = replace(job.settings, search_draws=job.settings.arms_draws)
    if stored.iterations:
        value = RowwiseValue(ValueNet.from_tensors(load_file(job.sources.value)))
        return agent.with_search(arms.player(job), value, settings, stored.iterations, stored.name)
    if not stored.way and stored.weights is None:
        return arms.player(job, stored.name)
    anchor = collect.tau(job.sources.anchor)
    if stored.weights is not None:
        temperature, model = settings.agent_temperature, arms.player(job).at(1.0)
        return combine.Weighed(anchor, model, *stored.weights, temperature, settings, stored.name)
    return variants.player(stored.way, arms.weights(job), job.settings, anchor, stored.name)


def trained(jobs: Iterable[arms.Job]) -> list[Stored]:
    """A player of each arm, under its name, asked as it was trained."""
    return [Stored(job.arm.name, job) for job in jobs]


def factorisation(jobs: Mapping[str, arms.Job]) -> list[Stored]:
    """The players of `factorised` that are no arm asked as it was trained; jobs: name of the arm ->
    its job.
    """
    start, supervised = jobs[arm_list.START], jobs[arm_list.SUPERVISED]
    ways = variants.ONE_SHOT, variants.INDEPENDENT, variants.CANDIDATES
    found = [Stored(f"{way}, {WITHOUT}", start, way) for way in ways]
    return [*found, Stored(f"{variants.ONE_SHOT}, {WITH}", supervised, variants.ONE_SHOT)]


def factorised(per_game: pd.DataFrame) -> pd.DataFrame:
    """Rows of games with the players of Table 2 and between, under its names, in its order.
    ValueError for one that did not play.
    """
    parts = []
    for name, played in SAME.items():
        part = per_game[per_game["one"] == played]
        if part.empty:
            raise ValueError(f"{name}: no games of {played!r}")
        parts.append(part.assign(one=name))
    return pd.concat(parts, ignore_index=True)


def known(job: arms.Job) -> dict:
    """Task: the held-out power-turns of an arm as lists for `combine`: game, target, log_tau, log_p
    of the candidates of each.
    """
    rows = arms.split(job)[1]
    turns, joints = zip(*((samples.row_turn(row), samples.row_joints(row)) for row in rows))
    logs = arms.player(job).at(1.0).log_probs(turns, joints)
    found = {name: [row[name] for row in rows] for name in ("game", "target", "log_tau")}
    return found | {"log_p": [own.clip(combine.LEAST).tolist() for own in logs]}


def said(stored: Stored) -> list[dict]:
    """Task: what a player of free texts says on the held-out power-turns, as `variants.Said`."""
    rows = arms.split(stored.job)[1]
    turns = [samples.row_turn(row) for row in rows]
    player = opened(stored)
    rng = seeding.child(stored.job.seed, "arms", "texts")
    player.take()  # what it has said in games that this process played
    player.act(turns, rng.spawn(len(turns)))
    return player.take()


def texts(found: Mapping[str, Sequence[dict]]) -> pd.DataFrame:
    """`variants.texts_table` of several players: columns agent, phase, then its own."""
    tables = [
        variants.texts_table(rows).reset_index().assign(agent=name) for name, rows in found.items()
    ]
    table = pd.concat(tables, ignore_index=True)
    return table[["agent", *table.columns.drop("agent")]]


def pairs(listed: Sequence[arm_list.Arm]) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """(contrast -> (arm, the arm it is held against), contrast -> question) of the arms that are
    held against another one.
    """
    own = [arm for arm in listed if arm.name != arm.against]
    names = {arm.name: f"{arm.name} − {arm.against}" for arm in own}
    return (
        {names[arm.name]: (arm.name, arm.against) for arm in own},
        {names[arm.name]: arm.group for arm in own},
    )


def curves() -> dict[str, list[str]]:
    """The two curves of Fig. 6: name -> its arms."""
    shares = [arm.name for arm in arm_list.data()]
    nets = [arm.name for arm in anchor_tune.listed()]
    return {"scratch lm": [*shares, arm_list.FIRST], "anchor tuned": nets}


def amounts(scores: pd.DataFrame, games: Mapping[str, int], six: str) -> pd.DataFrame:
    """The rows of `report.scores` against six `six` that belong to a curve, for `beside.amounts`:
    agent is the curve, data_games the games that the arm was trained on.
    """
    own = scores[scores["opponents"] == six]
    found = []
    for curve, names in curves().items():
        part = own[own["agent"].isin(names)]
        found.append(part.assign(agent=curve, data_games=part["agent"].map(games)))
    return pd.concat(found, ignore_index=True).sort_values(["agent", "data_games"])


def slopes(
    per_game: pd.DataFrame, games: Mapping[str, int], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Slope of SoS on log(1 + games) of either curve against each kind of six, with and without the
    arm that has no games: agent, opponents, least (games of the first arm), slope (points), low,
    high, arms, verdict (is it above 0?).
    """
    rows = []
    for six in per_game["six"].unique():
        part = per_game[per_game["six"] == six]
        for curve, names in curves().items():
            for some in (names, [name for name in names if games[name] > 0]):
                x = {name: float(np.log1p(games[name])) for name in some}
                found = contrasts.slope(part, x, "sos", rng, resamples)
                row = {"agent": curve, "opponents": six, "least": min(map(games.get, some))}
                row |= dict(zip(("slope", "low", "high"), found)) | {"arms": len(x)}
                rows.append(row | {"verdict": claims.verdict(*found, above=0)})
    return pd.DataFrame(rows)
