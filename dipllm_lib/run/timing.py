"""CPU time of a function: what the cost tables are made of."""

import time
from collections.abc import Callable


def seconds(function: Callable[[], object], passes: int) -> float:
    """Best CPU time of `passes` calls after one that is not counted."""
    function()
    best = float("inf")
    for _ in range(passes):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best
