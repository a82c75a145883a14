"""The cost table: this artifact beside what a reader would otherwise use, in one run.

Each bench is a function quick -> rows {name, ours, peer, unit, ratio}; ratio > 1 means that ours is
faster. Times are CPU times of one core, the best of several passes, so that a busy machine does not
decide; compiling happens before the first pass.
"""

import functools
import time
from collections.abc import Callable

import numpy as np

from dipllm_lib.dip import atlas, boards, game, generate, legalise, policies, replay, rules, states
from dipllm_lib.run import seeding

SEED = 0


def seconds(function: Callable[[], object], passes: int) -> float:
    """Best CPU time of `passes` calls after one that is not counted."""
    function()
    best = float("inf")
    for _ in range(passes):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


def row(name: str, ours: float, peer: float, unit: str) -> dict:
    """One line of the cost table; of `ours` and `peer` the higher is the better."""
    return {"name": name, "ours": ours, "peer": peer, "unit": unit, "ratio": ours / peer}


def movement_phases(n: int, orders: Callable) -> tuple[boards.Boards, boards.Orders]:
    """n movement phases of random play with their orders."""
    rng = seeding.child(SEED, "bench", orders.__name__)
    pairs = generate.played(4 * n, rng, orders)
    positions = boards.Boards.concat([b for b, _ in pairs])
    given = boards.Orders(*(np.concatenate(f) for f in zip(*(o for _, o in pairs), strict=True)))
    keep = np.flatnonzero(np.isin(positions.phase, boards.MOVES))[:n]
    return positions.take(keep), given.take(keep)


def bench_rules(quick: bool) -> list[dict]:
    """Movement phases per second against `process()` of the package, on the same phases."""
    n, passes, rows = (60, 2, []) if quick else (600, 5, [])
    for orders in (generate.uniform, generate.coherent):
        positions, given = movement_phases(n, orders)
        board_of = np.tile(np.arange(n), -(-4096 // n))
        batch = given.take(board_of)
        ours = seconds(functools.partial(rules.resolve, positions, batch, board_of), passes)
        peer = _package_seconds(positions, given)
        name = f"movement, {orders.__name__} orders"
        rows.append(row(name, len(board_of) / ours, n / peer, "phases/s"))
    return rows


def _package_seconds(positions: boards.Boards, given: boards.Orders) -> float:
    """CPU seconds of `process()` alone over all phases; setting them up is not counted."""
    official, total = replay.official_game(), 0.0
    texts = legalise.order_texts(positions, given)
    for i in range(positions.n):
        official.error, official.popped, official.dislodged = [], [], {}
        official.set_state(states.to_state(positions, i))
        for name, orders in texts[i].items():
            official.set_orders(name, orders, expand=False)
        start = time.process_time()
        official.process()
        total += time.process_time() - start
    return total


def bench_games(quick: bool) -> list[dict]:
    """Whole games of random legal orders, recorded, against the same play on the package."""
    count, last_year = (4, 1903) if quick else (32, 1908)
    end, player = game.EndRules(last_year), policies.RandomLegal()
    names = [("bench", number) for number in range(count)]
    seats = [[player] * atlas.N_POWERS] * count
    phases = sum(g.boards.n - 1 for g in game.play(seats, SEED, names, end))
    ours = seconds(lambda: game.play(seats, SEED, names, end), 2)
    start = time.process_time()
    played = sum(_package_game(number, last_year) for number in range(max(1, count // 8)))
    peer = time.process_time() - start
    return [row("whole random games", phases / ours, played / peer, "phases/s")]


def _package_game(number: int, last_year: int) -> int:
    """Play one game of uniformly random orders on the package; returns its phases."""
    rng, official, phases = seeding.child(SEED, "bench", number), replay.official_game(), 0
    while not official.is_game_done and int(official.get_current_phase()[1:5]) <= last_year:
        possible = official.get_all_possible_orders()
        for name in atlas.POWERS:
            places = sorted(official.get_orderable_locations(name))
            lists = [sorted(possible[place]) for place in places if possible[place]]
            official.set_orders(name, [ids[rng.integers(len(ids))] for ids in lists])
        official.process()
        phases += 1
    return phases


BENCHES = {"rules": bench_rules, "games": bench_games}
