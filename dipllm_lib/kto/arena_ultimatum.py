"""The ultimatum in the tabular league; see `arenas`.

With pi(o) of offers and a(o) = P(accept | o) of both players, pie 1:

    payoff        sum pi_1(o) a_2(o) (1 - o) in seat 0,      sum pi_2(o) a_1(o) o in seat 1
    best reply    max (1 - o) a_2(o),                        sum pi_2(o) o: take everything
    labels        V of what occurred, reference an equal split; every offer is answered equally
                  often, since answers to offers that are no longer made decide about them

Shapes: A = 11 offers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dipllm_lib.kto import arenas, proposers, prospect
from dipllm_lib.kto.arenas import Player
from dipllm_lib.kto.proposers import OFFERS
from dipllm_lib.kto.prospect import ProspectParams
from dipllm_lib.kto.tabular import Data


@dataclass(frozen=True)
class UltimatumArena:
    """params, reference: of v, for both roles."""

    params: ProspectParams = prospect.ARTICLE
    reference: float = 0.5
    name: str = field(default="ultimatum", init=False)
    scale: float = field(default=1.0, init=False)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Offers, answers."""
        return (1, len(OFFERS)), (len(OFFERS), 2)

    @property
    def widths(self) -> tuple[float, ...]:
        """All offers are answered equally often."""
        return 1.0, float(len(OFFERS))

    def payoffs(self, one: Player, two: Player) -> np.ndarray:
        """See `Arena`."""
        first = one[0][0] @ (two[1][:, 0] * (1 - OFFERS))
        return np.array([first, two[0][0] @ (one[1][:, 0] * OFFERS)])

    def best(self, other: Player) -> np.ndarray:
        """See `Arena`."""
        return np.array([(other[1][:, 0] * (1 - OFFERS)).max(), other[0][0] @ OFFERS])

    def data(
        self,
        player: Player,
        partners: Sequence[Player],
        shares: np.ndarray,
        episodes: int,
        rng: np.random.Generator | None,
    ) -> tuple[Data, ...]:
        """See `Arena`. A partner that is drawn anew in each episode is one of mixed answers."""
        accept = np.asarray(shares) @ np.stack([p[1][:, 0] for p in partners])
        values = proposers.prospect_values([self.reference], [self.params])
        first = proposers.Proposers(np.clip(accept, 0.0, 1.0)[None], values)
        even = np.full(len(OFFERS), 1 / len(OFFERS))
        second = proposers.Responders(self.params, self.reference, even)
        return first.data(player[0], episodes, rng), second.data(player[1], episodes, rng)

    def blind(self, player: Player) -> tuple[Data, ...]:
        """Offers at most half; refuses only less than half."""
        small = OFFERS[:, None] < 0.5 - 1e-9
        good = np.concatenate([np.ones_like(small), small], axis=1)
        return arenas.labelled(player[0], OFFERS[None] <= 0.5), arenas.labelled(player[1], good)

    def swapped(self, player: Player) -> Player:
        """Takes an offer as often as it would itself offer no more; offers what it would take."""
        takes = np.minimum(np.cumsum(player[0][0]), 1.0)
        return arenas.rising(player[1][:, 0])[None], arenas.answers(takes)

    def play(
        self, players: Sequence[Player], episodes: int, rng: np.random.Generator
    ) -> np.ndarray:
        """See `Arena`."""
        draws = rng.random((2, episodes))
        offers = arenas.picks(np.stack([p[0][0] for p in players]), draws[0])  # (P, n)
        accept = np.stack([p[1][:, 0] for p in players])[:, offers]  # (responder, proposer, n)
        taken = (draws[1] < accept).transpose(1, 0, 2)
        given = OFFERS[offers][:, None]
        return np.stack([taken * (1 - given), taken * given], axis=3)


def responder(accept: np.ndarray) -> Player:
    """A scripted member that answers by `accept` (A,) and offers the least that it takes more often
    than not, at most half."""
    liked = np.flatnonzero((np.asarray(accept) > 0.5) & (OFFERS <= 0.5))
    offer = int(liked[0]) if len(liked) else int(np.flatnonzero(OFFERS <= 0.5)[-1])
    return arenas.point(offer, len(OFFERS))[None], arenas.answers(accept)
