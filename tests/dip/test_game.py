"""Whole games: played, ended by a named rule, saved, loaded, held against the package."""

import json
import warnings

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, game, orders, rules, states
from dipllm_lib.dip.generate import coherent, played


class Uniform:
    """A uniform legal order for each slot; notes how often it is asked."""

    def __init__(self, name="uniform"):
        self.name, self.calls = name, 0

    def act(self, turns, rngs):
        self.calls += 1
        return [self._joint(turn, rng) for turn, rng in zip(turns, rngs)]

    def _joint(self, turn, rng):
        joint = ()
        while len(joint) < turn.slots:
            joint += (int(rng.choice(turn.options(joint))),)
        return joint


class Waits(Uniform):
    """Holds in movement phases."""

    def _joint(self, turn, rng):
        if turn.phase[-1] == "M":
            return tuple(int(orders.from_text(f"{unit} H")) for unit in turn.units)
        return super()._joint(turn, rng)


def play(n, end, seed=0, policy=Uniform):
    player = policy()
    return game.play([[player] * 7] * n, seed, [("test", g) for g in range(n)], end)


@pytest.fixture(scope="module")
def games():
    return play(4, game.EndRules(1908))


def dump(value) -> str:
    return json.dumps(value, sort_keys=True)


def test_games_end_by_a_named_rule_and_hold_the_rules(games):
    for g in games:
        assert g.end == "last_year" and boards.phase_name(g.boards, -1) == "COMPLETED"
        assert len(g.orders) == len(g.results) == g.boards.n
        last = g.boards.n - 2
        assert boards.phase_name(g.boards, last) in ("F1908M", "F1908R")
        assert g.final_centres.sum() <= 34 and g.positions().n == last + 1
        assert g.agents == ("uniform",) * 7 and g.id.startswith("0-test-")
        for k in range(last):
            b, given = g.boards.take([k]), g.orders[k]
            time = [(int(g.boards.year[j]), int(g.boards.phase[j])) for j in (k, k + 1)]
            assert time[0] < time[1]
            assert {t.name for t in orders.turns(b)} == set(given)
            if b.phase[0] == boards.ADJUSTMENTS:
                counts = rules.centres(b)[0], boards.units(g.boards.take([k + 1]))[0]
                assert (counts[1] <= counts[0]).all()


def test_no_power_builds_outside_its_homes(games):
    for g in games:
        for k in range(g.boards.n):
            for name, texts in g.orders[k].items():
                for text in texts:
                    if text.endswith(" B"):
                        home = atlas.HOME[atlas.PROV_OF[atlas.location(text[2:-2])]]
                        assert home == atlas.power(name)


def test_same_seed_same_bytes_whatever_is_played_beside(games):
    again = play(4, game.EndRules(1908))
    assert [dump(g.to_saved()) for g in again] == [dump(g.to_saved()) for g in games]
    alone = game.play([[Uniform()] * 7], 0, [("test", 2)], game.EndRules(1908))
    assert dump(alone[0].to_saved()) == dump(games[2].to_saved())
    assert dump(play(1, game.EndRules(1908), seed=1)[0].to_saved()) != dump(games[0].to_saved())


def test_one_call_a_round_for_each_policy_object():
    one, other = Uniform("one"), Uniform("other")
    (g,) = game.play([[one] * 3 + [other] * 4], 0, [("x",)], game.EndRules(1901))
    assert one.calls <= g.boards.n - 1 and other.calls <= g.boards.n - 1
    assert g.agents == ("one",) * 3 + ("other",) * 4


def test_saved_games_come_back_as_the_same_bytes(games):
    for g in games:
        data = g.to_saved()
        copy = game.Game.from_saved(json.loads(dump(data)))
        assert dump(copy.to_saved()) == dump(data)
        assert (copy.id, copy.agents, copy.seed, copy.end) == (g.id, g.agents, g.seed, g.end)
        for k in range(g.boards.n - 1):
            assert [t.power for t in orders.turns(copy.boards, k)] == [
                t.power for t in orders.turns(g.boards, k)
            ]
            for ours, theirs in zip(orders.turns(copy.boards, k), orders.turns(g.boards, k)):
                assert all(np.array_equal(x, y) for x, y in zip(ours.lists, theirs.lists))
                joint = copy.joint(k, ours.power)
                assert sorted(map(orders.to_text, joint)) == g.orders[k][ours.name]


def test_saved_form_has_nothing_that_changes_from_run_to_run(games):
    data = games[0].to_saved()
    assert set(data) == {"agents", "end", "id", "map", "phases", "rules", "seed"}
    for phase in data["phases"]:
        assert set(phase) == {"messages", "name", "orders", "results", "state"}
        assert set(phase["state"]) == {"name", "units", "retreats", "centers", "homes"}
        for key in ("units", "centers", "homes"):
            assert all(listed == sorted(listed) for listed in phase["state"][key].values())


def test_the_package_loads_and_replays_saved_games(games):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from diplomacy.utils.export import from_saved_game_format
    for g in games:
        loaded = from_saved_game_format(json.loads(dump(g.to_saved())))
        assert loaded.get_current_phase() == "COMPLETED"
        units = {name: sorted(loaded.get_units(name)) for name in atlas.POWERS}
        assert units == states.to_state(g.boards, -1)["units"]
        table = game.replay_on_package(g)
        assert list(table.columns) == ["phase", "cause"]
        assert set(table.cause) <= {"B1", "B2", "B3", "B4", "B5", "C1"}


def test_replay_refuses_a_record_that_does_not_follow(games):
    data = games[0].to_saved()
    data["phases"][1]["state"]["units"]["FRANCE"][0] = "A PIE"
    for phase in data["phases"][1:]:
        phase["orders"] = {}
    with pytest.raises(ValueError, match="F1901M does not follow from the orders"):
        game.replay_on_package(game.Game.from_saved(data))


def test_end_rules():
    (g,) = play(1, game.EndRules(1930, stalemate_years=3), policy=Waits)
    assert g.end == "stalemate" and boards.phase_name(g.boards, -2) == "F1903M"
    (g,) = play(1, game.EndRules(1930, end_draws=((1904, 1.0),)), policy=Waits)
    assert g.end == "draw" and boards.phase_name(g.boards, -2) == "F1903M"
    (g,) = play(1, game.EndRules(1930, solo=3), policy=Waits)
    assert g.end == "solo" and boards.phase_name(g.boards, -2) == "F1901M"
    rule = game.EndRules(1930, end_draws=((1909, 0.2), (1914, 0.4)))
    assert [rule.draw_probability(y) for y in (1908, 1909, 1913, 1914, 1920)] == [
        0,
        0.2,
        0.2,
        0.4,
        0.4,
    ]
    ends = [g.end for g in play(40, game.EndRules(1903, end_draws=((1902, 0.5),)), policy=Waits)]
    assert 10 < ends.count("draw") < 40 and ends.count("last_year") == 40 - ends.count("draw")


@pytest.mark.parametrize(
    "bad",
    [
        dict(last_year=1900),
        dict(last_year=1910, solo=0),
        dict(last_year=1910, stalemate_years=-1),
        dict(last_year=1910, end_draws=((1905, 1.5),)),
    ],
)
def test_bad_end_rules(bad):
    with pytest.raises(ValueError):
        game.EndRules(**bad)


class Wrong(Uniform):
    def _joint(self, turn, rng):
        return (0,) * turn.slots


def test_an_illegal_answer_stops_the_game():
    with pytest.raises(ValueError, match="AUSTRIA S1901M: illegal order"):
        play(1, game.EndRules(1901), policy=Wrong)
    with pytest.raises(ValueError, match="need one name each"):
        game.play([[Uniform()] * 7] * 2, 0, [("a",), ("a",)], game.EndRules(1901))
    with pytest.raises(ValueError, match="seven policies"):
        game.play([[Uniform()] * 6], 0, [("a",)], game.EndRules(1901))


def test_states_keep_every_option():
    seen = 0
    for b, _ in played(3000, np.random.default_rng(8), coherent):
        for i in np.flatnonzero(np.isin(b.phase, boards.RETREATS)):
            state = states.to_state(b, i)
            back = states.from_state(json.loads(json.dumps(state)))
            assert states.to_state(back) == state
            for ours, theirs in zip(orders.turns(back), orders.turns(b, i)):
                assert all(np.array_equal(x, y) for x, y in zip(ours.lists, theirs.lists))
                seen += 1
    assert seen > 100
    start = rules.start()
    assert states.from_state(states.to_state(start)).same(start)


FAR_AWAY = {"FRANCE": {"A BUR": ["ROM"]}}


def broken(change) -> dict:
    state = states.to_state(rules.start())
    change(state)
    return state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("units"), "it has no 'units'"),
        (lambda s: s.update(name="S19X1M"), "unknown phase"),
        (lambda s: s["units"].update(GAUL=["A PAR"]), "unknown power 'GAUL'"),
        (lambda s: s["units"]["FRANCE"].append("A XYZ"), "unknown province 'XYZ'"),
        (lambda s: s["units"]["FRANCE"].append("F MUN"), "impossible unit 'F MUN'"),
        (lambda s: s["units"]["FRANCE"].append("F STP"), "impossible unit 'F STP'"),
        (lambda s: s["units"]["FRANCE"].append("A MUN"), "two units in MUN"),
        (lambda s: s["centers"]["FRANCE"].append("MUN"), "MUN has two owners"),
        (lambda s: s["centers"]["FRANCE"].append("BUR"), "BUR is no supply centre"),
        (lambda s: s["homes"]["FRANCE"].append("BEL"), "homes of FRANCE"),
        (lambda s: s["units"]["FRANCE"].append("*A BUR"), "outside a retreat phase"),
        (
            lambda s: s.update(name="S1901R", retreats={"FRANCE": {"A BUR": ["ROM"]}}),
            "cannot reach ROM",
        ),
        (lambda s: s.update(name="S1901R", units={"FRANCE": ["*A BUR"]}), "no retreats are given"),
    ],
)
def test_impossible_states(change, message):
    with pytest.raises(ValueError, match=message):
        states.from_state(broken(change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(phases=[]), "it has no phases"),
        (lambda d: d.update(map="modern"), "only the standard map"),
        (lambda d: d["phases"].reverse(), "after"),
        (lambda d: d["phases"][0]["orders"]["FRANCE"].append("A PAR H"), "a second order for PAR"),
        (lambda d: d["phases"][0]["orders"]["FRANCE"].append("A MUN H"), "belongs to GERMANY"),
        (lambda d: d["phases"][0]["orders"]["FRANCE"].append("A GAS H"), "no unit A GAS"),
    ],
)
def test_impossible_saved_games(games, change, message):
    data = json.loads(dump(games[0].to_saved()))
    change(data)
    with pytest.raises(ValueError, match=message):
        game.Game.from_saved(data)
