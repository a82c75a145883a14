"""The published numbers of DipLLM (Xu et al. 2025): the "paper" columns of our tables.

Every table has rows, columns and a number for each pair; `Published.long` gives it as columns row,
column, paper, paper_pm. `paper_pm` is the ± as printed, missing where none is printed. The text
calls it one standard error, the released script prints a variance, and the number of games is not
given: it is no interval and is not compared with ours.

Shares are in %, SoS is the share of the sum of squares without solo override. The games behind
Fig. 1 are in thousands, those of DORA, DNVI and Cicero estimated there from GPU use. Fig. 7 gives
probabilities. Table 5 (commercial models) is printed for completeness: it is not run here.
"""

from dataclasses import dataclass

import pandas as pd

CITATION = "Xu et al. 2025"
PAR = 100 / 7  # SoS of a player against six of its own kind, %
TIME_SHARE = (10.0, 20.0)  # time per turn of DipLLM in % of that of Cicero, from the text

FIVE = ("sos", "win", "most_sc", "survived", "defeated")
FOUR = ("sos", "win", "survived", "defeated")


@dataclass(frozen=True)
class Published:
    """One table or figure: values[r][c] belongs to rows[r] and columns[c], None where the paper
    has no number; pm: the printed ±, in the same shape, or empty.
    """

    title: str
    unit: str
    rows: tuple[str | int, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    pm: tuple[tuple[float, ...], ...] = ()

    def long(self) -> pd.DataFrame:
        """One row per number: row, column, paper, paper_pm (float, NaN where none is printed)."""
        found = [
            (row, column, self.values[r][c], self.pm[r][c] if self.pm else None)
            for r, row in enumerate(self.rows)
            for c, column in enumerate(self.columns)
            if self.values[r][c] is not None
        ]
        table = pd.DataFrame(found, columns=["row", "column", "paper", "paper_pm"])
        return table.astype({"paper": float, "paper_pm": float})

    def wide(self) -> pd.DataFrame:
        """The table as printed: index rows, columns columns, float."""
        return pd.DataFrame(self.values, self.rows, self.columns, dtype=float)


_AGENTS = ("DipLLM", "Cicero", "DNVI", "DORA", "DipNet")
_CHOOSERS = ("Prompt", "SFT", "DipNet", "DORA", "DNVI", "Cicero", "DipLLM")

# fmt: off
TABLES = {
    "Table 1": Published(
        "population of five agents", "%", _AGENTS, FIVE,
        (
            (23.0, 22.3, 29.3, 50.3, 27.4),
            (20.8, 20.5, 28.7, 50.1, 29.4),
            (6.6, 4.3, 5.0, 35.8, 59.9),
            (5.7, 4.7, 3.9, 33.0, 62.3),
            (1.8, 1.1, 1.1, 30.1, 68.8),
        ),
        (
            (0.1, 0.2, 0.2, 0.7, 0.1),
            (0.3, 0.2, 0.2, 0.5, 0.2),
            (0.1, 0.1, 0.1, 0.3, 0.7),
            (0.1, 0.1, 0.2, 0.6, 0.8),
            (0.1, 0.1, 0.1, 0.4, 0.7),
        ),
    ),
    "Table 2": Published(
        "against six DipNet: factorisation (AF) and fine-tuning (FT)", "%",
        ("no AF, no FT", "FT only", "AF only", "AF and FT"), FOUR,
        (
            (0.2, 0.0, 4.3, 95.7),
            (0.8, 0.0, 19.2, 80.8),
            (9.9, 6.7, 40.0, 53.3),
            (29.4, 25.2, 45.9, 29.0),
        ),
    ),
    "Table 5": Published(
        "with commercial models", "%", ("DipLLM", "o3-mini", "DeepSeek-R1", "GPT-4o"), FIVE,
        (
            (60.7, 69.7, 68.2, 27.1, 3.2),
            (16.3, 13.9, 11.7, 51.9, 34.2),
            (14.6, 10.8, 8.5, 49.3, 39.9),
            (3.7, 1.8, 2.5, 40.2, 57.9),
        ),
    ),
    "Table 6": Published(
        "against six Cicero, with search rollouts on top", "%", (0, 5, 10), FIVE,
        (
            (16.7, 13.1, 17.5, 47.1, 38.3),
            (18.1, 14.7, 19.3, 47.8, 37.5),
            (20.2, 15.6, 21.6, 47.4, 37.0),
        ),
    ),
    "Table 7": Published(
        "against six DipNet, other ways of fine-tuning", "%", ("DipLLM", "PPO", "DPO"), FIVE,
        (
            (29.3, 25.2, 29.3, 45.8, 29.0),
            (23.4, 20.2, 23.4, 45.4, 34.4),
            (1.2, 0.7, 1.3, 38.2, 61.1),
        ),
    ),
    "Fig. 1": Published(
        "games for training", "thousand games",
        ("DipNet", "DORA", "DNVI", "Cicero", "DipLLM"), ("data_games",),
        ((65.0,), (15.0,), (15.0,), (35.0,), (0.5,)),
    ),
    "Fig. 4": Published(
        "SoS of the one (row) against six (column)", "%", _CHOOSERS, _CHOOSERS,
        (
            (None, 12.5, 0.6, 0.3, 0.4, 0.3, 0.4),
            (17.6, None, 0.7, 0.4, 0.3, 0.3, 0.3),
            (83.3, 70.1, None, 0.1, 4.6, 0.9, 0.7),
            (88.7, 76.3, 11.8, None, 7.1, 2.0, 1.9),
            (89.0, 83.2, 15.6, 6.4, None, 2.1, 2.4),
            (87.9, 86.5, 24.1, 20.6, 25.5, None, 13.4),
            (89.0, 88.9, 29.4, 21.0, 25.0, 16.7, None),
        ),
    ),
    "Fig. 5": Published(
        "DipLLM against six Cicero, by their search iterations", "%", (1, 2, 4, 8, 16), ("sos",),
        ((16.7,), (16.6,), (16.4,), (15.7,), (15.3,)),
    ),
    "Fig. 6": Published(
        "SoS against six DipNet, by games for training", "%",
        (0, 100, 200, 300, 400, 500), ("DipLLM", "DipNet fine-tuned"),
        ((9.9, 14.3), (18.7, 16.1), (23.9, 16.9), (26.0, 19.1), (28.7, 20.6), (29.0, 22.3)),
    ),
    "Fig. 7": Published(
        "Germany's opening with A BER - KIE, F KIE - DEN: orders of A MUN", "probability",
        ("A MUN - SIL", "A MUN - RUH", "other"), ("before", "after", "target"),
        ((0.13, 0.54, 0.47), (0.15, 0.37, 0.42), (0.72, 0.09, 0.11)),
    ),
}
# fmt: on


def table(where: str) -> Published:
    """The numbers printed at `where` ("Table 1", "Fig. 4"). ValueError for an unknown place."""
    if where not in TABLES:
        raise ValueError(f"no published numbers at {where!r}: there are {', '.join(TABLES)}")
    return TABLES[where]
