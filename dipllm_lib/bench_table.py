"""The cost table as one table: rows of several benches, as lines, as JSON and as a csv.

A row has the fields of `FIELDS`: the bench that measured it, what was done, how often in a unit of
time by ours and by the peer, that unit, ours / peer, and the machine. Ours and peer of a row are
measured in one run, one after the other; a ratio above 1 means that ours is faster. The csv is what
`data/reference/bench.csv` holds; it has four significant digits, more than two runs share.
"""

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dipllm_lib import bench
from dipllm_lib.run import files, provenance

ALL = "all"
FIELDS = ("bench", "name", "ours", "peer", "unit", "ratio", "machine")
NUMBERS = ("ours", "peer", "ratio")


def chosen(names: list[str]) -> list[str]:
    """The benches that are meant: all of them for no name and for `all`, each once.

    Raises ValueError for a name that no bench has.
    """
    unknown = sorted(set(names) - set(bench.BENCHES) - {ALL})
    if unknown:
        raise ValueError(f"no bench {', '.join(unknown)}: there are {', '.join(bench.BENCHES)}")
    return list(bench.BENCHES) if not names or ALL in names else list(dict.fromkeys(names))


def machine() -> str:
    """One line: processor, cores, and what `bench.machine` says of system and versions."""
    return f"{provenance.cpu_model()}, {os.cpu_count()} cores; {bench.machine()}"


def measured(names: list[str], quick: bool, note: Callable[[str], None]) -> Iterator[dict]:
    """The rows of the named benches, each as soon as its bench is done."""
    where = machine()
    for name in names:
        for row in bench.BENCHES[name](quick, note):
            yield {"bench": name, **row, "machine": where}


def heading() -> str:
    """The names of the columns of `line`."""
    return f"{'name':<44} {'ours':>12} {'peer':>12} {'unit':<14} {'ratio':>8}"


def line(row: dict) -> str:
    """A row to read, without bench and machine."""
    return "{name:<44} {ours:>12.4g} {peer:>12.4g} {unit:<14} {ratio:>8.3g}".format(**row)


def to_csv(rows: Iterable[dict]) -> str:
    """The table as csv, numbers with four significant digits."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(FIELDS)
    for row in rows:
        table.writerow(f"{row[f]:.4g}" if f in NUMBERS else row[f] for f in FIELDS)
    return text.getvalue()


def save(rows: Iterable[dict], path: Path) -> None:
    """Write the csv. Raises OSError where no file can be written."""
    files.write_text(path, to_csv(rows))
