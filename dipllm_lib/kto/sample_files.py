"""Samples in files: split by episode, one named shuffle, and the lines that TRL accepts.

    {"prompt": "Ultimatum. ... I offer", "completion": " 40.", "label": true}

Decisions of one episode are never on both sides of a split. Nothing is duplicated to balance the
classes, since two copies would meet in one batch of z0. The order is drawn once, by a generator
that carries a name: samplers that read the file in order then mix labels in every batch.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from dipllm_lib.kto.labels import Sample
from dipllm_lib.run import files

TRAINING = 0.85
LINE = {"prompt": str, "completion": str, "label": bool}


def split(
    samples: Sequence[Sample], rng: np.random.Generator, share: float = TRAINING
) -> tuple[list[Sample], list[Sample]]:
    """(training, held out), by game and episode; in the order given.

    share: of the episodes for training, rounded, at least one each. ValueError for one episode.
    """
    episodes = sorted({(s.game, s.episode) for s in samples})
    if len(episodes) < 2:
        raise ValueError("a split by episode needs at least two episodes")
    count = min(max(round(share * len(episodes)), 1), len(episodes) - 1)
    chosen = {episodes[k] for k in rng.permutation(len(episodes))[:count].tolist()}
    inside = [(s.game, s.episode) in chosen for s in samples]
    training = [s for s, own in zip(samples, inside, strict=True) if own]
    return training, [s for s, own in zip(samples, inside, strict=True) if not own]


def shuffled(samples: Sequence[Sample], rng: np.random.Generator) -> list[Sample]:
    """The samples in an order drawn once."""
    return [samples[k] for k in rng.permutation(len(samples)).tolist()]


def lines(samples: Iterable[Sample]) -> list[dict]:
    """Rows prompt, completion, label; the prompt and the legal text joined are what is read."""
    return [
        {"prompt": s.context.prompt, "completion": s.text, "label": bool(s.desirable)}
        for s in samples
    ]


def write(samples: Iterable[Sample], path: Path) -> int:
    """One line a sample, utf-8, sorted keys; returns their number. The same samples, same bytes."""
    rows = lines(samples)
    files.write_text(Path(path), "".join(files.to_json(row) + "\n" for row in rows))
    return len(rows)


def read(path: Path) -> list[dict]:
    """The rows of `write`. ValueError with the line number for anything else."""
    rows = []
    for number, text in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(text)
        good = isinstance(row, dict) and set(row) == set(LINE)
        if not (good and all(type(row[key]) is kind for key, kind in LINE.items())):
            raise ValueError(f"{Path(path).name}, line {number}: need prompt, completion and label")
        rows.append(row)
    return rows
