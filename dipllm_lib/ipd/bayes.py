"""Best play against an unknown memory-one opponent: Bayes-adaptive dynamic programs.

The five probabilities of the opponent are independent draws of a known law. What matters of the
past is then the last outcome and, for each outcome CC, CD, DC, DD, how often the opponent answered
it with C and how often with D: eight counts. (The first action tells nothing about later ones.)

`beta_value`, prior Beta(a, a), a = 1 the uniform pool. With n answers seen there are C(n + 7, 7)
count vectors. Order the counts and take the sums P_1 <= ... <= P_7 of the first one, two, … of
them; the rank of a vector is Σ_i C(P_i + i - 1, i). One more answer of kind j raises P_j … P_7 by
one and thus the rank by Σ_{i>=j} C(P_i + i - 1, i - 1), never below: a layer is written over the
next one in rising rank. In the last round D is best whatever is believed, so the largest table has
n = T - 3 answers: C(T + 4, 7) x 4 numbers, 5.7 GB at T = 50.

`corners_value`, the 32 deterministic vectors: each answer is unknown, C or D, exact at any T.

The best response to a known opponent is worth at least as much on average, and any player, such as
`certainty.CertaintyEquivalent`, at most as much.
"""

from math import comb
from typing import NamedTuple

import numpy as np
from numba import njit

from dipllm_lib.ipd import exact
from dipllm_lib.ipd.game import Payoffs

LONGEST = 50  # rounds of `beta_value`
QUICK = 25  # rounds that `beta_value` solves at once
# (rounds, a) -> `beta_value`, to four digits; at 50 rounds it takes two minutes and 6 GB
KNOWN = {
    (30, 1.0): 1.0123, (40, 1.0): 1.0159, (50, 1.0): 1.0187,
    (40, 0.5): 1.0527, (50, 0.5): 1.0586,
}  # fmt: skip


class CornersValue(NamedTuple):
    """value per round and expected share of C of the Bayes-optimal player."""

    value: float
    cooperation: float


def beta_value(rounds: int, a: float = 1.0, payoffs: Payoffs = exact.STANDARD) -> float:
    """Value per round of the Bayes-optimal player, prior Beta(a, a) for each probability, a > 0.

    Exact. Half a second at 25 rounds; time and memory grow as the 8th and 7th power. ValueError
    above 50 rounds.
    """
    if not 1 <= rounds <= LONGEST:
        raise ValueError(
            f"rounds {rounds}: the exact program takes 1 to {LONGEST}; "
            "use certainty.CertaintyEquivalent for a lower bound"
        )
    if not (np.isfinite(a) and a > 0):
        raise ValueError(f"prior Beta(a, a): need a finite a > 0, got {a}")
    pay = payoffs.by_state
    r, s, t, p = pay.tolist()
    last = 0.5 * (t + p)  # the value of a round on no evidence
    if rounds == 1:
        return last
    after = _layers(rounds, float(a), pay)
    if_c = 0.5 * (r + after[0]) + 0.5 * (s + after[1])
    if_d = 0.5 * (t + after[2]) + 0.5 * (p + after[3])
    return max(if_c, if_d) / rounds


def optimal(rounds: int, a: float = 1.0) -> float:
    """`beta_value` with the standard payoffs, from KNOWN where it would take long; nan where it is
    not known."""
    if rounds <= QUICK:
        return beta_value(rounds, a)
    return KNOWN.get((rounds, a), float("nan"))


def _layers(rounds: int, a: float, pay: np.ndarray) -> np.ndarray:
    """(4,) totals of rounds 2 … T after the first outcome CC, CD, DC, DD, with no answer seen."""
    top = max(rounds - 3, 0)
    steps = np.array(
        [[comb(m + i - 1, i - 1) for m in range(rounds + 1)] for i in range(1, 8)], dtype=np.int64
    )
    table = np.empty((comb(top + 7, 7), 4))
    end = rounds == 2  # after the first outcome only the last round is left
    for n in range(top, -1, -1):
        _layer(n, a, pay, steps, table, 0 if end else 1 if n == rounds - 3 else 2)
    return table[0].copy()


@njit(cache=True)
def _layer(n, a, pay, steps, table, left):
    """Overwrite the values with n + 1 answers, table[rank, outcome], with those with n answers.

    left: rounds after this one, 0 or 1 in closed form, 2 where `table` holds the values. `steps`
    [i - 1, P] is C(P + i - 1, i - 1). The loops run through P_7 >= ... >= P_1 in rising rank.
    """
    counts, shift = np.empty(8, dtype=np.int64), np.empty(8, dtype=np.int64)
    shift[7] = 0  # an answer of the last kind leaves all seven sums alone
    new = np.empty(4)
    rank = 0
    for p7 in range(n + 1):
        counts[7] = n - p7
        shift[6] = steps[6, p7]
        for p6 in range(p7 + 1):
            counts[6] = p7 - p6
            shift[5] = shift[6] + steps[5, p6]
            for p5 in range(p6 + 1):
                counts[5] = p6 - p5
                shift[4] = shift[5] + steps[4, p5]
                for p4 in range(p5 + 1):
                    counts[4] = p5 - p4
                    shift[3] = shift[4] + steps[3, p4]
                    for p3 in range(p4 + 1):
                        counts[3] = p4 - p3
                        shift[2] = shift[3] + steps[2, p3]
                        for p2 in range(p3 + 1):
                            counts[2] = p3 - p2
                            shift[1] = shift[2] + steps[1, p2]
                            for p1 in range(p2 + 1):
                                counts[1] = p2 - p1
                                counts[0] = p1
                                shift[0] = shift[1] + steps[0, p1]
                                _bellman(a, pay, counts, shift, rank, table, left, new)
                                table[rank] = new
                                rank += 1


@njit(cache=True)
def _bellman(a, pay, counts, shift, rank, table, left, new):
    """new (4,): values after each outcome with these counts."""
    for o in range(4):
        c, d = counts[2 * o], counts[2 * o + 1]
        mean = (a + c) / (2.0 * a + c + d)
        if left == 0:
            new[o] = mean * pay[2] + (1.0 - mean) * pay[3]
            continue
        if_c = mean * pay[0] + (1.0 - mean) * pay[1]
        if_d = mean * pay[2] + (1.0 - mean) * pay[3]
        for reply in range(2):  # 0 is C, 1 is D
            weight = 1.0 - mean if reply else mean
            if left == 1:
                counts[2 * o + reply] += 1
                if_c += weight * _last(a, pay, counts, reply)
                if_d += weight * _last(a, pay, counts, 2 + reply)
                counts[2 * o + reply] -= 1
            else:
                row = rank + shift[2 * o + reply]
                if_c += weight * table[row, reply]
                if_d += weight * table[row, 2 + reply]
        new[o] = max(if_c, if_d)


@njit(cache=True)
def _last(a, pay, counts, o):
    """Value of the last round after outcome o: D."""
    c, d = counts[2 * o], counts[2 * o + 1]
    mean = (a + c) / (2.0 * a + c + d)
    return mean * pay[2] + (1.0 - mean) * pay[3]


def corners_value(rounds: int, payoffs: Payoffs = exact.STANDARD) -> CornersValue:
    """The Bayes-optimal player against a random one of the 32 deterministic vectors. Exact."""
    if rounds < 1:
        raise ValueError(f"rounds {rounds}: need at least one round")
    r, s, t, p = payoffs.by_state.tolist()
    value, cooperation = _corners(rounds, r, s, t, p)
    return CornersValue(value / rounds, cooperation / rounds)


@njit(cache=True)
def _corners(rounds, r, s, t, p):
    """Totals of value and own C. A belief is a number in base 3, digit o for outcome o."""
    powers = np.array([1, 3, 9, 27])
    value, own = np.zeros((81, 4)), np.zeros((81, 4))
    new_value, new_own = np.zeros((81, 4)), np.zeros((81, 4))
    for _ in range(rounds - 1):
        for belief in range(81):
            for o in range(4):
                known = belief // powers[o] % 3
                told = np.array([belief, belief])
                if known == 0:
                    told[0], told[1] = belief + powers[o], belief + 2 * powers[o]
                mean = 0.5 if known == 0 else (1.0 if known == 1 else 0.0)
                best, share = _choice(mean, told, value, own, r, s, t, p)
                new_value[belief, o], new_own[belief, o] = best, share
        value[:], own[:] = new_value, new_own
    return _choice(0.5, np.array([0, 0]), value, own, r, s, t, p)


@njit(cache=True)
def _choice(mean, told, value, own, r, s, t, p):
    """Best total and its own C; told: the beliefs after the answers C and D. Ties go to D."""
    k, m = told
    if_c = mean * (r + value[k, 0]) + (1.0 - mean) * (s + value[m, 1])
    if_d = mean * (t + value[k, 2]) + (1.0 - mean) * (p + value[m, 3])
    if if_c > if_d:
        return if_c, 1.0 + mean * own[k, 0] + (1.0 - mean) * own[m, 1]
    return if_d, mean * own[k, 2] + (1.0 - mean) * own[m, 3]
