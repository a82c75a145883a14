"""What is kept of a game with press, as JSON, and the same of many games as tidy tables.

    letters   a row per proposal: arm, game, phase, year, sender, recipient, negotiator (of the
              sender), kind, text, against, answer (yes, no, silence), worth_sender,
              worth_recipient (shares of SoS)
    terms     a row per agreement, power that it binds, and phase: arm, game, phase, year, power,
              negotiator, partner, since, kind, text, against, exposed, lapsed, broken, fell
    seats     a row per power and movement phase in which it has a unit: arm, game, phase, year,
              power, negotiator, partners, centres, sos, later (SoS a year on, or at the end if that
              comes first), gained (centres more after the next adjustment)
    ends      a row per power and game: arm, game, power, negotiator, sos, centres

Powers are numbers 0 to 6; phases count movement phases from 0. An arm is a name for a seating and
an effect; games of all arms have the same numbers and are paired by them.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.dip import boards
from dipllm_lib.dip.game import Game
from dipllm_lib.dip.value import sos
from dipllm_lib.kto import press
from dipllm_lib.kto.press_play import Table

ANSWERS = {True: "yes", False: "no", None: "silence"}
LETTER = (
    "phase", "sender", "recipient", "text", "answer", "worth_sender", "worth_recipient",
)  # fmt: skip
TERM = (
    "phase", "since", "proposer", "acceptor", "text", "power", "exposed", "lapsed", "broken",
    "fell",
)  # fmt: skip


def summary(played: Game, table: Table, arm: str, number: int) -> dict:
    """JSON-able: who sat where, the counts of centres, letters and terms of one game."""
    moves = np.flatnonzero(np.isin(played.boards.phase, boards.MOVES))
    held = boards.centres(played.boards)
    return {
        "arm": arm,
        "game": int(number),
        "negotiators": list(played.agents),
        "end": played.end,
        "centres": [held[k].tolist() for k in [*moves, -1]],
        "present": [np.flatnonzero(boards.units(played.boards)[k]).tolist() for k in moves],
        "letters": [
            [x.phase, x.sender, x.recipient, x.proposal.text, ANSWERS[x.answer], *x.worth]
            for x in table.letters
        ],
        "terms": [
            [x.phase, a.since, *a.pair, a.proposal.text, x.power]
            + [x.exposed, x.lapsed, x.broken, x.fell]
            for x in table.terms
            for a in (x.agreement,)
        ],
    }


def letters(logs: Sequence[dict]) -> pd.DataFrame:
    """All proposals of some games. ValueError if a text is none."""
    found = _rows(logs, "letters", LETTER, "sender")
    columns = ["arm", "game", "phase", "year", "sender", "recipient", "negotiator", "kind", "text"]
    return found[[*columns, "against", "answer", "worth_sender", "worth_recipient"]]


def terms(logs: Sequence[dict]) -> pd.DataFrame:
    """All agreements of some games, for each power and phase that they bound."""
    found = _rows(logs, "terms", TERM, "power")
    other = found["proposer"] + found["acceptor"] - found["power"]
    columns = ["arm", "game", "phase", "year", "power", "negotiator", "partner", "since", "kind"]
    flags = ["exposed", "lapsed", "broken", "fell"]
    return found.assign(partner=other)[[*columns, "text", "against", *flags]]


def _rows(logs: Sequence[dict], name: str, columns: Sequence[str], who: str) -> pd.DataFrame:
    """Rows of all games with arm, game, year, the negotiator of `who`, kind and against."""
    parts = [
        (log["arm"], log["game"], log["negotiators"][row[columns.index(who)]], *row)
        for log in logs
        for row in log[name]
    ]
    found = pd.DataFrame(parts, columns=["arm", "game", "negotiator", *columns])
    known = {text: press.parse(text) for text in sorted(found["text"].unique())}
    proposals = found["text"].map(known)
    return found.assign(
        year=boards.FIRST_YEAR + found["phase"].astype(int) // 2,
        kind=[one.kind for one in proposals],
        against=[one.against for one in proposals],
    )


def seats(logs: Sequence[dict]) -> pd.DataFrame:
    """What every power had in every movement phase, and what came of it."""
    rows = []
    for log in logs:
        held = np.array(log["centres"])
        shares, last = sos(held), len(held) - 1
        for phase, present in enumerate(log["present"]):
            for power in present:
                settled = held[min(phase + 2 - phase % 2, last), power]
                rows.append({
                    "arm": log["arm"],
                    "game": log["game"],
                    "phase": phase,
                    "year": boards.FIRST_YEAR + phase // 2,
                    "power": power,
                    "negotiator": log["negotiators"][power],
                    "partners": len(present) - 1,
                    "centres": held[phase, power],
                    "sos": shares[phase, power],
                    "later": shares[min(phase + 2, last), power],
                    "gained": settled - held[phase, power],
                })
    return pd.DataFrame(rows)


def ends(logs: Sequence[dict]) -> pd.DataFrame:
    """The end of every game for every power."""
    rows = []
    for log in logs:
        held = np.array(log["centres"][-1])
        for power, share in enumerate(sos(held)):
            rows.append({
                "arm": log["arm"],
                "game": log["game"],
                "power": power,
                "negotiator": log["negotiators"][power],
                "sos": share,
                "centres": held[power],
            })
    return pd.DataFrame(rows)
