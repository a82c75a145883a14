"""Elo ratings with intervals, for games in which one player's gain is another's loss.

A game with m players is m (m - 1)/2 comparisons of their scores, a tie is half a win. With s = R ln
10 / 400 the strengths maximise the likelihood of Bradley and Terry (1952)

    P(i above j) = sigma(s_i - s_j),

plus one drawn game of everybody against a player of strength 0, which keeps strengths finite and
fixes their level. Fitted at once by Newton's method, so the order of games has no influence.
Intervals: bootstrap over games, never over comparisons.

Only zero-sum scores (sum 0 in each game) and shares of a board such as SoS (sum 1) are rated. In a
general-sum game who earned more is not who played well: AllD earns more than each cooperator it
meets and makes everybody poor. Such games are refused.

Shapes: P players, n games, R resamples.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.run import stats

TOTALS = {"zero-sum": 0.0, "SoS": 1.0}
START, SLOPE = 1500.0, 400 / np.log(10)
CLOSE = 1e-9
STEPS = 30


def rate(
    games: Sequence[Mapping[str, float]], kind: str, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Columns player, rating, low, high, games; best first, equals by name.

    games: score of each player that took part · kind: one of TOTALS. ValueError for another kind, a
    game whose scores do not have its sum, a game of one player, or resamples < 1.
    """
    check(games, kind)
    if resamples < 1:
        raise ValueError(f"{resamples} resamples: need at least one")
    names = sorted({name for game in games for name in game})
    wins = np.stack([_wins(game, names) for game in games])
    n = len(games)
    shares = rng.multinomial(n, np.full(n, 1 / n), size=resamples)
    drawn = (shares @ wins.reshape(n, -1)).reshape(resamples, len(names), len(names))
    found, spread = strengths(wins.sum(axis=0)[None])[0], strengths(drawn)
    ends = np.quantile(spread, [(1 - stats.LEVEL) / 2, (1 + stats.LEVEL) / 2], axis=0)
    elo = [START + SLOPE * values for values in (found, *ends)]
    counts = [sum(name in game for game in games) for name in names]
    columns = dict(
        zip(("player", "rating", "low", "high", "games"), (names, *elo, counts), strict=True)
    )
    table = pd.DataFrame(columns).sort_values("rating", ascending=False, kind="stable")
    return table.reset_index(drop=True)


def check(games: Sequence[Mapping[str, float]], kind: str) -> None:
    """ValueError unless the games can be rated; see the module's text."""
    if kind not in TOTALS:
        raise ValueError(
            f"no ratings of {kind!r} games: only zero-sum scores and SoS are rated; "
            "show the payoff matrix of a general-sum game"
        )
    if not games or any(len(game) < 2 for game in games):
        raise ValueError("ratings need at least one game, each of two players or more")
    for number, game in enumerate(games):
        total = sum(game.values())
        if abs(total - TOTALS[kind]) > CLOSE:
            raise ValueError(
                f"game {number} has scores that add up to {total:g}, not {TOTALS[kind]:g}: it is "
                f"no {kind} game; show the payoff matrix of a general-sum game"
            )


def strengths(wins: np.ndarray) -> np.ndarray:
    """(R, P) maximum of the likelihood. wins: (R, P, P) of the row over the column."""
    played = wins + wins.transpose(0, 2, 1)
    size = wins.shape[1]
    found, eye = np.zeros(wins.shape[:2]), np.eye(size)
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(found[:, None, :] - found[:, :, None]))
        alone = 1 / (1 + np.exp(-found))
        slope = (wins - played * chance).sum(axis=2) + 0.5 - alone
        curve = played * chance * (1 - chance)
        inside = curve.sum(axis=2) + alone * (1 - alone)
        step = np.linalg.solve(inside[:, :, None] * eye - curve, slope[:, :, None])[:, :, 0]
        found = found + np.clip(step, -1.0, 1.0)
    return found


def _wins(game: Mapping[str, float], names: Sequence[str]) -> np.ndarray:
    """(P, P) comparisons of one game: 1 where the row is above the column, 1/2 for a tie."""
    scores = np.array([game.get(name, np.nan) for name in names])
    with np.errstate(invalid="ignore"):
        above = scores[:, None] > scores[None] + CLOSE
        tied = np.abs(scores[:, None] - scores[None]) <= CLOSE
    return above + 0.5 * (tied & ~np.eye(len(names), dtype=bool))
