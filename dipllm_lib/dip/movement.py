"""Movement phases: bounds that only tighten, then cycles, then the convoy rule of Szykman.

After chapter 5 of the Diplomacy Adjudicator Test Cases (Kruijswijk). PATH (a convoy can pass),
SUPPORT (given), MOVE (succeeds), DISLODGE start unknown and are decided once, from bounds of HOLD,
ATTACK, DEFEND, PREVENT: routes, attackers and supporters, sweeps until nothing changes, circular
movement, else every move with unknown PATH fails. Orders are legal (`legalise`), arrays (75,).
"""

import numpy as np

from dipllm_lib.dip.boards import CONVOY, MOVE, SUPPORT_HOLD, SUPPORT_MOVE
from dipllm_lib.dip.decisions import (
    BY_CONVOY, LAND, NO, NO_ROUTE, OPEN, UNKNOWN, VOID, YES, Made, Row,
)  # fmt: skip
from dipllm_lib.dip.kernels import kernel

# two units that swap: not head to head, head to head, perhaps (a route is OPEN)
APART, HEAD_ON, MAYBE = range(3)


@kernel
def _chain(t, start, end, fleets):
    """Whether fleets in the seas of a mask join two coastal provinces."""
    reached = t.sea_mask[start] & fleets
    fringe = reached
    while fringe:
        if fringe & t.sea_mask[end]:
            return True
        wider = np.int64(0)
        for s in range(len(t.seas)):
            if fringe >> s & 1:
                wider |= t.sea_mask[t.seas[s]]
        fringe = wider & fleets & ~reached
        reached |= fringe
    return False


@kernel
def _read(t, r, w, m):
    """Occupied provinces, destinations and convoying fleets; clears all lists. Returns the number
    of units.
    """
    n = 0
    for p in range(75):
        w.attacker[p] = w.supporter[p] = w.to[p] = w.target[p] = -1
        w.carriers[p] = 0
        m.move[p] = m.support[p] = m.dislodge[p] = m.path[p] = m.route[p] = 0
        if r.unit[p]:
            w.units[n] = p
            n += 1
            if r.kind[p] == MOVE:
                w.to[p] = t.prov_of[r.a[p]]
    for k in range(n):
        p = w.units[k]
        if r.kind[p] == CONVOY and r.unit[p] == 2 and t.sea_index[p] >= 0:
            army = r.a[p]
            if r.unit[army] == 1 and w.to[army] == r.b[p] and w.to[army] >= 0:
                w.carriers[army] |= np.int64(1) << t.sea_index[p]
    return n


@kernel
def _shows_intent(t, r, p, carriers):
    """Whether a fleet of the army's own power convoys it."""
    for s in range(len(t.seas)):
        if carriers >> s & 1 and r.power[t.seas[s]] == r.power[p]:
            return True
    return False


@kernel
def _route(t, r, w, flags, p):
    """How the unit in p moves: NO_ROUTE, LAND, BY_CONVOY or OPEN."""
    d = w.to[p]
    if r.unit[p] == 2:
        return LAND if t.fleet[r.loc[p], r.a[p]] else NO_ROUTE
    chain = w.carriers[p] != 0 and _chain(t, p, d, w.carriers[p])
    if not t.army[p, d]:
        return BY_CONVOY if chain else NO_ROUTE
    if r.via[p]:
        return BY_CONVOY if chain else (NO_ROUTE if flags.via_fails else LAND)
    if w.carriers[p] == 0 or flags.via_only or not _shows_intent(t, r, p, w.carriers[p]):
        return LAND
    if flags.disrupted_fails:
        return BY_CONVOY if chain else NO_ROUTE
    return OPEN if chain else LAND


@kernel
def _matches(t, r, w, m, flags, s):
    """Whether the support of the unit in s matches an order; `a` is the province of the supported
    unit.
    """
    q = r.a[s]
    if r.unit[q] == 0:
        return False
    if r.kind[s] == SUPPORT_HOLD:
        return r.kind[q] != MOVE
    if r.kind[q] != MOVE or m.path[q] == NO or w.to[q] != t.prov_of[r.b[s]]:
        return False
    return flags.ignore_coast or r.b[s] == r.a[q] or r.b[s] == w.to[q]


@kernel
def _lists(t, r, w, m, flags, n):
    """Routes, attackers, supporters, and the decisions that are clear from the start."""
    for k in range(n):
        p = w.units[k]
        if r.kind[p] == MOVE:
            m.route[p] = _route(t, r, w, flags, p)
            if m.route[p] == NO_ROUTE:
                m.path[p] = m.move[p] = NO
            else:
                m.path[p] = YES if m.route[p] == LAND else UNKNOWN
                w.next_attacker[p] = w.attacker[w.to[p]]
                w.attacker[w.to[p]] = p
    for k in range(n):
        s = w.units[k]
        if r.kind[s] == SUPPORT_HOLD or r.kind[s] == SUPPORT_MOVE:
            if _matches(t, r, w, m, flags, s):
                q = r.a[s]
                w.target[s] = q if r.kind[s] == SUPPORT_HOLD else w.to[q]
                w.next_supporter[s] = w.supporter[q]
                w.supporter[q] = s
            else:
                m.support[s] = VOID


@kernel
def _head_on(r, w, m, u):
    """Whether u and the unit in its destination are head to head: APART, HEAD_ON or MAYBE (a route
    is OPEN).
    """
    o = w.to[u]
    if r.unit[o] == 0 or w.to[o] != u:
        return APART
    x, y = m.route[u], m.route[o]
    if x == BY_CONVOY or y == BY_CONVOY or x == NO_ROUTE or y == NO_ROUTE:
        return APART
    return HEAD_ON if x == LAND and y == LAND else MAYBE


@kernel
def _strength(r, w, m, u, without):
    """Bounds of 1 + the supports of the unit in u, leaving out those of power `without` (-1:
    none).
    """
    low, high = 1, 1
    s = w.supporter[u]
    while s >= 0:
        if r.power[s] != without:
            low += m.support[s] == YES
            high += m.support[s] <= YES
        s = w.next_supporter[s]
    return low, high


@kernel
def _hold(r, w, m, d):
    """HOLD(d): bounds of the strength that an attacker of d must beat if there is no
    head-to-head.
    """
    if r.unit[d] == 0:
        return 0, 0
    if w.to[d] < 0:
        return _strength(r, w, m, d, -1)
    return int(m.move[d] == NO), int(m.move[d] != YES)


@kernel
def _oppose(r, w, m, u, meeting):
    """HOLD of the destination, or DEFEND of the opponent in a head-to-head; the looser bounds if it
    is MAYBE one.
    """
    d = w.to[u]
    if meeting == HEAD_ON:
        return _strength(r, w, m, d, -1)
    low, high = _hold(r, w, m, d)
    if meeting == MAYBE:
        defend_low, defend_high = _strength(r, w, m, d, -1)
        return min(low, defend_low), max(high, defend_high)
    return low, high


@kernel
def _attack(r, w, m, u, meeting):
    """ATTACK(u): 1 + supports; none of the occupant's power count unless it leaves, and no power
    attacks itself.
    """
    if m.path[u] == NO:
        return 0, 0
    d = w.to[u]
    low, high = _strength(r, w, m, u, -1)
    leaves = r.unit[d] == 0 or (w.to[d] >= 0 and m.move[d] == YES and meeting != HEAD_ON)
    may_leave = leaves or (w.to[d] >= 0 and m.move[d] == UNKNOWN and meeting != HEAD_ON)
    may_stay = not leaves or (meeting == MAYBE)
    if may_stay:
        stay_low, stay_high = 0, 0
        if r.power[d] != r.power[u]:
            stay_low, stay_high = _strength(r, w, m, u, r.power[d])
        low = stay_low
        if not may_leave:
            high = stay_high
    return (low if m.path[u] == YES else 0), high


@kernel
def _prevent(r, w, m, u):
    """PREVENT(u): bounds of the strength with which u keeps others out of its destination."""
    if m.path[u] == NO:
        return 0, 0
    meeting = _head_on(r, w, m, u)
    low, high = _strength(r, w, m, u, -1)
    other = m.move[w.to[u]]
    if meeting == HEAD_ON and other == YES:
        return 0, 0
    if m.path[u] != YES or (meeting != APART and other != NO):
        low = 0
    return low, high


@kernel
def _decide_path(t, w, m, u):
    """Whether a chain of fleets surely holds, or surely breaks."""
    sure, possible = np.int64(0), np.int64(0)
    for s in range(len(t.seas)):
        if w.carriers[u] >> s & 1:
            state = m.dislodge[t.seas[s]]
            sure |= np.int64(state == NO) << s
            possible |= np.int64(state != YES) << s
    if _chain(t, u, w.to[u], sure):
        m.path[u], m.route[u] = YES, BY_CONVOY
    elif not _chain(t, u, w.to[u], possible):
        if m.route[u] == OPEN:
            m.path[u], m.route[u] = YES, LAND
        else:
            m.path[u] = NO


@kernel
def _decide_support(r, w, m, s):
    """Cut by a dislodgement, or by an attack of another power that does not come from the province
    it acts on.
    """
    if m.dislodge[s] == YES:
        m.support[s] = NO
        return
    safe = m.dislodge[s] == NO
    u = w.attacker[s]
    while u >= 0:
        if r.power[u] != r.power[s] and u != w.target[s]:
            if m.path[u] == YES:
                m.support[s] = NO
                return
            safe = safe and m.path[u] == NO
        u = w.next_attacker[u]
    if safe:
        m.support[s] = YES


@kernel
def _decide_move(r, w, m, u):
    """ATTACK against the opposition in the destination and every rival's PREVENT."""
    meeting = _head_on(r, w, m, u)
    low, high = _attack(r, w, m, u, meeting)
    bar_low, bar_high = _oppose(r, w, m, u, meeting)
    v = w.attacker[w.to[u]]
    while v >= 0:
        if v != u:
            prevent_low, prevent_high = _prevent(r, w, m, v)
            bar_low, bar_high = max(bar_low, prevent_low), max(bar_high, prevent_high)
        v = w.next_attacker[v]
    if low > bar_high:
        m.move[u] = YES
    elif high <= bar_low:
        m.move[u] = NO


@kernel
def _decide_dislodge(w, m, p):
    """A unit is dislodged if another moves in and it does not move away."""
    if w.to[p] >= 0 and m.move[p] == YES:
        m.dislodge[p] = NO
        return
    all_fail = True
    u = w.attacker[p]
    while u >= 0:
        if m.move[u] == YES:
            if w.to[p] < 0 or m.move[p] == NO:
                m.dislodge[p] = YES
            return
        all_fail = all_fail and m.move[u] == NO
        u = w.next_attacker[u]
    if all_fail:
        m.dislodge[p] = NO


@kernel
def _unknown(w, m, p):
    """How many decisions about the unit in p are open."""
    count = int(m.dislodge[p] == UNKNOWN)
    if w.to[p] >= 0:
        count += int(m.path[p] == UNKNOWN) + int(m.move[p] == UNKNOWN)
    if w.target[p] >= 0:
        count += int(m.support[p] == UNKNOWN)
    return count


@kernel
def _sweep(t, r, w, m, n):
    """Try every open decision once. Returns how many are still open, and how many were made."""
    unknown, made = 0, 0
    for k in range(n):
        p = w.units[k]
        before = _unknown(w, m, p)
        if before == 0:
            continue
        if w.to[p] >= 0 and m.path[p] == UNKNOWN:
            _decide_path(t, w, m, p)
        if w.target[p] >= 0 and m.support[p] == UNKNOWN:
            _decide_support(r, w, m, p)
        if w.to[p] >= 0 and m.move[p] == UNKNOWN:
            _decide_move(r, w, m, p)
        if m.dislodge[p] == UNKNOWN:
            _decide_dislodge(w, m, p)
        after = _unknown(w, m, p)
        unknown, made = unknown + after, made + before - after
    return unknown, made


@kernel
def _beats_rivals(r, w, m, u):
    """Whether u enters its destination for sure once the unit there has left."""
    low, _ = _strength(r, w, m, u, -1)
    v = w.attacker[w.to[u]]
    while v >= 0:
        if v != u and low <= _prevent(r, w, m, v)[1]:
            return False
        v = w.next_attacker[v]
    return True


@kernel
def _cycle_from(r, w, m, start):
    """Resolve the circular movement through `start`, if there is one: all of it succeeds."""
    u, length = start, 0
    while length < 75:
        if w.to[u] < 0 or m.move[u] != UNKNOWN or m.path[u] != YES or not _beats_rivals(r, w, m, u):
            return False
        u = w.to[u]
        length += 1
        if u == start:
            break
    if u != start or (length == 2 and _head_on(r, w, m, u) != APART):
        return False
    while m.move[u] == UNKNOWN:
        m.move[u] = YES
        u = w.to[u]
    return True


@kernel
def _settle(t, r, w, m, n, counts):
    """Steps 3 to 5. `counts`: cycles resolved, convoys failed by the paradox rule, anomalies,
    sweeps.
    """
    while True:
        unknown, made = _sweep(t, r, w, m, n)
        counts[3] += 1
        if unknown == 0:
            return
        if made == 0:
            for k in range(n):
                made += _cycle_from(r, w, m, w.units[k])
            counts[0] += made
        if made == 0:
            for k in range(n):
                p = w.units[k]
                if w.to[p] >= 0 and m.path[p] == UNKNOWN:
                    m.path[p] = m.move[p] = NO
                    made += 1
            counts[1] += made
        if made == 0:
            counts[2] += 1
            for k in range(n):
                if w.to[w.units[k]] >= 0 and m.move[w.units[k]] == UNKNOWN:
                    m.move[w.units[k]] = NO


@kernel
def decide(t, b, o, board_of, rows, flags, w, made):
    """Fill the rows `rows` of the Decisions `made`; row n of orders o is for board board_of[n]."""
    for n in rows:
        i = board_of[n]
        r = Row(b.unit[i], b.power[i], b.loc[i], o.kind[n], o.a[n], o.b[n], o.via[n])
        support, dislodged = made.support_ok[n], made.dislodged[n]
        m = Made(made.moved[n], support, dislodged, made.path[n], made.route[n])
        units = _read(t, r, w, m)
        _lists(t, r, w, m, flags, units)
        _settle(t, r, w, m, units, made.counts[n])
