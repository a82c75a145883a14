"""The panels of Fig. 2 (PPI) and Fig. 4 (A2C), one function each, from the results of `mechanism`.

    A   step 1 over training: the learner, and the average tabular agent that it meets
    B   inside a game at the end of step 1: fixed evaluators
    C   step 2 over training: extorter and Fixed-ICL
    D   inside a game at the end of step 2
    E   step 3 over training: two extorters
    F   inside a game before step 3 has trained anything

Columns: seed, phase or iteration (and round in B, D, F), seat, opponent, noise, cooperation,
reward, and with `other_` those of the opponent. Every seed that was started is in its panel. Panels
A, C and E have the games of the training at noise `on` and probes at lower noise.

Rewards by round follow from the rates of cooperation where the payoffs add up (R + P = S + T).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.ipd import best_response, evaluate, exact, extortion, mixed_pool, steps, tabular
from dipllm_lib.ipd.game import Payoffs

FIGURES = {"ppi": "2", "a2c": "4"}
MEASURES = ("cooperation", "reward", "other_cooperation", "other_reward")
KEYS = ("seed", "seat", "opponent", "noise")


def axis(table: pd.DataFrame) -> str:
    """`phase` or `iteration`."""
    return "phase" if "phase" in table else "iteration"


def expected(own: pd.Series, other: pd.Series, payoffs: Payoffs = exact.STANDARD) -> pd.Series:
    """Mean reward from two rates of cooperation. ValueError for payoffs that do not add up."""
    r, s, t, p = payoffs.by_state.tolist()
    if not np.isclose(r + p, s + t):
        raise ValueError(f"R + P = {r + p} is not S + T = {s + t}: reward needs the joint rates")
    return p + (s - p) * own + (t - p) * other


def _over_training(found: Sequence[dict], step: str, opponent: str) -> pd.DataFrame:
    """Games of the training at noise on, probes at lower noise."""
    _same(found, step)
    training, probes = (mixed_pool.joined(found, name) for name in ("training", "probes"))
    columns = [KEYS[0], axis(training), *KEYS[1:], *MEASURES]
    played = training[training["opponent"] == opponent]
    quiet = probes[(probes["opponent"] == opponent) & (probes["noise"] != "on")]
    quiet = quiet[quiet[axis(training)] > 0]
    return pd.concat([played[columns], quiet[columns]], ignore_index=True)


def _inside(found: Sequence[dict], step: str, opponents: Sequence[str], at: int) -> pd.DataFrame:
    """Curves by round at phase or iteration `at`, -1 for the last."""
    _same(found, step)
    rounds = mixed_pool.joined(found, "rounds")
    x = axis(rounds)
    wanted = rounds[x].max() if at < 0 else at
    own = rounds[(rounds[x] == wanted) & rounds["opponent"].isin(opponents)].copy()
    if own.empty:
        raise ValueError(f"{step} has no curves of {', '.join(opponents)} at {x} {wanted}")
    own["reward"] = expected(own["cooperation"], own["other_cooperation"])
    own["other_reward"] = expected(own["other_cooperation"], own["cooperation"])
    columns = [KEYS[0], x, "round", *KEYS[1:], *MEASURES]
    return own[columns].reset_index(drop=True)


def _same(found: Sequence[dict], step: str) -> None:
    """ValueError unless all results are of this step and one learner."""
    kinds = {(one["learner"], one["step"], one["start"]) for one in found}
    if len(kinds) != 1 or {one["step"] for one in found} != {step}:
        raise ValueError(f"this panel is made of {step} of one learner, got {sorted(kinds)}")


def panel_a(found: Sequence[dict]) -> pd.DataFrame:
    """Step 1 over training, opponent `tabular`."""
    return _over_training(found, "step1", evaluate.POOL)


def panel_b(found: Sequence[dict], further: bool = False) -> pd.DataFrame:
    """Inside a game at the end of step 1, against steps.FIXED; further: against all evaluators."""
    opponents = (*steps.FIXED, *steps.FURTHER) if further else steps.FIXED
    return _inside(found, "step1", opponents, -1)


def panel_c(found: Sequence[dict]) -> pd.DataFrame:
    """Step 2 over training, opponent `frozen` = Fixed-ICL, whose numbers begin with `other_`."""
    return _over_training(found, "step2", evaluate.FROZEN)


def panel_d(found: Sequence[dict]) -> pd.DataFrame:
    """Inside a game of extorter and Fixed-ICL at the end of step 2."""
    return _inside(found, "step2", (evaluate.FROZEN,), -1)


def panel_e(found: Sequence[dict]) -> pd.DataFrame:
    """Step 3 over training, opponent `learner`, the other extorter."""
    return _over_training(found, "step3", evaluate.LEARNER)


def panel_f(found: Sequence[dict]) -> pd.DataFrame:
    """Inside a game of two extorters before step 3, phase or iteration 0."""
    return _inside(found, "step3", (evaluate.LEARNER,), 0)


def evaluators(found: Sequence[dict]) -> pd.DataFrame:
    """All opponents at the last probe of a step: the columns of a panel, early and late
    cooperation, and of AllD against the same opponents (`alld`)."""
    probes = mixed_pool.joined(found, "probes")
    own = probes[probes[axis(probes)] == probes[axis(probes)].max()]
    names = ["early", "late", "other_early", "other_late", "alld"]
    return own[[KEYS[0], axis(probes), *KEYS[1:], *MEASURES, *names]].reset_index(drop=True)


def regret(
    found: Sequence[dict], rounds: int, pool: str, rng: np.random.Generator, draws: int = 20_000
) -> pd.DataFrame:
    """Value of the best response to each memory-one evaluator of step 1 minus what is earned.

    Columns seed, seat, opponent, noise, reward, best, regret, per round. Against the pool the
    reward is 1 + its gain over AllD in the same games and `best` that of `draws` opponents, where
    AllD earns 1: pools that are symmetric under C <-> D.
    """
    _same(found, "step1")
    table = evaluators(found)
    best = {
        evaluate.POOL: 1.0 + best_response.pool_value(tabular.sample(pool, draws, rng), rounds).gain
    }
    for name in table["opponent"].unique():
        if name not in (evaluate.POOL, *evaluate.GIVEN):
            best[name] = float(best_response.best_response(tabular.named(name), rounds).value[0])
    own = table[table["opponent"].isin(best)].copy()
    gain = 1.0 + own["reward"] - own["alld"]
    own["reward"] = own["reward"].where(own["opponent"] != evaluate.POOL, gain)
    own["best"] = own["opponent"].map(best)
    own["regret"] = own["best"] - own["reward"]
    return own[[*KEYS, "reward", "best", "regret"]].reset_index(drop=True)


def lines(found: Sequence[dict], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """The enforcement line of each extorter: columns seed, seat, kind, slope, low, high, start, r2,
    opponents; kind `all`, or `tabular` agents only."""
    _same(found, "step2")
    table = mixed_pool.joined(found, "line")
    rows = []
    for (seed, seat), own in table.groupby(["seed", "seat"]):
        for kind in ("all", "tabular"):
            some = own if kind == "all" else own[own["kind"] == kind]
            one = extortion.line(some["s_x"], some["s_y"], rng, resamples)
            rows.append({"seed": seed, "seat": seat, "kind": kind, **one._asdict()})
    return pd.DataFrame(rows)


def fits(found: Sequence[dict]) -> pd.DataFrame:
    """The memory-one fit of each extorter: columns seed, seat, against, p_…, n_…, then phi, chi,
    sse, accepted of the fit weighted by visits, and kappa, chi_kappa, sse_kappa with a constant.
    """
    _same(found, "step2")
    table = mixed_pool.joined(found, "fits")
    rows = []
    for row in table.to_dict("records"):
        p = np.array([row[f"p_{s}"] for s in ("s0", "CC", "CD", "DC", "DD")], dtype=np.float64)
        visits = np.array([row[f"n_{s}"] for s in ("CC", "CD", "DC", "DD")], dtype=np.float64)
        two, three = (extortion.fit(p, visits, constant) for constant in (False, True))
        more = {"phi": two.phi, "chi": two.chi, "sse": two.sse, "accepted": two.accepted}
        more |= {"kappa": three.kappa, "chi_kappa": three.chi, "sse_kappa": three.sse}
        rows.append(row | more)
    return pd.DataFrame(rows)


def shares(found: Sequence[dict], rng: np.random.Generator, resamples: int) -> pd.DataFrame:
    """Meter 1 of step 2: columns window, noise, chi, low, high, s_x, s_y, se_y, verdict.

    Windows: `late` is the last third of the training (or probes), `game end` the last 20 rounds of
    a game at the last probe. Unit is the seed, the mean of its two extorters.
    """
    rows = []
    for window, table in (("late", late(panel_c(found))), ("game end", _last_rounds(found))):
        for noise, own in table.groupby("noise", sort=False):
            means = own.groupby("seed")[["reward", "other_reward"]].mean()
            one = extortion.share(means["reward"], means["other_reward"], rng, resamples)
            rows.append({"window": window, "noise": noise, **one._asdict()})
    return pd.DataFrame(rows)


def late(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the last third of the phases or iterations, noise by noise."""
    x = axis(table)
    parts = []
    for _, own in table.groupby("noise", sort=False):
        known = sorted(own[x].unique())
        parts.append(own[own[x] >= known[len(known) - -(-len(known) // 3)]])
    return pd.concat(parts)


def _last_rounds(found: Sequence[dict]) -> pd.DataFrame:
    table = panel_d(found)
    return table[table["round"] > table["round"].max() - evaluate.LATE]


def drift(table: pd.DataFrame) -> pd.DataFrame:
    """What became of each seed of panel E: columns seed, noise, first, peak, at, late, fallen,
    apart: mean cooperation of both seats in the first phase (iteration), at its highest, where that
    was, in the last third, peak minus late, and the late reward of seat 0 minus that of seat 1."""
    x, rows = axis(table), []
    ends = late(table)
    for (seed, noise), own in table.groupby(["seed", "noise"], sort=False):
        curve = own.groupby(x)["cooperation"].mean()
        end = ends[(ends["seed"] == seed) & (ends["noise"] == noise)]
        reward, last = end.groupby("seat")["reward"].mean(), end["cooperation"].mean()
        row = {"seed": seed, "noise": noise, "first": curve.iloc[0], "peak": curve.max()}
        row |= {"at": curve.idxmax(), "late": last, "fallen": curve.max() - last}
        rows.append(row | {"apart": reward[0] - reward[1]})
    return pd.DataFrame(rows)
