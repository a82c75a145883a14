"""A round of the league with the language model as its executor: the ultimatum, one seed.

Every member is a pair of tables of `arena_ultimatum`, whoever made it; a language model is read
once, under setting A, at the offer and at the answers to the 11 offers. So regrets to the exact
best reply, weights and payoffs are exact, and only the episodes are drawn.

    scripted    those of the tabular league; held out: the one that no arm meets
    base        the model after stage 1
    snapshot    the executor as it came, and after each round
    swapped     the adapter of the opponent modeller in the executor's place, and the snapshot whose
                tables act in each other's roles

    round:  regrets -> weights by their squares -> members drawn -> episodes in both seats, a share
            of the executor's play uniform as in tables -> labels under six settings -> `pt_kto` on
            the adapter from where it is, pi_ref -> snapshot

Payoffs are linear in the tables of the partner, so the members in their weights are one partner,
`mixture`: regret against it is what a policy that does not know whom it meets could gain.

The ultimatum has no past, so the modeller has nothing to learn in it and the coordinator nothing to
gain; both stay. The adapter is put back at the end, so a second call does the same again.

Shapes: n members; tables (1, 11) of offers and (11, 2) of answers, accept first.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.kto import (
    arenas,
    exploitability,
    fitting,
    games,
    language,
    league_members,
    league_weights,
    lm_labels,
    lm_scores,
    roles,
    stages,
)
from dipllm_lib.kto.arena_ultimatum import UltimatumArena
from dipllm_lib.kto.arenas import Player
from dipllm_lib.kto.fitting import Objective, Rates, Role
from dipllm_lib.kto.language import Recipe
from dipllm_lib.kto.league_members import Member
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.kto.policies import Policy
from dipllm_lib.kto.pool import Table
from dipllm_lib.kto.trajectories import Trajectory
from dipllm_lib.kto.ultimatum import State, Ultimatum
from dipllm_lib.lm import adapters
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding
from dipllm_lib.run.profiles_kto import KTOSettings

ARENA, GAME = UltimatumArena(), Ultimatum()
STATES = tuple(State(k) for k in range(GAME.grid + 1))


@dataclass(frozen=True)
class Found:
    """members: payoffs and regrets before and after each round · executor: of the executor itself ·
    games: rows of trajectories · history: of the training steps."""

    members: pd.DataFrame
    executor: pd.DataFrame
    games: list[dict]
    history: pd.DataFrame


def trained(settings: KTOSettings, seed: int, stage: Path, folders: Sequence[Path]) -> Backbone:
    """The base of notebook 09 with its three trained adapters. folders: in the order of
    `roles.NAMES`. ValueError where an adapter belongs to another base."""
    backbone = language.shared(Recipe.of(settings, seed, stage))
    for name, folder in zip(roles.NAMES, folders, strict=True):
        adapters.load(backbone, folder, name)
    return backbone


def player(policy: Policy) -> Player:
    """A policy under setting A as tables."""
    offers = lm_scores.rows_of(policy, GAME, [State()], 0)
    return arenas.check(ARENA, (offers, lm_scores.rows_of(policy, GAME, STATES, 1)))


def opening(backbone: Backbone) -> list[Member]:
    """The members that meet the executor in the first round."""
    own = player(LMPolicy(backbone, roles.EXECUTOR))
    other = player(LMPolicy(backbone, roles.OPPONENT))
    found = [m for m in league_members.scripted(ARENA) if m.kind == "scripted"]
    return [
        *found,
        Member("base", "base", player(LMPolicy(backbone, BASE))),
        Member("snapshot 0", "snapshot", own),
        Member("swapped 0", "swapped", ARENA.swapped(own)),
        Member("modeller", "swapped", other),
    ]


def chances(members: Sequence[Member], own: Player, most: float) -> np.ndarray:
    """(n,) probabilities of meeting the members, by squared regret."""
    values = np.array([ARENA.payoffs(own, m.player).mean() for m in members])
    best = np.array([ARENA.best(m.player).mean() for m in members])
    regrets = league_weights.normalised(values, best, ARENA.scale)
    return league_weights.pfsp_weights(regrets, [m.learned for m in members], most=most)


def mixture(members: Sequence[Member], weights: np.ndarray) -> Player:
    """Who is met when members are drawn with these probabilities (n,)."""
    parts = zip(*(m.player for m in members), strict=True)
    return tuple(np.tensordot(weights, np.stack(tables), axes=1) for tables in parts)


def collect(
    own: Player,
    member: Member,
    first: int,
    count: int,
    mix: float,
    seed: int,
    number: int,
) -> list[Trajectory]:
    """`count` episodes with one member, numbered from `first`, the seats in turn. mix: share of
    uniform play of the executor."""
    return [_episode(own, member, first + k, mix, seed, number) for k in range(count)]


def _episode(own, member: Member, episode: int, mix: float, seed: int, number: int) -> Trajectory:
    rng = seeding.child(seed, "kto", "league lm", number, episode)
    choosers, seats = [Table(_rows(own), mix), Table(_rows(member.player))], ("", member.name)
    if episode % 2:
        choosers, seats = choosers[::-1], seats[::-1]
    start = GAME.reset(rng)
    played = games.play(GAME, choosers, rng, start)
    actions = tuple((step.action,) for step in played.steps)
    return Trajectory("ultimatum", seats, episode, asdict(start), actions, played.payoffs)


def _rows(tables: Player) -> dict:
    """Probabilities by information set."""
    found = {GAME.infoset(State(), 0): tables[0][0]}
    return found | {GAME.infoset(s, 1): row for s, row in zip(STATES, tables[1], strict=True)}


def learn(
    backbone: Backbone,
    rows: Sequence[dict],
    settings: KTOSettings,
    seed: int,
    checkpoint: Path | None = None,
) -> list[dict]:
    """Labels of the trajectories and `league_lm_steps` of `pt_kto` on the executor; the history."""
    policy = LMPolicy(backbone, roles.EXECUTOR)
    items = lm_labels.executor_items(stages.label(rows, settings, seed))
    given = fitting.referred(items, policy)
    rate = settings.league_lm_rate
    rates = Rates(rate / 4, rate, rate / 20)  # the shape of notebook 09
    role = Role(policy, roles.EXECUTOR, settings.league_lm_steps, rates, seed)
    objective = Objective("pt_kto", settings.lm_kappa)
    key = stages.digest(given, settings.hash(), seed, "league", objective)
    return fitting.fit(role, given, objective, settings.contexts, seed, checkpoint, key)


def run(backbone: Backbone, settings: KTOSettings, seed: int, kept: Path, folder: Path) -> Found:
    """All rounds from the executor that the backbone has. kept: folder of checkpoints · folder:
    where the last snapshot is written."""
    start = roles.state(backbone, roles.EXECUTOR)
    try:
        return _rounds(backbone, settings, seed, kept, folder)
    finally:
        roles.put(backbone, start)


def _rounds(backbone: Backbone, settings: KTOSettings, seed: int, kept: Path, folder: Path):
    members, own = opening(backbone), player(LMPolicy(backbone, roles.EXECUTOR))
    tables, executors, played, history = [], [], [], []
    for number in range(1, settings.league_lm_rounds + 1):
        weights = chances(members, own, settings.league_self)
        rng = seeding.child(seed, "kto", "league lm", "draw", number)
        counts = rng.multinomial(settings.league_lm_batches, weights / weights.sum())
        rows = _games(own, members, counts, settings, seed, number)
        file = kept / f"league-{number}.safetensors"
        lines = learn(backbone, rows, settings, seed + number, file)
        after = player(LMPolicy(backbone, roles.EXECUTOR))
        tables.append(_members(number, members, weights, counts, own, after))
        met = mixture(members, weights)
        executors += [] if executors else [_executor(0, own, met)]
        executors.append(_executor(number, after, met))
        played += rows
        history += [line | {"round": number} for line in lines]
        own = after
        members = [*members, Member(f"snapshot {number}", "snapshot", own, number)]
    stages.snapshot(backbone, roles.EXECUTOR, history, folder)
    steps = pd.DataFrame(history, columns=["round", *fitting.HISTORY])
    return Found(pd.concat(tables, ignore_index=True), pd.DataFrame(executors), played, steps)


def _games(own, members, counts, settings: KTOSettings, seed: int, number: int) -> list[dict]:
    """Rows of the trajectories of a round; a member that is drawn k times plays k batches."""
    found: list[Trajectory] = []
    for member, count in zip(members, counts.tolist(), strict=True):
        size = count * settings.league_lm_episodes, settings.league_mix
        found += collect(own, member, len(found), *size, seed, number)
    return [one.row() | {"round": number} for one in found]


def _executor(number: int, own: Player, met: Player) -> dict:
    """Modal and mean offer, mean P(accept), what can be gained against it by seat; and against the
    members in their weights its regret, and the best offer."""
    gaps = exploitability.by_seat(ARENA, own)
    worth = met[1][:, 0] * (1 - GAME.offers)
    return {
        "round": number,
        "modal": float(GAME.offers[own[0][0].argmax()]),
        "offer": float(own[0][0] @ GAME.offers),
        "accepts": float(own[1][:, 0].mean()),
        "exploited_proposer": float(gaps[0]),
        "exploited_responder": float(gaps[1]),
        "best_offer": float(GAME.offers[worth.argmax()]),
        "regret": arenas.regret(ARENA, own, met),
    }


def _members(number, members, weights, counts, before: Player, after: Player) -> pd.DataFrame:
    """A row per member, the held out ones last."""
    unseen = league_members.held_out(ARENA)
    rows = []
    for k, member in enumerate([*members, *unseen]):
        met = k < len(members)
        row = {"round": number, "member": member.name, "kind": member.kind}
        row |= {"weight": float(weights[k]) if met else 0.0, "drawn": int(counts[k]) if met else 0}
        row |= {"best": float(ARENA.best(member.player).mean())}
        for name, own in (("before", before), ("after", after)):
            row[f"payoff_{name}"] = float(ARENA.payoffs(own, member.player).mean())
            row[f"regret_{name}"] = arenas.regret(ARENA, own, member.player)
        rows.append(row)
    return pd.DataFrame(rows)
