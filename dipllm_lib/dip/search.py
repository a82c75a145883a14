"""Equilibrium search on positions: candidates, sampled values, policies and their record.

For every power i with something to decide the anchor tau_i proposes K candidate joint orders
(`candidates`). Then, T times (Jacob et al. 2022; the sampled form of Xu et al. 2025, Eq. 1):

    1. every power draws one candidate from its current policy;
    2. for every power and each of its candidates the phase is resolved against the others' drawn
       orders, and the power's value of the next position is its utility u_i(a, a_-i);
    3. every power adds the vector u_i(., a_-i) to its sums and recomputes its policy: by
       piKL-Hedge with one lambda or several types (`dil`), or by `regret_matching`.

Step 2 is one batch of at most Σ K_i resolved phases; joint orders of all powers that were met
before are looked up (`payoffs`). Played is the weighted average of the T policies; the joint target
(2) is softmax f with f = (Q + lam log tau) / (lam + kappa), the policy after iteration T. Powers
without a turn give no orders.

Many positions can be searched together: their batches of step 2 become one. Each has its own
generator and finds what it would find alone; to the last bit if the value function gives a row the
same value whatever rows are beside it (`value.heuristic` and `rowwise.RowwiseValue` do).

Shapes: P powers with a turn, K candidates (each power its own number), D slots of a joint order.
"""

from typing import Sequence

import numpy as np

from dipllm_lib.dip import boards, candidates, hedge, orders, payoffs, policies
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.dil import Types
from dipllm_lib.dip.orders import Turn
from dipllm_lib.dip.payoffs import Lookahead, Payoffs, ValueFunction
from dipllm_lib.dip.records import PowerRecord, Record
from dipllm_lib.dip.regret_matching import Matchers
from dipllm_lib.dip.search_settings import SearchSettings

__all__ = [
    "PowerRecord", "Record", "SearchSettings", "ValueFunction", "lookahead", "players", "search",
    "search_many",
]  # fmt: skip


def players(
    position: Boards, log_taus: Sequence[np.ndarray], settings: SearchSettings
) -> Types | Matchers:
    """The learning players of a position, by the settings: `Types` or `Matchers`."""
    if settings.learner == "regret_matching":
        return Matchers(log_taus, linear=settings.weighting == "linear")
    lams, agent = settings.lam_types(first=orders.phase_name(position) == "S1901M")
    switches = (
        settings.eta0,
        settings.rule,
        settings.kappa,
        settings.weighting,
        settings.q,
    )
    return Types(log_taus, [hedge.rule(lam, *switches) for lam in lams], agent=agent)


def lookahead(anchor, value_fn: ValueFunction, settings: SearchSettings) -> Lookahead:
    """How resolved positions are valued: `rollout` phases later, by the anchor or random orders."""
    policy = anchor if settings.rollout_policy == "anchor" else policies.RandomLegal()
    return Lookahead(value_fn, settings.rollout, policy)


class _Position:
    """The search on one position between its iterations."""

    def __init__(self, turns, position: Boards, proposed, settings: SearchSettings, rng):
        self.turns, self.boards, self.rng = list(turns), position, rng
        self.joints = [own for own, _ in proposed]
        seed = int(rng.integers(2**63)) if settings.rollout else 0
        self.payoffs = Payoffs(turns, position, self.joints, seed)
        self.players = players(position, [log_tau for _, log_tau in proposed], settings)
        self.iterations = settings.iterations
        self.regret = np.empty((settings.iterations, len(self.turns)))
        size = self.players.size
        self.owner = np.repeat(np.arange(len(size)), size)
        self.column = np.concatenate([np.arange(count) for count in size])
        self.utility = np.zeros(self.players.shape)

    def picks(self) -> np.ndarray:
        """(Σ K_i, P) joint orders of all powers whose values this iteration wants."""
        return payoffs.variations(self.players.draw(self.rng), self.players.size)

    def learn(self, values: np.ndarray, k: int) -> None:
        """Update all powers with the values (Σ K_i, 7) of iteration k."""
        own = values[np.arange(len(self.owner)), self.payoffs.powers[self.owner]]
        self.utility[self.owner, self.column] = own
        self.players.update(self.utility, k)
        self.regret[k] = self.players.regret()

    def record(self) -> Record:
        powers = [
            PowerRecord(turn.power, own, **self.players.found(i, self.iterations))
            for i, (turn, own) in enumerate(zip(self.turns, self.joints, strict=True))
        ]
        return Record(self.boards, powers, self.regret, len(self.payoffs.known), self.turns)


def search_many(
    positions: Sequence[Boards],
    anchor,
    value_fn: ValueFunction,
    settings,
    rngs: Sequence[np.random.Generator],
    turns: Sequence[Sequence[Turn]] | None = None,
) -> list[Record]:
    """Search on several positions (each a batch of one) at once; rngs[k] belongs to positions[k].

    settings: a `SearchSettings`, or a profile's settings with the search_* fields. turns: those of
    each position, if they are known. anchor: an explicit policy. value_fn: Boards -> (N, 7)
    expected SoS shares. ValueError for a position without turns.
    """
    settings = SearchSettings.of(settings)
    if not positions:
        return []
    if turns is None:
        turns = orders.all_turns(Boards.concat(list(positions)))
    _check(positions, turns, rngs)
    flat = [turn for own in turns for turn in own]
    shared = [rng for own, rng in zip(turns, rngs, strict=True) for _ in own]
    proposed = iter(candidates.choose(flat, anchor, settings, shared))
    runs = [
        _Position(own, position, [next(proposed) for _ in own], settings, rng)
        for own, position, rng in zip(turns, positions, rngs, strict=True)
    ]
    tables, ahead = [run.payoffs for run in runs], lookahead(anchor, value_fn, settings)
    for k in range(settings.iterations):
        values = payoffs.lookup(tables, [run.picks() for run in runs], ahead)
        for run, own in zip(runs, values, strict=True):
            run.learn(own, k)
    return [run.record() for run in runs]


def _check(positions: Sequence[Boards], turns, rngs) -> None:
    if len(rngs) != len(positions) or len(turns) != len(positions):
        raise ValueError(
            f"{len(positions)} positions need as many generators and lists of turns, got "
            f"{len(rngs)} and {len(turns)}"
        )
    if len({id(rng) for rng in rngs}) < len(rngs):
        raise ValueError("two positions share a generator: give each its own")
    for position, own in zip(positions, turns, strict=True):
        if position.n != 1 or not own or int(position.phase[0]) == boards.OVER:
            raise ValueError("a search needs one position and at least one turn")


def search(
    turns: Sequence[Turn],
    position: Boards,
    anchor,
    value_fn: ValueFunction,
    settings,
    rng: np.random.Generator,
) -> Record:
    """The search on one position for all `turns` of it; arguments as in `search_many`."""
    return search_many([position], anchor, value_fn, settings, [rng], [turns])[0]
