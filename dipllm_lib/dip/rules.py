"""The rules as one function: N rows of orders on B positions give N next positions.

`resolve` adjudicates every kind of phase (module `movement` decides, `phases` applies), skips
phases in which nobody has anything to decide, hands over centres after the fall and counts the
years. Orders must be legal on their board: `orders.expand` of legal ids is, anything else goes
through `legalise.legalise` first. The end of a game is not decided here but in `game`.

`Choices` are the points on which editions of the rules differ (issues 4.A and 6.G.8 of the
Diplomacy Adjudicator Test Cases); PACKAGE follows the package `diplomacy` without its bugs, DATC3
version 3.0 of the test cases.
"""

from dataclasses import dataclass, fields

import numpy as np

from dipllm_lib.dip import atlas, boards, bounds, decisions, movement, phases
from dipllm_lib.dip.boards import Boards, Orders, centres, start
from dipllm_lib.dip.decisions import BY_CONVOY, LAND, NO, VOID, YES, Decisions, Flags

__all__ = [
    "BY_CONVOY", "DATC3", "LAND", "NO", "PACKAGE", "VOID", "YES", "Boards", "Choices", "Decisions",
    "Orders", "centres", "resolve", "start",
]  # fmt: skip

OPTIONS = {
    "via_without_chain": ("land", "fail"),
    "disrupted_fallback": ("land", "fail"),
    "convoy_intent": ("own_fleet", "via_only"),
    "support_coast": ("match", "ignore"),
    "civil_disorder": ("home", "owned", "home_any"),
}


@dataclass(frozen=True)
class Choices:
    """Named rule choices; the values of each are in OPTIONS, ValueError for any other."""

    via_without_chain: str = "land"  # "via convoy" to a neighbour when no complete chain is ordered
    disrupted_fallback: str = (
        "land"  # neighbour, own fleet convoys without the word VIA, convoy disrupted
    )
    convoy_intent: str = "own_fleet"  # what makes a move between neighbours a convoy, besides VIA
    support_coast: str = "match"  # whether a support for the other coast counts
    civil_disorder: str = "home"  # who is removed when removals are missing

    def __post_init__(self):
        for field in fields(self):
            if getattr(self, field.name) not in OPTIONS[field.name]:
                allowed = ", ".join(OPTIONS[field.name])
                raise ValueError(
                    f"{field.name}={getattr(self, field.name)!r}: must be one of {allowed}"
                )

    def flags(self) -> Flags:
        """The movement choices as booleans."""
        return Flags(
            self.via_without_chain == "fail",
            self.disrupted_fallback == "fail",
            self.convoy_intent == "via_only",
            self.support_coast == "ignore",
        )


PACKAGE = Choices()
MOVE_KIND, RETREAT_KIND, ADJUST_KIND, OVER_KIND = range(4)
KIND_OF_PHASE = np.array([0, 1, 0, 1, 2, 3], np.int8)
DATC3 = Choices(via_without_chain="fail", disrupted_fallback="fail", civil_disorder="owned")


def _row_boards(positions: Boards, count: int, board_of) -> np.ndarray:
    """`board_of` as int32 (N,), checked."""
    if board_of is None:
        if positions.n not in (1, count):
            raise ValueError(f"{count} rows of orders for {positions.n} positions: give board_of")
        return np.zeros(count, np.int32) if positions.n == 1 else np.arange(count, dtype=np.int32)
    board_of = np.asarray(board_of)
    fits = board_of.shape == (count,) and board_of.dtype.kind in "iu"
    if not fits or (count and not 0 <= board_of.min() <= board_of.max() < positions.n):
        last = positions.n - 1
        raise ValueError(f"board_of must give a position 0 to {last} for each of {count} rows")
    return np.require(board_of, np.int32, "CW")


def resolve(
    positions: Boards,
    orders: Orders,
    board_of: np.ndarray | None = None,
    choices: Choices = PACKAGE,
) -> tuple[Boards, Decisions]:
    """Adjudicate N rows of orders. `board_of` (N,) says which of the B positions a row belongs to;
    None: row n to position n, or all rows to the only position. Returns N next positions and the
    decisions. ValueError if shapes do not fit, a game is over, or arrays hold what no position or
    order of the phase can (`bounds`).
    """
    positions, orders = bounds.positions(positions), bounds.orders(orders)
    count = orders.n
    board_of = _row_boards(positions, count, board_of)
    bounds.phases(positions, orders, board_of)
    if not isinstance(choices, Choices):
        raise ValueError(f"choices must be rules.Choices, not {choices!r}")
    kinds = KIND_OF_PHASE[positions.phase[board_of]]
    present = sorted(set(kinds.tolist()))
    if OVER_KIND in present:
        row = int(np.argmax(kinds == OVER_KIND))
        raise ValueError(f"row {row}: the game is over, nothing is left to resolve")
    made, out = decisions.blank(count), boards.room(count)
    scratch = np.empty((2, atlas.N_PROVINCES), np.int64)
    given = (atlas.TABLES, positions, orders, board_of)
    for kind in present:
        alone = len(present) == 1
        rows = np.arange(count) if alone else np.flatnonzero(kinds == kind)
        rows = rows.astype(np.int32)
        if kind == MOVE_KIND:
            movement.decide(*given, rows, choices.flags(), decisions.workspace(), made)
            phases.after_moves(*given, rows, made, out, scratch)
        elif kind == RETREAT_KIND:
            phases.after_retreats(*given, rows, made, out, scratch)
        else:
            rule = OPTIONS["civil_disorder"].index(choices.civil_disorder)
            phases.after_adjustments(*given, rows, rule, out, scratch)
    return out, made
