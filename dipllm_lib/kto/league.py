"""The league: rounds of match-making, collection, labels, optimisation and snapshots, on tables.

    round k:  regrets x_i of pi_k against the members  ->  weights (module `league_weights`)
              matches drawn by weight, decisions collected, labelled, optimised by PT-KTO;
              every update has fresh decisions and takes the policy of now as pi_ref;
              the first pi_ref of a round has a share of uniform play, else an action that died
              against the members of yesterday stays dead against those of today
              snapshot of pi_(k+1), the same with swapped roles, and every second round an
              exploiter: from the round's first pi_ref, trained against the new snapshot alone

Arms: the pool with the three forms of weights; self-play only, where the partner is the policy of
now and learns with it; no play, labels of the heuristic selector alone. The tabular league has no
separate modeller or coordinator: labels need no forecast, and all members are known exactly.

Randomness is named by seed, game, arm and round, so a league that goes on from a saved state is the
one that never stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dipllm_lib.kto import arenas, league_members, league_weights
from dipllm_lib.kto.arenas import Arena, Player
from dipllm_lib.kto.league_members import Member
from dipllm_lib.kto.tabular import Learner, Objective
from dipllm_lib.run import seeding

ARMS = {  # arm -> form of the weights, None without a pool
    "pool": "squared",
    "pool, x(1 - x)": "even",
    "pool, uniform": "uniform",
    "self-play": None,
    "no play": None,
}
EVERY = 2  # rounds between exploiters


@dataclass(frozen=True)
class Sizes:
    """members: most of a league · updates: of the tables per round · decisions: drawn per table and
    update · self_most: largest share of learned members · mix: share of uniform play in the first
    pi_ref of a round · objective: of the updates."""

    members: int = 25
    updates: int = 10
    decisions: int = 1000
    self_most: float = league_weights.SELF_MOST
    mix: float = 0.1
    objective: Objective = Objective()

    def __post_init__(self) -> None:
        if not 0 <= self.mix < 1:
            raise ValueError(f"share {self.mix} of uniform play: need 0 <= mix < 1")
        if min(self.members, self.updates) < 1 or self.decisions < 0:
            raise ValueError(
                f"{self}: need members and updates of at least 1, decisions of 0 or more"
            )


@dataclass
class League:
    """One league. logits: of the learner's tables · members: of the pool · round: rounds done.

    ValueError for an unknown arm.
    """

    arena: Arena
    arm: str
    seed: int
    sizes: Sizes = field(default_factory=Sizes)
    logits: Sequence[np.ndarray] = ()
    members: list[Member] = field(default_factory=list)
    round: int = 0

    def __post_init__(self) -> None:
        if self.arm not in ARMS:
            raise ValueError(
                f"unknown arm {self.arm!r} of the league: use one of {', '.join(ARMS)}"
            )
        if not self.logits:
            self.logits = tuple(np.zeros(shape) for shape in self.arena.shapes)
        if not self.members and ARMS[self.arm]:
            self.members = league_members.opening(self.arena, self.sizes.members)

    @property
    def player(self) -> Player:
        """The policy of now."""
        return _player([Learner(table) for table in self.logits])

    def regrets(self) -> np.ndarray:
        """(n,) normalised regrets of the policy of now against the members, gaps to the exact best
        reply."""
        own, players = self.player, [m.player for m in self.members]
        values = np.array([self.arena.payoffs(own, p).mean() for p in players])
        best = np.array([self.arena.best(p).mean() for p in players])
        return league_weights.normalised(values, best, self.arena.scale)

    def weights(self) -> np.ndarray:
        """(n,) probabilities of meeting the members in the next round."""
        learned = [m.learned for m in self.members]
        form = ARMS[self.arm]
        return league_weights.pfsp_weights(self.regrets(), learned, form, self.sizes.self_most)

    def play_round(self) -> dict[str, float]:
        """One round; returns member -> weight, empty without a pool."""
        rng = seeding.child(self.seed, "kto", "league", self.arena.name, self.arm, self.round)
        learners = self._learners(self.logits)
        weights = self.weights() if ARMS[self.arm] else np.zeros(0)
        shares = _drawn(weights, self.sizes.decisions, rng)
        met = [m.player for m, share in zip(self.members, shares, strict=True) if share > 0]
        for _ in range(self.sizes.updates):
            if self.arm == "no play":
                data = self.arena.blind(_player(learners))
            else:
                own = _player(learners)
                partners = met if len(weights) else [own]
                part = shares[shares > 0] if len(weights) else np.ones(1)
                data = self.arena.data(own, partners, part, self.sizes.decisions, rng)
            self._optimise(learners, data)
        names = [m.name for m in self.members]
        start, self.logits = self.logits, tuple(learner.logits for learner in learners)
        self.round += 1
        if ARMS[self.arm]:
            self._admit(start)
        return dict(zip(names, weights.tolist(), strict=True))

    def exploiter(self, target: Player, start: Sequence[np.ndarray]) -> Player:
        """A player trained against `target` alone, from the logits `start`, for one round."""
        rng = seeding.child(self.seed, "kto", "exploiter", self.arena.name, self.arm, self.round)
        learners = self._learners(start)
        for _ in range(self.sizes.updates):
            own, every = _player(learners), np.ones(1)
            data = self.arena.data(own, [target], every, self.sizes.decisions, rng)
            self._optimise(learners, data)
        return _player(learners)

    def _learners(self, logits: Sequence[np.ndarray]) -> list[Learner]:
        """Tables that start a round from these logits, softened by `mix`."""
        tables, mix = [Learner(table).probs for table in logits], self.sizes.mix
        return [Learner(np.log((1 - mix) * t + mix / t.shape[1])) for t in tables]

    def _optimise(self, learners: Sequence[Learner], data: Sequence) -> None:
        objective = self.sizes.objective
        # blind labels are of equally frequent rows in every table
        widths = (
            [len(table) for table in self.logits] if self.arm == "no play" else self.arena.widths
        )
        if self.arm == "no play":
            objective = replace(objective, name="kto")
        for learner, own, width in zip(learners, data, widths, strict=True):
            learner.optimise(own, replace(objective, rate=objective.rate * width))

    def _admit(self, start: Sequence[np.ndarray]) -> None:
        """The new members of a round; start: logits of its first pi_ref."""
        own, number = self.player, self.round
        new = [Member(f"snapshot {number}", "snapshot", own, number)]
        new += [Member(f"swapped {number}", "swapped", self.arena.swapped(own), number)]
        if number % EVERY == 0:
            found = self.exploiter(own, start)
            new.append(Member(f"exploiter {number}", "exploiter", found, number))
        self.members = league_members.admit(self.members, new, self.sizes.members)

    def state(self) -> dict:
        """All that the next rounds depend on, as JSON can hold it."""
        members = [
            {"name": m.name, "kind": m.kind, "round": m.round, "player": _lists(m.player)}
            for m in self.members
        ]
        return {"round": self.round, "logits": _lists(self.logits), "members": members}


def resumed(arena: Arena, arm: str, seed: int, sizes: Sizes, state: Mapping) -> League:
    """The league of a saved state; with the same arguments it goes on as if it had not stopped."""
    members = [
        Member(m["name"], m["kind"], arenas.check(arena, m["player"]), m["round"])
        for m in state["members"]
    ]
    logits = tuple(np.array(table, dtype=np.float64) for table in state["logits"])
    return League(arena, arm, seed, sizes, logits, members, state["round"])


def _player(learners: Sequence[Learner]) -> Player:
    return tuple(learner.probs for learner in learners)


def _lists(tables: Sequence[np.ndarray]) -> list:
    return [table.tolist() for table in tables]


def _drawn(weights: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """(n,) shares of `count` matches drawn by weight; the weights themselves for 0."""
    if not len(weights) or not count:
        return weights
    return rng.multinomial(count, weights / weights.sum()) / count
