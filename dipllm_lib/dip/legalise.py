"""Orders that did not come from the lists of legal orders: cleaned or refused, and texts of whole
positions.

An order that could not succeed on its board whatever the others do is no order: the unit holds
(retreats: disbands, builds: nothing). `legalise` replaces it and says so, or raises with
strict=True; nothing is dropped in silence.
"""

from typing import Mapping, Sequence

import numpy as np

from dipllm_lib.dip import atlas, boards, bounds, legal, notation
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards, Orders, no_orders


def _ids(b: Boards, orders: Orders, rows: np.ndarray, provinces: np.ndarray) -> np.ndarray:
    """Vocabulary id of the order of each (row, province) with something to order, -1 where there is
    none.
    """
    kind, x, y, via = (field[rows, provinces].astype(np.int64) for field in orders)
    retreats = np.isin(b.phase[rows], boards.RETREATS)
    unit = np.where(retreats, b.d_unit[rows, provinces], b.unit[rows, provinces])
    place = np.where(retreats, b.d_loc[rows, provinces], b.loc[rows, provinces])
    kind = np.where(
        retreats & (kind == boards.HOLD),
        boards.DISBAND,
        np.where(kind == boards.REMOVE, boards.DISBAND, kind),
    )
    supports, convoys = (
        np.isin(kind, (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE)),
        kind == boards.CONVOY,
    )
    builds = np.isin(kind, (boards.BUILD_ARMY, boards.BUILD_FLEET))
    unit = np.where(builds, np.where(kind == boards.BUILD_ARMY, v.A, v.F), unit)
    place = np.where(builds, x, place)
    other_type = np.where(supports, b.unit[rows, atlas.PROV_OF[x]], np.where(convoys, v.A, 0))
    other_place = np.where(supports, b.loc[rows, atlas.PROV_OF[x]], np.where(convoys, x, -1))
    dest = np.where(np.isin(kind, (boards.MOVE, boards.RETREAT)), x, -1)
    dest = np.where(convoys | (kind == boards.SUPPORT_MOVE), y, dest)
    ids = v.find(unit, place, kind, other_type, other_place, dest, via)
    by_convoy = v.find(unit, place, kind, other_type, other_place, dest, 1)
    ids = np.where((ids < 0) & (kind == boards.MOVE), by_convoy, ids)
    return np.where(builds & (atlas.PROV_OF[place] != provinces), -1, ids)


def _without_row(b: Boards, orders: Orders, lists: legal.Legal) -> np.ndarray:
    """Places (N, 75) that carry an order although nothing can be ordered there."""
    nothing = np.ones(orders.kind.shape, bool)
    nothing[lists.board, lists.province] = False
    return nothing & (orders.kind != boards.HOLD)


def legalise(positions: Boards, orders: Orders, strict: bool = False) -> tuple[Orders, np.ndarray]:
    """The orders with every impossible one replaced, and where that was: bool (N, 75). Row n is for
    position n. With strict=True a ValueError in words about the first one instead; a ValueError
    also for arrays that are no positions or orders at all (`bounds`).
    """
    positions, orders = bounds.positions(positions), bounds.orders(orders)
    if positions.n != orders.n:
        raise ValueError(f"{orders.n} rows of orders for {positions.n} positions: need one each")
    lists = legal.legal_orders(positions)
    ids = _ids(positions, orders, lists.board, lists.province)
    entries = np.arange(len(lists.board))
    listed = np.repeat(entries, np.diff(lists.offset)) * v.SIZE + lists.ids
    wanted = entries * v.SIZE + ids
    at = np.searchsorted(listed, wanted)
    good = (ids >= 0) & (at < len(listed))
    good[good] = listed[at[good]] == wanted[good]
    kind = orders.kind[lists.board, lists.province]
    good |= (positions.phase[lists.board] == boards.ADJUSTMENTS) & np.isin(
        kind, (boards.HOLD, boards.WAIVE)
    )
    bad = _without_row(positions, orders, lists)
    bad[lists.board, lists.province] = ~good
    if strict and bad.any():
        n, p = np.argwhere(bad)[0]
        raise ValueError(
            f"{boards.phase_name(positions, n)}: {_fault(positions, orders, int(n), int(p))}"
        )
    result = orders.copy()
    for field, blank in zip(result, (0, -1, -1, 0)):
        field[bad] = blank
    return result, bad


def _fault(b: Boards, orders: Orders, n: int, p: int) -> str:
    unit = notation.unit_at(b, n, p)
    if not unit and b.phase[n] != boards.ADJUSTMENTS:
        return f"an order for {atlas.CODES[p]}, but no unit to order stands there"
    return (
        f"illegal order {describe(b, orders, n, p)!r}: it could not succeed whatever the others do"
    )


def describe(b: Boards, orders: Orders, n: int, p: int) -> str:
    """Text of the order for province p in row n on position n, legal or not."""
    kind, x, y, via = (int(field[n, p]) for field in orders)
    unit = notation.unit_at(b, n, p) or f"? {atlas.CODES[p]}"
    if kind in (boards.BUILD_ARMY, boards.BUILD_FLEET):
        return f"{'A' if kind == boards.BUILD_ARMY else 'F'} {atlas.CODES[x]} B"
    if kind in (boards.HOLD, boards.DISBAND, boards.REMOVE):
        return f"{unit} {'D' if kind != boards.HOLD or b.phase[n] in boards.RETREATS else 'H'}"
    if kind in (boards.MOVE, boards.RETREAT):
        return (
            f"{unit} {'-' if kind == boards.MOVE else 'R'} {atlas.CODES[x]}{' VIA' if via else ''}"
        )
    other = (
        f"A {atlas.CODES[x]}"
        if kind == boards.CONVOY
        else (_standing(b, n, x) or f"? {atlas.CODES[x]}")
    )
    dest = f" - {atlas.CODES[y]}" if kind != boards.SUPPORT_HOLD else ""
    return f"{unit} {'C' if kind == boards.CONVOY else 'S'} {other}{dest}"


def _standing(b: Boards, n: int, p: int) -> str:
    return boards.unit_text(int(b.unit[n, p]), int(b.loc[n, p])) if b.unit[n, p] else ""


def order_texts(positions: Boards, orders: Orders) -> list[dict[str, list[str]]]:
    """Per position the texts of all orders by power name, sorted; WAIVE and missing builds are not
    written.
    """
    lists = legal.legal_orders(positions)
    result = [{} for _ in range(positions.n)]
    for n, p, power in zip(lists.board.tolist(), lists.province.tolist(), lists.power.tolist()):
        adjusts = positions.phase[n] == boards.ADJUSTMENTS
        if not adjusts or orders.kind[n, p] not in (boards.HOLD, boards.WAIVE):
            result[n].setdefault(atlas.POWERS[power], []).append(describe(positions, orders, n, p))
    return [{name: sorted(texts) for name, texts in row.items()} for row in result]


def normalise_via(positions: Boards, orders: Orders) -> Orders:
    """For imported records: drop "via convoy" where the provinces touch and no fleet orders that
    convoy.
    """
    result = orders.copy()
    for n, p in np.argwhere(
        (orders.via == 1) & (orders.kind == boards.MOVE) & (positions.unit == v.A)
    ):
        dest = orders.a[n, p]
        carried = (
            (orders.kind[n] == boards.CONVOY)
            & (orders.a[n] == p)
            & (orders.b[n] == dest)
            & (positions.unit[n] == v.F)
        )
        if atlas.ARMY[p, dest] and not carried.any():
            result.via[n, p] = 0
    return result


def read_orders(
    positions: Boards, i: int, texts: Mapping[str, Sequence[str]], strict: bool = True
) -> Orders:
    """One row of orders for position i from texts by power name. Units without an order hold
    (disband, build nothing).

    ValueError in one line for an unknown province or power, a text that is no order, a unit where
    none stands, a unit of another power, two orders for one unit, orders after the end of the game;
    with strict=True also for an order that could not succeed or that is not due, such as a second
    build of two where one is. strict=False is for records of other engines, which hold on these.
    """
    result, b, seen = no_orders(1), boards.single(positions, i), {}
    surplus = (boards.centres(b) - boards.units(b))[0]
    for name, listed in _by_power(texts, boards.phase_name(b)):
        due = int(surplus[atlas.power(name)])
        for text in listed:
            where = f"{name} {boards.phase_name(b)}: {text!r}"
            entry = _read(b, atlas.power(name), text, where, seen, strict)
            if entry is None or not _is_due(b, entry, due, where, strict):
                continue
            due -= int(np.sign(due)) * (strict or entry[0] >= 0)
            if entry[0] >= 0:
                for field, value in zip(result, entry[1:]):
                    field[0, entry[0]] = value
    return legalise(b, result if strict else normalise_via(b, result), strict)[0]


def _by_power(texts, phase: str) -> list[tuple[str, list[str]]]:
    """The lists of orders, powers sorted. ValueError if they are not lists of texts by power."""
    if not isinstance(texts, Mapping):
        raise ValueError(f"{phase}: orders must be lists of texts by power, not {texts!r}")
    for name, listed in texts.items():
        atlas.power(name)
        lists = isinstance(listed, Sequence) and not isinstance(listed, (str, bytes))
        if not lists or not all(isinstance(text, str) for text in listed):
            raise ValueError(f"{name} {phase}: orders must be a list of texts, not {listed!r}")
        if phase == boards.PHASE_SUFFIX[boards.OVER] and listed:
            raise ValueError(f"{name} {phase}: {listed[0]!r}: the game is over, nothing is ordered")
    return sorted(texts.items())


def _is_due(b: Boards, entry: list[int], due: int, where: str, strict: bool) -> bool:
    """Whether an order is one that is due: no hold outside movement phases, in adjustment phases
    not more builds or removals than that. ValueError if it is not, unless `strict` is off.
    """
    waives = entry[0] < 0
    if entry[1] == boards.HOLD and b.phase[0] not in boards.MOVES:
        ready, message = False, "illegal order: a unit can hold in a movement phase only"
    elif b.phase[0] == boards.ADJUSTMENTS:
        ready, message = due > 0 if waives else due, "one more build or removal than are due"
    else:
        ready, message = not waives, "nothing can be waived outside an adjustment phase"
    if not ready and strict:
        raise ValueError(f"{where}: {message}")
    return bool(ready)


def _read(b: Boards, power: int, text: str, where: str, seen: dict[int, str], strict: bool):
    """(province, kind, a, b, via) of one text, province -1 for a waive, checked against the
    position and the provinces `seen`; None, without `strict`, for an order that does not exist on
    the map.
    """
    try:
        order = notation.from_text(text, b)
    except notation.ImpossibleOrder as impossible:
        if strict:
            raise ValueError(f"{where.removesuffix(f': {text!r}')}: {impossible}") from None
        if text.upper().endswith(" VIA"):
            return _read(b, power, text[:-4], where, seen, strict)
        unit, place, entry = impossible.unit, impossible.place, None
    except ValueError as unreadable:
        told = where.removesuffix(f": {text!r}") if repr(text) in str(unreadable) else where
        raise ValueError(f"{told}: {unreadable}") from None
    else:
        unit, place = v.VOCABULARY[order, :2].tolist()
        entry = v.EXPANSION[order].tolist()
        if order == v.WAIVE_ID:
            return entry
    p = int(atlas.PROV_OF[place])
    if p in seen:
        raise ValueError(f"{where}: a second order for {atlas.CODES[p]}, after {seen[p]!r}")
    if entry is None or not notation.is_build(order):
        _check_owner(b, unit, place, power, where)
    elif not atlas.HOME[p] == b.owner[0, p] == power:
        if strict:
            raise ValueError(f"{where}: no home centre that {atlas.POWERS[power]} owns")
        return None
    seen[p] = text
    return entry


def _check_owner(b: Boards, unit: int, place: int, power: int, where: str) -> None:
    """ValueError if the unit that is ordered does not stand there or belongs to another power."""
    p = int(atlas.PROV_OF[place])
    retreats = b.phase[0] in boards.RETREATS
    units, places, powers = (b.d_unit, b.d_loc, b.d_power) if retreats else (b.unit, b.loc, b.power)
    if (units[0, p], places[0, p]) != (unit, place):
        kind = "dislodged unit" if retreats else "unit"
        raise ValueError(f"{where}: no {kind} {boards.unit_text(unit, place)} stands there")
    if powers[0, p] != power:
        owner = atlas.POWERS[powers[0, p]]
        raise ValueError(f"{where}: {boards.unit_text(unit, place)} belongs to {owner}")
