"""The shipped `human` anchor: its file is that of its card, and it opens as people do."""

import hashlib

import numpy as np
import pytest

from dipllm_lib.dip import anchor, boards, orders
from dipllm_lib.dip import vocabulary as v


@pytest.fixture(scope="module")
def human():
    return anchor.human()


def test_the_shipped_file_is_that_of_its_card(human):
    path = anchor.human_path()
    card = path.with_suffix(".md").read_text(encoding="utf-8")
    data = path.read_bytes()
    assert f"{len(data):,} bytes, sha256 `{hashlib.sha256(data).hexdigest()}`" in card
    assert len(data) <= 6_000_000 and anchor.load(path).to_bytes() == data
    known = human.card["metrics"]["moves, all"]
    assert known["accuracy_low"] > 0.55
    assert f"{100 * known['accuracy']:.1f} ({100 * known['accuracy_low']:.1f}" in card
    for name in ("zond/godip-history", "no licence stated", "GPL-3.0"):
        assert name in card and name in human.card["source"]


def test_the_shipped_anchor_opens_as_people_do(human):
    """Shares of single opening orders, drawn and recorded, differ by little for all powers."""
    b = boards.start()
    for turn in orders.turns(b):
        book = human.card["openings"][turn.name]
        drawn = human.sample(turn, 1000, np.random.default_rng(turn.power))
        found = np.bincount(np.ravel(drawn), minlength=v.SIZE) / 1000
        wanted = np.zeros(v.SIZE)
        for text, share in book["orders"].items():
            wanted[orders.from_text(text)] = share
        assert np.abs(found - wanted).sum() / 2 / turn.slots < 0.12, turn.name  # total variation
        assert sum(book["joint"].values()) > 0.4
