"""When an agreement is broken, by which orders, and whether it could be broken at all.

Of one power i in one movement phase, partner j (specification 10.1; the rules are ours):

    hostile to j   a move, a support of a move or a convoy into a province that holds a unit of j
                   or is a centre that j owns
    peace          broken by an order hostile to j, unless j asked i for that very support
    alliance       as peace; or i had a legal order hostile to X and gave none (a duty)
    zone P         broken by a move or a convoy into P; a unit in P may stay or leave
    support        giver: none of its units gives the support; asker: the supported order was not
                   given (duties both)

So an agreement forbids orders, demands one, or both. A duty that no legal order can fulfil lapses.
An agreement is *exposed* where a legal order could break it; of a duty, where one could fulfil it.
Only exposed agreements count in promise keeping: else distant powers look honest.

Sets of orders are int arrays (N, L) of order ids, a set a row, padded with -1. Provinces stand for
their coasts: a support of Spain fits a move to either of its coasts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards, vocabulary
from dipllm_lib.dip.boards import Boards
from dipllm_lib.kto.press import STAYS, Agreement

PLACES = STAYS + 1  # provinces, and "stays"


class Deeds(NamedTuple):
    """What sets of orders do, int16 (N, L), -1 where an order does no such thing."""

    into: np.ndarray  # province of a move, of a supported move, of a convoy
    enters: np.ndarray  # province of a move or a convoy
    helps: np.ndarray  # of a support, `code` of what it supports
    does: np.ndarray  # of every order, `code` of what the unit itself does


class Bonds(NamedTuple):
    """What A agreements mean for N sets of orders of one power. bool: (N, A) and (A,)."""

    forbidden: np.ndarray  # the set has an order that the agreement forbids
    missed: np.ndarray  # the set lacks an order that is a duty and has not lapsed
    exposed: np.ndarray
    lapsed: np.ndarray  # it has a duty that no legal order fulfils

    @property
    def broken(self) -> np.ndarray:
        """(N, A): whether a set of orders breaks an agreement."""
        return self.forbidden | self.missed


def code(province: int, to: int) -> int:
    """One number for "the unit in a province goes to `to`", which is STAYS if it does not move."""
    return province * PLACES + to


def deeds(ids: np.ndarray) -> Deeds:
    """What sets of orders (N, L) do."""
    rows = vocabulary.VOCABULARY[ids].astype(np.int16)  # -1 finds WAIVE, the last row
    kind, own = rows[..., vocabulary.KIND], _province(rows[..., vocabulary.LOC])
    dest, other = _province(rows[..., vocabulary.DEST]), _province(rows[..., vocabulary.OTHER_LOC])
    moves, conveys = kind == boards.MOVE, kind == boards.CONVOY
    supports = (kind == boards.SUPPORT_MOVE) | (kind == boards.SUPPORT_HOLD)
    goal = np.where(dest >= 0, dest, STAYS)
    attack = moves | conveys | (kind == boards.SUPPORT_MOVE)
    return Deeds(
        np.where(attack, dest, -1),
        np.where(moves | conveys, dest, -1),
        np.where(supports, other * PLACES + goal, -1),
        np.where(own >= 0, own * PLACES + np.where(moves, dest, STAYS), -1),
    )


def _province(places: np.ndarray) -> np.ndarray:
    """Province of each location, -1 of -1; int16, since codes do not fit into int8."""
    return np.where(places >= 0, atlas.PROV_OF[places].astype(np.int16), np.int16(-1))


def hostile(done: Deeds, board: Boards, power: int) -> np.ndarray:
    """(N, L): which orders are hostile to a power on this position."""
    target = (board.power[0] == power) | (board.owner[0] == power)
    return target[done.into] & (done.into >= 0)


def asked(agreements: Sequence[Agreement], power: int, partner: int) -> tuple[int, ...]:
    """Codes of the supports that the partner asked this power for, and was promised."""
    return tuple(
        code(one.proposal.province, one.proposal.to)
        for one in agreements
        if one.proposal.kind == "support" and one.pair == (partner, power)
    )


class Bond(NamedTuple):
    """What one agreement means for N sets of orders of one power, see `Bonds`."""

    forbidden: np.ndarray  # bool (N,)
    missed: np.ndarray  # bool (N,)
    exposed: bool
    lapsed: bool


def bond(
    done: Deeds,
    legal: Deeds,
    board: Boards,
    power: int,
    one: Agreement,
    exempt: Sequence[int] = (),
) -> Bond:
    """What an agreement means for sets of orders `done` of a power; `legal`: what each of its legal
    orders does, (M, 1); exempt: codes of the supports that the partner asked for. ValueError if it
    does not bind the power.
    """
    partner = one.other(power)
    found, could = (_parts(d, board, power, partner, one, exempt) for d in (done, legal))
    count = len(done.into)
    open_duty = could[1] is not None and bool(could[1].any())
    forbidden = np.zeros(count, bool) if found[0] is None else found[0].any(axis=1)
    missed = ~found[1].any(axis=1) if open_duty else np.zeros(count, bool)
    exposed = open_duty or (could[0] is not None and bool(could[0].any()))
    return Bond(forbidden, missed, exposed, could[1] is not None and not open_duty)


def _parts(done: Deeds, board, power: int, partner: int, one: Agreement, exempt) -> tuple:
    """(orders that the agreement forbids (N, L) or None, orders that it demands or None)."""
    proposal = one.proposal
    if proposal.kind == "zone":
        return done.enters == proposal.province, None
    if proposal.kind == "support":
        wanted = code(proposal.province, proposal.to)
        return None, (done.helps if power == one.partner else done.does) == wanted
    forbidden = hostile(done, board, partner)
    if exempt:
        forbidden &= ~np.isin(done.helps, exempt)
    return forbidden, hostile(done, board, proposal.against) if proposal.against >= 0 else None


def join(bonds: Sequence[Bond], count: int) -> Bonds:
    """Several agreements as columns, for `count` sets of orders."""
    columns = np.zeros((2, count, len(bonds)), bool)
    for k, one in enumerate(bonds):
        columns[0, :, k], columns[1, :, k] = one.forbidden, one.missed
    flags = np.array([[one.exposed, one.lapsed] for one in bonds], bool).reshape(-1, 2)
    return Bonds(columns[0], columns[1], flags[:, 0], flags[:, 1])


def legal_deeds(lists: Sequence[np.ndarray]) -> Deeds:
    """What each legal order of a turn does, (M, 1); `lists`: the legal ids of each slot."""
    return deeds(np.concatenate(lists)[:, None])


def breaches(
    ids: np.ndarray,
    lists: Sequence[np.ndarray],
    board: Boards,
    power: int,
    agreements: Sequence[Agreement],
) -> np.ndarray:
    """(N, A): which of N sets of orders (N, L) of a power break which agreements.

    lists: legal ids of each of its units · board: the position, a batch of one · agreements: all
    that bind the power in this phase.
    """
    done, legal = deeds(np.asarray(ids)), legal_deeds(lists)
    parts = [
        bond(done, legal, board, power, one, asked(agreements, power, one.other(power)))
        for one in agreements
    ]
    return join(parts, len(done.into)).broken
