"""A recorded game held against the package `diplomacy`, phase by phase.

Every phase starts from the record, so one deviation does not spread: `set_state` with retreats, the
record's orders as canonical texts without expansion, `process`, then units, dislodged units,
retreat lists and centres are compared with the next position.
"""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, boards, deviations, legalise, rules, states
from dipllm_lib.dip.boards import Boards, Orders


def official_game() -> object:
    """A history-free game of the package, to be reused with `set_state`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from diplomacy import Game as Official
    return Official()


def process(
    official, before: Boards, texts: Mapping[str, Sequence[str]]
) -> tuple[dict, dict[str, list[str]]]:
    """Process one phase on the package: its state after it, and its result words by unit.

    texts: orders by power name. ValueError if it refuses an order.
    """
    # set_state keeps the units removed in the phase before and would remove them again
    official.error, official.popped, official.dislodged = [], [], {}
    official.set_state(states.to_state(before))
    for name, given in texts.items():
        official.set_orders(name, list(given), expand=False)
    if official.error:
        raise ValueError(
            f"{boards.phase_name(before)}: the package refuses orders: {official.error}"
        )
    official.process()
    results = official.result_history.last_value() or {}
    return official.get_state(), {
        unit: [str(word) for word in words] for unit, words in results.items()
    }


def run(official, before: Boards, orders: Orders) -> tuple[dict, dict[str, list[str]]]:
    """`process` for orders as arrays, as official texts."""
    return process(official, before, legalise.order_texts(before, _by_land(before, orders))[0])


def _by_land(before: Boards, orders: Orders) -> Orders:
    """Drop VIA between provinces that do not touch: the meaning is the same, and the package has a
    bug less.
    """
    result = orders.copy()
    for p in np.flatnonzero(
        (orders.kind[0] == boards.MOVE) & (orders.via[0] == 1) & (before.unit[0] == 1)
    ):
        if not atlas.ARMY[p, orders.a[0, p]]:
            result.via[0, p] = 0
    return result


def replay_on_package(game) -> pd.DataFrame:
    """Columns phase, cause: one row for each phase in which the package deviates from the record,
    with the cause that `deviations` names. ValueError if a phase differs and nothing explains it,
    or the record does not follow the rules.
    """
    official, rows = official_game(), []
    for k in range(game.boards.n - 1):
        before, recorded = game.boards.take([k]), game.boards.take([k + 1])
        orders = legalise.read_orders(before, 0, game.orders[k])
        after, made = rules.resolve(before, orders)
        _check_record(after, recorded)
        theirs, words = run(official, before, orders)
        cause = deviations.explain(deviations.Case(before, orders, made, recorded, theirs, words))
        if cause == "?":
            raise ValueError(
                f"game {game.id}, {boards.phase_name(before)}: the package differs, no known cause"
            )
        if cause:
            rows.append({"phase": boards.phase_name(before), "cause": cause})
    return pd.DataFrame(rows, columns=["phase", "cause"])


def _check_record(after: Boards, recorded: Boards) -> None:
    """ValueError if the recorded position is not the one the orders lead to (the end of a game is
    no rule).
    """
    ours, theirs = states.to_state(after), states.to_state(recorded)
    keys = (
        ("units", "retreats", "centers")
        if recorded.phase[0] == boards.OVER
        else ("name", "units", "retreats", "centers")
    )
    wrong = [key for key in keys if ours[key] != theirs[key]]
    if wrong:
        raise ValueError(
            f"recorded position {theirs['name']} does not follow from the orders: {wrong[0]} differ"
        )
