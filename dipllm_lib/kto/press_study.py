"""The tables of the section on negotiation, from the logs of all games.

Each table has its own generator by name, so one can be computed without the others. Where powers
of two negotiators sit at a table, rows are those of the one that the arm is named after.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from dipllm_lib.kto import press_difference, press_log, press_metrics, press_phases
from dipllm_lib.kto.press import KINDS
from dipllm_lib.kto.press_arms import OFF, Arm, arms, logs
from dipllm_lib.run import seeding
from dipllm_lib.run.store import Shelf


class Games(NamedTuple):
    """The logs of some arms as tables, see `press_log`; resamples and seed of the intervals."""

    arms: list[Arm]
    letters: pd.DataFrame
    terms: pd.DataFrame
    seats: pd.DataFrame
    ends: pd.DataFrame
    resamples: int
    seed: int

    def rng(self, name: str):
        """The generator of a table."""
        return seeding.child(self.seed, "kto", "press", "table", name)

    def own(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of the negotiators that arms are named after."""
        names = {arm.name: arm.who.name for arm in self.arms if arm.who is not None}
        return table[table["negotiator"] == table["arm"].map(names)]


def play(shelf: Shelf) -> Games:
    """All games of the profile, resumable by game."""
    plan = arms(shelf.settings)
    return games(plan, logs(shelf, plan), shelf.settings.press_resamples, shelf.profile.seed)


def games(plan: Sequence[Arm], found: Sequence[dict], resamples: int, seed: int) -> Games:
    """The tables of logs."""
    tables = (press_log.letters, press_log.terms, press_log.seats, press_log.ends)
    return Games(list(plan), *(table(found) for table in tables), resamples, seed)


def overview(played: Games) -> pd.DataFrame:
    """What was played: arm, negotiator, others, effect, games, proposals, parsed (texts that were
    read back as one proposal; `press_log` refuses any other), agreements."""
    rows = []
    for arm in played.arms:
        terms = played.terms[played.terms["arm"] == arm.name]
        made = terms[["game", "since", "text", "power", "partner"]].drop_duplicates()
        sent = played.letters[played.letters["arm"] == arm.name]
        rows.append({
            "arm": arm.name,
            "negotiator": "–" if arm.who is None else arm.who.name,
            "others": arm.others.name if arm.way != "all" else "–",
            "effect": arm.effect,
            "games": arm.games,
            "proposals": len(sent),
            "parsed": int(sent["kind"].isin(KINDS[1:]).sum()),
            "agreements": len(made) // 2,
        })
    return pd.DataFrame(rows)


def behaviour(played: Games) -> pd.DataFrame:
    """All metrics of each arm's negotiators over all years: arm, negotiator, metric, value, low,
    high, n, games, unit, definition; rates of nothing are left out."""
    m, by = press_metrics, ["negotiator"]
    letters, terms, seats = (played.own(t) for t in (played.letters, played.terms, played.seats))
    given = (seats, by, played.rng("behaviour"), played.resamples)
    tables = {
        "proposals": m.sending(letters, *given),
        "acceptance": m.answers(letters, *given),
        "promise keeping": m.keeping(terms, *given),
        "keeping where possible": m.keeping(terms, *given, possible=True),
        "double dealing": m.double_dealing(terms, *given),
        "agreement length": m.lengths(terms, *given),
        "change after a breach": m.after_breach(terms, *given),
    }
    parts = [table.assign(metric=name) for name, table in tables.items()]
    found = pd.concat([*parts, m.forecasts(letters, *given)], ignore_index=True)
    found["definition"] = found["metric"].map(m.DEFINITIONS)
    columns = ["arm", "negotiator", "metric", "value", "low", "high", "n", "games", "unit"]
    return found[found["n"] > 0][[*columns, "definition"]].reset_index(drop=True)


def by_kind(played: Games) -> pd.DataFrame:
    """Proposals, acceptance and promise keeping of each kind of proposal and year: arm, negotiator,
    kind, year, metric, value, low, high, n, games, unit."""
    m, by = press_metrics, ["negotiator", "kind", "year"]
    letters, terms, seats = (played.own(t) for t in (played.letters, played.terms, played.seats))
    rest = (played.rng("by kind"), played.resamples)
    tables = {
        "proposals": m.sending(letters, seats, by, *rest),
        "acceptance": m.answers(letters, seats, by, *rest),
        "promise keeping": m.keeping(terms, seats, by, *rest),
    }
    parts = [table.assign(metric=name) for name, table in tables.items()]
    columns = ["arm", *by, "metric", "value", "low", "high", "n", "games", "unit"]
    return pd.concat(parts, ignore_index=True)[columns]


def acceptance(played: Games) -> pd.DataFrame:
    """Acceptance by kind over all years, of each arm's negotiators."""
    letters, seats = played.own(played.letters), played.own(played.seats)
    rng = played.rng("acceptance")
    return press_metrics.answers(letters, seats, ["negotiator", "kind"], rng, played.resamples)


def phases(played: Games) -> pd.DataFrame:
    """The three statistics, and the drift of goodwill: statistic, arm, negotiator, year (missing
    where all count), value, low, high, n, games. Silent stands for the games without press."""
    seats, silent = played.own(played.seats), played.seats[played.seats["arm"] == OFF]
    letters, terms = played.own(played.letters), played.own(played.terms)
    rest = (played.rng("phases"), played.resamples)
    parts = {
        "goodwill": press_phases.goodwill(letters, seats, *rest),
        "punishment": press_phases.punishment(played.letters, played.seats, *rest),
        "avalanche": press_phases.avalanche(terms, pd.concat([silent, seats]), *rest),
        "goodwill drift": press_phases.drift(letters, seats, *rest),
    }
    found = pd.concat([t.assign(statistic=k) for k, t in parts.items()], ignore_index=True)
    names = {arm.name: arm.who.name for arm in played.arms if arm.who is not None} | {OFF: "Silent"}
    found = found[found["negotiator"] == found["arm"].map(names)]
    columns = ["statistic", "arm", "negotiator", "alliance", "year", "triggered", "otherwise"]
    return found[[*columns, "value", "low", "high", "n", "games"]].reset_index(drop=True)


def differences(played: Games) -> pd.DataFrame:
    """SoS with press minus without, see `press_difference`."""
    rng = played.rng("difference")
    return press_difference.differences(played.ends, played.arms, rng, played.resamples)
