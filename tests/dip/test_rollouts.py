"""Random games on arrays: what they draw, where they end, and that `game` plays the same ones."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, game, legal, legalise, orders, rollouts, states
from dipllm_lib.run import seeding

END = game.EndRules(1906)


@pytest.fixture(scope="module")
def kept():
    return rollouts.play(boards.start(), np.arange(40), 3, END, keep=True)


def same(one: rollouts.Rollouts, other: rollouts.Rollouts) -> bool:
    arrays = [(one.phases, other.phases), (one.end, other.end), (one.numbers, other.numbers)]
    return one.boards.same(other.boards) and all(np.array_equal(a, b) for a, b in arrays)


def part(played: rollouts.Rollouts, rows) -> rollouts.Rollouts:
    fields = [played.numbers, played.phases, played.end]
    numbers, phases, end = (field[rows] for field in fields)
    return rollouts.Rollouts(played.seed, numbers, played.boards.take(rows), phases, end, None)


def test_a_game_is_the_same_whatever_is_played_beside_it(monkeypatch):
    numbers = np.array([7, 0, 3, 12, 5, 600, 2])
    whole = rollouts.play(boards.start(), numbers, 1, END)
    for rows in ([6, 2, 0], [4], [1, 3, 5]):
        alone = rollouts.play(boards.start(), numbers[rows], 1, END)
        assert same(alone, part(whole, rows))
    monkeypatch.setattr(rollouts, "BLOCK", 3)
    assert same(rollouts.play(boards.start(), numbers, 1, END), whole)
    assert not same(rollouts.play(boards.start(), numbers, 2, END), whole)
    assert len({whole.boards.owner[g].tobytes() for g in range(7)}) == 7


def test_a_game_stopped_and_played_on_is_the_same_game():
    numbers = np.arange(20)
    whole = rollouts.play(boards.start(), numbers, 4, END)
    half = rollouts.play(boards.start(), numbers, 4, END, limit=9)
    assert (half.phases == 9).all() and (half.end == 0).all()
    rest = rollouts.play(half.boards, numbers, 4, END)
    assert rest.boards.same(whole.boards) and np.array_equal(rest.phases + 9, whole.phases)
    assert np.array_equal(rest.end, whole.end)
    none = rollouts.play(boards.start(), numbers, 4, END, limit=0, keep=True)
    assert none.boards.same(boards.start(20)) and none.record.boards.n == 0


def test_from_many_positions_each_with_its_own_number():
    starts = rollouts.play(boards.start(), np.arange(30), 5, END, limit=6).boards
    numbers = np.arange(100, 130)
    together = rollouts.play(starts, numbers, 6, END, limit=4)
    for i in (0, 13, 29):
        alone = rollouts.play(starts.take([i]), numbers[[i]], 6, END, limit=4)
        assert same(alone, part(together, [i]))
    copies = rollouts.play(starts.take([0]), np.arange(50), 6, END, limit=4)
    assert len({copies.boards.loc[g].tobytes() for g in range(50)}) == 50


def test_counts_fit_and_games_end_where_they_should(kept):
    assert np.array_equal(np.bincount(kept.record.game, minlength=40), kept.phases)
    assert set(kept.end) == {rollouts.LAST_YEAR}
    assert (kept.boards.phase == boards.OVER).all() and (kept.boards.year == 1906).all()
    which, positions, given = kept.record
    assert not legalise.legalise(positions, given)[1].any()
    units, centres = boards.units(positions), boards.centres(positions)
    assert (positions.unit > 0).sum() == units.sum() and centres.sum(axis=1).max() <= 34
    assert set(positions.phase.tolist()) == {0, 1, 2, 3, 4}
    for k in np.flatnonzero(positions.phase == boards.ADJUSTMENTS):
        free = (positions.unit[k] == 0) & (positions.owner[k] == atlas.HOME)
        homes = np.bincount(atlas.HOME[free & (atlas.HOME >= 0)], minlength=7)
        room = np.minimum(centres[k] - units[k], homes)
        assert np.array_equal(units[k] + np.where(room < 0, centres[k] - units[k], room),
                              boards.units(positions.take([k + 1]))[0])  # fmt: skip


class Script:
    """Plays the orders of one recorded game again."""

    name = rollouts.AGENT

    def __init__(self, record: game.Game):
        names = [boards.phase_name(record.boards, k) for k in range(record.boards.n)]
        self.orders = dict(zip(names, record.orders, strict=True))

    def act(self, turns, rngs):
        return [orders.sorted_joint(t, self.orders[t.phase][t.name]) for t in turns]


ENDINGS = (
    game.EndRules(1904),
    game.EndRules(1930, solo=5),
    game.EndRules(1912, stalemate_years=1),
    game.EndRules(1908, end_draws=((1903, 0.3), (1905, 0.6))),
)


@pytest.mark.parametrize("end", ENDINGS)
def test_the_driver_of_games_makes_the_same_games_of_the_same_orders(end):
    """Positions, results, ends, draws included: two programs, one game."""
    numbers = np.arange(6) + 50
    played = rollouts.games(rollouts.play(boards.start(), numbers, 9, end, keep=True))
    for number, ours in zip(numbers.tolist(), played, strict=True):
        names = [("rollouts", number)]
        (theirs,) = game.play([[Script(ours)] * 7], 9, names, end)
        assert json.dumps(ours.to_saved()) == json.dumps(theirs.to_saved())
        assert ours.boards.same(theirs.boards) and ours.end == theirs.end
        copy = game.Game.from_saved(json.loads(json.dumps(ours.to_saved())))
        assert copy.to_saved() == ours.to_saved()
    ends = Counter(g.end for g in played)
    rule = ("last_year", "solo", "stalemate", "draw")[ENDINGS.index(end)]
    assert ends[rule] >= 2, ends


def test_the_retreats_of_the_last_fall_are_played():
    """Centres are counted after them; games found among 200 by their record."""
    end = game.EndRules(1902)
    played = rollouts.play(boards.start(), np.arange(200), 13, end, keep=True)
    last = np.searchsorted(played.record.game, np.arange(200), side="right") - 1
    late = np.flatnonzero(played.record.boards.phase[last] == boards.FALL_RETREATS)[:3]
    assert len(late) == 3
    recorded = rollouts.games(rollouts.play(boards.start(), late, 13, end, keep=True))
    for number, ours in zip(late.tolist(), recorded, strict=True):
        (theirs,) = game.play([[Script(ours)] * 7], 13, [("rollouts", number)], end)
        assert json.dumps(theirs.to_saved()) == json.dumps(ours.to_saved())


def test_the_record_does_not_depend_on_the_blocks(kept, monkeypatch):
    monkeypatch.setattr(rollouts, "BLOCK", 7)
    cut = rollouts.play(boards.start(), np.arange(40), 3, END, keep=True).record
    assert np.array_equal(cut.game, kept.record.game) and cut.boards.same(kept.record.boards)
    assert all(np.array_equal(x, y) for x, y in zip(cut.orders, kept.record.orders, strict=True))


def test_recorded_games_hold_on_the_package(kept):
    causes = Counter()
    for record in rollouts.games(kept)[:8]:
        causes.update(game.replay_on_package(record).cause)
    assert set(causes) <= {"B1", "B2", "B3"}, causes


def test_every_legal_order_is_equally_likely():
    """The opening, drawn 20,000 times: chi-square of each unit, all orders and no other."""
    n, start = 20000, boards.start()
    given = rollouts.draw(boards.start(n), 11, np.arange(n))
    lists = legal.legal_orders(start)
    for u, p in enumerate(lists.province.tolist()):
        expected = len(lists.of(u))
        drawn = Counter(zip(*(field[:, p].tolist() for field in given), strict=True))
        assert len(drawn) == expected
        chi = sum((count - n / expected) ** 2 for count in drawn.values()) * expected / n
        # mean of the distribution: expected - 1; its standard deviation: sqrt(2 * (expected - 1))
        assert abs(chi - (expected - 1)) < 5 * np.sqrt(2 * (expected - 1)), (p, chi)


def adjustment(units: str, centres: str) -> boards.Boards:
    state = {"name": "W1905A", "units": {"FRANCE": units.split(", ")}, "retreats": {}}
    return states.from_state(state | {"centers": {"FRANCE": centres.split()}, "homes": {}})


@pytest.mark.parametrize(
    ("units", "centres", "chosen", "due"),
    [
        ("A BUR, A GAS, A PIC, F MAO, F ENG", "PAR MAR", "BUR GAS PIC MAO ENG", 3),
        ("A BUR", "PAR MAR BRE", "PAR MAR BRE", 2),
        ("A BUR, A BRE", "PAR MAR BRE BEL SPA", "PAR MAR", 2),
    ],
)
def test_every_set_of_builds_or_removals_is_equally_likely(units, centres, chosen, due):
    n, start = 12000, adjustment(units, centres)
    given = rollouts.draw(start.take(np.zeros(n, int)), 12, np.arange(n))
    ordered = given.kind != boards.HOLD
    ids = [atlas.location(code) for code in chosen.split()]
    assert (ordered.sum(axis=1) == due).all() and ordered[:, ids].sum() == n * due
    sets = Counter(tuple(row) for row in ordered[:, ids].tolist())
    wanted = len(list(itertools.combinations(ids, due)))
    assert len(sets) == wanted
    chi = sum((count - n / wanted) ** 2 for count in sets.values()) * wanted / n
    assert chi < (wanted - 1) + 5 * np.sqrt(2 * max(wanted - 1, 1))
    if "MAR" in chosen.split():  # an army or a fleet, half each
        fleets = (given.kind[:, atlas.location("MAR")] == boards.BUILD_FLEET).sum()
        built = ordered[:, atlas.location("MAR")].sum()
        assert abs(fleets / built - 0.5) < 5 * 0.5 / np.sqrt(built)


def test_draws_of_different_units_phases_games_and_seeds_do_not_go_together():
    """Correlation of the numbers drawn; 5 standard deviations of independent ones."""
    n, rng = 4000, seeding.child(0, "rollouts test")
    start = boards.start(n)
    later = start.copy()
    later.year[:] = 1902
    kinds = {
        "one": rollouts.draw(start, 1, np.arange(n)).a,
        "seed": rollouts.draw(start, 2, np.arange(n)).a,
        "game": rollouts.draw(start, 1, np.arange(n) + 1).a,
        "year": rollouts.draw(later, 1, np.arange(n)).a,
        "shuffled": rollouts.draw(start, 1, rng.permutation(n)).a,
    }
    places = np.flatnonzero(atlas.START_UNIT)
    columns = np.concatenate([drawn[:, places] for drawn in kinds.values()], axis=1)
    found = np.corrcoef(columns.T.astype(float)) - np.eye(columns.shape[1])
    assert np.abs(found).max() < 5 / np.sqrt(n)


def test_bad_input_is_refused_in_one_line():
    over = boards.start()
    over.phase[0] = boards.OVER
    few = np.arange(2)
    for message, starts, numbers, seed, limit in (
        ("position 0: the game is over", over, few, 0, None),
        ("2 games from 3 positions", boards.start(3), few, 0, None),
        ("limit=-1", boards.start(), few, 0, -1),
        ("seed -1", boards.start(), few, -1, None),
        ("numbers of games", boards.start(), few - 1, 0, None),
    ):
        with pytest.raises(ValueError, match=message):
            rollouts.play(starts, numbers, seed, END, limit)
    with pytest.raises(ValueError, match="keep=True"):
        rollouts.games(rollouts.play(boards.start(), few, 0, END, limit=1))
