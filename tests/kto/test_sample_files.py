"""Splits by episode, one shuffle, and lines that come back."""

from dataclasses import replace

import numpy as np
import pytest

from dipllm_lib.kto import sample_files
from dipllm_lib.kto.labels import SETTINGS, label
from dipllm_lib.kto.policies import Context
from dipllm_lib.run import seeding

OFFER = Context(("Ultimatum", "A"), "Ultimatum. Pie 100. I offer", (" 0.", " 40.", " 100."))
FIRST = label(OFFER, 1, 0.6, 0.5, 1.0, SETTINGS["A"], ("Ultimatum", "proposer", 0, 0))
SAMPLES = [
    replace(FIRST, action=k % 3, desirable=k % 2 == 0, episode=k // 2, round=k % 2)
    for k in range(40)
]


def rng(name: str) -> np.random.Generator:
    return seeding.child(0, "kto", "test", name)


def test_a_split_keeps_episodes_together_at_85_to_15():
    training, held_out = sample_files.split(SAMPLES, rng("split"))
    assert {s.episode for s in training}.isdisjoint(s.episode for s in held_out)
    assert len({s.episode for s in training}) == 17 and len(training) == 34
    assert sorted(training + held_out, key=SAMPLES.index) == SAMPLES
    again = sample_files.split(SAMPLES, rng("split"))
    assert again == (training, held_out)
    assert sample_files.split(SAMPLES, rng("other")) != again
    with pytest.raises(ValueError, match="at least two episodes"):
        sample_files.split(SAMPLES[:2], rng("split"))


def test_same_seed_same_file(tmp_path):
    for name in ("a", "b"):
        sample_files.write(sample_files.shuffled(SAMPLES, rng("order")), tmp_path / name)
    first = (tmp_path / "a").read_bytes()
    assert first == (tmp_path / "b").read_bytes()
    sample_files.write(sample_files.shuffled(SAMPLES, rng("another")), tmp_path / "c")
    assert sorted((tmp_path / "c").read_bytes().splitlines()) == sorted(first.splitlines())
    assert (tmp_path / "c").read_bytes() != first


def test_lines_read_back(tmp_path):
    assert sample_files.write(SAMPLES[:2], tmp_path / "x.jsonl") == 2
    text = (tmp_path / "x.jsonl").read_text(encoding="utf-8")
    assert text.splitlines()[0] == (
        '{"completion":" 0.","label":true,"prompt":"Ultimatum. Pie 100. I offer"}'
    )
    assert sample_files.read(tmp_path / "x.jsonl") == sample_files.lines(SAMPLES[:2])


@pytest.mark.parametrize(
    "line", ['{"prompt": "a"}', '{"prompt":"a","completion":"b","label":1}', "3"]
)
def test_other_lines_are_refused(tmp_path, line):
    (tmp_path / "x.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="x.jsonl, line 1"):
        sample_files.read(tmp_path / "x.jsonl")
