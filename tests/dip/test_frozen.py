"""A frozen corpus: more than 500 phases with their results, which no change of the rules engine may
alter unnoticed.

`frozen/phases.jsonl` holds one phase a line: position, orders, next position, the result words that
are not empty, and how many moves were settled as circular movement and as a convoy paradox; under
`datc3` the result by the choices of DATC 3.0 where it is another one. Centres are written after a
phase only where they changed.

    python -m pytest tests/dip/test_frozen.py --rewrite

writes the results of the phases on file anew and shows each phase that changed; without the file it
draws new phases first. Do that on purpose only, and read what changed.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dipllm_lib.dip import atlas, boards, cases, generate, legal, legalise, outcomes, rules, states
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.run import files, seeding

FILE = Path(__file__).parent / "frozen" / "phases.jsonl"
CHOICES = {"package": rules.PACKAGE, "datc3": rules.DATC3}
LONG = 2000  # a longer phase is recorded only with fewer units
LEAST = {
    "S M": 160, "F M": 160, "S R": 50, "F R": 50, "W A": 60, "circular movement": 30,
    "convoy paradox": 30, "other result by DATC 3.0": 30, "by convoy": 60, "no convoy": 40,
    "disrupted": 30, "dislodged": 120, "disband": 40, "bounce": 150, "cut": 100, "void": 80,
    "bounced retreat": 10, "builds": 15, "removals": 15, "civil disorder": 10, "waives": 10,
}  # fmt: skip


def position(b: boards.Boards, i: int) -> dict:
    """Name, units, retreats and centres of a position; powers without any are left out."""
    state = states.to_state(b, i)
    found = {"name": state["name"]}
    for key in ("units", "retreats", "centers"):
        found[key] = {name: listed for name, listed in state[key].items() if listed}
    return found


def result(before: dict, b, given, made, after, i: int) -> dict:
    """The next position, result words and counts of row i of a resolved batch."""
    then, words = position(after, i), outcomes.words(b, given, made, after, i)
    if then["centers"] == before["centers"]:
        del then["centers"]
    found = {"after": then, "words": {unit: " ".join(w) for unit, w in words.items() if w}}
    for column, name in enumerate(("circular", "paradox")):
        if made.counts[i, column]:
            found[name] = int(made.counts[i, column])
    return found


def records(b: boards.Boards, given: boards.Orders) -> list[dict]:
    """One record a row of a batch of positions with orders."""
    texts = legalise.order_texts(b, given)
    lines = [{"before": position(b, i), "orders": texts[i]} for i in range(b.n)]
    for name, choices in CHOICES.items():
        after, made = rules.resolve(b, given, choices=choices)
        assert not made.counts[:, 2].any()
        for i, line in enumerate(lines):
            found = result(line["before"], b, given, made, after, i)
            if name == "package":
                line.update(found)
            elif found != {key: line[key] for key in line if key not in ("before", "orders")}:
                line[name] = found
    return lines


def read(line: dict) -> tuple[boards.Boards, boards.Orders]:
    b = states.from_state({"retreats": {}, **line["before"]})
    return b, legalise.read_orders(b, 0, line["orders"])


def joined(parts: list[tuple]) -> tuple[boards.Boards, boards.Orders]:
    """Many pairs of position and orders as one batch."""
    given = boards.Orders(*(np.concatenate(x) for x in zip(*(g for _, g in parts))))
    return boards.Boards.concat([b for b, _ in parts]), given


def situations(line: dict) -> set[str]:
    """What a phase contains, in the names of LEAST."""
    name, found = line["before"]["name"], set()
    words = " ".join(line["words"].values()).split()
    texts = [text for given in line["orders"].values() for text in given]
    found.add(f"{name[0]} {name[-1]}")
    found |= {w for w in words if name[-1] == "M"} & set(LEAST)
    found |= {w for w in ("no convoy",) if w in line["words"].values()}
    found |= {"circular movement"} if "circular" in line else set()
    found |= {"convoy paradox"} if "paradox" in line else set()
    found |= {"other result by DATC 3.0"} if "datc3" in line else set()
    if name[-1] == "R" and "bounce" in words:
        found.add("bounced retreat")
    if name[-1] == "M" and by_convoy(line, texts):
        found.add("by convoy")
    return found | (winter(line, texts) if name[-1] == "A" else set())


def by_convoy(line: dict, texts: list[str]) -> bool:
    """Whether an army that had to go by convoy arrived."""
    return any(text.endswith(" VIA") and text[:5] not in line["words"] for text in texts)


def winter(line: dict, texts: list[str]) -> set[str]:
    """Builds and removals by order, removals by civil disorder and builds waived."""
    found, before, after = set(), line["before"], line["after"]["units"]
    for name in atlas.POWERS:
        here, there = (set(units.get(name, ())) for units in (before["units"], after))
        ordered = {text[:-2] for text in line["orders"].get(name, ())}
        due = len(before["centers"].get(name, ())) - len(here)
        found |= {"builds"} if there - here else set()
        found |= {"removals"} if (here - there) & ordered else set()
        found |= {"civil disorder"} if here - there - ordered else set()
        found |= {"waives"} if due > 0 and there == here else set()
    return found


def thinned(b: boards.Boards, share: float, rng: np.random.Generator) -> boards.Boards:
    """Each unit of movement phases and each owner of a centre stays with probability `share`."""
    gone, b = rng.random(b.unit.shape) > share, b.copy()
    b.unit[gone] = 0
    b.power[gone] = b.loc[gone] = -1
    b.owner[rng.random(b.unit.shape) > share] = -1
    return b


def meeting_retreats(b: boards.Boards, given: boards.Orders) -> boards.Orders:
    """The orders with, on each board, two retreats into one province where that is possible."""
    given, lists, taken = given.copy(), legal.legal_orders(b), {}
    for u in np.flatnonzero(np.isin(b.phase[lists.board], boards.RETREATS)):
        i, p = int(lists.board[u]), lists.province[u]
        for dest in v.VOCABULARY[lists.of(u), v.DEST].tolist():
            q = int(atlas.PROV_OF[dest])
            if dest >= 0 and (i, q) in taken:
                for unit, to in (taken[i, q], (p, dest)):
                    given.kind[i, unit], given.a[i, unit] = boards.RETREAT, to
            elif dest >= 0:
                taken[i, q] = p, dest
    return given


def fewer_adjustments(b: boards.Boards, given: boards.Orders, rng) -> boards.Orders:
    """The orders with a third of those of adjustment phases left out: waives, civil disorder."""
    given = given.copy()
    out = (b.phase == boards.ADJUSTMENTS)[:, None] & (rng.random(b.unit.shape) < 1 / 3)
    for field, blank in zip(given, (0, -1, -1, 0)):
        field[out] = blank
    return given


def followed(b: boards.Boards, given: boards.Orders, rng: np.random.Generator):
    """The batch, and the phases that follow it with uniform orders."""
    yield b, given
    after, _ = rules.resolve(b, given)
    uniform = fewer_adjustments(after, generate.uniform(after, rng), rng)
    yield after, meeting_retreats(after, uniform)


def batches(rng: np.random.Generator):
    """Positions of all four kinds of `generate` with orders, and the phases that follow them."""
    for kind in (generate.uniform, generate.coherent):
        yield from generate.played(1500, rng, kind, 1908)
    for n in range(16):
        yield generate.attacked_convoys(40, 4, rng)
        crowded = generate.scattered(60, 40, 5, rng)
        yield from followed(crowded, generate.coherent(crowded, rng, 0.2), rng)
        dense = thinned(generate.scattered(60, 20 + n, 2 + n % 6, rng), 0.5, rng)
        convoys = thinned(generate.fleets_and_armies(60, 2 + n % 6, rng), 0.7, rng)
        for b in (dense, convoys):
            yield from followed(b, generate.coherent(b, rng, 0.6), rng)


def shrunk(line: dict, rng: np.random.Generator) -> dict:
    """The movement phase with as few units as show its circular movement, its paradox or its other
    result by DATC 3.0.
    """
    (b, given), keys = read(line), {"circular", "paradox", "datc3"} & set(line)
    shrinks = keys and b.phase[0] in boards.MOVES
    if shrinks:
        b.owner[:] = -1
    for p in rng.permutation(np.flatnonzero(b.unit[0])) if shrinks else ():
        fewer = b.copy()
        fewer.unit[0, p], fewer.power[0, p], fewer.loc[0, p] = 0, -1, -1
        (smaller,) = records(fewer, legalise.legalise(fewer, given)[0])
        if {key for key in keys if key in smaller} == keys:
            line, (b, given) = smaller, read(smaller)
    return line


def drawn() -> list[dict]:
    """The cases of `cases`, and phases at random until each situation has been met often enough."""
    rng = seeding.child(3, "frozen corpus")
    known = [(cases.position(case.orders), case.orders) for case in cases.CASES]
    lines = records(*joined([(b, legalise.read_orders(b, 0, given)) for b, given in known]))
    pool = [line for b, given in batches(rng) for line in records(b, given)]
    pool = [line for line in pool if "circular" in line or len(files.to_json(line)) < LONG]
    count, wanted = Counter(), {name: least + 5 for name, least in LEAST.items()}
    rare = Counter(name for line in pool for name in situations(line))
    order = rng.permutation(len(pool)).tolist()
    order.sort(key=lambda k: min(rare[name] for name in situations(pool[k])))
    for k in order:
        if any(count[name] < wanted[name] for name in situations(pool[k])):
            shrinks = k % 2 or len(files.to_json(pool[k])) >= LONG
            lines.append(shrunk(pool[k], rng) if shrinks else pool[k])
            count.update(situations(lines[-1]))
    return lines


def write(lines: list[dict]) -> None:
    files.write_text(FILE, "".join(files.to_json(line) + "\n" for line in lines))


def rewritten(old: list[dict]) -> list[dict]:
    """The phases with the results of now; shows each one that changed."""
    new = records(*joined([read(line) for line in old]))
    for number, (before, after) in enumerate(zip(old, new), 1):
        if before != after:
            print(f"\nline {number}\n- {files.to_json(before)}\n+ {files.to_json(after)}")
    return new


@pytest.fixture
def frozen(rewrite, capsys) -> list[dict]:
    if rewrite and not FILE.exists():
        write(drawn())
    lines = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    if rewrite:
        with capsys.disabled():
            write(lines := rewritten(lines))
    return lines


def test_a_batch_gives_the_frozen_results(frozen):
    now = records(*joined([read(line) for line in frozen]))
    for number, (line, again) in enumerate(zip(frozen, now, strict=True), 1):
        assert again == line, f"line {number}"


def test_single_calls_give_the_frozen_results(frozen):
    for number, line in enumerate(frozen, 1):
        assert records(*read(line)) == [line], f"line {number}"


def test_the_corpus_holds_every_situation(frozen):
    count = Counter(name for line in frozen for name in situations(line))
    short = {name: (count[name], least) for name, least in LEAST.items() if count[name] < least}
    assert len(frozen) >= 500 and not short
    assert len({files.to_json(line) for line in frozen}) == len(frozen)
    assert FILE.stat().st_size < 700_000
    for case, line in zip(cases.CASES, frozen):
        assert line["before"] == position(cases.position(case.orders), 0), case.name


def test_the_file_has_one_form(frozen):
    assert FILE.read_bytes().decode("utf-8") == "".join(files.to_json(x) + "\n" for x in frozen)
