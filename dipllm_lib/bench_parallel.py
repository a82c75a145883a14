"""What a second worker is worth: whole recorded games of random legal orders, a game a task.

Each way is `parallel.map` as notebooks call it: in this process, in two worker processes (their
start included, which every call pays), and, where Ray is installed, in two workers of a Ray on this
machine (without its start, which a run pays once). The rows are {name, ours, peer, unit, ratio}:
games per second with two workers beside one in this process, so the ratio is the speed-up; 2 is the
most. Times are wall times here, best of several passes: CPU times would not show waiting.
"""

import time
from collections.abc import Callable

from dipllm_lib.dip import atlas, game, policies
from dipllm_lib.run import parallel, ray_backend, ray_connect, task_env

WORKERS = 2
GAMES, GAMES_QUICK = 1500, 300  # about 20 and 4 s for one worker: the start of two takes seconds
LAST_YEAR = 1908


def play(task: tuple[int, int]) -> int:
    """(number, last year) -> phases of that game of random legal orders."""
    number, last_year = task
    seats = [[policies.RandomLegal()] * atlas.N_POWERS]
    names = [("bench", "parallel", number)]
    return next(iter(game.play(seats, 0, names, game.EndRules(last_year)))).boards.n - 1


def bench_parallel(quick: bool, note: Callable[[str], None]) -> list[dict]:
    """A row for worker processes and one for Ray, if it is installed."""
    count, passes = (GAMES_QUICK, 1) if quick else (GAMES, 2)
    tasks = [(number, LAST_YEAR) for number in range(count)]
    play(tasks[0])  # compiles
    alone = _wall(tasks, 1, passes)
    note(f"{count} games to {LAST_YEAR}: {alone[0]:.2f} s in this process, wall time")
    rows = [_row("processes", alone, _wall(tasks, WORKERS, passes), note)]
    if not ray_connect.installed():
        note(f"without Ray: {ray_connect.INSTALL}")
        return rows
    start = time.perf_counter()
    with ray_backend.cluster(None, WORKERS):
        note(f"Ray on this machine: started in {time.perf_counter() - start:.1f} s")
        with task_env.variables({task_env.BACKEND: "ray"}):
            rows.append(_row("workers of Ray", alone, _wall(tasks, WORKERS, passes), note))
    return rows


def _row(name: str, alone: tuple, together: tuple, note: Callable) -> dict:
    """alone, together: what `_wall` found. Raises RuntimeError if the games differ."""
    if together[1] != alone[1]:
        raise RuntimeError(f"{WORKERS} {name}: games came out differently from those of one")
    note(f"{WORKERS} {name}: {together[0]:.2f} s")
    ours, peer = (len(games) / seconds for seconds, games in (together, alone))
    fields = {"name": f"{WORKERS} {name}, one worker beside", "ours": ours, "peer": peer}
    return fields | {"unit": "games/s", "ratio": ours / peer}


def _wall(tasks: list, workers: int, passes: int) -> tuple[float, list[int]]:
    """Best wall time in seconds of `passes` maps, and what they returned."""
    best, results = float("inf"), []
    for _ in range(passes):
        start = time.perf_counter()
        results = parallel.map(play, tasks, workers, 1)
        best = min(best, time.perf_counter() - start)
    return best, results
