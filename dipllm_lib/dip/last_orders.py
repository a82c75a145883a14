"""The orders of all powers in the phase before a position, and their text in codec `compact`.

     fall move
     Aus A Bud Ser ; F Tri Alb
     Ita A Ven H ; F Nap Ion

A line with season and kind of that phase, then one line per power that gave orders. Its year is
not written: it is the latest such phase before the position. A support leaves out the kind of the
supported unit; the orders of all powers name every unit, so reading finds it there. Positions
alone do not hold last orders: whoever has the game passes them on, see `before`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dipllm_lib.dip import atlas, boards, order_text, orders
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.game import Game
from dipllm_lib.dip.orders import Joint

SEASONS = {"S": "spring", "F": "fall", "W": "winter"}
KINDS = {"M": "move", "R": "retreat", "A": "build"}
SHORT = {name: name[:3].title() for name in atlas.POWERS}
OPTIONS = ("none", "all")  # of the setting: whether a prompt shows last orders


@dataclass(frozen=True)
class LastOrders:
    """phase: short name, S1903M; joints: power 0-6 -> joint order, only powers that gave orders.

    Raises ValueError for a phase without orders, an unknown power or an empty joint order.
    """

    phase: str
    joints: Mapping[int, Joint] = field(default_factory=dict)

    def __post_init__(self):
        _moment(self.phase)
        wrong = [p for p, joint in self.joints.items() if p not in range(7) or not joint]
        if wrong:
            raise ValueError(
                f"last orders of {self.phase}: power {wrong[0]} is unknown or gave none"
            )


def before(game: Game, k: int) -> LastOrders | None:
    """The orders that led to position k of a game; None for the first one.

    Raises ValueError if the record lacks orders that were due.
    """
    if k == 0:
        return None
    given = game.orders[k - 1]
    turns = orders.turns(game.boards, k - 1)
    joints = {t.power: orders.sorted_joint(t, given.get(t.name, [])) for t in turns}
    return LastOrders(boards.phase_name(game.boards, k - 1), joints)


def shown(last: LastOrders | None, option: str) -> LastOrders | None:
    """What a prompt shows of `last`: nothing with `none`, all of it with `all`. ValueError else."""
    if option not in OPTIONS:
        raise ValueError(f"unknown option of last moves {option!r}: use {', '.join(OPTIONS)}")
    return last if option == "all" else None


def _moment(phase: str) -> int:
    """Number of a phase, five a year. Raises ValueError if it asks for no orders."""
    year, kind = boards.parse_phase(phase)
    if kind == boards.OVER:
        raise ValueError(f"phase {phase!r} has no orders: expected a phase such as S1901M")
    return 5 * year + kind


def section(last: LastOrders | None, phase: str) -> str:
    """The lines of `last` for a position of `phase`; "" for None.

    Raises ValueError if `last` is not of the year before `phase`, or if it lacks the orders of a
    unit that it says was supported.
    """
    if last is None:
        return ""
    if not 0 < _moment(phase) - _moment(last.phase) <= 5:
        raise ValueError(f"last orders of {last.phase} are not of the year before {phase}")
    lines = [f" {SEASONS[last.phase[0]]} {KINDS[last.phase[-1]]}\n"]
    units = _units(last.joints.values())
    for power in sorted(last.joints):
        joint = tuple(map(int, last.joints[power]))
        order_text.settle([(order,) for order in joint], units)
        lines.append(f" {SHORT[atlas.POWERS[power]]}{order_text.joint_text(joint)}")
    return "".join(lines)


def _units(joints) -> dict[int, int]:
    """Location -> kind of every unit that has an order in `joints`."""
    rows = v.VOCABULARY[[order for joint in joints for order in joint]].tolist()
    return {row[v.LOC]: row[v.TYPE] for row in rows if row[v.KIND] != boards.WAIVE}


def read(lines: Sequence[str], phase: str) -> LastOrders | None:
    """Inverse of `section`, from its lines without newlines. Raises ValueError for other text."""
    if not lines:
        return None
    names = {short: p for p, short in enumerate(SHORT.values())}
    found = {}
    for line in lines[1:]:
        short, text = line[1:4], line[4:]
        if short not in names or names[short] in found:
            raise ValueError(f"{line!r} is no line of last orders: it must begin with a new power")
        found[names[short]] = order_text.read_orders(text)
    units = _units([ids[0] for ids in joint] for joint in found.values())
    joints = {power: order_text.settle(joint, units) for power, joint in found.items()}
    return LastOrders(_phase_before(lines[0], phase), joints)


def _phase_before(line: str, phase: str) -> str:
    """Name of the latest phase before `phase` of the season and kind in `line`."""
    for back in range(1, 6):
        year, kind = divmod(_moment(phase) - back, 5)
        name = boards.PHASE_SUFFIX[kind].format(year)
        if line == f" {SEASONS[name[0]]} {KINDS[name[-1]]}":
            return name
    raise ValueError(f"{line!r} names no phase: expected a line such as ' fall move'")
