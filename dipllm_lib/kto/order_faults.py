"""Faults of movement orders that can be seen from the own orders alone.

    illegal         not among the legal orders of its unit
    void support    supports an own unit that is ordered something else
    self-bounce     a move that fails although no other power had a unit on the map
    own support     a move into the province of an own unit that supports; by the rules nobody can
                    cut own support, so such a move achieves nothing

All but the first are decided by the rules engine on the position without the other powers' units.
Convoys are not judged: foreign fleets may carry them. Supports of other powers' units are not
judged either, since their orders are not known.

Shapes: one entry per slot of the turn.
"""

from collections.abc import Sequence

import numpy as np

from dipllm_lib.dip import atlas, boards, orders, rules
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Turn

ILLEGAL, VOID_SUPPORT = "illegal", "void support"
SELF_BOUNCE, OWN_SUPPORT = "self-bounce", "own support"
FAULTS = (ILLEGAL, VOID_SUPPORT, SELF_BOUNCE, OWN_SUPPORT)


def illegal(turn: Turn, joint: Sequence[int]) -> tuple[bool, ...]:
    """Whether each order is not legal for its unit. ValueError for another number of orders, or a
    turn that is not of a movement phase."""
    check(turn)
    if len(joint) != turn.slots:
        raise ValueError(f"{len(joint)} orders for {turn.slots} units of {turn.name}")
    pairs = zip(joint, turn.lists, strict=True)
    return tuple(bool(order not in legal) for order, legal in pairs)


def void_support(turn: Turn, joint: Sequence[int]) -> tuple[bool, ...]:
    """Whether each order supports an own unit that does something else; legal orders only."""
    found, places = _alone(turn, joint), _places(joint)
    own = set(places)
    supports = (v.EXPANSION[order, 2] for order in joint)
    return tuple(
        bool(found.support_ok[0, p] == rules.VOID and int(helped) in own)
        for p, helped in zip(places, supports, strict=True)
    )


def self_bounce(turn: Turn, joint: Sequence[int]) -> tuple[bool, ...]:
    """Whether each move fails for own units alone; legal orders only."""
    found = _alone(turn, joint)
    return tuple(
        bool(found.moved[0, p] == rules.NO and found.route[0, p] == rules.LAND)
        for p in _places(joint)
    )


def own_support(turn: Turn, joint: Sequence[int]) -> tuple[bool, ...]:
    """Whether each order moves into the province of an own supporter; legal orders only."""
    _alone(turn, joint)
    kinds, places = _kinds(joint), _places(joint)
    supporting = {
        p
        for p, kind in zip(places, kinds, strict=True)
        if kind in (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE)
    }
    goals = [_goal(order) for order in joint]
    moves = (kind == boards.MOVE for kind in kinds)
    return tuple(move and goal in supporting for move, goal in zip(moves, goals, strict=True))


def faults(turn: Turn, joint: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """Names of the faults of each order; to the others an illegal one is a hold."""
    wrong = illegal(turn, joint)
    given = [
        _hold(legal) if bad else int(order)
        for order, bad, legal in zip(joint, wrong, turn.lists, strict=True)
    ]
    checks = (void_support, self_bounce, own_support)
    table = [wrong, *(check_(turn, given) for check_ in checks)]
    return tuple(
        tuple(name for name, column in zip(FAULTS, table, strict=True) if column[slot])
        for slot in range(turn.slots)
    )


def check(turn: Turn) -> None:
    """ValueError unless the turn is of a movement phase."""
    if int(turn.boards.phase[0]) not in boards.MOVES:
        raise ValueError(f"{turn.name} {turn.phase}: only movement phases have such orders")


def _alone(turn: Turn, joint: Sequence[int]) -> rules.Decisions:
    """Decisions when only the units of this power stand on the map."""
    check(turn)
    joint = tuple(map(int, joint))
    turn.check(joint)
    alone = _without_others(turn.boards, turn.power)
    return rules.resolve(alone, orders.expand(alone, [{turn.power: joint}]))[1]


def _without_others(position: Boards, power: int) -> Boards:
    alone = position.copy()
    others = alone.power != power
    for name in ("unit", "power", "loc"):
        getattr(alone, name)[others] = boards.EMPTY.get(name, -1)
    return alone


def _places(joint: Sequence[int]) -> list[int]:
    """Provinces of the ordered units."""
    return v.EXPANSION[list(joint), 0].tolist()


def _kinds(joint: Sequence[int]) -> list[int]:
    return v.VOCABULARY[list(joint), v.KIND].tolist()


def _goal(order: int) -> int:
    """Province of the destination, -1 for none."""
    place = int(v.VOCABULARY[order, v.DEST])
    return int(atlas.PROV_OF[place]) if place >= 0 else -1


def _hold(legal: np.ndarray) -> int:
    """The hold among the legal orders of a unit."""
    return int(legal[v.VOCABULARY[legal, v.KIND] == boards.HOLD][0])
