"""Probes: numbers of strategies whose play is known, pairing of noise levels, and the tables."""

import numpy as np
import pytest

from dipllm_lib.ipd import evaluate, exact, game, tabular
from dipllm_lib.ipd.batch_play import MemoryOne
from dipllm_lib.ipd.certainty import CertaintyEquivalent
from dipllm_lib.ipd.evaluate import ProbeSettings
from dipllm_lib.run import seeding

AGENTS = [(0, 0), (0, 1), (7, 0), (7, 1)]
TEN = ProbeSettings(rounds=30, games=40)


def probed(name, settings=TEN, **more):
    levels = {"on": MemoryOne(tabular.named(name))} | more
    return evaluate.probe(levels, AGENTS, 3, settings)


def row(found, opponent, seed=7, seat=1):
    table = found.table()
    picked = table[(table.seed == seed) & (table.seat == seat) & (table.opponent == opponent)]
    assert len(picked) == 1
    return picked.iloc[0]


def test_tables_have_one_row_per_seed_phase_seat_opponent_and_noise():
    found = probed("TFT", half=MemoryOne(tabular.named("AllD")))
    table, rounds = found.table(), found.by_round()
    assert len(table) == 4 * 5 * 2 and len(rounds) == len(table) * 30
    assert not table.duplicated(list(evaluate.KEYS)).any()
    assert set(table.phase) == {3} and set(table.games) == {40}
    keys = [*evaluate.KEYS, "round"]
    assert not rounds.duplicated(keys).any() and set(rounds["round"]) == set(range(1, 31))
    means = rounds.groupby(list(evaluate.KEYS))["other_cooperation"].mean()
    expected = table.set_index(list(evaluate.KEYS))["other_cooperation"]
    assert means.loc[expected.index].to_numpy() == pytest.approx(expected.to_numpy())


def test_known_games_have_their_numbers():
    """TFT with TFT and AllC: all C. TFT with AllD: C once in 30 rounds, so -1/30 and 2/30."""
    found = probed("TFT")
    for opponent in ("learner", "TFT", "AllC"):
        x = row(found, opponent)
        assert (x.reward, x.cooperation, x.other_reward, x.other_cooperation) == (1, 1, 1, 1)
    x = row(found, "AllD")
    assert (x.reward, x.other_reward) == pytest.approx((-1 / 30, 2 / 30))
    assert (x.early, x.late, x.other_late) == pytest.approx((1 / 5, 0, 0))
    curve = found.by_round().query("seed == 0 and seat == 0 and opponent == 'AllD'")
    assert curve.cooperation.tolist() == [1.0] + [0.0] * 29


def test_reward_follows_from_the_two_cooperation_rates_in_every_row():
    for name in ("random", "GTFT", "WSLS"):
        table = probed(name).table()
        left = 2 * table.other_cooperation - table.cooperation
        assert table.reward.to_numpy() == pytest.approx(left.to_numpy())
        right = 2 * table.cooperation - table.other_cooperation
        assert table.other_reward.to_numpy() == pytest.approx(right.to_numpy())


def test_alld_plays_the_same_opponents_with_the_same_chance():
    """The probe of AllD itself earns exactly its own reference; AllD earns 1 on the pool."""
    table = probed("AllD", ProbeSettings(rounds=30, games=2000)).table()
    pool = table[table.opponent == "tabular"]
    assert pool.reward.to_numpy() == pytest.approx(pool.alld.to_numpy(), abs=1e-12)
    # The SD of AllD's mean reward per game is below 2; four learners with 2000 games each.
    assert pool.alld.mean() == pytest.approx(1.0, abs=4 * 2 / np.sqrt(8000))
    assert row(probed("TFT"), "TFT").alld == pytest.approx(2 / 30)
    assert np.isnan(row(probed("TFT"), "learner").alld)


def test_levels_meet_the_same_opponents_and_phases_meet_others():
    same = probed("random", off=MemoryOne(tabular.named("random"))).table()
    levels = [same[same.noise == level].reset_index(drop=True) for level in ("on", "off")]
    assert levels[0].drop(columns="noise").equals(levels[1].drop(columns="noise"))
    later = evaluate.probe({"on": MemoryOne(tabular.named("random"))}, AGENTS, 4, TEN).table()
    first = levels[0].reward.to_numpy()
    assert not np.array_equal(later.reward.to_numpy(), first)


def test_a_seed_is_probed_alike_in_any_stack():
    alone = evaluate.probe({"on": MemoryOne(tabular.named("random"))}, AGENTS[2:], 3, TEN)
    both = probed("random").table()
    assert both[both.seed == 7].reset_index(drop=True).equals(alone.table())


def test_order_and_choice_of_opponents():
    chosen = ProbeSettings(rounds=30, games=40, opponents=("GRIM", "tabular", "learner"))
    few, all_five = probed("random", chosen), probed("random")
    assert set(few.table().opponent) == {"GRIM", "tabular", "learner"}
    assert row(few, "learner").cooperation == row(all_five, "learner").cooperation
    assert row(probed("AllD", chosen), "GRIM").reward == pytest.approx(2 / 30)
    alone = probed("TFT", ProbeSettings(rounds=5, games=3, opponents=("learner",)))
    assert alone.table().alld.isna().all() and (alone.table().cooperation == 1).all()


class Told:
    """An Actor that plays C exactly where it is told z = 0."""

    chunk = 1000

    def start(self, table):
        return ~table.z.any(dim=2)

    def act(self, state, obs, u, noise):
        return state, state


def test_agents_with_identity_are_told_whom_they_play():
    """z is 0 in the games against the other learner and the opponent's code elsewhere."""
    settings = ProbeSettings(rounds=5, games=3, identity="opponent")
    table = evaluate.probe({"on": Told()}, AGENTS, 3, settings).table()
    cooperation = table.groupby("opponent").cooperation.mean()
    assert cooperation["learner"] == 1.0 and cooperation.drop("learner").max() == 0.0


@pytest.mark.parametrize(
    "change, message",
    [
        ({"games": 0}, "at least one game"),
        ({"opponents": ("TFT", "TFT")}, "named twice"),
        ({"opponents": ("TFT2",)}, "unknown strategy 'TFT2'"),
    ],
)
def test_probes_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ProbeSettings(**({"rounds": 30} | change))


def test_the_arrays_of_a_probe_give_it_back():
    found = probed("random")
    again = evaluate.Probe(TEN, AGENTS, 3, ("on",), **found.arrays())
    assert again.table().equals(found.table())


def test_frozen_agents_and_the_bayes_player_are_opponents():
    """TFT with a frozen AllD as with AllD; with the player that counts as in single games."""
    settings = ProbeSettings(rounds=30, games=4, opponents=("frozen", "Bayes", "AllD"))
    levels = {"on": MemoryOne(tabular.named("TFT"))}
    frozen = MemoryOne(tabular.named("AllD"))
    found = evaluate.probe(levels, AGENTS, 3, settings, frozen)
    x, y = row(found, "frozen"), row(found, "AllD")
    assert (
        (x.reward, x.other_reward) == (y.reward, y.other_reward) == pytest.approx((-1 / 30, 2 / 30))
    )
    assert np.isnan(x.alld) and not np.isnan(y.alld)
    left = tabular.Tabular(tabular.named("TFT"))
    pair = seeding.child(0, "x"), seeding.child(0, "y")
    games = game.play(left, CertaintyEquivalent(30), 1, 30, pair)
    curve = found.by_round().query("seed == 7 and seat == 1 and opponent == 'Bayes'")
    assert curve["other_cooperation"].tolist() == games.right[0].tolist()
    with pytest.raises(ValueError, match="needs the frozen agents"):
        evaluate.probe(levels, AGENTS, 3, settings)


def test_given_opponents_change_nothing_for_the_others():
    levels = {"on": MemoryOne(tabular.named("random"))}
    some = ProbeSettings(rounds=20, games=6, opponents=("learner", "TFT", "tabular"))
    more = ProbeSettings(rounds=20, games=6, opponents=("Bayes", "learner", "TFT", "tabular"))
    a, b = (evaluate.probe(levels, AGENTS, 3, x).table() for x in (some, more))
    b = b[b["opponent"] != "Bayes"].reset_index(drop=True)
    assert a.equals(b)


def test_zd_players_are_opponents_by_name():
    levels = {"on": MemoryOne(tabular.named("AllC"))}
    found = evaluate.probe(levels, AGENTS, 1, ProbeSettings(40, 50, ("ZD3",)))
    got = row(found, "ZD3")
    s_x, s_y = exact.finite(tabular.zd(3.0, first=0.0), tabular.named("AllC"), 40)
    assert (got.other_reward, got.reward) == pytest.approx((s_x[0], s_y[0]), abs=0.1)
    with pytest.raises(ValueError, match="unknown strategy 'ZD'"):
        ProbeSettings(40, 50, ("ZD",))
