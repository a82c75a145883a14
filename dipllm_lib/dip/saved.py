"""Games in the package's saved-game format, one JSON object a game.

Written: id, map, rules, phases (name, state, orders, results, messages) and the extra keys agents,
seed, end, which the package ignores; no timestamp, no hash, no random id, lists sorted: the same
game gives the same bytes. Read: the same, the package's full form, and phases that hold `units`,
`dislodged` and `centers` in place of `state`, whose retreats come from adjudicating the phase
before.
"""

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
    """The fields of a `game.Game`. ValueError if a phase cannot be, phases are out of order, or an
    order names a unit that is not there, belongs to another power or has two orders.
    """
    if not data.get("phases"):
        raise ValueError("impossible saved game: it has no phases")
    if data.get("map", "standard") != "standard":
        raise ValueError(
            f"impossible saved game: map {data['map']!r}, only the standard map is known"
        )
    positions, texts, results = [], [], []
    for phase in data["phases"]:
        before = (positions[-1], texts[-1]) if positions else None
        positions.append(_position(phase, before))
        texts.append(_texts(phase, positions[-1]))
        results.append({
            unit: [str(word) for word in words]
            for unit, words in sorted(phase.get("results", {}).items())
        })
    over = positions[-1].phase[0] == boards.OVER
    return {
        "id": str(data.get("id", "")), "agents": tuple(data.get("agents", ())),
        "seed": data.get("seed"), "boards": Boards.concat(positions), "orders": texts,
        "results": results, "end": data.get("end", "unknown" if over else ""),
    }  # fmt: skip


def _position(phase: dict, before: tuple[Boards, dict] | None) -> Boards:
    b = states.from_state(phase["state"]) if "state" in phase else _plain(phase, before)
    if before is None:
        return b
    last = before[0]
    if b.phase[0] == boards.OVER:
        b.year[0] = last.year[0]
    if (int(b.year[0]), int(b.phase[0])) <= (int(last.year[0]), int(last.phase[0])):
        raise ValueError(f"impossible saved game: {phase['name']} after {boards.phase_name(last)}")
    return b


def _plain(phase: dict, before: tuple[Boards, dict] | None) -> Boards:
    """A position from units, dislodged and centers. ValueError if its dislodged units do not follow
    from the phase before.
    """
    state = {key: phase[key] for key in ("name", "units", "centers") if key in phase}
    b = states.from_state(state)
    units = sorted(
        (name, unit) for name, listed in phase.get("dislodged", {}).items() for unit in listed
    )
    if not units:
        return b
    if before is None:
        raise ValueError(
            f"impossible saved game: {phase['name']} has dislodged units and no phase before it"
        )
    last, texts = before
    given = legalise.read_orders(last, 0, texts, strict=False)
    after, _ = rules.resolve(last, given)
    found = states.to_state(after)["retreats"]
    if sorted((name, unit) for name, listed in found.items() for unit in listed) != units:
        raise ValueError(
            f"impossible saved game: {phase['name']} does not follow from the orders before"
        )
    return b._replace(**{
        name: getattr(after, name) for name in ("d_unit", "d_power", "d_loc", "d_from", "contested")
    })


def _texts(phase: dict, position: Boards) -> dict[str, list[str]]:
    """Orders by power name, sorted; checked to be readable and for the right units. An order for a
    dislodged unit without a retreat, which some engines keep until the next phase, is left out.
    """
    gone = _gone(phase, position)
    texts = {}
    for name, listed in sorted((phase.get("orders") or {}).items()):
        kept = sorted(text for text in listed or () if not text.startswith(gone))
        if kept:
            texts[name] = kept
    if texts and position.phase[0] == boards.OVER:
        raise ValueError("impossible saved game: orders after its end")
    legalise.read_orders(position, 0, texts, strict=False)
    return texts


def _gone(phase: dict, position: Boards) -> tuple[str, ...]:
    """Starts of the orders for dislodged units of a state that are not on the board any more."""
    listed = [
        unit for units in phase.get("state", {}).get("retreats", {}).values() for unit in units
    ]
    kept = [texts for units in states.to_state(position)["retreats"].values() for texts in units]
    return tuple(unit + " " for unit in sorted(set(listed) - set(kept)))
