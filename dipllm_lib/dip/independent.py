"""Independent units: every unit is ordered as if it were the first one named (ablation of C8).

    pi(a^1..a^D) = product over units d of q_d(a^d),   q_d(a) = p(a | position, power, unit d)

The prompt of a unit is that of the power-turn, the answer begins with the unit and no order stands
before it; so no unit knows what the others do, which is all that the factorisation of Xu et al.
2025 adds (`decompose.independent` is the same product for a target). In an adjustment phase slots
are no units: one q over all builds, with waiving, or over all removals; orders are drawn from it
one after the other, each in a province of its own, and the set is what counts. Its probability is
exact, a sum over all sequences in which the set can be drawn.

For training every unit is one sample: its orders among the candidates of the search with the
marginal of the target, in adjustment phases the share of each order among all orders.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from dipllm_lib.dip import finetune, text
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.agent import LMAgent, active
from dipllm_lib.dip.dumbbot import canonical
from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.hedge import log_sum_exp
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.policies import Policy
from dipllm_lib.dip.samples import Sample, largest, row_joints, row_turn
from dipllm_lib.lm import adapters, scoring
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.lm.choices import Path as TokenPath
from dipllm_lib.lm.choices import Tries, path
from dipllm_lib.lm.decoding import draw

TURNS = 64  # power-turns whose units are read together


class UnitChoice:
    """The orders `ids` as a `lm.choices.Choice` of one slot, each text ended by `end`."""

    def __init__(self, ids: Iterable[int], encode, end: str):
        self._options = [tuple(encode(text.order_text(int(order)) + end)) for order in ids]

    def options(self, chosen: tuple[int, ...]) -> list[tuple[int, ...]]:
        return [] if chosen else self._options


def pools(turn: Turn) -> list[np.ndarray]:
    """The order ids among which one q chooses: of each unit, or all of an adjustment phase."""
    if turn.adjusts > 0:
        return [np.append(turn.lists[0], np.int32(v.WAIVE_ID))]
    return list(turn.lists)


def _paths(turn: Turn, encode) -> list[list[TokenPath]]:
    """Token paths of every order of every pool, ended as those of a unit that is named first."""
    end = text.NEXT if turn.slots > 1 else text.END
    found = []
    for ids in pools(turn):
        tries = Tries(UnitChoice(ids, encode, end))
        found.append([path(tries, (k,)) for k in range(len(ids))])
    return found


class IndependentUnits(LMAgent):
    """`LMAgent` with all legal orders, except that units do not know of each other."""

    def __init__(
        self,
        backbone: Backbone,
        temperature: float,
        name: str = "independent units",
        adapter: str | None = None,
        others: Policy | None = None,
    ):
        super().__init__(backbone, temperature, name, adapter=adapter, others=others)

    def at(self, temperature: float, name: str | None = None) -> "IndependentUnits":
        """The same player at another temperature."""
        return IndependentUnits(
            self.backbone, temperature, name or self.name, self.adapter, self.others
        )

    def marginals(self, turns: Sequence[Turn]) -> list[list[np.ndarray]]:
        """Per turn and pool log q (nats) of its orders, float64."""
        each = [_paths(turn, self.backbone.encode) for turn in turns]
        flat = [[one for own in pool for one in own] for pool in each]
        with active(self.backbone, self.adapter):
            found = scoring.path_log_prob(
                self.backbone, self._prompts(turns), flat, self.temperature
            )
        return [
            np.split(logs, np.cumsum([len(own) for own in pool])[:-1])
            for pool, logs in zip(each, found, strict=True)
        ]

    def _said(self, turns: Sequence[Turn], rngs, draws) -> list[list[Joint]]:
        """One joint order for each generator in `draws`."""
        return [
            [_drawn(turn, tables, rng) for rng in own]
            for turn, tables, own in zip(turns, self.marginals(turns), draws, strict=True)
        ]

    def log_probs(
        self, turns: Sequence[Turn], joints: Sequence[Sequence[Joint]]
    ) -> list[np.ndarray]:
        """Log-probabilities of the joint orders of each turn. ValueError for one that is not
        legal.
        """
        for turn, own in zip(turns, joints, strict=True):
            for joint in own:
                turn.check(tuple(joint))
        return [
            np.array([_log_prob(turn, tables, joint) for joint in own])
            for turn, tables, own in zip(turns, self.marginals(turns), joints, strict=True)
        ]


def _drawn(turn: Turn, tables: Sequence[np.ndarray], rng: np.random.Generator) -> Joint:
    """A joint order, by one uniform number for each slot."""
    if not turn.adjusts:
        pairs = zip(turn.lists, tables, strict=True)
        return tuple(int(ids[draw(logs, rng)]) for ids, logs in pairs)
    (ids,), (logs,) = pools(turn), tables
    chosen: list[int] = []
    while len(chosen) < turn.slots:
        left = np.where(_open(ids, chosen), logs, -np.inf)
        chosen.append(int(ids[draw(left - left.max(), rng)]))
    return canonical([order for order in chosen if order != v.WAIVE_ID], turn.slots)


def _open(ids: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
    """Which of ids (K,) are in no province of `chosen`; waiving always is."""
    used = [province for province in v.EXPANSION[list(chosen), 0] if province >= 0]
    return ~np.isin(v.EXPANSION[ids, 0], used)


def _log_prob(turn: Turn, tables: Sequence[np.ndarray], joint: Joint) -> float:
    if turn.adjusts:
        return _set_log_prob(joint, pools(turn)[0], tables[0])
    places = [ids.tolist().index(order) for ids, order in zip(turn.lists, joint, strict=True)]
    return float(sum(logs[k] for logs, k in zip(tables, places, strict=True)))


def _set_log_prob(joint: Joint, ids: np.ndarray, logs: np.ndarray) -> float:
    """log-probability that drawing one after the other ends in this set, in whatever sequence.

    ways[members as bits, waives]: log-probability of having drawn exactly these by then.
    """
    log_q = dict(zip(ids.tolist(), logs.tolist(), strict=True))
    members = [order for order in joint if order != v.WAIVE_ID]
    waives = len(joint) - len(members)
    ways = np.full((1 << len(members), waives + 1), -np.inf)
    ways[0, 0] = 0.0
    for mask in range(len(ways)):
        drawn = [order for j, order in enumerate(members) if mask >> j & 1]
        rest = log_sum_exp(logs[_open(ids, drawn)])
        for w in range(waives + 1):
            for j, order in enumerate(members):
                if not mask >> j & 1:
                    at, step = (mask | 1 << j, w), log_q[order] - rest
                    ways[at] = np.logaddexp(ways[at], ways[mask, w] + step)
            if w < waives:
                step = log_q[v.WAIVE_ID] - rest
                ways[mask, w + 1] = np.logaddexp(ways[mask, w + 1], ways[mask, w] + step)
    return float(ways[-1, -1])


def samples(rows: Sequence[dict], backbone: Backbone, settings) -> list[Sample]:
    """One sample for each unit of rows of 02_samples.jsonl (in adjustment phases one for the
    power-turn), to train with in place of `samples.build`. Orders are sorted by id.

    Raises ValueError for a text longer than finetune_max_length.
    """
    wanted = FinetuneSettings.of(settings)
    return [sample for row in rows for sample in _samples(row, backbone, wanted)]


def _samples(row: dict, backbone: Backbone, settings: FinetuneSettings) -> Iterable[Sample]:
    turn, joints = row_turn(row), row_joints(row)
    prompt = tuple(backbone.encode(text.prompt(turn)))
    keys = str(row["game"]), row["phase"], row["power"]
    columns = {name: np.asarray(row[name]) for name in ("log_tau", "f") if name in row}
    for d, (ids, own) in enumerate(zip(pools(turn), _paths(turn, backbone.encode), strict=True)):
        said = [joint if turn.adjusts else joint[d : d + 1] for joint in joints]
        found, member = np.unique(np.concatenate(said), return_inverse=True)
        of = np.repeat(np.arange(len(joints)), [len(own_orders) for own_orders in said])
        paths = tuple(own[ids.tolist().index(order)] for order in found.tolist())
        longest = len(prompt) + max(len(p.tokens) for p in paths)
        if longest > settings.max_length:
            raise ValueError(f"{' '.join(keys)}: {longest} tokens, raise finetune_max_length")
        target = np.bincount(member, np.asarray(row["target"], np.float64)[of])
        logs = {name: _sums(column[of], member, len(found)) for name, column in columns.items()}
        target = target / target.sum()
        kept = largest(target, settings.joint_orders)
        kept = kept[target[kept] > 0]
        weights = target[kept] / target[kept].sum()
        yield Sample(*keys, prompt, paths, target, tuple(kept.tolist()), weights, **logs)


def _sums(logs: np.ndarray, member: np.ndarray, count: int) -> np.ndarray:
    """log of the sum of exp(logs) over the entries of each of `count` members."""
    return np.array([log_sum_exp(logs[member == k]) for k in range(count)])


def evaluate(backbone: Backbone, rows: Sequence[dict]) -> pd.DataFrame:
    """As `finetune.evaluate`, of the product: one row per power-turn with game, phase, power, kl
    (nats, over its candidate joint orders), covered.
    """
    policy, found = IndependentUnits(backbone, 1.0), []
    for first in range(0, len(rows), TURNS):
        part = rows[first : first + TURNS]
        turns = [row_turn(row) for row in part]
        for row, logs in zip(part, policy.log_probs(turns, list(map(row_joints, part)))):
            target = np.asarray(row["target"], np.float64)
            some = target > 0
            kl = float(target[some] @ (np.log(target[some]) - logs[some]))
            keys = str(row["game"]), row["phase"], row["power"]
            found.append((*keys, kl, float(np.exp(logs).sum())))
    return pd.DataFrame(found, columns=["game", "phase", "power", "kl", "covered"])


def fit(
    rows: Sequence[dict],
    heldout: Sequence[dict],
    settings,
    seed: int,
    *,
    name: str = "independent",
    start: Backbone | None = None,
    checkpoint: Path | None = None,
    offline: bool = True,
) -> finetune.Fitted:
    """As `finetune.fit`, on single units. With finetune_pack = position a step reads the same
    positions as there; the KL in the history is per unit, that of the tables per power-turn.
    """
    model = start or finetune.backbone(settings, seed, offline)
    adapters.attach(
        model, name, settings.lora_rank, settings.lora_alpha, settings.lora_dropout, seed
    )
    before = evaluate(model, heldout)
    parts = [samples(part, model, settings) for part in (rows, heldout)]
    history = finetune.train(model, name, *parts, settings, seed, checkpoint)
    return finetune.Fitted(model, history, before, evaluate(model, heldout))
