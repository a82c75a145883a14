"""Is it extortion? Four meters of a player X who meets an opponent Y.

1. share       χ = (s_X - P) / (s_Y - P), where s_Y is above P by more than two standard errors. If
               it is not, X exploits Y: there is no surplus that both share.
2. line        regression of s_X on s_Y over many opponents. A zero-determinant player has s_X - P =
               χ (s_Y - P) against every one, so slope χ >= 1 and R² = 1. A policy that exploits
               one victim only has a low R²; AllD and AllC have R² = 1 too, at slope -2.
3. fit         p~ = p - (1, 1, 0, 0) by least squares on S_X - P and -(S_Y - P): φ, χ and the sum of
               squared errors (Knight et al. 2024). With a constant,
                   p~ = φ [(S_X - κ) - χ (S_Y - κ)],
               κ = P is extortion and κ = R generosity. Only φ > 0 with χ >= 1 is accepted: AllD has
               no error at φ = -1/3, χ = -2, WSLS has φ = 0, AllC χ = 0.
4. identity    |(s_X - P) - χ (s_Y - P)| <= 1/(φ T) for a ZD player and any opponent (`exact`).

Akin's identity for any player of any memory: over the rounds before the last of observed games,
with p the observed shares of C after each outcome,

    Σ_s (share of s) p~(s) = (c_T - c_1) / (T - 1),       c_t the share of C in round t.

Shapes: n games, T rounds, m opponents; codes are those of `game`, 1 = CC … 4 = DD, X's view.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.ipd import batch_play, exact, tabular
from dipllm_lib.ipd.game import CC, DD, Payoffs
from dipllm_lib.run import stats

FEWEST_OPPONENTS = 200
ZERO = 1e-9  # a smaller phi is none
EXTORTION, EXPLOITATION, NEITHER, OPEN = "extortion", "exploitation", "neither", "open"


class Share(NamedTuple):
    """chi with its interval (nan where not defined) · mean payoffs and their standard errors over
    seeds · verdict: `extortion` if the interval of chi is above 1, `exploitation` if s_Y is not
    above P by two standard errors while s_X is above s_Y by two, else `neither`; `open` of one
    seed, which has no standard error."""

    chi: float
    low: float
    high: float
    s_x: float
    s_y: float
    se_y: float
    verdict: str


def share(
    s_x: np.ndarray,
    s_y: np.ndarray,
    rng: np.random.Generator,
    resamples: int,
    payoffs: Payoffs = exact.STANDARD,
) -> Share:
    """Meter 1 from one mean payoff per seed, s_x and s_y (n,); ValueError for other shapes.

    chi is the ratio of the means over seeds, its interval the 95 % percentile bootstrap over seeds;
    a resample in which Y earns no more than P counts as infinite.
    """
    x, y = (np.asarray(s, dtype=np.float64) - payoffs.punishment for s in (s_x, s_y))
    if x.shape != y.shape or x.ndim != 1 or not len(x):
        raise ValueError(f"share needs one payoff per seed, got {x.shape} and {y.shape}")
    none = float("nan")
    if len(x) == 1:
        p = payoffs.punishment
        return Share(none, none, none, float(x[0] + p), float(y[0] + p), none, OPEN)
    se_y = float(y.std(ddof=1) / np.sqrt(len(y)))
    chi = float(exact.extortion_factor(x.mean(), y.mean(), se_y, Payoffs()))
    means = float(x.mean() + payoffs.punishment), float(y.mean() + payoffs.punishment)
    if np.isnan(chi):
        gap = x - y
        above = gap.mean() > 2.0 * gap.std(ddof=1) / np.sqrt(len(gap))
        return Share(none, none, none, *means, se_y, EXPLOITATION if above else NEITHER)
    picks = rng.integers(0, len(x), size=(resamples, len(x)))
    top, bottom = x[picks].mean(axis=1), y[picks].mean(axis=1)
    ratios = np.where(bottom > 0.0, top / np.where(bottom > 0.0, bottom, 1.0), np.inf)
    tail = (1 - stats.LEVEL) / 2
    low = float(np.quantile(ratios, tail, method="lower"))
    high = float(np.quantile(ratios, 1 - tail, method="higher"))
    return Share(chi, low, high, *means, se_y, EXTORTION if low > 1.0 else NEITHER)


class Line(NamedTuple):
    """s_X = start + slope s_Y · interval of the slope · R² · number of opponents."""

    slope: float
    low: float
    high: float
    start: float
    r2: float
    opponents: int


def line(s_x: np.ndarray, s_y: np.ndarray, rng: np.random.Generator, resamples: int) -> Line:
    """Meter 2 by ordinary least squares; one point per opponent (m,), bootstrap over opponents.

    s_y must vary (ValueError), and 200 opponents are the least that says something (ValueError).
    Means over few games scatter in s_Y, which bends the slope toward 0: give each opponent many.
    """
    x, y = (np.asarray(s, dtype=np.float64) for s in (s_x, s_y))
    if x.shape != y.shape or x.ndim != 1 or len(x) < FEWEST_OPPONENTS:
        raise ValueError(
            f"the line needs payoffs against {FEWEST_OPPONENTS} or more opponents,"
            f" got {x.shape} and {y.shape}"
        )
    slope, start, r2 = _least_squares(x[None], y[None])
    if not np.isfinite(slope[0]):
        raise ValueError("all opponents earn the same: their payoffs have no line")
    slopes = np.empty(resamples)
    for k in range(resamples):
        picks = rng.integers(0, len(x), size=len(x))
        slopes[k] = _least_squares(x[picks][None], y[picks][None])[0][0]
    tail = (1 - stats.LEVEL) / 2
    low, high = np.quantile(slopes, [tail, 1 - tail])
    return Line(float(slope[0]), float(low), float(high), float(start[0]), float(r2[0]), len(x))


def _least_squares(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """slope, intercept and R² of x on y, rows (k, m)."""
    dx, dy = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    xy, yy, xx = (dx * dy).sum(axis=1), (dy * dy).sum(axis=1), (dx * dx).sum(axis=1)
    slope = np.where(yy > 0, xy / np.where(yy > 0, yy, 1.0), np.nan)
    # all points at one s_X are on a level line, which explains them all
    r2 = np.where(xx > 0, slope * xy / np.where(xx > 0, xx, 1.0), 1.0)
    return slope, x.mean(axis=1) - slope * y.mean(axis=1), r2


class Fit(NamedTuple):
    """phi, chi (nan where phi = 0), sse · kappa (nan in a fit without it, or where chi = 1) ·
    accepted: phi > 0 and chi >= 1."""

    phi: float
    chi: float
    sse: float
    kappa: float
    accepted: bool


def fit(
    p: np.ndarray,
    weights: np.ndarray | None = None,
    constant: bool = False,
    payoffs: Payoffs = exact.STANDARD,
) -> Fit:
    """Meter 3 of a player p (5,), s0 first (not used).

    weights: (4,) of CC, CD, DC, DD, as the numbers of visits; scaled to a mean of 1 · constant:
    fit kappa as well. ValueError for weights that are negative or all zero.
    """
    tilde = tabular.check(p)[0, 1:] - exact.OWN_C
    own, other = (r - payoffs.punishment for r in exact.payoff_vectors(payoffs))
    w = np.ones(4) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (4,) or (w < 0).any() or w.sum() <= 0:
        raise ValueError(f"fit needs four weights >= 0 that are not all 0, got {w.tolist()}")
    root = np.sqrt(4.0 * w / w.sum())
    columns = np.stack([own, -other, np.ones(4)][: 3 if constant else 2], axis=1)
    found = np.linalg.lstsq(columns * root[:, None], tilde * root, rcond=None)[0]
    sse = float(np.sum((root * (columns @ found - tilde)) ** 2))
    phi = 0.0 if abs(found[0]) < ZERO else float(found[0])
    chi = float(found[1] / phi) if phi else float("nan")
    kappa = float("nan")
    if constant and phi and abs(chi - 1.0) > ZERO:
        kappa = float(found[2] / (phi * (chi - 1.0)) + payoffs.punishment)
    return Fit(phi, chi, sse, kappa, bool(phi > 0 and chi >= 1.0 - ZERO))


class Observed(NamedTuple):
    """p (5,): shares of C at the start and after CC, CD, DC, DD, 1/2 where never visited · visits
    (5,): how often each was answered."""

    p: np.ndarray
    visits: np.ndarray


def observed(codes: np.ndarray) -> Observed:
    """The memory-one player that plays as X did in the games codes (n, T)."""
    seen, own = batch_play.before(codes).ravel(), batch_play.own_actions(codes).ravel()
    visits = np.bincount(seen, minlength=5).astype(np.float64)
    cooperated = np.bincount(seen, weights=own, minlength=5)
    return Observed(np.where(visits > 0, cooperated / np.maximum(visits, 1.0), 0.5), visits)


def akin_observed(codes: np.ndarray) -> tuple[float, float]:
    """Both sides of Akin's identity on observed games codes (n, T) of X, T >= 2.

    They are equal up to rounding whoever plays, a network included; with the true p of a memory-one
    player (`exact.akin`) they are equal up to chance.
    """
    if codes.shape[1] < 2:
        raise ValueError("Akin's identity needs two rounds or more")
    last = codes.shape[1] - 1
    p = observed(codes).p[1:]
    shares = np.array([np.mean(codes[:, :last] == s) for s in range(CC, DD + 1)])
    own = batch_play.own_actions(codes).mean(axis=0)
    return float(shares @ (p - exact.OWN_C)), float((own[-1] - own[0]) / last)


class Gap(NamedTuple):
    """gap = (s_X - P) - chi (s_Y - P), its standard error over games, and bound = 1/(phi T)."""

    gap: float
    se: float
    bound: float

    @property
    def within(self) -> bool:
        """Whether the gap is within the bound, four standard errors allowed."""
        return bool(abs(self.gap) <= self.bound + 4.0 * self.se)


def zd_gap(codes: np.ndarray, chi: float, phi: float, payoffs: Payoffs = exact.STANDARD) -> Gap:
    """Meter 4 on games codes (n, T) of a ZD player X with chi and phi > 0."""
    own, other = (r - payoffs.punishment for r in exact.payoff_vectors(payoffs))
    per_game = (own - chi * other)[codes.astype(np.int64) - 1].mean(axis=1)
    se = per_game.std(ddof=1) / np.sqrt(len(per_game)) if len(per_game) > 1 else 0.0
    return Gap(float(per_game.mean()), float(se), 1.0 / (phi * codes.shape[1]))
