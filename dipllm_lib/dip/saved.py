"""Games in the package's saved-game format, one JSON object a game.

Written: id, map, rules, phases (name, state, orders, results, messages) and the extra keys agents,
seed, end, which the package ignores; no timestamp, no hash, no random id, lists sorted: the same
game gives the same bytes. Read: the same, the package's full form, and phases that hold `units`,
`dislodged` and `centers` in place of `state`, whose retreats come from adjudicating the phase
before.
"""

from collections.abc import Mapping

import numpy as np

from dipllm_lib.dip import atlas, boards, legalise, rules, states
from dipllm_lib.dip.boards import Boards

RULES = ["NO_PRESS"]


def to_saved(game) -> dict:
    """The saved form of a `game.Game`."""
    phases = []
    for k in range(game.boards.n):
        state = states.to_state(game.boards, k)
        orders = (
            {name: list(game.orders[k].get(name, [])) for name in atlas.POWERS}
            if game.orders[k]
            else {}
        )
        results = {unit: list(words) for unit, words in sorted(game.results[k].items())}
        phases.append({
            "messages": [],
            "name": state["name"],
            "orders": orders,
            "results": results,
            "state": state,
        })
    return {
        "agents": list(game.agents), "end": game.end, "id": game.id, "map": "standard",
        "phases": phases, "rules": list(RULES), "seed": game.seed,
    }  # fmt: skip


def from_saved(data: dict) -> dict:
    """The fields of a `game.Game`. ValueError in one line that names the game and the phase: keys
    that are missing or hold something else, a position that cannot be, phases that do not follow
    one another, an order that names a unit that is not there, belongs to another power or has two
    orders, orders after the end.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"impossible saved game: it must be a dict, not {type(data).__name__}")
    name = data.get("id", "")
    where = f"impossible saved game{f' {name}' if name else ''}"
    try:
        fields = _head(data)
        positions, texts, results = _phases(data)
        return fields | {
            "boards": Boards.concat(positions), "orders": texts, "results": results,
            "end": _end(data, positions[-1]),
        }  # fmt: skip
    except ValueError as fault:
        raise ValueError(f"{where}: {fault}") from None


def _head(data: Mapping) -> dict:
    """id, agents and seed. ValueError for what they cannot be, and for another map."""
    if data.get("map", "standard") != "standard":
        raise ValueError(f"map {data['map']!r}, only the standard map is known")
    name, agents, seed = data.get("id", ""), data.get("agents", []), data.get("seed")
    if not isinstance(name, (str, int)):
        raise ValueError(f"'id' must be a text or a number, not {name!r}")
    texts = isinstance(agents, (list, tuple)) and all(isinstance(x, str) for x in agents)
    if not texts or len(agents) not in (0, atlas.N_POWERS):
        raise ValueError(f"'agents' must hold the names of seven players or none, not {agents!r}")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool)):
        raise ValueError(f"'seed' must be a whole number or null, not {seed!r}")
    return {"id": str(name), "agents": tuple(agents), "seed": seed}


def _end(data: Mapping, last: Boards) -> str:
    """The rule that ended the game. ValueError if it is none, or does not fit the last phase."""
    over = last.phase[0] == boards.OVER
    end = data.get("end", "unknown" if over else "")
    if not isinstance(end, str):
        raise ValueError(f"'end' must be a text, not {end!r}")
    if over != bool(end):
        raise ValueError(f"'end' is {end!r}, but the last phase is {boards.phase_name(last)}")
    return end


def _phases(data: Mapping) -> tuple[list[Boards], list[dict], list[dict]]:
    """Positions, orders and results of all phases. ValueError that names the phase."""
    if not isinstance(data.get("phases"), (list, tuple)) or not data["phases"]:
        raise ValueError("it has no phases: 'phases' must be a list of at least one")
    positions, texts, results = [], [], []
    for k, phase in enumerate(data["phases"]):
        if not isinstance(phase, Mapping) or not isinstance(phase.get("name"), str):
            raise ValueError(f"phase {k + 1} must be a dict with a 'name'")
        before = (positions[-1], texts[-1]) if positions else None
        try:
            positions.append(_position(phase, before))
            texts.append(_texts(phase, positions[-1]))
            words = states.text_lists(_without_none(phase, "results"), "results")
        except ValueError as fault:
            told = str(fault)
            raise ValueError(
                told if phase["name"] in told else f"{phase['name']}: {told}"
            ) from None
        results.append({unit: list(words[unit]) for unit in sorted(words)})
    if positions[0].phase[0] == boards.OVER:
        raise ValueError("it has no phase before COMPLETED")
    return positions, texts, results


def _without_none(phase: Mapping, key: str) -> dict:
    """`phase[key]` alone, entries that are null left out: the package writes them for powers that
    gave no orders.
    """
    found = phase.get(key)
    if isinstance(found, Mapping):
        found = {name: listed for name, listed in found.items() if listed is not None}
    return {} if found is None else {key: found}


def _position(phase: Mapping, before: tuple[Boards, dict] | None) -> Boards:
    b = states.from_state(phase["state"]) if "state" in phase else _plain(phase, before)
    if phase["name"] != boards.phase_name(b):
        raise ValueError(f"{phase['name']}: its state is of {boards.phase_name(b)}")
    for p in np.flatnonzero((b.d_unit[0] > 0) & (b.unit[0] == 0)):
        raise ValueError(f"{phase['name']}: no attacker of the dislodged unit in {atlas.CODES[p]}")
    if before is None:
        return b
    last = before[0]
    if b.phase[0] == boards.OVER and last.phase[0] != boards.OVER:
        b.year[0] = last.year[0]
    elif not _follows(int(last.phase[0]), int(b.phase[0]), int(b.year[0]) - int(last.year[0])):
        raise ValueError(f"{phase['name']} after {boards.phase_name(last)}")
    return b


def _follows(last: int, phase: int, years: int) -> bool:
    """Whether a phase can come after another, `years` later; a phase is left out only if nobody has
    anything to decide in it.
    """
    if phase == boards.SPRING_MOVES:
        return years == 1 and last in (boards.FALL_MOVES, boards.FALL_RETREATS, boards.ADJUSTMENTS)
    if years != 0 or phase == boards.OVER:
        return False
    skips = (boards.SPRING_MOVES, boards.FALL_MOVES)  # no retreats
    return phase == last + 1 or (phase == last + 2 and last in skips)


def _plain(phase: dict, before: tuple[Boards, dict] | None) -> Boards:
    """A position from units, dislodged and centers. ValueError if its dislodged units do not follow
    from the phase before.
    """
    state = {key: phase[key] for key in ("name", "units", "centers") if key in phase}
    b, dislodged = states.from_state(state), states.text_lists(phase, "dislodged")
    units = sorted((name, unit) for name, listed in dislodged.items() for unit in listed)
    if not units:
        return b
    if before is None:
        raise ValueError(f"{phase['name']} has dislodged units and no phase before it")
    last, texts = before
    given = legalise.read_orders(last, 0, texts, strict=False)
    after, _ = rules.resolve(last, given)
    found = states.to_state(after)["retreats"]
    if sorted((name, unit) for name, listed in found.items() for unit in listed) != units:
        raise ValueError(f"{phase['name']} does not follow from the orders before")
    return b._replace(**{
        name: getattr(after, name) for name in ("d_unit", "d_power", "d_loc", "d_from", "contested")
    })


def _texts(phase: dict, position: Boards) -> dict[str, list[str]]:
    """Orders by power name, sorted; checked to be readable and for the right units. An order for a
    dislodged unit without a retreat, which some engines keep until the next phase, is left out.
    """
    gone = _gone(phase, position)
    texts = {}
    given = states.text_lists(_without_none(phase, "orders"), "orders")
    for name, listed in sorted(given.items()):
        kept = sorted(text for text in listed if not text.startswith(gone))
        if kept:
            texts[name] = kept
    if texts and position.phase[0] == boards.OVER:
        raise ValueError("orders after its end")
    legalise.read_orders(position, 0, texts, strict=False)
    return texts


def _gone(phase: dict, position: Boards) -> tuple[str, ...]:
    """Starts of the orders for dislodged units of a state that are not on the board any more."""
    retreats = phase["state"].get("retreats", {}) if "state" in phase else {}
    listed = [unit for units in retreats.values() for unit in units]
    kept = [texts for units in states.to_state(position)["retreats"].values() for texts in units]
    return tuple(unit + " " for unit in sorted(set(listed) - set(kept)))
