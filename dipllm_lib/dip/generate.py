"""Random positions and orders, on which the adjudicator is checked and timed.

Positions come from random play or are thrown together (`scattered`, `fleets_and_armies`); orders
are uniform over each unit's legal ones, or coherent: half of the units move, the others support or
convoy what they do where they can. `attacked_convoys` gives both, made for convoy paradoxes.
Everything is drawn from the generator that is passed in.
"""

import numpy as np

from dipllm_lib.dip import atlas, boards, legal, legalise, rules
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards, Orders


def _arrays(lists: legal.Legal, chosen: np.ndarray, n: int) -> Orders:
    """Order arrays of one chosen id per entry; -1 gives no order."""
    given = chosen >= 0
    entries = v.EXPANSION[chosen[given]]
    result = boards.no_orders(n)
    for field, column in zip(result, entries.T[1:]):
        field[lists.board[given], entries[:, 0]] = column
    return result


def _pick(lists: legal.Legal, allowed: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each entry one id, uniform among its `allowed` ones (a mask over lists.ids), -1 if there
    is none.
    """
    before = np.concatenate([[0], np.cumsum(allowed)])
    first, count = before[lists.offset[:-1]], np.diff(before[lists.offset])
    at = first + (rng.random(len(count)) * count).astype(np.int64)
    kept = lists.ids[allowed]
    return np.where(count > 0, kept[np.minimum(at, max(len(kept) - 1, 0))] if len(kept) else -1, -1)


def _due(positions: Boards, lists: legal.Legal, rng: np.random.Generator) -> np.ndarray:
    """Which entries are ordered, bool: all, but in adjustment phases a random choice of as many as
    are due for each power.
    """
    due = np.abs(boards.centres(positions) - boards.units(positions))[lists.board, lists.power]
    owner = lists.board.astype(np.int64) * atlas.N_POWERS + lists.power
    order = np.lexsort((rng.random(len(owner)), owner))
    rank = np.empty(len(owner), np.int64)
    rank[order] = np.arange(len(owner)) - np.searchsorted(owner[order], owner[order])
    return (positions.phase[lists.board] != boards.ADJUSTMENTS) | (rank < due)


def uniform(positions: Boards, rng: np.random.Generator) -> Orders:
    """One row per position: every unit gets a uniform legal order; of the possible builds or
    removals as many as are due are chosen at random.
    """
    lists = legal.legal_orders(positions)
    chosen = _pick(lists, np.ones(len(lists.ids), bool), rng)
    return _arrays(lists, np.where(_due(positions, lists, rng), chosen, -1), positions.n)


def _matching(lists: legal.Legal, orders: Orders) -> np.ndarray:
    """Which of the listed supports and convoys match an order of `orders`, bool over lists.ids."""
    row = np.repeat(lists.board, np.diff(lists.offset))
    kind, other, dest = (
        v.VOCABULARY[lists.ids, c].astype(np.int64) for c in (v.KIND, v.OTHER_LOC, v.DEST)
    )
    p = atlas.PROV_OF[other].astype(np.int64)
    moves = orders.kind[row, p] == boards.MOVE
    same = moves & (atlas.PROV_OF[orders.a[row, p]] == atlas.PROV_OF[dest])
    held = (kind == boards.SUPPORT_HOLD) & ~moves
    return held | (np.isin(kind, (boards.SUPPORT_MOVE, boards.CONVOY)) & same)


def coherent(positions: Boards, rng: np.random.Generator, helpers: float = 0.5) -> Orders:
    """As `uniform`, but in movement phases the share `helpers` of the units supports or convoys an
    order of the others, where one of its legal orders does; the others move.
    """
    lists = legal.legal_orders(positions)
    kinds = v.VOCABULARY[lists.ids, v.KIND]
    moves = _pick(lists, (kinds == boards.MOVE) | (kinds > boards.CONVOY), rng)
    helps = rng.random(len(moves)) < helpers
    movers = _arrays(lists, np.where(helps, -1, moves), positions.n)
    matched = _pick(lists, _matching(lists, movers), rng)
    anything = _pick(lists, np.ones(len(lists.ids), bool), rng)
    chosen = np.where(
        helps & (matched >= 0), matched, np.where(helps | (moves < 0), anything, moves)
    )
    return _arrays(lists, np.where(_due(positions, lists, rng), chosen, -1), positions.n)


def played(
    n: int, rng: np.random.Generator, orders=uniform, last_year: int = 1915
) -> list[tuple[Boards, Orders]]:
    """At least n pairs of position and orders of all kinds of phases, from random play of 16 games
    at a time to `last_year`.
    """
    pairs, count, now = [], 0, boards.start(16)
    while count < n:
        given = orders(now, rng)
        pairs.append((now, given))
        count += now.n
        now, _ = rules.resolve(now, given)
        if now.year.min() > last_year:
            now = boards.start(16)
    return pairs


def _put(b: Boards, i: int, p: int, unit: int, power: int, rng: np.random.Generator) -> None:
    places = [
        c
        for c in (p, *atlas.COASTS[p])
        if c >= 0 and (atlas.HAS_FLEET if unit == 2 else atlas.HAS_ARMY)[c]
    ]
    b.unit[i, p], b.power[i, p], b.loc[i, p] = unit, power, places[int(rng.integers(len(places)))]


def scattered(n: int, units: int, powers: int, rng: np.random.Generator) -> Boards:
    """n positions of a movement phase with `units` units of the first `powers` powers anywhere on
    the map.
    """
    b = boards.empty(n)
    b.year[:], b.phase[:] = (
        boards.FIRST_YEAR,
        rng.choice([boards.SPRING_MOVES, boards.FALL_MOVES], n),
    )
    for i in range(n):
        b.owner[i, atlas.CENTRE] = rng.integers(0, powers, atlas.CENTRE.sum())
        for p in rng.choice(atlas.N_PROVINCES, units, replace=False):
            kind = atlas.KIND[p]
            unit = {atlas.SEA: 2, atlas.INLAND: 1}.get(int(kind), int(rng.integers(1, 3)))
            _put(b, i, int(p), unit, int(rng.integers(powers)), rng)
    return b


def fleets_and_armies(n: int, powers: int, rng: np.random.Generator) -> Boards:
    """n positions with fleets in most seas and armies on many coasts: convoys, and paradoxes among
    them.
    """
    b = scattered(n, 12, powers, rng)
    for i in range(n):
        for p in np.concatenate([
            rng.permutation(atlas.SEAS)[:12],
            rng.permutation(atlas.SHORES)[:14],
        ]):
            if not b.unit[i, p]:
                unit = 2 if atlas.KIND[p] == atlas.SEA or rng.random() < 0.2 else 1
                _put(b, i, int(p), unit, int(rng.integers(powers)), rng)
    return b


def _stand(b: Boards, i: int, place: int, power: int) -> None:
    """Put a unit on a location, a fleet unless only armies stand there."""
    p = atlas.PROV_OF[place]
    b.unit[i, p] = atlas.FLEET_UNIT if atlas.HAS_FLEET[place] else atlas.ARMY_UNIT
    b.loc[i, p], b.power[i, p] = place, power


def _attacked_convoy(
    b: Boards, orders: Orders, i: int, powers: int, rng: np.random.Generator
) -> bool:
    """Into board i: an army is convoyed over one sea to a fleet that supports an attack on the
    convoying fleet, or (one time in three) another fleet supports it. False if there is no room.
    """
    sea = int(rng.choice(atlas.SEAS))
    ends = [p for p in np.flatnonzero(atlas.TOUCH[sea]) if atlas.KIND[p] == atlas.COAST]
    near = np.flatnonzero(atlas.FLEET[:, sea])
    start, end = (int(p) for p in rng.choice(ends, 2, replace=False))
    beside = [int(place) for place in near if atlas.PROV_OF[place] == end]
    helper = int(rng.choice(near)) if rng.random() < 1 / 3 or not beside else beside[0]
    attacker = int(rng.choice(near))
    places = [start, sea, *(int(atlas.PROV_OF[x]) for x in (attacker, helper))]
    if len(set(places)) < 4 or b.unit[i, places].any():
        return False
    for place, power in zip((start, sea, attacker, helper), rng.integers(0, powers, 4)):
        _stand(b, i, place, int(power))
    b.unit[i, start], b.loc[i, start] = atlas.ARMY_UNIT, start
    given = ((boards.MOVE, end, -1), (boards.CONVOY, start, end), (boards.MOVE, sea, -1))
    for p, order in zip(places, (*given, (boards.SUPPORT_MOVE, places[2], sea))):
        orders.kind[i, p], orders.a[i, p], orders.b[i, p] = order
        orders.via[i, p] = order == given[0]
    return True


def attacked_convoys(n: int, powers: int, rng: np.random.Generator) -> tuple[Boards, Orders]:
    """n movement phases with one to three convoys whose fleet is attacked, often with the support
    of the unit that the convoyed army attacks, among some other units with coherent orders.
    """
    b = scattered(n, 6, powers, rng)
    orders = coherent(b, rng).copy()
    for i in range(n):
        wanted = int(rng.integers(1, 4))
        while wanted:
            wanted -= _attacked_convoy(b, orders, i, powers, rng)
    return b, legalise.legalise(b, orders)[0]
