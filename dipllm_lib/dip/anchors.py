"""The two anchors of notebook 01 and how well they imitate.

`bots` is fitted in the notebook to games of SoftDumbBot and needs nothing else; `human` was fitted
once to recorded games of people and its weights are shipped. Both are the same kind of net
(`anchor`). The teacher of `bots` has known probabilities, so its divergence is estimated without
bias; the metrics of `human` stand in the head of its file.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dipllm_lib.dip import anchor, anchor_card, boards, fidelity, game, human, imitate, orders
from dipllm_lib.dip.anchor import NeuralAnchor
from dipllm_lib.dip.human import Examples
from dipllm_lib.dip.policies import Explicit
from dipllm_lib.run import seeding

SHARES = (0.06, 0.14)  # of the games for validation and test
DRAWS = 20  # joint orders of the teacher on each held-out power-turn


class Anchors(NamedTuple):
    """The nets, and the games of `bots` in three parts: training, validation, test."""

    bots: NeuralAnchor
    human: NeuralAnchor
    parts: list[Examples]

    def chosen(self, name: str) -> NeuralAnchor:
        """The net of that name. ValueError for another name."""
        if name not in ("bots", "human"):
            raise ValueError(f"the setting `anchor` is {name!r}: use bots or human")
        return self.bots if name == "bots" else self.human

    def openings(self, name: str) -> Mapping:
        """How the imitated games of that anchor began, see `anchor_card.openings`."""
        card = self.chosen(name).card
        return card["openings"] if name == "human" else anchor_card.openings(self.parts)


def fit(saved: Sequence[dict], settings, seed: int) -> Anchors:
    """Fit `bots` to saved games; read `human`."""
    examples, _ = human.examples(map(game.Game.from_saved, saved), first_end=0)
    split = human.split(len(examples.names), seed, SHARES)
    parts = [human.part(examples, games) for games in split]
    with seeding.torch_threads(1):  # these nets are too small for more
        net, _ = imitate.fit(parts[0], settings, seed)
    return Anchors(net, anchor.human(), parts)


def imitation(found: Anchors, teacher: Explicit, settings, seed: int) -> pd.DataFrame:
    """KL(teacher || bots) on the first bots_turns power-turns of the test games: turns, kl, kl_low,
    kl_high (nats per power-turn).
    """
    turns = [turn for turn, _, _ in fidelity.turns_of(found.parts[2])][: settings.bots_turns]
    rngs = [seeding.child(seed, "anchors", "teacher", k) for k in range(len(turns))]
    rng = seeding.child(seed, "anchors", "divergence")
    numbers = fidelity.divergence(teacher, found.bots, turns, DRAWS, rngs, rng, settings.bootstrap)
    row = {"turns": len(turns)} | dict(zip(("kl", "kl_low", "kl_high"), numbers))
    return pd.DataFrame([row])


def quality(found: Anchors, settings, seed: int) -> pd.DataFrame:
    """How well both predict orders of games that they were not fitted on: `bots` as measured here,
    `human` as its file tells. Columns anchor, phases, years, then accuracy and exact in % and nats
    per order, with intervals over games.
    """
    names = [f"{m}{end}" for m in ("accuracy", "exact", "nats") for end in ("", "_low", "_high")]
    rng = seeding.child(seed, "anchors", "fidelity")
    each = fidelity.of_anchor(found.bots, found.parts[2])
    rows = [
        {"anchor": "bots", "phases": row["kind"], "years": row["years"]} | _only(row, names)
        for row in fidelity.summary(each, rng, settings.bootstrap).to_dict("records")
    ]
    for key, values in found.human.card["metrics"].items():
        kind, years = key.split(", ")
        rows.append({"anchor": "human", "phases": kind, "years": years} | _only(values, names))
    table = pd.DataFrame(rows)
    shares = [name for name in names if not name.startswith("nats")]
    table[shares] = 100 * table[shares]
    return table


def _only(row: Mapping, names: Sequence[str]) -> dict:
    return {name: row[name] for name in names}


def first_moves(policy: Explicit, openings: Mapping[str, Mapping], most: int = 3) -> pd.DataFrame:
    """The most frequent joint orders of Spring 1901, their share in the imitated games and the
    exact probability of the policy: power, joint (text), frequency, probability.
    """
    rows = []
    for turn in orders.turns(boards.start()):
        shares = openings[turn.name]["joint"]
        best = sorted(shares, key=lambda text: (-shares[text], text))[:most]
        joints = [orders.parse_joint(turn, text.split(", ")) for text in best]
        for text, log_prob in zip(best, policy.log_prob(turn, joints), strict=True):
            row = {"power": turn.name, "joint": text, "frequency": shares[text]}
            rows.append(row | {"probability": float(np.exp(log_prob))})
    return pd.DataFrame(rows)
