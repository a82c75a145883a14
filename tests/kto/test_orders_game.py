"""Diplomacy order choice as a game: prompts, payoffs against the engine, enumeration, faults."""

from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.dip import orders, rules, states, text, value
from dipllm_lib.dip.policies import Hold, RandomLegal, SoftDumbBot
from dipllm_lib.kto import games, order_faults, orders_game
from dipllm_lib.kto.orders_game import OrdersGame
from dipllm_lib.run import seeding

ITALY = 4
OPENING = orders.turn(rules.start(), 0, ITALY)
WISH = (("A ROM H", "A ROM - VEN", "A ROM - APU"), ("A VEN H", "A VEN - TRI"), ("F NAP - ION",))
SAID = (
    (" A Rom H.", " A Rom Ven.", " A Rom Apu."),
    (" A Ven H.", " A Ven Tri."),
    (" F Nap Ion.",),
)
BOARD = """1901 spring move
 Aus A Bud Vie F Tri
 Eng A Lpl F Edi Lon
 Fra A Mar Par F Bre
 Ger A Ber Mun F Kie
 Ita A Rom Ven F Nap
 Rus A Mos War F Sev Stps
 Tur A Con Smy F Ank
 you Ita
"""


def rng(*names):
    return seeding.child(0, "kto", "orders", *names)


def ids(texts):
    return tuple(orders.from_text(t) for t in texts)


def game(**given):
    candidates = tuple(map(ids, WISH))
    return OrdersGame((OPENING,), (candidates,), **({"others": Hold(), "draws": 1} | given))


def walk(own, *actions, names=()):
    state = own.reset(rng(*names))
    for action in actions:
        state = own.step(state, (action,))
    return state


def test_prompts():
    own = game()
    assert own.observe(walk(own), 0) == BOARD
    assert own.legal(walk(own), 0) == (" A Rom H.", " A Rom Ven.", " A Rom Apu.")
    assert own.observe(walk(own, 2, 1), 0) == BOARD + " A Rom Apu. A Ven Tri."
    shown = own.observe(walk(own, 2), 0, "A", "Forecast hold 75.")
    assert shown == BOARD + " Setting A. Forecast hold 75. A Rom Apu."
    near = game(near=1)
    assert (
        near.observe(walk(near), 0)
        == "1901 spring move\n Aus F Tri\n Ita A Rom Ven F Nap\n you Ita\n"
    )


def test_payoffs_are_those_of_the_engine():
    own = game()
    for actions in np.ndindex(3, 2, 1):
        end = walk(own, *actions)
        joint = own.joint(end)
        assert joint == tuple(ids([WISH[d][a] for d, a in enumerate(actions)]))
        row = [{ITALY: joint}]  # the others hold
        after, _ = rules.resolve(OPENING.boards, orders.expand(OPENING.boards, row))
        assert own.payoffs(end)[0] == pytest.approx(float(value.heuristic(after)[0, ITALY]))
    assert own.status_quo(walk(own)) == pytest.approx(9 / (6 * 9 + 16))


def test_values_of_orders_are_those_of_the_tree():
    own = game(others=RandomLegal(), draws=3)
    state = own.reset(rng("tree"))

    def best(at):
        if not own.to_move(at):
            return own.payoffs(at)[0]
        return max(best(own.step(at, (k,))) for k in range(len(own.legal(at, 0))))

    for at in (state, own.step(state, (2,)), own.step(own.step(state, (2,)), (1,))):
        want = [best(own.step(at, (k,))) for k in range(len(own.legal(at, 0)))]
        assert own.order_values(at) == pytest.approx(want)


def test_the_shares_of_all_powers_add_to_one():
    total = 0.0
    for turn in orders.turns(rules.start()):
        slots = orders_game.frequent_orders(turn, Hold(), rng(), 1, 1)
        alone = OrdersGame((turn,), (slots,), Hold(), 1)
        total += alone.payoffs(walk(alone, *(0,) * turn.slots))[0]
    assert total == pytest.approx(1.0)


def test_one_unit_a_decision():
    own = game(one_unit=True, own=Hold())
    seen = set()
    for k in range(30):
        state = own.reset(rng("one", k))
        seen.add(state.unit)
        assert own.legal(state, 0) == SAID[state.unit]
        end = own.step(state, (0,))
        assert own.to_move(end) == () and len(own.joint(end)) == 3
        assert len(own.order_values(state)) == len(own.legal(state, 0))
    assert seen == {0, 1, 2}
    first = replace(own.reset(rng()), unit=1)
    assert own.observe(first, 0) == BOARD + " A Rom H. F Nap H."


def test_replies_and_candidates_are_drawn_with_a_name():
    own = game(others=RandomLegal(), draws=2)
    assert own.reset(rng("x")) == own.reset(rng("x")) != own.reset(rng("y"))
    hash(own.reset(rng("x")))
    bot = SoftDumbBot(0.2, 0.2)
    slots = orders_game.frequent_orders(OPENING, bot, rng("c"))
    assert slots == orders_game.frequent_orders(OPENING, bot, rng("c"))
    assert all(1 <= len(own) <= 6 for own in slots)
    played = OrdersGame((OPENING,), (slots,), bot)
    episode = games.play(played, (lambda *_: 0,), rng("p"))
    assert len(episode.steps) == 3 and 0 < episode.payoffs[0] < 1
    wrong = games.play(played, (lambda *_: "A Rom flies.",), rng("p"))
    assert wrong.payoffs == (0.0,) and wrong.invalid == (0,)


@pytest.mark.parametrize(
    "texts, want",
    [
        (("A ROM - VEN", "A VEN H", "F NAP H"), ("self-bounce", "", "")),
        (("A ROM - VEN", "A VEN - TRI", "F NAP H"), ("", "", "")),
        (("A ROM - VEN", "A VEN - ROM", "F NAP H"), ("self-bounce", "self-bounce", "")),
        (("A ROM - APU", "A VEN - APU", "F NAP H"), ("self-bounce", "self-bounce", "")),
        (("A ROM - APU", "A VEN S A ROM - APU", "F NAP - APU"), ("", "", "self-bounce")),
        (("A ROM S A VEN", "A VEN - TRI", "F NAP H"), ("void support", "", "")),
        (("A ROM S A VEN", "A VEN H", "F NAP H"), ("", "", "")),
        (("A ROM S F NAP - APU", "A VEN H", "F NAP - ION"), ("void support", "", "")),
        (("A ROM - VEN", "A VEN S F TRI", "F NAP H"), ("self-bounce,own support", "", "")),
        (("A ROM H", "A VEN S F TRI", "F NAP H"), ("", "", "")),
        (("A PAR H", "A VEN - TRI", "F NAP H"), ("illegal", "", "")),
    ],
)
def test_faults_on_the_opening(texts, want):
    joint = ids(texts)
    found = order_faults.faults(OPENING, joint)
    assert tuple(",".join(names) for names in found) == want


def test_a_convoy_is_not_judged():
    state = states.to_state(rules.start())
    state["units"]["ITALY"] = ["A ROM", "F TYS"]
    turn = orders.turn(states.from_state(state), 0, ITALY)
    joint = orders.sorted_joint(turn, ["A ROM - TUN VIA", "F TYS H"])
    assert order_faults.faults(turn, joint) == ((), ())


def test_own_attacks_do_not_cut_own_support():
    """Why such a move is called a fault: by the rules it achieves nothing."""
    state = states.to_state(rules.start())
    state["units"] |= {"ITALY": ["A VEN", "A TYR", "A PIE"], "AUSTRIA": ["F TRI"]}
    turn = orders.turn(states.from_state(state), 0, ITALY)
    texts = ["A TYR - TRI", "A VEN S A TYR - TRI", "A PIE - VEN"]
    joint = orders.sorted_joint(turn, texts)
    after, _ = rules.resolve(turn.boards, orders.expand(turn.boards, [{ITALY: joint}]))
    units = states.to_state(after)["units"]
    assert units["ITALY"] == ["A PIE", "A TRI", "A VEN"] and units["AUSTRIA"] == ["*F TRI"]
    slot = next(d for d, unit in enumerate(turn.units) if unit == "A PIE")
    assert order_faults.own_support(turn, joint)[slot]


def test_bad_input():
    with pytest.raises(ValueError, match="1 turns with candidates for 0"):
        OrdersGame((OPENING,), (), Hold())
    with pytest.raises(ValueError, match="candidates for 2 of 3 units"):
        OrdersGame((OPENING,), (tuple(map(ids, WISH[:2])),), Hold())
    with pytest.raises(ValueError, match="not legal"):
        OrdersGame((OPENING,), ((ids(["A PAR H"]), *map(ids, WISH[1:])),), Hold())
    with pytest.raises(ValueError, match="1 to 6 different"):
        OrdersGame((OPENING,), (((), *map(ids, WISH[1:])),), Hold())
    with pytest.raises(ValueError, match="needs `own`"):
        game(one_unit=True)
    with pytest.raises(ValueError, match="draws 0"):
        game(draws=0)
    with pytest.raises(ValueError, match="limit 7"):
        orders_game.frequent_orders(OPENING, Hold(), rng(), 7)
    with pytest.raises(ValueError, match="2 orders for 3 units"):
        order_faults.illegal(OPENING, ids(["A ROM H", "A VEN H"]))


def test_words():
    own = game()
    said = own.observe(walk(own, 1, 1), 0) + "".join(own.legal(walk(own), 0))
    assert {word for line in said.split("\n") for word in line.split()} <= set(orders_game.WORDS)
    assert set(text.WORDS) < set(orders_game.WORDS)
