"""Reading a prompt of codec `paper`: position, power, unit, orders given, candidates, last orders.

What is read is written again, and must give the same text: a text that `paper_text` would not have
written is refused.
"""

import re
from itertools import zip_longest

from dipllm_lib.dip import atlas, boards, states
from dipllm_lib.dip import paper_orders as names
from dipllm_lib.dip import paper_text as paper
from dipllm_lib.dip.last_orders import LastOrders
from dipllm_lib.dip.orders import Joint
from dipllm_lib.dip.paper_text import Task

_AREA = re.compile(r"([^(),]+)(?: \(([^()]*)\))?(?:, |$)")
_LOST = re.compile(
    r"(\w+)'s dislodged (army|fleet) in (.+?) (?:can retreat to (.+)|cannot retreat)"
)
_OWNED = re.compile(r"(\w+)'s(?: supply center)?")


def read_prompt(user: str) -> Task:
    """What a user turn of `paper_text.prompt` says; `states.from_state` makes the position of it.

    Raises ValueError for any other text.
    """
    lines = _Lines(user)
    power = _power(lines.take("[Your Power]: "))
    phase = _phase(lines.take("[Game Time and Phase]: "))
    state = _state(lines, phase, power)
    last = _last(lines, power)
    given = _orders(lines.take("Orders already given this round: [")[:-1])
    listed = lines.take_if("Candidate orders")
    unit = _unit(lines.take("The best order: "), power)
    candidates = None
    if listed is not None:
        phrases = listed.partition("[")[2].removesuffix("]").split(", ")
        candidates = tuple(names.read_phrase(unit, phrase) for phrase in phrases)
    task = Task(state, power, unit, given, candidates, last)
    again = paper.user_text(task)
    if again != user:
        pairs = zip_longest(again.split("\n"), user.split("\n"), fillvalue=None)
        odd = next(theirs for ours, theirs in pairs if ours != theirs)
        raise ValueError(f"no prompt of codec paper: it would not hold the line {odd!r}")
    return task


class _Lines:
    """The lines of a text, taken one after the other by what they begin with."""

    def __init__(self, text: str):
        self.left = text.split("\n")[::-1]

    def take_if(self, head: str) -> str | None:
        """The rest of the next line if it begins with `head`."""
        if self.left and self.left[-1].startswith(head):
            return self.left.pop().removeprefix(head)
        return None

    def take(self, head: str) -> str:
        """The rest of the next line, which begins with `head`. Raises ValueError if it does not."""
        rest = self.take_if(head)
        if rest is None:
            found = self.left[-1] if self.left else "the end"
            raise ValueError(f"no prompt of codec paper: expected {head!r}, found {found!r}")
        return rest


def _power(word: str) -> str:
    return atlas.POWERS[atlas.power(word.upper())]


def _phase(text: str) -> str:
    """1903 Fall: Diplomacy -> F1903M."""
    for name in boards.PHASE_SUFFIX[:5]:
        season, kind = paper.SEASONS[name[0]], paper.KINDS[name[-1]]
        if text.endswith(f" {season}: {kind}") and text[:-1].split()[0].isdigit():
            return name.format(int(text.split()[0]))
    raise ValueError(f"{text!r} is no phase such as 1903 Fall: Diplomacy")


def _place(name: str) -> str:
    """The location code of an area."""
    if name not in names.LOCATION:
        raise ValueError(f"unknown area {name!r}: expected one such as Ionian Sea")
    return atlas.CODES[names.LOCATION[name]]


def _state(lines: _Lines, phase: str, power: str) -> dict:
    """The saved state of the board section."""
    state: dict = {"name": phase}
    state |= {key: {p: [] for p in atlas.POWERS} for key in ("units", "centers")}
    state["retreats"] = {p: {} for p in atlas.POWERS}
    state["homes"] = {p: list(homes) for p, homes in states.HOMES.items()}
    lines.take("[Board State]:")
    for number, name in enumerate(paper.by_power(power)):
        if number < 2:
            lines.take(("Your Power Unit:", "Other Power Unit:")[number])
        for letter, kind in (("A", "army"), ("F", "fleet")):
            codes = _areas(state, lines.take(f"{name.title()}'s {kind}: "))
            state["units"][name] += [f"{letter} {code}" for code in codes]
        lines.take(f"{name.title()}'s center without units: ")
    lines.take("Areas Without Unit:")
    for group in paper.GROUPS:
        _areas(state, lines.take(f"{group}: "))
    for listed in (*state["units"].values(), *state["centers"].values()):
        listed.sort()
    return state


def _areas(state: dict, text: str) -> list[str]:
    """The location codes of a list of areas, whose attributes are entered into `state`."""
    codes = []
    for name, facts in _AREA.findall("" if text == paper.NOTHING else text):
        codes.append(_place(name))
        for fact in facts.split(", "):
            owned, lost = _OWNED.fullmatch(fact), _LOST.fullmatch(fact)
            if owned:
                state["centers"][_power(owned[1])].append(codes[-1][:3])
            if lost:
                owner, kind, place, options = lost.groups()
                unit = f"{kind[0].upper()} {_place(place)}"
                state["units"][_power(owner)].append("*" + unit)
                places = options.split(" or ") if options else []
                state["retreats"][_power(owner)][unit] = sorted(map(_place, places))
    return codes


def _last(lines: _Lines, power: str) -> LastOrders | None:
    text = lines.take("[Last Move]: ")
    if text == paper.NOTHING:
        return None
    joints = {}
    for number, name in enumerate(paper.by_power(power)):
        if number < 2:
            lines.take(("Your Power Order:", "Other Power Order:")[number])
        joint = _orders(lines.take(f"{name.title()}: "))
        if joint:
            joints[atlas.POWERS.index(name)] = joint
    return LastOrders(_phase(text), joints)


def _orders(text: str) -> Joint:
    """The orders of a list of sentences."""
    listed = [] if text == paper.NOTHING else re.split(", |;", text)
    return tuple(map(names.read_sentence, listed))


def _unit(words: str, power: str) -> str:
    """fleet in Naples -> F NAP; the name of the power -> ""."""
    if words == power.title():
        return ""
    kind, _, place = words.partition(" in ")
    return f"{kind[:1].upper()} {_place(place)}"
