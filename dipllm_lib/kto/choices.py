"""Binary choices between lotteries: read from a csv, written to one, simulated.

A lottery is (x1, p, x2): x1 with probability p, else x2; a sure amount has p = 1. Amounts are
differences from the reference point, in one currency throughout. The csv has one header and one row
per choice:

    a1,pa,a2,b1,pb,b2,choice
    40,0.5,0,15,1,0,b            40 or nothing against 15 for sure; the sure amount was chosen

Shapes: N choices, lotteries (N, 3).
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dipllm_lib.kto.prospect import ProspectParams, value, weight

COLUMNS = ("a1", "pa", "a2", "b1", "pb", "b2", "choice")
PROBABILITIES = ("pa", "pb")
KINDS = ("gain", "loss", "mixed")
CHANCES = np.array([0.01, 0.05, *(k / 10 for k in range(1, 10)), 0.95, 0.99])
LARGEST = 1000.0  # of simulated amounts


@dataclass(frozen=True, eq=False)
class Choices:
    """a, b: lotteries (N, 3) · chose_a: bool (N,)."""

    a: np.ndarray
    b: np.ndarray
    chose_a: np.ndarray

    def __len__(self) -> int:
        return len(self.chose_a)


def read(path: Path | str) -> Choices:
    """The choices of a csv file. ValueError with file, line, column and what is needed, for the
    first fault; FileNotFoundError without a file."""
    path = Path(path)
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text: str, name: str) -> Choices:
    """The choices of a csv text; `name` stands in front of error messages."""
    rows = list(csv.reader(io.StringIO(text)))
    if not rows or tuple(rows[0]) != COLUMNS:
        found = ",".join(rows[0]) if rows else "nothing"
        raise ValueError(f"{name}, line 1: need the header {','.join(COLUMNS)}, found {found}")
    if len(rows) < 2:
        raise ValueError(f"{name}: has a header but no choice")
    numbers, chose_a = [], []
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(COLUMNS):
            raise ValueError(f"{name}, line {line}: need {len(COLUMNS)} cells, found {len(row)}")
        place = f"{name}, line {line}"
        cells = zip(COLUMNS[:-1], row[:-1], strict=True)
        numbers.append([_number(cell, column, place) for column, cell in cells])
        if row[-1] not in ("a", "b"):
            raise ValueError(f"{place}, choice: need a or b, found {row[-1]!r}")
        chose_a.append(row[-1] == "a")
    table = np.array(numbers)
    return Choices(table[:, :3], table[:, 3:], np.array(chose_a))


def _number(cell: str, column: str, place: str) -> float:
    """A cell as a finite number, a probability where the column is one."""
    try:
        number = float(cell)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(f"{place}, {column}: need a finite number, found {cell!r}")
    if column in PROBABILITIES and not 0.0 <= number <= 1.0:
        raise ValueError(f"{place}, {column}: need a probability in [0, 1], found {cell}")
    return number


def to_csv(choices: Choices) -> str:
    """The csv text that `parse` reads back to the same numbers."""
    lines = [",".join(COLUMNS)]
    table = np.column_stack([choices.a, choices.b]).tolist()
    for numbers, chose_a in zip(table, choices.chose_a.tolist(), strict=True):
        lines.append(",".join([*map(repr, numbers), "a" if chose_a else "b"]))
    return "\n".join(lines) + "\n"


def problems(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """n pairs of lotteries, each (n, 3), a third each of gains, losses and both.

    Gains: one or two amounts from 1 to 1,000, uniform in the logarithm and rounded, against a sure
    amount of .4 to 1.4 of the expected value. Losses: the same with the other sign. Both: a gain
    and a loss against nothing, the expected gain 1 to 4 times the expected loss. Such problems are
    hard for somebody like the median person of Tversky and Kahneman 1992, so a choice tells much;
    the wide range of amounts tells exponents and loss aversion apart.
    """
    if n < len(KINDS):
        raise ValueError(f"n {n}: need at least {len(KINDS)} problems, one of each kind")
    sizes = np.round(np.exp(rng.uniform(0.0, np.log(LARGEST), (n, 2))))
    sizes[rng.random(n) < 0.5, 1] = 0.0
    p = CHANCES[rng.integers(len(CHANCES), size=n)]
    expected = p * sizes[:, 0] + (1.0 - p) * sizes[:, 1]
    sure = np.round(expected * rng.uniform(0.4, 1.4, n))
    sure = np.clip(sure, sizes.min(axis=1), sizes.max(axis=1))
    odds = np.exp(rng.uniform(0.0, np.log(4.0), n))
    gain = np.maximum(1.0, np.round(sizes[:, 0] * (1.0 - p) / p * odds))
    a, b = np.column_stack([sizes[:, 0], p, sizes[:, 1]]), np.column_stack([sure, p, sure])
    b[:, 1] = 1.0
    kind = np.arange(n) % len(KINDS)
    a[kind == 1] *= np.array([-1, 1, -1])
    b[kind == 1] *= np.array([-1, 1, -1])
    both = kind == 2
    a[both] = np.column_stack([gain, p, -sizes[:, 0]])[both]
    b[both] = np.array([0.0, 1.0, 0.0])
    return a + 0.0, b + 0.0  # + 0.0 turns -0.0 into 0.0


def values(lotteries: np.ndarray, params: ProspectParams) -> np.ndarray:
    """(N,) value of each lottery (N, 3) under cumulative prospect theory, as `prospect.prospect`
    one by one."""
    first, p, second = np.asarray(lotteries, dtype=np.float64).T
    high, low = np.maximum(first, second), np.minimum(first, second)
    p = np.where(first >= second, p, 1.0 - p)
    up, down = weight(p, params.gamma_gain), weight(1.0 - p, params.gamma_loss)
    gains = [value(np.maximum(x, 0.0), params) for x in (high, low)]
    losses = [value(np.minimum(x, 0.0), params) for x in (high, low)]
    return up * gains[0] + (1.0 - up) * gains[1] + down * losses[1] + (1.0 - down) * losses[0]


def simulate(n: int, params: ProspectParams, slope: float, rng: np.random.Generator) -> Choices:
    """n choices among `problems` of somebody with these parameters, who takes a with probability
    σ(slope (V_a - V_b)). ValueError for a slope that is not above 0."""
    if not (np.isfinite(slope) and slope > 0):
        raise ValueError(f"slope {slope}: need a finite number above 0")
    a, b = problems(n, rng)
    z = slope * (values(a, params) - values(b, params))
    chose_a = rng.random(n) < 1.0 / (1.0 + np.exp(np.clip(-z, -700, 700)))
    return Choices(a, b, chose_a)
