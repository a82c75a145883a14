"""A position as the package's saved `state` dict, and back.

Written are only name, units, retreats, centers and homes, lists sorted, so equal positions give
equal JSON. A unit dislodged from a province is listed under `units` with a leading `*` and under
`retreats` with the locations open to it. The package keeps no attackers and no stand-offs in a
state; reading rebuilds them so that every unit has the same options again.
"""

from collections.abc import Mapping

import numpy as np

from dipllm_lib.dip import atlas, boards, legal
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards

HOMES = {
    name: sorted(atlas.CODES[p] for p in np.flatnonzero(atlas.HOME == power))
    for power, name in enumerate(atlas.POWERS)
}


def _texts(units: np.ndarray, powers: np.ndarray, places: np.ndarray, power: int) -> list[str]:
    members = np.flatnonzero(powers == power)
    return [boards.unit_text(int(units[p]), int(places[p])) for p in members]


def to_state(positions: Boards, i: int = 0) -> dict:
    """The state dict of position i: name, units, retreats, centers, homes; powers and lists
    sorted.
    """
    b = boards.single(positions, i)
    options: dict[str, list[str]] = {}
    if b.phase[0] in boards.RETREATS:
        orders = legal.legal_orders(b)
        for entry, p in enumerate(orders.province):
            dests = v.VOCABULARY[orders.of(entry), v.DEST]
            unit = boards.unit_text(int(b.d_unit[0, p]), int(b.d_loc[0, p]))
            options[unit] = sorted(atlas.CODES[d] for d in dests if d >= 0)
    state = {"name": boards.phase_name(b), "units": {}, "retreats": {}, "centers": {}, "homes": {}}
    for power, name in enumerate(atlas.POWERS):
        dislodged = sorted(_texts(b.d_unit[0], b.d_power[0], b.d_loc[0], power))
        standing = sorted(_texts(b.unit[0], b.power[0], b.loc[0], power))
        state["units"][name] = sorted(standing + ["*" + unit for unit in dislodged])
        state["retreats"][name] = {unit: options[unit] for unit in dislodged}
        state["centers"][name] = [atlas.CODES[p] for p in np.flatnonzero(b.owner[0] == power)]
        state["homes"][name] = list(HOMES[name])
    return state


def from_state(state: dict) -> Boards:
    """The position of a state dict, N = 1. Accepts the package's full form too. ValueError in one
    line that names the phase if it is not possible: not lists of texts by power, an unknown power,
    province or phase, a unit that cannot stand where it is, two units in one province, two owners
    of one centre, other homes than the standard map's, dislodged units outside a retreat phase or
    by their own power, a retreat to a place out of reach.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"impossible state: it must be a dict, not {type(state).__name__}")
    missing = [key for key in ("name", "units", "centers") if key not in state]
    if missing:
        raise ValueError(f"impossible state: it has no {missing[0]!r}")
    b, where = boards.empty(1), f"impossible state {state['name']}"
    try:
        b.year[0], b.phase[0] = boards.parse_phase(state["name"])
        _check_homes(text_lists(state, "homes"))
        for name, codes in text_lists(state, "centers").items():
            for code in codes:
                _own(b, atlas.power(name), code)
        units = text_lists(state, "units")
        for name, texts in units.items():
            for text in texts:
                if not text.startswith("*"):
                    _stand(b, atlas.power(name), text)
        _dislodge(b, units, state.get("retreats", {}))
    except ValueError as fault:
        raise ValueError(f"{where}: {fault}") from None
    return b


def text_lists(data: Mapping, key: str, what: str = "") -> dict[str, list[str]]:
    """`data[key]`, which must hold a list of texts for each of its keys; empty if it is missing.
    ValueError else, in which it is called `what`.
    """
    found, what = data.get(key, {}), what or repr(key)
    if not isinstance(found, Mapping):
        raise ValueError(f"{what} must hold lists of texts by name, not {found!r}")
    for name, listed in found.items():
        if not isinstance(listed, (list, tuple)) or not all(isinstance(x, str) for x in listed):
            raise ValueError(f"{what} of {name} must be a list of texts, not {listed!r}")
    return dict(found)


def _check_homes(homes: dict[str, list[str]]) -> None:
    for name, codes in homes.items():
        atlas.power(name)
        if not set(codes) <= set(HOMES[name]):  # some engines list only those still owned
            raise ValueError(f"homes of {name} are not those of the standard map")


def _own(b: Boards, power: int, code: str) -> None:
    p = atlas.location(code)
    if p >= atlas.N_PROVINCES or not atlas.CENTRE[p]:
        raise ValueError(f"{code} is no supply centre")
    if b.owner[0, p] >= 0:
        raise ValueError(f"{code} has two owners")
    b.owner[0, p] = power


def _stand(b: Boards, power: int, text: str) -> None:
    unit, place = boards.parse_unit(text)
    p = atlas.PROV_OF[place]
    if b.unit[0, p]:
        raise ValueError(f"two units in {atlas.CODES[p]}")
    b.unit[0, p], b.power[0, p], b.loc[0, p] = unit, power, place


def _dislodge(b: Boards, units: dict[str, list[str]], retreats: Mapping) -> None:
    """Enter the dislodged units and rebuild what closes the places that their lists leave out."""
    if not isinstance(retreats, Mapping):
        raise ValueError(f"'retreats' must hold retreats by power, not {retreats!r}")
    lists: dict[int, set[int]] = {}
    starred = {(name, x[1:]) for name, texts in units.items() for x in texts if x.startswith("*")}
    listed = {
        (name, text): dests
        for name in retreats
        for text, dests in text_lists(retreats, name, f"'retreats' of {name}").items()
    }
    for name, text in sorted(starred | set(listed)):
        unit, place = boards.parse_unit(text)
        p, power = int(atlas.PROV_OF[place]), atlas.power(name)
        if b.phase[0] not in boards.RETREATS:
            raise ValueError(f"dislodged unit {text} outside a retreat phase")
        if (name, text) not in listed:
            raise ValueError(f"no retreats are given for dislodged unit {text}")
        if b.d_unit[0, p]:
            raise ValueError(f"two units dislodged from {atlas.CODES[p]}")
        places = _within_reach(unit, place, listed[name, text])
        # the package may list occupied provinces after an attack by convoy; nobody can retreat
        # there
        open_to = {int(atlas.PROV_OF[to]) for to in places if not b.unit[0, atlas.PROV_OF[to]]}
        if open_to:
            if b.power[0, p] == power:
                raise ValueError(f"{text} is dislodged by a unit of its own power")
            b.d_unit[0, p], b.d_power[0, p], b.d_loc[0, p] = unit, power, place
            lists[p] = open_to
    _close(b, lists)


def _within_reach(unit: int, place: int, codes: list[str]) -> set[int]:
    """Locations of a list of retreats. ValueError if the unit cannot reach one of them."""
    places, near = {atlas.location(code) for code in codes}, set(v.neighbours(unit, place))
    if not places <= near:
        text, far = boards.unit_text(unit, place), atlas.CODES[min(places - near)]
        raise ValueError(f"{text} cannot reach {far}")
    return places


def _close(b: Boards, lists: dict[int, set[int]]) -> None:
    """A place in reach that a unit's list leaves out is contested, unless another unit may go
    there: then the attacker left it.
    """
    closed = {}
    for p, open_to in lists.items():
        reach = {
            int(atlas.PROV_OF[to]) for to in v.neighbours(int(b.d_unit[0, p]), int(b.d_loc[0, p]))
        }
        closed[p] = {q for q in reach - open_to if not b.unit[0, q]}
    for p, shut in sorted(closed.items()):
        elsewhere = sorted(
            q for q in shut if any(q in lists[other] for other in lists if other != p)
        )
        if len(elsewhere) == 1:
            b.d_from[0, p] = elsewhere[0]
            shut = shut - {elsewhere[0]}
        b.contested[0, sorted(shut)] = True
