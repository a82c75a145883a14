"""Is a search worth learning from? Variants of it on the same positions, and early alarms.

`compare` runs one search per position and variant (a lam, a learner, types, a limit …) with the
same random numbers, and returns the diagnostics of every power-turn. `signal` searches each
position twice, with the same candidates and other draws:

    headroom          max_a Q - E_tau Q: what there is to gain over the anchor
    signal_to_noise   sd of Q over the candidates / sd of Q between the two searches; wanted >= 2
    entropy           of the target over log K; wanted between 0.2 and 0.9

A teacher whose values are mostly noise is no better than its anchor, whatever is learned from it.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, candidates, hedge, orders, search
from dipllm_lib.dip.boards import Boards
from dipllm_lib.dip.orders import Joint, Turn
from dipllm_lib.dip.payoffs import ValueFunction
from dipllm_lib.dip.search_settings import SearchSettings
from dipllm_lib.run import seeding


def lam_variants(settings, lams: Sequence[float]) -> dict[str, SearchSettings]:
    """The settings with each lam, by its text."""
    found = SearchSettings.of(settings)
    return {f"{lam:g}": dataclasses.replace(found, lam=lam) for lam in lams}


def compare(
    positions: Sequence[Boards],
    anchor,
    value_fn: ValueFunction,
    variants: Mapping[str, SearchSettings],
    seed: int,
) -> pd.DataFrame:
    """One row per variant, position and power: variant, position (number), entropy_target (of the
    final policy over log K), and everything in `Record.diagnostics`.

    Every variant gets the same generators, hence the same draws from the anchor.
    """
    rows = []
    for name, settings in variants.items():
        rngs = [seeding.child(seed, "compare", k) for k in range(len(positions))]
        found = search.search_many(positions, anchor, value_fn, settings, rngs)
        for k, record in enumerate(found):
            rows += [{"variant": name, "position": k} | row for row in record.diagnostics()]
    return pd.DataFrame(rows).rename(columns={"entropy_final": "entropy_target"})


class _Given:
    """An anchor whose draws are fixed: the candidates of an earlier search."""

    def __init__(self, anchor, turns: Sequence[Turn], joints: Sequence[Sequence[Joint]]):
        self.anchor, self.joints = anchor, list(zip(turns, joints, strict=True))

    def sample(self, turn: Turn, n: int, rng: np.random.Generator) -> list[Joint]:
        return next(list(joints) for own, joints in self.joints if own is turn)

    def log_prob(self, turn: Turn, joints: Sequence[Joint]) -> np.ndarray:
        return candidates.log_probs(self.anchor, [turn], [joints])[0]


def signal(
    positions: Sequence[Boards], anchor, value_fn: ValueFunction, settings, seed: int
) -> pd.DataFrame:
    """One row per position and power with two candidates or more: position, phase, power,
    candidates, headroom, signal, noise, signal_to_noise (infinite without noise), entropy.
    """
    settings = SearchSettings.of(settings)
    rows = []
    for k, position in enumerate(positions):
        first, second = _twice(position, anchor, value_fn, settings, seed, k)
        for a, b in zip(first.powers, second.powers, strict=True):
            if len(a.candidates) > 1:
                rows.append({"position": k, "phase": first.phase} | _signal_row(a, b))
    return pd.DataFrame(rows)


def _twice(position, anchor, value_fn, settings, seed, k) -> list[search.Record]:
    """Two searches over one set of candidates; their draws differ."""
    turns = orders.turns(position, 0)
    rng = seeding.child(seed, "signal", k)
    chosen = candidates.choose(turns, anchor, settings, [rng] * len(turns))
    fixed = _Given(anchor, turns, [joints for joints, _ in chosen])
    kept = dataclasses.replace(settings, extend=0, limit="per_unit", ratio=1e9, candidates=10**6)
    return [
        search.search(turns, position, fixed, value_fn, kept, seeding.child(seed, "signal", k, n))
        for n in range(2)
    ]


def _signal_row(a: search.PowerRecord, b: search.PowerRecord) -> dict:
    mean = (a.q + b.q) / 2
    # the difference of two equal noises has twice the variance of one
    noise = float(np.sqrt(np.mean((a.q - b.q) ** 2) / 2))
    spread = float(np.std(mean))
    return {
        "power": atlas.POWERS[a.power],
        "candidates": len(a.candidates),
        "headroom": float(mean.max() - np.exp(a.log_tau) @ mean),
        "signal": spread,
        "noise": noise,
        "signal_to_noise": spread / noise if noise > 0 else np.inf,
        "entropy": hedge.entropy(a.final) / np.log(len(a.candidates)),
    }
