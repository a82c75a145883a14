"""Recorded games of other engines: every phase must lead to the position that the record shows.

Needs the folder named by DIPLLM_CORPUS (engine_games, human_games). Human games come from a third
engine: VIA without a convoy order is dropped, orders that could not succeed hold, and missing
removals follow the rule `home_any`.
"""

import gzip
import itertools
import json
import os
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dipllm_lib.dip import (
    atlas,
    boards,
    deviations,
    game,
    legalise,
    notation,
    replay,
    rules,
    states,
)
from dipllm_lib.dip import vocabulary as v

pytestmark = pytest.mark.corpus
KINDS = ("moves", "retreats", "adjustments")
HUMAN_COUNTS = {
    "replaced by a hold": 1945,
    "moves": 66781,
    "moves that differ with DATC3": 0,
    "moves that differ with via_only": 5,
    "moves that differ with orders as written": 0,
    "dislodged sets": 41187,
    "retreats": 40720,
    "adjustments": 30041,
    "adjustments without civil disorder": 25703,
    "civil disorders": 4749,
    "civil disorders as recorded, home": 4726,
    "civil disorders as recorded, owned": 3380,
    "civil disorders as recorded, home_any": 4749,
}
HUMAN = rules.Choices(civil_disorder="home_any")


@pytest.fixture(scope="module")
def corpus() -> Path:
    folder = Path(os.environ.get("DIPLLM_CORPUS", ""))
    if not os.environ.get("DIPLLM_CORPUS") or not folder.is_dir():
        pytest.skip("DIPLLM_CORPUS names no folder with recorded games")
    return folder


def transitions(data: dict, choices: rules.Choices):
    """(phase name, ours, theirs) of each phase of a game in the package's format, as states."""
    loaded = game.Game.from_saved(data)
    for k in range(loaded.boards.n - 1):
        before = loaded.boards.take([k])
        orders = legalise.read_orders(before, 0, loaded.orders[k], strict=False)
        after, _ = rules.resolve(before, orders, choices=choices)
        theirs = data["phases"][k + 1]["state"]
        if theirs["name"] != "COMPLETED":
            yield boards.phase_name(before), states.to_state(after), theirs


def standing(state: dict) -> dict:
    return {name: sorted(u for u in units if u[0] != "*") for name, units in state["units"].items()}


def centres(state: dict) -> dict:
    return {name: sorted(codes) for name, codes in state["centers"].items() if codes}


def lists(state: dict) -> dict:
    every = [pair for units in state["retreats"].values() for pair in units.items()]
    return {unit: sorted(places) for unit, places in every if places}


def agree(ours: dict, theirs: dict) -> bool:
    """Whether two states have the same units, and the same centres if the same phase follows."""
    same = standing(ours) == standing(theirs)
    return same and (ours["name"] != theirs["name"] or centres(ours) == centres(theirs))


# a Turkish fleet convoys A CON - BUL while F BUL/EC goes to CON: by land for that engine
BY_LAND = [("mixed_024.json", "F1907M")]
MIXED = {"movement": 321, "other": 397, "lists": 339}
SELFPLAY = {"movement": 770, "other": 587, "lists": 477, "B3": 15}
ENGINES = [
    ("mixed", "via_only", [], MIXED),
    ("mixed", "own_fleet", BY_LAND, MIXED),
    ("selfplay", "own_fleet", [], SELFPLAY),
]


@pytest.mark.parametrize("kind, intent, expected, counts", ENGINES)
def test_engine_games(corpus, kind, intent, expected, counts):
    count, odd = Counter(), []
    for path in sorted((corpus / "engine_games").glob(f"{kind}_*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for name, ours, theirs in transitions(data, rules.Choices(convoy_intent=intent)):
            count["movement" if name[-1] == "M" else "other"] += 1
            where = (path.name, name)
            if not agree(ours, theirs):
                odd.append(where)
            for unit, places in lists(theirs).items():
                count["lists"] += 1
                if lists(ours).get(unit) != places and where not in odd:
                    # only the package's engine lists closed places, after an attack by convoy
                    count["B3"] += 1
                    assert set(lists(ours).get(unit, [])) < set(places), where
    print(kind, intent, dict(count), odd)
    assert odd == expected and dict(count) == counts


@cache
def unit_of(text: str) -> tuple[int, int]:
    return boards.parse_unit(text)


def fill(b: boards.Boards, i: int, phase: dict) -> None:
    b.year[i], b.phase[i] = boards.parse_phase(phase["name"])
    for power, name in enumerate(atlas.POWERS):
        for text in phase["units"].get(name, []):
            unit, place = unit_of(text)
            p = atlas.PROV_OF[place]
            b.unit[i, p], b.power[i, p], b.loc[i, p] = unit, power, place
        for code in phase["centers"].get(name, []):
            b.owner[i, atlas.INDEX[code]] = power


def read(text: str, b: boards.Boards, i: int, count: Counter) -> int | None:
    """An order id, None for an order that does not exist on the map."""
    try:
        return notation.from_text(text, b, i)
    except notation.ImpossibleOrder:
        if text.endswith(" VIA"):
            return read(text[:-4], b, i, count)
        count["replaced by a hold"] += 1


def write(given, i: int, b: boards.Boards, phase: dict, count: Counter) -> None:
    """Orders of a phase into row i; in adjustment phases in sequence, illegal and surplus ones
    skipped.
    """
    for power, name in enumerate(atlas.POWERS):
        due = int((b.owner[i] == power).sum() - (b.power[i] == power).sum())
        for text in phase["orders"].get(name, []):
            order = read(text, b, i, count)
            if order is None:
                continue
            p, *entry = v.EXPANSION[order].tolist()
            if b.phase[i] == boards.ADJUSTMENTS:
                build = notation.is_build(order)
                free = b.owner[i, p] == power == atlas.HOME[p] and not b.unit[i, p] and due > 0
                gone = entry[0] == boards.DISBAND and b.power[i, p] == power and due < 0
                if given.kind[i, p] or not (free if build else gone):
                    continue
                due += -1 if build else 1
            for field, value in zip(given, entry):
                field[i, p] = value


def games(corpus: Path):
    with gzip.open(
        corpus / "human_games" / "standard_human.jsonl.gz", "rt", encoding="utf-8"
    ) as file:
        for line in file:
            yield json.loads(line)["phases"]


def same_units(after: boards.Boards, record: boards.Boards) -> np.ndarray:
    return np.all([(x == y).all(axis=1) for x, y in zip(after[:3], record[:3])], axis=0)


def dislodged(after: boards.Boards, i: int, phase: dict) -> bool:
    ours = {
        (atlas.POWERS[after.d_power[i, p]], boards.unit_text(after.d_unit[i, p], after.d_loc[i, p]))
        for p in np.flatnonzero(after.d_unit[i])
    }
    return ours == {(name, u) for name, listed in phase["dislodged"].items() for u in listed}


def chunk(phases: list[list[dict]], count: Counter, odd: list, check=None) -> None:
    """Adjudicate all phases of some games in three batches: moves, retreats, adjustments. `check`
    sees each batch: positions, orders before and after `legalise`, next positions by the record.
    """
    flat = [(g, k) for g, game_phases in enumerate(phases) for k in range(len(game_phases))]
    row = {key: i for i, key in enumerate(flat)}
    b = boards.empty(len(flat))
    for (g, k), i in row.items():
        fill(b, i, phases[g][k])
    inner = np.array([(g, k + 1) in row for g, k in flat])
    for kind, wanted in enumerate((boards.MOVES, boards.RETREATS, (boards.ADJUSTMENTS,))):
        rows = np.flatnonzero(np.isin(b.phase, wanted) & inner)
        now, written = b.take(rows), boards.no_orders(len(rows))
        for j, i in enumerate(rows):
            write(written, j, now, phases[flat[i][0]][flat[i][1]], count)
        given, replaced = legalise.legalise(now, legalise.normalise_via(now, written))
        after, _ = rules.resolve(now, given, choices=HUMAN)
        record = b.take(rows + 1)
        good = as_recorded(after, record)
        count[KINDS[kind]] += len(rows)
        count["replaced by a hold"] += int(replaced.sum()) if kind == 0 else 0
        odd += [("units", phases[flat[i][0]][flat[i][1]]) for i in rows[~good]]
        if check:
            check(KINDS[kind], now, written, given, record, count)
        for j, i in enumerate(rows if kind == 0 else []):
            g, k = flat[i]
            if record.phase[j] in boards.RETREATS:
                count["dislodged sets"] += 1
                if not dislodged(after, j, phases[g][k + 1]):
                    odd.append(("dislodged", phases[g][k]))
                for name in ("d_unit", "d_power", "d_loc", "d_from", "contested"):
                    getattr(b, name)[i + 1] = getattr(after, name)[j]


def as_recorded(after: boards.Boards, record: boards.Boards) -> np.ndarray:
    """Rows with the recorded units, and the recorded owners if the same phase follows."""
    ended = after.phase == record.phase
    return same_units(after, record) & (~ended | (after.owner == record.owner).all(axis=1))


def other_choices(kind, now, written, given, record, count) -> None:
    """Count what other readings of the rules and of the orders would make of the same phases."""
    if kind == "moves":
        others = {
            "DATC3": (given, rules.DATC3),
            "via_only": (given, rules.Choices(convoy_intent="via_only")),
            "orders as written": (without_disbands(written), rules.PACKAGE),
        }
        for name, (orders, choices) in others.items():
            after, _ = rules.resolve(now, orders, choices=choices)
            count[f"moves that differ with {name}"] += int((~as_recorded(after, record)).sum())
    if kind == "adjustments":
        missing = missing_removals(now, given)
        count["adjustments without civil disorder"] += int((~missing.any(axis=1)).sum())
        count["civil disorders"] += int(missing.sum())
        for rule in rules.OPTIONS["civil_disorder"]:
            after, _ = rules.resolve(now, given, choices=rules.Choices(civil_disorder=rule))
            powers = np.arange(atlas.N_POWERS)[:, None]
            kept = ((after.power[:, None] == powers) == (record.power[:, None] == powers)).all(2)
            count[f"civil disorders as recorded, {rule}"] += int((missing & kept).sum())


def without_disbands(written: boards.Orders) -> boards.Orders:
    """Orders of movement phases; a few records hold a disband there, which is no order."""
    given = written.copy()
    given.kind[given.kind > boards.CONVOY] = boards.HOLD
    return given


def missing_removals(now: boards.Boards, given: boards.Orders) -> np.ndarray:
    """Which powers order fewer removals than are due, bool (N, 7)."""
    ordered = (given.kind == boards.DISBAND) & (now.unit > 0)
    removed = ((now.power[:, :, None] == np.arange(atlas.N_POWERS)) & ordered[:, :, None]).sum(1)
    return boards.units(now) - boards.centres(now) > removed


@pytest.mark.slow
@pytest.mark.thorough
def test_human_games(corpus):
    count, odd, pending = Counter(), [], []
    for number, phases in enumerate(games(corpus)):
        pending.append(phases)
        if len(pending) == 200:
            chunk(pending, count, odd, other_choices)
            pending = []
    chunk(pending, count, odd, other_choices)
    for name, value in count.items():
        print(f"{value:7} {name}")
    assert odd == []
    assert number + 1 == 3867 and dict(count) == HUMAN_COUNTS


def test_human_games_on_the_package(corpus):
    """Every 60th game: the package agrees or deviates for a reason with a name."""
    official, causes = replay.official_game(), Counter()

    def on_the_package(kind, now, written, given, record, count):
        after, made = rules.resolve(now, given)
        for i in range(now.n):
            before, orders = now.take([i]), given.take([i])
            theirs, words = replay.run(official, before, orders)
            decisions = rules.Decisions(*(field[i : i + 1] for field in made))
            case = deviations.Case(before, orders, decisions, after.take([i]), theirs, words)
            cause = deviations.explain(case)
            causes[kind, cause] += 1
            assert cause != "?", (boards.phase_name(before), legalise.order_texts(before, orders))

    sample = list(itertools.islice(games(corpus), 0, None, 60))
    chunk(sample, Counter(), [], on_the_package)
    print(len(sample), dict(causes))
    assert len(sample) == 65 and dict(causes) == {
        ("moves", ""): 1016,
        ("moves", "B3"): 28,
        ("retreats", ""): 638,
        ("adjustments", ""): 473,
    }


def test_human_games_load(corpus):
    for phases, _ in zip(games(corpus), range(20)):
        loaded = game.Game.from_saved({"id": "x", "phases": phases})
        assert loaded.boards.n == len(phases)
