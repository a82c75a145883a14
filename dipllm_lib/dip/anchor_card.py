"""The model card of an anchor: where its games come from, the split, settings, metrics, limits.

`facts` is the JSON-able summary that also lies in the header of the weights' file, with the
openings of the games, so that an opening book can be compared without them; `text` is the
card in Markdown. Both are functions of the data, the settings and the seed alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import atlas, boards, fidelity, human, notation
from dipllm_lib.dip.anchor import NeuralAnchor
from dipllm_lib.dip.human import Examples
from dipllm_lib.dip.softbot import SoftDumbBot
from dipllm_lib.run import seeding

RESAMPLES = 1000
SAMPLE = 400  # positions on which SoftDumbBot is measured
SOFT = (0.07, 0.02)  # its temperature and uniform share
JOINTS, RARE = 12, 0.005  # joint openings kept, and the least share of an order kept
BASELINES = ("uniform", "hold", "frequent")
MEASURES = ("accuracy", "exact", "nats")


def _sampled(examples: Examples, seed: int) -> Examples:
    rng = seeding.child(seed, "dip", "anchor", "baseline positions")
    rows = np.flatnonzero(np.isin(examples.boards.phase, (0, 2)))
    return examples.take(np.sort(rng.permutation(rows)[:SAMPLE]))


def measured(anchor: NeuralAnchor, train: Examples, test: Examples, seed: int) -> pd.DataFrame:
    """`fidelity.summary` of the anchor and of the baselines on the test games, with a first column
    `policy`; SoftDumbBot, and the anchor once more beside it, on a sample of movement positions.
    """
    rng = seeding.child(seed, "dip", "anchor", "intervals")
    given, sample = fidelity.counts(train), _sampled(test, seed)
    rows = {"anchor": fidelity.of_anchor(anchor, test)}
    rows |= {name: fidelity.of_baseline(name, test, given) for name in BASELINES}
    rows["anchor, sample"] = fidelity.of_anchor(anchor, sample)
    rows["SoftDumbBot, sample"] = fidelity.of_policy(SoftDumbBot(*SOFT), sample)
    tables = []
    for name, table in rows.items():
        found = fidelity.summary(table, rng, RESAMPLES)
        keep = found if name == "anchor" else found[found.years == "all"]
        tables.append(keep.assign(policy=name))
    result = pd.concat(tables, ignore_index=True)
    return result[["policy", *(column for column in result.columns if column != "policy")]]


def openings(parts: Sequence[Examples]) -> dict:
    """Per power how the games began: `games` with orders in Spring 1901, and the shares of the
    joint orders (texts in slot order, joined by ", ") and of each order, the most frequent ones.
    """
    joints = {name: Counter() for name in atlas.POWERS}
    for part in parts:
        first = (part.boards.phase == boards.SPRING_MOVES) & (part.boards.year == boards.FIRST_YEAR)
        for turn in np.flatnonzero(first[part.board]):
            given = part.orders[part.first[turn] : part.first[turn + 1]].tolist()
            texts = tuple(notation.to_text(order) for order in given)
            joints[atlas.POWERS[part.power[turn]]][texts] += 1
    result = {}
    for name, count in joints.items():
        total, orders = sum(count.values()), Counter()
        for texts, number in count.items():
            orders.update({text: number for text in texts})
        top = count.most_common(JOINTS)
        shares = {", ".join(texts): round(n / total, 5) for texts, n in top}
        singles = {text: round(n / total, 5) for text, n in sorted(orders.items())}
        singles = {text: share for text, share in singles.items() if share >= RARE}
        result[name] = {"games": total, "joint": shares, "orders": singles}
    return result


def facts(
    counts: Mapping[str, int], parts: list[Examples], settings: Mapping, seed: int,
    metrics: pd.DataFrame, source: str,
) -> dict:  # fmt: skip
    """What the header of the file says."""
    own = metrics[metrics.policy == "anchor"]
    keys = [f"{kind}, {years}" for kind, years in zip(own.kind, own.years)]
    values = own[[f"{m}{end}" for m in MEASURES for end in ("", "_low", "_high")]].round(6)
    return {
        "counts": dict(counts),
        "games": dict(zip(human.PARTS, (len(np.unique(part.game)) for part in parts))),
        "metrics": dict(zip(keys, values.to_dict("records"))),
        "openings": openings(parts),
        "seed": seed,
        "settings": dict(settings),
        "source": source,
    }


def _percent(row, name: str) -> str:
    """`55.1 (54.2-56.0)`; `-` where a policy has no such number."""
    values = [100 * getattr(row, f"{name}{end}") for end in ("", "_low", "_high")]
    return "–" if np.isnan(values[0]) else "{:.1f} ({:.1f}–{:.1f})".format(*values)


def _nats(row) -> str:
    values = [getattr(row, f"nats{end}") for end in ("", "_low", "_high")]
    return "–" if np.isnan(values[0]) else "{:.3f} ({:.3f}–{:.3f})".format(*values)


def _metrics(metrics: pd.DataFrame) -> list[str]:
    lines = [
        "| policy | phases | years | orders | top-1, % | whole power, % | nats per order |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in metrics.itertuples():
        cells = (row.policy, row.kind, row.years, f"{row.orders:,}", _percent(row, "accuracy"))
        lines.append(f"| {' | '.join((*cells, _percent(row, 'exact'), _nats(row)))} |")
    return lines


def _table(head: str, rows: Mapping) -> list[str]:
    lines = [f"| {head} |", "|---|---|"]
    for key, value in rows.items():
        lines.append(f"| {key} | {f'{value:,}' if isinstance(value, int) else value} |")
    return lines


INTRODUCTION = (
    "An explicit policy over legal joint orders of no-press Diplomacy, learned by imitation of"
    " recorded games: input is the position alone (no earlier orders, no messages), output the"
    " exact probability of every legal joint order in movement, retreat and adjustment phases."
    " Code: `dipllm_lib/dip/anchor.py`; load it with `anchor.load(path)`.\n"
)
PREPROCESSING = (
    "VIA without a matching convoy is read as a land move, an order that could not succeed as a"
    " hold, a unit without an order as holding. Left out: games that end in 1901 or 1902, turns"
    " of a power that ordered nothing, turns with too few removals.\n"
)
READING = (
    "Orders are predicted one after the other, the recorded orders before them given. Top-1:"
    " share of orders that were the most probable one. Whole power: share of turns with every"
    " order so. In brackets 95 % bootstrap intervals over whole games. `uniform`: expected"
    " values of the uniform policy; `hold`: hold, disband, waive; `frequent`: the candidate"
    " given most often in the training games. SoftDumbBot (temperature {}, uniform {}) is"
    " measured on {} movement positions, the anchor beside it on the same.\n"
)
LIMITS = (
    "- It sees no history and no messages, and cannot know alliances; players differ, so much"
    " of the remaining loss is not learnable from a position.",
    "- A unit that its player forgot counts as a hold, so holds are a little too likely.",
    "- Late and lopsided positions are rarer in the data than openings; see the rows by year.",
    "- It imitates; it does not look ahead. Its units sometimes contradict each other.",
)


def text(name: str, anchor: NeuralAnchor, metrics: pd.DataFrame, size: int, sha256: str) -> str:
    """The card; `anchor.card` holds `facts`, `size` and `sha256` are those of the file."""
    known, games = anchor.card, anchor.card["games"]
    settings = {f"`{key}`": str(value) for key, value in known["settings"].items()}
    lines = [
        f"# {name}\n",
        INTRODUCTION,
        f"- File: `{name}.safetensors`, {size:,} bytes, sha256 `{sha256}`; float32,"
        f" {anchor.parameters:,} weights.",
        f"- Source of the games: {known['source']}",
        f"- Split by whole games, seed {known['seed']}:"
        f" {games['train']:,} training, {games['validation']:,} validation, {games['test']:,} test"
        " games. The validation games were watched during the training, the test games were not.",
        f"- Refit, in one thread: {', then '.join(f'`{line}`' for line in known['commands'])}",
        "- The head of the file keeps these facts and the frequencies of the openings.\n",
        "## Preprocessing\n",
        PREPROCESSING,
        *_table("what | number", dict(sorted(known["counts"].items()))),
        "\n## Settings\n",
        *_table("setting | value", settings),
        "\n## Metrics on the test games\n",
        READING.format(*SOFT, SAMPLE),
        *_metrics(metrics),
        "\n## Limits\n",
        *LIMITS,
    ]
    return "\n".join(lines) + "\n"
