"""The two anchors of notebook 01, fitted small: what is measured, and what opens how often."""

import dataclasses

import numpy as np
import pytest

from dipllm_lib.dip import anchors, boards, collect, game, orders, policies
from dipllm_lib.run import profiles

SETTINGS = dataclasses.replace(
    profiles.load("smoke", 0).dip,
    bots_last_year=1902,
    bots_turns=6,
    anchor_epochs=1,
    anchor_width=8,
    anchor_hidden=8,
    bootstrap=50,
)


@pytest.fixture(scope="module")
def saved():
    return [collect.bots_game((SETTINGS, 0, number)) for number in range(10)]


@pytest.fixture(scope="module")
def nets(saved):
    return anchors.fit(saved, SETTINGS, 0)


def test_the_net_of_a_name(nets):
    assert nets.chosen("bots") is nets.bots and nets.chosen("human") is nets.human
    assert nets.human.parameters > 1_000_000 > nets.bots.parameters
    with pytest.raises(ValueError, match="the setting `anchor` is 'people': use bots or human"):
        nets.chosen("people")


def test_games_are_in_one_part_and_the_fit_is_repeatable(saved, nets):
    counts = [len(np.unique(part.game)) for part in nets.parts]
    assert sum(counts) == 10 and min(counts) >= 1
    again = anchors.fit(saved, SETTINGS, 0)
    assert again.bots.to_bytes() == nets.bots.to_bytes()


def test_a_net_has_no_divergence_from_itself_and_some_from_the_bot(nets):
    (row,) = anchors.imitation(nets, nets.bots, SETTINGS, 0).to_dict("records")
    assert row == {"turns": 6, "kl": 0, "kl_low": 0, "kl_high": 0}
    (row,) = anchors.imitation(nets, collect.bot(SETTINGS), SETTINGS, 0).to_dict("records")
    assert 0 < row["kl_low"] <= row["kl"] <= row["kl_high"]


def test_quality_takes_the_numbers_of_the_card_and_measures_the_other(nets):
    table = anchors.quality(nets, SETTINGS, 0).set_index(["anchor", "phases", "years"])
    known = nets.human.card["metrics"]["moves, all"]
    row = table.loc[("human", "moves", "all")]
    assert row["accuracy"] == pytest.approx(100 * known["accuracy"])
    assert row["nats"] == known["nats"] and row["exact"] == pytest.approx(100 * known["exact"])
    row = table.loc[("bots", "moves", "all")]
    assert 0 < row["accuracy"] < 100 and row["nats"] > 0


def test_openings_are_those_of_the_games(saved, nets):
    """Austria's most frequent first joint order, counted by hand from the saved games."""
    said = [", ".join(one["phases"][0]["orders"]["AUSTRIA"]) for one in saved]
    turn = next(turn for turn in orders.turns(boards.start()) if turn.name == "AUSTRIA")
    joints = [orders.parse_joint(turn, text.split(", ")) for text in said]
    in_slots = [", ".join(map(orders.to_text, joint)) for joint in joints]
    table = anchors.first_moves(nets.bots, nets.openings("bots"))
    rows = table[table["power"] == "AUSTRIA"]
    assert 1 <= len(rows) <= 3
    for row in rows.itertuples():
        assert row.frequency == pytest.approx(in_slots.count(row.joint) / 10)
        joint = orders.parse_joint(turn, row.joint.split(", "))
        (expected,) = np.exp(nets.bots.log_prob(turn, [joint]))
        assert row.probability == pytest.approx(expected)
    people = anchors.first_moves(nets.human, nets.openings("human"), most=2)
    assert people.groupby("power").size().tolist() == [2] * 7
    assert (people["frequency"] > 0.01).all()


def test_a_cooling_player_changes_its_policy_with_the_year():
    player = policies.Cooling(policies.RandBot(), policies.Hold(), 1902)
    assert player.name == "Hold"
    played = game.play([[player] * 7] * 2, 0, [("cool", g) for g in range(2)], game.EndRules(1902))
    for one in played:
        years = one.boards.year[:-1]
        moves = np.isin(one.boards.phase[:-1], boards.MOVES)
        for k in np.flatnonzero(moves):
            said = [text for texts in one.orders[k].values() for text in texts]
            still = all(text.endswith(" H") for text in said)
            assert still == (years[k] >= 1902)
