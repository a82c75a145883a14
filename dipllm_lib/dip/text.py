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
the line `free` (owned by nobody). With the option `all` for last moves the lines of `last_orders`
follow. Then the task: `you` and the power. Board first, power last, so that seven powers share
everything before `you`. The answer holds one order per unit in canonical order (armies first, then
by full English name) or another one (`unit_order`), with " ;" between and a newline at the end; see
`order_text`. Text and (position, last orders, power, joint order) determine each other.
"""

from collections.abc import Callable, Iterator, Sequence

from dipllm_lib.dip import atlas, last_orders, orders, states, unit_order
from dipllm_lib.dip.last_orders import KINDS, SEASONS, SHORT, LastOrders
from dipllm_lib.dip.order_text import (
    END,
    LOCATION,
    NEXT,
    PLACES,
    joint_text,
    order_text,
    place_text,
)

__all__ = [
    "END", "NEXT", "PLACES", "WORDS", "OrderChoice", "board_text", "joint_text", "leading_legal",
    "order_text", "parse_joint", "place_text", "prompt", "read_last", "read_prompt", "task_text",
]  # fmt: skip

YEARS = range(1901, 2001)
LETTERS = ("A", "F", "C", "D", "R", "H", "S", "B", "W", "via", "free", "you", ";", "\n")
WORDS = tuple(dict.fromkeys([
    *LETTERS, *SEASONS.values(), *KINDS.values(), *SHORT.values(), *PLACES, *map(str, YEARS),
]))  # fmt: skip
"""Vocabulary of the scratch tokenizer. England and the English Channel share the word Eng: line
starts tell them apart.
"""

_RANK = {code: (name, code) for code, name in zip(atlas.CODES, atlas.NAMES, strict=True)}


def board_text(state: dict, last: LastOrders | None = None) -> str:
    """The public position of a saved `state` (see `states.to_state`): all lines before `you`, each
    ended by a newline. last: shown after the position.

    Raises ValueError for a year outside 1901..2000, a phase that asks for no orders, or last orders
    that are not of the year before.
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
    return "\n".join(lines) + "\n" + last_orders.section(last, name)


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


def prompt(turn: orders.Turn, last: LastOrders | None = None) -> str:
    """All that a model reads before the orders of `turn`. last: the orders of the phase before."""
    return board_text(states.to_state(turn.boards), last) + task_text(atlas.POWERS[turn.power])


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
    """(saved state, power) of what `prompt` wrote; `states.from_state` makes the position of it,
    and `read_last` gives the last orders.

    Raises ValueError for a text of another form.
    """
    board, _, task_line = _parts(text)
    head, *body = (line.split() for line in board)
    task = task_line.split()
    if len(head) != 3 or len(task) != 2 or task[0] != "you":
        raise ValueError(f"no prompt of codec compact: it begins {' '.join(head)!r}")
    season, kind = _key(SEASONS, head[1]), _key(KINDS, head[2])
    state: dict = {"name": season + head[0] + kind}
    state |= {key: {power: [] for power in atlas.POWERS} for key in ("units", "centers", "homes")}
    state["retreats"] = {power: {} for power in atlas.POWERS}
    free: list[str] = []
    for first, *words in body:
        if first == "free":
            free = [LOCATION.get(word, word) for word in words]
        else:
            _read_power(state, _key(SHORT, first), words)
    _give_centres(state, free)
    return state, _key(SHORT, task[1])


def read_last(text: str) -> LastOrders | None:
    """The last orders in what `prompt` wrote. Raises ValueError for a text of another form."""
    _, last, _ = _parts(text)
    return last_orders.read(last, read_prompt(text)[0]["name"]) if last else None


def _parts(text: str) -> tuple[list[str], list[str], str]:
    """Lines of the position, lines of the last orders, and the task line of a prompt."""
    *lines, task = text.removesuffix("\n").split("\n")
    seasons = tuple(f" {season} " for season in SEASONS.values())
    cut = next((k for k, line in enumerate(lines) if line.startswith(seasons)), len(lines))
    return lines[:cut], lines[cut:], task


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
            unit, options = f"{items[0]} {items[1]}", sorted(items[3:])
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
            items.append(LOCATION.get(word, word))


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
    """The legal joint orders of `turn` as a `lm.choices.Choice`: slot d offers the texts of the
    options of the unit that is spoken of as number d.

    encode: text to token ids, `Backbone.encode`
    rule, seed: of `unit_order`; whatever they are, joint orders go in and come out in slot order
    """

    def __init__(
        self,
        turn: orders.Turn,
        encode: Callable[[str], list[int]],
        rule: str = "canonical",
        seed: int = 0,
    ):
        self.turn, self.encode, self.rule, self.seed = turn, encode, rule, seed
        self.spoken = unit_order.spoken_turn(turn, rule, seed)
        self._tokens: dict[tuple[bytes, str], list[tuple[int, ...]]] = {}

    def options(self, chosen: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Token ids of the orders of slot len(chosen), each with its separator; [] after the last
        slot.
        """
        if len(chosen) == self.spoken.slots:
            return []
        legal = self.spoken.options(self._said(chosen))
        if not len(legal):
            raise ValueError(f"no legal order for slot {len(chosen)} of {self.spoken.units}")
        end = END if len(chosen) + 1 == self.spoken.slots else NEXT
        key = (
            legal.tobytes(),
            end,
        )  # the same list object for the same options: tries are kept by it
        if key not in self._tokens:
            self._tokens[key] = [tuple(self.encode(order_text(int(o)) + end)) for o in legal]
        return self._tokens[key]

    def _said(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Order ids of option indices, as spoken."""
        joint: tuple[int, ...] = ()
        for index in chosen:
            joint += (int(self.spoken.options(joint)[index]),)
        return joint

    def joint(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Order ids of option indices in canonical order; a prefix is fine."""
        return unit_order.unspoken(self._said(chosen))

    def sequence(self, joint: Sequence[int]) -> tuple[int, ...]:
        """Option indices of a joint order. Raises ValueError if an order is not legal."""
        chosen: list[int] = []
        said = unit_order.spoken(self.turn, joint, self.rule, self.seed)
        for slot, order in enumerate(said):
            legal = self.spoken.options(said[:slot]).tolist()
            if order not in legal:
                raise ValueError(f"{orders.to_text(order)!r} is not legal as order {slot + 1} here")
            chosen.append(legal.index(order))
        return tuple(chosen)
