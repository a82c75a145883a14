"""Bad input through the real entry points: always one ValueError, in one line that says what is
wrong and where; never a silent hold, never an error from deep inside.
"""

import json
import warnings

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, game, legalise, orders, rules, states
from dipllm_lib.dip import vocabulary as v

START = rules.start()
OVER = START._replace(phase=np.array([boards.OVER], np.int8))
FRANCE = atlas.power("FRANCE")


class Holds:
    """The first legal order in each slot, which is to hold."""

    name = "holds"

    def act(self, turns, rngs):
        return [tuple(int(ids[0]) for ids in turn.lists) for turn in turns]


def play(names) -> list[game.Game]:
    return game.play([[Holds()] * 7] * len(names), 0, names, game.EndRules(1901))


(SAVED,) = [g.to_saved() for g in play([("x",)])]


def refused(message: str, call, *args, **kwargs) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def winter(units: list[str], centres: list[str]) -> boards.Boards:
    state = {"name": "W1905A", "units": {"FRANCE": units}, "centers": {"FRANCE": centres}}
    return states.from_state(state)


TWO_BUILDS = winter(["A GAS"], ["PAR", "MAR", "BRE"])
ONE_REMOVAL = winter(["A GAS", "A BUR"], ["PAR"])
GONE = states.from_state({
    "name": "S1905R", "centers": {}, "units": {"FRANCE": ["*A BUR"], "GERMANY": ["A BUR"]},
    "retreats": {"FRANCE": {"A BUR": ["GAS", "PIC"]}},
})  # fmt: skip


@pytest.mark.parametrize(
    ("position", "given", "message"),
    [
        (START, ["A PAR H"], "S1901M: orders must be lists of texts by power, not"),
        (START, None, "S1901M: orders must be lists of texts by power, not None"),
        (START, {"FRANCE": "A PAR H"}, "FRANCE S1901M: orders must be a list of texts, not"),
        (START, {"FRANCE": None}, "FRANCE S1901M: orders must be a list of texts, not None"),
        (START, {"FRANCE": [3]}, r"FRANCE S1901M: orders must be a list of texts, not \[3\]"),
        (START, {"FRANCE": [b"A PAR H"]}, "FRANCE S1901M: orders must be a list of texts"),
        (START, {"GAUL": ["A PAR H"]}, "unknown power 'GAUL': known are AUSTRIA"),
        (START, {"france": ["A PAR H"]}, "unknown power 'france'"),
        (START, {2: ["A PAR H"]}, "unknown power 2"),
        (START, {"FRANCE": [""]}, "FRANCE S1901M: unreadable order ''"),
        (START, {"FRANCE": ["A"]}, "FRANCE S1901M: unreadable order 'A'"),
        (START, {"FRANCE": ["A PAR -"]}, "FRANCE S1901M: unreadable order 'A PAR -'"),
        (START, {"FRANCE": ["F BRE C"]}, "FRANCE S1901M: unreadable order 'F BRE C'"),
        (START, {"FRANCE": ["A PAR H\nA MAR H"]}, "FRANCE S1901M: unreadable order"),
        (START, {"FRANCE": ["A XYZ H"]}, "FRANCE S1901M: 'A XYZ H': unknown province 'XYZ'"),
        (START, {"FRANCE": ["A PAR - XYZ"]}, "'A PAR - XYZ': unknown province 'XYZ'"),
        (START, {"FRANCE": ["A GAS H"]}, "FRANCE S1901M: 'A GAS H': no unit A GAS stands there"),
        (START, {"FRANCE": ["F PAR H"]}, "FRANCE S1901M: impossible order 'F PAR H'"),
        (START, {"FRANCE": ["F MAR H"]}, "FRANCE S1901M: 'F MAR H': no unit F MAR stands there"),
        (START, {"RUSSIA": ["F STP/NC - BAR"]}, "no unit F STP/NC stands there"),
        (START, {"FRANCE": ["A MUN H"]}, "FRANCE S1901M: 'A MUN H': A MUN belongs to GERMANY"),
        (START, {"FRANCE": ["A PAR H", "PAR - BUR"]}, "a second order for PAR, after 'A PAR H'"),
        (START, {"FRANCE": ["A PAR H"], "ITALY": ["A PAR H"]}, "a second order for PAR"),
        (START, {"FRANCE": ["A PAR - NTH"]}, "FRANCE S1901M: impossible order 'A PAR - NTH'"),
        (START, {"FRANCE": ["A PAR S A PAR"]}, "impossible order 'A PAR S A PAR'"),
        (START, {"FRANCE": ["A PAR S A GAS"]}, r"S1901M: illegal order 'A PAR S \? GAS'"),
        (START, {"FRANCE": ["A PAR C A MAR - SPA"]}, "impossible order 'A PAR C A MAR - SPA'"),
        (START, {"FRANCE": ["A MAR - NAP VIA"]}, "S1901M: illegal order 'A MAR - NAP VIA'"),
        (START, {"FRANCE": ["A PAR R BUR"]}, "S1901M: illegal order 'A PAR R BUR'"),
        (START, {"FRANCE": ["A PAR D"]}, "S1901M: illegal order 'A PAR D'"),
        (START, {"ENGLAND": ["A EDI B"]}, "S1901M: illegal order 'A EDI B'"),
        (START, {"FRANCE": ["WAIVE"]}, "'WAIVE': nothing can be waived outside an adjustment"),
        (OVER, {"FRANCE": ["A PAR H"]}, "FRANCE COMPLETED: 'A PAR H': the game is over"),
        (TWO_BUILDS, {"FRANCE": ["A PAR B", "A MAR B", "F BRE B"]}, "one more build or removal"),
        (TWO_BUILDS, {"FRANCE": ["A PAR B", "A MAR B", "WAIVE"]}, "one more build or removal"),
        (TWO_BUILDS, {"FRANCE": ["A PAR B", "F PAR B"]}, "impossible order 'F PAR B'"),
        (TWO_BUILDS, {"FRANCE": ["A MAR B", "F MAR B"]}, "a second order for MAR"),
        (TWO_BUILDS, {"FRANCE": ["A MUN B"]}, "'A MUN B': no home centre that FRANCE owns"),
        (TWO_BUILDS, {"FRANCE": ["A GAS D"]}, "W1905A: .*GAS"),
        (ONE_REMOVAL, {"FRANCE": ["A GAS D", "A BUR D"]}, "'A BUR D': one more build or removal"),
        (ONE_REMOVAL, {"FRANCE": ["WAIVE"]}, "'WAIVE': one more build or removal than are due"),
        (ONE_REMOVAL, {"FRANCE": ["A PAR B"]}, "W1905A: illegal order 'A PAR B'"),
        (ONE_REMOVAL, {"FRANCE": ["A GAS - PAR"]}, "W1905A: illegal order 'A GAS - PAR'"),
        (GONE, {"FRANCE": ["A BUR R PAR"]}, "S1905R: illegal order 'A BUR R PAR'"),
        (GONE, {"FRANCE": ["A BUR H"]}, "FRANCE S1905R: 'A BUR H': illegal order"),
        (ONE_REMOVAL, {"FRANCE": ["A BUR H"]}, "FRANCE W1905A: 'A BUR H': illegal order"),
        (GONE, {"GERMANY": ["A BUR D"]}, "GERMANY S1905R: 'A BUR D': A BUR belongs to FRANCE"),
        (GONE, {"FRANCE": ["A GAS R PAR"]}, "no dislodged unit A GAS stands there"),
    ],
)
def test_orders_as_texts(position, given, message):
    refused(message, legalise.read_orders, position, 0, given)


def changed(**keys) -> dict:
    return states.to_state(START) | keys


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "impossible state: it must be a dict, not NoneType"),
        ([], "impossible state: it must be a dict, not list"),
        ({"name": "S1901M", "centers": {}}, "impossible state: it has no 'units'"),
        (changed(name=1901), "unknown phase 1901: expected a name such as S1901M"),
        (changed(name="W1901M"), "unknown phase 'W1901M'"),
        (changed(name="S1900M"), "unknown phase 'S1900M': the first year is 1901"),
        (changed(units=["A PAR"]), "S1901M: 'units' must hold lists of texts by name"),
        (changed(units={"FRANCE": "A PAR"}), "'units' of FRANCE must be a list of texts"),
        (changed(units={"FRANCE": [3]}), "'units' of FRANCE must be a list of texts"),
        (changed(units={"GAUL": ["A PAR"]}), "impossible state S1901M: unknown power 'GAUL'"),
        (changed(units={"FRANCE": ["PAR"]}), "impossible state S1901M: unknown unit 'PAR'"),
        (changed(units={"FRANCE": ["A XYZ"]}), "S1901M: unknown province 'XYZ'"),
        (changed(units={"FRANCE": ["F PAR"]}), "S1901M: impossible unit 'F PAR': no fleet"),
        (changed(units={"FRANCE": ["F SPA"]}), "S1901M: impossible unit 'F SPA'"),
        (changed(units={"FRANCE": ["A NTH"]}), "S1901M: impossible unit 'A NTH': no army"),
        (changed(units={"FRANCE": ["A PAR", "A PAR"]}), "S1901M: two units in PAR"),
        (changed(units={"FRANCE": ["A SPA", "F SPA/NC"]}), "S1901M: two units in SPA"),
        (changed(units={"FRANCE": ["*A BUR"]}), "dislodged unit A BUR outside a retreat phase"),
        (changed(centers={"FRANCE": "PAR"}), "'centers' of FRANCE must be a list of texts"),
        (changed(centers={"FRANCE": ["BUR"]}), "S1901M: BUR is no supply centre"),
        (changed(centers={"FRANCE": ["SPA/NC"]}), "S1901M: SPA/NC is no supply centre"),
        (changed(centers={"FRANCE": ["PAR", "PAR"]}), "S1901M: PAR has two owners"),
        (changed(centers={"ITALY": ["ROM"], "FRANCE": ["ROM"]}), "ROM has two owners"),
        (changed(homes={"FRANCE": 3}), "'homes' of FRANCE must be a list of texts"),
        (changed(homes={"FRANCE": ["BEL"]}), "homes of FRANCE are not those"),
        (changed(name="S1901R", retreats=[]), "'retreats' must hold retreats by power"),
        (changed(name="S1901R", retreats={"FRANCE": ["A BUR"]}), "'retreats' of FRANCE must hold"),
        (changed(name="S1901R", retreats={"FRANCE": {"A BUR": None}}), "of A BUR must be a list"),
        (changed(name="S1901R", retreats={"FRANCE": {"A BUR": ["ROM"]}}), "cannot reach ROM"),
        (changed(name="S1901R", retreats={"FRANCE": {"A PAR": ["GAS"]}}), "by a unit of its own"),
        (changed(name="S1901R", units={"FRANCE": ["*A BUR"]}), "no retreats are given for"),
    ],
)
def test_states(state, message):
    refused(message, states.from_state, state)


def edited(change) -> dict:
    data = json.loads(json.dumps(SAVED))
    change(data, data["phases"])
    return data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, p: d.update(phases=None), "game 0-x: it has no phases"),
        (lambda d, p: p.__setitem__(0, None), "game 0-x: phase 1 must be a dict with a 'name'"),
        (lambda d, p: p[1].pop("name"), "game 0-x: phase 2 must be a dict with a 'name'"),
        (lambda d, p: p[1].update(state=None), "game 0-x: F1901M: impossible state: it must be"),
        (lambda d, p: p[1].pop("state"), "game 0-x: F1901M: impossible state: it has no 'units'"),
        (lambda d, p: p[1]["state"].update(name="F1902M"), "F1901M: its state is of F1902M"),
        (lambda d, p: p[1]["state"]["units"].update(ITALY=["A PAR"]), "F1901M: two units in PAR"),
        (lambda d, p: p[1]["state"]["units"].update(ITALY=["F BOH"]), "impossible unit 'F BOH'"),
        (lambda d, p: p[1]["state"]["centers"].update(ITALY=["PAR"]), "PAR has two owners"),
        (lambda d, p: p.pop(0) and p.pop(0), "game 0-x: it has no phase before COMPLETED"),
        (lambda d, p: p.insert(0, p[0]), "game 0-x: S1901M after S1901M"),
        (lambda d, p: p.append(p[0]), "game 0-x: S1901M after COMPLETED"),
        (lambda d, p: p.append(p[-1]), "game 0-x: COMPLETED after COMPLETED"),
        (lambda d, p: p[1].update(orders=["A PAR H"]), "F1901M: 'orders' must hold lists"),
        (lambda d, p: p[1]["orders"].update(FRANCE="A PAR H"), "'orders' of FRANCE must be a list"),
        (lambda d, p: p[1]["orders"].update(GAUL=["A PAR H"]), "unknown power 'GAUL'"),
        (lambda d, p: p[1]["orders"].update(FRANCE=["A GAS H"]), "FRANCE F1901M: 'A GAS H': no"),
        (lambda d, p: p[-1].update(orders={"FRANCE": ["A PAR H"]}), "COMPLETED: orders after its"),
        (lambda d, p: p[1].update(results=[]), "F1901M: 'results' must hold lists of texts"),
        (lambda d, p: p[1].update(results={"A PAR": 3}), "'results' of A PAR must be a list"),
        (lambda d, p: d.update(map="modern"), "map 'modern', only the standard map is known"),
        (lambda d, p: d.update(agents=["a", "b"]), "'agents' must hold the names of seven"),
        (lambda d, p: d.update(agents="abcdefg"), "'agents' must hold the names of seven"),
        (lambda d, p: d.update(seed="x"), "'seed' must be a whole number or null, not 'x'"),
        (lambda d, p: d.update(id=None), "'id' must be a text or a number, not None"),
        (lambda d, p: d.update(end=3), "'end' must be a text, not 3"),
        (lambda d, p: d.update(end=""), "'end' is '', but the last phase is COMPLETED"),
        (lambda d, p: p.pop(), "'end' is 'last_year', but the last phase is F1901M"),
    ],
)
def test_saved_games(change, message):
    refused(message, game.Game.from_saved, edited(change))


def phase(name: str, **keys) -> dict:
    return {"name": name, "units": {}, "centers": {}} | keys


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("S1901M F1902M", "F1902M after S1901M"),
        ("S1901M W1901A", "W1901A after S1901M"),
        ("F1901R F1901M", "F1901M after F1901R"),
        ("W1901A S1903M", "S1903M after W1901A"),
        ("F1901M S1902M F1902M W1902A COMPLETED", ""),
        ("S1901M S1901R F1901M F1901R W1901A S1902M", ""),
    ],
)
def test_phases_out_of_order(names, message):
    data = {"phases": [phase(name) for name in names.split()]}
    if message:
        refused(message, game.Game.from_saved, data)
    else:
        assert game.Game.from_saved(data).boards.n == len(names.split())


def test_dislodged_units_of_a_saved_game_need_an_attacker_and_a_cause():
    alone = {"name": "S1905R", "units": {"FRANCE": ["*A BUR"]}, "centers": {}}
    alone["retreats"] = {"FRANCE": {"A BUR": ["GAS"]}}
    data = {"phases": [{"name": "S1905R", "state": alone}]}
    refused("S1905R: no attacker of the dislodged unit in BUR", game.Game.from_saved, data)
    data = {"phases": [phase("S1905R", dislodged={"FRANCE": ["A BUR"]})]}
    refused("S1905R has dislodged units and no phase before it", game.Game.from_saved, data)
    data["phases"].insert(0, phase("S1905M", units={"FRANCE": ["A BUR"]}))
    refused("S1905R does not follow from the orders before", game.Game.from_saved, data)


def test_files_of_games(tmp_path):
    games, path = play([("x",), ("y", 1)]), tmp_path / "games.jsonl"
    game.save(path, games)
    first = path.read_bytes()
    assert first.count(b"\n") == 2 and first.endswith(b"}\n")
    loaded = game.load(path)
    assert [g.id for g in loaded] == ["0-x", "0-y-1"]
    game.save(path, loaded)
    assert path.read_bytes() == first and list(tmp_path.iterdir()) == [path]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from diplomacy.utils.export import from_saved_game_format
    official = from_saved_game_format(json.loads(first.split(b"\n")[0]))
    assert official.get_current_phase() == "COMPLETED"
    game.save(path, [])
    assert path.read_bytes() == b"" and game.load(path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:-100], "games.jsonl, line 2: no saved game, .* at character"),
        (lambda x: x.replace(b"\n", b"\n\n", 1), "games.jsonl, line 2: no saved game, Expecting"),
        (lambda x: x + b"[]\n", "games.jsonl, line 3: impossible saved game: it must be a dict"),
        (lambda x: x + b"\xff\xfe\n", "games.jsonl, line 3: .*utf-8"),
        (lambda x: x.replace(b"A PAR H", b"A PAP H"), "line 1: .*0-x: FRANCE S1901M: 'A PAP H'"),
    ],
)
def test_broken_files_of_games(tmp_path, change, message):
    path = tmp_path / "games.jsonl"
    game.save(path, play([("x",), ("y", 1)]))
    path.write_bytes(change(path.read_bytes()))
    refused(message, game.load, path)


def ids(*texts: str) -> tuple[int, ...]:
    return tuple(int(orders.from_text(text)) for text in texts)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({FRANCE: (40000,)}, "row 0: power 2 with order id 40000: .*ids 0 to 32395"),
        ({FRANCE: (-1,)}, "row 0: power 2 with order id -1"),
        ({FRANCE: (1.5,)}, "joint orders must be tuples of order ids by number of power"),
        ({FRANCE: ("A PAR H",)}, "joint orders must be tuples of order ids by number of power"),
        ({9: (0,)}, "row 0: power 9 with order id 0: powers are 0 to 6"),
        ({"FRANCE": (0,)}, "joint orders must be tuples of order ids by number of power"),
        ({FRANCE: 5}, "row 0: joint orders must be tuples by number of power"),
        (None, "row 0: joint orders must be tuples by number of power, not None"),
        ({FRANCE: ids("A MUN H")}, "FRANCE S1901M: 'A MUN H' is for a unit or a centre that it"),
        ({FRANCE: ids("A GAS H")}, "FRANCE S1901M: 'A GAS H' is for a unit or a centre that it"),
        ({FRANCE: ids("A PAR H", "A PAR - BUR")}, "two orders for one unit, in PAR"),
    ],
)
def test_joint_orders(row, message):
    refused(message, orders.expand, START, [row])


def test_joint_orders_as_texts():
    turn = orders.turn(START, 0, FRANCE)
    for call in (orders.parse_joint, orders.sorted_joint):
        refused(
            "FRANCE S1901M: orders must be a list of texts, not 'A PAR H'", call, turn, "A PAR H"
        )
        refused("FRANCE S1901M: unreadable order 1", call, turn, [1, 2, 3])
        refused("FRANCE S1901M: 1 orders for 3 slots", call, turn, ["A MAR H"])
        refused("FRANCE S1901M: illegal order", call, turn, ["A MUN H", "A PAR H", "F BRE H"])
    refused("unknown order id 99999: ids are 0 to 32395", turn.check, (99999, 1, 2))
    refused("unknown order id 'x'", orders.to_text, "x")
    refused("unreadable order None", orders.from_text, None)
    refused("position 4 of 1: give one from 0 to 0", orders.turns, START, 4)
    refused("position 4 of 1", legalise.read_orders, START, 4, {})
    refused("position 4 of 1", states.to_state, START, 4)
    refused("unknown power 9: powers are 0 to 6", orders.turn, START, 0, 9)


TABLE = orders.joint_table([[], [], [(0,)], [], [], [], []])


@pytest.mark.parametrize(
    ("table", "picks", "message"),
    [
        (TABLE, np.full((1, 7), -2), "pick -2 of 1 candidates"),
        (TABLE, np.full((1, 7), 65536), "pick 65536 of 1 candidates"),
        (TABLE, np.zeros((1, 7)), r"picks must be integers \(N, 7\), not float64 \(1, 7\)"),
        (TABLE, np.zeros((1, 8), int), r"picks must be integers \(N, 7\), not int64 \(1, 8\)"),
        (TABLE, np.zeros(7, int), r"picks must be integers \(N, 7\)"),
        (TABLE[:6], np.zeros((1, 7), int), r"an array of order ids \(7, K, L\)"),
        (TABLE[0], np.zeros((1, 7), int), r"an array of order ids \(7, K, L\)"),
        (TABLE + v.SIZE, np.zeros((1, 7), int), "order ids of candidates must be 0 to 32395"),
    ],
)
def test_picks(table, picks, message):
    refused(message, orders.expand_picks, table, picks)


def test_candidates():
    refused("candidates of 8 powers: need seven lists", orders.joint_table, [[]] * 8)
    refused("must be 0 to 32395", orders.joint_table, [[(99999,)]] + [[]] * 6)
