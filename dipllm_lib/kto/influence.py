"""Strategy Influence Graph: edges are effects of interventions on the executor's distribution.

Every number is an average over decision states of what changes when one thing is changed and all
else is held, in nats, with pi the executor's exact distribution over the legal texts:

    module off    KL(pi || pi_off)       adapter disabled; forecast replaced by the pool mean, the
                                         mixture of pi over the pool's forecasts; store emptied;
                                         setting forced to A; cache bypassed
    social        KL(pi || pi_swapped)   the opponent's last action replaced by each other legal
                                         one, mean over them; forecast recomputed (total) or held
                                         (direct)
    parameter     |l_X - l_A| / |change| mean absolute difference of the log-probability between
                                         setting X and A, texts weighted by the mean of the two
                                         policies, per unit of the one parameter in which X
                                         differs; `drift` is its signed companion, the mean action
                                         under X minus that under A over the change. Unweighted, the
                                         difference of two texts that are never said would count
    modules       KL(p || p_off)         of the modeller's forecast and of the coordinator's choice,
                                         each with its own adapter disabled

Zero rule: each distinct (policy, context) is computed once, so a module that is not connected
changes no input and its edge is exactly 0.0. The cache returns what it stored, so its edge is 0.0
always; it is computed anew to show it.

Shapes: N states; edges hold mean, 95 % bootstrap interval over states, n and unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipllm_lib.kto import labels
from dipllm_lib.kto.agent import StrategyCache
from dipllm_lib.kto.policies import Context, Policy
from dipllm_lib.kto.wiring import Prompts, Situation, Wiring
from dipllm_lib.run import seeding, stats

NATS = "nats"
ACTION = "action"
PARAMETERS = {"alpha": "D", "beta": "E", "lambda": "BC", "rho": "F"}


@dataclass(frozen=True)
class Edge:
    """name: one of EDGES · value, low, high: mean over n states · intervention: in words ·
    connected: whether the source is wired at all."""

    name: str
    source: str
    target: str
    value: float
    low: float
    high: float
    n: int
    unit: str
    intervention: str
    connected: bool


@dataclass
class Effects:
    """Effects by state: name of the edge -> (N,). `edge` gives means with intervals."""

    rows: dict[str, np.ndarray]
    drift: dict[str, np.ndarray]
    connected: dict[str, bool]


class Distributions:
    """Distributions of many contexts, each distinct (policy, context) computed once."""

    def __init__(self):
        self._rows: dict[tuple[int, Context], np.ndarray] = {}

    def compute(self, asked: Sequence[tuple[Policy, Context]]) -> None:
        """All that is not known yet, one call per policy."""
        missing: dict[int, tuple[Policy, dict[Context, None]]] = {}
        for policy, context in asked:
            if (id(policy), context) not in self._rows:
                missing.setdefault(id(policy), (policy, {}))[1][context] = None
        for policy, contexts in missing.values():
            found = policy.log_probs(list(contexts))
            for context, row in zip(contexts, found, strict=True):
                self._rows[id(policy), context] = row

    def of(self, policy: Policy, context: Context) -> np.ndarray:
        """Log-probabilities (|A(h)|,)."""
        if (id(policy), context) not in self._rows:
            self.compute([(policy, context)])
        return self._rows[id(policy), context]


def divergence(own: np.ndarray, other: np.ndarray) -> float:
    """KL(p || q) >= 0 in nats of log-probabilities (A,); exactly 0.0 for equal bits."""
    if np.array_equal(own, other):
        return 0.0
    p = np.exp(own)
    kept = p > 0
    return max(0.0, float(p[kept] @ (own[kept] - other[kept])))


def mixture(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Log of the mean of distributions; exactly the row itself where all have its bits."""
    if all(np.array_equal(row, rows[0]) for row in rows):
        return rows[0]
    return np.logaddexp.reduce(rows, axis=0) - np.log(len(rows))


def changed(letter: str, rho_change: float) -> float:
    """By how much the one parameter of a setting differs from A, signed."""
    own, first = labels.SETTINGS[letter].params, labels.SETTINGS["A"].params
    if letter == "F":
        return rho_change
    name = {"B": "lam", "C": "lam", "D": "alpha", "E": "beta"}[letter]
    return getattr(own, name) - getattr(first, name)


def effects(wiring: Wiring, given: Sequence[Situation]) -> Effects:
    """All effects of a wiring at the given situations. ValueError for none."""
    if not given:
        raise ValueError("an influence graph needs at least one decision state")
    prompts, known = Prompts(wiring), Distributions()
    wanted = [_Asked(wiring, prompts, at) for at in given]
    known.compute([pair for one in wanted for pair in one.pairs()])
    rows: dict[str, list[float]] = {}
    drift: dict[str, list[float]] = {}
    for one in wanted:
        for name, value in one.effects(known).items():
            rows.setdefault(name, []).append(value)
        for name, value in one.drift(known).items():
            drift.setdefault(name, []).append(value)
    rows["cache"] = _cached(wiring, [one.own for one in wanted])
    found = {name: np.array(values) for name, values in rows.items()}
    return Effects(found, {k: np.array(v) for k, v in drift.items()}, _connected(wiring))


class _Asked:
    """The contexts of one situation: as it is, and under every intervention."""

    def __init__(self, wiring: Wiring, prompts: Prompts, at: Situation):
        self.wiring, self.at = wiring, at
        told = prompts.told(at.state, at.player)
        self.own = prompts.context(at, forecast=told)
        self.pool = [prompts.context(at, forecast=f) for f in wiring.pool or (told,)]
        self.empty = prompts.context(at, forecast=told, empty=True)
        letters = labels.SETTINGS
        self.letters = {k: prompts.context(at, setting=k, forecast=told) for k in letters}
        others = wiring.swaps(at.state, at.player) if wiring.swaps else ()
        self.total = [prompts.context(at, state=state) for state in others]
        self.direct = [prompts.context(at, state=state, forecast=told) for state in others]

    def pairs(self) -> list[tuple[Policy, Context]]:
        """All (policy, context) that are needed."""
        every = [self.own, *self.pool, self.empty, *self.letters.values()]
        found = [(self.wiring.executor, own) for own in [*every, *self.total, *self.direct]]
        found.append((self.wiring.base or self.wiring.executor, self.own))
        for module in (self.wiring.modeller, self.wiring.coordinator):
            if module is not None:
                asked = module.context(self.at.state, self.at.player)
                found += [(module.policy, asked), (module.base, asked)]
        return found

    def effects(self, known: Distributions) -> dict[str, float]:
        """Name of the edge -> its effect here."""

        def row(own: Context) -> np.ndarray:
            return known.of(self.wiring.executor, own)

        def mean(contexts: Sequence[Context]) -> float:
            gaps = [divergence(now, row(own)) for own in contexts]
            return float(np.mean(gaps)) if gaps else 0.0

        now, wiring = row(self.own), self.wiring
        found = {
            "adapter": divergence(now, known.of(wiring.base or wiring.executor, self.own)),
            "forecast": divergence(now, mixture([row(own) for own in self.pool])),
            "memory": divergence(now, row(self.empty)),
            "setting": divergence(now, row(self.letters["A"])),
            "social total": mean(self.total),
            "social direct": mean(self.direct),
        }
        for name, module in (("modeller", wiring.modeller), ("coordinator", wiring.coordinator)):
            found[name] = 0.0
            if module is not None:
                asked = module.context(self.at.state, self.at.player)
                pair = known.of(module.policy, asked), known.of(module.base, asked)
                found[name] = divergence(*pair)
        for name, letters in PARAMETERS.items():
            found[name] = float(np.mean([self._slope(row, letter) for letter in letters]))
        return found

    def _slope(self, row, letter: str) -> float:
        own, first = row(self.letters[letter]), row(self.letters["A"])
        weight = (np.exp(own) + np.exp(first)) / 2
        gap = np.abs(np.subtract(own, first, out=np.zeros_like(own), where=weight > 0))
        return float(weight @ gap) / abs(changed(letter, self.wiring.rho_change))

    def drift(self, known: Distributions) -> dict[str, float]:
        """Parameter -> change of the mean action (0 first legal text … 1 last) per unit."""
        found = {}
        for name, letters in PARAMETERS.items():
            slopes = []
            for letter in letters:
                rows = [known.of(self.wiring.executor, self.letters[key]) for key in (letter, "A")]
                place = np.linspace(0.0, 1.0, len(rows[0]))
                own, first = (float(np.exp(row) @ place) for row in rows)
                slopes.append((own - first) / changed(letter, self.wiring.rho_change))
            found[name] = float(np.mean(slopes))
        return found


def _cached(wiring: Wiring, contexts: Sequence[Context]) -> list[float]:
    """KL between what a cache returns and what is computed without it; both one at a time, as an
    agent does, each distinct context once. Without a cache there is nothing to bypass."""
    if not wiring.cache:
        return [0.0] * len(contexts)
    store, seen = StrategyCache("graph"), {}
    for own in dict.fromkeys(contexts):
        key = store.key(wiring.game, own.key, "", "")
        store.put(key, wiring.executor.log_probs([own])[0])
        seen[own] = divergence(store.get(key), wiring.executor.log_probs([own])[0])
    return [seen[own] for own in contexts]


def _connected(wiring: Wiring) -> dict[str, bool]:
    """Which edges have a source that is wired."""
    found = {
        "adapter": wiring.base is not None,
        "forecast": wiring.forecast is not None,
        "memory": wiring.memory is not None,
        "setting": wiring.settings,
        "cache": wiring.cache,
        "social total": wiring.swaps is not None,
        "social direct": wiring.swaps is not None,
        "modeller": wiring.modeller is not None,
        "coordinator": wiring.coordinator is not None,
    }
    return found | dict.fromkeys(PARAMETERS, wiring.settings)


EDGES = {  # name -> source, target, intervention
    "adapter": ("executor adapter", ACTION, "adapter disabled"),
    "forecast": ("forecast", ACTION, "forecast replaced by the pool mean"),
    "memory": ("memory", ACTION, "store emptied"),
    "setting": ("setting", ACTION, "setting forced to A"),
    "cache": ("cache", ACTION, "cache bypassed"),
    "social total": ("opponent's last action", ACTION, "replaced, forecast recomputed"),
    "social direct": ("opponent's last action", ACTION, "replaced, forecast held"),
    "modeller": ("opponent adapter", "forecast", "adapter disabled"),
    "coordinator": ("coordinator adapter", "setting", "adapter disabled"),
    "alpha": ("alpha", ACTION, "setting D against A"),
    "beta": ("beta", ACTION, "setting E against A"),
    "lambda": ("lambda", ACTION, "settings B and C against A"),
    "rho": ("rho", ACTION, "setting F against A"),
}


def measure(
    wiring: Wiring, given: Sequence[Situation], seed: int, resamples: int
) -> tuple[list[Edge], Effects]:
    """Edges with 95 % intervals over states, in the order of EDGES, and the effects behind them."""
    found = effects(wiring, given)
    edges = []
    for name, (source, target, words) in EDGES.items():
        rng = seeding.child(seed, "kto", "influence", wiring.game.name, name)
        numbers = stats.mean_interval(found.rows[name], rng, resamples)
        unit = f"{NATS} per unit" if name in PARAMETERS else NATS
        facts = len(given), unit, words, found.connected[name]
        edges.append(Edge(name, source, target, *numbers, *facts))
    return edges, found
