"""Models of people in the ultimatum and in the gift dilemma, fitted to the tables of `humans`.

    logit         P(reject) = σ(a + b k), k the share that the proposer keeps
    Fehr-Schmidt  envy differs between people, ln a ~ N(μ, τ²), and a decision is a slip with
                  probability 2ε (a coin is thrown):
                  P(reject) = ε + (1 - 2ε) P(a / (1 + 2a) > offer)
    prospect      own payoff only, v of `prospect` with reference ρ, and noise:
                  P(reject) = σ(-s [v(offer - ρ) - v(-ρ)])
                  P(give)   = σ(-s [v((1 + m g - ρ) / (1 + m)) - v((m g - ρ) / (1 + m))])
    matching      the gift is answered from one half on: two rates, as somebody plays who dislikes
                  being ahead (own minus other's payoff is (1 + m)(g - own gift))

v rises, so v(offer - ρ) > v(-ρ) for every offer above 0: whatever ρ and λ are, somebody who values
own payoff only never refuses, and noise alone cannot push P(reject) above one half. In the same way
P(give) stays below one half.

Every fit maximises the likelihood of the counts, which for tables with equal totals is the same as
the smallest mean divergence. The maximum is found on grids that close in on their best point.

Shapes: tables of K columns, grids of M points.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from dipllm_lib.kto import humans
from dipllm_lib.kto.humans import GIFTS, REJECTIONS, Table
from dipllm_lib.kto.prospect import ARTICLE, ProspectParams, value

MULTIPLIER = 2.0  # of a gift on its way, as in `gift.GiftPD`
FIRST = 20_000  # points of the first grid of `zoom`: fine enough to tell its minima apart
POINTS, ROUNDS = 15, 20  # points of a dimension of later grids, each a fifth as wide as the last
NEVER = 0.01  # rate of an event that a player never means to do


@dataclass(frozen=True, eq=False)
class Model:
    """name · game of its table · parameters by name · rates (K,) of the table's event · free: how
    many numbers were fitted."""

    name: str
    game: str
    parameters: dict[str, float]
    rates: np.ndarray
    free: int


def zoom(
    loss: Callable[[np.ndarray], np.ndarray], low: Sequence[float], high: Sequence[float]
) -> np.ndarray:
    """(J,) point of the box between low and high (J,) where loss, (M, J) -> (M,), is smallest.

    The lowest point of a first grid of about FIRST points, then grids that close in on it. Equal
    losses: the first point.
    """
    low, high = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    first, last, count = low, high, round(FIRST ** (1 / len(low)))
    for _ in range(1 + ROUNDS):
        lines = [np.linspace(a, b, count) for a, b in zip(first, last, strict=True)]
        points = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(low))
        best = points[int(np.argmin(loss(points)))]
        reach, count = 1.5 * (last - first) / (count - 1), POINTS
        first, last = np.maximum(low, best - reach), np.minimum(high, best + reach)
    return best


def sigmoid(z: np.ndarray) -> np.ndarray:
    """σ(z), kept off 0 and 1 so that a divergence stays finite."""
    return 1.0 / (1.0 + np.exp(-np.clip(z, -30.0, 30.0)))


def normal_cdf(z: np.ndarray) -> np.ndarray:
    """Φ(z) in the shape of z."""
    return 0.5 * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(np.asarray(z) / math.sqrt(2)))


def logit() -> Model:
    """The two-number summary of the responder table."""

    def rates(points: np.ndarray) -> np.ndarray:
        return sigmoid(points[:, :1] + points[:, 1:] * (1.0 - np.array(REJECTIONS.x)))

    return _fitted("logit", REJECTIONS, rates, ("a", "b"), (-20.0, 0.0), (0.0, 25.0))


def envious() -> Model:
    """Fehr-Schmidt responders with log-normal envy and slips: median, log_sd, slip."""
    offers = np.array(REJECTIONS.x)

    def rates(points: np.ndarray) -> np.ndarray:
        return slipping(refusals(points[:, :1], points[:, 1:2], offers), points[:, 2:])

    names = ("median", "log_sd", "slip")
    return _fitted("Fehr-Schmidt", REJECTIONS, rates, names, (0.02, 0.3, 1e-4), (1.0, 4.0, 0.1))


def refusals(median: np.ndarray, log_sd: np.ndarray, offers: np.ndarray) -> np.ndarray:
    """Share of a log-normal population of Fehr-Schmidt responders that refuses each offer; 0 from
    one half on."""
    below = np.asarray(offers) < 0.5
    envy = humans.envy_at(np.where(below & (np.asarray(offers) > 0), offers, 0.25))
    found = 1.0 - normal_cdf((np.log(envy) - np.log(median)) / log_sd)
    return np.where(below, np.where(np.asarray(offers) > 0, found, 1.0), 0.0)


def slipping(rates: np.ndarray, slip: np.ndarray | float) -> np.ndarray:
    """Rates when each decision is wrong with probability `slip`."""
    return slip + (1.0 - 2.0 * slip) * rates


def prospect_responder(lam: float, params: ProspectParams = ARTICLE) -> Model:
    """Own payoff only: reference and slope fitted for a given λ, exponents of `params`."""
    own, offers = replace(params, lam=lam), np.array(REJECTIONS.x)

    def rates(points: np.ndarray) -> np.ndarray:
        rho, slope = points[:, :1], np.exp(points[:, 1:])
        return sigmoid(-slope * (value(offers - rho, own) - value(-rho, own)))

    return _prospect(REJECTIONS, rates, lam, 1.0)


def prospect_giver(lam: float, params: ProspectParams = ARTICLE) -> Model:
    """The same for the second mover of the gift dilemma; payoffs in units of its range 1 + m."""
    own, gifts, scale = replace(params, lam=lam), np.array(GIFTS.x), 1.0 + MULTIPLIER

    def rates(points: np.ndarray) -> np.ndarray:
        rho, slope = points[:, :1], np.exp(points[:, 1:])
        give, keep = MULTIPLIER * gifts - rho, 1.0 + MULTIPLIER * gifts - rho
        return sigmoid(slope * (value(give / scale, own) - value(keep / scale, own)))

    return _prospect(GIFTS, rates, lam, scale)


def _prospect(table: Table, rates: Callable, lam: float, most: float) -> Model:
    names, low, high = ("rho", "log_slope"), (0.0, -6.0), (most, 6.0)
    found = _fitted(f"prospect, λ = {lam:g}", table, rates, names, low, high)
    own = found.parameters
    parameters = {"lam": lam, "rho": own["rho"], "slope": math.exp(own["log_slope"])}
    return replace(found, parameters=parameters)


def matching() -> Model:
    """Two rates of the gift table, below one half and from there on."""
    high = np.array(GIFTS.x) >= 0.5
    ends = [float(GIFTS.rates[part].mean()) for part in (~high, high)]
    rates = np.where(high, ends[1], ends[0])
    return Model("matching", GIFTS.name, {"below": ends[0], "from": ends[1]}, rates, 2)


def constant(table: Table, rate: float | None = None) -> Model:
    """One rate for all columns: the overall one, or a given one."""
    if rate is None:
        overall = float(table.rates.mean())
        return Model("one rate", table.name, {"rate": overall}, _all(table, overall), 1)
    names = {NEVER: f"never ({NEVER:.0%})", 0.5: "coin"}
    return Model(names.get(rate, f"{rate:g}"), table.name, {"rate": rate}, _all(table, rate), 0)


def _all(table: Table, rate: float) -> np.ndarray:
    return np.full(len(table.x), rate)


def _fitted(name, table, rates, names, low, high) -> Model:
    """The most likely of the models whose rates (M, K) follow from points (M, J) of a box."""
    human = table.rates

    def loss(points: np.ndarray) -> np.ndarray:
        return humans.divergence(human, rates(points)).mean(axis=1)

    best = zoom(loss, low, high)
    parameters = dict(zip(names, best.tolist(), strict=True))
    return Model(name, table.name, parameters, rates(best[None])[0], len(names))


def models(lams: Sequence[float], params: ProspectParams = ARTICLE) -> list[Model]:
    """Every model of both games, prospect theory once per λ."""
    found = [logit(), envious()]
    found += [prospect_responder(lam, params) for lam in lams]
    found += [constant(REJECTIONS, rate) for rate in (None, 0.5, NEVER)]
    found += [matching()]
    found += [prospect_giver(lam, params) for lam in lams]
    return found + [constant(GIFTS, rate) for rate in (None, 0.5, NEVER)]


def compare(found: Sequence[Model]) -> pd.DataFrame:
    """Columns game, model, parameters, free, divergence, worst, human_like: mean divergence in
    nats, largest error of a rate, and whether the divergence is at most humans.HUMAN_LIKE."""
    rows = []
    for one in found:
        table = _table(one.game)
        score = humans.likeness(table, one.rates)
        text = ", ".join(f"{name} {number:.3g}" for name, number in one.parameters.items())
        worst = float(np.abs(one.rates - table.rates).max())
        near = "yes" if score <= humans.HUMAN_LIKE else "no"
        rows.append((one.game, one.name, text, one.free, score, worst, near))
    columns = ["game", "model", "parameters", "free", "divergence", "worst", "human_like"]
    return pd.DataFrame(rows, columns=columns)


def rates(found: Sequence[Model]) -> pd.DataFrame:
    """Columns game, x, model, rate: the models and, as model `people`, the tables."""
    rows = []
    for table in (REJECTIONS, GIFTS):
        own = [("people", table.rates)]
        own += [(one.name, one.rates) for one in found if one.game == table.name]
        for name, line in own:
            rows += [(table.name, x, name, p) for x, p in zip(table.x, line.tolist(), strict=True)]
    return pd.DataFrame(rows, columns=["game", "x", "model", "rate"])


def _table(game: str) -> Table:
    return next(table for table in (REJECTIONS, GIFTS) if table.name == game)
