"""One movement phase as the powers see it: candidates, what others may do, and what it is worth.

Beliefs about a phase are S joint orders of all powers: every power draws a candidate from tau (the
anchor at temperature 1, as inside a search). A power that is bound by agreements redraws where its
draw breaks one, from tau over the candidates that keep them: its distribution is then exactly tau
restricted to them, and the S joint orders differ only where an agreement matters (common random
numbers).

    Q_i(c) = mean over the S joint orders of V_i after the phase, the order of i replaced by c
    worth of a proposal to i = mean V_i with both powers restricted - mean V_i unrestricted

V: `dip.value`, expected share of the sum of squares. Values of single rows do not depend on the
batch (`rowwise`), so orders with and without messages are equal to the last bit. `prospects` counts
what a position promises: own centres without a foreign unit, and others' centres under an own unit.

Shapes: S samples, N_i candidates of power i; picks (R, 7) are candidate numbers, -1 without a turn.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from dipllm_lib.dip import atlas, orders, rules
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Turn
from dipllm_lib.dip.payoffs import ValueFunction
from dipllm_lib.kto import press_breach, press_candidates, press_effect
from dipllm_lib.kto.press import Agreement, Proposal
from dipllm_lib.kto.press_breach import Bond, Bonds
from dipllm_lib.kto.press_settings import SceneSettings

POWERS = atlas.N_POWERS
Worths = dict[tuple[int, int, Proposal], tuple[float, float]]


def prospects(boards: Boards) -> np.ndarray:
    """(N, 7) int64 centres that each power will own if units stay where they are."""
    here = np.where(boards.power >= 0, boards.power, boards.owner)
    here = np.where(atlas.CENTRE, here, -1)
    return (here[:, :, None] == np.arange(POWERS)).sum(axis=1)


class Scene:
    """A movement phase. `board`: a batch of one; `turns`: of all powers there; `anchor`: explicit
    policy; `rng`: drawn from here only, so a scene is a function of its arguments.
    """

    def __init__(
        self,
        board: Boards,
        turns: Sequence[Turn],
        anchor,
        value_fn: ValueFunction,
        settings: SceneSettings,
        rng: np.random.Generator,
    ):
        self.board, self.value_fn, self.settings = board, value_fn, settings
        self.turns = {turn.power: turn for turn in turns}
        self.choices, self.menus = press_candidates.choose(board, turns, anchor, settings, rng)
        lists = [self.choices[p].joints if p in self.choices else [] for p in range(POWERS)]
        self.table = orders.joint_table(lists)
        # one integer per joint order of all powers: mixed radix over candidates, 0 without a turn
        sizes = [len(own) + 1 for own in lists]
        self.radix = np.cumprod([1, *sizes[:-1]]).astype(np.int64)
        self.known: dict[tuple, Bond] = {}
        self.apart: dict[tuple, tuple[np.ndarray, np.ndarray]] = {}
        self.uniform = rng.random((2, settings.samples, POWERS))
        self.base = np.full((settings.samples, POWERS), -1, np.int16)
        for power, own in self.choices.items():
            self.base[:, power] = press_effect.pick(np.exp(own.log_tau), self.uniform[0, :, power])

    @property
    def powers(self) -> tuple[int, ...]:
        """The powers that have a turn, in order."""
        return tuple(self.turns)

    def evaluate(self, picks: np.ndarray) -> np.ndarray:
        """(R, 7) float64 values after the phase; equal rows are played once."""
        _, first, back = np.unique(picks @ self.radix, return_index=True, return_inverse=True)
        return self.value_fn(self._after(picks[first])).astype(np.float64)[back]

    def _after(self, picks: np.ndarray) -> Boards:
        return rules.resolve(self.board, orders.expand_picks(self.table, picks))[0]

    @cached_property
    def unrestricted(self) -> np.ndarray:
        """(S, 7) values of the joint orders without agreements."""
        return self.evaluate(self.base)

    def bonds(self, power: int, agreements: Sequence[Agreement]) -> Bonds:
        """What agreements mean for the candidates of a power that they bind."""
        parts = [self._bond(power, one, agreements) for one in agreements]
        return press_breach.join(parts, len(self.choices[power].joints))

    def _bond(self, power: int, one: Agreement, agreements: Sequence[Agreement]) -> Bond:
        """One of them; the same question is answered once."""
        exempt = press_breach.asked(agreements, power, one.other(power))
        key = (power, *one.pair, one.proposal, exempt)
        if key not in self.known:
            own = self.choices[power]
            self.known[key] = press_breach.bond(own.done, own.legal, self.board, power, one, exempt)
        return self.known[key]

    def can_keep(self, power: int, agreements: Sequence[Agreement]) -> bool:
        """Whether one of its candidates keeps all of these agreements."""
        return bool((~self.bonds(power, agreements).broken.any(axis=1)).any())

    def restricted(self, power: int, agreements: Sequence[Agreement]) -> np.ndarray:
        """(S,) the draws of a power that keeps these agreements."""
        return self._redrawn(power, press_effect.admissible(self.bonds(power, agreements)))

    def _redrawn(self, power: int, allowed: np.ndarray) -> np.ndarray:
        """(S,) the draws of a power, those that are not allowed drawn again."""
        picks = self.base[:, power]
        if allowed[picks].all():
            return picks
        tau = np.exp(self.choices[power].log_tau)
        weights = np.where(allowed, np.maximum(tau, np.finfo(float).tiny), 0.0)
        again = press_effect.pick(weights, self.uniform[1, :, power])
        return np.where(allowed[picks], picks, again).astype(np.int16)

    def beliefs(self, power: int, agreements: Sequence[Agreement]) -> np.ndarray:
        """(S, 7) joint orders as this power expects them: each partner keeps what it promised it.
        Agreements among others are private, so they do not count.
        """
        picks = self.base.copy()
        for partner in sorted({one.other(power) for one in agreements}):
            own = [one for one in agreements if partner in one.pair]
            picks[:, partner] = self.restricted(partner, own)
        return picks

    def values(self, beliefs: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        """Per power the mean value (N_i,) of its candidates; `beliefs`: what it expects the others
        to do (S, 7). All are played in one batch.
        """
        parts = [self._variations(power, expected) for power, expected in beliefs.items()]
        value = self.evaluate(np.concatenate(parts)) if parts else np.empty((0, POWERS))
        found, first = {}, 0
        for power, part in zip(beliefs, parts, strict=True):
            own = value[first : first + len(part), power]
            found[power] = own.reshape(-1, self.settings.samples).mean(axis=1)
            first += len(part)
        return found

    @cached_property
    def silence(self) -> dict[int, np.ndarray]:
        """Per power the mean value (N_i,) of its candidates without agreements."""
        return self.values({power: self.base for power in self.powers})

    def prospect(self, power: int, expected: np.ndarray) -> np.ndarray:
        """(N_i,) mean of the centres that each candidate promises, see `prospects`."""
        found = prospects(self._after(self._variations(power, expected)))[:, power]
        return found.reshape(-1, self.settings.samples).mean(axis=1)

    def _variations(self, power: int, expected: np.ndarray) -> np.ndarray:
        """(N_i S, 7): every candidate of a power against every joint order of the others."""
        count = len(self.choices[power].joints)
        rows = np.tile(expected, (count, 1))
        rows[:, power] = np.repeat(np.arange(count, dtype=np.int16), len(expected))
        return rows

    def worths(self, asked: Sequence[tuple[int, int, Proposal]]) -> Worths:
        """What proposals (sender, recipient, proposal) are worth to both, in shares of SoS."""
        keys, parts, places = [], [], []
        for key in dict.fromkeys(asked):
            rows, changed = self._restrict(key)
            keys.append(key)
            parts.append(rows[changed])
            places.append(changed)
        if not keys:
            return {}
        value = self.evaluate(np.concatenate(parts)) if sum(map(len, parts)) else None
        found, first = {}, 0
        for key, part, changed in zip(keys, parts, places, strict=True):
            gain = np.zeros(2)
            if len(part):
                both = list(key[:2])
                after = value[first : first + len(part)][:, both]
                gain = (after - self.unrestricted[changed][:, both]).sum(axis=0)
            found[key] = tuple((gain / self.settings.samples).tolist())
            first += len(part)
        return found

    def _restrict(self, key: tuple[int, int, Proposal]) -> tuple[np.ndarray, np.ndarray]:
        """(S, 7) the joint orders with both powers restricted, and (S,) which of them differ."""
        sender, recipient, proposal = key
        pair = (sender, recipient)
        known = (*sorted(pair), proposal) if proposal.mutual else key
        if known not in self.apart:
            rows = self.base.copy()
            if proposal.kind != "nothing":
                one = Agreement(0, *pair, proposal)
                for power in pair:
                    bond = self._bond(power, one, (one,))
                    allowed = press_effect.keeping(~bond.forbidden, bond.missed)
                    rows[:, power] = self._redrawn(power, allowed)
            self.apart[known] = rows, (rows != self.base).any(axis=1)
        return self.apart[known]
