"""Candidates of every power in a phase with press, wide enough that agreements can be kept.

The anchor's most probable joint orders seldom hold what others ask for. To them are added, built
from the most probable one,

    all hold      every unit holds: it breaks neither a peace nor a zone
    peace with j  every order hostile to j replaced by a hold, one for each other power
    attack on X   the most probable change of one unit's order into one hostile to X
    support       for every support that another power can ask for, the most probable change of one
                  unit's order into that support

as far as they are new. They are built with press and without, so both choose from the same. What is
added has a small tau, and matters where something was promised.

Shapes: P powers with a turn, N_i candidates of power i, L units.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards, candidates, hedge, vocabulary
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.kto.press import Proposal
from dipllm_lib.kto.press_breach import Deeds, code, deeds, hostile, legal_deeds
from dipllm_lib.kto.press_menu import chances, proposals


class Choices(NamedTuple):
    """The candidates of one power: joint orders, the same as ids (N, L), log tau (N,) normalised
    over them, what they do, and what each of its legal orders does (M, 1)."""

    joints: list[Joint]
    ids: np.ndarray
    log_tau: np.ndarray
    done: Deeds
    legal: Deeds


Menus = dict[tuple[int, int], tuple[Proposal, ...]]


def choose(
    board: Boards, turns: Sequence[Turn], anchor, settings, rng: np.random.Generator
) -> tuple[dict[int, Choices], Menus]:
    """The candidates of every power with a turn, by number, and the menu of every ordered pair.

    board: a movement phase, a batch of one · anchor: explicit policy · settings: `SceneSettings`.
    """
    rngs = [rng] * len(turns)
    kept = candidates.choose(turns, anchor, settings.search, rngs)
    legal = [legal_deeds(turn.lists) for turn in turns]
    shares = [chances(np.array(joints), np.exp(log_tau)) for joints, log_tau in kept]
    menus = {
        (a.power, b.power): proposals(board, legal[i], legal[j], (a.power, b.power), shares[i])
        for i, a in enumerate(turns)
        for j, b in enumerate(turns)
        if i != j
    }
    wider = _wider(board, turns, kept, menus, anchor)
    return {
        turn.power: _choices(joints, log_tau, own)
        for turn, (joints, log_tau), own in zip(turns, wider, legal, strict=True)
    }, menus


def _choices(joints: list[Joint], log_tau: np.ndarray, legal: Deeds) -> Choices:
    ids = np.array(joints, np.int32)
    return Choices(joints, ids, log_tau - hedge.log_sum_exp(log_tau), deeds(ids), legal)


def _wider(board, turns, kept, menus: Menus, anchor) -> list[candidates.Proposal]:
    """The candidates with what the module's docstring adds, the added ones by probability."""
    wanted = [_groups(board, turn, own[0][0], menus) for turn, own in zip(turns, kept)]
    flat = [list(dict.fromkeys(j for group in own for j in group)) for own in wanted]
    # the kept ones again: their log tau was normalised over them alone
    asked = [own[0] + more for own, more in zip(kept, flat, strict=True)]
    result = []
    scores = candidates.log_probs(anchor, turns, asked)
    for own, groups, joints, score in zip(kept, wanted, asked, scores, strict=True):
        number = {joint: float(s) for joint, s in zip(joints, score, strict=True)}
        best = {max(group, key=lambda j: (number[j], j)) for group in groups if group}
        added = sorted(best - set(own[0]), key=lambda j: (-number[j], j))
        every = own[0] + added
        result.append((every, np.array([number[joint] for joint in every])))
    return result


def _groups(board: Boards, turn: Turn, base: Joint, menus: Menus) -> list[list[Joint]]:
    """Variants of the most probable joint order; of each group one is kept."""
    holds = [_hold(ids) for ids in turn.lists]
    slots = [deeds(ids[:, None]) for ids in turn.lists]
    now = deeds(np.array([base]))
    groups = [[tuple(holds)]]
    for power in range(atlas.N_POWERS):
        if power != turn.power:
            bad = hostile(now, board, power)[0]
            groups.append([tuple(h if b else o for h, b, o in zip(holds, bad, base))])
            fits = [hostile(slot, board, power)[:, 0] for slot in slots]
            groups.append(_changes(turn, base, fits))
    for one in _requests(turn.power, menus):
        fits = [slot.helps[:, 0] == one for slot in slots]
        groups.append(_changes(turn, base, fits))
    return groups


def _changes(turn: Turn, base: Joint, fits: Sequence[np.ndarray]) -> list[Joint]:
    """`base` with one unit's order replaced by one that fits, all of them."""
    return [
        base[:slot] + (order,) + base[slot + 1 :]
        for slot, (ids, good) in enumerate(zip(turn.lists, fits, strict=True))
        for order in ids[good].tolist()
    ]


def _requests(power: int, menus: Menus) -> list[int]:
    """Codes of all supports that others can ask this power for, sorted."""
    found = {
        code(one.province, one.to)
        for (_, recipient), menu in menus.items()
        if recipient == power
        for one in menu
        if one.kind == "support"
    }
    return sorted(found)


def _hold(ids: np.ndarray) -> int:
    return int(ids[vocabulary.VOCABULARY[ids, vocabulary.KIND] == boards.HOLD][0])
