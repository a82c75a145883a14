"""Limits of the candidates, coordinated extensions by hand, and the batched question."""

import dataclasses

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, candidates, orders, policies
from dipllm_lib.dip.search_settings import LAM_SETS, SearchSettings
from dipllm_lib.run import profiles

ANCHOR = policies.SoftDumbBot(0.3, 0.1)
SETTINGS = SearchSettings(iterations=5, candidates=30, ratio=2.0, draws=300, lam=0.01)


def rng(seed=0):
    return np.random.default_rng(seed)


def position(units, phase=boards.FALL_MOVES):
    """One position with units such as ("FRANCE", "A PAR"), no centres owned."""
    board = boards.empty(1)
    board.phase[:], board.year[:] = phase, 1902
    for name, text in units:
        unit, place = boards.parse_unit(text)
        p = int(atlas.PROV_OF[place])
        board.unit[0, p], board.loc[0, p], board.power[0, p] = unit, place, atlas.power(name)
    return board


def choose(turn, settings, anchor=ANCHOR):
    return candidates.choose([turn], anchor, settings, [rng()])[0]


def orders_of_slots(joints):
    return [len({joint[d] for joint in joints}) for d in range(len(joints[0]))]


def test_per_order_limits_the_orders_of_each_unit():
    turn = orders.turns(boards.start(), 0)[0]
    per_unit, _ = choose(turn, SETTINGS)
    assert len(per_unit) == 6  # two joint orders for each of three units
    settings = dataclasses.replace(SETTINGS, limit="per_order")
    joints, log_tau = choose(turn, settings)
    assert max(orders_of_slots(joints)) == 2 and len(joints) <= 2**3
    assert np.exp(log_tau).sum() == pytest.approx(1) and np.all(np.diff(log_tau) <= 0)
    assert joints[0] == per_unit[0]
    wide, _ = choose(turn, dataclasses.replace(settings, ratio=6.0))
    assert max(orders_of_slots(wide)) <= 6 and len(wide) > len(joints)
    few, _ = choose(turn, dataclasses.replace(settings, ratio=6.0, candidates=4))
    assert few == wide[:4]


def test_per_order_keeps_every_joint_order_that_fits():
    """Four joint orders by hand, at most two orders a unit: the third has a third order."""
    joints = [(1, 10), (2, 10), (3, 10), (2, 11), (1, 12)]
    settings = dataclasses.replace(SETTINGS, limit="per_order")
    kept, _ = candidates.limited(None, joints, np.array([-1.0, -2, -3, -4, -5]), settings)
    assert kept == [(1, 10), (2, 10), (2, 11)]


def joint(turn, *texts):
    return orders.sorted_joint(turn, texts)


def test_coordinated_steps_by_hand():
    board = position([("FRANCE", "A PAR"), ("FRANCE", "A PIC")])
    turn = orders.turns(board, 0)[0]
    found = candidates.coordinated(turn, joint(turn, "A PAR - BUR", "A PIC H"))
    assert joint(turn, "A PAR - BUR", "A PIC S A PAR - BUR") in found
    assert joint(turn, "A PAR S A PIC", "A PIC H") in found
    # Picardy cannot support what Paris does not do: no support of its hold, of another move
    assert len(found) == 2
    assert candidates.coordinated(turn, joint(turn, "A PAR H", "A PIC H")) == sorted([
        joint(turn, "A PAR S A PIC", "A PIC H"),
        joint(turn, "A PAR H", "A PIC S A PAR"),
    ])


def test_coordinated_convoy_needs_fleet_and_army():
    board = position([("ENGLAND", "A LON"), ("ENGLAND", "F NTH")])
    turn = orders.turns(board, 0)[0]
    found = candidates.coordinated(turn, joint(turn, "A LON H", "F NTH H"))
    via = joint(turn, "A LON - NWY VIA", "F NTH C A LON - NWY")
    assert via in found
    for step in found:
        turn.check(step)
    # over two seas one fleet alone carries nobody
    board = position([("ENGLAND", "A LON"), ("ENGLAND", "F ENG"), ("ENGLAND", "F MAO")])
    turn = orders.turns(board, 0)[0]
    names = [
        [orders.to_text(order) for order in step]
        for step in candidates.coordinated(turn, joint(turn, "A LON H", "F ENG H", "F MAO H"))
    ]
    assert any("A LON - BRE VIA" in step for step in names)
    assert not any("A LON - POR VIA" in step for step in names)


def test_extensions_come_last_and_are_the_most_probable():
    turn = orders.turns(boards.start(), 0)[2]
    plain, _ = choose(turn, SETTINGS)
    more, log_tau = choose(turn, dataclasses.replace(SETTINGS, extend=3))
    assert more[: len(plain)] == plain and len(more) == len(plain) + 3
    assert len(set(more)) == len(more) and np.exp(log_tau).sum() == pytest.approx(1)
    full = ANCHOR.log_prob(turn, more)
    np.testing.assert_allclose(log_tau, full - np.log(np.exp(full).sum()))
    every = {step for own in plain for step in candidates.coordinated(turn, own)} - set(plain)
    rest = sorted(every - set(more))
    assert ANCHOR.log_prob(turn, rest).max() <= full[len(plain) :].min()


def test_nothing_to_coordinate_outside_movement():
    board = position([("FRANCE", "A PAR"), ("FRANCE", "A PIC")], boards.ADJUSTMENTS)
    turn = orders.turns(board, 0)[0]  # two removals
    assert candidates.coordinated(turn, tuple(turn.lists[0].tolist())) == []
    joints, _ = choose(turn, dataclasses.replace(SETTINGS, extend=3))
    assert len(joints) == 1


class Together:
    """The anchor behind the batched interface; it counts its calls."""

    def __init__(self):
        self.calls = 0

    def samples(self, turns, n, rngs):
        self.calls += 1
        return [ANCHOR.sample(turn, n, rng) for turn, rng in zip(turns, rngs)]

    def log_probs(self, turns, joints):
        return [ANCHOR.log_prob(turn, own) for turn, own in zip(turns, joints)]


def test_a_batched_anchor_is_asked_once():
    turns, anchor = orders.turns(boards.start(), 0), Together()
    rngs = [rng(turn.power) for turn in turns]
    found = candidates.propose(anchor, turns, 50, rngs)
    assert anchor.calls == 1 and len(found) == 7
    again = candidates.propose(ANCHOR, turns, 50, [rng(turn.power) for turn in turns])
    for (joints, log_prob), (others, other) in zip(found, again):
        assert joints == others == sorted(set(joints))
        np.testing.assert_array_equal(log_prob, other)


def test_settings_come_from_a_profile():
    found = SearchSettings.of(profiles.load("cpu", 0).dip)
    assert (found.iterations, found.candidates, found.ratio, found.lam) == (96, 32, 6.0, 0.01)
    assert SearchSettings.of(found) is found
    dil = dataclasses.replace(found, types="dil")
    assert dil.lam_types(first=False) == (LAM_SETS["play"], 0)
    assert dil.lam_types(first=True) == (LAM_SETS["first turn"], 0)
    assert found.lam_types(first=True) == ((0.01,), 0)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"limit": "none"}, "unknown search.limit 'none': use one of per_unit, per_order"),
        ({"learner": "none"}, "unknown search.learner"),
        ({"types": "two"}, "unknown search.types"),
        ({"rollout": -1}, "search.rollout is -1"),
        ({"iterations": 0}, "search.iterations is 0"),
        ({"lam_agent": 0.5}, "lam_agent 0.5 must be one of lams"),
    ],
)
def test_settings_that_are_no_search(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(SETTINGS, **change)
