"""A value net pre-trained for the anchor `human`: outcomes of people's games, then of its own.

First recorded games of people. The target of a position is the share of the sum of squares that
each power holds when the year `last_year` is over, the horizon of the games that the net will
judge; later positions are left out. A record that stops in the year before counts with its last
centres, one that stops earlier is left out. Then games of the anchor with itself, whose first years
are played at temperature 1 (as `collect.anchor_game`). Notebook 01 goes on from there.

    python -m dipllm_lib.dip.human_value --games FOLDER --out FILE [--work FOLDER]

writes FILE (safetensors) and its model card beside it. Games: as in `human`; the same split.
"""

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from dipllm_lib.dip import anchor, atlas, boards, game, human, imitate, policies, value_fit
from dipllm_lib.dip.boards import Boards, centres
from dipllm_lib.dip.human import Examples
from dipllm_lib.dip.value import ValueNet, sos
from dipllm_lib.run import files, parallel, seeding

NAME = "value_human.safetensors"
BATCH = 20  # games of the anchor that are played together


@dataclass(frozen=True)
class Fit:
    """Settings of the shipped net."""

    value_hidden: int = 128
    value_epochs: int = 3
    value_batch: int = 512
    value_lr: float = 1e-3
    selfplay: int = 8000
    warm_years: int = 7
    temperature: float = 0.1
    last_year: int = 1908


def path() -> Path:
    """The shipped weights."""
    return anchor.human_path().with_name(NAME)


def load(where: Path | None = None) -> ValueNet:
    """The net of a file, the shipped one if none is named. ValueError for another file."""
    where = where or path()
    try:
        with safe_open(where, framework="pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}
    except SafetensorError as error:
        raise ValueError(f"{where.name}: not a safetensors file ({error})") from None
    return ValueNet.from_tensors(tensors)


def outcomes(examples: Examples, last_year: int) -> tuple[Boards, np.ndarray]:
    """Positions up to `last_year` and their targets (N, 7) float64, of the games that tell."""
    held, year = centres(examples.boards), examples.boards.year
    keep, targets = [], []
    for rows in np.split(np.arange(len(year)), np.flatnonzero(np.diff(examples.game)) + 1):
        inside = rows[year[rows] <= last_year]
        later = rows[len(inside) :]
        if not len(later) and year[rows[-1]] < last_year - 1:
            continue
        end = later[0] if len(later) else rows[-1]
        keep.append(inside)
        targets.append(np.repeat(sos(held[end])[None], len(inside), axis=0))
    if not keep:
        raise ValueError(f"no game reaches {last_year - 1}: there is no outcome to learn")
    return examples.boards.take(np.concatenate(keep)), np.concatenate(targets)


def play(task: tuple[int, int, int, Fit]) -> tuple[Boards, np.ndarray]:
    """(seed, first game, games, settings) -> positions of that many games of the anchor with itself
    and their outcomes; all of them begin with the same number of years at temperature 1.
    """
    seed, first, count, settings = task
    tau = anchor.human("anchor")
    warm = boards.FIRST_YEAR + first // count % settings.warm_years
    player = policies.Cooling(tau, tau.at(settings.temperature), warm)
    names = [("value", first + k) for k in range(count)]
    seats = [[player] * atlas.N_POWERS] * count
    return value_fit.examples(game.play(seats, seed, names, game.EndRules(settings.last_year)))


def selfplay(settings: Fit, seed: int, workers: int) -> list[tuple[Boards, np.ndarray]]:
    """`play` for all games of the settings, a batch at a time; whole batches can be held out."""
    tasks = [(seed, first, BATCH, settings) for first in range(0, settings.selfplay, BATCH)]
    return parallel.map(play, tasks, workers, 1, "games of the anchor")


def joined(parts: Sequence[tuple[Boards, np.ndarray]]) -> tuple[Boards, np.ndarray]:
    """Several lots of positions and outcomes as one."""
    return Boards.concat([b for b, _ in parts]), np.concatenate([t for _, t in parts])


def fit(
    parts: list[Examples], played: Sequence[tuple[Boards, np.ndarray]], settings, seed: int
) -> tuple[ValueNet, dict[str, pd.DataFrame]]:
    """The net, and its errors (`value_fit.errors`) on the test games and on every twentieth batch
    of its own games.
    """
    data, test = (outcomes(parts[k], settings.last_year) for k in (0, 2))
    net, _ = value_fit.train(data, test, settings, seed)
    held = joined(played[::20])
    rest = joined([lot for k, lot in enumerate(played) if k % 20])
    net, _ = value_fit.train(rest, held, settings, seed, net)
    sets = {"games of people": test, "games of the anchor": held}
    return net, {name: value_fit.errors(net, *lot) for name, lot in sets.items()}


def card(errors: Mapping, data: bytes, settings, seed: int, source: str) -> str:
    """The model card as text; errors: see `fit`."""
    digest = hashlib.sha256(data).hexdigest()
    lines = [
        "# value_human",
        "",
        "A value net for no-press Diplomacy: the position in, the share of the sum of squares of"
        f" supply centres that each power will hold after {settings.last_year} out, when all play"
        " the anchor `human`. Code: `dipllm_lib/dip/value.py`; load it with"
        " `human_value.load(path)`.",
        "",
        f"- File: `{NAME}`, {len(data):,} bytes, sha256 `{digest}`; float32,"
        f" {settings.value_hidden} units.",
        f"- First trained on games of people: {source}",
        f"- Then on {settings.selfplay:,} games of `anchor_human` with itself, seed {seed}: game"
        f" batches of {BATCH} begin with 0 to {settings.warm_years - 1} years at temperature 1 and"
        f" go on at {settings.temperature}.",
        f"- Each time {settings.value_epochs} epochs, batches of {settings.value_batch}, AdamW from"
        f" {settings.value_lr}. Games of people are split as for `anchor_human`; every twentieth"
        " batch of own games was held out.",
        "- Refit, in one thread for the training: `python -m dipllm_lib.dip.human_value --games"
        f" FOLDER --out FILE --seed {seed}`",
    ]
    for name, table in errors.items():
        lines += ["", f"## Errors on held-out {name}", "", *_table(table)]
    lines += [
        "",
        "`explained`: share of the variance of the outcomes that is gone; `present`: the same for"
        " the guess that the present shares stay.",
        "",
        "## Limits",
        "",
        f"- For games that are scored after {settings.last_year}; it knows no other end.",
        "- It values positions for players like its anchor, not for strong ones.",
    ]
    return "\n".join(lines) + "\n"


def _table(errors: pd.DataFrame) -> list[str]:
    lines = [
        "| year | positions | cross-entropy, nats | squared error | explained | present |",
        "|---|---|---|---|---|---|",
    ]
    for row in errors.itertuples():
        lines.append(
            f"| {row.years} | {row.positions:,} | {row.cross_entropy:.3f} | {row.squared_error:.4f}"
            f" | {row.explained:.2f} | {row.baseline_explained:.2f} |"
        )
    return lines


def refit(
    games: Path, out: Path, settings, seed: int, work: Path | None, source: str, workers: int
) -> None:
    """Fit on the games below `games`; write `out` and its card."""
    if work is None:
        examples, _ = human.examples(human.read(games))
    else:
        examples, _ = human.load(games, work)
    played = selfplay(settings, seed, workers)
    with seeding.torch_threads(1):
        net, errors = fit(imitate.parts_of(examples, seed), played, settings, seed)
    data = save(net.tensors(), {"last_year": str(settings.last_year)})
    files.write_bytes(out, data)
    files.write_text(out.with_suffix(".md"), card(errors, data, settings, seed, source))


def main(arguments: list[str] | None = None, settings: Fit = Fit()) -> int:
    """The command of the module's text. Returns the exit status, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m dipllm_lib.dip.human_value")
    parser.add_argument("--games", type=Path, required=True, help="folder of saved games")
    parser.add_argument("--out", type=Path, required=True, help="file to write, .safetensors")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="folder that keeps the compiled games")
    parser.add_argument(
        "--source", default=imitate.SOURCE, help="origin of the games, for the card"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes that play")
    asked = parser.parse_args(arguments)
    try:
        imitate.check_paths(asked.games, asked.out)
        given = (asked.work, asked.source, asked.workers)
        refit(asked.games, asked.out, settings, asked.seed, *given)
    except ValueError as error:
        print(f"human_value: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    # the module under its own name, from which worker processes can import `play`
    from dipllm_lib.dip import human_value

    sys.exit(human_value.main())
