"""What one full search costs, beside the same number of adjudications by the package `diplomacy`.

The state is a movement phase of anchor play in which every power has the full number of candidates:
for this the limit per unit is lifted, so 7 K candidates are met by T iterations. Times are CPU
times of one core, the best of several passes; candidates and values are part of the search's time.
The package's time is that of `process()` alone on a sample of the joint orders that the search
plays, scaled to the number of phases that the search resolved. Setting its positions and orders
up is not counted, and neither is any value; what the search looked up instead of resolving again
is not counted for the package either. So the ratio is a lower bound.
"""

import dataclasses
import time

import numpy as np

from dipllm_lib.dip import (
    atlas,
    boards,
    candidates,
    game,
    hedge,
    legalise,
    orders,
    policies,
    replay,
    search,
    states,
    value,
)
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.payoffs import ValueFunction
from dipllm_lib.dip.records import Record
from dipllm_lib.dip.rowwise import RowwiseValue
from dipllm_lib.dip.search_settings import SearchSettings
from dipllm_lib.run import seeding

YEAR = 1905  # the state is taken from this year's spring


def full_settings(settings) -> SearchSettings:
    """The search settings of a profile without the limit per unit: K candidates for every power."""
    found = SearchSettings.of(settings)
    return dataclasses.replace(found, ratio=float(found.candidates), limit="per_unit")


def search_generator(seed: int) -> np.random.Generator:
    """The generator of the search; its first draws choose the candidates."""
    return seeding.child(seed, "cost", "search")


def full_state(settings: SearchSettings, anchor, seed: int) -> Boards:
    """A spring position of YEAR in which seven powers have all K candidates.

    RuntimeError if 20 games of the anchor have none.
    """
    for number in range(20):
        end = game.EndRules(YEAR)
        played = game.play([[anchor] * atlas.N_POWERS], seed, [("cost", number)], end)[0]
        spring = (played.boards.phase == boards.SPRING_MOVES) & (played.boards.year == YEAR)
        for k in np.flatnonzero(spring):
            position = played.boards.take([k])
            turns = orders.turns(position, 0)
            rng = search_generator(seed)
            found = candidates.choose(turns, anchor, settings, [rng] * len(turns))
            if [len(own) for own, _ in found] == [settings.candidates] * atlas.N_POWERS:
                return position
    raise RuntimeError("no state with all candidates in 20 games: lower the candidates")


def untrained(hidden: int, rng: np.random.Generator) -> value.ValueNet:
    """A value net of that width with random weights: it costs what a trained one costs."""
    shapes = ((value.FEATURES, hidden), (hidden, hidden), (hidden, value.POWERS))
    weights = [rng.normal(0, 0.05, shape).astype(np.float32) for shape in shapes]
    return value.ValueNet(*(value.Layer(w, np.zeros(w.shape[1], np.float32)) for w in weights))


def cost(
    settings,
    value_fn: ValueFunction | None = None,
    anchor=None,
    seed: int = 0,
    passes: int = 3,
    sample: int = 200,
) -> dict[str, float]:
    """Cost of one full search under a profile's settings; needs the package.

    Keys candidates (of all powers), iterations, lookups (values asked for), resolved (phases
    adjudicated and positions valued), seconds (ours), package_phase (seconds of one process()),
    package_seconds (scaled to `resolved`), ratio. Without value_fn an untrained net of the
    profile's width, without anchor SoftDumbBot.
    """
    if value_fn is None:
        net = untrained(settings.value_hidden, seeding.child(seed, "cost", "net"))
        value_fn = RowwiseValue(net)
    anchor = anchor or policies.SoftDumbBot(0.3, 0.1, name="anchor")
    full = full_settings(settings)
    position = full_state(full, anchor, seed)
    record, ours = timed(position, anchor, value_fn, full, seed, passes)
    given = plays(record, sample, seeding.child(seed, "cost", "sample"))
    phase = package_seconds(position, given) / sample
    count = sum(len(power.candidates) for power in record.powers)
    return {
        "candidates": count,
        "iterations": full.iterations,
        "lookups": count * full.iterations,
        "resolved": record.resolved,
        "seconds": ours,
        "package_phase": phase,
        "package_seconds": phase * record.resolved,
        "ratio": phase * record.resolved / ours,
    }


def timed(position, anchor, value_fn, settings, seed, passes) -> tuple[Record, float]:
    """The record and the best CPU time of `passes` searches after one that is not counted."""
    best = float("inf")
    for number in range(passes + 1):
        rng = search_generator(seed)
        start = time.process_time()
        turns = orders.turns(position, 0)
        record = search.search(turns, position, anchor, value_fn, settings, rng)
        best = min(best, time.process_time() - start) if number else best
    return record, best


def plays(record: Record, n: int, rng: np.random.Generator) -> Orders:
    """n joint orders of all powers, each power's drawn from its average policy."""
    per_power = [[] for _ in range(atlas.N_POWERS)]
    picks = np.full((n, atlas.N_POWERS), -1, np.int16)
    for power in record.powers:
        per_power[power.power] = power.candidates
        policy = np.broadcast_to(power.average, (n, len(power.average)))
        picks[:, power.power] = hedge.draw(policy, np.full(n, len(power.average)), rng)
    return orders.expand_picks(orders.joint_table(per_power), picks)


def package_seconds(position: Boards, given: Orders) -> float:
    """CPU seconds that `process()` of the package takes for the rows of orders on one position."""
    official, total = replay.official_game(), 0.0
    state = states.to_state(position)
    many = position.take(np.zeros(given.n, np.intp))
    for texts in legalise.order_texts(many, given):
        official.error, official.popped, official.dislodged = [], [], {}
        official.set_state(state)
        for name, lines in texts.items():
            official.set_orders(name, lines, expand=False)
        start = time.process_time()
        official.process()
        total += time.process_time() - start
    return total
