"""What people did in three games, as counts of decisions, and how far a player is from that.

    ultimatum     rejections by offer; the data have the share that the proposer keeps. Heffner and
                  FeldmanHall 2022, Nature Communications 13:1718, data under MIT: 715 people, 20
                  decisions each
    gift PD       second mover: own gift at least one half (*cooperate*) by the partner's gift. Same
                  source and licence, 306 people, 22 decisions each. That the partner's gift is seen
                  first is our reading of the data
    repeated PD   cooperation by own and other's last action. Nay and Vorobeychik 2016, PLoS ONE
                  11(5):e0155656, data in their R package datafsm under MIT: 168,386 decisions of
                  eight studies with different payoffs. A mixture of people, not a person

Rates are linear between the columns of a table and constant outside them: nobody was offered
nothing, or more than half. Human-likeness of a player with rates q is the mean Bernoulli divergence

    KL(p || q) = mean over columns of  p log(p / q) + (1 - p) log((1 - p) / (1 - q))     in nats

from the human rates p: 0 for the same rates; up to `HUMAN_LIKE` counts as human-like. It is another
question than payoff: the best reply to people is not what people do.

Shapes: offers and gifts are shares of the pie in any array; tables have K columns.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.ipd.game import Payoffs

HUMAN_LIKE = 0.02  # nats; the worst of the curves that follow a table closely has .0034
PAYOFFS = Payoffs(3.0, 0.0, 5.0, 1.0)  # R, S, T, P of the repeated game of study 3
OFFERS = tuple(k / 10 for k in range(11))  # shares of the pie that a proposer can offer
RELATIVES = ("AllC", "GTFT", "WSLS", "TFT", "AllD")  # memory-one partners shown beside people
EXTORT2 = (0.0, 8 / 9, 1 / 2, 1 / 3, 0.0)  # keeps own - P = 2 (other - P) for T 5, R 3, P 1, S 0


@dataclass(frozen=True)
class Table:
    """Decisions of people: at x (rising), `count` of `total` did `event`."""

    name: str
    event: str
    x: tuple[float, ...]
    count: tuple[int, ...]
    total: tuple[int, ...]

    @property
    def rates(self) -> np.ndarray:
        """(K,) share of decisions that are the event."""
        return np.array(self.count) / np.array(self.total)

    def at(self, x: np.ndarray | float) -> np.ndarray:
        """Rates at any x: linear between the columns, constant outside. ValueError unless x lies
        in [0, 1]."""
        x = np.asarray(x, dtype=np.float64)
        if not ((x >= 0) & (x <= 1)).all():
            raise ValueError(f"{self.name}: a share must lie in [0, 1]")
        return np.interp(x, self.x, self.rates)


REJECTIONS = Table(
    "ultimatum",
    "reject",
    (0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50),
    (1025, 859, 733, 593, 417, 301, 196, 60, 36, 13),
    (1430,) * 10,
)
GIFTS = Table(
    "gift PD",
    "cooperate",
    OFFERS,
    (101, 122, 117, 126, 158, 456, 454, 489, 478, 494, 512),
    (612,) * 11,
)
# mean own gift at each of the partner's gifts 0, .1, …, 1, to three digits, of the same people
MEAN_GIFT = (0.143, 0.198, 0.246, 0.302, 0.386, 0.462, 0.520, 0.595, 0.646, 0.713, 0.773)
# decisions and cooperations in the first round and after CC, CD, DC, DD, own action first
REPEATED = {
    "s0": (32614, 14975),
    "CC": (49638, 45454),
    "CD": (16748, 6750),
    "DC": (16457, 4811),
    "DD": (52929, 3540),
}


def ultimatum_responder(offer: np.ndarray | float) -> np.ndarray:
    """P(accept) of the pooled human responder, for the share offered to it, in [0, 1]."""
    return 1.0 - REJECTIONS.at(offer)


def gift_pd(gift: np.ndarray | float) -> np.ndarray:
    """P(cooperate) of the pooled human second mover, for the partner's gift, in [0, 1]."""
    return GIFTS.at(gift)


def repeated_pd() -> np.ndarray:
    """(5,) P(C) of the pooled player in the first round and after CC, CD, DC, DD, unrounded.

    `ipd.tabular.HUMAN` are the same rates to three digits, as study 2 uses them.
    """
    return np.array([cooperations / decisions for decisions, cooperations in REPEATED.values()])


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Bernoulli KL(p || q) in nats, elementwise; infinite where q excludes what p does."""
    p, q = np.broadcast_arrays(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))
    if not ((p >= 0) & (p <= 1) & (q >= 0) & (q <= 1)).all():
        raise ValueError("divergence: every rate must lie in [0, 1]")
    with np.errstate(divide="ignore", invalid="ignore"):
        yes = np.where(p > 0, p * np.log(p / q), 0.0)
        no = np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)
    return yes + no


def likeness(table: Table, rates: np.ndarray | float) -> float:
    """Mean divergence of the human rates from a player's `rates` (K,) of the table's event, or one
    rate for all columns. 0 is a player exactly like the pooled person."""
    rates = np.asarray(rates, dtype=np.float64)
    if rates.shape not in ((), (len(table.x),)):
        raise ValueError(f"likeness: need one rate or {len(table.x)}, got shape {rates.shape}")
    return float(divergence(table.rates, rates).mean())


def offer_values(offers: np.ndarray = OFFERS) -> np.ndarray:
    """Expected share that a proposer keeps, (1 - offer) P(accept), for each offer."""
    offers = np.asarray(offers, dtype=np.float64)
    return (1.0 - offers) * ultimatum_responder(offers)


def fehr_schmidt(offer: np.ndarray | float, envy: np.ndarray | float) -> np.ndarray:
    """Whether a responder who minds being behind accepts: bool, in the common shape.

    Utility offer - envy (1 - 2 offer) of an offer below one half is at least that of refusing, 0
    (Fehr and Schmidt 1999); from one half on every offer is accepted.
    """
    return np.asarray(offer) >= threshold(envy)


def threshold(envy: np.ndarray | float) -> np.ndarray:
    """Smallest offer that is accepted, a / (1 + 2a), for envy a >= 0. ValueError below 0."""
    envy = np.asarray(envy, dtype=np.float64)
    if not (envy >= 0).all():
        raise ValueError("threshold: envy must be at least 0")
    return envy / (1.0 + 2.0 * envy)


def envy_at(offer: np.ndarray | float) -> np.ndarray:
    """The envy whose threshold is this offer, s / (1 - 2 s), for s in [0, 1/2)."""
    offer = np.asarray(offer, dtype=np.float64)
    if not ((offer >= 0) & (offer < 0.5)).all():
        raise ValueError("envy_at: need an offer in [0, 1/2)")
    return offer / (1.0 - 2.0 * offer)


def best_reply(delta: float, payoffs: Payoffs = PAYOFFS) -> tuple[np.ndarray, float]:
    """The best of all players against the pooled human player, and its mean payoff per round.

    delta: probability of another round, in (0, 1). The partner's next action depends on the last
    round only, so the best player is one of the 32 deterministic memory-one vectors (5,); those
    equal in value to 1e-12 are ordered by fewest C.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta {delta}: need a number between 0 and 1")
    corners = tabular.corners()
    values, _ = exact.discounted(corners, repeated_pd(), delta, payoffs)
    best = corners[values >= values.max() - 1e-12]
    constant = (best == best[:, :1]).all(axis=1)
    found = best[np.lexsort((best.sum(axis=1), ~constant))[0]]
    return found, float(values.max())


def long_run(payoffs: Payoffs = PAYOFFS) -> pd.DataFrame:
    """Columns player, own, human: mean payoff per round of endless play of RELATIVES, Extort-2 and
    the pooled player itself, each against the pooled human player."""
    people = repeated_pd()
    players = {name: tabular.named(name) for name in RELATIVES}
    players |= {"human": people, "Extort-2": np.array(EXTORT2)}
    rows = []
    for name, vector in players.items():
        own, other = exact.stationary(vector, people, payoffs)
        rows.append((name, float(own[0]), float(other[0])))
    table = pd.DataFrame(rows, columns=["player", "own", "human"])
    return table.sort_values("own", ascending=False, ignore_index=True)
