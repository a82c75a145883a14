"""Recorded games as training examples: both forms agree with the games; what is left out counts."""

import copy
import gzip
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from dipllm_lib.dip import anchor, atlas, boards, fidelity, game, human, imitate, orders, states
from dipllm_lib.dip.policies import SoftDumbBot
from dipllm_lib.run import files

FRANCE, GERMANY = atlas.power("FRANCE"), atlas.power("GERMANY")


@pytest.fixture(scope="module")
def games():
    names = [("human", g) for g in range(3)]
    return game.play([[SoftDumbBot(0.2, 0.05)] * 7] * 3, 1, names, game.EndRules(1904))


def reduced(one: game.Game) -> dict:
    """The form with units, dislodged, centers, orders; an adjustment phase without its waives."""
    phases = []
    for k in range(one.boards.n):
        state = states.to_state(one.boards, k)
        units = {
            name: [u for u in listed if u[0] != "*"] for name, listed in state["units"].items()
        }
        gone = {
            name: [u[1:] for u in listed if u[0] == "*"] for name, listed in state["units"].items()
        }
        given = {name: [t for t in texts if t != "WAIVE"] for name, texts in one.orders[k].items()}
        dislodged = {name: listed for name, listed in gone.items() if listed}
        phases.append({"name": state["name"], "units": units, "dislodged": dislodged,
                       "centers": state["centers"], "orders": given})  # fmt: skip
    return {"id": one.id, "map": "standard", "phases": phases}


def listed(examples: human.Examples) -> dict:
    """(game, phase, power) -> joint order."""
    b = examples.boards
    return {
        (examples.names[examples.game[n]], boards.phase_name(b, n), power): tuple(
            examples.orders[low:high].tolist()
        )
        for n, power, low, high in zip(
            examples.board.tolist(),
            examples.power.tolist(),
            examples.first[:-1],
            examples.first[1:],
        )
    }


def test_examples_are_the_joint_orders_of_the_games(games):
    found, count = human.examples(games)
    wanted = {
        (one.id, boards.phase_name(one.boards, k), power): joint
        for one in games
        for k in range(one.boards.n - 1)
        for power in range(7)
        if (joint := one.joint(k, power)) is not None
    }
    assert listed(found) == wanted and {name[-1] for _, name, _ in wanted} == set("MRA")
    assert count["games"] == 3 and count["orders that could not succeed"] == 0
    assert count["turns, moves"] == sum(name[-1] == "M" for _, name, _ in wanted)
    saved, _ = human.examples(one.to_saved() for one in games)
    assert listed(saved) == wanted and np.array_equal(saved.boards.unit, found.boards.unit)


def test_the_reduced_form_gives_the_same(games):
    """Retreats come from the adjudication of the phase before; all-waive turns are left out."""
    whole = listed(human.examples(games)[0])
    found, count = human.examples(reduced(one) for one in games)
    short = listed(found)
    waived = {key for key, joint in whole.items() if set(joint) == {orders.WAIVE_ID}}
    assert short == {key: joint for key, joint in whole.items() if key not in waived}
    assert count["turns without orders, adjustments"] == len(waived)
    assert any(name[-1] == "R" for _, name, _ in short)


START = {
    "name": "S1901M", "orders": {},
    "units": {"FRANCE": ["F BRE", "A MAR", "A PAR"], "GERMANY": ["F KIE", "A BER", "A MUN"]},
    "centers": {"FRANCE": ["BRE", "MAR", "PAR"], "GERMANY": ["KIE", "BER", "MUN"]},
}  # fmt: skip


def phase(name: str, **given) -> dict:
    """The opening of two powers under another phase name; given: orders by power name."""
    return copy.deepcopy(START) | {"name": name, "orders": given}


def test_what_is_left_out_is_counted():
    short = {"id": "short", "phases": [phase("S1901M"), phase("F1902M", FRANCE=["A PAR H"])]}
    texts = ["A PAR - BUR", "A MAR - PIC", "A MUN S A PAR - BUR", "F BRE - WAR"]
    builds = phase("W1903A", FRANCE=["A MAR B", "F MAR B"], GERMANY=["A MUN D"])
    builds["units"] = {
        "FRANCE": ["F BRE"],
        "GERMANY": ["F KIE", "A BER", "A MUN", "A RUH", "A BOH"],
    }
    whole = {"id": "whole", "phases": [phase("F1903M", FRANCE=texts[:2]), builds]}
    found, count = human.examples([short, whole])
    got = listed(found)
    texts_of = {key: [orders.to_text(o) for o in joint] for key, joint in got.items()}
    assert texts_of == {
        # canonical order: armies before fleets, then by name; MAR - PIC cannot succeed
        ("whole", "F1903M", FRANCE): ["A MAR H", "A PAR - BUR", "F BRE H"],
        ("whole", "W1903A", FRANCE): ["A MAR B", "WAIVE"],
    }
    assert count == {
        "games": 2, "games that end too early": 1, "orders that could not succeed": 1,
        "turns without orders, moves": 1, "turns, moves": 1, "orders, moves": 3,
        "turns with too few removals": 1, "turns, adjustments": 1, "orders, adjustments": 2,
    }  # fmt: skip
    with pytest.raises(ValueError, match="none of 1 games ends in 1903 or later"):
        human.examples([short])


def test_via_without_a_convoy_is_a_land_move():
    first = phase("F1903M", FRANCE=["A PAR - PIC VIA"], GERMANY=["A MUN - BUR"])
    found, _ = human.examples([{"id": "v", "phases": [first, phase("W1903A")]}])
    assert orders.to_text(listed(found)["v", "F1903M", FRANCE][1]) == "A PAR - PIC"


def test_via_stays_where_the_form_states_the_retreats():
    """A NWY - SWE VIA is legal beside F SKA; only the reduced form of other engines drops it."""
    units = {"FRANCE": ["A NWY", "F SKA"]}
    state = {"name": "F1903M", "units": units, "centers": {"FRANCE": ["NWY"]}, "retreats": {}}
    whole = {"name": "F1903M", "state": state, "orders": {"FRANCE": ["A NWY - SWE VIA"]}}
    short = {"units": units, "centers": {"FRANCE": ["NWY"]}, **whole}
    del short["state"]
    for phase_, text in ((whole, "A NWY - SWE VIA"), (short, "A NWY - SWE")):
        found, _ = human.examples([{"id": "v", "phases": [phase_]}])
        assert orders.to_text(found.orders[0]) == text


def test_parts(games):
    found, _ = human.examples(games)
    rows = np.array([0, 3, 7])
    some = found.take(rows)
    assert some.boards.same(found.boards.take(rows))
    every = listed(found)
    assert listed(some) == {key: every[key] for key in listed(some)} and len(listed(some)) >= 3
    one = human.part(found, np.array([1]))
    assert set(listed(one)) == {key for key in every if key[0] == found.names[1]}
    parts = human.split(100, 3)
    assert [len(part) for part in parts] == [90, 5, 5]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(100))
    assert not np.array_equal(parts[1], human.split(100, 4)[1])
    with pytest.raises(ValueError, match="9 games cannot be split"):
        human.split(9, 0)


def test_a_folder_is_read_once(games, tmp_path):
    folder, cache = tmp_path / "games", tmp_path / "cache"
    lines = "".join(files.to_json(one.to_saved()) + "\n" for one in games[:2])
    files.write_text(folder / "a.jsonl", lines)
    files.write_bytes(
        folder / "b.jsonl.gz", gzip.compress((files.to_json(reduced(games[2]))).encode())
    )
    found, count = human.load(folder, cache)
    assert count["games"] == 3 and [path.suffix for path in cache.iterdir()] == [".npz"]
    again, count_again = human.load(folder, cache)
    assert count_again == count and listed(again) == listed(found)
    assert found.names.tolist() == [one.id for one in games]
    files.write_text(folder / "c.json", json.dumps(reduced(games[0])))
    assert human.load(folder, cache)[1]["games"] == 4


def test_bad_files_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="no .jsonl, .jsonl.gz or .json file"):
        list(human.read(tmp_path))
    path = tmp_path / "x.jsonl"
    for text, words in (("{", "x.jsonl line 1: not JSON"), ("[]", "x.jsonl line 1: not a game")):
        files.write_text(path, text + "\n")
        with pytest.raises(ValueError, match=words) as caught:
            list(human.read(tmp_path))
        assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def corpus() -> Path:
    folder = Path(os.environ.get("DIPLLM_CORPUS", "")) / "human_games"
    if not os.environ.get("DIPLLM_CORPUS") or not folder.is_dir():
        pytest.skip("DIPLLM_CORPUS names no folder with human games")
    return folder


@pytest.mark.corpus
def test_games_of_people(corpus):
    """Every joint order is legal, and few orders of people could not succeed."""
    found, count = human.examples(itertools.islice(human.read(corpus), 150))
    for turn, low, high in itertools.islice(fidelity.turns_of(found), 0, None, 10):
        turn.check(tuple(found.orders[low:high].tolist()))
    assert count["orders that could not succeed"] < 0.002 * count["orders, moves"]
    assert count["turns, moves"] > 8000


@pytest.mark.slow
@pytest.mark.corpus
def test_the_shipped_anchor_predicts_the_test_games(corpus):
    """Accuracy and likelihood of movement orders on all test games, as the card says."""
    tau = anchor.human()
    count = sum(tau.card["games"].values())
    numbers = set(human.split(count, tau.card["seed"])[2].tolist())
    late = (data for data in human.read(corpus) if human._last_year(data) >= 1903)
    found, _ = human.examples(data for number, data in enumerate(late) if number in numbers)
    assert len(found.names) == tau.card["games"]["test"] == 180
    moves = found.take(imitate.kinds(found)[0])
    table, known = fidelity.of_anchor(tau, moves), tau.card["metrics"]["moves, all"]
    assert table.correct.mean() == pytest.approx(known["accuracy"], abs=5e-4)
    assert -table.log_prob.mean() == pytest.approx(known["nats"], abs=5e-4)
    assert known["accuracy_low"] < table.correct.mean() < known["accuracy_high"]
