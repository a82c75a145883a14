"""The register of discrepancies: where a text disagrees with itself, with code or with arithmetic.

An `Entry` says what stands on either side, which named switch chooses, its default, and which
tables show the other choice. Names of switches are

    dip.search_rule                   a field of the settings of a study; default: its cpu value
    lib.dip.hedge:rule(kappa)         an argument; lib stands for dipllm_lib
    lib.ipd.model_settings:ModelSettings.core     a field of a dataclass
    lib.kto.loss:literal_sign         a function, class or constant, chosen by name

and - where there is nothing to choose. `against`: text, code (released with the text) or
arithmetic. The entries are in `register_dip` and `register_rest`.
"""

from typing import NamedTuple

import pandas as pd

from dipllm_lib.run import register_dip, register_rest

COLUMNS = ("study", "number", "one", "other", "against", "switch", "default", "choice", "shown")


class Entry(NamedTuple):
    """A row of the register; `switch` may hold several names, with as many defaults, by commas."""

    study: str
    number: int
    one: str
    other: str
    against: str
    switch: str
    default: str
    choice: str
    shown: str


def entries() -> list[Entry]:
    """All entries by study and number."""
    listed = (("1", register_dip.ENTRIES), ("2", register_rest.IPD), ("3", register_rest.KTO))
    return [
        Entry(study, number, *row)
        for study, rows in listed
        for number, row in enumerate(rows, start=1)
    ]


def table() -> pd.DataFrame:
    """The register, columns COLUMNS."""
    return pd.DataFrame(entries(), columns=list(COLUMNS))
