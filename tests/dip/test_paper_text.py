"""Codec paper: golden texts, phrases, round trips on random positions, published vocabulary."""

import itertools
import os
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from dipllm_lib.dip import (
    atlas,
    boards,
    game,
    human,
    last_orders,
    orders,
    paper_orders,
    paper_read,
    paper_text,
    policies,
    rules,
    states,
)
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.last_orders import LastOrders
from dipllm_lib.dip.orders import from_text

THOROUGH = (pytest.mark.slow, pytest.mark.thorough)
GOLDEN = (Path(__file__).parent / "golden" / "paper.txt").read_text(encoding="utf-8")


def position(name, units, centres, retreats=None):
    """A position from short texts: {power: "A VEN, F NAP"}, {power: "VEN NAP"}."""
    split = {p: units.get(p, "").split(", ") if units.get(p) else [] for p in atlas.POWERS}
    owned = {p: centres.get(p, "").split() for p in atlas.POWERS}
    lost = {p: (retreats or {}).get(p, {}) for p in atlas.POWERS}
    return states.from_state({"name": name, "units": split, "centers": owned, "retreats": lost})


def ids(*texts):
    return tuple(map(from_text, texts))


MEDITERRANEAN = position(
    "F1903M",
    {
        "ITALY": "A TUN, A VEN, F NAP, F TYS",
        "AUSTRIA": "A SER, A TRI",
        "FRANCE": "F SPA/NC",
        "RUSSIA": "A STP",
    },
    {"ITALY": "TUN VEN NAP ROM SPA", "AUSTRIA": "TRI VIE"},
)
SPRING = LastOrders(
    "S1903M",
    {
        0: ids("A BUD - SER", "A TRI S A BUD - SER"),
        2: ids("F MAO - SPA/NC"),
        4: ids("A TUN H", "A VEN H", "F ION - NAP", "F LYO - TYS"),
        5: ids("A MOS - STP"),
    },
)


def test_golden_prompt_of_a_movement():
    turn = orders.turn(MEDITERRANEAN, 0, 4)
    given, listed = ids("A TUN H", "A VEN - TRI"), ids("F NAP - ION", "F NAP H")
    messages = paper_text.prompt(turn, given, SPRING, listed)
    assert messages.user + "\n" == GOLDEN
    assert [m["role"] for m in messages.chat()] == ["system", "user"]
    assert messages.chat()[0]["content"] == paper_text.SYSTEM
    task = paper_read.read_prompt(messages.user)
    assert (task.power, task.unit, task.given, task.last) == ("ITALY", "F NAP", given, SPRING)
    assert task.candidates == tuple(sorted(listed)) and task.state == states.to_state(turn.boards)
    assert paper_text.answer(listed[0]) == "moves to Ionian Sea"
    assert paper_text.parse_answer(turn, given, "moves to Ionian Sea") == listed[0]


def lines(turn, *args, **kwargs):
    """The lines of a prompt that hold a bracket of the state or of the task."""
    return paper_text.prompt(turn, *args, **kwargs).user.split("\n")


def test_golden_lines_of_a_retreat():
    b = position(
        "F1902R",
        {"TURKEY": "A SER, F GRE", "AUSTRIA": "A ALB, *A SER, *F GRE"},
        {"TURKEY": "SER", "AUSTRIA": "GRE"},
        {"AUSTRIA": {"A SER": ["TRI", "BUD"], "F GRE": ["ION", "BUL/SC"]}},
    )
    turn = orders.turn(b, 0, 0)
    found = lines(turn, ids("A SER D"))
    assert "[Game Time and Phase]: 1902 Fall: Retreats" in found
    assert found[10:12] == ["England's center without units: None", "France's army: None"]
    assert (
        "Turkey's army: Serbia (land, Turkey's supply center, Austria's dislodged army in Serbia"
        " can retreat to Budapest or Trieste)" in found
    )
    assert found[-4:] == [
        "[Last Move]: None",
        "Orders already given this round: [disband army in Serbia]",
        "Candidate orders of fleet in Greece: [retreats to Ionian Sea,"
        " retreats to Bulgaria's South Coast, disband fleet in Greece]",
        "The best order: fleet in Greece",
    ]
    assert paper_text.parse_answer(turn, (), "retreats to Trieste") == from_text("A SER R TRI")


def test_golden_lines_of_builds_and_removals():
    b = position("W1904A", {"FRANCE": "A MUN, F ENG"}, {"RUSSIA": "STP MOS", "FRANCE": "MUN"})
    turn = orders.turn(b, 0, 5)
    assert lines(turn, ids("A MOS B"), list_candidates=False)[-2:] == [
        "Orders already given this round: [build army in Moscow]",
        "The best order: Russia",
    ]
    assert lines(turn)[-2] == (
        "Candidate orders: [build army in Moscow, build army in St. Petersburg,"
        " build fleet in St. Petersburg's North Coast,"
        " build fleet in St. Petersburg's South Coast, build nothing]"
    )
    last = LastOrders("W1904A", {5: ids("A MOS B", "F STP/NC B"), 2: ids("F ENG D")})
    spring = orders.turn(position("S1905M", {"RUSSIA": "A MOS"}, {}), 0, 5)
    assert lines(spring, (), last)[-12:-3] == [
        "Your Power Order:",
        "Russia: build army in Moscow;build fleet in St. Petersburg's North Coast",
        "Other Power Order:",
        "Austria: None",
        "England: None",
        "France: disband fleet in English Channel",
        "Germany: None",
        "Italy: None",
        "Turkey: None",
    ]
    removal = orders.turn(b, 0, 2)
    assert paper_text.parse_answer(removal, (), "disband fleet in English Channel") == from_text(
        "F ENG D"
    )


def test_phrases_and_unusual_names():
    wanted = {
        "A VEN H": "army in Venice holds",
        "A YOR - NWY VIA": "army in York moves to Norway via fleet",
        "F TYS S F LYO": "fleet in Tyrrhenian Sea supports fleet in Lyon",
        "F MAO S A TUN - NAF": "fleet in Mid Atlantic Ocean supports army in Tunisia move to"
        " North Africa",
        "F BOT C A STP - SWE": "fleet in Bothnia convoys army in St. Petersburg to Sweden",
        "F MAO - SPA/NC": "fleet in Mid Atlantic Ocean moves to Spain's North Coast",
        "F BUL/EC R CON": "fleet in Bulgaria's East Coast retreats to Constantinople",
        "F STP/SC D": "disband fleet in St. Petersburg's South Coast",
        "F STP/NC B": "build fleet in St. Petersburg's North Coast",
        "WAIVE": "build nothing",
    }
    assert {t: paper_orders.sentence(from_text(t)) for t in wanted} == wanted


def test_every_order_has_a_sentence_of_its_own():
    for order in range(v.SIZE):
        assert paper_orders.read_sentence(paper_orders.sentence(order)) == order
    with pytest.raises(ValueError, match="is no order such as"):
        paper_orders.read_sentence("army in Naples sails")


def convoys(longest):
    """(from, to) -> the least sets of seas, of at most `longest`, over which an army gets there."""
    found = defaultdict(set)

    def sail(start, path):
        for end in np.flatnonzero(atlas.TOUCH[path[-1]]).tolist():
            if atlas.KIND[end] == atlas.COAST and end != start:
                found[start, end].add(frozenset(path))
            elif atlas.KIND[end] == atlas.SEA and end not in path and len(path) < longest:
                sail(start, [*path, end])

    for start in np.flatnonzero(atlas.KIND == atlas.COAST).tolist():
        for sea in np.flatnonzero(atlas.TOUCH[start]).tolist():
            sail(start, [sea])
    return {ends: {a for a in ways if not any(b < a for b in ways)} for ends, ways in found.items()}


def test_published_counts_of_order_phrases():
    """Our table is larger: it has convoys of any length, and supports that name a coast. With at
    most four fleets, and no coast after a supported move, it gives the published 13,136 entries.
    """
    rows, kind = v.VOCABULARY.astype(int), v.VOCABULARY[:, v.KIND]
    ways = convoys(4)

    def possible(row, needs_convoy):
        if row[v.KIND] != boards.SUPPORT_MOVE:
            return True
        own = int(atlas.PROV_OF[row[v.LOC]])
        over = ways.get((row[v.OTHER_LOC], row[v.DEST]), ())
        if needs_convoy:  # not over the fleet that gives the support
            return any(own not in way for way in over)
        return row[v.DEST] < atlas.N_PROVINCES

    helps = np.isin(kind, (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE))
    supports = sum(map(possible, rows[helps].tolist(), v.NEEDS_CONVOY[helps].tolist()))
    counts = Counter(kind.tolist())
    assert supports == 8290 and helps.sum() == 11_820
    assert sum(len(frozenset().union(*sets)) for sets in ways.values()) == 2608
    assert counts[boards.CONVOY] == 18_094
    assert len(ways) == 820 and (rows[:, v.VIA] == 1).sum() == 1194
    moves = (kind == boards.MOVE) & (rows[:, v.VIA] == 0)
    assert moves.sum() == counts[boards.RETREAT] == 504
    assert counts[boards.DISBAND] == counts[boards.HOLD] == 120
    builds = (
        0  # one entry is a whole set of builds: in each home centre nothing or one of its units
    )
    for power in range(atlas.N_POWERS):
        homes = np.flatnonzero(atlas.HOME == power).tolist()
        made = np.isin(kind, (boards.BUILD_ARMY, boards.BUILD_FLEET))
        at = atlas.PROV_OF[rows[made, v.LOC]]
        builds += np.prod([1 + (at == home).sum() for home in homes]) - 1
    assert builds == 170
    assert supports + 2608 + 820 + 2 * 504 + 170 + 2 * 120 == 13_136


@pytest.fixture(scope="module")
def records():
    """(game, k) of 1,000 positions of games of random players."""
    players = [policies.RandomLegal()] * 7
    names = [("paper", n) for n in range(44)]
    played = game.play([players] * 44, 7, names, game.EndRules(1908))
    return [(g, k) for g in played for k in range(g.boards.n - 1)][:1000]


def round_trip(turn, given, last, candidates, listed=True):
    messages = paper_text.prompt(turn, given, last, candidates, listed)
    task = paper_read.read_prompt(messages.user)
    assert task.state == states.to_state(turn.boards) and task.power == turn.name
    assert task.unit == turn.units[len(given)] and task.given == tuple(given)
    assert task.last == last
    wanted = turn.options(tuple(given)).tolist() if candidates is None else sorted(candidates)
    assert task.candidates == (tuple(wanted) if listed else None)


def test_prompts_round_trip(records):
    """One slot of one power per position, powers in turn, lists of candidates long, short, none."""
    assert len(records) == 1000
    rng, seen = np.random.default_rng(0), set()
    for n, (g, k) in enumerate(records):
        turns = orders.turns(g.boards, k)
        turn = turns[n % len(turns)]
        given = g.joint(k, turn.power)[: int(rng.integers(turn.slots))]
        candidates = None
        if n % 3:
            legal = turn.options(given)
            candidates = rng.choice(legal, min(6, len(legal)), replace=False).tolist()
        round_trip(turn, given, last_orders.before(g, k), candidates, listed=n % 3 != 2)
        seen.add((turn.name, turn.phase[-1]))
    assert len(seen) == 21


def test_every_legal_order_of_every_unit_is_one_answer(records):
    count = 0
    for n, (g, k) in enumerate(records):
        turns = orders.turns(g.boards, k)
        for turn in turns:
            for options in turn.lists:
                count += len(options)
                assert len(set(map(paper_text.answer, options.tolist()))) == len(options)
        turn = turns[n % len(turns)]
        given = g.joint(k, turn.power)[: n % turn.slots]
        for order in turn.options(given).tolist():
            said = paper_text.answer(order)
            assert paper_text.parse_answer(turn, given, said) == order
            assert paper_orders.read_phrase(turn.units[len(given)], said) == order
    assert count > 100_000


def test_other_texts_are_refused():
    start = orders.turn(rules.start(), 0, 3)
    user = paper_text.prompt(start).user
    assert "[Last Move]: None" in user
    for old, new, match in [
        ("[Your Power]: Germany", "[Your Power]: Prussia", "unknown power"),
        ("1901 Spring: Diplomacy", "1901 Spring", "is no phase"),
        ("Germany's fleet: Kiel", "Germany's fleet: Keel", "unknown area 'Keel'"),
        (
            "Germany's fleet: Kiel (",
            "Germany's fleet: Kiel (land, ",
            "hold the line \"Germany's fl",
        ),
        ("Kiel (Germany's supply center)", "Kiel", "hold the line"),
        ("center without units: None", "center without units: Kiel", "hold the line"),
        ("round: [None]", "round: [army in Berlin hold]", "is no order such as"),
        ("[Last Move]: None\n", "", r"expected '\[Last Move\]: '"),
    ]:
        changed = user.replace(old, new, 1)
        assert changed != user
        with pytest.raises(ValueError, match=match):
            paper_read.read_prompt(changed)
    with pytest.raises(ValueError, match="hold the line"):
        paper_read.read_prompt(user + "\n")
    with pytest.raises(ValueError, match="is no legal order of A BER"):
        paper_text.parse_answer(start, (), "moves to Paris")
    with pytest.raises(ValueError, match="candidates must be legal"):
        paper_text.prompt(start, (), None, ids("A PAR H"))
    with pytest.raises(ValueError, match="all of them are filled"):
        paper_text.prompt(start, ids("A BER H", "A MUN H", "F KIE H"))


@pytest.mark.corpus
@pytest.mark.parametrize("most", [60, pytest.param(400, marks=THOROUGH)])
def test_positions_of_recorded_games_round_trip(most):
    """One turn of every position of the first games, with one slot of it."""
    folder = Path(os.environ.get("DIPLLM_CORPUS", "")) / "human_games"
    if not os.environ.get("DIPLLM_CORPUS") or not folder.is_dir():
        pytest.skip("DIPLLM_CORPUS names no folder with recorded games")
    found, _ = human.examples(itertools.islice(human.read(folder), most), 1901)
    first = np.flatnonzero(np.diff(found.board, prepend=-1))
    assert len(first) == found.boards.n > 100
    for i, low, high in zip(itertools.count(), first, [*first[1:], len(found.board)]):
        t = int(low + i % (high - low))
        turn = orders.turn(found.boards, i, int(found.power[t]))
        joint = tuple(found.orders[found.first[t] : found.first[t + 1]].tolist())
        given, order = joint[: i % turn.slots], joint[i % turn.slots]
        round_trip(turn, given, None, None)
        assert paper_text.parse_answer(turn, given, paper_text.answer(order)) == order
