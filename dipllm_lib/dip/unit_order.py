"""The order in which a power's units are spoken of: `canonical`, `random` or `most_constrained`.

Only the text changes: a spoken turn has the slots of a turn in another order, so joint orders of
it are written, read and scored like any others, and `unspoken` puts them back. Canonical order is
armies before fleets, then alphabetical. `random` depends on the phase, the power, its units and a
seed; `most_constrained` has the units with the fewest legal orders first. In adjustment phases a
joint order is a set written in increasing order, and always stays so.
"""

from collections.abc import Sequence
from dataclasses import replace

from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.run import seeding

RULES = ("canonical", "random", "most_constrained")


def permutation(turn: Turn, rule: str, seed: int = 0) -> tuple[int, ...]:
    """For each spoken place the slot of `turn` that is spoken of. ValueError for an unknown
    rule.
    """
    if rule not in RULES:
        raise ValueError(f"unknown unit order {rule!r}: use {', '.join(RULES)}")
    slots = range(turn.slots)
    if rule == "canonical" or turn.adjusts:
        return tuple(slots)
    if rule == "most_constrained":
        return tuple(sorted(slots, key=lambda slot: (len(turn.lists[slot]), slot)))
    rng = seeding.child(seed, "unit order", turn.phase, turn.name, *turn.units)
    return tuple(rng.permutation(turn.slots).tolist())


def spoken_turn(turn: Turn, rule: str, seed: int = 0) -> Turn:
    """`turn` with its slots in spoken order; `turn` itself where that is the canonical one."""
    order = permutation(turn, rule, seed)
    if order == tuple(range(turn.slots)):
        return turn
    units, lists = (tuple(row[slot] for slot in order) for row in (turn.units, turn.lists))
    return replace(turn, units=units, lists=lists)


def spoken(turn: Turn, joint: Sequence[int], rule: str, seed: int = 0) -> Joint:
    """A joint order of `turn`, or the beginning of one, as one of `spoken_turn`."""
    return tuple(joint[slot] for slot in permutation(turn, rule, seed) if slot < len(joint))


def unspoken(joint: Sequence[int]) -> Joint:
    """A joint order of a spoken turn, or the beginning of one, in canonical order."""
    return tuple(sorted(joint, key=lambda order: int(v.CANONICAL[order])))
