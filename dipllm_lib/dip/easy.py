"""Easy: a rule-based player without values, after the rule set of that name in the DipNet code.

Movement. A centre that is not ours is foreign; so is a land province without a centre whose nearest
centres (steps of any kind) are all foreign. A unit on a foreign centre holds. For the others the
first of these that a unit can do, all units being asked about one before anybody about the next:

    0  enter an empty foreign centre               3  enter a foreign centre with a foreign unit
    1  enter empty foreign land                    4  attack any foreign unit
    2  step toward the nearest of these,           5  step toward the nearest foreign centre
       past no foreign unit                        6  hold

A step brings the unit nearer, by the steps of its own kind, to the nearest goal where no own unit
stands or goes. No unit enters a province that an own unit keeps, has chosen, or has not yet been
told to leave; so no two swap places. There are no supports and no convoys. Units are asked in
random order, equal choices are settled at random.

Retreats: to the place with most own units in neighbouring provinces. Builds: of all units then on
the board 40 % (rounded) shall be fleets, the rest armies, on the home centres nearest to a foreign
centre first, fleets before armies. Removals: the unit with the longest way, by its own kind of
steps, to foreign land or a foreign centre first. Positions hold no history, so foreign land is
defined by centres (ours) where the DipNet code asks who was there last.
"""

from typing import Sequence

import numpy as np
from numba import njit

from dipllm_lib.dip import atlas, boards, dumbbot, places, vocabulary
from dipllm_lib.dip.orders import Joint, Turn

FLEETS = 0.4  # share of fleets that builds aim at


def _steps() -> np.ndarray:
    """int64 (156, 75): moves that a unit on a place needs to reach a province, `atlas.FAR` if it
    cannot."""
    step = np.full((places.PLACES, atlas.N_PROVINCES), atlas.FAR, np.int64)
    for place in np.flatnonzero(places.TABLES.exists):
        seen, fringe, count = {place}, [place], 0
        while fringe:
            for c in fringe:
                province = places.TABLES.prov[c]
                step[place, province] = min(step[place, province], count)
            wider = {int(c) for at in fringe for c in places.TABLES.near[at] if c >= 0}
            fringe = sorted(wider - seen)
            seen |= wider
            count += 1
    return step


STEPS = _steps()
STEPS.flags.writeable = False
LAND = atlas.KIND != atlas.SEA


def foreign(owner: np.ndarray, power: int) -> tuple[np.ndarray, np.ndarray]:
    """(centres, land), bool (75,): the foreign centres and the foreign land without a centre.

    owner: int8 (75,). A province as near to one of our centres as to any other is not foreign.
    """
    theirs = atlas.CENTRE & (owner != power)
    ours = atlas.CENTRE & (owner == power)
    near_us = atlas.DIST_ANY[:, ours].min(axis=1, initial=atlas.FAR)
    near_them = atlas.DIST_ANY[:, theirs].min(axis=1, initial=atlas.FAR)
    return theirs, LAND & ~atlas.CENTRE & (near_them < near_us)


@njit(cache=True)
def _taken(t, target, p):
    """Whether some own unit moves into province p."""
    for c in target:
        if c >= 0 and t.prov[c] == p:
            return True
    return False


@njit(cache=True)
def _free(t, at, target, p):
    """Whether a unit may enter province p: no own unit goes there, keeps it or may yet keep it."""
    return not _taken(t, target, p) and (at[p] < 0 or target[at[p]] >= 0)


@njit(cache=True)
def _way(step, goals, c):
    """Steps from place c to the nearest goal."""
    best = np.int64(atlas.FAR)
    for p in range(len(goals)):
        if goals[p]:
            best = min(best, step[c, p])
    return best


@njit(cache=True)
def _choice(t, step, wanted, barred, goals, own, at, target, noise, u):
    """Neighbour of unit u to enter, or -1: among the `wanted` provinces that are not `barred`, the
    one nearest to the goals and nearer than now; any of them if there are no goals."""
    stepping = goals.any()
    best, least, tie = -1, np.int64(0), 2.0
    now = _way(step, goals, own[u])
    for i in range(t.near.shape[1]):
        c = t.near[own[u], i]
        if c < 0:
            break
        p = t.prov[c]
        if not wanted[p] or barred[p] or not _free(t, at, target, p):
            continue
        way = _way(step, goals, c)
        if stepping and way >= now:
            continue
        if best < 0 or way < least or (way == least and noise[u, i] < tie):
            best, least, tie = c, way, noise[u, i]
    return best


@njit(cache=True)
def _moves(t, step, wanted, barred, goals, holds, own, order, noise):
    """Place that each unit moves to (D,), -1: it holds. wanted, barred, goals: bool (6, 75), no
    goals where a rule has no steps; holds: bool (75,), where units stay; order, noise: (D,),
    (D, 11)."""
    d = len(own)
    target, decided = np.full(d, -1, np.int64), np.zeros(d, np.bool_)
    at = np.full(75, -1, np.int64)
    for u in range(d):
        at[t.prov[own[u]]] = u
        decided[u] = holds[t.prov[own[u]]]
    for rule in range(len(goals)):
        for u in order:
            if decided[u]:
                continue
            left = goals[rule].copy()
            for p in range(75):
                left[p] = left[p] and at[p] < 0 and not _taken(t, target, p)
            if goals[rule].any() and not left.any():
                continue
            target[u] = _choice(
                t, step, wanted[rule], barred[rule], left, own, at, target, noise, u
            )
            decided[u] = target[u] >= 0
    return target


def _ways(goals: np.ndarray) -> np.ndarray:
    """int64 (156,): steps from every place to the nearest of the provinces `goals`, bool (75,)."""
    return STEPS[:, goals].min(axis=1, initial=atlas.FAR)


def movement(turn: Turn, rng: np.random.Generator) -> Joint:
    """The orders of a movement turn."""
    theirs, land = foreign(turn.boards.owner[0], turn.power)
    unit = turn.boards.power[0]
    enemy, empty = (unit >= 0) & (unit != turn.power), unit < 0
    everywhere, nowhere = np.ones(75, bool), np.zeros(75, bool)
    open_goals = empty & (theirs | land)
    wanted = np.stack([theirs & empty, land & empty, everywhere, theirs & enemy, enemy, everywhere])
    barred = np.stack([nowhere, nowhere, enemy, nowhere, nowhere, nowhere])
    goals = np.stack([nowhere, nowhere, open_goals, nowhere, nowhere, theirs])
    own = dumbbot.slot_places(turn)
    order = rng.permutation(turn.slots)
    noise = rng.random((turn.slots, places.TABLES.near.shape[1]))
    target = _moves(places.TABLES, STEPS, wanted, barred, goals, theirs, own, order, noise)
    helped = np.full(turn.slots, -1, np.int64)
    return tuple(dumbbot.order_ids(vocabulary.KEYS, own, target, helped).tolist())


def retreats(turn: Turn, rng: np.random.Generator) -> Joint:
    """The orders of a retreat turn: never two units to one province, disband if none is left."""
    ours = turn.boards.power[0] == turn.power
    friends = atlas.ANY.astype(np.int64) @ ours
    joint, taken = [0] * turn.slots, set()
    for slot in rng.permutation(turn.slots).tolist():
        best, most = -1, (-1.0, 0.0)
        for order in turn.lists[slot].tolist():
            row = vocabulary.VOCABULARY[order]
            goal = int(atlas.PROV_OF[row[vocabulary.DEST]])
            if row[vocabulary.KIND] == boards.DISBAND:
                joint[slot] = order
            elif goal not in taken:
                rank = (float(friends[goal]), rng.random())
                best, most = (order, rank) if rank > most else (best, most)
        if best >= 0:
            joint[slot] = best
            taken.add(int(atlas.PROV_OF[vocabulary.VOCABULARY[best, vocabulary.DEST]]))
    return tuple(joint)


def builds(turn: Turn, rng: np.random.Generator) -> Joint:
    """The orders of a turn with builds."""
    theirs, _ = foreign(turn.boards.owner[0], turn.power)
    kinds = turn.boards.unit[0][turn.boards.power[0] == turn.power]
    fleets = int((kinds == atlas.FLEET_UNIT).sum())
    fleets = max(0, round((len(kinds) + turn.slots) * FLEETS) - fleets)
    pool = turn.lists[0]
    place, province = dumbbot.STANDS[pool], vocabulary.EXPANSION[pool, 0]
    noise = rng.random(len(pool))
    near = atlas.DIST_ANY[:, theirs].min(axis=1, initial=atlas.FAR)[province]
    site = {int(p): noise[province == p].min() for p in province}
    chosen = []
    for p in sorted(site, key=lambda p: (near[province == p][0], site[p]))[: turn.slots]:
        sails = place >= places.FLEET_PLACES
        here = (province == p) & (sails == (fleets > 0))
        if not here.any():  # no fleet can be built inland
            here = province == p
        options = sorted(np.flatnonzero(here), key=lambda k: (_ways(theirs)[place[k]], noise[k]))
        chosen.append(int(pool[options[0]]))
        fleets -= int(sails[options[0]])
    return dumbbot.canonical(chosen, turn.slots)


def removals(turn: Turn, rng: np.random.Generator) -> Joint:
    """The orders of a turn with removals."""
    theirs, land = foreign(turn.boards.owner[0], turn.power)
    pool = turn.lists[0]
    way = _ways(theirs | land)[dumbbot.STANDS[pool]]
    rank = np.lexsort((rng.random(len(pool)), -way))
    return dumbbot.canonical(pool[rank[: turn.slots]].tolist(), turn.slots)


class Easy:
    """The player of the module. Not explicit: it has no exact probabilities."""

    name = "Easy"

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn; each turn draws from its own generator."""
        return [self._turn(turn, rng) for turn, rng in zip(turns, rngs)]

    def _turn(self, turn: Turn, rng: np.random.Generator) -> Joint:
        if turn.adjusts:
            return builds(turn, rng) if turn.adjusts > 0 else removals(turn, rng)
        if int(turn.boards.phase[0]) in boards.MOVES:
            return movement(turn, rng)
        return retreats(turn, rng)
