"""Known deviations of the package `diplomacy` from the rules, each recognised by its structure.

    B1  with the word VIA, support by the occupant's own power counts towards its dislodgement
    B2  own-power support counts when it asks whether a convoying fleet is disrupted; an army that
        could also walk then does, so that only a list of retreats differs
    B3  after a dislodgement by convoy the list of retreats holds closed provinces
    B4  a false paradox: a support for the convoying fleet, given from the convoy's destination,
        is already cut
    B5  head-to-head, each side supported by a unit of the other's power: one side wins where both
        must bounce
    C1  inside a paradox, a convoy whose intent is only shown by the fleet still goes by land

A difference that none of them explains is an error, never skipped. No cause counts unless the
second adjudicator (module `plain`) gives our position, so a fault of ours never passes for one of
the package's; and B1 only if `plain` with that fault switched on gives the package's units.
"""

import hashlib
import json
from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards, legalise, plain, states
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.decisions import BY_CONVOY, NO, YES, Decisions

CAUSES = ("B1", "B2", "B3", "B4", "B5", "C1")
PACKAGE_SOLO = 18


class Case(NamedTuple):
    """One phase: position and orders (N = 1), what became of them here, and the package's state and
    result words after it.
    """

    before: Boards
    orders: Orders
    made: Decisions
    after: Boards
    theirs: dict
    words: dict[str, list[str]]


def standing(state: dict) -> dict[str, list[str]]:
    """Units that are not dislodged, by power, sorted."""
    return {
        name: sorted(u for u in units if not u.startswith("*"))
        for name, units in state["units"].items()
    }


def retreat_lists(state: dict) -> dict[str, list[str]]:
    """Dislodged units with their retreats, sorted."""
    return {
        unit: sorted(dests) for units in state["retreats"].values() for unit, dests in units.items()
    }


def explain(case: Case) -> str:
    """The cause of the difference, "" if there is none, "?" if nothing explains it."""
    ours = states.to_state(case.after)
    if standing(ours) != standing(case.theirs):
        tests = (("B1", _b1), ("B2", _b2), ("B5", _b5), ("B4", _b4), ("C1", _c1))
    elif retreat_lists(ours) != retreat_lists(case.theirs):
        tests = (("B3", _b3), ("B2", _b2_lists))
    else:
        return "" if _same_centres(case, ours) and _same_phase(case, ours) else "?"
    if case.before.phase[0] not in boards.MOVES or not _confirmed(case):
        return "?"
    return next((name for name, test in tests if test(case)), "?")


def fingerprint(case: Case) -> str:
    """12 hex digits that name the position and the orders, the same on every machine."""
    content = [states.to_state(case.before), legalise.order_texts(case.before, case.orders)[0]]
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]


def _same_centres(case: Case, ours: dict) -> bool:
    here, there = (
        {name: sorted(codes) for name, codes in state["centers"].items()}
        for state in (ours, case.theirs)
    )
    return here == there


def _same_phase(case: Case, ours: dict) -> bool:
    """Whether the same phase follows; each side ends games by its own rules, the package at 18."""
    if case.after.phase[0] == boards.OVER:
        return True
    won = max(len(codes) for codes in ours["centers"].values()) >= PACKAGE_SOLO
    return ours["name"] == case.theirs["name"] or (won and case.theirs["name"] == "COMPLETED")


def _movers(case: Case) -> list[tuple[int, int]]:
    """(province, destination province) of every move."""
    moves = (case.before.unit[0] > 0) & (case.orders.kind[0] == boards.MOVE)
    return [(int(p), int(atlas.PROV_OF[case.orders.a[0, p]])) for p in np.flatnonzero(moves)]


def _supporters(case: Case, kind: int, province: int) -> list[int]:
    """Provinces of the units that support the unit in a province."""
    given = (
        (case.before.unit[0] > 0) & (case.orders.kind[0] == kind) & (case.orders.a[0] == province)
    )
    return np.flatnonzero(given).tolist()


def _backed_by(case: Case, mover: int, power: int) -> bool:
    """Whether a unit of `power` supports a move."""
    return any(
        case.before.power[0, s] == power for s in _supporters(case, boards.SUPPORT_MOVE, mover)
    )


def _b1(case: Case) -> bool:
    """The second adjudicator with this fault gives the package's units; VIA between provinces that
    do not touch may have been left out when the orders went to the package (module `replay`).
    """
    touching = atlas.ARMY[np.arange(atlas.N_PROVINCES), atlas.PROV_OF[case.orders.a[0]]]
    written = (case.orders, case.orders._replace(via=case.orders.via * touching.astype(np.int8)))
    return any(
        standing(states.to_state(plain.resolve(case.before, orders, faults=plain.FAULTS)))
        == standing(case.theirs)
        for orders in written
    )


def _confirmed(case: Case) -> bool:
    """Whether the second adjudicator gives our position, by what a saved game keeps of it."""
    again, ours = (
        states.to_state(b) for b in (plain.resolve(case.before, case.orders), case.after)
    )
    if case.after.phase[0] == boards.OVER:  # ended by a rule of the game, without its retreats
        return standing(again) == standing(ours) and again["centers"] == ours["centers"]
    return all(again[key] == ours[key] for key in ("units", "retreats", "centers"))


def _disrupted(case: Case) -> list[int]:
    """Provinces of the fleets that the package calls disrupted but did not dislodge, although an
    attack on them has support of their own power.
    """
    found = []
    for unit, words in case.words.items():
        if "disrupted" in words and "dislodged" not in words and unit.startswith("F"):
            p = int(atlas.PROV_OF[atlas.location(unit[2:])])
            own = case.before.power[0, p]
            if any(d == p and _backed_by(case, m, own) for m, d in _movers(case)):
                found.append(p)
    return found


def _b2(case: Case) -> bool:
    """The package lets a fleet be disrupted that stays."""
    return bool(_disrupted(case))


def _b2_lists(case: Case) -> bool:
    """Only lists of units differ that were dislodged by an army of a convoy that the package calls
    disrupted; there the army came by land, so the place that it left is missing.
    """
    here, there = retreat_lists(states.to_state(case.after)), retreat_lists(case.theirs)
    entered = {d: p for p, d in _movers(case) if case.made.moved[0, p] == YES}
    carried = {int(case.orders.a[0, fleet]) for fleet in _disrupted(case)}
    for unit in sorted(set(here) | set(there)):
        if here.get(unit) == there.get(unit):
            continue
        attacker = entered.get(int(atlas.PROV_OF[atlas.location(unit[2:])]))
        if attacker not in carried or case.made.route[0, attacker] != BY_CONVOY:
            return False
        missing = set(here.get(unit, [])) - set(there.get(unit, []))
        if {place[:3] for place in missing} != {atlas.CODES[attacker]}:
            return False
    return True


def _b3(case: Case) -> bool:
    """Only lists of units dislodged by convoy differ, and the package's contain ours."""
    here, there = retreat_lists(states.to_state(case.after)), retreat_lists(case.theirs)
    if set(here) - set(there):
        return False
    entered = {d: p for p, d in _movers(case) if case.made.moved[0, p] == YES}
    for unit in there:
        if here.get(unit) == there[unit]:
            continue
        attacker = entered.get(int(atlas.PROV_OF[atlas.location(unit[2:])]))
        if attacker is None or case.made.route[0, attacker] != BY_CONVOY:
            return False
        if not set(here.get(unit, [])) <= set(there[unit]):
            return False
    return True


def _b4(case: Case) -> bool:
    """A convoying fleet whose hold support comes from the convoy's destination and is cut."""
    convoys = (case.before.unit[0] == 2) & (case.orders.kind[0] == boards.CONVOY)
    for fleet in np.flatnonzero(convoys).tolist():
        supporters = _supporters(case, boards.SUPPORT_HOLD, fleet)
        if any(
            s == case.orders.b[0, fleet] and case.made.support_ok[0, s] == NO for s in supporters
        ):
            return True
    return False


def _b5(case: Case) -> bool:
    """Two units swap by land; one, supported by the other's power, is dislodged only there."""
    moves, power = dict(_movers(case)), case.before.power[0]
    for p, d in moves.items():
        if moves.get(d) == p and case.made.moved[0, p] == NO and _backed_by(case, d, power[p]):
            unit = f"{atlas.UNIT_LETTERS[case.before.unit[0, p]]} {atlas.CODES[d]}"
            arrived = any(u[:5] == unit for u in standing(case.theirs)[atlas.POWERS[power[p]]])
            if arrived:
                return True
    return False


def _c1(case: Case) -> bool:
    """The paradox rule failed a convoy between neighbours that only an own fleet's order made
    one.
    """
    if not case.made.counts[0, 1]:
        return False
    b, orders = case.before, case.orders
    for p, d in _movers(case):
        if b.unit[0, p] != 1 or orders.via[0, p] or not atlas.ARMY[p, d]:
            continue
        fleets = (b.power[0] == b.power[0, p]) & (orders.kind[0] == boards.CONVOY)
        if (fleets & (orders.a[0] == p) & (orders.b[0] == d)).any():
            return True
    return False
