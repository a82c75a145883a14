"""Is a player the same over a long game, and how fast does it follow a change? Four measures.

pi(. | h) is the player's exact distribution. Probe rounds: 2, 4, 6, 8, 10 (early) and 24, 28, 32,
36, 40 (late), counted from 1; each has the real history of the episode but the outcome of the round
before it replaced by x, so every public state x (CC, CD, DC, DD) is defined in both windows.

    consistency       C = 1 - mean_x TV(pi_early(.|x), pi_late(.|x)), pi_window the mean over its
                      five probe rounds, against a stationary opponent
    adaptivity        mean_x TV(late against AllC, late against AllD)
    rounds to adapt   least k with mean regret over rounds c + k … c + k + 4 <= 0.1 of the payoff
                      range after a change at round c (counted from 0), censored at the end
    rounds to recover least k with regret over rounds c + k … c + k + 4 <= half of the regret that a
                      uniform choice would have had in the same states, censored at the end

A constant player has C = 1, so C is read beside adaptivity and regret. C = 0: another player
altogether in the second window. Where little is at stake, rounds to adapt say nothing: a tenth of
the payoff range is then more than anybody loses, and a player that does not look has adapted at
once. Rounds to recover count from what was at stake; uniform play never recovers, unless nothing
is at stake in all five rounds.

Regret of a decision is max_a Q(h, a) - sum_a pi(a|h) Q(h, a), with Q the best values when the rules
of every round are known (`arena`); its sum over an episode is, in expectation, what the player
earns less than the best reply.

Shapes: X public states, A actions, T rounds; five probes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dipllm_lib.kto.policies import Context, Policy
from dipllm_lib.kto.repeated import IteratedPD, State

EARLY, LATE = (2, 4, 6, 8, 10), (24, 28, 32, 36, 40)  # rounds from 1
ROUNDS = LATE[-1]
OUTCOMES = ((0, 0), (0, 1), (1, 0), (1, 1))  # own action, other's: CC, CD, DC, DD
SPAN, LINE = 5, 0.1  # rounds of a mean, share of the payoff range
SHARE = 0.5  # of the regret of a uniform choice


def total_variation(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(...,) half the absolute difference of distributions (..., A)."""
    return 0.5 * np.abs(np.asarray(p) - np.asarray(q)).sum(axis=-1)


def consistency(early: np.ndarray, late: np.ndarray) -> float:
    """C in [0, 1] of exact distributions (5, X, A) of both windows."""
    return 1.0 - float(total_variation(np.mean(early, axis=0), np.mean(late, axis=0)).mean())


def adaptivity(against_c: np.ndarray, against_d: np.ndarray) -> float:
    """TV in [0, 1] between the late distributions (5, X, A) against AllC and against AllD."""
    return float(total_variation(np.mean(against_c, axis=0), np.mean(against_d, axis=0)).mean())


class Adapted(NamedTuple):
    """rounds: k, or those that were left where it never happened · censored: it never happened."""

    rounds: int
    censored: bool


def rounds_to_adapt(
    regret: Sequence[float], at: int, scale: float, line: float = LINE, span: int = SPAN
) -> Adapted:
    """Of one episode. regret: (T,) per round, unit of payoffs · at: first round of the new rules,
    from 0 · scale: payoff range. ValueError if fewer than `span` rounds are left."""
    means = _sums(regret, at, span) / span
    return _first(means <= line * scale + 1e-12, len(regret) - at)


def rounds_to_recover(
    regret: Sequence[float],
    even: Sequence[float],
    at: int,
    share: float = SHARE,
    span: int = SPAN,
) -> Adapted:
    """Of one episode. regret, even: (T,) of the player and of a uniform choice in the same states,
    in one unit · at: first round of the new rules. ValueError if fewer than `span` rounds are left.
    """
    own, other = _sums(regret, at, span), _sums(even, at, span)
    return _first(own <= share * other + 1e-12, len(regret) - at)


def _sums(values: Sequence[float], at: int, span: int) -> np.ndarray:
    """Sums over `span` rounds from each round after the change on."""
    after = np.asarray(values, dtype=np.float64)[at:]
    if len(after) < span:
        raise ValueError(f"{len(after)} rounds after the change at {at}: need at least {span}")
    return np.convolve(after, np.ones(span), "valid")


def _first(good: np.ndarray, left: int) -> Adapted:
    """The first round that is good, or all that were left."""
    found = np.flatnonzero(good)
    return Adapted(int(found[0]), False) if len(found) else Adapted(left, True)


def probes(
    policy: Policy,
    game: IteratedPD,
    state: State,
    player: int,
    rounds: Sequence[int],
    context: Callable[[IteratedPD, State, int], Context] | None = None,
) -> np.ndarray:
    """(5, 4, 2) exact distributions of any policy at the probe rounds of a history.

    rounds: from 1, at least 2 · context: what the policy is asked at a state, by default infoset
    and prompt of the game. ValueError for a history that ends before the last probe.
    """
    if min(rounds) < 2 or len(state.history) < max(rounds) - 1:
        raise ValueError(
            f"{len(state.history)} rounds played: probes at {tuple(rounds)} need 2 or more, "
            f"and {max(rounds) - 1} rounds"
        )
    ask = context or _context
    states = [_replaced(state, player, t, x) for t in rounds for x in OUTCOMES]
    rows = policy.log_probs([ask(game, one, player) for one in states])
    return np.exp(np.array(rows)).reshape(len(rounds), len(OUTCOMES), -1)


def _replaced(state: State, player: int, round_: int, x: tuple[int, int]) -> State:
    """The state before a round (from 1), its last outcome replaced by x (own, other)."""
    last = x if player == 0 else x[::-1]
    return replace(state, history=(*state.history[: round_ - 2], last))


def _context(game: IteratedPD, state: Any, player: int) -> Context:
    prompt = game.observe(state, player)
    return Context(game.infoset(state, player), prompt, game.legal(state, player))
