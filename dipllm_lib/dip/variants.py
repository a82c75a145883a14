"""The arms of Table 2 (Xu et al. 2025) as players over one language model.

    one-shot            the whole joint order as one free text, nothing masked; what of it is
                        legal counts, the other units hold (disband, build nothing)
    one-shot, retries   the same, asked up to ten times for a text that is one legal joint order
                        in full, then the first candidate (`agent.decode = retry`)
    independent units   unit by unit among all legal orders, no unit knowing of another
    legal orders        unit by unit among all legal orders, `LMAgent`
    anchor candidates   unit by unit among the at most six likeliest orders under an anchor
    random candidates   one of those six at random, without a model: what the candidates alone do

A one-shot text under a legality mask is no arm of its own: in codec `compact` the joint order is
one text, and masked token by token it is exactly `legal orders`. Asking again until the whole text
is legal is the other way to force legality: there an illegal end takes the beginning with it.
Its fallback plays the anchor's likeliest orders, so a model that never says a legal text plays as
the anchor: read its score beside the share of fallbacks (`texts_table`).

All arms but two are ways to decode one and the same model. The two are trained on other samples:
`independent units` on single units, `one-shot` on the most probable joint order of the target with
unit weight, as supervised fine-tuning does (`fit`). Missing removals are those of civil disorder.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from dipllm_lib.dip import agent, boards, finetune, independent, orders, rules, text
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.dumbbot import canonical
from dipllm_lib.dip.independent import IndependentUnits
from dipllm_lib.dip.narrowing import LIMIT, Narrowing
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.policies import Policy, of_kind
from dipllm_lib.dip.targets import PHASES
from dipllm_lib.lm import scoring
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run.profiles import DiplomacySettings

ONE_SHOT, RETRIES = "one-shot", "one-shot, retries"
INDEPENDENT, LEGAL = "independent units", "legal orders"
CANDIDATES, RANDOM = "anchor candidates", "random candidates"
ARMS = (ONE_SHOT, RETRIES, INDEPENDENT, LEGAL, CANDIDATES, RANDOM)
TRIES = 10  # released code


class Said(NamedTuple):
    """One answer of `FreeText`: phase, power, slots, texts (how often the model was asked), valid
    (the last text is one legal joint order), kept (orders taken from it), fallback (played is the
    first candidate).
    """

    phase: str
    power: str
    slots: int
    texts: int
    valid: bool
    kept: int
    fallback: bool


class FreeText:
    """Player of free texts. `said`: what it said since `take` was called.

    first: plays where no text was legal after `tries`; None: the last text is filled up instead
    """

    def __init__(
        self,
        backbone: Backbone,
        temperature: float,
        name: str = ONE_SHOT,
        adapter: str | None = None,
        tries: int = 1,
        first: Policy | None = None,
    ):
        if tries < 1:
            raise ValueError(f"a text must be asked for at least once, got {tries} tries")
        self.backbone, self.temperature, self.name = backbone, temperature, name
        self.adapter, self.tries, self.first = adapter, tries, first
        self.said: list[Said] = []

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One legal joint order per turn; each turn's texts are drawn from its own generator."""
        found: dict[int, tuple[Joint, Said]] = {}
        left = list(range(len(turns)))
        for tried in range(1, self.tries + 1):
            texts = self._texts([turns[k] for k in left], [rngs[k] for k in left])
            for k, words in zip(left, texts, strict=True):
                turn, (joint, kept, valid) = turns[k], read(turns[k], words)
                said = Said(turn.phase, turn.name, turn.slots, tried, valid, kept, False)
                found[k] = joint, said
            left = [k for k in left if not found[k][1].valid]
        if self.first is not None and left:
            given = [turns[k] for k in left], [rngs[k] for k in left]
            for k, joint in zip(left, self.first.act(*given), strict=True):
                found[k] = joint, found[k][1]._replace(kept=0, fallback=True)
        self.said += [found[k][1] for k in range(len(turns))]
        return [found[k][0] for k in range(len(turns))]

    def _texts(self, turns: Sequence[Turn], rngs) -> list[str]:
        """One free text for each turn."""
        if not turns:
            return []
        prompts = [self.backbone.encode(text.prompt(turn)) for turn in turns]
        (stop,) = self.backbone.encode(text.END)
        limits = [agent.ORDER_TOKENS * turn.slots for turn in turns]
        with agent.active(self.backbone, self.adapter):
            said = scoring.sample_text(self.backbone, prompts, rngs, stop, limits, self.temperature)
        return [self.backbone.tokenizer.text(tokens) for tokens in said]

    def take(self) -> list[dict]:
        """What was said, as plain rows, and forget it: for a task that plays some games."""
        rows, self.said = [one._asdict() for one in self.said], []
        return rows


def read(turn: Turn, said: str) -> tuple[Joint, int, bool]:
    """(joint order, how many of its orders the text gives, whether the text is one legal joint
    order). The first legal order of a unit counts, wherever it stands.
    """
    whole = text.leading_legal(turn, said)[1]
    pieces = said.removesuffix(text.END).split(text.NEXT)
    if turn.adjusts:
        return (*_adjusted(turn, pieces), whole)
    legal = {
        text.order_text(order): (slot, order)
        for slot, ids in enumerate(turn.lists)
        for order in ids.tolist()
    }
    given: dict[int, int] = {}
    for piece in pieces:
        if piece in legal:
            given.setdefault(*legal[piece])
    idle = boards.HOLD if int(turn.boards.phase[0]) in boards.MOVES else boards.DISBAND
    joint = [given.get(d, int(of_kind(ids, idle)[0])) for d, ids in enumerate(turn.lists)]
    return tuple(joint), len(given), whole


def _adjusted(turn: Turn, pieces: Sequence[str]) -> tuple[Joint, int]:
    """Builds or removals that the pieces of a text give, filled up, and how many orders they
    give.
    """
    pool = {text.order_text(order): order for order in turn.lists[0].tolist()}
    if turn.adjusts > 0:
        pool[text.order_text(v.WAIVE_ID)] = v.WAIVE_ID
    chosen: list[int] = []
    for piece in pieces:
        order = pool.get(piece)
        used = v.EXPANSION[[o for o in chosen if o != v.WAIVE_ID], 0]
        if order is None or len(chosen) == turn.slots or v.EXPANSION[order, 0] in used:
            continue
        chosen.append(order)
    kept = len(chosen)
    if turn.adjusts < 0 and kept < turn.slots:
        chosen = _disordered(turn, chosen)
    return canonical([order for order in chosen if order != v.WAIVE_ID], turn.slots), kept


def _disordered(turn: Turn, chosen: Sequence[int]) -> list[int]:
    """All removals of the power if it orders only some of them."""
    now = turn.boards
    after, _ = rules.resolve(now, orders.expand(now, [{turn.power: tuple(chosen)}]))
    gone = (now.power[0] == turn.power) & (after.power[0] != turn.power)
    ids = turn.lists[0]
    return ids[gone[v.EXPANSION[ids, 0]]].tolist()


class RandomCandidate:
    """Of each unit a uniform one of the `limit` likeliest orders under an anchor, given the orders
    so far (`narrowing`). limit 1: the anchor's likeliest order of each unit.
    """

    def __init__(self, anchor, limit: int = LIMIT, name: str = RANDOM):
        self.narrowing, self.name = Narrowing("anchor", anchor, limit), name

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn, one draw of its generator for each order."""
        joints = []
        for turn, rng in zip(self.narrowing.turns(turns, None), rngs, strict=True):
            joint: Joint = ()
            while len(joint) < turn.slots:
                left = turn.options(joint)
                joint += (int(left[rng.integers(len(left))]),)
            joints.append(joint)
        return joints


def player(arm: str, backbone: Backbone, settings, anchor, name: str = "") -> Policy:
    """The player of an arm as the agent_* settings say; the arm sets its candidates itself.

    anchor: with conditional probabilities; offers candidates. name: default that of the arm.
    ValueError for an unknown arm, and for agent_phases other than `all` or a top-p where an arm
    that is no `LMAgent` would not follow it.
    """
    name, temperature = name or arm, settings.agent_temperature
    if arm in (LEGAL, CANDIDATES):
        mode = "legal" if arm == LEGAL else "anchor"
        return agent.player(backbone, replace(settings, agent_candidates=mode), anchor, name)
    if arm not in ARMS:
        raise ValueError(f"unknown arm {arm!r}: use one of {'; '.join(ARMS)}")
    if settings.agent_phases != "all" or settings.agent_top_p != 1:
        raise ValueError(f"{arm!r} plays all phases and has no top-p: set agent_phases and top_p")
    if arm == RANDOM:
        return RandomCandidate(anchor, settings.agent_candidate_limit, name)
    if arm == INDEPENDENT:
        return IndependentUnits(backbone, temperature, name)
    if arm == ONE_SHOT:
        return FreeText(backbone, temperature, name)
    return FreeText(backbone, temperature, name, tries=TRIES, first=RandomCandidate(anchor, 1))


def fit(
    arm: str,
    rows: Sequence[dict],
    heldout: Sequence[dict],
    settings: DiplomacySettings,
    seed: int,
    **options,
) -> finetune.Fitted:
    """A model for an arm from rows of 02_samples.jsonl, as `finetune.fit` with its options.

    one-shot arms: the most probable joint order of the target, unit weight, plain token likelihood;
    independent units: single units; the others: what the settings say.
    """
    if arm == INDEPENDENT:
        return independent.fit(rows, heldout, settings, seed, **options)
    if arm in (ONE_SHOT, RETRIES):
        settings = supervised(settings)
    return finetune.fit(rows, heldout, settings, seed, **options)


def supervised(settings: DiplomacySettings) -> DiplomacySettings:
    """The settings of plain supervised fine-tuning: one joint order per power-turn as its text."""
    return replace(
        settings,
        finetune_objective="bc_argmax",
        finetune_softmax="tokens",
        finetune_joint_orders=1,
    )


def texts_table(said: Sequence[dict]) -> pd.DataFrame:
    """Rows of `FreeText.take` by kind of phase, which is the index; only the kinds that occur.

    Columns turns, texts (asked for per turn), valid (share of turns with a text that is one legal
    joint order), orders (due), kept (share of them that the text gave), fallback (share of turns
    that played the first candidate). Of the other orders units held, disbanded or were not built.
    """
    table = pd.DataFrame(said, columns=Said._fields)
    kinds = table.groupby(table["phase"].str[-1].map(PHASES), sort=False)
    sums = kinds[["slots", "kept"]].sum()
    found = pd.DataFrame({
        "turns": kinds.size(),
        "texts": kinds["texts"].mean(),
        "valid": kinds["valid"].mean(),
        "orders": sums["slots"],
        "kept": sums["kept"] / sums["slots"],
        "fallback": kinds["fallback"].mean(),
    }).rename_axis("phase")
    return found.loc[[kind for kind in PHASES.values() if kind in found.index]]
