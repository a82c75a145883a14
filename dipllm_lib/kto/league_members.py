"""Members of the league: scripted players of three games, those held out, and the queue of learned.

    ultimatum    people (responder table), envious (Fehr-Schmidt, envy log-normal, the fit to
                 people), one type of it with a threshold of .3 (envy .75), takers of .2 and .4
    repeated     AllC, AllD, TFT, GTFT 1/3, WSLS, Grim, Extort-2, people (pooled human vector)
    bargaining   Rubinstein (keeps 1/(1 + delta), takes what waiting is worth), backward induction
                 on the grid, soft, fair, stubborn
    all          the base: uniform, pi_ref of the start

Responders that take everything are not scripted: training makes them, the share of what training
made is bounded, and regret, which nobody can lower who does not know whom he meets, would give
them most of the matches.

Held out, never met in training: envious responders with another law of envy; suspicious TFT and
firm but fair (Frean 1994); a bargainer between fair and stubborn. Learned members are snapshots, at
most the last 25, role-swapped snapshots, and exploiters; a full league drops the oldest of them,
never a scripted one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dipllm_lib.kto import (
    arena_bargaining,
    arena_repeated,
    arena_ultimatum,
    arenas,
    bargaining_exact,
    humans,
    pool,
    variants,
)
from dipllm_lib.kto.arena_bargaining import BargainingArena
from dipllm_lib.kto.arena_repeated import RepeatedArena
from dipllm_lib.kto.arena_ultimatum import UltimatumArena
from dipllm_lib.kto.arenas import Arena, Player
from dipllm_lib.kto.proposers import OFFERS

GAMES = ("ultimatum", "repeated", "bargaining")
KINDS = ("scripted", "base", "snapshot", "swapped", "exploiter", "held out")
LEARNED = ("snapshot", "swapped", "exploiter")
SNAPSHOTS = 25
TOUGH = (0.35, 1.0)  # median and log-sd of envy, as in the pools of 10c
TYPE_ENVY = 0.75  # its threshold is .3
THRESHOLDS = (0.2, 0.4)
UNSEEN = {  # memory-one vectors that are not in the pool; the coin is: it is the base
    "suspicious TFT": (0.0, 1.0, 0.0, 1.0, 0.0),
    "firm but fair": (1.0, 1.0, 0.0, 1.0, 2 / 3),
}
FIRM = (0.6, 0.5)  # keeps, takes at least


@dataclass(frozen=True, eq=False)
class Member:
    """name: unique in a league · kind: one of KINDS · player · round: in which it entered."""

    name: str
    kind: str
    player: Player
    round: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"member {self.name}: kind {self.kind!r} is none of {KINDS}")

    @property
    def learned(self) -> bool:
        """Whether it came out of training."""
        return self.kind in LEARNED


def arena(game: str, length: int, bargain: tuple[int, int], delta: float) -> Arena:
    """A game of the league. length: mean rounds of the repeated game · bargain: rounds and grid ·
    delta: of the bargaining. ValueError for an unknown game."""
    if game == "ultimatum":
        return UltimatumArena()
    if game == "repeated":
        return RepeatedArena(pool.chance(length))
    if game == "bargaining":
        return BargainingArena(*bargain, delta)
    raise ValueError(f"unknown game {game!r} of the league: use one of {', '.join(GAMES)}")


def scripted(arena: Arena) -> list[Member]:
    """The scripted members of a game, and the base last."""
    if isinstance(arena, UltimatumArena):
        found = _responders()
    elif isinstance(arena, RepeatedArena):
        found = {name: arena_repeated.member(np.array(v)) for name, v in pool.VECTORS.items()}
    else:
        found = _bargainers(arena)
    members = [Member(name, "scripted", player) for name, player in found.items()]
    return [*members, Member("base", "base", arenas.base(arena))]


def held_out(arena: Arena) -> list[Member]:
    """Players that no arm is trained with."""
    if isinstance(arena, UltimatumArena):
        found = {"envious, tougher": arena_ultimatum.responder(variants.envious(*TOUGH))}
    elif isinstance(arena, RepeatedArena):
        found = {name: arena_repeated.member(np.array(v)) for name, v in UNSEEN.items()}
    else:
        found = {"firm": arena_bargaining.bargainer(arena, *FIRM)}
    return [Member(name, "held out", player) for name, player in found.items()]


def _responders() -> dict[str, Player]:
    found = {
        "people": humans.ultimatum_responder(OFFERS),
        "envious": variants.envious(*pool.ENVY),
        f"envy {TYPE_ENVY:g}": humans.fehr_schmidt(OFFERS + 1e-9, TYPE_ENVY).astype(float),
    }
    found |= {f"takes {least:g}": (OFFERS >= least - 1e-9).astype(float) for least in THRESHOLDS}
    return {name: arena_ultimatum.responder(accept) for name, accept in found.items()}


def _bargainers(arena: BargainingArena) -> dict[str, Player]:
    share = bargaining_exact.rubinstein(arena.delta)
    plan = bargaining_exact.backward(arena.game)
    keeps = np.eye(arena.grid + 1)[plan.keep]
    least = arena.delta * share - 0.5 / arena.grid  # half a step, else it could refuse its own kind
    found = {
        "Rubinstein": arena_bargaining.bargainer(arena, share, least),
        "backward induction": (keeps, arenas.answers(plan.accepts)),
    }
    named = {"soft": "soft", "fair": "fair", "stubborn": "tough"}
    for name, own in named.items():
        found[name] = arena_bargaining.bargainer(arena, *pool.BARGAINERS[own])
    return found


def admit(members: Sequence[Member], new: Sequence[Member], most: int) -> list[Member]:
    """The members with the new ones, at most `most` and at most SNAPSHOTS snapshots.

    The oldest learned members go first. ValueError for a held-out or a known name, or where the
    members that never go are too many.
    """
    names = [m.name for m in (*members, *new)]
    if len(set(names)) != len(names):
        raise ValueError(f"a league cannot hold two members of one name: {sorted(names)}")
    outside = [m.name for m in new if m.kind == "held out"]
    if outside:
        raise ValueError(f"{outside[0]} is held out and never enters the league")
    kept = [*members, *new]
    fixed = sum(not m.learned for m in kept)
    if fixed >= most:
        raise ValueError(f"a league of {most} has no room beside {fixed} members that never go")
    while sum(m.kind == "snapshot" for m in kept) > SNAPSHOTS:
        kept.remove(next(m for m in kept if m.kind == "snapshot"))
    while len(kept) > most:
        kept.remove(next(m for m in kept if m.learned))
    return kept


def opening(arena: Arena, most: int) -> list[Member]:
    """Scripted members and the base for a league of `most`: where it is small the last scripted
    ones stay out, so that a third of the places, at least one, is left to learned members."""
    everyone = scripted(arena)
    room = max(2, most - max(1, most // 3))
    return everyone if len(everyone) <= room else [*everyone[: room - 1], everyone[-1]]
