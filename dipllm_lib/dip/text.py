"""A position, a task and joint orders as text and back: codec `compact`.

    1903 fall move
     Aus A Bud Tri C Gre Ser Vie
     Ita A Tun Ven F Nap Tys C Rom
     free Bel
     you Ita
     A Tun H ; A Ven Tri ; F Nap Ion ; F Tys S Nap Ion

Line 1: year, season (spring, fall, winter), kind of phase (move, retreat, build). One line per
power that has anything: A its armies, F its fleets, C its centres that none of its own units stands
on, and in retreat phases for each dislodged unit D, the unit, R, the places it may go to. A centre
under a unit belongs to that unit's power unless another power lists it under C or it is listed on
the line `free` (owned by nobody). Then the task: `you` and the power. Board first, power last, so
that seven powers share everything before `you`. The answer holds one order per unit in canonical
order (armies first, then by full English name), with " ;" between and a newline at the end:

    A Ven H    A Ven Tri    A Ven Tri via    F Tys S Nap    F Tys S Nap Ion
    F Eng C Lon Bre    A Ven R Tus    A Ven D    B F Nap    W

Every word but the first carries its leading space, so the pieces of an order are the same wherever
it stands. A coast is one letter: Stpn is St Petersburg's north coast. The supported unit's kind is
left out: a province holds one unit. Text and (position, power, joint order) determine each other.
"""

from collections.abc import Callable, Iterator, Sequence

from dipllm_lib.dip import atlas, orders, states

SEASONS = {"S": "spring", "F": "fall", "W": "winter"}
KINDS = {"M": "move", "R": "retreat", "A": "build"}
SHORT = {name: name[:3].title() for name in atlas.POWERS}
YEARS = range(1901, 2001)
NEXT, END = " ;", "\n"


def place_text(location: str) -> str:
    """BUD -> Bud, STP/NC -> Stpn."""
    return location[:3].title() + location[4:5].lower()


LETTERS = ("A", "F", "C", "D", "R", "H", "S", "B", "W", "via", "free", "you", ";", "\n")
PLACES = tuple(place_text(code) for code in atlas.CODES)
WORDS = tuple(
    dict.fromkeys([
        *LETTERS,
        *SEASONS.values(),
        *KINDS.values(),
        *SHORT.values(),
        *PLACES,
        *map(str, YEARS),
    ])
)
"""Vocabulary of the scratch tokenizer. England and the English Channel share the word Eng: line
starts tell them apart.
"""

_LOCATION = dict(zip(PLACES, atlas.CODES, strict=True))
_RANK = {code: (name, code) for code, name in zip(atlas.CODES, atlas.NAMES, strict=True)}
_ORDER_TEXT: dict[int, str] = {}


def board_text(state: dict) -> str:
    """The public position of a saved `state` (see `states.to_state`): all lines before `you`, each
    ended by a newline.

    Raises ValueError for a year outside 1901..2000 or a phase that asks for no orders.
    """
    name = state["name"]
    year, season, kind = name[1:-1], SEASONS.get(name[0]), KINDS.get(name[-1])
    if season is None or kind is None or int(year) not in YEARS:
        raise ValueError(f"phase {name!r} cannot be written: expected a phase such as S1901M")
    lines = [f"{year} {season} {kind}"]
    under = _under(state)
    for power in atlas.POWERS:
        words = _power_words(state, power, under)
        if words:
            lines.append(" " + " ".join([SHORT[power], *words]))
    owned = {centre for centres in state["centers"].values() for centre in centres}
    free = [c for c in under if c not in owned and atlas.CENTRE[atlas.INDEX[c]]]
    if free:
        lines.append(" " + " ".join(["free", *map(place_text, sorted(free, key=_RANK.get))]))
    return "\n".join(lines) + "\n"


def _standing(units: Sequence[str]) -> list[str]:
    """The units that are not dislodged; a star marks those that are."""
    return [unit for unit in units if not unit.startswith("*")]


def _under(state: dict) -> dict[str, str]:
    """Province -> power of the unit that stands there."""
    return {u[2:5]: p for p, units in state["units"].items() for u in _standing(units)}


def _power_words(state: dict, power: str, under: dict[str, str]) -> list[str]:
    """Words of one power's line after its name."""
    standing = _standing(state["units"].get(power, ()))
    centres = [c for c in state["centers"].get(power, ()) if under.get(c) != power]
    words = []
    for letter in "AF":
        words += _section(letter, [unit[2:] for unit in standing if unit[0] == letter])
    words += _section("C", centres)
    dislodged = state["retreats"].get(power) or {}
    for unit in sorted(dislodged, key=lambda unit: (unit[0], _RANK[unit[2:]])):
        words += ["D", unit[0], place_text(unit[2:]), *_section("R", dislodged[unit])]
    return words


def _section(letter: str, places: Sequence[str]) -> list[str]:
    """`letter` and the places in canonical order; nothing for no places."""
    return [letter, *map(place_text, sorted(places, key=_RANK.get))] if places else []


def task_text(power: str) -> str:
    """The line that names the power to move; `power` in capitals."""
    return f" you {SHORT[power]}\n"


def prompt(turn: orders.Turn) -> str:
    """All that a model reads before the orders of `turn`."""
    return board_text(states.to_state(turn.boards)) + task_text(atlas.POWERS[turn.power])


def order_text(order_id: int) -> str:
    """Compact text of one order, with its leading space and without separator: " A Ven Tri"."""
    if order_id not in _ORDER_TEXT:
        _ORDER_TEXT[order_id] = " " + " ".join(_order_words(orders.to_text(order_id).split()))
    return _ORDER_TEXT[order_id]


def _order_words(words: list[str]) -> list[str]:
    """Words of the package's notation to compact words."""
    if words == ["WAIVE"]:
        return ["W"]
    unit = [words[0], place_text(words[1])]
    match words[2:]:
        case ["B"]:
            return ["B", *unit]
        case ["H" | "D" as letter]:
            return [*unit, letter]
        case ["R", target]:
            return [*unit, "R", place_text(target)]
        case ["-", target]:
            return [*unit, place_text(target)]
        case ["-", target, "VIA"]:
            return [*unit, place_text(target), "via"]
        case ["S", _, at]:
            return [*unit, "S", place_text(at)]
        case ["S" | "C" as letter, _, at, "-", target]:
            return [*unit, letter, place_text(at), place_text(target)]
    raise ValueError(f"{' '.join(words)!r} is no order in the notation A VEN - TRI")


def joint_text(joint: Sequence[int]) -> str:
    """The orders of a whole power-turn with separators: " A Tun H ; A Ven Tri\\n"."""
    return NEXT.join(map(order_text, joint)) + END


def parse_joint(turn: orders.Turn, text: str) -> orders.Joint:
    """The joint order of `turn` that `text` says; inverse of `joint_text`. Raises ValueError if it
    is not legal.
    """
    joint, rest = _read_orders(turn, text)
    if rest or not text.endswith(END):
        raise ValueError(
            f"{rest or 'no newline'!r} after {len(joint)} legal orders of {turn.slots}"
        )
    return joint


def leading_legal(turn: orders.Turn, text: str) -> tuple[int, bool]:
    """How many orders of `text` are legal before the first that is not, and whether all of it is
    one joint order.
    """
    joint, rest = _read_orders(turn, text)
    return len(joint), not rest and text.endswith(END)


def _read_orders(turn: orders.Turn, text: str) -> tuple[orders.Joint, str]:
    """Legal orders from the start of `text`, at most one per slot, and what is left of it; "" if it
    is a joint order.
    """
    joint: orders.Joint = ()
    while len(joint) < turn.slots:
        end = END if len(joint) + 1 == turn.slots else NEXT
        head, found, rest = text.partition(end)
        legal = [o for o in map(int, turn.options(joint)) if order_text(o) == head]
        if not found or not legal:
            return joint, text or END
        joint, text = (*joint, legal[0]), rest
    return joint, text


def read_prompt(text: str) -> tuple[dict, str]:
    """(saved state, power) of what `prompt` wrote; `states.from_state` makes the position of it.

    Raises ValueError for a text of another form.
    """
    head, *body, task = (line.split() for line in text.removesuffix("\n").split("\n"))
    if len(head) != 3 or len(task) != 2 or task[0] != "you":
        raise ValueError(f"no prompt of codec compact: it begins {' '.join(head)!r}")
    season, kind = _key(SEASONS, head[1]), _key(KINDS, head[2])
    state: dict = {"name": season + head[0] + kind}
    state |= {key: {power: [] for power in atlas.POWERS} for key in ("units", "centers", "homes")}
    state["retreats"] = {power: {} for power in atlas.POWERS}
    free: list[str] = []
    for first, *words in body:
        if first == "free":
            free = [_LOCATION.get(word, word) for word in words]
        else:
            _read_power(state, _key(SHORT, first), words)
    _give_centres(state, free)
    return state, _key(SHORT, task[1])


def _key(table: dict[str, str], word: str) -> str:
    """The key whose value is `word`. Raises ValueError if there is none."""
    for key, value in table.items():
        if value == word:
            return key
    raise ValueError(f"{word!r} is none of {', '.join(table.values())}")


def _read_power(state: dict, power: str, words: list[str]) -> None:
    """Enter one power's line into `state`."""
    for letter, items in _sections(words):
        if letter in "AF":
            state["units"][power] += [f"{letter} {item}" for item in items]
        elif letter == "C":
            state["centers"][power] += items
        else:
            unit, options = f"{items[0]} {items[1]}", items[3:]
            state["units"][power].append("*" + unit)
            state["retreats"][power][unit] = options


def _sections(words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """(letter, items) of the sections of a power's line; D runs over its own A, F and R."""
    letter, items = "", []
    for word in [*words, "end"]:
        inside = letter == "D" and (word == "R" or (word in {"A", "F"} and not items))
        if word in {"A", "F", "C", "D", "end"} and not inside:
            if letter:
                yield letter, items
            letter, items = word, []
        else:
            items.append(_LOCATION.get(word, word))


def _give_centres(state: dict, free: list[str]) -> None:
    """Add to each power the centres under its own units, by the rule of the module's text; fill in
    the homes.
    """
    listed = {centre for centres in state["centers"].values() for centre in centres} | set(free)
    for province, power in _under(state).items():
        if atlas.CENTRE[atlas.INDEX[province]] and province not in listed:
            state["centers"][power].append(province)
    for power in atlas.POWERS:
        number = atlas.POWERS.index(power)
        homes = [atlas.CODES[i] for i in range(len(atlas.HOME)) if atlas.HOME[i] == number]
        state["homes"][power] = sorted(homes)
        state["centers"][power].sort()
        state["units"][power].sort()


class OrderChoice:
    """The legal joint orders of `turn` as a `lm.choices.Choice`: slot d offers the texts of
    turn.options.

    encode: text to token ids, `Backbone.encode`
    """

    def __init__(self, turn: orders.Turn, encode: Callable[[str], list[int]]):
        self.turn, self.encode = turn, encode
        self._tokens: dict[tuple[bytes, str], list[tuple[int, ...]]] = {}

    def options(self, chosen: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Token ids of the orders of slot len(chosen), each with its separator; [] after the last
        slot.
        """
        if len(chosen) == self.turn.slots:
            return []
        legal = self.turn.options(self.joint(chosen))
        if not len(legal):
            raise ValueError(f"no legal order for slot {len(chosen)} of {self.turn.units}")
        end = END if len(chosen) + 1 == self.turn.slots else NEXT
        key = (
            legal.tobytes(),
            end,
        )  # the same list object for the same options: tries are kept by it
        if key not in self._tokens:
            self._tokens[key] = [tuple(self.encode(order_text(int(o)) + end)) for o in legal]
        return self._tokens[key]

    def joint(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Order ids of option indices, slot by slot; a prefix is fine."""
        joint: tuple[int, ...] = ()
        for index in chosen:
            joint += (int(self.turn.options(joint)[index]),)
        return joint

    def sequence(self, joint: Sequence[int]) -> tuple[int, ...]:
        """Option indices of a joint order. Raises ValueError if an order is not legal."""
        chosen: list[int] = []
        for slot, order in enumerate(joint):
            legal = self.turn.options(tuple(joint[:slot])).tolist()
            if order not in legal:
                raise ValueError(f"{orders.to_text(order)!r} is not legal as order {slot + 1} here")
            chosen.append(legal.index(order))
        return tuple(chosen)
