"""DumbBot, `original`: the rule-based player of Norman (2002, release 8~2~b), from its rules.

Every decision is a *walk* down a list of places sorted by value, best first:

    chance = (V_cur - V_next) 500 / V_cur   (truncated; 0 if V_cur = 0);  r1, r2 uniform in 0..99
    r1 < 50 and r2 >= chance: go to the next item and repeat, else take the current one

so a neighbour of equal value is taken half of the time and one 20 % worse never. Of items with
equal value only the first by place is kept (removals keep all). Movement: units in random order
walk over their adjacent places and the own place with V + 1; a wish for a province that an own
unit holds or moves to becomes support where the competition asks for it. It never convoys and
never supports another power. Values of places: `places`.

Guard of our own: a unit that waited eight times for another own unit gives up that place, since
an army and a fleet can want each other's province for ever.
"""

from typing import Sequence

import numpy as np
from numba import njit

from dipllm_lib.dip import boards, places, vocabulary
from dipllm_lib.dip.orders import Joint, Turn

ALTERNATIVE = 50  # per cent: chance to look at the next item
MODIFIER = 500  # per cent of the relative difference that keeps the current item
WAITS = 8
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
def walk(value, size, stream):
    """Index of the item taken from the first `size` of `value`, sorted best first."""
    at = 0
    while at + 1 < size:
        skip, hold = _draw(stream, 100), _draw(stream, 100)
        if skip < ALTERNATIVE and hold >= _chance(value[at], value[at + 1]):
            at += 1
        else:
            break
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
def _wishes(t, worth, own, item, value):
    """Sorted list of one unit: adjacent places and its own with V + 1; returns its length."""
    size = 1
    item[0], value[0] = own, worth[own] + 1
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
def _decide(t, worth, competition, own, at, decided, target, helped, waits, u, stream):
    """Decide slot u; returns the slot to wait for, or -1. Writes target[u] or helped[u]."""
    item, value = np.empty(12, np.int64), np.empty(12, np.int64)
    size = _wishes(t, worth, own[u], item, value)
    while size > 0:
        k = walk(value, size, stream)
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
def _spare(t, worth, competition, own, at, target, helped):
    """Wasted holds: a unit that holds supports the most valuable own neighbour that needs it."""
    for u in range(own.shape[0]):
        if target[u] >= 0 or helped[u] >= 0:
            continue
        best, top = -1, 0
        for c in t.near[own[u]]:
            if c < 0:
                break
            p = t.prov[c]
            wanted = _mover_to(t, target, p)
            if wanted >= 0 and competition[p] == 0:
                wanted = -1
            if wanted < 0 and at[p] >= 0 and target[at[p]] < 0 and competition[p] > 1:
                wanted = at[p]
            if wanted >= 0 and worth[c] > top:
                best, top = wanted, worth[c]
        helped[u] = best


@njit(cache=True)
def _movement(t, worth, competition, own, stream):
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
        after = _decide(t, worth, competition, own, at, decided, target, helped, waits, u, stream)
        if after < 0:
            decided[u] = True
            first += 1
            continue
        i = first
        while queue[i + 1] != after:
            queue[i] = queue[i + 1]
            i += 1
        queue[i], queue[i + 1] = after, u
    _spare(t, worth, competition, own, at, target, helped)
    return target, helped


class DumbBot:
    """`original` DumbBot (see the module). Not explicit: it has no exact probabilities."""

    name = "DumbBot"

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn; each turn draws from its own generator."""
        return [self._turn(turn, rng) for turn, rng in zip(turns, rngs)]

    def _turn(self, turn: Turn, rng: np.random.Generator) -> Joint:
        stream = np.array([rng.integers(0, 2**64, dtype=np.uint64)])
        found = places.values(turn.boards, 0, turn.power)
        phase = int(turn.boards.phase[0])
        if phase in boards.MOVES:
            return movement(turn, found, stream)
        if phase in boards.RETREATS:
            return retreats(turn, found.value, stream)
        return adjustments(turn, found.value, stream)


def slot_places(turn: Turn) -> np.ndarray:
    """int64 (D,): the place of the unit of each slot of a movement or retreat turn."""
    first = vocabulary.VOCABULARY[[int(options[0]) for options in turn.lists]].astype(np.int64)
    fleets = first[:, vocabulary.TYPE] == vocabulary.F
    return first[:, vocabulary.LOC] + places.FLEET_PLACES * fleets


def order_places(ids: np.ndarray, column: int) -> np.ndarray:
    """int64: the places that orders name in `column` (LOC or DEST) with their own unit type."""
    rows = vocabulary.VOCABULARY[ids].astype(np.int64)
    return rows[:, column] + places.FLEET_PLACES * (rows[:, vocabulary.TYPE] == vocabulary.F)


def movement(turn: Turn, found: places.Values, stream: np.ndarray) -> Joint:
    """Rules 7 and 8."""
    own = slot_places(turn)
    target, helped = _movement(places.TABLES, found.value, found.competition, own, stream)
    unit = np.where(own >= places.FLEET_PLACES, vocabulary.F, vocabulary.A)
    place = np.where(own >= places.FLEET_PLACES, own - places.FLEET_PLACES, own)
    dest = np.where(target >= places.FLEET_PLACES, target - places.FLEET_PLACES, target)
    other = np.maximum(helped, 0)
    helps = helped >= 0
    kind = np.where(target >= 0, boards.MOVE, boards.HOLD)
    support = np.where(target[other] >= 0, boards.SUPPORT_MOVE, boards.SUPPORT_HOLD)
    ids = vocabulary.find(
        unit,
        place,
        np.where(helps, support, kind),
        np.where(helps, unit[other], 0),
        np.where(helps, place[other], -1),
        np.where(helps, dest[other], dest),
    )
    return tuple(ids.tolist())


def _ranked(ids: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ids, values) best first; of equal values only the first is kept."""
    order = np.argsort(-value, kind="stable")
    ids, value = ids[order], value[order]
    first = np.ones(len(value), bool)
    first[1:] = value[1:] != value[:-1]
    return ids[first], value[first]


def retreats(turn: Turn, worth: np.ndarray, stream: np.ndarray) -> Joint:
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
        joint[slot] = int(ids[walk(value, len(value), stream)]) if len(ids) else disband
        if len(ids):
            dest = vocabulary.VOCABULARY[joint[slot], vocabulary.DEST]
            taken.append(places.TABLES.prov[dest])
    return tuple(joint)


def adjustments(turn: Turn, worth: np.ndarray, stream: np.ndarray) -> Joint:
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
        pick = int(ids[walk(value, len(value), stream)])
        chosen.append(pick)
        left = places.TABLES.prov[goals] != vocabulary.EXPANSION[pick, 0]
        pool, goals = pool[left], goals[left]
    return canonical(chosen, turn.slots)


def canonical(ids: Sequence[int], slots: int) -> Joint:
    """Builds or removals as one joint order: canonical order, waives at the end."""
    ordered = sorted(ids, key=lambda order: vocabulary.CANONICAL[order])
    return tuple(ordered) + (vocabulary.WAIVE_ID,) * (slots - len(ordered))
