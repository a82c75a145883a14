"""Arrays that cannot be positions or orders, and settings out of range: one clear error each."""

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, bounds, game, legalise, rules

START = rules.start()
PAR, GAS = atlas.INDEX["PAR"], atlas.INDEX["GAS"]


def refused(message: str, call, *args, **kwargs) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def order(kind: int, a: int = -1, b: int = -1, via: int = 0, p: int = PAR) -> boards.Orders:
    given = boards.no_orders(1)
    for field, value in zip(given, (kind, a, b, via)):
        field[0, p] = value
    return given


def orders_with(**fields) -> boards.Orders:
    return boards.no_orders(1)._replace(**fields)


BAD_ORDERS = [
    (None, "orders must be Orders, not NoneType"),
    ({"FRANCE": []}, "orders must be Orders, not dict"),
    (orders_with(a=None), "orders: a must be an array of integers"),
    (orders_with(a=np.zeros((1, 75))), "orders: a must be an array of integers"),
    (orders_with(a=np.full((1, 75), 300)), "orders: a holds values that are no int8"),
    (orders_with(a=np.zeros((1, 74), np.int8)), r"orders: a has shape \(1, 74\) for 1 rows"),
    (orders_with(a=np.zeros((2, 75), np.int8)), r"orders: a has shape \(2, 75\) for 1 rows"),
    (boards.Orders(*(x[0] for x in boards.no_orders(1))), "orders: kind has shape"),
    (order(99), "row 0: the order of kind 99 .* in PAR is on no map"),
    (order(-1), "row 0: the order of kind -1 .* in PAR is on no map"),
    (order(boards.MOVE, -1), "row 0: the order MOVE a -1 b -1 via 0 in PAR is on no map"),
    (order(boards.MOVE, 81), "the order MOVE a 81 .* is on no map"),
    (order(boards.MOVE, -128), "the order MOVE a -128 .* is on no map"),
    (order(boards.MOVE, GAS, -1, 7), "the order MOVE a 25 b -1 via 7 in PAR"),
    (order(boards.SUPPORT_HOLD, 75), "the order SUPPORT_HOLD a 75 .* is on no map"),
    (order(boards.SUPPORT_MOVE, GAS, -1), "the order SUPPORT_MOVE a 25 b -1 .* is on no map"),
    (order(boards.CONVOY, GAS, 120), "the order CONVOY a 25 b 120 .* is on no map"),
    (order(boards.BUILD_ARMY, 100), "the order BUILD_ARMY a 100 .* is on no map"),
]


@pytest.mark.parametrize(("given", "message"), BAD_ORDERS)
def test_orders(given, message):
    refused(message, bounds.orders, given)
    refused(message, legalise.legalise, START, given)
    refused(message, rules.resolve, START, given)


def position(**entries) -> boards.Boards:
    """The opening with other values in PAR."""
    b = START.copy()
    for name, value in entries.items():
        getattr(b, name)[0, PAR] = value
    return b


def retreats(**entries) -> boards.Boards:
    """The same in a retreat phase; only there dislodged units are read."""
    return position(**entries)._replace(phase=np.array([boards.SPRING_RETREATS], np.int8))


BAD_POSITIONS = [
    ({}, "positions must be Boards, not dict"),
    (START._replace(loc=np.zeros((1, 80), np.int8)), r"boards: loc has shape \(1, 80\)"),
    (START._replace(loc=np.zeros((2, 75), np.int8)), r"boards: loc has shape \(2, 75\)"),
    (START._replace(power=np.full((1, 75), 300)), "boards: power holds values that are no int8"),
    (START._replace(phase=np.array([9], np.int8)), "position 0: unknown phase 9"),
    (START._replace(phase=np.array([-1], np.int8)), "position 0: unknown phase -1"),
    (position(unit=3), "position 0: impossible entry in PAR: unit 3"),
    (position(unit=2), "position 0: impossible entry in PAR: unit 2"),
    (position(loc=100), "position 0: impossible entry in PAR: .* loc 100"),
    (position(loc=GAS), "position 0: impossible entry in PAR: .* loc 25"),
    (position(power=9), "position 0: impossible entry in PAR: .* power 9"),
    (position(power=-1), "position 0: impossible entry in PAR"),
    (position(unit=0), "position 0: impossible entry in PAR: unit 0"),
    (position(owner=9), "position 0: impossible entry in PAR: .* owner 9"),
    (retreats(d_from=80), "position 0: impossible entry in PAR: .* d_from 80"),
    (retreats(d_unit=1), "position 0: impossible entry in PAR: .* d_unit 1"),
    (retreats(d_unit=2, d_power=0, d_loc=PAR), "position 0: impossible entry in PAR: .* d_unit 2"),
]


@pytest.mark.parametrize(("b", "message"), BAD_POSITIONS)
def test_positions(b, message):
    refused(message, bounds.positions, b)
    refused(message, legalise.legalise, b, boards.no_orders(1))
    refused(message, rules.resolve, b, boards.no_orders(1))


@pytest.mark.parametrize(
    ("phase", "kind", "a"),
    [
        (boards.SPRING_MOVES, boards.RETREAT, GAS),
        (boards.SPRING_MOVES, boards.DISBAND, -1),
        (boards.FALL_MOVES, boards.BUILD_ARMY, PAR),
        (boards.FALL_MOVES, boards.WAIVE, -1),
        (boards.ADJUSTMENTS, boards.MOVE, GAS),
        (boards.ADJUSTMENTS, boards.RETREAT, GAS),
    ],
)
def test_orders_of_another_phase(phase, kind, a):
    b = START._replace(phase=np.array([phase], np.int8))
    refused(f"the order {boards.KINDS[kind]} .* does not belong", rules.resolve, b, order(kind, a))


@pytest.mark.parametrize(
    "board_of",
    [[-1], [1], [0.5], ["a"], [[0]], [0, 0], "a"],
)
def test_boards_of_rows(board_of):
    refused(
        "board_of must give a position 0 to 0 for each of 1 rows",
        rules.resolve, START, boards.no_orders(1), board_of=np.array(board_of),
    )  # fmt: skip


def test_choices():
    for bad in (None, "DATC3", rules.PACKAGE.flags()):
        refused(
            "choices must be rules.Choices", rules.resolve, START, boards.no_orders(1), None, bad
        )
    refused("civil_disorder=None: must be one of home", rules.Choices, civil_disorder=None)
    refused("convoy_intent='x': must be one of own_fleet", rules.Choices, convoy_intent="x")


def test_what_is_not_read_is_not_judged():
    """Orders of provinces without a unit, and arrays in another layout, are taken as they are."""
    given = order(boards.BUILD_ARMY, GAS, p=GAS)
    assert rules.resolve(START, given)[0].same(rules.resolve(START, boards.no_orders(1))[0])
    wide = boards.Orders(*(np.asfortranarray(x.astype(np.int64)) for x in boards.no_orders(1)))
    assert bounds.orders(wide).kind.dtype == np.int8
    assert rules.resolve(START, wide)[0].same(rules.resolve(START, boards.no_orders(1))[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(last_year=None), "last_year=None: need a whole number"),
        (dict(last_year="1907"), "last_year='1907': need a whole number"),
        (dict(last_year=1900), "last_year=1900: the first year is 1901"),
        (dict(last_year=1907, solo=17.5), "solo=17.5: need a whole number"),
        (dict(last_year=1907, solo=35), "solo=35"),
        (dict(last_year=1907, end_draws=3), "end_draws=3: need .year, probability. pairs"),
        (dict(last_year=1907, end_draws=((1905,),)), "end_draws"),
        (dict(last_year=1907, end_draws=((1905, float("nan")),)), "end_draws"),
        (dict(last_year=1907, end_draws=((1905, 0.5), (1904, 0.5))), "end_draws"),
        (dict(last_year=1907, end_draws=((1905, 0.5), (1905, 0.7))), "end_draws"),
    ],
)
def test_end_rules(settings, message):
    refused(message, game.EndRules, **settings)
