"""What tables and figures become when a run is kept as the reference run.

    tables    csv as the run wrote them; above PLAIN bytes packed with gzip, without a time stamp
    figures   PNG with at most WIDE pixels across and a palette of COLOURS; the source hash is kept
              in the text field `source`. The manifest holds the hash of the run's own picture.
    BENCH     the cost table of `bench all --csv`, if there is one; no run makes it, so it stays

Games, weights, tex and PDF are not kept: a run makes them again.
"""

import gzip
import io
import re
import socket
from pathlib import Path

import pandas as pd
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dipllm_lib.run import files, tables
from dipllm_lib.run.places import Refused

BENCH = "bench.csv"
PLAIN = 60_000  # bytes of a table that is kept as plain csv
WIDE, COLOURS = 900, 128
LIMIT_PICTURE, LIMIT_COPY = 150_000, 1_000_000  # bytes of one file
LIMIT_SMALL = 5_000_000  # bytes of all tables and figures
HOMES = r"/(?:home|Users|root|tmp)/\w|[A-Za-z]:\\+Users\b"


def write_table(folder: Path, name: str, csv: bytes) -> None:
    """`name`.csv in `folder`, or `name`.csv.gz above PLAIN bytes."""
    if len(csv) <= PLAIN:
        files.write_bytes(folder / f"{name}.csv", csv)
    else:
        files.write_bytes(folder / f"{name}.csv.gz", gzip.compress(csv, 9, mtime=0))


def table_text(folder: Path, name: str) -> str | None:
    """The csv text of a kept table, or None if `folder` does not have it."""
    plain, packed = folder / f"{name}.csv", folder / f"{name}.csv.gz"
    if plain.exists():
        return plain.read_text(encoding="utf-8")
    return gzip.decompress(packed.read_bytes()).decode("utf-8") if packed.exists() else None


def texts(folder: Path) -> list[tuple[str, str]]:
    """(file name, text) of every file in a folder of kept data."""
    found = []
    for path in files.inside(folder):
        data = path.read_bytes()
        found.append((
            path.name,
            (gzip.decompress(data) if path.suffix == ".gz" else data).decode(),
        ))
    return found


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """A kept table. Raises Refused if `folder` does not have it."""
    text = table_text(folder, name)
    if text is None:
        raise Refused(f"{folder.parent.name}/{folder.name} has no table {name}")
    return tables.from_csv(text)


def kept_tables(folder: Path) -> list[str]:
    """Names of the tables of a run in a reference folder, sorted."""
    return sorted(p.name.partition(".")[0] for p in folder.glob("*.csv*") if p.name != BENCH)


def picture(png: bytes, source: str) -> bytes:
    """The figure as it is kept, with the source hash of its run as a text field."""
    bitmap = Image.open(io.BytesIO(png)).convert("RGB")
    wide, high = bitmap.size
    if wide > WIDE:
        size = (WIDE, round(high * WIDE / wide))
        bitmap = bitmap.resize(size, Image.Resampling.LANCZOS)
    palette = bitmap.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    fields, out = PngInfo(), io.BytesIO()
    fields.add_text("source", source)
    palette.save(out, format="png", optimize=True, pnginfo=fields)
    return out.getvalue()


def picture_source(path: Path) -> str | None:
    """The source hash that a kept figure carries."""
    with Image.open(path) as bitmap:
        return bitmap.text.get("source")


def machine_words(*folders: Path) -> re.Pattern:
    """What no kept text may hold: home folders, the run's own folders, this machine's name.

    A host name counts only if it has a digit, a dot or a hyphen; others are words of the language.
    """
    words = [HOMES, *(re.escape(str(folder)) for folder in folders)]
    host = socket.gethostname()
    if re.search(r"[\d.-]", host):
        words.append(rf"\b{re.escape(host)}\b")
    return re.compile("|".join(words))


def check_text(text: str, where: str, words: re.Pattern) -> None:
    """Raises Refused with line and finding if `text` names a path or host of this machine."""
    for number, line in enumerate(text.splitlines(), 1):
        found = words.search(line)
        if found:
            part = line[max(0, found.start() - 20) : found.end() + 20].strip()
            raise Refused(f"{where}, line {number} names a place of this machine: {part}")


def check_sizes(small: list[Path], copies: list[Path]) -> None:
    """Raises Refused if a kept file, or tables and figures together, are above their limit."""
    limits = [(path, LIMIT_PICTURE) for path in small if path.suffix == ".png"]
    for path, limit in limits + [(path, LIMIT_COPY) for path in copies]:
        size = path.stat().st_size
        if size > limit:
            raise Refused(f"{path.name} has {size} bytes, above the limit of {limit}")
    total = sum(path.stat().st_size for path in small)
    if total > LIMIT_SMALL:
        raise Refused(f"tables and figures have {total} bytes, above the limit of {LIMIT_SMALL}")
