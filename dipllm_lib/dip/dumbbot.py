"""DumbBot: the rule-based player of Norman (2002, release 8~2~b), from its rules, and its port.

Every decision is a *walk* down a list of places sorted by value, best first:

    chance = (V_cur - V_next) 500 / V_cur   (truncated; 0 if V_cur = 0);  r1, r2 uniform in 0..99
    r1 < 50 and r2 >= chance: go to the next item and repeat, else take the current one

so a neighbour of equal value is taken half of the time and one 20 % worse never. Of items with
equal value only the first by place is kept (removals keep all). Movement: units in random order
walk over their adjacent places and the own place with V + 1; a wish for a province that an own
unit holds or moves to becomes support where the competition asks for it. It never convoys and
never supports another power. Values of places: `places`.

The version `port` is the Python program that the DipNet work (Paquette et al. 2019) calls DumbBot,
where it differs: other place values (`places.port_values`), no + 1 for the own place, wasted holds
ranked by V of the supported unit's present place instead of V of the place reached, and one draw r
uniform in [0, 1) for both questions of the walk:

    c = |V_cur - V_next| 5 / V_cur (0 if V_cur = 0);  c <= r < 1/2: go to the next item

so the next item has probability max(0, 1/2 - c), for removals too, which in the original always
pass the second draw.

Guard of our own: a unit that waited eight times for another own unit gives up that place, since
an army and a fleet can want each other's province for ever.
"""

from typing import Sequence

import numpy as np
from numba import njit

from dipllm_lib.dip import atlas, boards, places, vocabulary
from dipllm_lib.dip.orders import Joint, Turn

VERSIONS = ("original", "port")
ALTERNATIVE = 50  # per cent: chance to look at the next item
MODIFIER = 500  # per cent of the relative difference that keeps the current item
WAITS = 8
FINE = 2**53  # steps of the port's uniform number
SPLIT = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


@njit(cache=True)
def _draw(stream, below):
    """Next integer in 0..below-1 of a SplitMix64 stream, uint64 (1,) changed in place."""
    stream[0] += SPLIT[0]
    z = stream[0]
    z = (z ^ (z >> np.uint64(30))) * SPLIT[1]
    z = (z ^ (z >> np.uint64(27))) * SPLIT[2]
    return np.int64((z ^ (z >> np.uint64(31))) % np.uint64(below))


@njit(cache=True)
def _chance(current, following):
    """Per cent, truncated toward zero as in the original's integers."""
    if current == 0:
        return 0
    top = (current - following) * MODIFIER
    quotient = abs(top) // abs(current)
    return quotient if (top >= 0) == (current > 0) else -quotient


@njit(cache=True)
def _goes_on(current, following, stream, port):
    """Whether a walk goes on to the next item."""
    if port:
        gap = 0.0 if current == 0 else abs(current - following) * (MODIFIER / 100) / current
        return gap <= _draw(stream, FINE) / FINE < ALTERNATIVE / 100
    skip, hold = _draw(stream, 100), _draw(stream, 100)
    return skip < ALTERNATIVE and hold >= _chance(current, following)


@njit(cache=True)
def walk(value, size, stream, port=False):
    """Index of the item taken from the first `size` of `value`, sorted best first."""
    at = 0
    while at + 1 < size and _goes_on(value[at], value[at + 1], stream, port):
        at += 1
    return at


@njit(cache=True)
def _sort(item, value, size):
    """Insertion sort by value, best first, equal values by item; then keep the first of equals."""
    for i in range(1, size):
        c, v = item[i], value[i]
        j = i - 1
        while j >= 0 and (value[j] < v or (value[j] == v and item[j] > c)):
            item[j + 1], value[j + 1] = item[j], value[j]
            j -= 1
        item[j + 1], value[j + 1] = c, v
    kept = 0
    for i in range(size):
        if kept == 0 or value[i] != value[kept - 1]:
            item[kept], value[kept] = item[i], value[i]
            kept += 1
    return kept


@njit(cache=True)
def _drop(item, value, size, at):
    for i in range(at, size - 1):
        item[i], value[i] = item[i + 1], value[i + 1]
    return size - 1


@njit(cache=True)
def _wishes(t, worth, own, item, value, port):
    """Sorted list of one unit: adjacent places and its own with V + 1 (port: V); returns its
    length."""
    size = 1
    item[0], value[0] = own, worth[own] + (0 if port else 1)
    for c in t.near[own]:
        if c < 0:
            break
        item[size], value[size] = c, worth[c]
        size += 1
    return _sort(item, value, size)


@njit(cache=True)
def _mover_to(t, target, province):
    """Slot whose unit moves into the province, or -1. target (D,): place moved to, or -1."""
    for slot in range(target.shape[0]):
        if target[slot] >= 0 and t.prov[target[slot]] == province:
            return slot
    return -1


@njit(cache=True)
def _decide(t, worth, competition, own, at, decided, target, helped, waits, u, stream, port):
    """Decide slot u; returns the slot to wait for, or -1. Writes target[u] or helped[u]."""
    item, value = np.empty(12, np.int64), np.empty(12, worth.dtype)
    size = _wishes(t, worth, own[u], item, value, port)
    while size > 0:
        k = walk(value, size, stream, port)
        c = item[k]
        p = t.prov[c]
        if c == own[u]:
            return -1
        there = at[p]
        if there >= 0 and not decided[there]:
            if waits[u] < WAITS:
                waits[u] += 1
                return there
        elif there >= 0 and target[there] < 0:
            if competition[p] > 1:
                helped[u] = there
                return -1
        else:
            mover = _mover_to(t, target, p)
            if mover < 0:
                target[u] = c
                return -1
            if competition[p] > 0:
                helped[u] = mover
                return -1
        size = _drop(item, value, size, k)
    return -1


@njit(cache=True)
def _spare(t, worth, competition, own, at, target, helped, port=False):
    """Wasted holds: a unit that holds supports an own neighbour that needs it, where the place
    reached (port: the one that the neighbour stands on) is worth most."""
    for u in range(own.shape[0]):
        if target[u] >= 0 or helped[u] >= 0:
            continue
        best, top = -1, worth.dtype.type(0)
        for c in t.near[own[u]]:
            if c < 0:
                break
            p = t.prov[c]
            wanted = _mover_to(t, target, p)
            if wanted >= 0 and competition[p] == 0:
                wanted = -1
            if wanted < 0 and at[p] >= 0 and target[at[p]] < 0 and competition[p] > 1:
                wanted = at[p]
            merit = worth[own[wanted] if port and wanted >= 0 else c]
            if wanted >= 0 and merit > top:
                best, top = wanted, merit
        helped[u] = best


@njit(cache=True)
def _movement(t, worth, competition, own, stream, port=False):
    """(target, helped), each (D,): the place that a unit moves to and the slot it supports."""
    d = own.shape[0]
    target, helped = np.full(d, -1, np.int64), np.full(d, -1, np.int64)
    decided, waits = np.zeros(d, np.bool_), np.zeros(d, np.int64)
    at = np.full(75, -1, np.int64)
    queue = np.arange(d)
    for slot in range(d):
        at[t.prov[own[slot]]] = slot
    for i in range(d - 1, 0, -1):
        j = _draw(stream, i + 1)
        queue[i], queue[j] = queue[j], queue[i]
    first = 0
    while first < d:
        u = queue[first]
        after = _decide(
            t, worth, competition, own, at, decided, target, helped, waits, u, stream, port
        )
        if after < 0:
            decided[u] = True
            first += 1
            continue
        i = first
        while queue[i + 1] != after:
            queue[i] = queue[i + 1]
            i += 1
        queue[i], queue[i + 1] = after, u
    _spare(t, worth, competition, own, at, target, helped, port)
    return target, helped


class DumbBot:
    """DumbBot in one of VERSIONS (see the module); ValueError for another. Not explicit: it has no
    exact probabilities."""

    def __init__(self, version: str = "original"):
        if version not in VERSIONS:
            raise ValueError(f"unknown DumbBot {version!r}: there are {', '.join(VERSIONS)}")
        self.version, self.port = version, version == "port"
        self.name = "DumbBot port" if self.port else "DumbBot"

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn; each turn draws from its own generator."""
        return [self._turn(turn, rng) for turn, rng in zip(turns, rngs)]

    def _turn(self, turn: Turn, rng: np.random.Generator) -> Joint:
        stream = np.array([rng.integers(0, 2**64, dtype=np.uint64)])
        values = places.port_values if self.port else places.values
        found = values(turn.boards, 0, turn.power)
        phase = int(turn.boards.phase[0])
        if phase in boards.MOVES:
            return movement(turn, found, stream, self.port)
        if phase in boards.RETREATS:
            return retreats(turn, found.value, stream, self.port)
        return adjustments(turn, found.value, stream, self.port)


def slot_places(turn: Turn) -> np.ndarray:
    """int64 (D,): the place of the unit of each slot of a movement or retreat turn."""
    return STANDS[[int(options[0]) for options in turn.lists]]


def order_places(ids: np.ndarray, column: int) -> np.ndarray:
    """int64: the places that orders name in `column` (LOC or DEST) with their own unit type."""
    rows = vocabulary.VOCABULARY[ids].astype(np.int64)
    return rows[:, column] + places.FLEET_PLACES * (rows[:, vocabulary.TYPE] == vocabulary.F)


STANDS = order_places(np.arange(vocabulary.SIZE), vocabulary.LOC)
STANDS.flags.writeable = False


@njit(cache=True)
def _find(keys, unit, place, kind, other_unit, other_place, dest):
    """Order id of a row of the vocabulary without "via", -1 if there is none."""
    key = ((unit * 82 + place + 1) * 11 + kind) * 3 + other_unit
    key = ((key * 82 + other_place + 1) * 82 + dest + 1) * 2
    at = np.searchsorted(keys, key)
    return at if at < len(keys) and keys[at] == key else -1


@njit(cache=True)
def _location(place):
    """(unit type, location) of a place."""
    if place >= places.FLEET_PLACES:
        return atlas.FLEET_UNIT, place - places.FLEET_PLACES
    return atlas.ARMY_UNIT, place


@njit(cache=True)
def order_ids(keys, own, target, helped):
    """Order ids (D,) of the units on the places `own`, all (D,): each moves to the place `target`
    or (-1) holds, unless it supports the slot `helped`. keys: `vocabulary.KEYS`."""
    ids = np.empty(len(own), np.int64)
    for u in range(len(own)):
        unit, place = _location(own[u])
        j = helped[u]
        mover = u if j < 0 else j
        dest = _location(target[mover])[1] if target[mover] >= 0 else -1
        if j < 0:
            kind = boards.MOVE if dest >= 0 else boards.HOLD
            ids[u] = _find(keys, unit, place, kind, 0, -1, dest)
        else:
            kind = boards.SUPPORT_MOVE if dest >= 0 else boards.SUPPORT_HOLD
            ids[u] = _find(keys, unit, place, kind, *_location(own[j]), dest)
    return ids


def movement(turn: Turn, found: places.Values, stream: np.ndarray, port: bool = False) -> Joint:
    """Rules 7 and 8."""
    own = slot_places(turn)
    worth, competition = found.value, found.competition
    target, helped = _movement(places.TABLES, worth, competition, own, stream, port)
    return tuple(order_ids(vocabulary.KEYS, own, target, helped).tolist())


def _ranked(ids: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ids, values) best first; of equal values only the first is kept."""
    order = np.argsort(-value, kind="stable")
    ids, value = ids[order], value[order]
    first = np.ones(len(value), bool)
    first[1:] = value[1:] != value[:-1]
    return ids[first], value[first]


def retreats(turn: Turn, worth: np.ndarray, stream: np.ndarray, port: bool = False) -> Joint:
    """Rule 9: walk over the allowed places, never two units to one province, else disband."""
    order = list(range(turn.slots))
    for i in range(turn.slots - 1, 0, -1):
        j = _draw(stream, i + 1)
        order[i], order[j] = order[j], order[i]
    joint, taken = [0] * turn.slots, []
    for slot in order:
        ids = turn.lists[slot]
        kinds = vocabulary.VOCABULARY[ids, vocabulary.KIND]
        disband = int(ids[kinds == boards.DISBAND][0])
        goals = order_places(ids[kinds == boards.RETREAT], vocabulary.DEST)
        ids = ids[kinds == boards.RETREAT][np.argsort(goals, kind="stable")]
        goals = np.sort(goals)
        free = ~np.isin(places.TABLES.prov[goals], taken)
        ids, value = _ranked(ids[free], worth[goals[free]])
        joint[slot] = int(ids[walk(value, len(value), stream, port)]) if len(ids) else disband
        if len(ids):
            dest = vocabulary.VOCABULARY[joint[slot], vocabulary.DEST]
            taken.append(places.TABLES.prov[dest])
    return tuple(joint)


def adjustments(turn: Turn, worth: np.ndarray, stream: np.ndarray, port: bool = False) -> Joint:
    """Rule 9: builds walk over all places of open home centres, removals from the lowest value."""
    pool = turn.lists[0]
    goals = order_places(pool, vocabulary.LOC)
    order = np.argsort(goals, kind="stable")
    pool, goals = pool[order], goals[order]
    chosen = []
    for _ in range(turn.slots):
        if turn.adjusts < 0:
            rank = np.argsort(worth[goals], kind="stable")
            ids, value = pool[rank], worth[goals][rank]
        else:
            ids, value = _ranked(pool, worth[goals])
        pick = int(ids[walk(value, len(value), stream, port)])
        chosen.append(pick)
        left = places.TABLES.prov[goals] != vocabulary.EXPANSION[pick, 0]
        pool, goals = pool[left], goals[left]
    return canonical(chosen, turn.slots)


def canonical(ids: Sequence[int], slots: int) -> Joint:
    """Builds or removals as one joint order: canonical order, waives at the end."""
    ordered = sorted(ids, key=lambda order: vocabulary.CANONICAL[order])
    return tuple(ordered) + (vocabulary.WAIVE_ID,) * (slots - len(ordered))
