"""Exact solutions of alternating offers.

Backward induction on the game's own grid, for two value functions v_0, v_1 of payoffs. After the
refusal of round t player i expects

    W_i(t) = p V_i(t + 1) + (1 - p) v_i(0),       V_i(T) = v_i(0),

the other accepts k iff v(δ^t (1 - k)) >= W (ties accepted) or > W (ties refused), and the proposer
takes the best of what is accepted, or a refusal if that is worth more. With v the identity this is
Ståhl's solution; Rubinstein's (1982) for T -> ∞ is 1/(1 + δ) of the pie for the first proposer.

Breakdown without end (Binmore, Rubinstein and Wolinsky 1986) with prospect values and a reference
share ρ: the stationary shares x_0, x_1 that each keeps as a proposer solve, for both i and j = 1-i,

    v_j(1 - x_i - ρ) = p v_j(x_j - ρ) + (1 - p) v_j(-ρ).

Own loss aversion lowers the own share, the other's raises it (Shalev 1996; Driesen, Perea and
Peters 2012), since only breakdown is a loss. ρ = 0: nobody can lose, λ cancels.

Shapes: T rounds, A = grid + 1 shares. Payoffs as in the game, with the factor δ^t.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dipllm_lib.kto.bargaining import AlternatingOffers

Value = Callable[[np.ndarray], np.ndarray]
TIES = ("accept", "refuse")
CLOSE = 1e-12  # payoffs nearer than this are equal: shares of a grid are not exact in binary
BISECTIONS = 60
POINTS, SCANS = 201, 6  # each scan divides the interval of the solution by 200


class Plan(NamedTuple):
    """keep (T,) index of the best offer of each round · accepts bool (T, A), whether the other
    takes it · values (T, 2) of players 0 and 1 at the start of each round."""

    keep: np.ndarray
    accepts: np.ndarray
    values: np.ndarray


class ReplyValues(NamedTuple):
    """Best values of one player. keep (T, A) of each offer in the rounds in which it proposes, nan
    in the others · answer (T, A, 2) of accepting and refusing each offer of the other, nan
    elsewhere."""

    keep: np.ndarray
    answer: np.ndarray


def rubinstein(delta: float) -> float:
    """Share of the first proposer without end, 1/(1 + δ); ValueError outside 0 < δ < 1."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta {delta}: need 0 < delta < 1")
    return 1.0 / (1.0 + delta)


def staahl(delta: float, rounds: int) -> float:
    """Share of the first proposer over T rounds when any share may be named: 1 - δ x(T - 1)."""
    if not 0.0 < delta <= 1.0 or rounds < 1:
        raise ValueError(f"delta {delta}, rounds {rounds}: need 0 < delta <= 1, rounds >= 1")
    share = 1.0
    for _ in range(rounds - 1):
        share = 1.0 - delta * share
    return share


def identity(payoffs: np.ndarray) -> np.ndarray:
    """The value of a payoff is the payoff."""
    return np.asarray(payoffs, dtype=np.float64)


def backward(
    game: AlternatingOffers,
    values: tuple[Value, Value] = (identity, identity),
    ties: str = "accept",
) -> Plan:
    """Subgame-perfect play of a game with known length for two value functions of payoffs.

    ValueError for a game without a known length, or other ties than accept and refuse.
    """
    rounds = _length(game)
    if ties not in TIES:
        raise ValueError(f"ties {ties!r}: use one of {', '.join(TIES)}")
    keep = np.empty(rounds, dtype=np.int64)
    accepts = np.empty((rounds, game.grid + 1), dtype=bool)
    now, at = np.array([_at(v, 0.0) for v in values]), np.empty((rounds, 2))
    nothing = now.copy()
    for t in range(rounds - 1, -1, -1):
        i, j = t % 2, 1 - t % 2
        last = t + 1 == rounds
        wait = nothing if last else game.go_on * now + (1.0 - game.go_on) * nothing
        own, other = _worth(game, values, t)
        accepts[t] = other >= wait[j] - CLOSE if ties == "accept" else other > wait[j] + CLOSE
        offer = np.where(accepts[t], own, wait[i])
        # of equal offers an accepted one, and of those the largest share
        good = np.flatnonzero(offer >= offer.max() - CLOSE)
        keep[t] = max(good, key=lambda k: (accepts[t, k], k))
        now = np.empty(2)
        now[i] = offer[keep[t]]
        now[j] = other[keep[t]] if accepts[t, keep[t]] else wait[j]
        at[t] = now
    return Plan(keep, accepts, at)


def reply_values(
    game: AlternatingOffers,
    seat: int,
    keeps: np.ndarray,
    accepts: np.ndarray,
    value: Value = identity,
) -> ReplyValues:
    """Best values of player `seat` against a given opponent, by backward induction.

    keeps: (T, A) or (A,) probabilities of the opponent's offers · accepts: (T, A) or (A,)
    probability that it accepts each offer · value: of the player's payoffs. An open game is cut
    where the chance to get there is below 1e-12; its rows are rounds 0 and 1, which stand for all.
    ValueError for probabilities of another shape.
    """
    if seat not in (0, 1):
        raise ValueError(f"seat {seat!r}: use 0 or 1")
    rounds = game.rounds or _horizon(game.go_on)
    shape = (rounds, game.grid + 1)
    keeps, accepts = _table("offers", keeps, shape), _table("P(accept)", accepts, shape)
    keep, answer = np.full(shape, np.nan), np.full((*shape, 2), np.nan)
    nothing = now = _at(value, 0.0)
    for t in range(rounds - 1, -1, -1):
        wait = nothing if t + 1 == rounds else game.go_on * now + (1.0 - game.go_on) * nothing
        own, other = _worth(game, (value, value), t)
        if t % 2 == seat:
            keep[t] = accepts[t] * own + (1.0 - accepts[t]) * wait
            now = keep[t].max()
        else:
            answer[t] = np.stack([other, np.full(shape[1], wait)], axis=1)
            now = float(keeps[t] @ answer[t].max(axis=1))
    return ReplyValues(keep, answer) if game.rounds else ReplyValues(keep[:2], answer[:2])


def perfect_replies(game: AlternatingOffers, seat: int, ties: str = "accept") -> ReplyValues:
    """Values of each offer and answer of `seat` when both play on as in `backward`: the yardstick
    of regret in the game's own grid."""
    plan = backward(game, ties=ties)
    keeps = np.zeros(plan.accepts.shape)
    keeps[np.arange(len(plan.keep)), plan.keep] = 1.0
    return reply_values(game, seat, keeps, plan.accepts.astype(np.float64))


def stationary(p: float, rho: float, values: tuple[Value, Value]) -> tuple[float, float]:
    """(x_0, x_1): what each player keeps as a proposer under breakdown, any share, without end.

    p: chance that talks go on after a refusal, in (0, 1) · rho: reference share of both, in [0, 1)
    · values: v_0 and v_1 of gains and losses, increasing with v(0) = 0. ValueError if the equations
    have no single solution.
    """
    if not 0.0 < p < 1.0 or not 0.0 <= rho < 1.0:
        raise ValueError(f"p {p}, rho {rho}: need 0 < p < 1 and 0 <= rho < 1")

    def second(x):
        return 1.0 - _indifferent(x, p, rho, values[0])

    def gap(x):
        return 1.0 - _indifferent(second(x), p, rho, values[1]) - x

    low, high = 0.0, 1.0
    for scan in range(SCANS):
        grid = np.linspace(low, high, POINTS)
        above = gap(grid) > 0
        crossings = np.flatnonzero(above[:-1] != above[1:])
        if scan == 0 and len(crossings) != 1:
            raise ValueError(f"{len(crossings)} stationary solutions, p {p}, rho {rho}: need one")
        if not len(crossings):  # the last digits are exhausted
            break
        low, high = grid[crossings[0] : crossings[0] + 2]
    x = 0.5 * (low + high)
    return float(x), float(second(np.array([x]))[0])


def _indifferent(x: np.ndarray, p: float, rho: float, value: Value) -> np.ndarray:
    """Share y <= x with v(y - ρ) = p v(x - ρ) + (1 - p) v(-ρ), by bisection."""
    goal = p * value(x - rho) + (1.0 - p) * value(np.full_like(x, -rho))
    low, high = np.zeros_like(x), np.array(x, dtype=np.float64)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        under = value(middle - rho) < goal
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return 0.5 * (low + high)


def _worth(game: AlternatingOffers, values: tuple[Value, Value], t: int) -> tuple:
    """(A,) value of each accepted offer to the proposer of round t and to the other."""
    pie, shares = game.delta**t, game.shares
    i = t % 2
    return values[i](pie * shares), values[1 - i](pie * (1.0 - shares))


def _at(value: Value, payoff: float) -> float:
    return float(value(np.array([payoff]))[0])


def _length(game: AlternatingOffers) -> int:
    if game.rounds is None:
        raise ValueError("backward induction needs a known number of rounds; see `stationary`")
    return game.rounds


def _horizon(go_on: float) -> int:
    """Even number of rounds after which an open game goes on with a chance below 1e-12."""
    if go_on == 0.0:
        return 2
    needed = int(np.ceil(np.log(1e-12) / np.log(go_on)))
    return max(2, needed + needed % 2)


def _table(what: str, given: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    array = np.asarray(given, dtype=np.float64)
    if array.shape not in (shape, shape[1:]) or not np.all((array >= 0) & (array <= 1)):
        raise ValueError(f"{what} of shape {array.shape}: need {shape} or {shape[1:]} in [0, 1]")
    return np.broadcast_to(array, shape)
