"""Files as the reference run keeps them: packed tables, small pictures, no names of a machine."""

import gzip

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from dipllm_lib.run import reference_files as kept
from dipllm_lib.run.places import Refused


def test_large_tables_are_packed(tmp_path):
    rows = pd.DataFrame({"x": np.arange(20_000)})
    csv = rows.to_csv(index=False).encode()
    assert len(csv) > kept.PLAIN
    kept.write_table(tmp_path / "r", "01_large", csv)
    kept.write_table(tmp_path / "r", "01_small", csv[:100])
    assert kept.kept_tables(tmp_path / "r") == ["01_large", "01_small"]
    packed = tmp_path / "r" / "01_large.csv.gz"
    assert gzip.decompress(packed.read_bytes()) == csv
    assert packed.read_bytes()[4:8] == b"\0\0\0\0"  # no time
    assert kept.read_table(tmp_path / "r", "01_large").equals(rows)
    assert pd.read_csv(packed).equals(rows)
    assert dict(kept.texts(tmp_path / "r")) == {
        "01_large.csv.gz": csv.decode(),
        "01_small.csv": csv[:100].decode(),
    }
    assert kept.table_text(tmp_path / "r", "01_small") == csv[:100].decode()
    with pytest.raises(Refused, match="has no table 01_none"):
        kept.read_table(tmp_path / "r", "01_none")


def test_the_cost_table_is_no_table_of_a_run(tmp_path):
    for name in (kept.BENCH, "01_small.csv", "02_large.csv.gz"):
        (tmp_path / name).write_bytes(b"")
    assert kept.kept_tables(tmp_path) == ["01_small", "02_large"]


def test_pictures(tmp_path):
    """1,800 x 300 pixels become 900 x 150; a small picture keeps its size; equal bytes twice."""
    for wide, size in ((1800, (900, 150)), (600, (600, 300))):
        pixels = np.full((300, wide, 3), 255, np.uint8)
        pixels[100:200, 100:200] = (0, 114, 178)
        Image.fromarray(pixels).save(tmp_path / "x.png")
        png = (tmp_path / "x.png").read_bytes()
        small = kept.picture(png, "abc")
        assert small == kept.picture(png, "abc") != kept.picture(png, "abd")
        (tmp_path / "y.png").write_bytes(small)
        with Image.open(tmp_path / "y.png") as found:
            assert (found.size, found.mode) == (size, "P")
            place = (150 * size[0] // wide, 150 * size[0] // wide)
            assert (
                np.abs(np.subtract(found.convert("RGB").getpixel(place), (0, 114, 178))).max() < 8
            )
        assert kept.picture_source(tmp_path / "y.png") == "abc"


@pytest.mark.parametrize(
    ("host", "bad"), [("vm", False), ("node-17", True), ("a.example.org", True)]
)
def test_names_of_this_machine(tmp_path, monkeypatch, host, bad):
    monkeypatch.setattr(kept.socket, "gethostname", lambda: host)
    words = kept.machine_words(tmp_path)
    assert bool(words.search(f"made on {host} in a second")) is bad
    assert words.search(f"{tmp_path}/x") and not words.search("data/cpu/01_sum.csv, a/b, e.g. C:")
