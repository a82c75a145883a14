"""The adjudicator held against the package `diplomacy` on fresh random positions.

Five kinds of positions: random play with `uniform` or with `coherent` orders (supports and convoys
that fit what the others do), `dense` boards with 20 to 49 units anywhere, `convoys`, boards full of
fleets and armies on coasts, and `paradoxes`, where fleets that convoy are attacked. Compared are
units, dislodged units, retreat lists, centres and the next phase; `deviations` names the cause of
each difference.

A run is cut into chunks of at most CHUNK positions with a generator each, so its result does not
depend on the number of workers.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from dipllm_lib.dip import boards, deviations, generate, legalise, replay, rules, states
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.run import parallel, seeding

KINDS = ("uniform", "coherent", "dense", "convoys", "paradoxes")
REVIEWED = ("B4", "B5", "C1")  # causes whose cases are listed one by one, after a look at each
CHUNK = 1000
BATCH = 40


def pairs(kind: str, n: int, rng: np.random.Generator) -> Iterator[tuple[Boards, Orders]]:
    """Batches of positions of one of KINDS with a row of legal orders each, n positions in all.
    ValueError for another kind.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r}: must be one of {', '.join(KINDS)}")
    left = n
    for positions, orders in _batches(kind, n, rng):
        if positions.n > left:
            positions, orders = positions.take(np.arange(left)), orders.take(np.arange(left))
        left -= positions.n
        yield positions, orders
        if left <= 0:
            return


def _batches(kind: str, n: int, rng: np.random.Generator) -> Iterator[tuple[Boards, Orders]]:
    """At least n positions."""
    if kind in ("uniform", "coherent"):
        yield from generate.played(n, rng, getattr(generate, kind))
        return
    while True:
        powers = int(rng.integers(2, 8))
        if kind == "dense":
            b = generate.scattered(BATCH, int(rng.integers(20, 50)), powers, rng)
            yield b, generate.coherent(b, rng)
        elif kind == "paradoxes":
            yield generate.attacked_convoys(BATCH, powers, rng)
        else:
            b = generate.fleets_and_armies(BATCH, powers, rng)
            yield b, generate.coherent(b, rng, 0.6)


def count(kind: str, n: int, seed: int, chunk: int = 0) -> dict:
    """Compare n positions of a kind; seed and chunk name the generator. Keys: kind, phases,
    movement (phases of it), units (in all), anomalies (of the adjudicator), causes (cause -> count,
    "" for none), fingerprints (cause of REVIEWED -> list), unexplained (texts).
    """
    rng = seeding.child(seed, "rules-diff", kind, chunk)
    official, causes = replay.official_game(), Counter()
    result = {"kind": kind, "phases": 0, "movement": 0, "units": 0, "anomalies": 0}
    result |= {"fingerprints": {cause: [] for cause in REVIEWED}, "unexplained": []}
    for positions, orders in pairs(kind, n, rng):
        after, made = rules.resolve(positions, orders)
        result["phases"] += positions.n
        result["movement"] += int(np.isin(positions.phase, boards.MOVES).sum())
        result["units"] += int((positions.unit > 0).sum())
        result["anomalies"] += int(made.counts[:, 2].sum())
        for i in range(positions.n):
            case = _case(official, positions, orders, made, after, i)
            cause = deviations.explain(case)
            causes[cause] += 1
            if cause in REVIEWED:
                result["fingerprints"][cause].append(deviations.fingerprint(case))
            elif cause == "?":
                result["unexplained"].append(report(case))
    return result | {"causes": dict(causes)}


def _case(official, positions, orders, made, after, i: int) -> deviations.Case:
    """Row i adjudicated by the package as well."""
    before, given = positions.take([i]), orders.take([i])
    theirs, words = replay.run(official, before, given)
    decisions = rules.Decisions(*(field[i : i + 1] for field in made))
    return deviations.Case(before, given, decisions, after.take([i]), theirs, words)


def report(case: deviations.Case) -> str:
    """The case in full: phase, units, orders, then units and retreats here and on the package."""
    before, ours = states.to_state(case.before), states.to_state(case.after)
    lines = [f"{before['name']} {deviations.fingerprint(case)}", f"  units    {before['units']}"]
    lines += [f"  retreats {before['retreats']}", f"  centres  {before['centers']}"]
    lines.append(f"  orders   {legalise.order_texts(case.before, case.orders)[0]}")
    for name, state in (("ours", ours), ("package", case.theirs)):
        there = (state["name"], deviations.standing(state), deviations.retreat_lists(state))
        lines.append(f"  {name:<8} {' '.join(map(str, there))}")
    return "\n".join(lines)


def chunks(positions: int) -> list[tuple[str, int, int]]:
    """(kind, size, number of the chunk) of a run: equal shares of the kinds, the first ones get
    what is left over.
    """
    share, rest = divmod(positions, len(KINDS))
    result = []
    for place, kind in enumerate(KINDS):
        total = share + (place < rest)
        for number, first in enumerate(range(0, total, CHUNK)):
            result.append((kind, min(CHUNK, total - first), number))
    return result


def _task(task: tuple[str, int, int, int]) -> dict:
    kind, n, number, seed = task
    return count(kind, n, seed, number)


def run(positions: int, seed: int, workers: int = 1, text: str = "") -> list[dict]:
    """One dict as of `count` for each kind that got positions. text: as in `parallel.map`."""
    tasks = [(*chunk, seed) for chunk in chunks(positions)]
    parts = parallel.map(_task, tasks, workers, 1, text)
    return [
        _sum([p for p in parts if p["kind"] == kind])
        for kind in KINDS
        if any(p["kind"] == kind for p in parts)
    ]


def _sum(parts: list[dict]) -> dict:
    result = {"kind": parts[0]["kind"]}
    for key in ("phases", "movement", "units", "anomalies"):
        result[key] = sum(part[key] for part in parts)
    result["causes"] = dict(sum((Counter(part["causes"]) for part in parts), Counter()))
    result["fingerprints"] = {
        cause: [print_ for part in parts for print_ in part["fingerprints"][cause]]
        for cause in REVIEWED
    }
    result["unexplained"] = [text for part in parts for text in part["unexplained"]]
    return result


def lines(results: list[dict]) -> list[str]:
    """The result of `run` as a table, then the fingerprints, then unexplained cases in full."""
    causes = ("", *deviations.CAUSES, "?")
    heads = ("phases", "movement", "units", "agree", *deviations.CAUSES, "unexplained", "anomalies")
    widths = [max(7, len(head)) + 2 for head in heads]
    text = [f"{'kind':<10}" + "".join(f"{h:>{w}}" for h, w in zip(heads, widths))]
    for row in results:
        units = f"{row['units'] / row['phases']:.1f}"  # a board
        numbers = [row["phases"], row["movement"], units]
        numbers += [row["causes"].get(cause, 0) for cause in causes] + [row["anomalies"]]
        text.append(f"{row['kind']:<10}" + "".join(f"{x:>{w}}" for x, w in zip(numbers, widths)))
    for cause in REVIEWED:
        found = [f for row in results for f in row["fingerprints"][cause]]
        if found:
            text.append(f"{cause}: {' '.join(found)}")
    return text + [case for row in results for case in row["unexplained"]]


def failed(results: list[dict]) -> bool:
    """Whether a difference is unexplained or the adjudicator met an anomaly."""
    return any(row["unexplained"] or row["anomalies"] for row in results)
