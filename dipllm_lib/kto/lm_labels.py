"""Stages 1 and 3 on trajectories: contexts of every role, and labelled samples of the executor.

Each decision of the learner is labelled under the six settings (one of them, drawn by name, in the
repeated game, whose episodes are long), with the default reference of its game. u and rho by role:

    proposer, responder, bargainer   u = payoff of the episode      rho = half the pie;  F: 0
    giver                            u = payoff of the episode      rho = 1 (batna);     F: 1 + m g,
                                                                    what it held before
    partner                          u = Q(h, a), the exact best    rho = the largest Q
                                     value against the member

The partner's labels are those of the verifier, from `repeated.action_values`: what a round of the
dilemma pays says nothing about the rounds that it causes. With V = v((eps - regret)/s) an action is
desirable if its regret is at most eps = .02 of the scale, and weighs its class weight: |V| would
weigh Grim sixty times as much as AllD, whose mistakes cost no more than a round. Its prompt names
the member in four of five episodes ("Partner TFT."), as the modeller's forecast does at play.

All other samples have the sign of the outcome as their label: V > 0 is desirable.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dipllm_lib.kto import labels, pool, repeated, sample_files, selectors
from dipllm_lib.kto.fitting import Item
from dipllm_lib.kto.games import Game
from dipllm_lib.kto.labels import Sample
from dipllm_lib.kto.policies import Context
from dipllm_lib.kto.trajectories import Trajectory, told, walk
from dipllm_lib.run import seeding

LETTERS = tuple("ABCDEF")
NAMED = 0.8  # share of the decisions of the transcripts whose prompt names the partner
ROLES = {"ultimatum": ("proposer", "responder"), "gift": ("giver", "giver")}
ROLES |= {"repeated": ("partner", "partner"), "bargaining": ("bargainer", "bargainer")}


def context(game: Game, state: Any, player: int, setting: str = "", forecast: str = "") -> Context:
    """The executor's context: what it knows, the setting, and the forecast as it reads it."""
    key = game.infoset(state, player), setting, forecast
    prompt = game.observe(state, player, setting, forecast)
    return Context(key, prompt, game.legal(state, player))


def partner(name: str) -> str:
    """The sentence that tells the executor who it plays."""
    return f"Partner {name}."


def reading(trajectories: Sequence[Trajectory], games: Mapping[str, Game], seed: int) -> list[Item]:
    """Stage 1: every decision of every player of the transcripts, unfiltered, as items of `ce`.

    Their prompts carry a random setting, and in the repeated game often a partner, since those of
    the roles will.
    """
    found: dict[tuple, list[int]] = {}
    for trajectory in trajectories:
        rng = seeding.child(seed, "kto", "reading", trajectory.game, trajectory.episode)
        for state, player, action in walk(games[trajectory.game], trajectory):
            letter = LETTERS[rng.integers(6)]
            named = trajectory.game == "repeated" and rng.random() < NAMED
            sentence = partner(trajectory.seats[1 - player]) if named else ""
            own = context(games[trajectory.game], state, player, letter, sentence)
            found.setdefault((trajectory.game, own), []).append(action)
    return [plain(own, game, actions) for (game, own), actions in found.items()]


def plain(own: Context, game: str, actions: Sequence[int]) -> Item:
    """An item of cross-entropy: every action weighs 1."""
    ones = np.ones(len(actions))
    return Item(own, np.array(actions), ones, ones.astype(bool), game)


def label(trajectories: Sequence[Trajectory], games: Mapping[str, Game], seed: int) -> list[Sample]:
    """Stage 3: the learner's decisions as samples with V, before weights (`weigh`)."""
    values = _values(games["repeated"])
    return [s for one in trajectories for s in _labelled(one, games, values, seed)]


def _values(game: Game) -> dict[str, np.ndarray]:
    """Q (5, 2) of the repeated game against every member, by last outcome and own action."""
    return {name: repeated.action_values(game, np.array(q))[0] for name, q in pool.VECTORS.items()}


def _labelled(trajectory, games: Mapping[str, Game], values, seed: int) -> Iterator[Sample]:
    game, seat = games[trajectory.game], trajectory.learner
    rng = seeding.child(seed, "kto", "label", trajectory.game, trajectory.episode)
    role = ROLES[trajectory.game][seat]
    decisions = [(s, a) for s, player, a in walk(game, trajectory) if player == seat]
    for count, (state, action) in enumerate(decisions):
        letters, sentence = LETTERS, ""
        if trajectory.game == "repeated":
            letters = (LETTERS[rng.integers(6)],)
            named = told(trajectory.game, trajectory.episode)
            sentence = partner(trajectory.seats[1 - seat]) if named else ""
        for letter in letters:
            setting = labels.SETTINGS[letter]
            payoff, reference = _payoff(trajectory, game, state, action, setting, values)
            where = f"{trajectory.game} {role}", role, trajectory.episode, count
            own = context(game, state, seat, letter, sentence)
            sample = labels.label(own, action, payoff, reference, game.scale, setting, where)
            yield verified(sample, setting) if trajectory.game == "repeated" else sample


def verified(sample: Sample, setting: labels.Setting) -> Sample:
    """A sample with the verifier's V and label; omega is set by `weigh`."""
    regret = sample.reference - sample.payoff
    found = labels.verified_value(regret, sample.scale, setting.params, selectors.EPSILON)
    return replace(sample, value=float(found), desirable=bool(found > 0), selector="verifier")


def _payoff(trajectory, game: Game, state, action: int, setting, values) -> tuple[float, float]:
    """u and rho of one decision; see the module's text."""
    seat = trajectory.learner
    kind = setting.reference_of(labels.DEFAULTS[game.name])
    if trajectory.game == "repeated":
        row = values[trajectory.seats[1 - seat]][repeated.last_outcome(state, seat)]
        return float(row[action]), float(row.max())
    before = 1.0 + game.multiplier * state.gift / 10 if trajectory.game == "gift" else 0.0
    facts = {"before": before, "total": 1.0, "batna": game.batna(seat)}
    return trajectory.payoffs[seat], labels.reference_point(kind, **facts)


def weigh(
    samples: Sequence[Sample], seed: int, weights: str = "value"
) -> tuple[list[Sample], list[Sample]]:
    """(training, held out): split by episode, with omega from the training split, shuffled once.

    A game and setting whose every V is 0 teaches nothing and is left out.
    """
    rng = seeding.child(seed, "kto", "split")
    training, rest = sample_files.split(samples, rng)
    moving = {(s.game, s.setting) for s in training if s.value != 0}
    parts = [[s for s in own if (s.game, s.setting) in moving] for own in (training, rest)]
    sizes = labels.mean_sizes(parts[0])
    judged = [s for s in parts[0] if s.selector == "verifier"]
    balance = labels.balance(judged) if len({s.desirable for s in judged}) == 2 else {}
    parts = [_classes(labels.weighted(own, sizes, weights), balance) for own in parts]
    return tuple(
        sample_files.shuffled(part, seeding.child(seed, "kto", "shuffle", k))
        for k, part in enumerate(parts)
    )


def _classes(samples: Sequence[Sample], balance: Mapping) -> list[Sample]:
    """Samples of the verifier weigh their class weight; the others keep their omega."""
    found = []
    for sample in samples:
        if sample.selector == "verifier":
            good, bad = balance.get((sample.game, sample.role), (1.0, 1.0))
            sample = replace(sample, omega=good if sample.desirable else bad)
        found.append(sample)
    return found


COLUMNS = ("action", "payoff", "reference", "value", "desirable", "omega", "episode", "round")


def rows(samples: Sequence[Sample]) -> list[dict]:
    """The samples as JSON-able rows, one per context and split by column: what stage 4 reads.

    Sorted by game, then prompt; the order of the samples of a context is kept.
    """
    groups: dict[tuple, list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.game, sample.context.prompt), []).append(sample)
    found = []
    for (game, prompt), own in sorted(groups.items()):
        one = own[0]
        fixed = {"game": game, "prompt": prompt, "legal": list(one.context.legal)}
        fixed |= {"setting": one.setting, "scale": one.scale, "selector": one.selector}
        fixed |= {"role": one.role}
        columns = {name: [getattr(s, name) for s in own] for name in COLUMNS}
        found.append(fixed | columns)
    return found


def executor_items(given: Sequence[Mapping], unit: bool = False) -> list[Item]:
    """Items of `rows`, in their order. unit: omega = 1 for all, plain KTO."""
    return [
        Item(
            Context(row["prompt"], row["prompt"], tuple(row["legal"])),
            np.array(row["action"]),
            np.ones(len(row["omega"])) if unit else np.array(row["omega"]),
            np.array(row["desirable"], dtype=bool),
            row["game"],
        )
        for row in given
    ]
