"""How long a decision takes on each rung of the ladder, and what the ladder does with a budget.

The decisions are those of the repeated game with eight rounds in view of the modeller, so a prompt
is never seen twice there; the executor's information sets are few, so its cache fills. Three things
are timed, each in the precision of the profile:

    rungs     every rung by itself, cache empty where it would help: p50 and p95 in ms
    budgets   an agent with a budget: p50, p95, share of decisions within it, rungs used
    caching   the cache cold and warmed up: hit rate, ms saved per decision
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.kto import coordinator, lm_labels, opponent, pool, repeated, roles
from dipllm_lib.kto.agent import RUNGS, Decision, KTOAgent, StrategyCache
from dipllm_lib.kto.lm_policy import BASE, LMPolicy
from dipllm_lib.kto.policies import Policy
from dipllm_lib.kto.repeated import IteratedPD, State
from dipllm_lib.kto.vocabulary import PARTNERS
from dipllm_lib.lm.backbones import Backbone
from dipllm_lib.run import seeding

LENGTH = 16  # rounds of a timed history


def histories(count: int, seed: int) -> list[State]:
    """Histories of LENGTH random rounds, all different."""
    rng = seeding.child(seed, "kto", "latency")
    found = rng.integers(2, size=(count, LENGTH, 2)).tolist()
    names = repeated.WORDS_LABELS
    return [State(10**6, names, history=tuple(map(tuple, one))) for one in found]


def modeller(policy: Policy, game: IteratedPD) -> Callable[[State, int], str]:
    """The forecast that the executor reads: the most likely member of the pool."""

    def forecast(state: State, player: int) -> str:
        row = policy.log_probs([opponent.type_context(game, state, 1 - player)])[0]
        return lm_labels.partner(PARTNERS[int(np.argmax(row))])

    return forecast


def chooser(policy: Policy, variant: coordinator.Variant, payoff: float) -> Callable[[], str]:
    """The coordinator's most likely letter."""

    def choose() -> str:
        row = policy.log_probs([coordinator.context(variant, payoff)])[0]
        return coordinator.LETTERS[int(np.argmax(row))]

    return choose


def stored(policy: Policy, game: IteratedPD) -> dict:
    """(game name, infoset) -> log pi_ref, computed once."""
    variant = coordinator.Variant("repeated", coordinator.TRAINING, game)
    places = coordinator.reachable(variant)
    rows = policy.log_probs([lm_labels.context(game, s, i, "A") for s, i in places])
    keys = [(game.name, game.infoset(s, i)) for s, i in places]
    return dict(zip(keys, rows, strict=True))


class Bench:
    """The three trained roles of a backbone, ready to be timed."""

    def __init__(self, backbone: Backbone, rounds: int, seed: int):
        self.game, self.seed = pool.catalogue(rounds)["repeated"], seed
        self.executor = LMPolicy(backbone, roles.EXECUTOR)
        self.reference = stored(LMPolicy(backbone, BASE), self.game)
        self.variant = coordinator.Variant("repeated", coordinator.TRAINING, self.game)
        self.places = coordinator.reachable(self.variant)
        self.modeller = modeller(LMPolicy(backbone, roles.OPPONENT), pool.watched(rounds))
        self.coordinator = chooser(LMPolicy(backbone, roles.COORDINATOR), self.variant, 0.4)

    def agent(self, budget: float, top: str = RUNGS[0]) -> KTOAgent:
        """An agent on the wall clock; budget in seconds."""
        return KTOAgent(
            self.executor, self.reference, time.perf_counter, budget, StrategyCache("timed"),
            modeller=self.modeller, coordinator=self.coordinator, top=top,
        )  # fmt: skip

    def decide(self, agent: KTOAgent, states: Sequence[State], window: int) -> list[Decision]:
        """A decision per state; the coordinator is asked every `window` of them."""
        found = []
        for k, state in enumerate(states):
            if k % window == 0:
                agent.new_window()
            rng = seeding.child(self.seed, "kto", "latency", k)
            found.append(agent.decide(self.game, state, 0, rng))
        return found

    def rungs(self, count: int) -> pd.DataFrame:
        """Rows rung, decisions, p50, p95 in ms. The cache is emptied before every decision, but
        warmed up on the rung `cache`; all three roles answer on `full`."""
        rows, states = [], histories(count + 1, self.seed)
        for rung in RUNGS:
            agent = self.agent(1e9, rung)
            agent.forecast = lm_labels.partner(PARTNERS[2])
            if rung == "cache":
                agent.cache.warm(self.executor, self.game, self.places, ["A"], [agent.forecast])
            spent = []
            for k, state in enumerate(states):
                if rung != "cache":
                    agent.cache.renew(f"{rung} {k}")
                found = self.decide(agent, [state], 1)
                spent += [one.ms for one in found]
            rows.append({"rung": rung, "decisions": count} | _quantiles(spent[1:]))  # one warms up
        return pd.DataFrame(rows)

    def budgets(self, count: int, budgets: Sequence[float]) -> pd.DataFrame:
        """Rows budget_ms, p50, p95, within (share), largest, then the share of each rung."""
        rows, states = [], histories(count, self.seed)
        for budget in budgets:
            agent = self.agent(budget / 1000)
            agent.cache.warm(
                self.executor, self.game, self.places, ["A"], [lm_labels.partner(PARTNERS[2])]
            )
            found = self.decide(agent, states, 5)
            spent = [one.ms for one in found]
            row = {"budget_ms": budget, "decisions": count} | _quantiles(spent)
            row |= {"within": float(np.mean([one <= budget for one in spent]))}
            row |= {"largest": max(spent)}
            shares = {r: float(np.mean([one.rung == r for one in found])) for r in RUNGS}
            rows.append(row | shares)
        return pd.DataFrame(rows)

    def caching(self, count: int) -> pd.DataFrame:
        """Rows cache (off, cold, warm), hits (share), ms per decision without the modeller."""
        rows, states = [], histories(count, self.seed)
        for kind in ("off", "cold", "warm"):
            agent = self.agent(1e9, "last setting")
            if kind == "warm":
                agent.cache.warm(self.executor, self.game, self.places, ["A"])
            agent.cache.hits = agent.cache.misses = 0
            spent = []
            for k, state in enumerate(states):
                if kind == "off":
                    agent.cache.renew(f"off {k}")
                spent += [one.ms for one in self.decide(agent, [state], count)]
            asked = agent.cache.hits + agent.cache.misses
            row = {"cache": kind, "hits": agent.cache.hits / asked, "ms": float(np.mean(spent))}
            rows.append(row)
        return pd.DataFrame(rows)


def _quantiles(spent: Sequence[float]) -> dict[str, float]:
    return {"p50": float(np.quantile(spent, 0.5)), "p95": float(np.quantile(spent, 0.95))}
