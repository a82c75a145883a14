"""Choice of orders in Diplomacy as a language game for one power.

On a position of a movement phase the power orders its units one after the other, each from at most
six candidate orders. Then all orders are adjudicated by the rules engine, and the payoff is what
the next position is worth to the power: its expected share of the sum of squares of centres,

    u = (1/M) Σ_m value(resolve(own orders, orders of the others in draw m)),

where the others' orders are M draws from a given policy. `reset` draws the position and these
draws, so nothing is chance after it. With `one_unit` a single unit is asked and the orders of the
others of the power are given, drawn from `own`.

    1901 spring move
     Aus A Bud Vie F Tri
     ...
     you Ita
     A Rom Ven. A Ven          <- orders so far; the answer is one more

`near` shows only units and centres within so many steps of the own units; the whole board is the
default. The reference point is `status_quo`, the worth of the position before the phase.

Shapes: D units, K <= 6 candidates each, M draws.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dipllm_lib.dip import atlas, orders, rules, states, text, value
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.payoffs import Lookahead
from dipllm_lib.dip.policies import Policy
from dipllm_lib.kto import games, order_faults

LIMIT = 6
MOST = 20_000  # joint orders that `order_values` enumerates
WORDS = tuple(dict.fromkeys([*text.WORDS, *(f"{word}." for word in (*text.PLACES, "H", "via"))]))
"""Vocabulary of a scratch tokenizer for prompts and answers without setting and forecast."""


@dataclass(frozen=True)
class State:
    """position: number of the turn · replies: per draw the orders of the other powers · chosen:
    candidate of each unit so far, in slot order · unit: the one that is asked, -1 for all."""

    position: int
    replies: tuple[tuple[tuple[int, Joint], ...], ...]
    chosen: tuple[int, ...] = ()
    unit: int = -1
    given: Joint = ()


@dataclass(frozen=True, eq=False)
class OrdersGame:
    """turns: positions, each with the power to move · candidates: per turn and slot its order ids ·
    others: policy of the replies · draws: M · ahead: worth of a position, see `Lookahead` ·
    one_unit, own: see above · near: steps that are shown, 0 for the whole board."""

    turns: tuple[Turn, ...]
    candidates: tuple[tuple[tuple[int, ...], ...], ...]
    others: Policy
    draws: int = 4
    ahead: Lookahead = Lookahead(value.heuristic)
    own: Policy | None = None
    one_unit: bool = False
    near: int = 0
    name: str = field(default="Orders", init=False)
    players: int = field(default=1, init=False)
    scale: float = field(default=1.0, init=False)
    worst: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not self.turns or len(self.turns) != len(self.candidates):
            raise ValueError(
                f"{len(self.turns)} turns with candidates for {len(self.candidates)}: need one each"
            )
        if self.draws < 1 or self.near < 0:
            raise ValueError(f"draws {self.draws}, near {self.near}: need >= 1 and >= 0")
        if self.one_unit and self.own is None:
            raise ValueError("one_unit needs `own`, the policy of the other units")
        for turn, slots in zip(self.turns, self.candidates, strict=True):
            _check_candidates(turn, slots)

    def reset(self, rng: np.random.Generator) -> State:
        """Draws the position, the replies and, with one_unit, the unit and the other orders."""
        position = int(rng.integers(len(self.turns)))
        turn = self.turns[position]
        state = State(position, self._replies(turn, rng))
        if not self.one_unit:
            return state
        unit = int(rng.integers(turn.slots))
        return replace(state, unit=unit, given=self.own.act([turn], [rng])[0])

    def to_move(self, state: State) -> tuple[int, ...]:
        """The one player, until all asked units have an order."""
        asked = 1 if self.one_unit else self.turns[state.position].slots
        return (0,) if len(state.chosen) < asked else ()

    def observe(self, state: State, player: int, setting: str = "", forecast: str = "") -> str:
        """Position, power, setting and forecast, then the orders that are known; see `Game`."""
        games.check_turn(self, state, player)
        turn = self.turns[state.position]
        extra = games.prompt("", "", setting, forecast)
        lines = [self._board(turn), text.task_text(turn.name), f" {extra}" if extra else ""]
        return "".join(lines) + "".join(map(_sentence, self._known(state)))

    def legal(self, state: State, player: int) -> tuple[str, ...]:
        """Candidate orders of the unit that is asked."""
        games.check_turn(self, state, player)
        return tuple(map(_sentence, self.candidates[state.position][self._slot(state)]))

    def step(self, state: State, actions: tuple[int, ...]) -> State:
        """One more order."""
        games.check_actions(self, state, actions)
        return replace(state, chosen=(*state.chosen, int(actions[0])))

    def payoffs(self, state: State) -> tuple[float]:
        """Mean worth of the next position over the draws."""
        games.check_over(self, state)
        return (float(self._values(state, [self.joint(state)])[0]),)

    def infoset(self, state: State, player: int) -> Hashable:
        """Number of the position, the orders that are known, and the unit that is asked."""
        games.check_turn(self, state, player)
        return self.name, self.near, state.position, self._slot(state), self._known(state)

    def batna(self, player: int) -> float:
        """The lowest share; there is nobody to agree with."""
        return 0.0

    def status_quo(self, state: State) -> float:
        """Worth of the position to the power before the phase."""
        turn = self.turns[state.position]
        return float(self.ahead.value_fn(turn.boards)[0, turn.power])

    def joint(self, state: State) -> Joint:
        """The joint order of a finished state, in slot order."""
        games.check_over(self, state)
        slots = self.candidates[state.position]
        if self.one_unit:
            order = slots[state.unit][state.chosen[0]]
            return (*state.given[: state.unit], order, *state.given[state.unit + 1 :])
        return tuple(own[k] for own, k in zip(slots, state.chosen, strict=True))

    def faults(self, state: State) -> tuple[tuple[str, ...], ...]:
        """Names of the faults of each order of a finished state; see `order_faults`."""
        return order_faults.faults(self.turns[state.position], self.joint(state))

    def order_values(self, state: State) -> np.ndarray:
        """(K,) best payoff after each candidate of the unit that is asked, by enumeration of the
        orders of the units after it. ValueError for more than MOST joint orders."""
        games.check_turn(self, state, 0)
        ends = [replace(state, chosen=(*state.chosen, *rest)) for rest in self._rests(state)]
        values = self._values(state, [self.joint(end) for end in ends])
        first = len(self.candidates[state.position][self._slot(state)])
        return values.reshape(first, -1).max(axis=1)

    def _rests(self, state: State) -> list[tuple[int, ...]]:
        """Indices of all candidates of the units that have no order yet."""
        slot, slots = self._slot(state), self.candidates[state.position]
        sizes = [len(own) for own in (slots[slot : slot + 1] if self.one_unit else slots[slot:])]
        if np.prod(sizes, dtype=np.float64) > MOST:
            raise ValueError(f"{sizes} candidates: more than {MOST} joint orders to enumerate")
        return list(np.ndindex(*sizes))

    def _values(self, state: State, joints: Sequence[Joint]) -> np.ndarray:
        """(N,) mean worth to the power of joint orders over the draws of the state."""
        turn, draws = self.turns[state.position], len(state.replies)
        rows = [{**dict(reply), turn.power: joint} for joint in joints for reply in state.replies]
        after, _ = rules.resolve(turn.boards, orders.expand(turn.boards, rows))
        names = [(state.position, m) for _ in joints for m in range(draws)]
        worth = self.ahead.values(after, names)[:, turn.power].astype(np.float64)
        return worth.reshape(-1, draws).mean(axis=1)

    def _replies(self, turn: Turn, rng: np.random.Generator) -> tuple:
        """M draws of the orders of all other powers, powers in order."""
        asked = [other for other in orders.turns(turn.boards) if other.power != turn.power]
        draws = []
        for _ in range(self.draws):
            joints = self.others.act(asked, [rng] * len(asked))
            pairs = zip(asked, joints, strict=True)
            draws.append(tuple((other.power, tuple(map(int, joint))) for other, joint in pairs))
        return tuple(draws)

    def _slot(self, state: State) -> int:
        return state.unit if self.one_unit else len(state.chosen)

    def _known(self, state: State) -> Joint:
        """Order ids that the prompt shows before the answer."""
        if self.one_unit:
            return (*state.given[: state.unit], *state.given[state.unit + 1 :])
        slots = self.candidates[state.position]
        return tuple(own[k] for own, k in zip(slots, state.chosen, strict=False))

    def _board(self, turn: Turn) -> str:
        state = states.to_state(turn.boards)
        return text.board_text(nearby(state, turn.power, self.near) if self.near else state)


def nearby(state: dict, power: int, steps: int) -> dict:
    """The saved state with only the units and centres within `steps` of a unit of the power."""
    own = [_province(unit) for unit in state["units"][atlas.POWERS[power]]]
    reached = atlas.DIST_ANY[own].min(axis=0) <= steps
    shown = {code for code, here in zip(atlas.CODES, reached, strict=False) if here}

    def keep(lists):
        return {name: [x for x in own if _code(x) in shown] for name, own in lists.items()}

    return state | {"units": keep(state["units"]), "centers": keep(state["centers"])}


def frequent_orders(
    turn: Turn, policy: Policy, rng: np.random.Generator, limit: int = LIMIT, draws: int = 64
) -> tuple[tuple[int, ...], ...]:
    """Per unit the orders that a policy gives most often in `draws` joint orders, at most `limit`;
    equally frequent ones by id. ValueError for a limit outside 1 … 6 or draws below 1."""
    order_faults.check(turn)
    if not 1 <= limit <= LIMIT or draws < 1:
        raise ValueError(f"limit {limit}, draws {draws}: need 1 to {LIMIT} and at least 1")
    table = np.array(policy.act([turn] * draws, [rng] * draws))
    found = []
    for column in table.T:
        ids, counts = np.unique(column, return_counts=True)
        best = np.argsort(-counts, kind="stable")[:limit]
        found.append(tuple(ids[best].tolist()))
    return tuple(found)


def _check_candidates(turn: Turn, slots: Sequence[Sequence[int]]) -> None:
    """ValueError unless every unit has 1 to 6 different legal orders."""
    order_faults.check(turn)
    where = f"{turn.name} {turn.phase}"
    if len(slots) != turn.slots:
        raise ValueError(f"{where}: candidates for {len(slots)} of {turn.slots} units")
    for unit, own, legal in zip(turn.units, slots, turn.lists, strict=True):
        if not 1 <= len(own) <= LIMIT or len(set(own)) != len(own):
            raise ValueError(f"{where}: {unit} needs 1 to {LIMIT} different candidates, not {own}")
        if not np.isin(own, legal).all():
            raise ValueError(f"{where}: a candidate of {unit} is not legal")


def _sentence(order: int) -> str:
    """ " A Ven Tri." """
    return f"{text.order_text(int(order))}."


def _code(unit_or_centre: str) -> str:
    """Province of "A PAR", "*A PAR", "F STP/SC" or "PAR"."""
    return unit_or_centre.split()[-1][:3]


def _province(unit: str) -> int:
    return atlas.INDEX[_code(unit)]
