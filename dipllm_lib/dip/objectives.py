"""What a training pulls the model toward: four objectives as weights on candidate joint orders.

All minimise L = - sum over the kept candidates k of w_k log p(text_k) of each power-turn, and
differ in w alone. With f the exponents of the joint target, pi* = softmax f (Xu et al. 2025,
Eq. 2), and tau the anchor:

    exact_kl   w = pi*                  Eq. 5: KL(pi* || p) up to a constant
    paper_eq6  w = data x exp f         Eq. 6, one weight for all units of a joint order (App. C)
    bc_sample  w = share among draws    unit weight on samples of tau or pi*
    bc_argmax  w = 1 at the largest pi*

`eq6_data` is what Eq. 6 takes its expectation over: every candidate once (`uniform`), pi* or tau;
the expectation is summed, not drawn. With `uniform` and weights normalised in each state
(`per_state`) Eq. 6 is exact_kl; with pi* it aims at the square of pi*, normalised. `raw` weights
keep exp f as it is, so states of large value count more; one factor for the whole training set
brings the mean weight of a power-turn to 1, which AdamW does not see and float32 needs.

The loss keeps the K' candidates with the largest w (bc_sample: K' draws). Weights of a power-turn
sum to 1 except with `raw`. Arrays over candidates have shape (K,).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dipllm_lib.dip.finetune_settings import FinetuneSettings
from dipllm_lib.dip.hedge import log_sum_exp, softmax
from dipllm_lib.dip.samples import Sample, largest, log_of


def log_weights(sample: Sample, settings: FinetuneSettings) -> np.ndarray:
    """log w (K,) of all candidates, -inf for none; in expectation for bc_sample.

    ValueError if the sample lacks log_tau or f and the objective needs it.
    """
    log_target = log_of(sample.target)
    if settings.objective == "paper_eq6":
        f = _needed(sample, "f") if settings.eq6_weights == "raw" else log_target
        data = {"uniform": np.zeros(len(f)), "pi_star": log_target}
        return f + (_log_tau(sample) if settings.eq6_data == "tau" else data[settings.eq6_data])
    if settings.objective == "bc_sample" and settings.bc_source == "tau":
        return _log_tau(sample)
    if settings.objective == "bc_argmax":
        best = np.arange(len(log_target)) == np.argmax(log_target)
        return np.where(best, 0.0, -np.inf)
    return log_target


def _needed(sample: Sample, name: str) -> np.ndarray:
    found = getattr(sample, name)
    if found is None:
        raise ValueError(
            f"{sample.game} {sample.phase} {sample.power}: the sample has no {name!r}, which this"
            " objective weighs with: write it into the rows of 02_samples.jsonl"
        )
    return found


def _log_tau(sample: Sample) -> np.ndarray:
    """log of the anchor, normalised over the candidates."""
    log_tau = _needed(sample, "log_tau")
    return log_tau - log_sum_exp(log_tau)


def aim(sample: Sample, settings: FinetuneSettings) -> np.ndarray:
    """(K,) the distribution over all candidates at which the objective has its minimum."""
    return softmax(log_weights(sample, settings))


def log_factor(samples: Sequence[Sample], settings: FinetuneSettings) -> float:
    """log of the mean weight of a power-turn under `raw`, by which all weights are divided; else 0.

    ValueError as in `log_weights`.
    """
    found = [log_weights(sample, settings) for sample in samples]
    if not _raw(settings):
        return 0.0
    sums = [log_sum_exp(own[largest(own, settings.joint_orders)]) for own in found]
    return log_sum_exp(np.array(sums)) - float(np.log(len(sums)))


def _raw(settings: FinetuneSettings) -> bool:
    return settings.objective == "paper_eq6" and settings.eq6_weights == "raw"


def weigh(
    samples: Sequence[Sample],
    settings: FinetuneSettings,
    rng: np.random.Generator | None = None,
    factor: float = 0.0,
) -> list[Sample]:
    """The samples with `kept` and `weights` of the objective. rng: for the draws of bc_sample, no
    other objective reads it; factor: of `log_factor`.
    """
    return [_weighed(sample, settings, rng, factor) for sample in samples]


def _weighed(sample: Sample, settings: FinetuneSettings, rng, factor: float) -> Sample:
    logs = log_weights(sample, settings)
    if settings.objective == "bc_sample":
        drawn = rng.choice(len(logs), settings.joint_orders, p=softmax(logs))
        kept, counts = np.unique(drawn, return_counts=True)
        weights = counts / settings.joint_orders
    else:
        kept = largest(logs, settings.joint_orders)
        weights = np.exp(logs[kept] - factor) if _raw(settings) else softmax(logs[kept])
    return replace(sample, kept=tuple(kept.tolist()), weights=weights)


def effective(weights: np.ndarray) -> float:
    """Effective sample size (sum w)^2 / sum w^2, between 1 and the number of weights; 0 for none.

    Weights are scaled first, so that the squares of large ones do not overflow.
    """
    most = float(np.max(weights, initial=0.0))
    scaled = np.asarray(weights) / most if most else np.zeros(1)
    return float(scaled.sum() ** 2 / (scaled**2).sum()) if most else 0.0


def facts(samples: Sequence[Sample]) -> dict[str, float]:
    """What a logical batch holds: effective (joint orders of a power-turn, mean), turns (effective
    number of power-turns: all of them unless weights are raw), mass (of pi* kept, mean).
    """
    return {
        "effective": float(np.mean([effective(s.weights) for s in samples])),
        "turns": effective(np.array([s.weights.sum() for s in samples])),
        "mass": float(np.mean([s.mass for s in samples])),
    }


def table(samples: Sequence[Sample]) -> pd.DataFrame:
    """One row per power-turn: candidates, kept, effective, weight (sum of w), mass."""
    rows = [
        (len(s.target), len(s.kept), effective(s.weights), float(s.weights.sum()), s.mass)
        for s in samples
    ]
    return pd.DataFrame(rows, columns=["candidates", "kept", "effective", "weight", "mass"])
