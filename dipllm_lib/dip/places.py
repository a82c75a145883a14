"""How much DumbBot likes to stand somewhere: the place values of the rule-based players.

A *place* is a node a unit can stand on. Places 0-74 are armies in provinces, place 75 + l is a
fleet at location l: A BRE, F BRE and F SPA/NC are different places. All values are int64 and "/"
truncates toward zero, after the rule of DumbBot (Norman 2002, release 8~2~b):

    size(p) = n^2 + 4 n + 16, n = centres of p; the neutral owner counts as one
    A(prov) = size(owner) of a centre that is not ours;  D(prov) = of our centre the largest size
              of another power with a unit that can move in;  0 otherwise
    P_0(c)  = A * attack weight + D * defence weight of the province of place c
    P_n(c)  = (P_{n-1}(c) + sum of P_{n-1} over the places adjacent to c) / 5, n = 1..9
    V(c)    = sum_n w_n P_n(c) + 1000 strength - 1000 competition     spring and fall
    V(c)    = sum_n w_n P_n(c) + 1000 D                               winter

Two coasts of one neighbour province count once in P_n, with the larger value. A unit adds 1 to
its own province and 1 to every place it can move to; strength is our count in a province,
competition the largest count of one other power. Retreats use the weights of their season.

`port_values` are those of the Python program that the DipNet work (Paquette et al. 2019) calls
DumbBot; it differs in three points: neutral centres have attack value 0; a unit does not count in
the province it stands in; proximity belongs to provinces, in floating point, and adds up the army
and the fleet places around them:

    P_n(p) = (P_{n-1}(p) + sum of P_{n-1}(province of c) over places c with a way into p) / 5.0
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dipllm_lib.dip import atlas

PLACES = 156
FLEET_PLACES = 75  # place of the fleet at location 0

SPRING, FALL, WINTER = 0, 1, 2
SEASON_OF_PHASE = np.array([SPRING, SPRING, FALL, FALL, WINTER, WINTER], np.int8)
ATTACK = np.array([700, 600, 700], np.int64)
DEFENCE = np.array([300, 400, 300], np.int64)
DEPTH = np.array(
    [
        [100, 1000, 30, 10, 6, 5, 4, 3, 2, 1],
        [1000, 100, 30, 10, 6, 5, 4, 3, 2, 1],
        [1000, 100, 30, 10, 6, 5, 4, 3, 2, 1],
    ],
    np.int64,
)
STRENGTH = COMPETITION = WINTER_DEFENCE = 1000
SPREAD = 5  # divisor of the proximity recursion


class PlaceTables(NamedTuple):
    """prov (156,): province · exists (156,) · near (156, 11): adjacent places in increasing
    order, -1 at the end · twin (156, 11): index in the row of `near` of another coast of the same
    province, or -1."""

    prov: np.ndarray
    exists: np.ndarray
    near: np.ndarray
    twin: np.ndarray


class Values(NamedTuple):
    """value (156,) of places, 0 where no unit can stand, int64 (port: float64); strength,
    competition (75,)."""

    value: np.ndarray
    strength: np.ndarray
    competition: np.ndarray


def _tables() -> PlaceTables:
    prov = np.concatenate([np.arange(75), atlas.PROV_OF]).astype(np.int64)
    exists = np.concatenate([atlas.HAS_ARMY[:75], atlas.HAS_FLEET])
    near = np.full((PLACES, 11), -1, np.int64)
    twin = np.full((PLACES, 11), -1, np.int64)
    for place in np.flatnonzero(exists):
        if place < FLEET_PLACES:
            others = np.flatnonzero(atlas.ARMY[place])
        else:
            others = np.flatnonzero(atlas.FLEET[place - FLEET_PLACES]) + FLEET_PLACES
        near[place, : len(others)] = others
        for i, other in enumerate(others):
            same = [j for j, c in enumerate(others) if j != i and prov[c] == prov[other]]
            twin[place, i] = same[0] if same else -1
    return PlaceTables(prov, exists, near, twin)


TABLES = _tables()
for _table in TABLES:
    _table.flags.writeable = False


def place_of(unit: int, location: int) -> int:
    """Place of a unit type (1 army, 2 fleet) at a location."""
    return int(location) + (FLEET_PLACES if unit == atlas.FLEET_UNIT else 0)


@njit(cache=True)
def _sizes(owner, centre):
    """(8,) size of each power and, last, of the neutral owner."""
    count = np.zeros(8, np.int64)
    for p in range(75):
        if centre[p]:
            count[owner[p] if owner[p] >= 0 else 7] += 1
    return count * count + 4 * count + 16


@njit(cache=True)
def _reach(t, unit, power, loc):
    """Counts of adjacent places (7, 75) with the own province, and who can move in (7, 75)."""
    count = np.zeros((7, 75), np.int64)
    enters = np.zeros((7, 75), np.bool_)
    for p in range(75):
        if unit[p] == 0:
            continue
        place = loc[p] + (FLEET_PLACES if unit[p] == 2 else 0)
        count[power[p], p] += 1
        for other in t.near[place]:
            if other < 0:
                break
            count[power[p], t.prov[other]] += 1
            enters[power[p], t.prov[other]] = True
    return count, enters


@njit(cache=True)
def _base(size, owner, centre, enters, me):
    """Attack and defence value (75,) of every province."""
    attack, defence = np.zeros(75, np.int64), np.zeros(75, np.int64)
    for p in range(75):
        if not centre[p]:
            continue
        if owner[p] != me:
            attack[p] = size[owner[p] if owner[p] >= 0 else 7]
            continue
        for other in range(7):
            if other != me and enters[other, p] and size[other] > defence[p]:
                defence[p] = size[other]
    return attack, defence


@njit(cache=True)
def _spread(t, before, after):
    """One step of the proximity recursion, from `before` into `after`, both (156,)."""
    for c in range(PLACES):
        if not t.exists[c]:
            continue
        total = before[c]
        for i in range(t.near.shape[1]):
            other = t.near[c, i]
            if other < 0:
                break
            j = t.twin[c, i]
            if j >= 0:
                pair = before[t.near[c, j]]
                if pair > before[other] or (pair == before[other] and j < i):
                    continue
            total += before[other]
        after[c] = total // SPREAD


@njit(cache=True)
def _values(t, centre, unit, power, loc, owner, season, me):
    count, enters = _reach(t, unit, power, loc)
    attack, defence = _base(_sizes(owner, centre), owner, centre, enters, me)
    strength = count[me].copy()
    competition = np.zeros(75, np.int64)
    for other in range(7):
        if other != me:
            competition = np.maximum(competition, count[other])
    value, now, then = (
        np.zeros(PLACES, np.int64),
        np.zeros(PLACES, np.int64),
        np.zeros(PLACES, np.int64),
    )
    for c in range(PLACES):
        p = t.prov[c]
        now[c] = t.exists[c] * (attack[p] * ATTACK[season] + defence[p] * DEFENCE[season])
    for n in range(DEPTH.shape[1]):
        value += DEPTH[season, n] * now
        _spread(t, now, then)
        now, then = then, now
    for c in range(PLACES):
        if not t.exists[c]:
            continue
        p = t.prov[c]
        if season == WINTER:
            value[c] += WINTER_DEFENCE * defence[p]
        else:
            value[c] += STRENGTH * strength[p] - COMPETITION * competition[p]
    return value, strength, competition


def values(boards, i: int, power: int) -> Values:
    """Place values of `power` on position i of `boards`, with the weights of its phase."""
    season = int(SEASON_OF_PHASE[boards.phase[i]])
    rows = (boards.unit[i], boards.power[i], boards.loc[i], boards.owner[i])
    return Values(*_values(TABLES, atlas.CENTRE, *rows, season, power))


@njit(cache=True)
def _port_spread(t, before, after):
    """One step of the port's proximity, from `before` into `after`, both float64 (75,)."""
    after[:] = before
    for c in range(PLACES):
        for i in range(t.near.shape[1]):
            if t.near[c, i] < 0:
                break
            if t.twin[c, i] < 0 or i < t.twin[c, i]:
                after[t.prov[t.near[c, i]]] += before[t.prov[c]]
    after /= SPREAD


@njit(cache=True)
def _port_values(t, centre, unit, power, loc, owner, season, me):
    count, enters = _reach(t, unit, power, loc)
    for p in range(75):
        if unit[p]:
            count[power[p], p] -= 1
    size = _sizes(owner, centre)
    size[7] = 0
    attack, defence = _base(size, owner, centre, enters, me)
    competition = np.zeros(75, np.int64)
    for other in range(7):
        if other != me:
            competition = np.maximum(competition, count[other])
    now = (attack * ATTACK[season] + defence * DEFENCE[season]).astype(np.float64)
    then, total = np.empty(75), np.zeros(75)
    for n in range(DEPTH.shape[1]):
        total += DEPTH[season, n] * now
        _port_spread(t, now, then)
        now, then = then, now
    if season == WINTER:
        total += WINTER_DEFENCE * defence
    else:
        total += STRENGTH * count[me] - COMPETITION * competition
    return np.where(t.exists, total[t.prov], 0.0), count[me].copy(), competition


def port_values(boards, i: int, power: int) -> Values:
    """As `values`, by the rules of the port."""
    season = int(SEASON_OF_PHASE[boards.phase[i]])
    rows = (boards.unit[i], boards.power[i], boards.loc[i], boards.owner[i])
    return Values(*_port_values(TABLES, atlas.CENTRE, *rows, season, power))
