"""One decision under a clock: coordinator, opponent modeller, executor, cache, stored policy.

Before every call of the model the agent compares the time left with what such calls cost, the 95th
percentile of the last WINDOW calls of that role, and walks down a ladder:

    full             setting (once per game and window), forecast, executor
    last forecast    the executor with the forecast of the round before
    last setting     a setting was due, but the executor keeps the last one
    cache            a distribution that was computed before for this information set
    reference        pi_ref over A(h), stored with the samples

A check needs time left, so a decision is never later than its budget by more than one call. Every
rung draws from a distribution over the legal texts: no action is ever illegal. The clock is an
argument (seconds), so a test can walk the ladder without waiting.

The cache holds distributions by game, information set, setting, forecast as the prompt has it,
digest of the memory, and version of the adapter: all that the prompt depends on, so a hit is bit
for bit what a miss computes. A new version empties it.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dipllm_lib.kto import lm_labels
from dipllm_lib.kto.games import Game
from dipllm_lib.kto.policies import Policy
from dipllm_lib.lm.decoding import draw

RUNGS = FULL, FORECAST, SETTING, CACHE, REFERENCE = (
    "full",
    "last forecast",
    "last setting",
    "cache",
    "reference",
)
WINDOW = 64  # calls of a role that its cost is estimated from
QUANTILE = 0.95
Clock = Callable[[], float]


@dataclass(frozen=True)
class Decision:
    """What was said and why. action: index of the legal text · rung: one of RUNGS · ms: wall time ·
    hit: the distribution came from the cache · log_prob: of the action, nats."""

    text: str
    action: int
    rung: str
    ms: float
    setting: str
    forecast: str
    hit: bool
    log_prob: float


class StrategyCache:
    """Distributions that were computed before; hits and misses are counted.

    version: of the executor's adapter.
    """

    def __init__(self, version: str):
        self.version = version
        self._rows: dict[Hashable, np.ndarray] = {}
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._rows)

    def renew(self, version: str) -> None:
        """Empty the cache if the adapter has another version."""
        if version != self.version:
            self.version = version
            self._rows.clear()

    def key(self, game: Game, infoset: Hashable, setting: str, forecast: str, memory: str = ""):
        """All that the executor's prompt depends on."""
        return game.name, infoset, setting, forecast, memory, self.version

    def get(self, key: Hashable) -> np.ndarray | None:
        """The stored log-probabilities, the very same array, or None."""
        found = self._rows.get(key)
        self.hits += found is not None
        self.misses += found is None
        return found

    def put(self, key: Hashable, row: np.ndarray) -> None:
        """Keep a distribution."""
        self._rows[key] = row

    def warm(
        self,
        policy: Policy,
        game: Game,
        places: Sequence[tuple[Any, int]],
        settings: Sequence[str],
        forecasts: Sequence[str] = ("",),
    ) -> int:
        """Compute what is missing for all places, settings and forecasts; returns how many.

        One context at a time, as a miss does, so that a hit has the bits of a miss.
        """
        count = 0
        for state, player in places:
            for setting in settings:
                for forecast in forecasts:
                    key = self.key(game, game.infoset(state, player), setting, forecast)
                    if key not in self._rows:
                        own = lm_labels.context(game, state, player, setting, forecast)
                        self.put(key, policy.log_probs([own])[0])
                        count += 1
        return count


@dataclass
class Costs:
    """Running cost of each role's calls, seconds; an estimate of 0 before the first call."""

    calls: dict[str, deque] = field(default_factory=dict)

    def add(self, role: str, seconds: float) -> None:
        """One call."""
        self.calls.setdefault(role, deque(maxlen=WINDOW)).append(seconds)

    def of(self, *roles: str) -> float:
        """Sum of the 95th percentiles of some roles."""
        found = [self.calls[role] for role in roles if role in self.calls]
        return float(sum(np.quantile(own, QUANTILE) for own in found))


class KTOAgent:
    """Plays one seat of a game.

    executor: policy of the contexts · reference: (game name, infoset) -> stored log pi_ref ·
    modeller: (state, player) -> sentence of the forecast, None for games without one ·
    coordinator: () -> letter, asked at the start of each window · budget: seconds per decision ·
    top: the highest rung that is tried, for measurements.
    """

    def __init__(
        self,
        executor: Policy,
        reference: Mapping[Hashable, np.ndarray],
        clock: Clock,
        budget: float,
        cache: StrategyCache,
        *,
        modeller: Callable[[Any, int], str] | None = None,
        coordinator: Callable[[], str] | None = None,
        setting: str = "A",
        top: str = FULL,
    ):
        self.executor, self.reference, self.clock = executor, reference, clock
        self.budget, self.cache, self.top = budget, cache, RUNGS.index(top)
        self.modeller, self.coordinator = modeller, coordinator
        self.setting, self.forecast, self.due = setting, "", coordinator is not None
        self.costs = Costs()

    def new_window(self) -> None:
        """The coordinator is asked again at the next decision."""
        self.due = self.coordinator is not None

    def decide(self, game: Game, state: Any, player: int, rng: np.random.Generator) -> Decision:
        """One decision. KeyError where the ladder ends at an information set without pi_ref."""
        start = self.clock()
        rung = self._setting(start)
        rung = max(rung, self._forecast(start, state, player))
        row, rung, hit = self._row(start, game, state, player, rung)
        action = draw(row, rng)
        text = game.legal(state, player)[action]
        spent = 1000 * (self.clock() - start)
        facts = self.setting, self.forecast, hit, float(row[action])
        return Decision(text, action, RUNGS[rung], spent, *facts)

    def _fits(self, start: float, *roles: str) -> bool:
        left = self.budget - (self.clock() - start)
        return left > 0 and self.costs.of(*roles) <= left

    def _call(self, role: str, function: Callable, *arguments):
        before = self.clock()
        found = function(*arguments)
        self.costs.add(role, self.clock() - before)
        return found

    def _setting(self, start: float) -> int:
        """The rung that the choice of a setting leaves."""
        if not self.due:
            return 0
        if self.top < 2 and self._fits(start, "coordinator", "executor"):
            self.setting, self.due = self._call("coordinator", self.coordinator), False
            return 0
        return RUNGS.index(SETTING)

    def _forecast(self, start: float, state: Any, player: int) -> int:
        if self.modeller is None:
            return 0
        if self.top < 1 and self._fits(start, "opponent", "executor"):
            self.forecast = self._call("opponent", self.modeller, state, player)
            return 0
        return RUNGS.index(FORECAST)

    def _row(self, start: float, game: Game, state: Any, player: int, rung: int):
        """(log-probabilities, rung, hit)."""
        infoset = game.infoset(state, player)
        key = self.cache.key(game, infoset, self.setting, self.forecast)
        found = self.cache.get(key) if self.top < RUNGS.index(REFERENCE) else None
        executes = self.top < RUNGS.index(CACHE) and self._fits(start, "executor")
        if found is not None:
            return found, rung if executes else RUNGS.index(CACHE), True
        if executes:
            own = lm_labels.context(game, state, player, self.setting, self.forecast)
            found = self._call("executor", self.executor.log_probs, [own])[0]
            self.cache.put(key, found)
            return found, max(rung, self.top), False
        return self.reference[game.name, infoset], RUNGS.index(REFERENCE), False
