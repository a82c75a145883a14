"""From search records to targets: the tables of notebook 02 and the samples for fine-tuning.

The joint target pi* is softmax f over a power's candidates (Xu et al. 2025, Eq. 2); `decompose`
turns it into unit values and unit targets (Eq. 3, 4). A sample is one power-turn.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, decompose, hedge, orders, states
from dipllm_lib.dip.search import PowerRecord, Record
from dipllm_lib.run import stats

PHASES = {"M": "movement", "R": "retreats", "A": "adjustments"}


def candidate_table(record: PowerRecord, kind: str) -> pd.DataFrame:
    """The candidates of one power, most probable target first.

    Columns joint (text), anchor, value (share of SoS), target, unit values Q1 … QD (nats).

    kind: `final` or `average`, see `PowerRecord.target`.
    """
    target = record.target(kind)
    tree = decompose.PrefixTree(record.candidates, _log(target))
    table = pd.DataFrame({
        "joint": [joint_text(joint) for joint in record.candidates],
        "anchor": np.exp(record.log_tau),
        "value": record.q,
        "target": target,
    })
    for d, column in enumerate(tree.unit_values.T):
        table[f"Q{d + 1}"] = column
    return table.sort_values("target", ascending=False, kind="stable", ignore_index=True)


def joint_text(joint: orders.Joint) -> str:
    """All orders of a joint order in one line."""
    return ", ".join(orders.to_text(order) for order in joint)


def unit_table(record: PowerRecord, kind: str) -> pd.DataFrame:
    """The unit targets along the most probable joint order: unit, order, probability (Eq. 4)."""
    target = record.target(kind)
    tree = decompose.PrefixTree(record.candidates, _log(target))
    best = int(np.argmax(target))
    texts = [orders.to_text(order) for order in record.candidates[best]]
    rows = {"order": texts, "unit_target": tree.unit_targets[best]}
    table = pd.DataFrame(rows)
    table["product"] = table["unit_target"].cumprod()
    return table


def _log(policy: np.ndarray) -> np.ndarray:
    """log of a policy, -inf where it is 0."""
    return np.log(policy, out=np.full(len(policy), -np.inf), where=policy > 0)


def _each(records: Iterable[Record]) -> Iterable[tuple[str, PowerRecord]]:
    """(kind of phase, power record) of every power-turn."""
    for record in records:
        for power in record.powers:
            yield PHASES[record.phase[-1]], power


def theorem1_table(records: Sequence[Record]) -> pd.DataFrame:
    """Theorem 1 on every power-turn: phase, turns, units (most in a turn), max_error."""
    rows = [
        (phase, len(p.candidates[0]), decompose.theorem1_error(p.candidates, p.f))
        for phase, p in _each(records)
    ]
    table = pd.DataFrame(rows, columns=["phase", "units", "error"]).groupby("phase")
    columns = {
        "turns": table.size(),
        "units": table["units"].max(),
        "max_error": table["error"].max(),
    }
    return pd.DataFrame(columns).reset_index()


def bounds_table(
    records: Sequence[Record], rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """What each way to obtain unit targets loses: KL(pi* || product of its unit targets) in nats.

    One row per form: decomposition, kl (mean with interval over power-turns with two candidates or
    more), largest, turns.
    """
    forms = {
        "exact (Eq. 3)": lambda c, f: decompose.PrefixTree(c, f).joint(),
        "bound, best completion": decompose.bound_max,
        "bound, one weight per joint order": decompose.bound_sample,
        "independent units": decompose.independent,
    }
    # exponents more than 300 below the best have no mass; -inf would make a KL infinite for nothing
    powers = [p for _, p in _each(records) if len(p.candidates) > 1]
    parts = [(p.candidates, np.maximum(p.f, p.f.max() - 300)) for p in powers]
    rows = []
    for name, form in forms.items():
        losses = np.array([hedge.kl(hedge.softmax(f), form(c, f)) for c, f in parts])
        mean, low, high = stats.mean_interval(losses, rng, resamples)
        row = {"decomposition": name, "kl": mean, "kl_low": low, "kl_high": high}
        rows.append(row | {"largest": losses.max(), "turns": len(losses)})
    return pd.DataFrame(rows)


def sample_rows(rows: Iterable[dict], kind: str) -> Iterable[dict]:
    """Power-turns of saved search records as samples.

    Keys game, phase, power, state, joints (texts), target, log_tau and f (K,); target is softmax f
    (-1e30 stands for -inf). Power-turns with a single candidate teach nothing and are left out.
    """
    for row in rows:
        record = Record.from_json(row)
        for power in record.powers:
            if len(power.candidates) < 2:
                continue
            yield {
                "game": row["game"],
                "phase": record.phase,
                "power": atlas.POWERS[power.power],
                "state": states.to_state(record.boards),
                "joints": [[orders.to_text(o) for o in joint] for joint in power.candidates],
                "target": power.target(kind).tolist(),
                "f": (power.f if kind == "final" else _log(power.average)).clip(-1e30).tolist(),
                "log_tau": power.log_tau.tolist(),
            }
