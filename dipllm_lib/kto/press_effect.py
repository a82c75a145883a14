"""How agreements enter the choice of orders; the rules of the game know nothing of them.

A power chooses among its candidates c (joint orders) in a movement phase by

    pi(c) ~ exp{ (Q(c) + lam log tau(c) - price b(c)) / (lam T) }

Q: mean value after the phase against 16 joint orders of the others; tau: the anchor over the
candidates; b: own agreements that c breaks; T: temperature of play, so that for equal Q and b it is
tau^(1/T), the anchor as a player. The effect says what b does:

    none      nothing: messages are sent but hidden from the choice (control)
    text      nothing here: a model that reads the agreements in force gives the orders
    priced    price = eta (0.02 of SoS), or the negotiator's own price
    binding   candidates that break something are removed, the contract form of Kramar et al. 2022

A price of infinity is a promise that its giver keeps: it removes candidates as binding does. What
cannot be kept falls back: a duty that meets no candidate falls away, and among the candidates that
keep the rest is chosen. All units holding is always a candidate and breaks neither a peace nor a
zone, so the set is never empty.

Shapes: N candidates, A agreements that bind the power.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.kto.press_breach import Bonds

EFFECTS = ("none", "text", "priced", "binding")
TRUSTED = ("priced", "binding")  # effects under which a power counts on what it was promised


class Will(NamedTuple):
    """What a negotiator wants of its own agreements when orders are given.

    price: of a breach in shares of SoS, None for the eta of the game, infinite to keep all that can
    be kept. attack: break two or more if that is expected to gain `gain` centres by the next
    adjustment.
    """

    price: float | None = None
    attack: bool = False
    gain: float = 2.0


def check(effect: str) -> None:
    """ValueError for an effect that is not known."""
    if effect not in EFFECTS:
        raise ValueError(f"unknown press.effect {effect!r}: use one of {', '.join(EFFECTS)}")


def admissible(bonds: Bonds) -> np.ndarray:
    """(N,) candidates that keep the agreements, never empty if one keeps all that is forbidden.

    Duties are asked for one after the other; one that meets no candidate left falls away.
    """
    allowed = ~bonds.forbidden.any(axis=1)
    if not allowed.any():
        raise ValueError("every candidate breaks an agreement: add the one in which all units hold")
    for agreement in range(bonds.missed.shape[1]):
        allowed = keeping(allowed, bonds.missed[:, agreement])
    return allowed


def keeping(allowed: np.ndarray, missed: np.ndarray) -> np.ndarray:
    """(N,) those of the allowed candidates that do not miss a duty; all where every one does."""
    dutiful = allowed & ~missed
    return dutiful if dutiful.any() else allowed


def scores(
    value: np.ndarray, bonds: Bonds, effect: str, will: Will, eta: float
) -> tuple[np.ndarray, np.ndarray]:
    """((N,) value of each candidate less what its breaches cost, (N,) which may be chosen)."""
    everything = np.ones(len(value), bool)
    if effect in ("none", "text") or bonds.forbidden.shape[1] == 0:
        return value, everything
    price = eta if will.price is None else will.price
    if effect == "binding" or np.isinf(price):
        return value, admissible(bonds)
    return value - price * bonds.broken.sum(axis=1), everything


def attackers(bonds: Bonds) -> np.ndarray:
    """(N,) candidates that break two agreements or more, or one if none breaks two; none where
    nothing can be broken.
    """
    broken = bonds.broken.sum(axis=1)
    return (broken >= min(2, broken.max(initial=0))) & (broken > 0)


def policy(
    value: np.ndarray, log_tau: np.ndarray, allowed: np.ndarray, lam: float, temperature: float
) -> np.ndarray:
    """(N,) probabilities of the choice. `value` already holds the price of breaches."""
    exponent = np.where(allowed, (value + lam * log_tau) / (lam * temperature), -np.inf)
    weights = np.exp(exponent - exponent.max())
    return weights / weights.sum()


def pick(probabilities: np.ndarray, uniform: np.ndarray | float) -> np.ndarray:
    """Candidates of uniform numbers in [0, 1) by the inverse distribution function."""
    steps = np.cumsum(probabilities)
    found = np.searchsorted(steps, np.asarray(uniform) * steps[-1], side="right")
    return np.minimum(found, np.flatnonzero(probabilities > 0)[-1])
