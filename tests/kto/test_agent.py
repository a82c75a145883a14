"""The ladder under a clock that only moves when a model is called; the cache."""

import numpy as np
import pytest

from dipllm_lib.kto import coordinator, pool, repeated
from dipllm_lib.kto.agent import RUNGS, Costs, KTOAgent, StrategyCache
from dipllm_lib.kto.lm_policy import LMPolicy
from dipllm_lib.run import seeding

GAME = pool.catalogue(10)["repeated"]
STATE = repeated.State(100, repeated.WORDS_LABELS, history=((0, 1),))
STORED = np.log([0.3, 0.7])
TRAINED = np.log([0.9, 0.1])


class Clock:
    """Seconds that pass only when told."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class World:
    """Three roles that take known times and count their calls."""

    def __init__(self, budget=10.0, seconds=(1.0, 2.0, 3.0), **options):
        self.clock, self.calls = Clock(), []
        self.seconds = dict(zip(("coordinator", "opponent", "executor"), seconds, strict=True))
        reference = {(GAME.name, GAME.infoset(STATE, 0)): STORED}
        self.cache = StrategyCache("1")
        self.agent = KTOAgent(
            self, reference, self.clock, budget, self.cache,
            modeller=self.forecast, coordinator=self.choose, **options,
        )  # fmt: skip

    def call(self, role):
        self.calls.append(role)
        self.clock.now += self.seconds[role]

    def choose(self):
        self.call("coordinator")
        return "C"

    def forecast(self, state, player):
        self.call("opponent")
        return "Partner TFT."

    def log_probs(self, contexts):
        self.call("executor")
        return [TRAINED.copy() for _ in contexts]

    def decide(self, seed=0):
        start = self.clock.now
        found = self.agent.decide(GAME, STATE, 0, seeding.child(seed, "agent"))
        assert found.ms == pytest.approx(1000 * (self.clock.now - start))
        assert found.text in GAME.legal(STATE, 0) and found.rung in RUNGS
        return found


def test_full_then_the_coordinator_rests_until_the_next_window():
    world = World()
    one = world.decide()
    assert (one.rung, one.setting, one.forecast, one.hit) == ("full", "C", "Partner TFT.", False)
    assert world.calls == ["coordinator", "opponent", "executor"] and one.ms == 6000
    two = world.decide()
    assert world.calls[3:] == ["opponent"] and two.rung == "full" and two.hit
    world.agent.new_window()
    world.decide()
    assert world.calls[4:] == ["coordinator", "opponent"]


def test_the_ladder_by_time_left():
    """After one full decision costs are known: 1, 2 and 3 s."""
    expected = [
        (6.0, "full", ["coordinator", "opponent", "executor"]),
        (5.5, "last forecast", ["coordinator", "executor"]),
        (4.0, "last forecast", ["coordinator", "executor"]),
        (3.5, "last setting", ["executor"]),
        (2.5, "reference", []),
        (0.0, "reference", []),
    ]
    for budget, rung, calls in expected:
        world = World()
        world.decide()
        world.cache.renew("2")
        world.agent.new_window()
        world.agent.budget, world.calls[:] = budget, []
        found = world.decide()
        assert (found.rung, world.calls) == (rung, calls), budget
        assert found.ms <= 1000 * budget + 1000 * max(world.seconds.values())


def test_under_pressure_a_stored_distribution_comes_before_the_reference():
    world = World()
    world.decide()
    world.agent.budget = 0.5
    found = world.decide()
    assert (found.rung, found.hit) == ("cache", True)
    world.cache.renew("2")
    assert world.decide().rung == "reference" and len(world.cache) == 0


@pytest.mark.parametrize("budget", [0.0, 0.5, 1.5, 2.5, 4.5, 7.0])
def test_never_later_than_one_call_even_when_calls_slow_down(budget):
    """Costs double from call to call, so every estimate is too low."""
    world = World(budget, (0.1, 0.1, 0.1))
    for k in range(20):
        world.agent.new_window()
        world.cache.renew(str(k))
        found = world.decide(k)
        assert found.ms <= 1000 * (budget + max(world.seconds.values())) + 1e-6
        for role in world.seconds:
            world.seconds[role] *= 1.3


def test_tops_for_measurement():
    for top, calls in zip(
        RUNGS,
        (
            ["coordinator", "opponent", "executor"],
            ["coordinator", "executor"],
            ["executor"],
            [],
            [],
        ),
        strict=True,
    ):
        world = World(1e9, top=top)
        found = world.decide()
        assert world.calls == calls
        assert found.rung == (top if calls else "reference")


def test_costs_are_the_95th_percentile_of_the_last_calls():
    costs = Costs()
    assert costs.of("executor") == 0.0
    for k in range(100):
        costs.add("executor", float(k))
    assert costs.of("executor") == pytest.approx(np.quantile(np.arange(36, 100), 0.95))
    costs.add("opponent", 2.0)
    assert costs.of("executor", "opponent") == pytest.approx(costs.of("executor") + 2.0)


def test_a_decision_follows_its_distribution():
    world = World()
    said = [world.decide(k).action for k in range(400)]
    assert np.mean([a == 0 for a in said]) == pytest.approx(0.9, abs=0.05)
    assert world.decide().log_prob in TRAINED


def test_a_hit_is_bit_for_bit_a_miss_and_warming_covers_every_information_set(tiny):
    policy = LMPolicy(tiny())
    variants = [v for v in coordinator.variants(10) if v.part == coordinator.TRAINING]
    cache = StrategyCache("1")
    for variant in variants:
        places = coordinator.reachable(variant)
        count = cache.warm(policy, variant.game, places, ["A", "B"])
        assert count == 2 * len({variant.game.infoset(s, i) for s, i in places})
        assert cache.warm(policy, variant.game, places, ["A", "B"]) == 0
    game, clock = variants[2].game, Clock()
    fresh, warm = (KTOAgent(policy, {}, clock, 1.0, one) for one in (StrategyCache("1"), cache))
    for state, player in coordinator.reachable(variants[2]):
        rows = []
        for agent, hit in ((fresh, False), (warm, True)):
            found = agent.decide(game, state, player, seeding.child(0, "hit"))
            assert found.hit == hit
            key = agent.cache.key(game, game.infoset(state, player), "A", "")
            rows.append(agent.cache.get(key))
        assert np.array_equal(*rows)


def test_every_part_of_the_key_matters():
    cache = StrategyCache("1")
    keys = {
        cache.key(GAME, "h", "A", ""),
        cache.key(GAME, "h2", "A", ""),
        cache.key(GAME, "h", "B", ""),
        cache.key(GAME, "h", "A", "Partner TFT."),
        cache.key(GAME, "h", "A", "", "digest"),
        cache.key(pool.catalogue(10)["gift"], "h", "A", ""),
    }
    cache.renew("2")
    assert len(keys | {cache.key(GAME, "h", "A", "")}) == 7
