"""The adjudicator against the package on random positions: every difference has a named cause."""

from collections import Counter

import numpy as np
import pytest

from dipllm_lib.dip import boards, deviations, generate, legalise, replay, rules, states


def differences(pairs, limit: int) -> Counter:
    """How often each cause explains a difference, over the first `limit` phases of the pairs."""
    official, causes = replay.official_game(), Counter()
    for b, given in pairs:
        after, made = rules.resolve(b, given)
        assert not made.counts[:, 2].any()
        for i in range(b.n):
            if sum(causes.values()) == limit:
                return causes
            before, orders = b.take([i]), given.take([i])
            theirs, words = replay.run(official, before, orders)
            decisions = rules.Decisions(*(field[i : i + 1] for field in made))
            case = deviations.Case(before, orders, decisions, after.take([i]), theirs, words)
            cause = deviations.explain(case)
            assert cause != "?", report(case)
            causes[cause] += 1
    return causes


def report(case) -> str:
    return "\n".join(
        str(x)
        for x in (
            boards.phase_name(case.before),
            states.to_state(case.before)["units"],
            legalise.order_texts(case.before, case.orders)[0],
            deviations.standing(states.to_state(case.after)),
            deviations.standing(case.theirs),
        )
    )


def dense(rng, batch=40):
    while True:
        b = generate.scattered(batch, int(rng.integers(20, 50)), int(rng.integers(2, 8)), rng)
        yield b, generate.coherent(b, rng)


def convoys(rng, batch=40):
    while True:
        b = generate.fleets_and_armies(batch, int(rng.integers(2, 8)), rng)
        yield b, generate.coherent(b, rng, 0.6)


def pairs(kind, n, seed):
    rng = np.random.default_rng(seed)
    if kind in ("uniform", "coherent"):
        return generate.played(n, rng, getattr(generate, kind))
    return {"dense": dense, "convoys": convoys}[kind](rng)


@pytest.mark.parametrize("kind", ["uniform", "coherent", "dense", "convoys"])
def test_a_thousand_positions(kind):
    causes = differences(pairs(kind, 1000, 1), 1000)
    assert causes[""] >= 970, causes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uniform", "coherent", "dense", "convoys"])
def test_many_positions(kind):
    causes = differences(pairs(kind, 8000, 2), 8000)
    print(kind, dict(causes))
    assert causes[""] >= 7700, causes
