"""A game of Diplomacy with press: seven seats at a table, played by `dip.game` as any other game.

In every movement phase (specification 10.1):

    1  every power sends each other power one proposal or nothing, all at once
    2  every power answers what it received, yes or no; silence counts apart
    3  orders: agreements in force enter each power's own choice (`press_effect`), nobody else's

Each power sees its own letters and agreements alone. An agreement that a party breaks ends with the
phase; one that runs out is over, and can be proposed again. Retreats and adjustments are those of
the anchor at the temperature of play.

The table draws candidates and samples from generators of (seed, game, phase), and a seat its order
from that of the game's turn, so games with and without press share all random numbers as long as
they are on the same positions. Without negotiators the table is silent and computes nothing else.

A game with its log is one JSON value, see `press_log`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dipllm_lib.dip import atlas, boards, game, orders, policies
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.payoffs import ValueFunction
from dipllm_lib.kto import press_effect
from dipllm_lib.kto.negotiators import Letter, Negotiator, Reader, Silent, View, last_phase
from dipllm_lib.kto.press import NOTHING, Agreement, Proposal, movement_phase
from dipllm_lib.kto.press_effect import TRUSTED, Will
from dipllm_lib.kto.press_scene import POWERS, Scene
from dipllm_lib.kto.press_settings import SceneSettings
from dipllm_lib.run import seeding


@dataclass(frozen=True)
class Minds:
    """What all powers order with: the anchor at temperature 1, at the temperature of play, the
    value function, and the settings of a phase."""

    anchor: policies.Explicit
    player: policies.Policy
    value_fn: ValueFunction
    settings: SceneSettings


@dataclass(frozen=True)
class Term:
    """One agreement and one power that it bound in one phase. fell: a duty that none of the
    candidates that keep the rest could meet.
    """

    phase: int
    agreement: Agreement
    power: int
    exposed: bool
    lapsed: bool
    broken: bool
    fell: bool

    @property
    def chosen(self) -> bool:
        """Broken although it could have been kept."""
        return self.broken and not self.fell


class Table:
    """One game: who negotiates, what was said, what was kept.

    seats: a negotiator for each power; None: no press at all · effect: see `press_effect`. Under
    `text` negotiators that read (`negotiators.Reader`) give their own orders and the others are
    `priced`; ValueError if none reads.
    """

    def __init__(
        self,
        seats: Sequence[Negotiator] | None,
        minds: Minds,
        effect: str,
        last_year: int,
        seed: int,
        names: tuple,
    ):
        press_effect.check(effect)
        if seats is not None and len(seats) != POWERS:
            raise ValueError(f"{len(seats)} negotiators: a table has a seat for each of 7 powers")
        if effect == "text" and not any(isinstance(seat, Reader) for seat in seats or ()):
            raise ValueError("press.effect text needs a negotiator that reads, else use priced")
        self.seats, self.minds, self.effect = seats, minds, effect
        self.last, self.seed, self.names = last_phase(last_year), seed, names
        self.letters: list[Letter] = []
        self.terms: list[Term] = []
        self.agreements: list[Agreement] = []
        self.phase = -1
        self.scene: Scene | None = None
        self.choice: dict[int, np.ndarray] = {}
        self.ordered: dict[int, int] = {}

    def players(self) -> list["Seat"]:
        """The seven policies of the game."""
        return [Seat(self, power) for power in range(POWERS)]

    def open(self, board: Boards) -> None:
        """Negotiate on a position, once; afterwards `choice` holds everyone's probabilities."""
        phase = movement_phase(board)
        if phase == self.phase:
            return
        self._close()
        self.phase, names = phase, (*self.names, "phase", phase)
        rng = seeding.child(self.seed, "kto", "press", *names)
        minds = self.minds
        turns = orders.turns(board)
        self.scene = Scene(board, turns, minds.anchor, minds.value_fn, minds.settings, rng)
        here = set(self.scene.powers)
        self.agreements = [
            a for a in self.agreements if a.last >= phase and here.issuperset(a.pair)
        ]
        self.choice = self._policies(self._negotiate() if self.seats is not None else {})

    def order(self, turn: Turn, rng: np.random.Generator) -> Joint:
        """The joint order of a turn: drawn in movement phases, else the anchor's as a player."""
        if int(turn.boards.phase[0]) not in boards.MOVES:
            return self.minds.player.act([turn], [rng])[0]
        self.open(turn.boards)
        pick = int(press_effect.pick(self.choice[turn.power], rng.random()))
        self.ordered[turn.power] = pick
        return self.scene.choices[turn.power].joints[pick]

    # press

    def _negotiate(self) -> dict[int, View]:
        """Both rounds; returns the views with which orders are decided."""
        rngs = {
            p: seeding.child(self.seed, "kto", "press", *self.names, "voice", p, self.phase)
            for p in self.scene.powers
        }
        menus = {pair: self._open_menu(pair) for pair in self.scene.menus}
        worth = self.scene.worths([
            (*pair, one)
            for pair, menu in menus.items()
            if self.seats[pair[0]].needs_worth
            for one in menu
        ])
        views = {p: self._view(p, menus, worth, {}, rngs[p]) for p in self.scene.powers}
        sent: dict[tuple[int, int], Proposal] = {
            (sender, recipient): proposal
            for sender, view in views.items()
            for recipient, proposal in sorted(self.seats[sender].propose(view).items())
            if self._fits(menus, sender, recipient, proposal)
        }
        keys = [(*pair, one) for pair, one in sent.items()]
        worth |= self.scene.worths([key for key in keys if key not in worth])
        views = {p: self._view(p, menus, worth, sent, rngs[p]) for p in self.scene.powers}
        self._deliver(sent, worth, {p: self.seats[p].answer(v) for p, v in views.items()})
        return {p: self._view(p, menus, worth, sent, rngs[p]) for p in self.scene.powers}

    def _open_menu(self, pair: tuple[int, int]) -> tuple[Proposal, ...]:
        """The menu of a pair without what is in force."""
        menu = self.scene.menus[pair]
        known = [one for one in self.agreements if set(one.pair) == set(pair)]
        if not known:
            return menu
        new = [(one, one != NOTHING and Agreement(self.phase, *pair, one)) for one in menu]
        return tuple(one for one, made in new if not made or not any(made.same(a) for a in known))

    def _fits(self, menus, sender: int, recipient: int, proposal: Proposal) -> bool:
        """Whether something is sent. ValueError for what is not on the menu."""
        if proposal not in menus.get((sender, recipient), ()):
            names = [atlas.POWERS[p] for p in (sender, recipient)]
            raise ValueError(f"{names[0]} cannot propose {proposal.text!r} to {names[1]}")
        return proposal != NOTHING

    def _view(self, power: int, menus, worth, sent, rng) -> View:
        """What a power knows: nothing of letters, agreements and worths of two others."""
        return View(
            power=power,
            board=self.scene.board,
            phase=self.phase,
            last=self.last,
            menu={b: menu for (a, b), menu in menus.items() if a == power},
            worth={key: gains for key, gains in worth.items() if power in key[:2]},
            agreements=tuple(one for one in self.agreements if power in one.pair),
            letters=tuple(x for x in self.letters if power in (x.sender, x.recipient)),
            broken=tuple(
                (term.phase, term.power)
                for term in self.terms
                if term.broken and power == term.agreement.other(term.power)
            ),
            sent={b: one for (a, b), one in sent.items() if a == power},
            offers={a: one for (a, b), one in sent.items() if b == power},
            can_keep=partial(self.scene.can_keep, power),
            rng=rng,
        )

    def _deliver(self, sent, worth, answers: dict[int, dict[int, bool]]) -> None:
        """Keep the letters, and what was answered with yes as agreements, once each."""
        for (sender, recipient), proposal in sorted(sent.items()):
            said = answers[recipient].get(sender)
            gains = worth[sender, recipient, proposal]
            self.letters.append(Letter(self.phase, sender, recipient, proposal, said, gains))
            new = Agreement(self.phase, sender, recipient, proposal)
            if said and not any(new.same(one) for one in self.agreements):
                self.agreements.append(new)

    # orders

    def _effect(self, power: int) -> str:
        """The effect for one power: who cannot read has a price."""
        reads = self.seats is not None and isinstance(self.seats[power], Reader)
        return "priced" if self.effect == "text" and not reads else self.effect

    def _policies(self, views: dict[int, View]) -> dict[int, np.ndarray]:
        """Everyone's probabilities over its candidates."""
        scene, own = self.scene, {}
        for power in scene.powers:
            trusts = self._effect(power) in TRUSTED
            own[power] = [a for a in self.agreements if trusts and power in a.pair]
        beliefs = {p: scene.beliefs(p, own[p]) for p in scene.powers}
        moved = {p: b for p, b in beliefs.items() if (b != scene.base).any()}
        value = scene.silence | scene.values(moved)
        found = {}
        for power in scene.powers:
            if self._effect(power) == "text":
                choices = scene.choices[power]
                found[power] = self.seats[power].orders(views[power], choices, value[power])
            else:
                found[power] = self._policy(power, own[power], beliefs[power], value[power], views)
        return found

    def _policy(self, power: int, own, expected, value, views) -> np.ndarray:
        """The probabilities of one power that chooses by value."""
        scene, settings = self.scene, self.minds.settings
        bonds = scene.bonds(power, own)
        will = self.seats[power].will(views[power]) if own else Will()
        effect = self._effect(power)
        worth, allowed = scores_of(scene, power, value, expected, bonds, will, effect)
        log_tau = scene.choices[power].log_tau
        return press_effect.policy(worth, log_tau, allowed, settings.lam, settings.temperature)

    def _close(self) -> None:
        """Book what the orders of the last phase kept and broke; what is broken ends."""
        broken = []
        for one in self.agreements:
            for power in one.pair:
                if power in self.ordered:
                    term = self._term(one, power)
                    self.terms.append(term)
                    broken += [one] if term.broken else []
        self.agreements = [one for one in self.agreements if one not in broken]
        self.ordered = {}

    def _term(self, one: Agreement, power: int) -> Term:
        own = [a for a in self.agreements if power in a.pair]
        bonds, k = self.scene.bonds(power, own), own.index(one)
        pick = self.ordered[power]
        fell = bonds.broken[press_effect.admissible(bonds), k].all()
        flags = (bonds.exposed[k], bonds.lapsed[k], bonds.broken[pick, k], fell)
        return Term(self.phase, one, power, *map(bool, flags))


def scores_of(scene: Scene, power, value, expected, bonds, will: Will, effect: str) -> tuple:
    """(values less prices (N,), which may be chosen (N,)) of a power: by its effect and will, or of
    an attack if that promises enough, then what promises most.

    What a candidate gains by the next adjustment is estimated from one phase: centres promised less
    centres owned, twice that in spring, when another phase follows before centres are counted.
    """
    if effect == "priced" and will.attack:
        attack = press_effect.attackers(bonds)
        if attack.any():
            gained = scene.prospect(power, expected) - (scene.board.owner[0] == power).sum()
            gained *= 2 if scene.board.phase[0] == boards.SPRING_MOVES else 1
            if gained[attack].max() >= will.gain:
                return value, attack & (gained >= gained[attack].max())
    return press_effect.scores(value, bonds, effect, will, scene.settings.eta)


class Seat:
    """A power at a table, as a policy of `dip.game`."""

    def __init__(self, table: Table, power: int):
        self.table, self.power = table, power
        self.name = Silent.name if table.seats is None else table.seats[power].name

    def act(self, turns: Sequence[Turn], rngs: Sequence[np.random.Generator]) -> list[Joint]:
        return [self.table.order(turn, rng) for turn, rng in zip(turns, rngs, strict=True)]


def play(table: Table, end: game.EndRules) -> game.Game:
    """The game of a table, to its end; afterwards the table's log is complete."""
    played = game.play([table.players()], table.seed, [table.names], end)[0]
    table._close()
    return played
