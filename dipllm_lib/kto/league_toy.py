"""Rock, paper, scissors: the zero-sum toy that may be rated, and why a rating is not a skill.

    payoff of rock, paper, scissors (row from column):   0 -1 1 / 1 0 -1 / -1 1 0

The even mixture is the only equilibrium and cannot be exploited, yet it draws with everybody on
average, so its rating is that of an average player; who is rated highest depends on who is there.

Shapes: three actions.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.kto import exploitability, ratings

PAYOFFS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
PLAYERS = {
    "even": (1 / 3, 1 / 3, 1 / 3),
    "mostly rock": (0.8, 0.1, 0.1),
    "always rock": (1.0, 0.0, 0.0),
    "mostly paper": (0.1, 0.8, 0.1),
}


def play(episodes: int, rng: np.random.Generator) -> list[dict[str, float]]:
    """Scores of `episodes` games of each pair."""
    names, games = list(PLAYERS), []
    for i, one in enumerate(names):
        for two in names[i + 1 :]:
            first = rng.choice(3, size=episodes, p=PLAYERS[one])
            second = rng.choice(3, size=episodes, p=PLAYERS[two])
            paid = PAYOFFS[first, second].tolist()
            games += [{one: value, two: -value} for value in paid]
    return games


def table(episodes: int, rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Columns player, rating, low, high, games, exploitability (sum of both seats' regrets)."""
    rated = ratings.rate(play(episodes, rng), "zero-sum", rng, resamples)
    mixed = [np.array(PLAYERS[name]) for name in rated["player"]]
    gaps = [exploitability.matrix_game(PAYOFFS, -PAYOFFS, x, x).sum() for x in mixed]
    return rated.assign(exploitability=gaps)


def reseeded(episodes: int, rngs: Sequence[np.random.Generator], resamples: int) -> pd.DataFrame:
    """`table` of the first generator with again, again_low, again_high of the second, and overlap:
    whether the two intervals do, yes or no."""
    first, second = (table(episodes, rng, resamples) for rng in rngs)
    other = second.set_index("player")[["rating", "low", "high"]]
    found = first.join(other.add_prefix("again_"), on="player")
    found = found.rename(columns={"again_rating": "again"})
    meet = (found["low"] <= found["again_high"]) & (found["again_low"] <= found["high"])
    return found.assign(overlap=np.where(meet, "yes", "no"))
