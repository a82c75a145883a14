"""DiL-piKL: a distribution over lambda in place of one lambda (Bakhtin et al. 2022b).

A player is one of several types, each with its own lambda. In every iteration a player draws a type
from its belief and acts by that type's policy; then *all* its types are updated with the same
vector of utilities, each by piKL-Hedge with its own lambda. One type plays: its policies are what
the search exports. A weak lambda plays well against opponents who are known to be like the anchor,
because the strong types keep the anchor's habits among the policies that are met.

With one type no type is drawn, so that is piKL-Hedge itself, number for number.
"""

from typing import NamedTuple, Sequence

import numpy as np

from dipllm_lib.dip import hedge


class Types:
    """The players of a search: P learners for each of L types; sampled play.

    log_taus: per player its anchor over K actions · rules: one update per type, they differ in lam
    · belief (L,): probability of each type, uniform without · agent: index of the type that plays.
    """

    def __init__(
        self,
        log_taus: Sequence[np.ndarray],
        rules: Sequence[hedge.Rule],
        belief: Sequence[float] | None = None,
        agent: int = 0,
    ):
        self.rules, self.agent = list(rules), agent
        self.belief = checked_belief(belief, len(self.rules))
        if not 0 <= agent < len(self.rules):
            raise ValueError(f"the type that plays is {agent}, but there are {len(self.rules)}")
        self.states = [hedge.learners(log_taus) for _ in self.rules]
        self.size = self.states[0].size
        self.shape = self.states[0].policy.shape

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """(P,) one action per player, of a type that it draws first if it has several."""
        if len(self.states) == 1:
            return hedge.draw(self.states[0].policy, self.size, rng)
        players = np.arange(len(self.size))
        belief = np.broadcast_to(self.belief, (len(players), len(self.belief)))
        which = hedge.draw(belief, np.full(len(players), len(self.belief)), rng)
        policies = np.stack([state.policy for state in self.states])
        return hedge.draw(policies[which, players], self.size, rng)

    def update(self, utility: np.ndarray, iteration: int) -> None:
        """Add utilities (P, K) of iteration 0, 1, … to all types."""
        for state, rule in zip(self.states, self.rules, strict=True):
            hedge.update(state, utility, iteration, rule)

    def regret(self) -> np.ndarray:
        """(P,) average external regret so far of the type that plays."""
        return hedge.regret(self.states[self.agent])

    def found(self, i: int, iterations: int) -> dict:
        """What the type that plays learned for player i: the arrays of a `records.PowerRecord`."""
        state, rule = self.states[self.agent], self.rules[self.agent]
        f = hedge.exponents(state, i, iterations, rule)
        return {
            "log_tau": state.log_tau[i, : state.size[i]].copy(),
            "q": hedge.values(state, i),
            "average": hedge.average(state, i),
            "final": hedge.softmax(f),
            "f": f,
            "kappa": float(hedge.temperature(state.moments[i], iterations, rule)),
        }


def checked_belief(belief: Sequence[float] | None, types: int) -> np.ndarray:
    """(L,) probabilities. ValueError if they are not, or not one for each type."""
    if belief is None:
        return np.full(types, 1.0 / types)
    result = np.asarray(belief, dtype=np.float64)
    if result.shape != (types,) or result.min() < 0 or abs(result.sum() - 1) > 1e-9:
        raise ValueError(f"a belief over {types} types needs as many probabilities, got {belief}")
    return result


class DilSolution(NamedTuple):
    """Per type (L rows): average policies (L, m), (L, n) and policies after the last iteration."""

    row: np.ndarray
    column: np.ndarray
    last_row: np.ndarray
    last_column: np.ndarray


def matrix_game(
    game, iterations: int, rules: Sequence[hedge.Rule], belief: Sequence[float] | None = None
) -> DilSolution:
    """DiL-piKL of both players on a `matrix_games.MatrixGame` with exact expectations.

    Opponents are met as the mixture of their types under the belief.
    """
    payoff = np.asarray(game.payoff, dtype=np.float64)
    m, n = payoff.shape
    types = Types([np.log(game.row_anchor), np.log(game.column_anchor)], rules, belief)
    utility = np.zeros(types.shape)
    for k in range(iterations):
        x, y = (
            sum(b * state.policy[i] for b, state in zip(types.belief, types.states, strict=True))
            for i in range(2)
        )
        utility[0, :m], utility[1, :n] = payoff @ y[:n], 1.0 - x[:m] @ payoff
        types.update(utility, k)
    return DilSolution(
        np.array([hedge.average(state, 0) for state in types.states]),
        np.array([hedge.average(state, 1) for state in types.states]),
        np.array([state.policy[0, :m] for state in types.states]),
        np.array([state.policy[1, :n] for state in types.states]),
    )
