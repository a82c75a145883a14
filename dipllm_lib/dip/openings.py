"""What players do in the opening: probabilities of each unit's orders (Xu et al. 2025, Fig. 7).

A joint policy on one turn is a mapping from joint orders to probabilities. That of a search is
exact, that of a player is the shares in a number of draws. The marginal of a unit sums over the
orders of the others.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import orders
from dipllm_lib.dip.policies import Explicit
from dipllm_lib.dip.samples import row_joints, row_turn

Policy = dict[orders.Joint, float]
OPENING = "S1901M"


def mixture(rows: Sequence[dict], power: str) -> tuple[orders.Turn, Policy]:
    """(turn, mean of the targets) of `power` in spring 1901 over all samples in `rows`.

    rows: of 02_samples.jsonl. Raises ValueError if none is of that turn.
    """
    opening = [row for row in rows if row["phase"] == OPENING and row["power"] == power]
    if not opening:
        raise ValueError(f"no sample of {power} in {OPENING}: search more games in notebook 01")
    policy: Policy = {}
    for row in opening:
        for joint, probability in zip(row_joints(row), row["target"], strict=True):
            policy[joint] = policy.get(joint, 0.0) + probability / len(opening)
    return row_turn(opening[0]), policy


def sampled(player: Explicit, turn: orders.Turn, draws: int, rng: np.random.Generator) -> Policy:
    """Shares of the joint orders in `draws` independent draws of a player."""
    policy: Policy = {}
    for joint in player.sample(turn, draws, rng):
        policy[tuple(joint)] = policy.get(tuple(joint), 0.0) + 1 / draws
    return policy


def marginals(turn: orders.Turn, policies: Mapping[str, Policy]) -> pd.DataFrame:
    """Columns unit, order and one per policy: probability of each order of each unit.

    Rows are the orders that any policy gives, per unit the most probable of the last policy first.
    """
    parts = []
    for slot, unit in enumerate(turn.units):
        columns = {}
        for name, policy in policies.items():
            shares: dict[str, float] = {}
            for joint, probability in policy.items():
                text = orders.to_text(joint[slot])
                shares[text] = shares.get(text, 0.0) + probability
            columns[name] = shares
        texts = sorted({text for shares in columns.values() for text in shares})
        part = pd.DataFrame({"unit": unit, "order": texts})
        for name, shares in columns.items():
            part[name] = [shares.get(text, 0.0) for text in texts]
        parts.append(part.sort_values([name, "order"], ascending=[False, True]))
    return pd.concat(parts, ignore_index=True)


def distances(table: pd.DataFrame, target: str = "target") -> dict[str, float]:
    """Total variation of each policy of `marginals` to that in column `target`, mean over units."""
    names = [name for name in table.columns if name not in ("unit", "order", target)]
    gaps = table[names].sub(table[target], axis=0).abs()
    return (gaps.groupby(table["unit"]).sum() / 2).mean().to_dict()


def moved(
    table: pd.DataFrame, draws: int, rng: np.random.Generator, resamples: int
) -> tuple[float, float, float]:
    """By how much the distance to the target fell from `before` to `after`: (value, low, high).

    table: of `marginals` with the columns before, after, target. The interval resamples the `draws`
    from which the shares of each unit come.
    """
    fell = np.zeros(resamples)
    units = table.groupby("unit", sort=False)
    for _, part in units:
        for name, sign in (("before", 1), ("after", -1)):
            shares = part[name].to_numpy() / part[name].sum()
            again = rng.multinomial(draws, shares, size=resamples) / draws
            distance = np.abs(again - part["target"].to_numpy()).sum(axis=1) / 2
            fell += sign * distance / units.ngroups
    found = distances(table)
    low, high = np.quantile(fell, [0.025, 0.975])
    return found["before"] - found["after"], float(low), float(high)
