"""Single orders and joint orders as text of codec `compact`, and the words they are made of.

    A Ven H    A Ven Tri    A Ven Tri via    F Tys S Nap    F Tys S Nap Ion
    F Eng C Lon Bre    A Ven R Tus    A Ven D    B F Nap    W

Every word carries its leading space, so the pieces of an order are the same wherever it stands. A
coast is one letter: Stpn is St Petersburg's north coast. Two places have other common codes than
the notation's, because a subword tokenizer cuts theirs into three: Lpl is Liverpool, Nrg the
Norwegian Sea; so no order has more than eight tokens of SmolLM2. The supported unit's kind is left
out: a province holds one unit.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from dipllm_lib.dip import atlas, orders
from dipllm_lib.dip import vocabulary as v

NEXT, END = " ;", "\n"
OTHER_CODES = {"LVP": "LPL", "NWG": "NRG"}


def place_text(location: str) -> str:
    """BUD -> Bud, STP/NC -> Stpn, LVP -> Lpl."""
    code, _, coast = location.partition("/")
    return OTHER_CODES.get(code, code).title() + coast[:1].lower()


PLACES = tuple(place_text(code) for code in atlas.CODES)
LOCATION = dict(zip(PLACES, atlas.CODES, strict=True))


@cache
def order_text(order_id: int) -> str:
    """Compact text of one order, with its leading space and without separator: " A Ven Tri"."""
    return " " + " ".join(order_words(orders.to_text(order_id).split()))


def order_words(words: list[str]) -> list[str]:
    """Words of the package's notation to compact words. Raises ValueError for no order."""
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


@cache
def _by_text() -> dict[str, tuple[int, ...]]:
    """Order ids of every text: two where only the kind of the supported unit differs."""
    found: dict[str, tuple[int, ...]] = {}
    for order in range(v.SIZE):
        text = order_text(order)
        found[text] = (*found.get(text, ()), order)
    return found


def read_orders(line: str) -> list[tuple[int, ...]]:
    """For each order of a `joint_text` the ids that it can stand for.

    Raises ValueError if one is no order.
    """
    texts, known = line.removesuffix(END).split(NEXT), _by_text()
    for text in texts:
        if text not in known:
            raise ValueError(f"{text.strip()!r} is no order of codec compact, such as A Ven Tri")
    return [known[text] for text in texts]


def settle(orders_: Sequence[tuple[int, ...]], units: Mapping[int, int]) -> tuple[int, ...]:
    """The one id of each order; units: location -> kind of the unit that stands there.

    Raises ValueError for a support of a unit that is not in `units`.
    """
    joint = []
    for ids in orders_:
        fit = [o for o in ids if _fits(o, units)]
        if len(fit) != 1:
            raise ValueError(f"{order_text(ids[0]).strip()!r} helps a unit that is not there")
        joint += fit
    return tuple(joint)


def _fits(order: int, units: Mapping[int, int]) -> bool:
    """Whether the unit that the order helps, if any, is one of `units`."""
    other, at = v.VOCABULARY[order, [v.OTHER_TYPE, v.OTHER_LOC]].tolist()
    return not other or units.get(at) == other
