"""One phase of one game as text: who proposed what to whom, the answers, and what became of it.

The phase is picked by a rule (`pick`), not by hand, from the tables of `press_log`. Of an agreement
each of the two powers kept it, broke it, could not keep it (no candidate meets the duty and keeps
the rest), or had no say in it (none of its legal orders could break or fulfil it).
"""

from collections.abc import Sequence

import pandas as pd

from dipllm_lib.dip import atlas, boards
from dipllm_lib.kto.press_study import Games

NAMES = tuple(name.title() for name in atlas.POWERS)
PLACE = ["game", "phase"]


def when(phase: int) -> str:
    """A movement phase in words: 3 is Fall 1902."""
    return f"{('Spring', 'Fall')[phase % 2]} {boards.FIRST_YEAR + phase // 2}"


def pick(letters: pd.DataFrame, terms: pd.DataFrame) -> tuple[int, int]:
    """(game, phase) to be told, from the rows of one arm: the phase with the fewest letters, of
    equals the first, among those with a yes, a no, and an agreement broken that could have been
    kept. Where no phase has all three, among those with most of them. ValueError without letters.
    """
    if letters.empty:
        raise ValueError("no letters to tell of: pick an arm with press")
    bad = terms[terms["broken"] & ~terms["fell"]]
    parts = (letters[letters["answer"] == "yes"], letters[letters["answer"] == "no"], bad)
    seen = [set(part[PLACE].itertuples(index=False, name=None)) for part in parts]
    counts = letters.groupby(PLACE).size()
    keys = [(-sum(place in one for one in seen), int(n), *place) for place, n in counts.items()]
    return tuple(int(number) for number in min(keys)[2:])


def account(played: Games, arm: str) -> str:
    """The picked phase of an arm as lines of text."""
    letters, terms = (t[t["arm"] == arm] for t in (played.letters, played.terms))
    game, phase = pick(letters, terms)
    said = letters[(letters["game"] == game) & (letters["phase"] == phase)]
    held = terms[(terms["game"] == game) & (terms["phase"] == phase)]
    lines = [f"{when(phase)}, game {game} of the arm {arm!r}: {len(said)} letters", ""]
    lines += _letters(said.sort_values(["sender", "recipient"]), held[held["since"] == phase])
    return "\n".join(lines + _before(held[held["since"] < phase]))


def _letters(said: pd.DataFrame, made: pd.DataFrame) -> list[str]:
    """A line per letter: pair, text, worth to both in points of SoS, answer, what became of it."""
    lines, size = [], int(said["text"].str.len().max())
    for row in said.itertuples():
        pair = f"{NAMES[row.sender]} to {NAMES[row.recipient]}"
        worth = f"{100 * row.worth_sender:+.2f} {100 * row.worth_recipient:+.2f}"
        own = made[
            (made["text"] == row.text)
            & made["power"].isin((row.sender, row.recipient))
            & made["partner"].isin((row.sender, row.recipient))
        ]
        told = f": {fate(own.to_dict('records'))}" if row.answer == "yes" else ""
        lines.append(f"{pair:<19}{row.text:<{size}}  {worth}  {row.answer}{told}")
    return lines


def _before(held: pd.DataFrame) -> list[str]:
    """A line per agreement that was made in an earlier phase."""
    rows: dict[tuple, list[dict]] = {}
    for row in held.sort_values(["since", "power", "partner", "text"]).to_dict("records"):
        pair = tuple(sorted((row["power"], row["partner"])))
        rows.setdefault((row["since"], *pair, row["text"]), []).append(row)
    lines = [
        f"{NAMES[a]} and {NAMES[b]}, {when(since)}:{text} {fate(parts)}"
        for (since, a, b, text), parts in sorted(rows.items())
    ]
    return ["", "In force from before", *lines] if lines else []


def fate(parts: Sequence[dict]) -> str:
    """What the powers that an agreement binds made of it; parts: their rows of `press_log.terms`
    in one phase. "both kept it", or a phrase for each. Where nobody ordered: "no orders"."""
    found = {NAMES[row["power"]]: _deed(row) for row in parts}
    if len(found) == 2 and len(set(found.values())) == 1:
        return f"both {next(iter(found.values()))}"
    return ", ".join(f"{name} {deed}" for name, deed in found.items()) or "no orders"


def _deed(row: dict) -> str:
    if row["broken"]:
        return "could not keep it" if row["fell"] else "broke it"
    return "kept it" if row["exposed"] else "had no say"
