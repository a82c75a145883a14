"""Members of the pool, and who meets whom."""

import numpy as np
import pytest

from dipllm_lib.kto import games, humans, pool
from dipllm_lib.kto.pool import Answers, Mixed, Table
from dipllm_lib.kto.ultimatum import State, Ultimatum
from dipllm_lib.run import seeding


def test_people_answer_as_the_table_says():
    game, rng, member = Ultimatum(), seeding.child(0, "pool"), pool.people("ultimatum")
    said = [member(game, State(3), 1, rng) for _ in range(4000)]
    assert np.mean(np.array(said) == 0) == pytest.approx(humans.ultimatum_responder(0.3), abs=0.03)
    gave = pool.people("gift")
    assert gave.yes == 1 and gave.chances[10] == pytest.approx(humans.gift_pd(1.0))


def test_envious_responders_have_a_threshold():
    for k in range(20):
        member = pool.member("ultimatum", "envious", seeding.child(0, "envy", k))
        accepts = list(member.chances)
        assert accepts == sorted(accepts) and set(accepts) <= {0.0, 1.0} and accepts[5] == 1.0


def test_mixed_follows_its_chances_and_a_table_its_row():
    game, rng = Ultimatum(), seeding.child(0, "mixed")
    row = tuple(np.eye(11)[4] * 0.75 + np.eye(11)[5] * 0.25)
    said = np.array([Mixed(row)(game, State(), 0, rng) for _ in range(2000)])
    assert set(said) == {4, 5} and np.mean(said == 4) == pytest.approx(0.75, abs=0.04)
    table = Table({game.infoset(State(), 0): row})
    assert {table(game, State(), 0, rng) for _ in range(50)} == {4, 5}
    uniform = Table({game.infoset(State(), 0): row}, mix=1.0)
    assert len({uniform(game, State(), 0, rng) for _ in range(500)}) == 11
    with pytest.raises(KeyError):
        table(game, State(3), 1, rng)


def test_bargainers_keep_and_take_what_they_say():
    game = pool.catalogue(10)["bargaining"]
    episode = games.play(
        game, [pool.Bargainer(0.7, 0.6), pool.Bargainer(0.4, 0.3)], seeding.child(0, "talk")
    )
    assert episode.payoffs == pytest.approx((0.7, 0.3)) and len(episode.steps) == 2


def test_matches_number_their_episodes_apart():
    for matches in (pool.transcripts(20), pool.collection(20)):
        names = [(m.game, m.first + k) for m in matches for k in range(m.episodes)]
        assert len(set(names)) == len(names) and {m.game for m in matches} == set(pool.GAMES)
    assert all("" not in m.seats for m in pool.transcripts(20))
    assert all(m.seats.count("") == 1 for m in pool.collection(20))


def test_lengths_are_whole_per_cent():
    assert [pool.chance(n) for n in (2, 4, 10, 40, 100)] == [0.5, 0.75, 0.9, 0.97, 0.99]


def test_unknown_members_are_one_line():
    with pytest.raises(ValueError, match="no member 'nobody' of the game 'ultimatum'"):
        pool.member("ultimatum", "nobody", seeding.child(0, "x"))
    assert isinstance(pool.member("gift", "people", seeding.child(0, "x")), Answers)
