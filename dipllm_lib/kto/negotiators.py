"""Who negotiates: what a power proposes, how it answers, and how it means to keep its word.

A negotiator is an object with `propose(view)`, `answer(view)` and `will(view)`; it has no memory of
its own, so one object can sit on many seats of many games. All it knows stands in the `View`: the
board, its own letters and agreements, and what proposals are worth to both sides.

    Silent           says nothing, answers nothing
    Random           a uniform proposal of the menu to each power, a uniform yes or no
    RuleNegotiator   to each power the proposal that is worth most to itself among those worth
                     more than 0 to both; yes if it is worth 0 or more to itself; promises only
                     what it can keep beside its other promises, and keeps its word
    Deviator         the same, but breaks where the gain exceeds the price eta
    Sanctioner       the same, but has nothing to do with who broke its word to it within three
                     years, and offers the others alliances against it
    PhasedNegotiator goodwill, punishment, avalanche (specification 10.5)

Worths are changes of the expected share of the sum of squares.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from dipllm_lib.dip import atlas, boards
from dipllm_lib.dip.boards import Boards
from dipllm_lib.kto.press import NOTHING, Agreement, Proposal
from dipllm_lib.kto.press_candidates import Choices
from dipllm_lib.kto.press_effect import Will

BALANCE = 0.01  # shares of SoS: two worths so close are balanced
GRUDGE = 6  # movement phases: three years
KEEP = Will(float("inf"))


class Letter(NamedTuple):
    """A proposal that was sent, and what came back: yes, no, or None for silence. Worths to the
    sender and to the recipient as they stood."""

    phase: int
    sender: int
    recipient: int
    proposal: Proposal
    answer: bool | None
    worth: tuple[float, float]

    @property
    def balanced(self) -> bool:
        """Whether it is symmetric (peace or zone) and worth nearly the same to both."""
        symmetric = self.proposal.kind in ("peace", "zone")
        return symmetric and abs(self.worth[0] - self.worth[1]) <= BALANCE


@dataclass(frozen=True)
class View:
    """What one power knows when it negotiates. Nothing in it concerns two other powers.

    phase: number of the movement phase; last: that of the last one of the game · menu: by partner
    what may be said, without what is in force · worth: (sender, recipient, proposal) -> worth to
    both, of own and received proposals · agreements: own ones in force · letters: own ones of
    earlier phases · broken: (phase, partner) of agreements that a partner broke · sent, offers:
    what it said and heard in this phase, by partner, empty when proposing · can_keep: whether one
    of its candidates keeps all of some agreements · rng: own generator.
    """

    power: int
    board: Boards
    phase: int
    last: int
    menu: Mapping[int, tuple[Proposal, ...]]
    worth: Mapping[tuple[int, int, Proposal], tuple[float, float]]
    agreements: tuple[Agreement, ...]
    letters: tuple[Letter, ...]
    broken: tuple[tuple[int, int], ...]
    sent: Mapping[int, Proposal]
    offers: Mapping[int, Proposal]
    can_keep: Callable[[Sequence[Agreement]], bool]
    rng: np.random.Generator

    def gain(self, partner: int, proposal: Proposal) -> tuple[float, float]:
        """Worth of an own proposal to (this power, the partner)."""
        return self.worth[self.power, partner, proposal]

    def own(self, partner: int, proposal: Proposal) -> Agreement:
        """The agreement that a yes to an own proposal makes."""
        return Agreement(self.phase, self.power, partner, proposal)

    @property
    def year(self) -> int:
        return int(self.board.year[0])


class Negotiator(Protocol):
    """name: in tables. needs_worth: whether it looks at the worths of its whole menu."""

    name: str
    needs_worth: bool

    def propose(self, view: View) -> dict[int, Proposal]:
        """What it sends, by recipient; a power left out gets nothing."""

    def answer(self, view: View) -> dict[int, bool]:
        """Its answers to `view.offers`, by sender; one left out is silence."""

    def will(self, view: View) -> Will:
        """How it means to treat its agreements in this phase."""


@runtime_checkable
class Reader(Protocol):
    """A negotiator that gives its own orders, as a language model with the agreements in its
    prompt (`press.sentence`): the effect `text`.
    """

    def orders(self, view: View, choices: Choices, value: np.ndarray) -> np.ndarray:
        """Probabilities (N,) over its candidates; value: their mean values without agreements."""


class Silent:
    """Says nothing and answers nothing."""

    name, needs_worth = "Silent", False

    def propose(self, view: View) -> dict[int, Proposal]:
        return {}

    def answer(self, view: View) -> dict[int, bool]:
        return {}

    def will(self, view: View) -> Will:
        return Will()


class Random:
    """Uniform over what can be said and over yes and no."""

    name, needs_worth = "Random", False

    def propose(self, view: View) -> dict[int, Proposal]:
        return {p: menu[view.rng.integers(len(menu))] for p, menu in sorted(view.menu.items())}

    def answer(self, view: View) -> dict[int, bool]:
        return {sender: bool(view.rng.random() < 0.5) for sender in sorted(view.offers)}

    def will(self, view: View) -> Will:
        return Will()


class RuleNegotiator:
    """Proposes what helps both, accepts what does not hurt, keeps its word."""

    name, needs_worth = "RuleNegotiator", True

    def propose(self, view: View) -> dict[int, Proposal]:
        found, promised = {}, list(view.agreements)
        for partner, menu in sorted(view.menu.items()):
            found[partner] = self.first(view, partner, self.wishes(view, partner, menu), promised)
        return found

    def wishes(self, view: View, partner: int, menu: tuple[Proposal, ...]) -> list[Proposal]:
        """What is worth more than 0 to both, best for this power first."""
        gains = {one: view.gain(partner, one) for one in menu}
        good = [one for one in menu if min(gains[one]) > 0]
        return sorted(good, key=lambda one: -gains[one][0])

    def first(self, view: View, partner: int, wishes, promised: list[Agreement]) -> Proposal:
        """The first wish that can be kept beside what is promised, which then grows; or nothing."""
        for one in wishes:
            new = view.own(partner, one)
            if view.can_keep([*promised, new]):
                promised.append(new)
                return one
        return NOTHING

    def answer(self, view: View) -> dict[int, bool]:
        found = {sender: False for sender in sorted(view.offers)}
        gains = {s: view.worth[s, view.power, one][1] for s, one in view.offers.items()}
        promised = [*view.agreements, *(view.own(p, one) for p, one in sorted(view.sent.items()))]
        for sender in sorted(found, key=lambda s: (-gains[s], s)):
            new = Agreement(view.phase, sender, view.power, view.offers[sender])
            if self.welcome(view, sender, gains[sender]) and view.can_keep([*promised, new]):
                found[sender] = True
                promised.append(new)
        return found

    def welcome(self, view: View, sender: int, gain: float) -> bool:
        """Whether an offer is worth a yes."""
        return gain >= 0

    def will(self, view: View) -> Will:
        return KEEP


class Deviator(RuleNegotiator):
    """Breaks where the gain exceeds the price of the game."""

    name = "Deviator"

    def will(self, view: View) -> Will:
        return Will()


class Sanctioner(RuleNegotiator):
    """Has nothing to do with a breaker, and looks for allies against it."""

    name = "Sanctioner"

    def breakers(self, view: View) -> tuple[int, ...]:
        """Partners that broke an agreement with this power within three years."""
        return tuple(sorted({p for phase, p in view.broken if view.phase - phase <= GRUDGE}))

    def wishes(self, view: View, partner: int, menu: tuple[Proposal, ...]) -> list[Proposal]:
        breakers = self.breakers(view)
        if partner in breakers:
            return []
        allies = [one for one in menu if one.against in breakers]
        return allies + super().wishes(view, partner, menu)

    def welcome(self, view: View, sender: int, gain: float) -> bool:
        breakers = self.breakers(view)
        return sender not in breakers and (gain >= 0 or view.offers[sender].against in breakers)


class PhasedNegotiator(RuleNegotiator):
    """The three phases as a script.

    goodwill: to `goodwill_year` it proposes a balanced peace or zone to every power that has one
    on the menu (four or more where there are). punishment: if X refused its last two reasonable
    proposals (peace or zone, worth 0 or more to X), it proposes an alliance against X to each
    neighbour of X. avalanche: with `big` centres, or in the last two years, it breaks two
    agreements or more where it expects to gain `gain` centres by that.
    """

    name = "PhasedNegotiator"

    def __init__(self, goodwill_year: int = 1902, big: int = 12, gain: float = 2.0):
        self.goodwill_year, self.big, self.gain = goodwill_year, big, gain

    def wishes(self, view: View, partner: int, menu: tuple[Proposal, ...]) -> list[Proposal]:
        targets = punished(view)
        allies = [
            one
            for one in menu
            if one.against in targets and neighbours(view.board, one.against, partner)
        ]
        good = self.balanced(view, partner, menu) if view.year <= self.goodwill_year else []
        return allies + good + super().wishes(view, partner, menu)

    def balanced(self, view: View, partner: int, menu: tuple[Proposal, ...]) -> list[Proposal]:
        """Peace and zones that are worth nearly the same to both, best for the poorer first."""
        gains = {one: view.gain(partner, one) for one in menu if one.kind in ("peace", "zone")}
        good = [one for one, (own, other) in gains.items() if abs(own - other) <= BALANCE]
        return sorted(good, key=lambda one: -min(gains[one]))

    def will(self, view: View) -> Will:
        own = int((view.board.owner[0] == view.power).sum())
        late = view.phase > view.last - 4
        return Will(KEEP.price, own >= self.big or late, self.gain)


def refusals(view: View, partner: int) -> int:
    """Reasonable proposals in a row that a partner refused, up to the last one."""
    count = 0
    for letter in reversed(view.letters):
        reasonable = letter.proposal.kind in ("peace", "zone") and letter.worth[1] >= 0
        if letter.sender != view.power or letter.recipient != partner or not reasonable:
            continue
        if letter.answer:
            break
        count += 1
    return count


def punished(view: View) -> tuple[int, ...]:
    """Powers that refused this power's last two reasonable proposals or more."""
    return tuple(p for p in range(atlas.N_POWERS) if p != view.power and refusals(view, p) >= 2)


def neighbours(board: Boards, power: int, other: int) -> bool:
    """Whether something of `other` (a unit or a centre) stands beside something of `power`."""
    held = [(board.power[0] == p) | (board.owner[0] == p) for p in (power, other)]
    return bool(atlas.ANY[np.ix_(held[0], held[1])].any())


def last_phase(last_year: int) -> int:
    """Number of the last movement phase of a game that ends after `last_year`."""
    return 2 * (last_year - boards.FIRST_YEAR) + 1
