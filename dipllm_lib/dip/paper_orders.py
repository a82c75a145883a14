"""Areas, units and orders in English, as in the prompts of codec `paper` (Xu et al. 2025).

    army in Naples · fleet in St. Petersburg's North Coast
    holds · moves to X · moves to X via fleet · supports army in X · supports army in X move to Y ·
    convoys army in X to Y · retreats to X · disband army in X · build army in X

Names and phrases are the published ones; `build nothing` for a waived build is ours. A phrase is an
order without its unit; a sentence is a whole order. Every order of the vocabulary has a sentence of
its own, and among the orders of one unit every phrase is one order.
"""

from functools import cache

from dipllm_lib.dip import atlas, boards
from dipllm_lib.dip import vocabulary as v

OTHER_NAMES = {
    "YOR": "York",
    "BOT": "Bothnia",
    "LYO": "Lyon",
    "TUN": "Tunisia",
    "MAO": "Mid Atlantic Ocean",
    "STP": "St. Petersburg",
}
COASTS = {"NC": "North Coast", "SC": "South Coast", "EC": "East Coast"}
KINDS = ("", "army", "fleet")


def _name(location: int) -> str:
    code, _, coast = atlas.CODES[location].partition("/")
    name = OTHER_NAMES.get(code, atlas.NAMES[atlas.INDEX[code]])
    return f"{name}'s {COASTS[coast]}" if coast else name


NAMES = tuple(_name(location) for location in range(atlas.N_LOCATIONS))
LOCATION = {name: location for location, name in enumerate(NAMES)}


def unit_words(unit: int, place: int) -> str:
    """(2, NAP) -> fleet in Naples."""
    return f"{KINDS[unit]} in {NAMES[place]}"


def unit_name(text: str) -> str:
    """F NAP -> fleet in Naples."""
    return unit_words(*boards.parse_unit(text))


@cache
def phrase(order: int) -> str:
    """An order id without its unit: moves to Ionian Sea. Disbands and builds name their unit."""
    unit, place, kind, other, at, dest, via = v.VOCABULARY[order].tolist()
    helped = unit_words(other, at) if other else ""
    match kind:
        case boards.HOLD:
            return "holds"
        case boards.MOVE:
            return f"moves to {NAMES[dest]}" + " via fleet" * via
        case boards.SUPPORT_HOLD:
            return f"supports {helped}"
        case boards.SUPPORT_MOVE:
            return f"supports {helped} move to {NAMES[dest]}"
        case boards.CONVOY:
            return f"convoys {helped} to {NAMES[dest]}"
        case boards.RETREAT:
            return f"retreats to {NAMES[dest]}"
        case boards.DISBAND:
            return f"disband {unit_words(unit, place)}"
        case boards.WAIVE:
            return "build nothing"
    return f"build {unit_words(unit, place)}"


@cache
def sentence(order: int) -> str:
    """A whole order: fleet in Naples moves to Ionian Sea · disband fleet in Naples."""
    said = phrase(order)
    if said.startswith(("disband ", "build ")):
        return said
    return f"{unit_words(*v.VOCABULARY[order, :2].tolist())} {said}"


@cache
def _by_sentence() -> dict[str, int]:
    return {sentence(order): order for order in range(v.SIZE)}


def read_sentence(text: str) -> int:
    """Inverse of `sentence`. Raises ValueError for any other text."""
    order = _by_sentence().get(text)
    if order is None:
        raise ValueError(f"{text!r} is no order such as: fleet in Naples moves to Ionian Sea")
    return order


def read_phrase(unit: str, text: str) -> int:
    """Inverse of `phrase` for the orders of a unit ("F NAP"; "" in adjustment phases)."""
    if not unit or text.startswith("disband "):
        return read_sentence(text)
    return read_sentence(f"{unit_name(unit)} {text}")
