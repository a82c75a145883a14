"""Candidate joint orders of a search: drawn from the anchor, limited, and extended.

Among many joint orders drawn from the anchor tau the most probable distinct ones are kept, under
one of two limits ("max candidate actions per unit" has been read both ways):

    per_unit    at most ratio * units joint orders     (Bakhtin et al. 2022b)
    per_order   at most `ratio` different orders of any one unit, most probable joint orders first

and never more than K. A factorised anchor seldom draws orders that only make sense together; so
`extend` adds up to that many joint orders that differ from a candidate by one coordinated step of
its own units: a support of what another own unit does, or a convoy with its army (`coordinated`).
The most probable ones under tau are added, after the others.
"""

from typing import Protocol, Sequence, runtime_checkable

import numpy as np

from dipllm_lib.dip import atlas, boards, hedge, vocabulary
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.search_settings import SearchSettings

Proposal = tuple[list[Joint], np.ndarray]

KIND, UNIT, OTHER = vocabulary.KIND, vocabulary.LOC, vocabulary.OTHER_LOC
DEST, VIA = vocabulary.DEST, vocabulary.VIA


@runtime_checkable
class Batched(Protocol):
    """A policy that answers for many turns in one pass, such as a network."""

    def samples(
        self, turns: Sequence[Turn], n: int, rngs: Sequence[np.random.Generator]
    ) -> list[list[Joint]]:
        """n joint orders of each turn; rngs[k] belongs to turns[k], or to all of its position."""

    def log_probs(
        self, turns: Sequence[Turn], joints: Sequence[Sequence[Joint]]
    ) -> list[np.ndarray]:
        """Log-probabilities of the joint orders of each turn."""


def propose(
    anchor, turns: Sequence[Turn], n: int, rngs: Sequence[np.random.Generator]
) -> list[Proposal]:
    """Per turn (distinct joint orders among n draws, sorted; their log tau).

    Turns of one position may share a generator.
    """
    if isinstance(anchor, Batched):
        drawn = anchor.samples(turns, n, rngs)
    else:
        drawn = [anchor.sample(turn, n, rng) for turn, rng in zip(turns, rngs, strict=True)]
    distinct = [sorted(set(joints)) for joints in drawn]
    return list(zip(distinct, log_probs(anchor, turns, distinct), strict=True))


def log_probs(anchor, turns: Sequence[Turn], joints: Sequence[Sequence[Joint]]) -> list[np.ndarray]:
    """log tau of the joint orders of each turn, float64."""
    if isinstance(anchor, Batched):
        return anchor.log_probs(turns, joints)
    return [anchor.log_prob(turn, own) for turn, own in zip(turns, joints, strict=True)]


def choose(
    turns: Sequence[Turn], anchor, settings: SearchSettings, rngs: Sequence[np.random.Generator]
) -> list[Proposal]:
    """Per turn (candidates, log_tau (K,) renormalised over them), most probable first; extensions
    come last.
    """
    kept = [
        limited(turn, joints, log_prob, settings)
        for turn, (joints, log_prob) in zip(
            turns, propose(anchor, turns, settings.draws, rngs), strict=True
        )
    ]
    if settings.extend:
        kept = _extended(turns, kept, anchor, settings.extend)
    return [(joints, log_prob - hedge.log_sum_exp(log_prob)) for joints, log_prob in kept]


def limited(
    turn: Turn, joints: Sequence[Joint], log_prob: np.ndarray, settings: SearchSettings
) -> Proposal:
    """The most probable of `joints` under the limit of the settings, at least one."""
    best = np.argsort(-log_prob, kind="stable")
    if settings.limit == "per_unit":
        most = min(settings.candidates, int(np.ceil(settings.ratio * turn.slots)))
        best = best[: max(most, 1)]
    else:
        best = best[_per_order(joints, best, settings)]
    return [joints[k] for k in best], log_prob[best]


def _per_order(joints: Sequence[Joint], best: np.ndarray, settings: SearchSettings) -> list[int]:
    """Indices into `best` of joint orders that keep every slot at `ratio` different orders."""
    most, kept = max(int(np.ceil(settings.ratio)), 1), []
    seen: list[set[int]] = [set() for _ in joints[best[0]]]
    for rank, k in enumerate(best):
        fits = [
            order in known or len(known) < most
            for order, known in zip(joints[k], seen, strict=True)
        ]
        if all(fits):
            kept.append(rank)
            for order, known in zip(joints[k], seen, strict=True):
                known.add(order)
        if len(kept) == settings.candidates:
            break
    return kept


def _extended(turns, kept: Sequence[Proposal], anchor, extend: int) -> list[Proposal]:
    """Up to `extend` more candidates per turn, the most probable coordinated ones."""
    more = []
    for turn, (joints, _) in zip(turns, kept, strict=True):
        found = {other for joint in joints for other in coordinated(turn, joint)}
        more.append(sorted(found - set(joints)))
    with_some = [k for k, own in enumerate(more) if own]
    if not with_some:
        return list(kept)
    scores = log_probs(anchor, [turns[k] for k in with_some], [more[k] for k in with_some])
    result = list(kept)
    for k, score in zip(with_some, scores, strict=True):
        best = np.argsort(-score, kind="stable")[:extend]
        joints, log_prob = kept[k]
        result[k] = (
            joints + [more[k][b] for b in best],
            np.concatenate([log_prob, score[best]]),
        )
    return result


def coordinated(turn: Turn, joint: Joint) -> list[Joint]:
    """Joint orders one coordinated step from `joint`, sorted; none outside movement phases.

    One unit supports an own unit: its move, or its place if it does not move. Or one fleet convoys
    an own army between two coasts of its own sea, and the army moves "via convoy".
    """
    if int(turn.boards.phase[0]) not in boards.MOVES:
        return []
    slot_of = {
        int(atlas.PROV_OF[vocabulary.VOCABULARY[order, UNIT]]): d for d, order in enumerate(joint)
    }
    found: set[Joint] = set()
    for d, options in enumerate(turn.lists):
        for order in options.tolist():
            row = vocabulary.VOCABULARY[order]
            if row[KIND] not in (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE, boards.CONVOY):
                continue
            other = slot_of.get(int(atlas.PROV_OF[row[OTHER]]))
            if other is None or order == joint[d]:
                continue
            step = _step(turn, joint, d, order, other, row)
            if step is not None and step != joint:
                found.add(step)
    return sorted(found)


def _step(turn: Turn, joint: Joint, d: int, order: int, other: int, row) -> Joint | None:
    """`joint` with the support or convoy `order` in slot d, if slot `other` does what it helps."""
    helped = vocabulary.VOCABULARY[joint[other]]
    if row[KIND] == boards.CONVOY:
        sea, ends = int(row[UNIT]), (int(row[OTHER]), int(row[DEST]))
        near = all(atlas.TOUCH[sea, end] for end in ends)
        army = _via(turn, other, int(row[DEST])) if near else None
        return None if army is None else _replace(joint, {d: order, other: army})
    moves = helped[KIND] == boards.MOVE
    if row[KIND] == boards.SUPPORT_HOLD:
        fits = not moves
    else:
        fits = moves and atlas.PROV_OF[helped[DEST]] == atlas.PROV_OF[row[DEST]]
    return _replace(joint, {d: order}) if fits else None


def _via(turn: Turn, slot: int, destination: int) -> int | None:
    """The order of that unit to move to `destination` via convoy, if it is legal."""
    rows = vocabulary.VOCABULARY[turn.lists[slot]]
    found = np.flatnonzero(
        (rows[:, KIND] == boards.MOVE) & (rows[:, DEST] == destination) & (rows[:, VIA] == 1)
    )
    return int(turn.lists[slot][found[0]]) if len(found) else None


def _replace(joint: Joint, orders: dict[int, int]) -> Joint:
    return tuple(orders.get(d, order) for d, order in enumerate(joint))
