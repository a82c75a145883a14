"""What a search found, as objects and as JSON: one record per position, one part per power.

Shapes: T iterations, P powers with a turn, K candidates (each power its own number).
"""

from dataclasses import dataclass, field

import numpy as np

from dipllm_lib.dip import atlas, hedge, orders, states
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn


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

    def diagnostics(self) -> list[dict[str, float | str]]:
        """Per power what `PowerRecord.diagnostics` tells, and phase, power and four more numbers.

        regret: average external regret after the last iteration · effective: exp of the entropy of
        the average, the number of candidates that count · sd_q: standard deviation of q, every
        candidate with equal weight · resolved: joint orders of all powers.
        """
        rows = []
        for power, regret in zip(self.powers, self.regret[-1].tolist(), strict=True):
            rows.append({
                "phase": self.phase,
                "power": atlas.POWERS[power.power],
                **power.diagnostics(),
                "regret": regret,
                "effective": float(np.exp(hedge.entropy(power.average))),
                "sd_q": float(np.std(power.q)),
                "resolved": self.resolved,
            })
        return rows

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
