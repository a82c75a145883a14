"""What players do with one unit on one position: the openings before and after fine-tuning (Xu et
al. 2025, Fig. 7).

A source is an explicit policy (log_prob, sample) or the joint orders and probabilities of a search.

    marginal:     p(a^d)                 sum over joint orders; by draws for a policy, exact for a
        search
    conditional:  p(a^d | all other orders of the turn fixed), exact: joint probabilities,
        renormalised over the unit's orders
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import orders
from dipllm_lib.dip.policies import Explicit


class Target:
    """The joint orders of a search record with their probabilities, as an explicit policy.

    joints: K joint orders; probabilities (K,), sum 1
    """

    def __init__(
        self, joints: Sequence[orders.Joint], probabilities: np.ndarray, name: str = "target"
    ):
        self.name = name
        self.joints = [tuple(map(int, joint)) for joint in joints]
        self.probabilities = np.asarray(probabilities, np.float64)
        if len(self.joints) != len(self.probabilities) or abs(self.probabilities.sum() - 1) > 1e-6:
            raise ValueError(f"{name}: the probabilities are no distribution over its joint orders")

    def act(
        self, turns: Sequence[orders.Turn], rngs: Sequence[np.random.Generator]
    ) -> list[orders.Joint]:
        """A draw per turn; all turns must be the one whose search this was."""
        return [self.sample(turn, 1, rng)[0] for turn, rng in zip(turns, rngs, strict=True)]

    def log_prob(self, turn: orders.Turn, joints: Sequence[orders.Joint]) -> np.ndarray:
        """Log-probability (K,) of `joints`; -inf for one that is no candidate."""
        table = dict(zip(self.joints, self.probabilities, strict=True))
        found = np.array([table.get(tuple(map(int, joint)), 0.0) for joint in joints])
        return np.log(found, out=np.full(len(found), -np.inf), where=found > 0)

    def sample(self, turn: orders.Turn, n: int, rng: np.random.Generator) -> list[orders.Joint]:
        picks = rng.choice(len(self.joints), n, p=self.probabilities / self.probabilities.sum())
        return [self.joints[i] for i in picks]


def slot_of(turn: orders.Turn, unit: str) -> int:
    """Slot of `unit` ("A MUN") in `turn`. Raises ValueError if it has none."""
    if unit not in turn.units:
        raise ValueError(f"{unit} has no orders to get here, only {', '.join(turn.units)}")
    return turn.units.index(unit)


def marginal_table(
    turn: orders.Turn,
    unit: str,
    sources: Mapping[str, Explicit],
    draws: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Columns order and one per source: probability of each order of `unit` (shares of `draws`
    samples for a policy).

    Rows are the orders that any source gives, most probable of the last source first.
    """
    slot, columns = slot_of(turn, unit), {}
    for name, source in sources.items():
        if isinstance(source, Target):
            joints, weights = source.joints, source.probabilities
        else:
            joints, weights = source.sample(turn, draws, rng), np.full(draws, 1 / draws)
        shares: dict[str, float] = {}
        for joint, weight in zip(joints, weights, strict=True):
            text = orders.to_text(int(joint[slot]))
            shares[text] = shares.get(text, 0.0) + float(weight)
        columns[name] = shares
    return _ranked(columns)


def conditional_table(
    turn: orders.Turn, unit: str, fixed: Mapping[str, str], sources: Mapping[str, Explicit]
) -> pd.DataFrame:
    """Columns order and one per source: probability of each order of `unit` given the orders
    `fixed` of all other units.

    fixed: unit text -> order text ("A BER" -> "A BER - KIE"). A column is NaN where the source
        gives these no weight.
    """
    slot = slot_of(turn, unit)
    missing = [other for other in turn.units if other != unit and other not in fixed]
    if missing:
        raise ValueError(f"orders of {', '.join(missing)} are not fixed: give one for each")
    base = [orders.from_text(fixed[u], turn.boards) if u != unit else -1 for u in turn.units]
    options = turn.options(tuple(base[:slot])).tolist()
    joints = [(*base[:slot], option, *base[slot + 1 :]) for option in options]
    columns = {}
    for name, source in sources.items():
        weights = np.exp(source.log_prob(turn, joints))
        total = weights.sum()
        shares = weights / total if total > 0 else np.full(len(weights), np.nan)
        columns[name] = dict(zip(map(orders.to_text, options), shares.tolist(), strict=True))
    return _ranked(columns)


def _ranked(columns: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Table of the columns, missing entries 0, sorted by the last column and then by order text."""
    texts = sorted({text for shares in columns.values() for text in shares})
    table = pd.DataFrame({"order": texts})
    for name, shares in columns.items():
        table[name] = [shares.get(text, 0.0) for text in texts]
    last = table.columns[-1]
    return table.sort_values(last, ascending=False, kind="stable", ignore_index=True)
