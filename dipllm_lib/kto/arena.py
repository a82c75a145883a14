"""Repeated decisions against an environment of one of K types that may change: exact values.

A type says how likely the good answer b = 0 is and what is paid:

    good_k(s, a)    chance of b = 0 after public state s (the last outcome) and own action a
    pay_k(a, b)     payoff;        next state  s' = 1 + 2 a + b,   s = 0 before the first round

    repeated    a = cooperate, defect; types are memory-one vectors under one of several payoff
                tables: a change of the opponent, or of the payoffs
    bargaining  a = share kept (11); the answer is accept or refuse. The other takes whatever leaves
                it at least delta, which it would have a round later: a change of delta

With the type k(t) of every round known, backward induction over T rounds gives

    Q_t(s, a) = sum_b P(b) (pay(a, b) + max_a' Q_(t+1)(s', a')),

and the regret of `adaptation`. The reference line is the Bayes filter over types with hazard h
(`partner_types` for one payoff table), which plays the best action of the mean of Q over its
posterior, types taken as fixed from now on:

    w_t(k) ∝ ((1 - h) w_(t-1)(k) + h w_0(k)) P_k(b | s, a) [pay_k(a, b) is what was paid]

The rules are told at the start, and where a change is announced: they hold from then on for sure,
and what was believed of the opponent is kept. How the opponent plays is never told. It tries
nothing for the sake of what it would learn, so it is a line to compare with, and no bound. The
values do know of a change in advance: the round before one has regret too.

Shapes: K types, S = 1 + 2 A states, A actions, B episodes, T rounds.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dipllm_lib.ipd.game import Payoffs
from dipllm_lib.kto import pool
from dipllm_lib.kto.repeated import STANDARD

HAZARD = 1 / 20
GOOD, BAD = 0, 1
PAYS = {  # rules T/R/P/S: the usual ones, and some where GTFT is better exploited
    "5/3/1/0": STANDARD,
    "5/2.75/2.5/0": Payoffs(reward=2.75, sucker=0.0, temptation=5.0, punishment=2.5),
}
PARTNERS = ("AllC", "AllD", "TFT", "GTFT", "WSLS")
DELTAS = (0.3, 0.6, 0.9)
GRID = 10


@dataclass(frozen=True, eq=False)
class Arena:
    """good: (K, S, A) chance of b = 0 · pays: (K, A, 2) · rules: (K,) which rules a type has, what
    an announcement tells · others: (K,) which opponent · labels of types · scale: payoff range."""

    name: str
    good: np.ndarray
    pays: np.ndarray
    rules: np.ndarray
    others: np.ndarray
    labels: tuple[str, ...]
    scale: float
    actions: int = field(init=False)

    def __post_init__(self) -> None:
        types, states, actions = self.good.shape
        fits = self.pays.shape == (types, actions, 2) and states == 1 + 2 * actions
        if not fits or len(self.labels) != types or self.rules.shape != (types,):
            raise ValueError(f"arena {self.name}: good {self.good.shape}, pays {self.pays.shape}")
        object.__setattr__(self, "actions", actions)

    @property
    def states(self) -> int:
        """S."""
        return 1 + 2 * self.actions

    def index(self, label: str) -> int:
        """Of a type; ValueError for an unknown one."""
        if label not in self.labels:
            raise ValueError(f"no type {label!r} in {self.name}: use one of {self.labels}")
        return self.labels.index(label)


def repeated_game(partners: tuple[str, ...] = PARTNERS) -> Arena:
    """Every partner under every payoff table; labels as "TFT 5/3/1/0"."""
    good, pays, rules, labels = [], [], [], []
    others = np.tile(np.arange(len(partners)), len(PAYS))
    for number, (rule, own) in enumerate(PAYS.items()):
        matrix = own.matrix[::-1, ::-1]  # [own, other], cooperate first
        for name in partners:
            vector = np.array(pool.VECTORS[name])
            seen = vector[[0, 1, 3, 2, 4]]  # CD and DC change places in the other's view
            good.append(np.repeat(seen[:, None], 2, axis=1))
            pays.append(matrix)
            rules.append(number)
            labels.append(f"{name} {rule}")
    scale = STANDARD.temptation - STANDARD.sucker
    arrays = np.array(good), np.array(pays, dtype=np.float64), np.array(rules), others
    return Arena("repeated", *arrays, tuple(labels), scale)


def bargaining(deltas: tuple[float, ...] = DELTAS) -> Arena:
    """Shares to keep against one who takes delta or more; labels as "delta 0.9"."""
    kept = np.arange(GRID + 1) / GRID
    takes = np.array([(1 - kept >= delta - 1e-9).astype(float) for delta in deltas])
    good = np.repeat(takes[:, None], 3 + 2 * GRID, axis=1)
    pays = np.stack([kept, np.zeros(len(kept))], axis=1)
    pays = np.repeat(pays[None], len(deltas), axis=0)
    labels = tuple(f"delta {delta:g}" for delta in deltas)
    rules, others = np.arange(len(deltas)), np.zeros(len(deltas), dtype=np.int64)
    return Arena("bargaining", good, pays, rules, others, labels, 1.0)


class Log(NamedTuple):
    """What B players have seen before some round. states (B, t+1) before every round and now ·
    actions, answers (B, t) · paid (B, t) · told (B, t+1): number of the rules announced at that
    round, -1 for nothing."""

    states: np.ndarray
    actions: np.ndarray
    answers: np.ndarray
    paid: np.ndarray
    told: np.ndarray

    @property
    def round(self) -> int:
        """t, the round that is to be decided, from 0."""
        return self.actions.shape[1]

    def replaced(self, action: int, answer: int, paid: np.ndarray) -> "Log":
        """The same with another last round."""
        states, actions, answers, given = (part.copy() for part in self[:4])
        states[:, -1] = 1 + 2 * action + answer
        actions[:, -1], answers[:, -1], given[:, -1] = action, answer, paid
        return Log(states, actions, answers, given, self.told)

    def cut(self, round_: int) -> "Log":
        """What was seen before that round."""
        parts = self.states[:, : round_ + 1], self.actions[:, :round_], self.answers[:, :round_]
        return Log(*parts, self.paid[:, :round_], self.told[:, : round_ + 1])


def values(arena: Arena, types: np.ndarray) -> np.ndarray:
    """(B, T, S, A) best sums of payoffs from each round on. types: int (B, T), known to the player
    in advance."""
    count, rounds = types.shape
    found = np.empty((count, rounds, arena.states, arena.actions))
    after = np.zeros((count, arena.states))
    following = 1 + 2 * np.arange(arena.actions)
    for t in range(rounds - 1, -1, -1):
        good, pays = arena.good[types[:, t]], arena.pays[types[:, t]]
        won = pays[:, :, 0] + after[:, following]
        lost = pays[:, :, 1] + after[:, following + 1]
        found[:, t] = good * won[:, None] + (1 - good) * lost[:, None]
        after = found[:, t].max(axis=2)
    return found


def fixed_values(arena: Arena, rounds: int) -> np.ndarray:
    """(K, T, S, A) `values` of types that never change."""
    return values(arena, np.repeat(np.arange(len(arena.labels))[:, None], rounds, axis=1))


def gaps(quality: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """(...,) regret of distributions (..., A) with values (..., A)."""
    return quality.max(axis=-1) - (chances * quality).sum(axis=-1)


class Bayes:
    """The reference line: a filter over types with a hazard, for B episodes at once."""

    def __init__(self, arena: Arena, rounds: int, hazard: float = HAZARD):
        self.arena, self.hazard = arena, hazard
        self.quality = fixed_values(arena, rounds)
        self.prior = np.full(len(arena.labels), 1 / len(arena.labels))

    def posterior(self, log: Log) -> np.ndarray:
        """(B, K) after all that was seen. ValueError for what no type can produce."""
        count = len(log.states)
        weights = np.tile(self.prior, (count, 1))
        for t in range(log.round + 1):
            if t:
                weights = self._updated(weights, log, t - 1)
                weights = (1 - self.hazard) * weights + self.hazard * self.prior
            weights = self._told(weights, log.told[:, t])
        return weights

    def _updated(self, weights: np.ndarray, log: Log, t: int) -> np.ndarray:
        state, action, answer = log.states[:, t], log.actions[:, t], log.answers[:, t]
        good = self.arena.good[:, state, action].T
        chance = np.where(answer[:, None] == GOOD, good, 1 - good)
        paid = self.arena.pays[:, action, answer].T
        weights = weights * chance * (np.abs(paid - log.paid[:, t, None]) < 1e-6)
        total = weights.sum(axis=1, keepdims=True)
        if not np.all(total > 0):
            raise ValueError(f"round {t}: no type of {self.arena.name} can have played this")
        return weights / total

    def _told(self, weights: np.ndarray, told: np.ndarray) -> np.ndarray:
        """Rules that were announced hold; how the opponent plays stays as it was believed."""
        others = self.arena.others
        for row in np.flatnonzero(told >= 0):
            believed = np.bincount(others, weights[row])
            kept = believed[others] * (self.arena.rules == told[row])
            weights[row] = kept / kept.sum()
        return weights

    def __call__(self, log: Log) -> np.ndarray:
        """(B, A) all on the best action of the posterior mean; shared evenly by equals."""
        now = self.quality[:, log.round, log.states[:, -1]]  # (K, B, A)
        mean = np.einsum("bk,kba->ba", self.posterior(log), now)
        best = mean >= mean.max(axis=1, keepdims=True) - 1e-9
        return best / best.sum(axis=1, keepdims=True)
