"""Last orders in codec compact: a golden text, and round trips on games of random players."""

import pytest

from dipllm_lib.dip import (
    game,
    last_orders,
    order_text,
    orders,
    policies,
    states,
    text,
)
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.last_orders import LastOrders

LAST = """1902 spring move
 Aus A Bud Tri
 Fra A Spa F Mao
 fall move
 Aus A Bud Ser ; A Tri S Bud Ser
 Fra A Mar Spa ; F Mao S Mar Spa
 you Fra
"""


def test_golden_last_orders():
    """The phase before without its year; a supported unit's kind is known from its own order."""
    units = {"AUSTRIA": ["A BUD", "A TRI"], "FRANCE": ["A SPA", "F MAO"]}
    centres = {"AUSTRIA": ["BUD", "TRI"], "FRANCE": ["SPA"]}
    state = {"name": "S1902M", "units": units, "centers": centres, "retreats": {}}
    turn = orders.turn(states.from_state(state), 0, 2)
    france = ["A MAR - SPA", "F MAO S A MAR - SPA"]
    austria = ["A BUD - SER", "A TRI S A BUD - SER"]
    joints = {p: tuple(map(orders.from_text, said)) for p, said in ((0, austria), (2, france))}
    last = LastOrders("F1901M", joints)
    assert text.prompt(turn, last) == LAST
    assert text.read_last(LAST) == last and text.read_last(text.prompt(turn)) is None
    assert text.read_prompt(LAST) == text.read_prompt(text.prompt(turn))
    by_sea = text.read_last(LAST.replace("Fra A Mar Spa", "Fra F Mar Spas"))
    assert orders.to_text(by_sea.joints[2][1]) == "F MAO S F MAR - SPA"
    with pytest.raises(ValueError, match="'F Mao S Por Spa' helps a unit that is not there"):
        text.read_last(LAST.replace("S Mar Spa", "S Por Spa"))
    for odd, match in [
        (LAST.replace(" fall move", " fall build"), "names no phase"),
        (LAST.replace("\n Fra A Mar", "\n Aus A Mar"), "begin with a new power"),
        (LAST.replace("Mar Spa ;", "Mar Spa ,"), "is no order of codec compact"),
    ]:
        with pytest.raises(ValueError, match=match):
            text.read_last(odd)
    assert last_orders.shown(last, "all") is last and last_orders.shown(last, "none") is None
    with pytest.raises(ValueError, match="unknown option of last moves 'own'"):
        last_orders.shown(last, "own")
    for phase in ("S1902M", "F1902M"):
        with pytest.raises(ValueError, match="are not of the year before S1902M"):
            text.prompt(turn, LastOrders(phase, joints))
    with pytest.raises(ValueError, match="helps a unit that is not there"):
        text.prompt(turn, LastOrders("F1901M", {2: joints[2][1:]}))
    for phase, joint in (("COMPLETED", joints), ("F1901M", {7: joints[0]}), ("F1901M", {0: ()})):
        with pytest.raises(ValueError):
            LastOrders(phase, joint)


@pytest.fixture(scope="module")
def records():
    """(game, k) of all positions of 12 games of random players."""
    players, names = [policies.RandomLegal()] * 7, [("text", n) for n in range(12)]
    played = game.play([players] * 12, 7, names, game.EndRules(1907))
    return [(g, k) for g in played for k in range(g.boards.n - 1)]


def test_last_orders_of_games_round_trip(records):
    kinds = set()
    for g, k in records:
        last = last_orders.before(g, k)
        assert (last is None) == (k == 0)
        board = text.board_text(states.to_state(g.boards, k), last)
        assert board.startswith(text.board_text(states.to_state(g.boards, k)))
        assert text.read_last(board + text.task_text("ITALY")) == last
        kinds.add(last.phase[-1] if last else "")
    assert kinds == {"", "M", "R", "A"}


def test_orders_differ_by_text_and_kind_of_the_unit_they_help():
    """So the position, or the last orders of all powers, settle what a text says."""
    kinds = v.VOCABULARY[:, v.OTHER_TYPE].tolist()
    assert len({(text.order_text(o), kinds[o]) for o in range(v.SIZE)}) == v.SIZE
    for order in range(0, v.SIZE, 7):
        (ids,) = order_text.read_orders(text.joint_text((order,)))
        units = {int(v.VOCABULARY[order, v.OTHER_LOC]): kinds[order]}
        assert order in ids and order_text.settle([ids], units) == (order,)
