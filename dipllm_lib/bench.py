"""The cost table: this artifact beside what a reader would otherwise use, in one run.

Each bench is a function quick -> rows {name, ours, peer, unit, ratio}; ratio > 1 means that ours is
faster. Times are CPU times of one core, the best of several passes, so that a busy machine does not
decide; compiling happens before the first pass. What the rows were measured on (versions, machine,
units per board) is told line by line to `note`; the command prints it on stderr behind a #.

`rules`: 600 movement phases each of random play with uniform and with coherent orders. Ours judges
them in batches of 4,096 rows, applies them and finds the retreats; the package `diplomacy` judges
the same phases: `process()` alone, and in the rows `set up too` with `set_state` and `set_orders`.
The rows `one a call` are single calls from Python against the latter. Legal orders: of all units of
these positions. Whole random games: arrays only (`rollouts`) against uniformly random orders on the
package. `games`: the same with our recorded games (`game.play`: policies, texts, results).
`search`: one equilibrium search, candidates and values included. `lm`: the language model.
`parallel`: what a second worker is worth; wall times, the only ones here.
"""

import functools
import importlib.metadata
import platform
import time
from collections.abc import Callable

import numpy as np

from dipllm_lib.dip import (
    atlas,
    boards,
    game,
    generate,
    legal,
    legalise,
    policies,
    replay,
    rollouts,
    rules,
    search_cost,
    states,
)
from dipllm_lib.run import profiles, seeding
from dipllm_lib.run.timing import seconds

SEED = 0
BATCH = 4096


def row(name: str, ours: float, peer: float, unit: str) -> dict:
    """One line of the cost table; of `ours` and `peer` the higher is the better."""
    return {"name": name, "ours": ours, "peer": peer, "unit": unit, "ratio": ours / peer}


def silent(text: str) -> None:
    """A `note` for callers who want the rows only."""


def machine() -> str:
    """One line: machine and versions."""
    packages = ("numpy", "numba", "diplomacy")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"one core of {system}, {', '.join(versions)}"


def movement_phases(n: int, orders: Callable) -> tuple[boards.Boards, boards.Orders]:
    """n movement phases of random play with their orders."""
    rng = seeding.child(SEED, "bench", orders.__name__)
    pairs = generate.played(4 * n, rng, orders)
    positions = boards.Boards.concat([b for b, _ in pairs])
    given = boards.Orders(*(np.concatenate(f) for f in zip(*(o for _, o in pairs), strict=True)))
    keep = np.flatnonzero(np.isin(positions.phase, boards.MOVES))[:n]
    return positions.take(keep), given.take(keep)


def bench_rules(quick: bool, note: Callable[[str], None] = silent) -> list[dict]:
    """Movement phases, legal orders and whole random games, each beside the package."""
    # fewer than 600 boards would flatter ours: the processor learns what it sees again and again
    n, passes, rows = 600, 2 if quick else 5, []
    for orders in (generate.uniform, generate.coherent):
        positions, given = movement_phases(n, orders)
        name = f"movement, {orders.__name__} orders"
        units = (positions.unit > 0).sum() / n
        note(f"{name}: {n} phases, {units:.1f} units a board, batches of {BATCH}")
        rows += _movement(name, positions, given, passes)
        rows.append(_legal(orders.__name__, positions, passes))
    return rows + [_random_games(quick, note)]


def _movement(name: str, positions: boards.Boards, given: boards.Orders, passes: int) -> list[dict]:
    """Batches against both ways to time the package, single calls against its whole call."""
    n = positions.n
    board_of = np.tile(np.arange(n), -(-BATCH // n))[:BATCH]
    batch = given.take(board_of)
    ours = BATCH / seconds(functools.partial(rules.resolve, positions, batch, board_of), passes)
    singles = [(positions.take([i]), given.take([i])) for i in range(n)]
    alone = n / seconds(lambda: [rules.resolve(b, o) for b, o in singles], passes)
    process, call = (n / x for x in _package_seconds(positions, given, passes))
    return [
        row(name, ours, process, "phases/s"),
        row(f"{name}, set up too", ours, call, "phases/s"),
        row(f"{name}, one a call", alone, call, "phases/s"),
    ]


def _package_seconds(
    positions: boards.Boards, given: boards.Orders, passes: int
) -> tuple[float, float]:
    """CPU seconds of the package over all phases, best of the passes: of `process()` alone, and
    with `set_state` and `set_orders`.
    """
    official, best = replay.official_game(), [float("inf")] * 2
    setups = [states.to_state(positions, i) for i in range(positions.n)]
    texts = legalise.order_texts(positions, given)
    for _ in range(passes):
        total = [0.0, 0.0]
        for state, orders in zip(setups, texts, strict=True):
            official.error, official.popped, official.dislodged = [], [], {}
            start = time.process_time()
            official.set_state(state)
            for name, listed in orders.items():
                official.set_orders(name, listed, expand=False)
            middle = time.process_time()
            official.process()
            end = time.process_time()
            total[0], total[1] = total[0] + end - middle, total[1] + end - start
        best = [min(a, b) for a, b in zip(best, total)]
    return best[0], best[1]


def _legal(name: str, positions: boards.Boards, passes: int) -> dict:
    """All legal orders of all units, per position."""
    batch = positions.take(np.arange(BATCH) % positions.n)
    ours = BATCH / seconds(functools.partial(legal.legal_orders, batch), passes)
    official, best = replay.official_game(), float("inf")
    for _ in range(passes):
        total = 0.0
        for i in range(positions.n):
            official.set_state(states.to_state(positions, i))
            start = time.process_time()
            official.get_all_possible_orders()
            total += time.process_time() - start
        best = min(best, total)
    return row(f"legal orders, {name} play", ours, positions.n / best, "positions/s")


def _random_games(quick: bool, note: Callable[[str], None]) -> dict:
    """Whole games from Spring 1901, arrays only."""
    count, last_year, passes = (64, 1904, 2) if quick else (512, 1908, 5)
    numbers, end = np.arange(count), game.EndRules(last_year)
    play = functools.partial(rollouts.play, boards.start(), numbers, SEED, end)
    phases = int(play().phases.sum())
    ours = phases / seconds(play, passes)
    units = boards.units(play().boards).sum() / count
    note(f"whole random games to {last_year}: {count} ours, {units:.1f} units at the end")
    return row(
        "whole random games", ours, _package_games(2 if quick else 12, last_year), "phases/s"
    )


def bench_games(quick: bool, note: Callable[[str], None] = silent) -> list[dict]:
    """Whole games of random legal orders with texts and results, against play on the package."""
    count, last_year = (4, 1903) if quick else (32, 1908)
    end, player = game.EndRules(last_year), policies.RandomLegal()
    names = [("bench", number) for number in range(count)]
    seats = [[player] * atlas.N_POWERS] * count
    phases = sum(g.boards.n - 1 for g in game.play(seats, SEED, names, end))
    ours = phases / seconds(lambda: game.play(seats, SEED, names, end), 2)
    peer = _package_games(max(1, count // 4), last_year)
    return [row("whole random games, recorded", ours, peer, "phases/s")]


def _package_games(count: int, last_year: int) -> float:
    """Phases per CPU second of the package: the fastest third of the games, three at least."""
    _package_game(0, boards.FIRST_YEAR)
    rates = []
    for number in range(count):
        start = time.process_time()
        phases = _package_game(number, last_year)
        rates.append(phases / (time.process_time() - start))
    return float(np.mean(sorted(rates)[-max(3, count // 3) :]))


def _package_game(number: int, last_year: int) -> int:
    """Play one game of uniformly random orders on the package; returns its phases."""
    rng, official, phases = seeding.child(SEED, "bench", number), replay.official_game(), 0
    while not official.is_game_done and int(official.get_current_phase()[1:5]) <= last_year:
        possible = official.get_all_possible_orders()
        for name in atlas.POWERS:
            places = sorted(official.get_orderable_locations(name))
            lists = [sorted(possible[place]) for place in places if possible[place]]
            chosen = [ids[rng.integers(len(ids))] for ids in lists]
            official.set_orders(name, chosen, expand=False)
        official.process()
        phases += 1
    return phases


def bench_search(quick: bool, note: Callable[[str], None] = silent) -> list[dict]:
    """One full search of all seven powers, values included, against `process()` of the package for
    the phases that it resolved (`search_cost`); with the settings of `paper` (Table 3) and `cpu`.
    """
    rows = []
    for name in ("cpu",) if quick else ("paper", "cpu"):
        settings = profiles.load(name, SEED).dip
        found = search_cost.cost(settings, seed=SEED, passes=1 if quick else 3)
        note(
            f"search as in {name}: {found['candidates']:.0f} candidates, {found['iterations']:.0f} "
            f"iterations, {found['resolved']:.0f} phases in {found['seconds']:.3f} s, on the "
            f"package {found['package_seconds']:.1f} s"
        )
        ours = found["resolved"] / found["seconds"]
        rows.append(row(f"search as in {name}", ours, 1 / found["package_phase"], "phases/s"))
    return rows


def bench_lm(quick: bool, note: Callable[[str], None] = silent) -> list[dict]:
    """SmolLM2-135M-Instruct at mid-game positions: orders per second against one prompt of codec
    `paper` per unit with `generate`, seconds per decision (`lm_cost`), and training of its LoRA
    adapter in packed rows against one sample per unit (`train_cost`).
    """
    from dipllm_lib.dip import finetune, lm_cost, train_cost
    from dipllm_lib.lm import adapters

    settings = profiles.load("cpu", SEED).dip
    model = finetune.backbone(settings, SEED)
    note(f"the faster precision here is {lm_cost.faster_dtype(model, note)}")
    rows = lm_cost.cost(model, quick, note)
    adapters.attach(model, "bench", settings.lora_rank, settings.lora_alpha, 0.0, SEED)
    found = train_cost.mid_game_rows(settings, SEED, 1 if quick else 2)
    passes, sample = (1, 8) if quick else (2, 24)
    return rows + train_cost.cost(model, found, settings, passes, sample, note)


def bench_ipd(quick: bool, note: Callable[[str], None] = silent) -> list[dict]:
    """Study 2: all seeds in one stack against a loop over plain models (`ipd.bench`)."""
    from dipllm_lib.ipd import bench

    return bench.bench_ipd(quick, note)


def bench_parallel(quick: bool, note: Callable[[str], None] = silent) -> list[dict]:
    """Two workers beside one: processes and, where it is installed, Ray (`bench_parallel`)."""
    from dipllm_lib import bench_parallel

    return bench_parallel.bench_parallel(quick, note)


BENCHES = {
    "rules": bench_rules,
    "games": bench_games,
    "search": bench_search,
    "lm": bench_lm,
    "ipd": bench_ipd,
    "parallel": bench_parallel,
}
