"""What follows the decisions: units move, retreats, captures, builds and removals, and which phase
comes next.

Retreat options of a unit dislodged from p: each location it could move to whose province is empty,
not contested (no stand-off left it empty), and not the province its attacker left by land. A unit
without an option is removed at once; a phase in which nobody has anything to decide is skipped.
Centres change hands after the fall only. All kernels write rows of `out` (Boards).
"""

from dipllm_lib.dip.boards import BUILD_ARMY, BUILD_FLEET, DISBAND, MOVE, REMOVE, RETREAT
from dipllm_lib.dip.decisions import LAND, NO, NO_ROUTE, YES
from dipllm_lib.dip.kernels import kernel

HOME, OWNED, HOME_ANY = 0, 1, 2  # rules of civil disorder


@kernel
def _clear_retreats(out, n):
    for p in range(75):
        out.d_unit[n, p] = 0
        out.d_power[n, p] = out.d_loc[n, p] = out.d_from[n, p] = -1
        out.contested[n, p] = False


@kernel
def _put(out, n, p, unit, power, loc):
    out.unit[n, p], out.power[n, p], out.loc[n, p] = unit, power, loc


@kernel
def _copy(b, i, out, n):
    """Units, owners and time of board i into row n, without its retreats."""
    for p in range(75):
        _put(out, n, p, b.unit[i, p], b.power[i, p], b.loc[i, p])
        out.owner[n, p] = b.owner[i, p]
    out.year[n], out.phase[n] = b.year[i], b.phase[i]
    _clear_retreats(out, n)


@kernel
def _capture(t, out, n):
    """Every centre with a unit on it goes to the unit's power."""
    for p in range(75):
        if t.centre[p] and out.unit[n, p]:
            out.owner[n, p] = out.power[n, p]


@kernel
def _surplus(power, owner, surplus):
    """Centres minus units of each power."""
    surplus[:] = 0
    for p in range(75):
        if owner[p] >= 0:
            surplus[owner[p]] += 1
        if power[p] >= 0:
            surplus[power[p]] -= 1


@kernel
def _adjusts(t, out, n, surplus):
    """Whether some power must remove or can build."""
    _surplus(out.power[n], out.owner[n], surplus)
    for power in range(7):
        if surplus[power] < 0:
            return True
    for p in range(75):
        owner = out.owner[n, p]
        if owner >= 0 and t.home[p] == owner and not out.unit[n, p] and surplus[owner] > 0:
            return True
    return False


@kernel
def _advance(t, out, n, surplus):
    """From a finished retreat phase to the next phase in which something is decided."""
    _clear_retreats(out, n)
    if out.phase[n] == 1:
        out.phase[n] = 2
        return
    _capture(t, out, n)
    if _adjusts(t, out, n, surplus):
        out.phase[n] = 4
    else:
        out.phase[n] = 0
        out.year[n] += 1


@kernel
def _may_retreat(t, b, i, p, place):
    """Whether the unit dislodged from p of board i may retreat to a location, legal for its type or
    not.
    """
    q = t.prov_of[place]
    near = t.army[p, q] and place == q if b.d_unit[i, p] == 1 else t.fleet[b.d_loc[i, p], place]
    return near and not b.unit[i, q] and not b.contested[i, q] and q != b.d_from[i, p]


@kernel
def _has_option(t, b, i, p):
    for place in range(81):
        if _may_retreat(t, b, i, p, place):
            return True
    return False


@kernel
def _lost_head_on(t, b, i, orders, made, n, u, d):
    """Whether the move of u to d lost a head-to-head against a unit that came from d."""
    if not b.unit[i, d] or orders.kind[n, d] != MOVE or made.moved[n, d] != YES:
        return False
    return t.prov_of[orders.a[n, d]] == u and made.route[n, u] == LAND and made.route[n, d] == LAND


@kernel
def _leave(t, b, i, orders, made, n, out, entered):
    """Units that move arrive, failed moves contest; `entered`: for each province the province its
    new unit left, or -1.
    """
    entered[:] = -1
    for u in range(75):
        if not b.unit[i, u] or orders.kind[n, u] != MOVE:
            continue
        d = t.prov_of[orders.a[n, u]]
        if made.moved[n, u] == YES:
            _put(out, n, d, b.unit[i, u], b.power[i, u], orders.a[n, u])
            entered[d] = u
        elif made.path[n, u] == YES and made.route[n, u] != NO_ROUTE:
            if not _lost_head_on(t, b, i, orders, made, n, u, d):
                out.contested[n, d] = True


@kernel
def _stay(b, i, orders, made, n, out, entered):
    """Units that do not move stay or are dislodged."""
    for p in range(75):
        if not b.unit[i, p] or (orders.kind[n, p] == MOVE and made.moved[n, p] == YES):
            continue
        if made.dislodged[n, p] != YES:
            _put(out, n, p, b.unit[i, p], b.power[i, p], b.loc[i, p])
            continue
        out.d_unit[n, p], out.d_power[n, p], out.d_loc[n, p] = (
            b.unit[i, p],
            b.power[i, p],
            b.loc[i, p],
        )
        u = entered[p]
        out.d_from[n, p] = u if made.route[n, u] == LAND else -1


@kernel
def after_moves(t, b, orders, board_of, rows, made, out, scratch):
    """Apply the decisions of movement phases. `scratch`: int64 (2, 75)."""
    entered, surplus = scratch[0], scratch[1, :7]
    for k in range(len(rows)):
        n = rows[k]
        i = board_of[n]
        for p in range(75):
            _put(out, n, p, 0, -1, -1)
            out.owner[n, p] = b.owner[i, p]
        _clear_retreats(out, n)
        out.year[n], out.phase[n] = b.year[i], b.phase[i] + 1
        _leave(t, b, i, orders, made, n, out, entered)
        _stay(b, i, orders, made, n, out, entered)
        retreats = False
        for p in range(75):
            if out.d_unit[n, p]:
                if _has_option(t, out, n, p):
                    retreats = True
                else:
                    out.d_unit[n, p] = 0
                    out.d_power[n, p] = out.d_loc[n, p] = out.d_from[n, p] = -1
        if not retreats:
            _advance(t, out, n, surplus)


@kernel
def after_retreats(t, b, orders, board_of, rows, made, out, scratch):
    """Retreat phases: one legal retreat into a province succeeds, two or more are all removed, no
    order disbands.
    """
    arrivals, surplus = scratch[0], scratch[1, :7]
    for k in range(len(rows)):
        n = rows[k]
        i = board_of[n]
        _copy(b, i, out, n)
        arrivals[:] = 0
        for p in range(75):
            if b.d_unit[i, p] and orders.kind[n, p] == RETREAT:
                if _may_retreat(t, b, i, p, orders.a[n, p]):
                    made.moved[n, p] = YES
                    arrivals[t.prov_of[orders.a[n, p]]] += 1
                else:
                    made.moved[n, p] = NO
        for p in range(75):
            if made.moved[n, p] == YES:
                q = t.prov_of[orders.a[n, p]]
                if arrivals[q] == 1:
                    _put(out, n, q, b.d_unit[i, p], b.d_power[i, p], orders.a[n, p])
                else:
                    made.moved[n, p] = NO
        _advance(t, out, n, surplus)


@kernel
def _owned_distance(t, owner, p, power):
    """Steps from p to the nearest centre that a power owns."""
    best = 99
    for q in range(75):
        if owner[q] == power:
            best = min(best, t.dist_any[p, q])
    return best


@kernel
def _disorder(t, out, n, p, rule):
    """Removal rank of the unit in p, the largest is removed first: distance, fleets before armies,
    then the alphabet.
    """
    power, place = out.power[n, p], out.loc[n, p]
    fleet = int(out.unit[n, p] == 2)
    if rule == OWNED:
        away = 0 if t.centre[p] else 1
        distance = _owned_distance(t, out.owner[n], p, power)
        return ((away * 100 + distance) * 2 + fleet) * 128 - t.name_rank[place]
    distance = int(t.home_dist_army[power, p])
    if rule == HOME and fleet:
        distance = int(t.home_dist_fleet[power, place])
    return (distance * 2 + fleet) * 128 - t.code_rank[place]


@kernel
def _remove_worst(t, out, n, power, rule):
    """Civil disorder: remove one unit of a power."""
    worst, rank = -1, -1000
    for p in range(75):
        if out.unit[n, p] and out.power[n, p] == power:
            this = _disorder(t, out, n, p, rule)
            if this > rank:
                worst, rank = p, this
    _put(out, n, worst, 0, -1, -1)


@kernel
def _build(t, out, n, orders, p, surplus):
    """Carry out the build ordered in p if it is legal; a surplus one is ignored."""
    owner, kind, place = out.owner[n, p], orders.kind[n, p], orders.a[n, p]
    if owner < 0 or t.home[p] != owner or out.unit[n, p] or surplus[owner] <= 0 or place < 0:
        return False
    sails = t.kind[p] == 1 and (place >= 75 if t.coasts[p, 0] >= 0 else True)
    if (
        t.prov_of[place] != p
        or (kind == BUILD_FLEET and not sails)
        or (kind == BUILD_ARMY and place != p)
    ):
        return False
    _put(out, n, p, 1 if kind == BUILD_ARMY else 2, owner, place)
    return True


@kernel
def after_adjustments(t, b, orders, board_of, rows, rule, out, scratch):
    """Adjustment phases: builds and removals in order of province, then civil disorder; the new
    year begins.
    """
    surplus = scratch[1, :7]
    for k in range(len(rows)):
        n = rows[k]
        i = board_of[n]
        _copy(b, i, out, n)
        _surplus(out.power[n], out.owner[n], surplus)
        for p in range(75):
            kind = orders.kind[n, p]
            if (kind == BUILD_ARMY or kind == BUILD_FLEET) and _build(
                t, out, n, orders, p, surplus
            ):
                surplus[out.owner[n, p]] -= 1
            elif (
                (kind == REMOVE or kind == DISBAND)
                and b.unit[i, p]
                and surplus[out.power[n, p]] < 0
            ):
                surplus[out.power[n, p]] += 1
                _put(out, n, p, 0, -1, -1)
        for power in range(7):
            while surplus[power] < 0:
                _remove_worst(t, out, n, power, rule)
                surplus[power] += 1
        out.phase[n] = 0
        out.year[n] += 1
