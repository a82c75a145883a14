"""Strategies of the Axelrod library as players of `game`: opponents with a long memory.

The library (Knight et al., `axelrod` on PyPI) is no dependency: it brings several gigabytes. It is
imported when a player is made. One strategy object plays each game, beside a stand-in that only
holds the history of the opponent. A strategy that draws random numbers is seeded from the uniform
number of its first round, so all chance stays with the games.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dipllm_lib.ipd.game import CC, CD, DC, S0, D, Payoffs

# Classic strategies by the names of their classes there.
CLASSIC = (
    "TitForTat",
    "TitFor2Tats",
    "TwoTitsForTat",
    "Grudger",
    "WinStayLoseShift",
    "Gradual",
    "OmegaTFT",
    "Adaptive",
    "FirstByTullock",
    "ZDExtort2",
    "Random",
)


@dataclass(frozen=True)
class Axelrod:
    """Plays as the strategy `name`, a class of the library, in games of `rounds` rounds.

    ImportError without the library, ValueError for a class that it does not have. The strategies
    are told the payoffs and the length of a game.
    """

    name: str
    rounds: int
    payoffs: Payoffs = Payoffs()

    def __post_init__(self) -> None:
        if not hasattr(_library(), self.name):
            raise ValueError(f"axelrod has no strategy {self.name!r}, for example {CLASSIC[0]}")

    def start(self, n: int) -> list[Any]:
        """n strategies with their stand-ins, of which none has been seeded."""
        library = _library()
        r, s, t, p = self.payoffs.by_state.tolist()
        scores = library.Game(r=r, s=s, t=t, p=p)
        pairs = []
        for _ in range(n):
            player, other = getattr(library, self.name)(), library.MockPlayer()
            player.set_match_attributes(length=self.rounds, game=scores)
            pairs.append((player, other))
        return pairs

    def act(self, state: list[Any], obs: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        """Actions uint8 (n,); the strategies of `state` are changed in place."""
        library = _library()
        letters = (library.Action.D, library.Action.C)
        actions = np.empty(len(obs), dtype=np.uint8)
        for i, (player, other) in enumerate(state):
            if obs[i] == S0:
                player.set_seed(int(float(u[i]) * 2**32))
            else:
                own, theirs = letters[int(obs[i] <= CD)], letters[int(obs[i] in (CC, DC))]
                player.update_history(own, theirs)
                other.update_history(theirs, own)
            actions[i] = player.strategy(other) != letters[D]
        return actions, state


def _library() -> Any:
    """The package, or an ImportError that says what to do."""
    try:
        import axelrod
    except ImportError as error:
        raise ImportError(
            "Axelrod's strategies need the package axelrod: pip install axelrod"
        ) from error
    return axelrod
