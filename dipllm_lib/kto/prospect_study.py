"""The tables of notebook 08 that are no fits: curves, identities, bargaining, replies, scores.

Everything is exact: closed forms, enumeration, and the stationary solution of bargaining with
breakdown (`bargaining_exact`),

    v_j(1 - x_i - ρ) = p v_j(x_j - ρ) + (1 - p) v_j(-ρ)          for both players.

A score is never one number: `divergence` says how far from people a player is, `regret` what it
loses in payoff against the best that is possible.

Shapes: tidy tables.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from dipllm_lib.ipd import exact, tabular
from dipllm_lib.kto import bargaining_exact, humans, offer_study, prospect, responder_fits
from dipllm_lib.kto.prospect import ARTICLE, PRESETS, TK92, ProspectParams, value

LAMS = (1.0, 2.25, 3.2)  # none, of the article, of its negotiations
GRID_LAMS = (1.0, 2.25, 3.2, 6.0, 10.0)
GRID_RHOS = (0.0, 0.25, 0.5, 0.6)
SPLIT = 0.5  # reference of ultimatum and bargaining
PEOPLE_OFFER = 0.40  # mean offer of people, Oosterbeek, Sloof and van de Kuilen 2004: 37 papers
GO_ON, RHO = 0.9, 0.25  # chance that talks survive a refusal, reference share in bargaining
PAIRS = ((1.0, 1.0), (2.25, 1.0), (1.0, 2.25), (2.25, 2.25), (3.2, 1.0), (1.0, 3.2), (3.2, 3.2))
CLEAR = 1e-3  # of a distance: below it two players are alike
DELTAS = (0.5, 0.75, 0.9, 0.95, 0.99)


def curves() -> pd.DataFrame:
    """Columns curve, name, x, y: v of the presets on [-1, 1], w, and loss aversion by size."""
    x, p, size = np.linspace(-1, 1, 201), np.linspace(0, 1, 201), np.geomspace(0.01, 1000, 101)
    parts = [("value", name, x, value(x, own)) for name, own in PRESETS.items()]
    for name, gamma in (("γ = .61, gains", 0.61), ("γ = .69, losses", 0.69), ("γ = 1", 1.0)):
        parts.append(("weight", name, p, prospect.weight(p, gamma)))
    for name, own in PRESETS.items():
        parts.append(("ratio", name, size, prospect.loss_gain_ratio(size, own)))
    tables = [pd.DataFrame({"curve": c, "name": n, "x": a, "y": b}) for c, n, a, b in parts]
    return pd.concat(tables, ignore_index=True)


def identities() -> pd.DataFrame:
    """Columns identity, value, expected: what must hold of v, w and lotteries, and by how much."""
    worth = partial(prospect.prospect, params=TK92)
    ratio, sure = prospect.loss_gain_ratio, float(value(100.0, TK92))
    rows = [
        ("TK92: 100 for sure", sure, 57.54),
        ("TK92: 200 with probability .71", worth([200, 0], [0.71, 0.29]), 57.23),
        ("TK92: loss of 200 with .64, over -λ", worth([-200, 0], [0.64, 0.36]) / -2.25, 57.72),
        ("w(.5), gains", float(prospect.weight(0.5, 0.61)), 0.4206),
        ("w(.5), losses", float(prospect.weight(0.5, 0.69)), 0.4540),
        ("ARTICLE: v(-.5)", float(value(-0.5, ARTICLE)), -1.1891),
        ("ARTICLE: loss aversion at 1", float(ratio(1.0, ARTICLE)), 2.25),
        ("ARTICLE: loss aversion at 100", float(ratio(100.0, ARTICLE)), 2.71),
        ("TK92: loss aversion at 100", float(ratio(100.0, TK92)), 2.25),
        ("TK92: 3 for sure, as a lottery, inverted", _inverted([3.0], [1.0]), 3.0),
        ("TK92: 3 with .4 and 3 with .6, inverted", _inverted([3.0, 3.0], [0.4, 0.6]), 3.0),
        ("TK92: ±100 at even odds, over v(100)", worth([100, -100], [0.5, 0.5]) / sure, -0.6009),
    ]
    return pd.DataFrame(rows, columns=["identity", "value", "expected"])


def _inverted(outcomes: Sequence[float], probabilities: Sequence[float]) -> float:
    """Certainty equivalent of a lottery under TK92."""
    found = prospect.prospect(np.array(outcomes), np.array(probabilities), TK92)
    return float(prospect.certainty_equivalent(found, TK92))


def shares(own: ProspectParams, other: ProspectParams, p: float, rho: float) -> tuple:
    """(x_0, x_1) what each keeps as a proposer in bargaining with breakdown, without end."""
    values = tuple(partial(value, params=params) for params in (own, other))
    return bargaining_exact.stationary(p, rho, values)


def with_lam(lam: float, exponent: float) -> ProspectParams:
    """α = β = exponent and this λ."""
    return ProspectParams(exponent, exponent, lam)


def bargaining(exponents: Sequence[float] = (1.0, 0.88)) -> pd.DataFrame:
    """Columns exponent, lam, other_lam, rho, share, other_share, from_half: the proposer's share of
    each pair of λ, and how far the split is from even. The last rows have ρ = 0, where nobody can
    lose."""
    rows = []
    for exponent in exponents:
        for rho, pairs in ((RHO, PAIRS), (0.0, PAIRS[:2])):
            for lam, other in pairs:
                both = with_lam(lam, exponent), with_lam(other, exponent)
                x, y = shares(*both, GO_ON, rho)
                rows.append((exponent, lam, other, rho, x, y, abs(x - 0.5)))
    columns = ["exponent", "lam", "other_lam", "rho", "share", "other_share", "from_half"]
    return pd.DataFrame(rows, columns=columns)


def bargaining_curves(
    rhos: Sequence[float] = (0.0, 0.1, 0.25, 0.4),
    lams: Sequence[float] = tuple((10 + 3 * k) / 10 for k in range(11)),
) -> pd.DataFrame:
    """Columns varied, rho, lam, share: the first proposer's share when its own λ, the other's or
    that of both is lam, else 1; α = β = .88."""
    rows, one = [], with_lam(1.0, TK92.alpha)
    for rho in rhos:
        for lam in lams:
            many = with_lam(lam, TK92.alpha)
            own, other = shares(many, one, GO_ON, rho)
            both = shares(many, many, GO_ON, rho)[0]
            found = {"own": own, "other": other, "both": both}
            rows += [(varied, rho, lam, share) for varied, share in found.items()]
    return pd.DataFrame(rows, columns=["varied", "rho", "lam", "share"])


def signs(
    go_ons: Sequence[float] = (0.6, 0.75, 0.9),
    rhos: Sequence[float] = (0.05, 0.2, 0.35),
    lams: Sequence[float] = (1.0, 1.5, 2.25, 3.2),
) -> pd.DataFrame:
    """Columns varied, steps, down, up, smallest: steps of one λ to the next larger one, over p, ρ
    and the other's λ; how many lower and raise the own share, and the smallest size of a step."""
    steps: dict[str, list] = {"own": [], "other": []}
    for p in go_ons:
        for rho in rhos:
            table = _every_pair(lams, p, rho)
            steps["own"] += np.diff(table, axis=0).ravel().tolist()
            steps["other"] += np.diff(table, axis=1).ravel().tolist()
    rows = []
    for varied, own in steps.items():
        down, up = sum(s < 0 for s in own), sum(s > 0 for s in own)
        rows.append((varied, len(own), down, up, min(abs(s) for s in own)))
    return pd.DataFrame(rows, columns=["varied", "steps", "down", "up", "smallest"])


def _every_pair(lams: Sequence[float], p: float, rho: float) -> np.ndarray:
    """(L, L) share of the proposer, own λ by rows, the other's by columns."""
    table = np.empty((len(lams), len(lams)))
    for i, own in enumerate(lams):
        for j, other in enumerate(lams[: i + 1]):
            both = with_lam(own, TK92.alpha), with_lam(other, TK92.alpha)
            table[i, j], table[j, i] = shares(*both, p, rho)
    return table


def replies(deltas: Sequence[float] = DELTAS) -> pd.DataFrame:
    """Columns delta, best, value, AllC, TFT, AllD: the best reply to the pooled human player of the
    repeated dilemma and its payoff per round, beside three fixed ones."""
    people, rows = humans.repeated_pd(), []
    names = ("AllC", "TFT", "AllD")
    for delta in deltas:
        vector, most = humans.best_reply(delta)
        known = [n for n in names if np.array_equal(vector, tabular.named(n))]
        label = known[0] if known else " ".join(f"{p:g}" for p in vector)
        others = [
            float(exact.discounted(tabular.named(n), people, delta, humans.PAYOFFS)[0][0])
            for n in names
        ]
        rows.append((delta, label, most, *others))
    return pd.DataFrame(rows, columns=["delta", "best", "value", *names])


def scores(lams: Sequence[float] = LAMS) -> pd.DataFrame:
    """Columns game, role, lam, plays, regret, divergence: both scores of a player of ARTICLE with
    this λ. plays: offer, or share kept; regret: payoff lost against people, in shares of the pie
    (bargaining: share lost to a partner with λ = 1, against having λ = 1 too); divergence in nats,
    of the noisy player fitted to people (nan where no human table exists)."""
    rows, most = [], float(humans.offer_values().max())
    nothing = float("nan")
    for lam in lams:
        own = replace(ARTICLE, lam=lam)
        tenths = offer_study.TENTHS
        offer = offer_study.best(tenths, offer_study.worth(tenths, SPLIT, own, "plain"))[0]
        lost = most - float(humans.offer_values(offer))
        rows.append(("ultimatum", "proposer", lam, offer, lost, nothing))
        for role, model in (
            ("responder", responder_fits.prospect_responder(lam)),
            ("second mover", responder_fits.prospect_giver(lam)),
        ):
            table = humans.REJECTIONS if model.game == humans.REJECTIONS.name else humans.GIFTS
            score = humans.likeness(table, model.rates)
            rows.append((model.game, role, lam, nothing, nothing, score))
        one = replace(ARTICLE, lam=1.0)
        share, even = (shares(x, one, GO_ON, RHO)[0] for x in (own, one))
        both = shares(own, own, GO_ON, RHO)[0]
        rows.append(("bargaining", "first proposer", lam, share, even - share, nothing))
        rows.append(("bargaining", "both alike", lam, both, nothing, nothing))
    columns = ["game", "role", "lam", "plays", "regret", "divergence"]
    found = pd.DataFrame(rows, columns=columns)
    return found.sort_values(["game", "role", "lam"], kind="stable", ignore_index=True)


def more_human(table: pd.DataFrame, lam: float = 3.2) -> pd.DataFrame:
    """Columns game, role, gain, text, verdict: whether a player with this λ is nearer to people
    than with every other λ of `scores`, by more than CLEAR; gain: by how much. distance is the
    divergence, for proposers the distance of the offer from PEOPLE_OFFER, in bargaining that of the
    split from even."""
    rows = []
    for (game, role), own in table.groupby(["game", "role"], sort=False):
        distance = own["divergence"]
        if own["divergence"].isna().any():
            goal = PEOPLE_OFFER if game == "ultimatum" else 0.5
            distance = (own["plays"] - goal).abs()
        distances = dict(zip(own["lam"], distance, strict=True))
        gain = min(d for other, d in distances.items() if other != lam) - distances[lam]
        verdict = "nearer" if gain > CLEAR else "farther" if gain < -CLEAR else "no difference"
        text = ", ".join(f"λ {one:g}: {d:.4f}" for one, d in distances.items())
        rows.append((game, role, gain, f"distance at {text}", verdict))
    return pd.DataFrame(rows, columns=["game", "role", "gain", "text", "verdict"])
