"""Candidates, sampled piKL-Hedge against a slow second road, records, the teacher."""

import dataclasses
import json

import numpy as np
import pytest

from dipllm_lib.dip import (
    atlas,
    boards,
    candidates,
    decompose,
    game,
    hedge,
    orders,
    policies,
    rules,
    search,
    value,
)
from dipllm_lib.dip.teacher import Teacher, positions
from dipllm_lib.run import profiles

ANCHOR = policies.SoftDumbBot(0.07, 0.02)
SETTINGS = profiles.load("smoke", 0).dip


def rng(seed=0):
    return np.random.default_rng(seed)


def change(**fields):
    return dataclasses.replace(SETTINGS, **{f"search_{k}": v for k, v in fields.items()})


def duel(phase=boards.FALL_MOVES):
    """France and Germany with two armies each around Burgundy and Belgium."""
    board = boards.empty(1)
    board.phase[:], board.year[:] = phase, 1902
    for name, codes in (("FRANCE", ("PAR", "PIC")), ("GERMANY", ("MUN", "RUH"))):
        for code in codes:
            p = atlas.location(code)
            board.unit[0, p], board.loc[0, p], board.power[0, p] = 1, p, atlas.power(name)
            if atlas.CENTRE[p]:
                board.owner[0, p] = atlas.power(name)
    return board


@pytest.fixture(scope="module")
def played():
    """One anchor game to the end of 1903, for positions of every phase."""
    return game.play([[ANCHOR] * 7], 3, [("search test",)], game.EndRules(1903))[0]


def of_phase(played, codes):
    """The position of such a phase in which the fewest powers have a turn."""
    every = played.positions()
    found = [every.take([k]) for k in np.flatnonzero(np.isin(every.phase, codes))]
    return min(found, key=lambda board: len(orders.turns(board, 0)))


def run(board, settings=SETTINGS, seed=0):
    return search.search(
        orders.turns(board, 0), board, ANCHOR, value.heuristic, settings, rng(seed)
    )


def chosen(turn, settings, generator=None):
    settings = search.SearchSettings.of(settings)
    return candidates.choose([turn], ANCHOR, settings, [generator or rng()])[0]


def test_candidates_are_the_most_probable_distinct_draws():
    turn = orders.turns(boards.start(), 0)[2]
    joints, log_tau = chosen(turn, change(candidates=5, draws=200))
    assert len(joints) == len(set(joints)) == 5
    assert np.exp(log_tau).sum() == pytest.approx(1)
    full = ANCHOR.log_prob(turn, joints)
    assert np.all(np.diff(full) <= 0)
    np.testing.assert_allclose(log_tau, full - hedge.log_sum_exp(full))
    drawn = sorted(set(ANCHOR.sample(turn, 200, rng())))
    rest = [joint for joint in drawn if joint not in joints]
    assert ANCHOR.log_prob(turn, rest).max() <= full[-1]


@pytest.mark.parametrize("ratio, expected", [(0.1, 1), (0.5, 2), (1.0, 3), (100.0, 7)])
def test_the_limit_counts_units(ratio, expected):
    """Three units: ceil(ratio * 3) candidates, at least one, at most K."""
    turn = orders.turns(boards.start(), 0)[2]
    settings = change(ratio=ratio, candidates=7, draws=500)
    assert len(chosen(turn, settings)[0]) == expected


def slow(board, settings, seed):
    """The same search with single positions, dictionaries and explicit weights."""
    generator, turns = rng(seed), orders.turns(board, 0)
    sets = [chosen(turn, settings, generator) for turn in turns]
    policy = [np.full(len(joints), 1 / len(joints)) for joints, _ in sets]
    seen = [[] for _ in turns]
    plays = [[] for _ in turns]
    for k in range(settings.search_iterations):
        u = generator.random(len(turns))
        picks = [int((np.cumsum(p) <= x * p.sum()).sum()) for p, x in zip(policy, u)]
        for i, (joints, _) in enumerate(sets):
            row = []
            for a in range(len(joints)):
                choice = picks.copy()
                choice[i] = a
                joint = {t.power: s[0][c] for t, s, c in zip(turns, sets, choice)}
                after, _ = rules.resolve(board, orders.expand(board, [joint]))
                row.append(value.heuristic(after)[0, turns[i].power])
            seen[i].append(np.array(row, dtype=np.float64))
            plays[i].append(policy[i])
        for i, (_, log_tau) in enumerate(sets):
            keep = [(j + 1e-6) / (j + 1) for j in range(k + 1)]
            weight = np.array([np.prod(keep[j + 1 :]) for j in range(k + 1)])
            n = weight.sum()
            own = np.array([p @ u for p, u in zip(plays[i], seen[i])])
            mean = weight @ own / n
            spread = np.sqrt(weight @ (own - mean) ** 2 / n)
            kappa = 3 * (spread + 1e-6) / (10 * np.sqrt(n))
            q = weight @ np.array(seen[i]) / n
            f = (q + settings.search_lam * log_tau) / (settings.search_lam + kappa)
            policy[i] = hedge.softmax(f)
    return sets, policy, [weight @ np.array(p) / n for p in plays]


@pytest.mark.parametrize("phase", [boards.SPRING_MOVES, boards.FALL_MOVES])
def test_search_equals_the_slow_road(phase):
    settings = change(iterations=9, candidates=4)
    record = run(duel(phase), settings, seed=5)
    sets, policy, average = slow(duel(phase), settings, seed=5)
    assert [p.power for p in record.powers] == [atlas.power("FRANCE"), atlas.power("GERMANY")]
    for found, (joints, log_tau), final, mean in zip(record.powers, sets, policy, average):
        assert found.candidates == joints
        np.testing.assert_allclose(found.log_tau, log_tau, atol=1e-12)
        np.testing.assert_allclose(found.final, final, rtol=1e-6)
        np.testing.assert_allclose(found.average, mean, rtol=1e-6)


def test_exponents_are_the_stated_target():
    """f = (Q + lam log tau)/(lam + kappa); the literal rule has no division."""
    for found in run(boards.start()).powers:
        f = (found.q + 0.01 * found.log_tau) / (0.01 + found.kappa)
        np.testing.assert_allclose(found.f, f, rtol=1e-10)
        np.testing.assert_allclose(found.final, hedge.softmax(f), rtol=1e-10)
        assert found.average.sum() == pytest.approx(1)
        assert found.target("final") is found.final and found.target("average") is found.average
    for found in run(boards.start(), change(rule="literal", lam=0.1)).powers:
        np.testing.assert_allclose(found.f, found.q + 0.1 * found.log_tau, rtol=1e-12)
    with pytest.raises(ValueError, match="use final or average"):
        found.target("last")


def test_large_lam_stays_at_the_anchor_and_small_lam_follows_the_values():
    board = duel()
    near = run(board, change(lam=100.0, iterations=50))
    far = run(board, change(lam=1e-6, iterations=200))
    for found in near.powers:
        np.testing.assert_allclose(found.final, np.exp(found.log_tau), atol=1e-3)
        assert found.diagnostics()["kl_anchor"] < 0.2
    for found in far.powers:
        assert found.final @ found.q == pytest.approx(found.q.max(), abs=0.01)


def test_regret_falls():
    short = run(boards.start(), change(lam=1e-4, iterations=400, candidates=6))
    assert short.regret.shape == (400, 7)
    assert short.regret[-1].max() < 0.02
    assert short.regret[-1].mean() < short.regret[5].mean()


def test_every_joint_order_is_resolved_once():
    board, calls = duel(), []

    def counting(after):
        calls.append(after.n)
        return value.heuristic(after)

    settings = change(iterations=60, candidates=4)
    turns = orders.turns(board, 0)
    record = search.search(turns, board, ANCHOR, counting, settings, rng())
    assert record.resolved == sum(calls)
    sizes = [len(found.candidates) for found in record.powers]
    assert record.resolved <= np.prod(sizes)
    assert calls[0] == sum(sizes) - 1  # the drawn pair comes twice


@pytest.mark.parametrize("codes", [boards.RETREATS, (boards.ADJUSTMENTS,)])
def test_other_phases_and_powers_without_a_turn(played, codes):
    board = of_phase(played, codes)
    turns = orders.turns(board, 0)
    assert len(turns) < 7
    record = run(board)
    assert [found.power for found in record.powers] == [turn.power for turn in turns]
    for turn, found in zip(turns, record.powers):
        for joint in found.candidates:
            turn.check(joint)
    assert record.of(turns[0].power) is record.powers[0]
    absent = next(p for p in range(7) if p not in [turn.power for turn in turns])
    assert record.of(absent) is None


def test_theorem_1_on_search_positions(played):
    every = played.positions()
    for k in range(0, every.n, 3):
        for found in run(every.take([k])).powers:
            assert decompose.theorem1_error(found.candidates, found.f) < 1e-12
            with np.errstate(divide="ignore"):
                assert decompose.theorem1_error(found.candidates, np.log(found.average)) < 1e-12


def test_record_as_json(played):
    for board in (boards.start(), of_phase(played, boards.RETREATS)):
        record = run(board)
        again = search.Record.from_json(json.loads(json.dumps(record.to_json(), allow_nan=False)))
        assert again.phase == record.phase and again.resolved == record.resolved
        np.testing.assert_array_equal(again.regret, record.regret)
        for a, b in zip(again.powers, record.powers):
            assert a.power == b.power and a.candidates == b.candidates
            for name in ("log_tau", "q", "average", "f"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
            np.testing.assert_allclose(a.final, b.final, rtol=1e-12)
    assert again.to_json() == record.to_json()
    broken = record.to_json()
    name = sorted(broken["powers"])[0]
    broken["powers"][name]["candidates"][0] = ["A PAR H"]
    with pytest.raises(ValueError):
        search.Record.from_json(broken)


def test_same_generator_same_record():
    first, second, other = run(duel(), seed=1), run(duel(), seed=1), run(duel(), seed=2)
    assert first.to_json() == second.to_json() != other.to_json()


def test_bad_input():
    board = duel()
    with pytest.raises(ValueError, match="at least one turn"):
        search.search([], board, ANCHOR, value.heuristic, SETTINGS, rng())
    with pytest.raises(ValueError, match="unknown search.kappa"):
        run(board, change(kappa="none"))
    with pytest.raises(ValueError, match="must be a probability"):
        Teacher(ANCHOR, value.heuristic, SETTINGS, explore=2.0)


# --- the teacher


def test_teacher_shares_one_search_per_position():
    teacher = Teacher(ANCHOR, value.heuristic, SETTINGS, keep=True)
    turns = orders.turns(boards.start(), 0)
    twice = turns + orders.turns(boards.start(), 0)
    joints = teacher.act(twice, [rng(k) for k in range(14)])
    assert len(teacher.records) == 2 and len(joints) == 14
    assert positions(twice) == [(0, 7), (7, 14)]
    alone = Teacher(ANCHOR, value.heuristic, SETTINGS).act(turns, [rng(k) for k in range(7)])
    assert alone == joints[:7]
    for turn, joint in zip(twice, joints):
        turn.check(joint)


def test_teacher_plays_its_average_policy_or_explores():
    turn = orders.turns(duel(), 0)[:1]
    greedy = change(lam=1e-6, iterations=60, candidates=4, draws=2000)
    plays = [Teacher(ANCHOR, value.heuristic, greedy).act(turn, [rng(s)])[0] for s in range(80)]
    free = Teacher(ANCHOR, value.heuristic, greedy, explore=1.0, keep=True)
    explored = [free.act(turn, [rng(s)])[0] for s in range(80)]
    found = [record.of(turn[0].power) for record in free.records]
    best = found[0].candidates[int(found[0].average.argmax())]
    assert all(joint in record.candidates for joint, record in zip(explored, found))
    assert plays.count(best) > explored.count(best) + 10
    ranks = [record.candidates.index(joint) for joint, record in zip(explored, found)]
    assert min(np.bincount(ranks, minlength=4)) > 8  # 20 expected of each


def test_teacher_game_is_the_same_again_and_beats_hold():
    teacher = Teacher(ANCHOR, value.heuristic, SETTINGS, keep=True)
    seats = [teacher] + [policies.Hold()] * 6
    first, second = (
        game.play([seats], 1, [("teacher",)], game.EndRules(1902))[0].to_saved() for _ in range(2)
    )
    assert first == second
    assert len(teacher.records) > 4
