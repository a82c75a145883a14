"""Which orders a language model may say: all legal ones, or few that an anchor finds probable.

`legal`    all legal orders
`anchor`   of each unit the `limit` most probable orders under the anchor, given the orders so far;
           of equally probable ones those with the lower number
`search`   orders of the candidate joint orders that a search would have (`candidates.choose`), as
           far as they agree with the orders so far

The paper lists six orders for each unit (B.2); its released code has the candidates of a search. A
narrowed turn offers what is left by `options`, at least one order in every slot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dipllm_lib.dip import candidates
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.search_settings import SearchSettings

MODES = ("legal", "anchor", "search")
LIMIT = 6  # Xu et al. 2025, B.2


class Anchor(Protocol):
    """What `anchor` needs of a policy; `search` needs an explicit one on top."""

    def conditional(self, turn: Turn, prefix: Joint = ()) -> np.ndarray:
        """Probabilities (K,) of `turn.options(prefix)`."""


@dataclass(frozen=True)
class Narrowed:
    """A turn whose slots offer some of the legal orders.

    allowed: orders before it, legal ids -> ids that are left, sorted
    """

    turn: Turn
    allowed: Callable[[Joint, np.ndarray], np.ndarray]

    @property
    def slots(self) -> int:
        return self.turn.slots

    @property
    def units(self) -> tuple[str, ...]:
        return self.turn.units

    @property
    def adjusts(self) -> int:
        return self.turn.adjusts

    def options(self, prefix: Joint = ()) -> np.ndarray:
        """Sorted ids of slot len(prefix) that are left. ValueError if there is none."""
        found = self.allowed(tuple(prefix), self.turn.options(prefix))
        if not len(found):
            raise ValueError(
                f"{self.turn.name} {self.turn.phase}: no candidate for slot {len(prefix)} after "
                f"{len(prefix)} orders: they are no beginning of a candidate"
            )
        return found

    def offers(self, joint: Joint) -> bool:
        """Whether all orders of a legal joint order are left."""
        return all(order in self.options(joint[:slot]) for slot, order in enumerate(joint))


class Narrowing:
    """The mode with what it needs.

    anchor: for `anchor` one with `conditional`, for `search` an explicit policy
    limit: orders per unit of `anchor`; settings: of `search`, those of a search
    """

    def __init__(
        self,
        mode: str = "legal",
        anchor: Anchor | None = None,
        limit: int = LIMIT,
        settings: SearchSettings | None = None,
    ):
        if mode not in MODES:
            raise ValueError(f"unknown candidates {mode!r}: use one of {', '.join(MODES)}")
        if mode != "legal" and anchor is None:
            raise ValueError(f"candidates {mode!r} need an anchor")
        if mode == "anchor" and limit < 1:
            raise ValueError(f"candidates of a unit: {limit}, at least one is needed")
        if mode == "search" and settings is None:
            raise ValueError("candidates 'search' need the settings of a search")
        self.mode, self.anchor, self.limit, self.settings = mode, anchor, limit, settings

    def turns(
        self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator] | None
    ) -> list[Turn | Narrowed]:
        """What each turn offers. rngs: one per turn, of which `search` takes a child; None where
        probabilities are asked for, then ValueError for `search`, whose candidates are drawn.
        """
        if self.mode == "legal":
            return list(turns)
        if self.mode == "anchor":
            return [Narrowed(turn, self._probable(turn)) for turn in turns]
        if rngs is None:
            raise ValueError("candidates 'search' are drawn anew each time: no fixed probability")
        own = [rng.spawn(1)[0] for rng in rngs]
        found = candidates.choose(turns, self.anchor, self.settings, own) if turns else []
        return [
            Narrowed(turn, _agreeing(joints))
            for turn, (joints, _) in zip(turns, found, strict=True)
        ]

    def _probable(self, turn: Turn) -> Callable[[Joint, np.ndarray], np.ndarray]:
        kept: dict[Joint, np.ndarray] = {}

        def allowed(prefix: Joint, legal: np.ndarray) -> np.ndarray:
            if prefix not in kept:
                best = legal
                if len(legal) > self.limit:
                    shares = self.anchor.conditional(turn, prefix)
                    best = np.sort(legal[np.argsort(-shares, kind="stable")[: self.limit]])
                kept[prefix] = best
            return kept[prefix]

        return allowed


def _agreeing(joints: Sequence[Joint]) -> Callable[[Joint, np.ndarray], np.ndarray]:
    """The orders of `joints` after a beginning that they share."""

    def allowed(prefix: Joint, legal: np.ndarray) -> np.ndarray:
        d = len(prefix)
        return np.array(sorted({joint[d] for joint in joints if joint[:d] == prefix}), legal.dtype)

    return allowed
