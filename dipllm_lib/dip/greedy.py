"""ValueGreedy: the best reply, one phase ahead, without an equilibrium.

    candidates of the power   as a search has them: the most probable of many draws from tau
    replies                   M joint orders of every other power, drawn from the policy `others`
    value of a candidate      mean over the M replies of u_i after the phase, u of the value net

and the candidate with the largest value is played, of equals the more probable one under tau. It is
`bestreply.BestReply` with the search's candidates and value net, so what a search gains beyond it
comes from the equilibrium alone: the others do not answer, they play as the anchor does. All
candidates are tried against the same M replies. A turn draws everything from its own generator:
first its own candidates, then the replies, powers in order; so what it plays does not depend on
who else is asked, to the last bit if the value function gives a row the same value whatever rows
are beside it (`rowwise.RowwiseValue` does).

Shapes: K candidates, M replies, P powers with a turn on a position.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import candidates, orders, payoffs
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.payoffs import Lookahead, Payoffs, ValueFunction
from dipllm_lib.dip.rowwise import RowwiseValue
from dipllm_lib.dip.search_settings import SearchSettings
from dipllm_lib.dip.value import ValueNet

TOGETHER = 64  # turns whose phases are resolved in one batch, at about 1 kB a phase


class Choice(NamedTuple):
    """What a turn chose from: K joint orders, most probable first, log tau (K,) renormalised over
    them, and values (K, M) in shares of SoS, one for each reply.
    """

    candidates: list[Joint]
    log_tau: np.ndarray
    values: np.ndarray

    @property
    def best(self) -> Joint:
        """The joint order with the largest mean value."""
        return self.candidates[int(np.argmax(self.values.mean(axis=1)))]


class ValueGreedy:
    """The player of the module.

    tau: explicit policy that proposes the candidates · others: policy of the replies, the anchor at
    the temperature of play · value_fn: Boards -> (N, 7) · settings: the search_* fields, of which
    the candidates' number, limit and draws are read · replies: M, ValueError below 1
    """

    def __init__(
        self,
        tau,
        others,
        value_fn: ValueFunction,
        settings,
        replies: int,
        name: str = "value-greedy",
    ):
        if replies < 1:
            raise ValueError(f"need at least one reply of the others, got {replies}")
        self.tau, self.others, self.value_fn = tau, others, value_fn
        self.settings, self.replies, self.name = SearchSettings.of(settings), replies, name

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        """One joint order per turn; each turn draws from its own generator."""
        found: list[Joint] = []
        for first in range(0, len(turns), TOGETHER):
            part = slice(first, first + TOGETHER)
            found += [choice.best for choice in self.choices(turns[part], rngs[part])]
        return found

    def choices(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Choice]:
        """What each turn has to choose from and what it is worth."""
        if not turns:
            return []
        proposed = candidates.choose(turns, self.tau, self.settings, rngs)
        tables, picks = [], []
        for given in zip(turns, proposed, self._replies(turns, rngs), strict=True):
            table, rows = self._table(*given)
            tables.append(table)
            picks.append(rows)
        worth = payoffs.lookup(tables, picks, Lookahead(self.value_fn))
        return [
            Choice(*own, values[:, turn.power].astype(np.float64).reshape(-1, self.replies))
            for turn, own, values in zip(turns, proposed, worth, strict=True)
        ]

    def _replies(self, turns: Sequence[Turn], rngs) -> list[list[tuple[Turn, list[Joint]]]]:
        """Per turn the other powers of its position with M joint orders each."""
        positions = {id(turn.boards): turn.boards for turn in turns}
        at = dict(zip(positions, orders.all_turns(Boards.concat(list(positions.values())))))
        asked = [[o for o in at[id(t.boards)] if o.power != t.power] for t in turns]
        flat = [other for own in asked for other in own]
        shared = [rng for own, rng in zip(asked, rngs, strict=True) for _ in own]
        drawn = iter(self._draw(flat, shared))
        return [[(other, next(drawn)) for other in own] for own in asked]

    def _draw(self, turns: Sequence[Turn], rngs) -> list[list[Joint]]:
        """M joint orders of each turn; turns of one position may share a generator."""
        if isinstance(self.others, candidates.Batched):
            return self.others.samples(turns, self.replies, rngs)
        return [
            self.others.sample(turn, self.replies, rng)
            for turn, rng in zip(turns, rngs, strict=True)
        ]

    def _table(
        self,
        turn: Turn,
        own: candidates.Proposal,
        replies: Sequence[tuple[Turn, list[Joint]]],
    ) -> tuple[Payoffs, np.ndarray]:
        """The position with what each power may do, and picks (K M, P): candidate after candidate,
        each against all replies. Equal replies are resolved once.
        """
        members, joints, columns = [], [], []
        for other, drawn in replies:
            number = {joint: k for k, joint in enumerate(dict.fromkeys(drawn))}
            members.append(other)
            joints.append(list(number))
            columns.append(np.tile([number[joint] for joint in drawn], len(own[0])))
        members.append(turn)
        joints.append(own[0])
        columns.append(np.repeat(np.arange(len(own[0])), self.replies))
        return Payoffs(members, turn.boards, joints), np.column_stack(columns)


def player(
    tau, others, net: ValueNet, settings, replies: int, name: str = "value-greedy"
) -> ValueGreedy:
    """The player with a value net, whose values do not depend on the batch."""
    return ValueGreedy(tau, others, RowwiseValue(net), settings, replies, name)
