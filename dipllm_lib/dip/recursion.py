"""Movement in plain Python by recursion: the orders of one position, and the questions about them.

After chapter 5.E of the Diplomacy Adjudicator Test Cases (Kruijswijk): each order is resolved twice
by recursion, once as if everything still open went its way (optimistic) and once as if nothing did.
Where both agree the order is resolved. Where they differ, the question led back to itself: the
orders met on the way form a cycle, and the backup rule resolves it: a convoy whose own fate it
decides fails (Szykman), else the units move in a circle and all succeed.

Three questions are asked, each about the province a unit stands in: does its move succeed
(`moves`), is its support given (`gives`), do the fleets carry it (`carried`). One position at a
time; orders are legal (`legalise`). Module `plain` draws the conclusions.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas
from dipllm_lib.dip.boards import CONVOY, MOVE, SUPPORT_HOLD, SUPPORT_MOVE, Boards, Orders
from dipllm_lib.dip.rules import Choices

LAND, BY_CONVOY, EITHER = "land", "convoy", "either"  # EITHER: by convoy, by land if that fails
APART, PERHAPS, HEAD_ON = range(3)  # how two units that swap provinces meet


class Unit(NamedTuple):
    """A unit and its order; `to` is the destination province of a move, else -1."""

    army: bool
    power: int
    place: int
    kind: int
    a: int
    b: int
    via: bool
    to: int


def read(before: Boards, orders: Orders) -> dict[int, Unit]:
    """Units and their orders by province, in order of province."""
    units = {}
    for p in np.flatnonzero(before.unit[0]).tolist():
        kind, a, b, via = (int(field[0, p]) for field in orders)
        to = int(atlas.PROV_OF[a]) if kind == MOVE else -1
        army, power = before.unit[0, p] == atlas.ARMY_UNIT, int(before.power[0, p])
        units[p] = Unit(bool(army), power, int(before.loc[0, p]), kind, a, b, bool(via), to)
    return units


class Adjudicator:
    """One movement phase: who attacks whom and who supports whom, and the answers found so far."""

    def __init__(self, units: dict[int, Unit], choices: Choices, faults: frozenset[str]):
        self.units, self.choices, self.faults = units, choices, faults
        self.fleets = {p: self._carriers(p) for p, unit in units.items() if unit.kind == MOVE}
        self.route = {p: self._route(p) for p in self.fleets}
        self.attackers = {p: [] for p in range(atlas.N_PROVINCES)}
        for p, route in self.route.items():
            if route:
                self.attackers[units[p].to].append(p)
        self.supporters = {p: [s for s in units if self._supports(s, p)] for p in units}
        self.answers: dict[tuple[str, int], bool] = {}
        self.asked: list[tuple[str, int]] = []  # questions being answered, outermost first
        self.cycle: list[tuple[str, int]] = []  # questions found to depend on themselves
        self.unsure: dict[tuple[str, int], set] = {}  # open questions -> what is asked above them
        self.paradox: set[int] = set()  # moves that failed because their convoy decides itself

    # what the orders say

    def _carriers(self, u: int) -> list[int]:
        """Fleets at sea that are ordered to convoy exactly this move."""
        to, army = self.units[u].to, self.units[u].army
        return [
            f
            for f, fleet in self.units.items()
            if army
            and fleet.kind == CONVOY
            and (fleet.a, fleet.b) == (u, to)
            and not fleet.army
            and atlas.KIND[f] == atlas.SEA
        ]

    def _route(self, u: int) -> str:
        """How a unit means to move; "" if it has no way to its destination."""
        unit = self.units[u]
        if not unit.army:
            return LAND if atlas.FLEET[unit.place, unit.a] else ""
        convoy, touches = joined(u, unit.to, self.fleets[u]), atlas.ARMY[u, unit.to]
        if not touches:
            return BY_CONVOY if convoy else ""
        if unit.via:
            return BY_CONVOY if convoy else LAND if self._allows("via_without_chain") else ""
        own = any(self.units[f].power == unit.power for f in self.fleets[u])
        if not own or self.choices.convoy_intent == "via_only":
            return LAND  # a foreign fleet cannot kidnap an army
        if self._allows("disrupted_fallback"):
            return EITHER if convoy else LAND
        return BY_CONVOY if convoy else ""

    def _allows(self, choice: str) -> bool:
        return getattr(self.choices, choice) == "land"

    def _supports(self, s: int, p: int) -> bool:
        """Whether the order of s is a support for what the unit in p was ordered."""
        helper, unit = self.units[s], self.units[p]
        if helper.kind == SUPPORT_HOLD:
            return helper.a == p and unit.kind != MOVE
        if helper.kind != SUPPORT_MOVE or helper.a != p or unit.kind != MOVE or not self.route[p]:
            return False
        if int(atlas.PROV_OF[helper.b]) != unit.to:
            return False
        return self.choices.support_coast == "ignore" or helper.b in (unit.a, unit.to)

    # questions and answers

    def ask(self, question: str, p: int, optimistic: bool) -> bool:
        """The answer about the unit in p; while it is open, `optimistic`."""
        key = (question, p)
        if key in self.answers:
            return self.answers[key]
        if key in self.asked:
            self.cycle.append(key)
            return optimistic
        if key in self.unsure:
            self.cycle += [key, *self.unsure[key]]
            return optimistic
        return self._answer(key, optimistic)

    def _answer(self, key: tuple[str, int], optimistic: bool) -> bool:
        question, p = key
        before = len(self.cycle)
        self.asked.append(key)
        best, worst = getattr(self, question)(p, True), getattr(self, question)(p, False)
        self.asked.pop()
        self.unsure = {k: above for k, above in self.unsure.items() if key not in above}
        if best == worst:
            del self.cycle[before:]
            self.answers[key] = best
            return best
        above = set(self.cycle[before:]) & set(self.asked)
        if above:  # part of a cycle that began further out
            self.cycle.append(key)
            self.unsure[key] = above
            return optimistic
        members = {key, *self.cycle[before:]}
        del self.cycle[before:]
        self._backup(members)
        return self.ask(question, p, optimistic)

    def _backup(self, members: set[tuple[str, int]]) -> None:
        """Resolve a cycle: convoys on it fail, else its units move in a circle."""
        convoys = {p for question, p in members if question == "carried"}
        circle = {p for question, p in members if question == "moves"}
        self.unsure = {}
        for p in convoys:
            self.answers["carried", p] = self.answers["moves", p] = False
        self.paradox |= convoys
        if convoys:
            return
        if {self.units[p].to for p in circle} != circle or not circle:
            names = ", ".join(atlas.CODES[p] for p in sorted(circle))
            raise RuntimeError(f"no rule resolves the cycle of the orders of {names or 'no move'}")
        for p in circle:
            self.answers["moves", p] = True

    # the rules; `optimistic` is always meant for the unit, question or strength asked about

    def moves(self, u: int, optimistic: bool) -> bool:
        """A move succeeds if it beats what opposes it and every rival for the same province."""
        if not self.route[u]:
            return False
        attack = self.attack(u, optimistic)
        if not attack > self.opposition(u, not optimistic):
            return False
        rivals = [v for v in self.attackers[self.units[u].to] if v != u]
        return all(attack > self.prevent(v, not optimistic) for v in rivals)

    def gives(self, s: int, optimistic: bool) -> bool:
        """A support is cut if its unit is dislodged or attacked by another power, unless the attack
        comes from where the support acts.
        """
        helper = self.units[s]
        target = helper.a if helper.kind == SUPPORT_HOLD else self.units[helper.a].to
        for u in self.attackers[s]:
            cuts = self.units[u].power != helper.power and u != target
            if cuts and self.has_way(u, not optimistic):
                return False
        return self.stands(s, optimistic)

    def carried(self, u: int, optimistic: bool) -> bool:
        """A convoy passes if some chain of its fleets is not dislodged."""
        fleets = [f for f in self.fleets[u] if self.stands(f, optimistic)]
        return joined(u, self.units[u].to, fleets)

    def stands(self, p: int, optimistic: bool) -> bool:
        """A unit is not dislodged if it leaves or nobody moves in."""
        if not any(self.ask("moves", u, not optimistic) for u in self.attackers[p]):
            return True
        return self.units[p].kind == MOVE and self.ask("moves", p, optimistic)

    def has_way(self, u: int, optimistic: bool) -> bool:
        """Whether the attack of a moving unit arrives at all."""
        if self.route[u] == LAND:
            return True
        if self.route[u] == BY_CONVOY:
            return self.ask("carried", u, optimistic)
        if u in self.paradox:
            return False  # no way by land out of a paradox
        return True if self.final_route(u) != EITHER else optimistic

    def final_route(self, u: int) -> str:
        """The route of a move; EITHER while the fate of its convoy is open."""
        if self.route[u] != EITHER:
            return self.route[u]
        if u in self.paradox:
            return BY_CONVOY
        best, worst = self.ask("carried", u, True), self.ask("carried", u, False)
        return EITHER if best != worst else BY_CONVOY if best else LAND

    def meeting(self, u: int) -> int:
        """Whether u and the unit in its destination attack each other by land."""
        to = self.units[u].to
        if to not in self.units or self.units[to].to != u:
            return APART
        routes = {self.final_route(u), self.final_route(to)}
        if routes == {LAND}:
            return HEAD_ON
        return APART if BY_CONVOY in routes or "" in routes else PERHAPS

    def strength(self, p: int, optimistic: bool, without: int = -1) -> int:
        """1 and one for each given support, those by units of power `without` left out."""
        helpers = [s for s in self.supporters[p] if self.units[s].power != without]
        return 1 + sum(self.ask("gives", s, optimistic) for s in helpers)

    def attack(self, u: int, optimistic: bool) -> int:
        """Strength of a move: no power dislodges its own units or helps others to."""
        if not self.has_way(u, optimistic):
            return 0
        unit, to = self.units[u], self.units[u].to
        if to not in self.units:
            return self.strength(u, optimistic)
        meeting = self.meeting(u)
        apart = meeting != HEAD_ON if optimistic else meeting == APART
        if apart and self.units[to].kind == MOVE and self.ask("moves", to, optimistic):
            return self.strength(u, optimistic)
        occupant = self.units[to].power
        if occupant == unit.power:
            return 0
        fault = "B1" in self.faults and unit.via and self.route[u] == BY_CONVOY
        return self.strength(u, optimistic, -1 if fault else occupant)

    def opposition(self, u: int, optimistic: bool) -> int:
        """Strength that keeps u out of its destination: of the unit that comes against it, else of
        the unit that stays there.
        """
        to, meeting = self.units[u].to, self.meeting(u)
        if meeting == HEAD_ON:
            return self.strength(to, optimistic)
        if meeting == APART:
            return self.hold(to, optimistic)
        both = self.strength(to, optimistic), self.hold(to, optimistic)
        return max(both) if optimistic else min(both)

    def hold(self, p: int, optimistic: bool) -> int:
        """Strength of what stays in p: a unit that failed to leave has no support."""
        if p not in self.units:
            return 0
        if self.units[p].kind != MOVE:
            return self.strength(p, optimistic)
        return 0 if self.ask("moves", p, not optimistic) else 1

    def prevent(self, v: int, optimistic: bool) -> int:
        """Strength with which v keeps others out: none if it lost a head-to-head battle."""
        if not self.has_way(v, optimistic):
            return 0
        meeting = self.meeting(v)
        against = meeting == HEAD_ON if optimistic else meeting != APART
        if against and self.ask("moves", self.units[v].to, not optimistic):
            return 0
        return self.strength(v, optimistic)


def joined(start: int, end: int, fleets: list[int]) -> bool:
    """Whether fleets at sea form a chain from one coastal province to another."""
    reached, fringe = set(), [start]
    while fringe:
        here = fringe.pop()
        if here != start and atlas.TOUCH[here, end]:
            return True
        new = [f for f in fleets if f not in reached and atlas.TOUCH[here, f]]
        reached.update(new)
        fringe += new
    return False
