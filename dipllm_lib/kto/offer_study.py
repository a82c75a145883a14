"""What λ and the reference point do to an offer in the ultimatum, exactly, against people.

A proposer who offers o keeps 1 - o with probability p(o) of the pooled human responder, else
nothing. Around a reference ρ it is worth

    plain      p(o) v(1 - o - ρ) + (1 - p(o)) v(-ρ)              probabilities as they are
    weighted   the same lottery under cumulative prospect theory, with w+ and w-

Labels of KTO call an outcome desirable if it lies above ρ. The first step then raises the offer
with the largest expected value if labels are weighted by |v|, and the offer that lies above ρ most
often if all labels weigh the same (`unit`): generous, unless ρ is high.

Shapes: offers (A,), on a grid of tenths or hundredths.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from dipllm_lib.kto import humans
from dipllm_lib.kto.prospect import ARTICLE, ProspectParams, prospect, value

TENTHS = np.arange(11) / 10
HUNDREDTHS = np.arange(101) / 100
KINDS = ("plain", "weighted")
DIGITS = 12  # of differences of shares, so that .6 - .6 is 0
SAME = 1e-12


def worth(offers: np.ndarray, rho: float, params: ProspectParams, kind: str) -> np.ndarray:
    """(A,) value of each offer around reference rho, `plain` or `weighted`; ValueError for another
    kind."""
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}: use plain or weighted")
    p = humans.ultimatum_responder(offers)
    kept = np.round(1.0 - np.asarray(offers) - rho, DIGITS)
    if kind == "plain":
        return p * value(kept, params) + (1.0 - p) * value(-rho, params)
    pairs = zip(kept.tolist(), p.tolist(), strict=True)
    return np.array([prospect([x, -rho], [chance, 1.0 - chance], params) for x, chance in pairs])


def best(offers: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The offers whose value is the largest, to SAME."""
    return np.asarray(offers)[values >= values.max() - SAME]


def offers(lams: Sequence[float], rho: float, params: ProspectParams = ARTICLE) -> pd.DataFrame:
    """Columns offer, accepted, money, and v_λ for each λ: plain value around rho. By hundredths."""
    table = pd.DataFrame({"offer": HUNDREDTHS})
    table["accepted"] = humans.ultimatum_responder(HUNDREDTHS)
    table["money"] = humans.offer_values(HUNDREDTHS)
    for lam in lams:
        table[f"v_{lam:g}"] = worth(HUNDREDTHS, rho, replace(params, lam=lam), "plain")
    return table


def best_offers(
    lams: Sequence[float], rhos: Sequence[float], params: ProspectParams = ARTICLE
) -> pd.DataFrame:
    """Columns kind, lam, rho, best (by tenths), best_fine (by hundredths), money, share: what the
    best offer by tenths earns from people, and that over the most that can be earned."""
    rows = []
    for kind in KINDS:
        for lam in lams:
            for rho in rhos:
                own = replace(params, lam=lam)
                coarse = best(TENTHS, worth(TENTHS, rho, own, kind))[0]
                fine = best(HUNDREDTHS, worth(HUNDREDTHS, rho, own, kind))[0]
                money = float(humans.offer_values(coarse))
                rows.append((kind, lam, rho, coarse, fine, money, money / _most()))
    columns = ["kind", "lam", "rho", "best", "best_fine", "money", "share"]
    return pd.DataFrame(rows, columns=columns)


def references() -> dict[str, float]:
    """Reference payoffs of a proposer by name, as shares of the pie.

    `batna` is what a refusal leaves, so it equals the status quo here; `expected` depends on the
    policy, shown before any learning and at the best offer; `last_round` on what happened.
    """
    played = humans.offer_values(TENTHS)
    return {
        "status_quo": 0.0,
        "batna": 0.0,
        "last_round, refused": 0.0,
        "expected, uniform play": float(played.mean()),
        "equal_split": 0.5,
        "expected, best play": float(played.max()),
        "last_round, .40 accepted": 0.6,
    }


def above(offers: np.ndarray, rho: float) -> np.ndarray:
    """(A,) probability that the outcome of each offer lies above rho >= 0."""
    kept = np.round(1.0 - np.asarray(offers) - rho, DIGITS)
    return np.where(kept > 0, humans.ultimatum_responder(offers), 0.0)


def by_reference(params: ProspectParams = ARTICLE) -> pd.DataFrame:
    """Columns reference, rho, weights, offers, mean_offer, money, share: the offers, by tenths,
    that labels raise most, with |v| and with unit weights; money is the mean over equal ones."""
    rows = []
    for name, rho in references().items():
        signals = {"|v|": worth(TENTHS, rho, params, "plain"), "unit": above(TENTHS, rho)}
        for weights, signal in signals.items():
            found = best(TENTHS, signal)
            text = " ".join(f"{offer:.1f}" for offer in found.tolist())
            money = float(humans.offer_values(found).mean())
            rows.append((name, rho, weights, text, found.mean(), money, money / _most()))
    columns = ["reference", "rho", "weights", "offers", "mean_offer", "money", "share"]
    return pd.DataFrame(rows, columns=columns)


def curves_by_reference(params: ProspectParams = ARTICLE) -> pd.DataFrame:
    """Columns rho, weights, offer, signal: what each offer's labels add up to, divided by the
    largest size, for each distinct reference."""
    rows = []
    for rho in sorted(set(references().values())):
        signals = {"|v|": worth(TENTHS, rho, params, "plain"), "unit": 2 * above(TENTHS, rho) - 1}
        for weights, signal in signals.items():
            scaled = (signal / np.abs(signal).max()).tolist()
            rows += [(rho, weights, o, s) for o, s in zip(TENTHS.tolist(), scaled, strict=True)]
    return pd.DataFrame(rows, columns=["rho", "weights", "offer", "signal"])


def refusals(
    lams: Sequence[float], rhos: Sequence[float], params: ProspectParams = ARTICLE
) -> pd.DataFrame:
    """Columns lam, rho, refused, least: how many of the 100 offers above 0 a responder refuses who
    values own payoff only, and the smallest gain in value of accepting one."""
    rows = []
    for lam in lams:
        for rho in rhos:
            own = replace(params, lam=lam)
            gains = value(HUNDREDTHS[1:] - rho, own) - value(-rho, own)
            rows.append((lam, rho, int((gains <= 0).sum()), float(gains.min())))
    return pd.DataFrame(rows, columns=["lam", "rho", "refused", "least"])


def _most() -> float:
    """The most that people leave a proposer, by tenths."""
    return float(humans.offer_values(TENTHS).max())
