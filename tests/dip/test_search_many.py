"""Many positions at once against one by one; rollouts, types, regret matching; the teacher."""

import dataclasses

import numpy as np
import pytest

from dipllm_lib.dip import boards, game, orders, payoffs, policies, search, value
from dipllm_lib.dip.rowwise import RowwiseValue
from dipllm_lib.dip.search_cost import untrained
from dipllm_lib.dip.teacher import Teacher
from dipllm_lib.run import profiles, seeding

ANCHOR = policies.SoftDumbBot(0.07, 0.02)
SETTINGS = search.SearchSettings.of(profiles.load("smoke", 0).dip)
NET = untrained(30, np.random.default_rng(0))


def rng(seed=0):
    return np.random.default_rng(seed)


def change(**fields):
    return dataclasses.replace(SETTINGS, **fields)


@pytest.fixture(scope="module")
def positions():
    """Positions of every kind of phase of one anchor game to the end of 1902."""
    every = game.play([[ANCHOR] * 7], 5, [("many",)], game.EndRules(1902))[0].positions()
    return [every.take([k]) for k in range(every.n)]


def together(positions, settings, value_fn=value.heuristic):
    rngs = [rng(k) for k in range(len(positions))]
    found = search.search_many(positions, ANCHOR, value_fn, settings, rngs)
    return [record.to_json() for record in found]


def alone(positions, settings, value_fn=value.heuristic):
    found = []
    for k, position in enumerate(positions):
        turns = orders.turns(position, 0)
        found.append(search.search(turns, position, ANCHOR, value_fn, settings, rng(k)).to_json())
    return found


CASES = {
    "default": {},
    "dil": {"types": "dil"},
    "regret matching": {"learner": "regret_matching"},
    "per order, extended": {"limit": "per_order", "extend": 3},
    "rollout": {"rollout": 1, "iterations": 2, "candidates": 3},
    "random rollout": {
        "rollout": 2,
        "rollout_policy": "random",
        "iterations": 2,
        "candidates": 2,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_many_positions_equal_one_by_one(positions, case):
    settings = change(**CASES[case])
    some = positions if settings.rollout == 0 else positions[1:4]
    for value_fn in (value.heuristic, RowwiseValue(NET)):
        assert together(some, settings, value_fn) == alone(some, settings, value_fn)


def test_values_are_asked_in_one_batch_per_iteration(positions):
    calls = []

    def counting(after):
        calls.append(after.n)
        return value.heuristic(after)

    records = together(positions, change(iterations=6), counting)
    assert len(calls) <= 6 and sum(calls) == sum(record["resolved"] for record in records)


def test_one_type_is_the_single_search(positions):
    one = change(types="dil", lams=(0.01,), lam_agent=0.01, first_lams=(0.01,))
    assert together(positions, one) == together(positions, SETTINGS)


def test_the_exported_type_is_that_of_lam_agent():
    """On the first turn `first_lam_agent` plays; a large lam stays at the anchor."""
    lams = dict(types="dil", iterations=40, first_lams=(1e-4, 50.0), first_lam_agent=50.0)
    (near,) = search.search_many([boards.start()], ANCHOR, value.heuristic, change(**lams), [rng()])
    lams["first_lam_agent"] = 1e-4
    (far,) = search.search_many([boards.start()], ANCHOR, value.heuristic, change(**lams), [rng()])
    gains = []
    for a, b in zip(near.powers, far.powers, strict=True):
        np.testing.assert_allclose(a.final, np.exp(a.log_tau), atol=0.01)
        np.testing.assert_array_equal(a.q, b.q)  # one vector of utilities for all types
        gains.append((b.final - a.final) @ b.q)
    assert min(gains) > -1e-12 and max(gains) > 1e-3


def test_regret_matching_reaches_small_regret():
    settings = change(learner="regret_matching", iterations=400)
    (record,) = search.search_many([boards.start()], ANCHOR, value.heuristic, settings, [rng()])
    assert record.regret[-1].max() < 0.02
    assert search.Record.from_json(record.to_json()).powers[0].kappa == 0.0


def test_a_rollout_values_the_position_some_phases_later(positions):
    """One phase by hand: the anchor's orders under the same generator, resolved, then valued."""
    position, names = positions[0], [(3, 11), (3, 12)]
    two = boards.Boards.concat([position, position])
    found = payoffs.Lookahead(value.heuristic, 1, ANCHOR).values(two, names)
    for row, name in zip(found, names, strict=True):
        turns = orders.turns(position, 0)
        generator = seeding.child(name[0], "rollout", name[1])
        joints = [ANCHOR.act([turn], [generator])[0] for turn in turns]
        given = orders.expand(position, [{t.power: j for t, j in zip(turns, joints)}])
        after, _ = payoffs.rules.resolve(position, given)
        np.testing.assert_array_equal(row, value.heuristic(after)[0])
    plain = payoffs.Lookahead(value.heuristic).values(two, names)
    np.testing.assert_array_equal(plain, value.heuristic(two))


class Spy:
    """A lookahead that keeps the names of the rollouts it is asked for."""

    def __init__(self):
        self.names = []

    def values(self, after, names):
        self.names += names
        return value.heuristic(after)


def test_every_joint_order_has_its_own_rollout(positions):
    position, spy = positions[0], Spy()
    turns = orders.turns(position, 0)
    joints = [policies.RandomLegal().sample(turn, 2, rng(turn.power)) for turn in turns]
    tables = [payoffs.Payoffs(turns, position, joints, seed) for seed in (5, 6)]
    picks = payoffs.variations(np.zeros(len(turns), np.int64), tables[0].sizes)
    payoffs.lookup(tables, [picks, picks], spy)
    payoffs.lookup(tables, [picks, picks], spy)  # all known: nothing is asked again
    # the drawn joint order comes once for each power, each of the seven variations once
    assert len(spy.names) == len(set(spy.names)) == 2 * (1 + len(turns))


def test_diagnostics_of_a_search():
    (record,) = search.search_many([boards.start()], ANCHOR, value.heuristic, SETTINGS, [rng()])
    rows = record.diagnostics()
    assert [row["power"] for row in rows] == list(search.orders.atlas.POWERS)
    for row, power in zip(rows, record.powers, strict=True):
        assert row["phase"] == "S1901M" and row["resolved"] == record.resolved
        assert 1 <= row["effective"] <= len(power.candidates)
        log_effective = row["entropy_average"] * np.log(len(power.candidates))
        assert np.log(row["effective"]) == pytest.approx(log_effective)
        assert row["sd_q"] == pytest.approx(np.sqrt(np.mean((power.q - power.q.mean()) ** 2)))
    np.testing.assert_array_equal([row["regret"] for row in rows], record.regret[-1])


def test_the_net_row_by_row_is_the_net(positions):
    every = boards.Boards.concat(positions)
    exact = RowwiseValue(NET)
    whole = exact(every)
    np.testing.assert_allclose(whole, NET.predict(every), atol=1e-6)
    for k, position in enumerate(positions):
        np.testing.assert_array_equal(exact(position)[0], whole[k])
    over = every.copy()
    over.phase[:] = boards.OVER
    np.testing.assert_allclose(exact(over), value.sos(boards.centres(over)), rtol=1e-6)


def test_teachers_that_search_together_play_the_same(positions):
    turns = [turn for position in positions for turn in orders.turns(position, 0)]
    plays = []
    for batch in (False, True):
        teacher = Teacher(ANCHOR, value.heuristic, SETTINGS, 0.2, keep=True, together=batch)
        joints = teacher.act(turns, [rng(k) for k in range(len(turns))])
        plays.append((joints, [record.to_json() for record in teacher.records]))
    assert plays[0] == plays[1]


def test_the_opening_has_its_own_exploration():
    """No exploration but in S1901M: there the play is a uniform candidate."""
    settings, turn = change(lam=1e-6, candidates=4), orders.turns(boards.start())[:1]
    opening = Teacher(ANCHOR, value.heuristic, settings, opening={"S1901M": 1.0}, keep=True)
    plays = [opening.act(turn, [rng(seed)])[0] for seed in range(40)]
    ranks = [r.powers[0].candidates.index(j) for r, j in zip(opening.records, plays, strict=True)]
    assert min(np.bincount(ranks, minlength=4)) >= 4  # 10 expected of each
    other = Teacher(ANCHOR, value.heuristic, settings, opening={"F1901M": 1.0})
    plain = Teacher(ANCHOR, value.heuristic, settings)
    same = [t.act(turn, [rng(seed)])[0] for t in (other, plain) for seed in range(6)]
    assert same[:6] == same[6:]
    with pytest.raises(ValueError, match="must be a probability"):
        Teacher(ANCHOR, value.heuristic, settings, opening={"S1901M": 1.5})


def test_bad_input(positions):
    with pytest.raises(ValueError, match="2 positions need as many generators"):
        search.search_many(positions[:2], ANCHOR, value.heuristic, SETTINGS, [rng()])
    shared = rng()
    with pytest.raises(ValueError, match="share a generator"):
        search.search_many(positions[:2], ANCHOR, value.heuristic, SETTINGS, [shared, shared])
    assert search.search_many([], ANCHOR, value.heuristic, SETTINGS, []) == []
