"""One prompt per unit in English, and back: codec `paper`.

The structure is the published one (Xu et al. 2025, figures 2 and 3, appendix B.2): a system turn; a
user turn with the power, the phase, the whole board in names, the orders of the phase before and
the task; an assistant turn that is the order without its unit. Section heads, names and order
phrases follow the paper, the sentences around them are our own:

    [Your Power]: Italy
    [Game Time and Phase]: 1903 Fall: Diplomacy
    [Board State]:
    Your Power Unit:
    Italy's army: Tunisia (Italy's supply center), Venice (Italy's supply center)
    ...
    [Last Move]: 1903 Spring: Diplomacy
    ...
    Orders already given this round: [army in Tunisia holds, army in Venice moves to Trieste]
    Candidate orders of fleet in Naples: [holds, moves to Ionian Sea]
    The best order: fleet in Naples

An area has in brackets what is not the default: land or water (default: coast), its coasts, the
owner of its supply centre, a unit that was dislodged there with the places it may retreat to.
Public position, last orders, power, orders given and candidates determine the text and are
determined by it. In adjustment phases a prompt asks for one build or removal after the other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dipllm_lib.dip import atlas, states
from dipllm_lib.dip import paper_orders as names
from dipllm_lib.dip.last_orders import LastOrders
from dipllm_lib.dip.orders import Joint, Turn

SYSTEM = (
    "You are an expert player of Diplomacy, a board game of seven powers on a map of Europe. Your"
    " power wins when it owns 18 supply centers; until then, own as many as you can. You read the"
    " state of the game and choose one order. What is said of an area leaves out the usual: if"
    " nothing else is said, it is a coast, has no supply center, nobody is in it and no unit was"
    " dislodged from it. Answer with the order only, without the name of the unit."
)
SEASONS = {"S": "Spring", "F": "Fall", "W": "Winter"}
KINDS = {"M": "Diplomacy", "R": "Retreats", "A": "Builds"}
GROUPS = ("unoccupied supply center", "occupied supply center", "not supply center")
NOTHING = "None"


@dataclass(frozen=True)
class Messages:
    """The turns before the answer."""

    system: str
    user: str

    def chat(self) -> list[dict[str, str]]:
        """As the chat templates of tokenizers take them."""
        return [{"role": role, "content": getattr(self, role)} for role in ("system", "user")]


@dataclass(frozen=True)
class Task:
    """What a user turn says. state: saved form; power: in capitals; unit: "" in adjustment phases;
    candidates: sorted, None where none are listed.
    """

    state: dict
    power: str
    unit: str
    given: Joint
    candidates: Joint | None
    last: LastOrders | None


def prompt(
    turn: Turn,
    given: Sequence[int] = (),
    last: LastOrders | None = None,
    candidates: Sequence[int] | None = None,
    list_candidates: bool = True,
) -> Messages:
    """System and user turn for slot len(given) of `turn`.

    given: orders of the slots before; candidates: default all legal orders of the slot
    Raises ValueError if all slots are filled or a candidate is not legal.
    """
    legal = turn.options(tuple(given)).tolist()
    listed = legal if candidates is None else sorted({int(order) for order in candidates})
    if not set(listed) <= set(legal) or not listed:
        raise ValueError(f"{turn.name} {turn.phase}: candidates must be legal orders, at least one")
    task = Task(
        states.to_state(turn.boards),
        turn.name,
        turn.units[len(given)],
        tuple(map(int, given)),
        tuple(listed) if list_candidates else None,
        last,
    )
    return Messages(SYSTEM, user_text(task))


def answer(order: int) -> str:
    """The assistant turn: an order without its unit."""
    return names.phrase(order)


def parse_answer(turn: Turn, given: Sequence[int], text: str) -> int:
    """The order of slot len(given) that `text` says; inverse of `answer`. ValueError if none."""
    found = [o for o in turn.options(tuple(given)).tolist() if names.phrase(o) == text]
    if not found:
        unit = turn.units[len(given)] or "an adjustment"
        raise ValueError(f"{turn.name} {turn.phase}: {text!r} is no legal order of {unit}")
    return found[0]


def user_text(task: Task) -> str:
    """The user turn: lines joined by newlines."""
    power = task.power.title()
    lines = [f"[Your Power]: {power}", f"[Game Time and Phase]: {_phase(task.state['name'])}"]
    lines += ["[Board State]:", *_board(task.state, task.power), *_last(task.last, task.power)]
    mark, unit = ", ", names.unit_name(task.unit) if task.unit else ""
    if task.state["name"].endswith("A"):
        mark = ";"
    given = _listed([names.sentence(order) for order in task.given], mark)
    lines.append(f"Orders already given this round: [{given}]")
    if task.candidates is not None:
        of = f"Candidate orders of {unit}" if unit else "Candidate orders"
        lines.append(f"{of}: [{_listed(list(map(names.phrase, task.candidates)))}]")
    return "\n".join([*lines, f"The best order: {unit or power}"])


def _phase(name: str) -> str:
    return f"{name[1:-1]} {SEASONS[name[0]]}: {KINDS[name[-1]]}"


def _listed(words: Sequence[str], mark: str = ", ") -> str:
    return mark.join(words) if words else NOTHING


def by_power(power: str) -> list[str]:
    """`power` first, then the others."""
    return [power, *(name for name in atlas.POWERS if name != power)]


class _Areas:
    """What a saved state says of every province."""

    def __init__(self, state: dict):
        self.owner = {code: p for p, codes in state["centers"].items() for code in codes}
        self.units: dict[str, tuple[str, str]] = {}  # province -> (power, unit text)
        self.lost: dict[str, list[str]] = {}
        for power, units in state["units"].items():
            for unit in units:
                if not unit.startswith("*"):
                    self.units[unit[2:5]] = power, unit
        for power in state["retreats"]:
            for unit, options in sorted(state["retreats"][power].items()):
                self.lost.setdefault(unit[2:5], []).append(_dislodged(power, unit, options))

    def words(self, code: str, group: str = "") -> str:
        """The area of a location code with its attributes; group: of the list it stands in."""
        province = atlas.INDEX[code[:3]]
        facts = [("land", "", "water")[atlas.KIND[province]]]
        if "/" not in code and atlas.COASTS[province, 0] >= 0:
            sides = [names.NAMES[c].split("'s ")[1].split()[0] for c in atlas.COASTS[province]]
            facts.append(f"including {' and '.join(sides)} Coast")
        if atlas.CENTRE[province] and group != GROUPS[0]:
            owner = self.owner.get(code[:3])
            facts.append(_centre(owner) if not group else f"{owner.title()}'s")
        facts = [fact for fact in facts + self.lost.get(code[:3], []) if fact]
        return _named(code) + (f" ({', '.join(facts)})" if facts else "")


def _named(code: str) -> str:
    return names.NAMES[atlas.INDEX[code]]


def _centre(owner: str | None) -> str:
    return f"{owner.title()}'s supply center" if owner else GROUPS[0]


def _dislodged(power: str, unit: str, options: Sequence[str]) -> str:
    places = " or ".join(sorted(map(_named, options)))
    end = f"can retreat to {places}" if places else "cannot retreat"
    kind, _, place = names.unit_name(unit).partition(" in ")
    return f"{power.title()}'s dislodged {kind} in {place} {end}"


def _board(state: dict, power: str) -> Iterator[str]:
    """Lines of the board: own units, those of the others, areas without a unit."""
    areas = _Areas(state)
    for number, name in enumerate(by_power(power)):
        if number < 2:
            yield ("Your Power Unit:", "Other Power Unit:")[number]
        for letter, kind in (("A", "army"), ("F", "fleet")):
            own = [u[2:] for p, u in areas.units.values() if p == name and u[0] == letter]
            found = [areas.words(code) for code in sorted(own, key=_named)]
            yield f"{name.title()}'s {kind}: {_listed(found)}"
        bare = sorted(
            _named(c) for c, p in areas.owner.items() if p == name and c not in areas.units
        )
        yield f"{name.title()}'s center without units: {_listed(bare)}"
    yield "Areas Without Unit:"
    empty = [code for code in atlas.CODES[: atlas.N_PROVINCES] if code not in areas.units]
    for group in GROUPS:
        codes = [code for code in empty if _group(areas, code) == group]
        found = [areas.words(code, group) for code in sorted(codes, key=_named)]
        yield f"{group}: {_listed(found)}"


def _group(areas: _Areas, code: str) -> str:
    centre = bool(atlas.CENTRE[atlas.INDEX[code]])
    return GROUPS[1 if code in areas.owner else 0 if centre else 2]


def _last(last: LastOrders | None, power: str) -> Iterator[str]:
    """Lines of the orders of the phase before."""
    if last is None:
        yield f"[Last Move]: {NOTHING}"
        return
    yield f"[Last Move]: {_phase(last.phase)}"
    mark = ";" if last.phase.endswith("A") else ", "
    for number, name in enumerate(by_power(power)):
        if number < 2:
            yield ("Your Power Order:", "Other Power Order:")[number]
        joint = last.joints.get(atlas.POWERS.index(name), ())
        yield f"{name.title()}: {_listed([names.sentence(int(o)) for o in joint], mark)}"
