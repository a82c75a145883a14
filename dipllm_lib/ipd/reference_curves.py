"""What stands beside the learner of step 1 without training: values of the pool, curves by round.

    best response   knows its opponent and plans to the end of the game, by dynamic programming;
                    its curves are expectations over the chain of outcomes, exact
    Bayes player    finds out inside the game: the certainty-equivalent player (`certainty`), which
                    counts and plans with optimism k; a lower bound of the Bayes-optimal player,
                    whose value is exact where `bayes.optimal` knows it

On the pools that are symmetric under C <-> D, AllD earns exactly 1; values of a pool are given as 1
plus the gain over AllD.

Shapes: n opponents, T rounds.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.ipd import (
    bayes,
    best_response,
    certainty,
    exact,
    game,
    mechanism_tables,
    steps,
    tabular,
)
from dipllm_lib.ipd.certainty import CertaintyEquivalent
from dipllm_lib.ipd.evaluate import POOL
from dipllm_lib.ipd.game import CC, CD, DC, DD, S0, Payoffs
from dipllm_lib.run import seeding

BEST, BAYES = "best response", "Bayes player"
OPTIMISM = (0.5, 1.0)
PRIORS = {"uniform": 1.0, "beta": 0.5}  # pool -> a of its law Beta(a, a)


def best_rounds(q: np.ndarray, rounds: int, payoffs: Payoffs = exact.STANDARD) -> np.ndarray:
    """(2, T) expected cooperation, own and the opponent's, of the best responses to q (n, 5)."""
    q = tabular.check(q)
    seen, found = exact.as_seen(q), np.empty((2, rounds))
    policy = best_response.best_response(q, rounds, payoffs).policy.astype(np.float64)
    at = np.zeros_like(seen)
    at[:, S0] = 1.0
    for t in range(rounds):
        own = policy[:, t]
        found[0, t] = (at * own).sum(axis=1).mean()
        found[1, t] = (at * seen).sum(axis=1).mean()
        after = np.zeros_like(at)
        for code, share in (
            (CC, own * seen), (CD, own * (1 - seen)), (DC, (1 - own) * seen),
            (DD, (1 - own) * (1 - seen)),
        ):  # fmt: skip
            after[:, code] = (at * share).sum(axis=1)
        at = after
    return found


def _bayes_rounds(player: CertaintyEquivalent, q: np.ndarray, seed: int, name: str) -> np.ndarray:
    """The same of the certainty-equivalent player, one game with each of q."""
    rounds = player.rounds
    streams = tuple(seeding.child(seed, "ipd", "curves", name, side) for side in "xy")
    played = game.play(player, tabular.Tabular(q), len(q), rounds, streams)
    return np.stack([played.left.mean(axis=0), played.right.mean(axis=0)])


def curves(
    seed: int,
    rounds: int,
    pool: str,
    opponents: Sequence[str] = steps.FIXED,
    games: int = 2000,
    k: float = 1.0,
) -> pd.DataFrame:
    """Columns player, opponent, round, cooperation, other_cooperation, reward, other_reward; mean
    over `games` fresh agents where the opponent is the pool."""
    a, parts = PRIORS.get(pool, 1.0), []
    drawn = tabular.sample(pool, games, seeding.child(seed, "ipd", "curves", "pool"))
    for name in opponents:
        q = drawn if name == POOL else tabular.named(name)[None]
        both = {
            BEST: best_rounds(q, rounds),
            BAYES: _bayes_rounds(CertaintyEquivalent(rounds, k, a), q, seed, name),
        }
        for player, (own, other) in both.items():
            part = pd.DataFrame({"round": np.arange(1, rounds + 1)})
            part.insert(0, "opponent", name)
            part.insert(0, "player", player)
            part["cooperation"], part["other_cooperation"] = own, other
            part["reward"] = mechanism_tables.expected(own, other)
            part["other_reward"] = mechanism_tables.expected(other, own)
            parts.append(part)
    return pd.concat(parts, ignore_index=True)


def values(
    seed: int, rounds: int, pool: str, draws: int = 20_000, games: int = 4000
) -> pd.DataFrame:
    """What can be earned from the pool: columns player, rounds, reward, se, cooperation.

    reward: 1 plus the gain over AllD · se: of the draws, 0 where exact. The row of the
    Bayes-optimal player is there where its value is known for this number of rounds.
    """
    a, rng = PRIORS.get(pool, 1.0), seeding.child(seed, "ipd", "values")
    drawn = tabular.sample(pool, draws, rng)
    known = best_response.pool_value(drawn, rounds)
    rows = [("AllD", rounds, 1.0, 0.0, 0.0)]
    for k in OPTIMISM:
        player, streams = CertaintyEquivalent(rounds, k, a), tuple(rng.spawn(2))
        found = certainty.measured(player, drawn[:games], rounds, streams)
        rows.append((f"{BAYES}, k = {k:g}", rounds, *found))
    if pool == "corners":
        rows.append(("Bayes-optimal", rounds, *_corners(rounds)))
    elif pool in PRIORS and np.isfinite(bayes.optimal(rounds, a)):
        rows.append(("Bayes-optimal", rounds, bayes.optimal(rounds, a), 0.0, None))
    rows.append((f"{BEST}, opponent known", rounds, 1.0 + known.gain, known.se, known.cooperation))
    return pd.DataFrame(rows, columns=["player", "rounds", "reward", "se", "cooperation"])


def _corners(rounds: int) -> tuple[float, float, float]:
    found = bayes.corners_value(rounds)
    return found.value, 0.0, found.cooperation
