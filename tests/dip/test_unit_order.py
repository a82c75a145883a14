"""Units spoken of in another order: the text differs, the joint orders do not."""

import pytest

from dipllm_lib.dip import (
    game,
    orders,
    policies,
    rules,
    text,
    unit_order,
)
from dipllm_lib.lm import backbones
from dipllm_lib.lm.choices import Tries, path


@pytest.fixture(scope="module")
def records():
    """(game, k) of all positions of 4 games of random players."""
    players, names = [policies.RandomLegal()] * 7, [("units", n) for n in range(4)]
    played = game.play([players] * 4, 7, names, game.EndRules(1907))
    return [(g, k) for g in played for k in range(g.boards.n - 1)]


@pytest.mark.parametrize("rule", unit_order.RULES)
def test_units_are_spoken_of_in_any_order(records, rule):
    """Whatever the order, joint orders go in and come out canonical, and text says the order."""
    backbone = backbones.load("scratch", hidden=8, layers=1, heads=1, words=text.WORDS)
    moved = 0
    for g, k in records[::3]:
        for turn in orders.turns(g.boards, k):
            joint, choice = g.joint(k, turn.power), text.OrderChoice(turn, backbone.encode, rule, 3)
            chosen = choice.sequence(joint)
            assert choice.joint(chosen) == joint
            said = backbone.tokenizer.text(path(Tries(choice), chosen).tokens)
            there = unit_order.spoken_turn(turn, rule, 3)
            assert said == text.joint_text(unit_order.spoken(turn, joint, rule, 3))
            assert unit_order.unspoken(text.parse_joint(there, said)) == joint
            assert unit_order.permutation(turn, rule, 3) == unit_order.permutation(turn, rule, 3)
            if rule == "most_constrained" and not turn.adjusts:
                sizes = list(map(len, there.lists))
                assert sizes == sorted(sizes)
            moved += there.units != turn.units
            if turn.adjusts:
                assert there is turn
    assert (moved == 0) == (rule == "canonical")


def test_random_order_of_units_is_a_function_of_turn_and_seed():
    germany = orders.turn(rules.start(), 0, 3)
    found = {unit_order.permutation(germany, "random", seed) for seed in range(60)}
    assert len(found) == 6
    with pytest.raises(ValueError, match="unknown unit order 'canon'"):
        text.OrderChoice(germany, list, "canon")
