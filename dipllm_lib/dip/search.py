"""piKL-Hedge on one position: candidates, sampled values, policies and their record.

For every power i with something to decide the anchor tau_i proposes K candidate joint orders.
Then, T times (Jacob et al. 2022; the sampled form of Xu et al. 2025, Eq. 1):

    1. every power draws one candidate from its current policy;
    2. for every power and each of its candidates the phase is resolved against the others' drawn
       orders, and the power's value of the next position is its utility u_i(a, a_-i);
    3. every power adds the vector u_i(., a_-i) to its sums and recomputes its policy (`hedge`).

Step 2 is one batch of at most Σ K_i resolved phases; joint orders of all powers that were met
before are looked up. Played is the weighted average of the T policies; the joint target (2) is
softmax f with f = (Q + lam log tau) / (lam + kappa), the policy after iteration T. Powers without
a turn give no orders.

Shapes: P powers with a turn, K candidates (each power its own number), D slots of a joint order.
"""

from dataclasses import dataclass, field
from typing import Callable, Sequence

import numpy as np

from dipllm_lib.dip import atlas, hedge, orders, rules, states
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn

ValueFunction = Callable[[Boards], np.ndarray]


@dataclass
class PowerRecord:
    """What the search found for one power; arrays (K,) float64 in the order of `candidates`.

    log_tau: anchor over the candidates · q: mean utility of each · average: policy that is played
    · final: softmax f · f: exponents · kappa: temperature after the last iteration.
    """

    power: int
    candidates: list[Joint]
    log_tau: np.ndarray
    q: np.ndarray
    average: np.ndarray
    final: np.ndarray
    f: np.ndarray
    kappa: float

    def target(self, kind: str) -> np.ndarray:
        """(K,) joint target: `final` (2) or the `average` policy. ValueError for another kind."""
        if kind not in ("final", "average"):
            raise ValueError(f"unknown target.policy {kind!r}: use final or average")
        return self.final if kind == "final" else self.average

    def diagnostics(self) -> dict[str, float]:
        """entropy of the average and final policy over log K (0 if K = 1), kl to the anchor (nats),
        spread = largest minus smallest q, gain = expected q of the average over that of tau."""
        scale = np.log(len(self.candidates)) or 1.0
        tau = np.exp(self.log_tau)
        return {
            "candidates": float(len(self.candidates)),
            "entropy_average": hedge.entropy(self.average) / scale,
            "entropy_final": hedge.entropy(self.final) / scale,
            "kl_anchor": hedge.kl(self.average, tau),
            "spread": float(np.ptp(self.q)),
            "gain": float((self.average - tau) @ self.q),
        }


@dataclass
class Record:
    """One search: the position, a record per power with a turn, average regret per iteration.

    regret: (T, P) after 1..T iterations, columns in the order of `powers`. resolved: number of
    joint orders of all powers that were adjudicated and evaluated.
    """

    boards: Boards
    powers: list[PowerRecord]
    regret: np.ndarray
    resolved: int
    turns: list[Turn] = field(repr=False, default_factory=list)

    @property
    def phase(self) -> str:
        return orders.phase_name(self.boards, 0)

    def of(self, power: int) -> PowerRecord | None:
        """The record of a power, None if it had nothing to decide."""
        return next((record for record in self.powers if record.power == power), None)

    def to_json(self) -> dict:
        """JSON-able: state, phase, and per power the texts of its candidates and the arrays."""
        powers = {}
        for record in self.powers:
            texts = [[orders.to_text(order) for order in joint] for joint in record.candidates]
            powers[atlas.POWERS[record.power]] = {
                "candidates": texts,
                "log_tau": record.log_tau.tolist(),
                "q": record.q.tolist(),
                "average": record.average.tolist(),
                "f": record.f.tolist(),
                "kappa": record.kappa,
            }
        return {
            "phase": self.phase,
            "state": states.to_state(self.boards),
            "powers": powers,
            "regret": self.regret.tolist(),
            "resolved": self.resolved,
        }

    @staticmethod
    def from_json(data: dict) -> "Record":
        """The record of `to_json`. ValueError for an order that is not legal in its state."""
        boards = states.from_state(data["state"])
        turns, powers = orders.turns(boards, 0), []
        for name, entry in data["powers"].items():
            turn = next((t for t in turns if t.power == atlas.power(name)), None)
            if turn is None:
                raise ValueError(f"{name} has nothing to decide in {data['phase']}")
            joints = [orders.parse_joint(turn, texts) for texts in entry["candidates"]]
            arrays = {k: np.array(entry[k], dtype=np.float64) for k in ("log_tau", "q", "average")}
            f = np.array(entry["f"], dtype=np.float64)
            final = hedge.softmax(f)
            powers.append(
                PowerRecord(turn.power, joints, final=final, f=f, kappa=entry["kappa"], **arrays)
            )
        regret = np.array(data["regret"], dtype=np.float64).reshape(-1, len(powers))
        return Record(boards, powers, regret, data["resolved"], turns)


def rule_of(settings) -> hedge.Rule:
    """The update switches of a profile's settings."""
    return hedge.rule(
        settings.search_lam,
        settings.search_eta0,
        settings.search_rule,
        settings.search_kappa,
        settings.search_weighting,
        settings.search_q,
    )


def candidates(turn: Turn, anchor, settings, rng) -> tuple[list[Joint], np.ndarray]:
    """(joint orders, log_tau (K,) renormalised), most probable first.

    Among search_draws joint orders drawn from the anchor, the most probable distinct ones, at most
    max(1, min(search_candidates, ceil(search_ratio D))).
    """
    limit = min(settings.search_candidates, int(np.ceil(settings.search_ratio * turn.slots)))
    joints = sorted(set(anchor.sample(turn, settings.search_draws, rng)))
    log_prob = anchor.log_prob(turn, joints)
    best = np.argsort(-log_prob, kind="stable")[: max(limit, 1)]
    kept = log_prob[best]
    return [joints[k] for k in best], kept - hedge.log_sum_exp(kept)


class Payoffs:
    """Utilities of joint orders of all powers on one position, resolved and evaluated once each."""

    def __init__(self, turns: Sequence[Turn], boards: Boards, joints, value_fn: ValueFunction):
        self.boards, self.value_fn = boards, value_fn
        self.powers = np.array([turn.power for turn in turns])
        self.sizes = np.array([len(own) for own in joints])
        per_power: list[Sequence[Joint]] = [[] for _ in range(atlas.N_POWERS)]
        for power, own in zip(self.powers, joints):
            per_power[power] = own
        self.table = orders.joint_table(per_power)
        # one integer per joint order of all powers: mixed radix
        radix = [1]
        for size in self.sizes[:-1]:
            radix.append(radix[-1] * int(size))
        if radix[-1] * int(self.sizes[-1]) >= 2**63:
            raise ValueError(
                "too many joint orders of all powers for 64 bits: lower the candidates"
            )
        self.radix = np.array(radix, dtype=np.int64)
        self.known: dict[int, int] = {}
        self.values = np.empty((1024, atlas.N_POWERS), np.float32)

    def __call__(self, picks: np.ndarray) -> np.ndarray:
        """(N, 7) float32 values after the phase; picks (N, P) gives each power's candidate."""
        keys = (picks @ self.radix).tolist()
        new: dict[int, int] = {}
        for row, key in enumerate(keys):
            if key not in self.known and key not in new:
                new[key] = row
        if new:
            self._evaluate(picks[list(new.values())], list(new))
        return self.values[[self.known[key] for key in keys]]

    def _evaluate(self, picks: np.ndarray, keys: list[int]) -> None:
        rows = np.full((len(picks), atlas.N_POWERS), -1, np.int16)
        rows[:, self.powers] = picks
        after, _ = rules.resolve(self.boards, orders.expand_picks(self.table, rows))
        first, last = len(self.known), len(self.known) + len(keys)
        while last > len(self.values):
            self.values = np.concatenate([self.values, np.empty_like(self.values)])
        self.values[first:last] = self.value_fn(after)
        self.known.update(zip(keys, range(first, last)))


def draw(policy: np.ndarray, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(P,) one action per row of policy (P, K), padded; rng gives P uniform numbers."""
    cumulative = np.cumsum(policy, axis=1)
    picks = (cumulative <= rng.random(len(size))[:, None] * cumulative[:, -1:]).sum(axis=1)
    return np.minimum(picks, size - 1)


def variations(picks: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(Σ K_i, P): the drawn candidates, that of power i replaced by each of its own, i in turn."""
    rows = np.repeat(picks[None, :], int(sizes.sum()), axis=0)
    at = 0
    for i, size in enumerate(sizes):
        rows[at : at + size, i] = np.arange(size)
        at += size
    return rows


def search(
    turns: Sequence[Turn],
    boards: Boards,
    anchor,
    value_fn: ValueFunction,
    settings,
    rng: np.random.Generator,
) -> Record:
    """Sampled piKL-Hedge for all `turns` of one position. `settings`: the search_* fields.

    anchor: an explicit policy. value_fn: Boards -> (N, 7) expected SoS shares. ValueError without
    turns or for settings that are no search.
    """
    if not turns or boards.n != 1 or settings.search_iterations < 1:
        raise ValueError("a search needs one position, at least one turn and one iteration")
    proposed = [candidates(turn, anchor, settings, rng) for turn in turns]
    joints = [own for own, _ in proposed]
    payoffs = Payoffs(turns, boards, joints, value_fn)
    rule, state = rule_of(settings), hedge.learners([log_tau for _, log_tau in proposed])
    regret = np.empty((settings.search_iterations, len(turns)))
    owner = np.repeat(np.arange(len(turns)), state.size)
    column = np.concatenate([np.arange(size) for size in state.size])
    utility = np.zeros(state.policy.shape)
    for k in range(settings.search_iterations):
        picks = draw(state.policy, state.size, rng)
        values = payoffs(variations(picks, state.size))
        utility[owner, column] = values[np.arange(len(owner)), payoffs.powers[owner]]
        hedge.update(state, utility, k, rule)
        regret[k] = hedge.regret(state)
    powers = [
        _power_record(turn, own, state, i, settings.search_iterations, rule)
        for i, (turn, own) in enumerate(zip(turns, joints))
    ]
    return Record(boards, powers, regret, len(payoffs.known), list(turns))


def _power_record(turn, joints, state, i, iterations, rule) -> PowerRecord:
    f = hedge.exponents(state, i, iterations, rule)
    return PowerRecord(
        power=turn.power,
        candidates=joints,
        log_tau=state.log_tau[i, : state.size[i]].copy(),
        q=hedge.values(state, i),
        average=hedge.average(state, i),
        final=hedge.softmax(f),
        f=f,
        kappa=float(hedge.temperature(state.moments[i], iterations, rule)),
    )
