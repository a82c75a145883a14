"""BR-1: values worked out by hand, the definition by a slow road, games alone and in batches."""

import numpy as np
import pytest

from dipllm_lib.dip import arena, atlas, boards, game, orders, policies, rules
from dipllm_lib.dip.bestreply import BestReply
from dipllm_lib.dip.value import heuristic

SOFT = policies.SoftDumbBot(0.07, 0.02)
BOT = BestReply(SOFT)
FRANCE, ITALY = atlas.power("FRANCE"), atlas.power("ITALY")
HOMES = {"FRANCE": ["PAR", "BRE", "MAR"], "ITALY": ["ROM", "NAP", "VEN"]}


def spain(phase="S1905M"):
    """A French army and an Italian fleet beside empty Spain."""
    units = {"FRANCE": ["A GAS"], "ITALY": ["F WES"]}
    return game.from_state({"name": phase, "units": units, "centers": HOMES})


def test_values_by_hand():
    """x = 3 or, with a unit in Spain, 3.5: u = 1/2, 12.25/21.25 or 9/21.25; a bounce gives 1/2."""
    board = spain()
    ours, theirs = (orders.turn(board, 0, power) for power in (FRANCE, ITALY))
    own = [orders.parse_joint(ours, [text]) for text in ("A GAS - SPA", "A GAS H")]
    other = [orders.parse_joint(theirs, [text]) for text in ("F WES H", "F WES - SPA/SC")]
    candidates = [[] for _ in range(7)]
    candidates[FRANCE], candidates[ITALY] = own, other
    found = BOT.values(ours, candidates)
    assert found == pytest.approx([(12.25 / 21.25 + 0.5) / 2, (0.5 + 9 / 21.25) / 2])
    assert found == pytest.approx([0.538235, 0.461765], abs=1e-6)
    candidates[ITALY] = []  # nobody else decides
    assert BOT.values(ours, candidates) == pytest.approx([12.25 / 21.25, 0.5])


def test_it_takes_the_centre():
    this = orders.turn(spain(), 0, FRANCE)
    for seed in range(10):
        (joint,) = BOT.act([this], [np.random.default_rng(seed)])
        assert orders.to_text(joint[0]) == "A GAS - SPA"


def slow_choice(board, power, rng, own=24, others=16):
    """The definition with one call of the rules for every pair of draws."""
    draws = {}
    for this in orders.turns(board):
        n = own if this.power == power else others
        draws[this.power] = SOFT.sample(this, n, rng)
    best, most = None, -1.0
    for joint in dict.fromkeys(draws[power]):
        total = 0.0
        for s in range(others):
            row = {p: joint if p == power else draws[p][s] for p in draws}
            after, _ = rules.resolve(board, orders.expand(board, [row]))
            total += float(heuristic(after)[0, power])
        if total / others > most + 1e-9:
            best, most = joint, total / others
    return best


def test_the_choice_is_the_definition():
    board = boards.start()
    for power in (0, 2, 5):
        for seed in range(2):
            this = orders.turn(board, 0, power)
            (joint,) = BOT.act([this], [np.random.default_rng(seed)])
            assert joint == slow_choice(board, power, np.random.default_rng(seed))


def test_orders_do_not_depend_on_who_else_is_asked():
    first, second = orders.turns(boards.start()), orders.turns(spain())
    every = first + second
    rngs = [np.random.default_rng(k) for k in range(len(every))]
    together = BOT.act(every, rngs)
    for k, this in enumerate(every):
        assert BOT.act([this], [np.random.default_rng(k)])[0] == together[k]
    assert BOT.act([], []) == []


def test_retreats_and_adjustments():
    units = {"FRANCE": ["*A BUR", "A BRE"], "GERMANY": ["A BUR", "A MUN"]}
    state = {"name": "F1905R", "units": units, "centers": HOMES | {"GERMANY": ["MUN"]}}
    state["retreats"] = {"FRANCE": {"A BUR": ["BEL", "GAS", "PAR"]}}
    this = orders.turn(game.from_state(state), 0, FRANCE)
    found = {orders.to_text(BOT.act([this], [np.random.default_rng(s)])[0][0]) for s in range(10)}
    assert found == {"A BUR R BEL"}  # a centre more after the fall
    this = orders.turn(spain("W1905A"), 0, FRANCE)
    (joint,) = BOT.act([this], [np.random.default_rng(0)])
    this.check(joint)
    assert joint == SOFT.sample(this, 24, np.random.default_rng(0))[0]  # all builds are worth alike


def test_a_game_is_the_same_alone_and_in_a_batch():
    end = game.EndRules(1902)
    together = arena.play(BOT, SOFT, 7, end, 3)
    assert arena.play_one(BOT, SOFT, 4, end, 3).to_saved() == together[4].to_saved()


def test_bad_numbers_of_draws():
    with pytest.raises(ValueError, match="at least one draw each, got own=24 and others=0"):
        BestReply(SOFT, others=0)
