"""Searches on a few positions, for the tests of what is trained on them."""

import numpy as np
import pytest

from dipllm_lib.dip import orders, policies, rules, search, value
from dipllm_lib.dip.search_settings import SearchSettings
from dipllm_lib.run import profiles


@pytest.fixture(scope="session")
def searches():
    """Rows as in 01_search.jsonl: three positions of 1901 in each of four games of random players,
    searched with a uniform anchor and the heuristic value.
    """
    settings = SearchSettings.of(profiles.load("smoke", 0).dip)
    anchor, rows = policies.RandomLegal(), []
    for number in range(4):
        rng, now = np.random.default_rng([11, number]), rules.start()
        for _ in range(3):
            turns = orders.turns(now)
            record = search.search(turns, now, anchor, value.heuristic, settings, rng)
            rows.append(record.to_json() | {"game": f"g{number}"})
            joints = {turn.power: anchor.act([turn], [rng])[0] for turn in turns}
            now, _ = rules.resolve(now, orders.expand(now, [joints]))
    return rows
