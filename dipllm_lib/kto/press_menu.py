"""Which proposals one power can make to another on a position: at most 23.

    1   nothing                       1   peace
    5   alliances against a third power that has a unit or a centre
    8   zones: provinces without a unit that units of both can reach by a legal move, by name
    8   supports: what a unit of the sender may do under its policy and a unit of the recipient can
        support, most probable first, of equals by text

Shapes: `chance` (75, 76) of a power is the probability under its policy that the unit in a province
goes to a province, the last column that it does not move.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dipllm_lib.dip import atlas
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Turn
from dipllm_lib.kto.press import NOTHING, PEACE, STAYS, Proposal
from dipllm_lib.kto.press_breach import PLACES, Deeds, deeds, legal_deeds

MOST_ZONES, MOST_SUPPORTS = 8, 8
MOST = 2 + (atlas.N_POWERS - 2) + MOST_ZONES + MOST_SUPPORTS


def chances(joints: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """(75, 76) probability of what each unit itself does, from joint orders (K, L) padded with -1
    and their probabilities (K,)."""
    done = deeds(joints).does
    given = done >= 0
    weights = np.broadcast_to(probabilities[:, None], done.shape)[given]
    table = np.bincount(done[given], weights, minlength=STAYS * PLACES)
    return table.reshape(STAYS, PLACES)


def enumerate_proposals(
    board: Boards, turns: Mapping[int, Turn], sender: int, recipient: int, chance: np.ndarray
) -> tuple[Proposal, ...]:
    """All proposals of `sender` to `recipient`, nothing and peace first.

    board: a movement phase, a batch of one · turns: of both powers, by number · chance: of the
    sender. ValueError if the two are one power, or one of them has no turn.
    """
    if sender == recipient or not {sender, recipient} <= set(turns):
        raise ValueError(f"no press from power {sender} to {recipient}: need two with a turn each")
    done = {power: legal_deeds(turns[power].lists) for power in (sender, recipient)}
    return proposals(board, done[sender], done[recipient], (sender, recipient), chance)


def proposals(
    board: Boards, own: Deeds, theirs: Deeds, pair: tuple[int, int], chance: np.ndarray
) -> tuple[Proposal, ...]:
    """As `enumerate_proposals`, from what the legal orders of both do."""
    alive = [p for p in range(atlas.N_POWERS) if p not in pair and _alive(board, p)]
    alliances = [Proposal("alliance", against=power) for power in alive]
    shared = np.intersect1d(own.enters, theirs.enters)
    empty = [int(p) for p in shared if p >= 0 and not board.unit[0, p]]
    named = sorted(empty, key=lambda p: atlas.NAMES[p])[:MOST_ZONES]
    zones = [Proposal("zone", province=p) for p in named]
    return (NOTHING, PEACE, *alliances, *zones, *_supports(board, theirs, pair[0], chance))


def _alive(board: Boards, power: int) -> bool:
    return bool((board.power[0] == power).any() or (board.owner[0] == power).any())


def _supports(board: Boards, theirs: Deeds, sender: int, chance: np.ndarray) -> list[Proposal]:
    """The requests, those that the sender would not use left out."""
    found = []
    for number in np.unique(theirs.helps[theirs.helps >= 0]).tolist():
        province, to = divmod(number, PLACES)
        if board.power[0, province] == sender and chance[province, to] > 0:
            unit = int(board.unit[0, province])
            request = Proposal("support", province=province, unit=unit, to=to)
            found.append((-chance[province, to], request.text, request))
    return [request for _, _, request in sorted(found)[:MOST_SUPPORTS]]


def texts(menu: Sequence[Proposal]) -> tuple[str, ...]:
    """The proposals as texts, in their order: what a language model chooses from."""
    return tuple(one.text for one in menu)
