"""Do fits find the parameters that simulated choices were made with?

Somebody with the parameters of Tversky and Kahneman 1992 and a slope of .3 chooses N times; the
parameters are fitted with one exponent for gains and losses (as this person has) and with two. Both
kinds of fit see the same choices. `near` counts estimates of α within .05 and of λ, or of loss
aversion at the size of the stakes, within .3 of the truth; `covered` counts 95 % intervals that
hold the truth.

Shapes: a block holds up to BLOCK repetitions; PARAMETERS are the six of a fit and loss aversion at
STAKES.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dipllm_lib.kto import choice_fits, choices
from dipllm_lib.kto.choice_model import NAMES, numbers
from dipllm_lib.kto.prospect import TK92
from dipllm_lib.run import seeding

SLOPE = 0.3
STAKES = 100.0  # amounts run from 1 to 1,000; their logarithms lie about half-way
AT_STAKES = "lam_100"
PARAMETERS = (*NAMES, AT_STAKES)
NEAR = {"alpha": 0.05, "beta": 0.05, "lam": 0.3, AT_STAKES: 0.3}
BLOCK = 10
EXPONENTS = ("one", "two")


@dataclass(frozen=True)
class Task:
    """Fits of repetitions first … first + count - 1 of n choices; resamples: of the choices of the
    first repetition, 0 for none."""

    seed: int
    n: int
    exponents: str
    first: int
    count: int
    resamples: int

    @property
    def key(self) -> str:
        """A name for the file of its result."""
        return f"{self.exponents}_{self.n}_{self.first}"


def truth() -> np.ndarray:
    """(7,) the true PARAMETERS."""
    return np.array([*numbers(TK92, SLOPE), TK92.lam])


def tasks(sizes: Sequence[int], fits: int, resamples: int, seed: int) -> list[Task]:
    """All blocks: every size, both kinds of fit, `fits` repetitions; the largest first."""
    return [
        Task(seed, n, kind, first, min(BLOCK, fits - first), 0 if first else resamples)
        for n in sorted(sizes, reverse=True)
        for kind in EXPONENTS
        for first in range(0, fits, BLOCK)
    ]


def run(task: Task) -> dict:
    """JSON-able: rows (count, 7, 3) of estimate, low, high; resampled (6, 2) low and high of the
    first repetition by resampling, or None."""
    tied = task.exponents == "one"
    rows, resampled = [], None
    for r in range(task.first, task.first + task.count):
        rng = seeding.child(task.seed, "kto", "recovery", task.n, r)
        own = choices.simulate(task.n, TK92, SLOPE, rng)
        found = choice_fits.fit(own, one_exponent=tied)
        table = choice_fits.intervals(found)[["estimate", "low", "high"]].to_numpy()
        rows.append([*table.tolist(), list(choice_fits.loss_aversion(found, STAKES))])
        if task.resamples and r == task.first:
            rng = seeding.child(task.seed, "kto", "resampled", task.n)
            drawn = choice_fits.bootstrap(own, rng, task.resamples, one_exponent=tied)
            resampled = choice_fits.intervals(found, drawn)[["low", "high"]].to_numpy().tolist()
    return {"rows": rows, "resampled": resampled}


def fits(done: Sequence[dict], todo: Sequence[Task]) -> pd.DataFrame:
    """Columns exponents, choices, fit, parameter, estimate, low, high: a row per fitted number."""
    rows = []
    for task, one in zip(todo, done, strict=True):
        for k, numbers_ in enumerate(one["rows"]):
            start = (task.exponents, task.n, task.first + k)
            for name, triple in zip(PARAMETERS, numbers_, strict=True):
                rows.append((*start, name, *triple))
    columns = ["exponents", "choices", "fit", "parameter", "estimate", "low", "high"]
    found = pd.DataFrame(rows, columns=columns)
    return found.sort_values(["exponents", "choices", "fit"], kind="stable", ignore_index=True)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Columns exponents, choices, parameter, truth, mean, sd, low, high, near, covered, fits: over
    the fits of `fits`; low and high hold the middle 95 % of the estimates."""
    true, rows = dict(zip(PARAMETERS, truth().tolist(), strict=True)), []
    keys = ["exponents", "choices", "parameter"]
    for (kind, n, name), own in table.groupby(keys, sort=False):
        estimate = own["estimate"].to_numpy()
        low, high = np.quantile(estimate, [0.025, 0.975])
        miss = np.abs(estimate - true[name])
        near = float((miss < NEAR[name]).mean()) if name in NEAR else float("nan")
        covered = float(((own["low"] <= true[name]) & (true[name] <= own["high"])).mean())
        spread = float(estimate.std(ddof=1)) if len(own) > 1 else float("nan")
        middle = (true[name], float(estimate.mean()), spread, low, high)
        rows.append((kind, n, name, *middle, near, covered, len(own)))
    columns = [*keys, "truth", "mean", "sd", "low", "high", "near", "covered", "fits"]
    return pd.DataFrame(rows, columns=columns)


def kinds(done: Sequence[dict], todo: Sequence[Task]) -> pd.DataFrame:
    """Columns exponents, choices, parameter, method, estimate, low, high: both kinds of interval of
    the same choices, the first of each size."""
    rows = []
    for task, one in zip(todo, done, strict=True):
        if one["resampled"] is None:
            continue
        for i, name in enumerate(NAMES):
            estimate, low, high = one["rows"][0][i]
            start = (task.exponents, task.n, name)
            rows.append((*start, "information", estimate, low, high))
            rows.append((*start, "resampling", estimate, *one["resampled"][i]))
    columns = ["exponents", "choices", "parameter", "method", "estimate", "low", "high"]
    found = pd.DataFrame(rows, columns=columns)
    return found.sort_values(["exponents", "choices"], kind="stable", ignore_index=True)
