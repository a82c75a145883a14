"""What became of each order, in the package's words.

Empty for success; `bounce`, `void` (a support or convoy that matches no order), `cut`, `no convoy`
(no chain of fleets was ordered), `disrupted` (the chain broke), `dislodged`, `disband` (removed: no
retreat was open, or two retreats met).
"""

import numpy as np

from dipllm_lib.dip import boards
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.decisions import NO, NO_ROUTE, VOID, YES, Decisions


def words(
    b: Boards, orders: Orders, made: Decisions, after: Boards, i: int
) -> dict[str, list[str]]:
    """Unit text -> words of row i of a resolved batch (position i, orders i, next position i),
    sorted by unit text.
    """
    if b.phase[i] in boards.RETREATS:
        result = _retreats(b, orders, made, i)
    elif b.phase[i] == boards.ADJUSTMENTS:
        result = _adjustments(b, after, i)
    else:
        result = _moves(b, orders, made, after, i)
    return dict(sorted(result.items()))


def _moves(b, orders, made, after, i) -> dict[str, list[str]]:
    result = {}
    for p in np.flatnonzero(b.unit[i]).tolist():
        found = _order_words(b, orders, made, i, p)
        if made.dislodged[i, p] == YES:
            found.append("dislodged")
            if not after.d_unit[i, p]:
                found.append("disband")
        result[boards.unit_text(int(b.unit[i, p]), int(b.loc[i, p]))] = found
    return result


def _order_words(b, orders, made, i, p) -> list[str]:
    kind, moved = orders.kind[i, p], made.moved[i, p]
    if kind == boards.MOVE and moved == NO:
        if made.route[i, p] == NO_ROUTE:
            return ["no convoy"]
        return ["disrupted"] if made.path[i, p] == NO else ["bounce"]
    if kind in (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE):
        return {VOID: ["void"], NO: ["cut"]}.get(int(made.support_ok[i, p]), [])
    if kind == boards.CONVOY:
        army, dest = int(orders.a[i, p]), int(orders.b[i, p])
        ordered = (
            b.unit[i, army] == 1
            and orders.kind[i, army] == boards.MOVE
            and orders.a[i, army] == dest
        )
        return [] if ordered else ["void"]
    return []


def _retreats(b, orders, made, i) -> dict[str, list[str]]:
    result = {}
    for p in np.flatnonzero(b.d_unit[i]).tolist():
        unit = boards.unit_text(int(b.d_unit[i, p]), int(b.d_loc[i, p]))
        bounced = orders.kind[i, p] == boards.RETREAT and made.moved[i, p] != YES
        result[unit] = (
            [] if made.moved[i, p] == YES else ["bounce", "disband"] if bounced else ["disband"]
        )
    return result


def _adjustments(b, after, i) -> dict[str, list[str]]:
    """Units that were built or removed."""
    result = {}
    for p in np.flatnonzero((b.unit[i] > 0) != (after.unit[i] > 0)).tolist():
        here = b if b.unit[i, p] else after
        result[boards.unit_text(int(here.unit[i, p]), int(here.loc[i, p]))] = []
    return result
