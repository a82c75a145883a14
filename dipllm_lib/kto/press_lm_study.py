"""Games with one power that negotiates with the language model, and what came of them.

In game g of each arm power g mod 7 negotiates in one of three ways, the other six are
RuleNegotiators (called Partner here, so that no row mixes them with the seat that is compared):

    LM seat       LMNegotiator
    Rule seat     RuleNegotiator, the same seeds
    Silent seat   Silent, the same seeds

All orders come from the anchor's search, under the effect `priced`; the seat's own promises cost
eta if it is the language model, and are kept if it is a RuleNegotiator, which is that one's way.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dipllm_lib.dip import game
from dipllm_lib.kto import press_arms, press_difference, press_log, press_metrics, press_study
from dipllm_lib.kto.lm_negotiator import LMNegotiator
from dipllm_lib.kto.negotiators import RuleNegotiator, Silent
from dipllm_lib.kto.press_arms import Arm
from dipllm_lib.kto.press_play import Table, play
from dipllm_lib.kto.press_prompts import PROPOSAL, REPLY
from dipllm_lib.kto.press_settings import SceneSettings
from dipllm_lib.kto.press_study import Games
from dipllm_lib.kto.press_training import Learned
from dipllm_lib.kto.press_verdicts import FEWEST
from dipllm_lib.run import stats
from dipllm_lib.run.store import Shelf

LM, RULE, SILENT = ARMS = "LM seat", "Rule seat", "Silent seat"
PAIRS = ((LM, SILENT), (LM, RULE), (RULE, SILENT))


class Partner(RuleNegotiator):
    """A RuleNegotiator on a seat that is not compared."""

    name = "Partner"


class Study(NamedTuple):
    """The games as tables, and what the language model said: columns of `lm_negotiator.Note`,
    with game."""

    games: Games
    notes: pd.DataFrame


def arms(count: int, who: LMNegotiator) -> list[Arm]:
    """The three arms."""
    seats = {LM: who, RULE: RuleNegotiator(), SILENT: Silent()}
    return [
        Arm(name, "one", seat, Partner(), "priced", count, trial=True)
        for name, seat in seats.items()
    ]


def play_all(shelf: Shelf, learned: Learned) -> Study:
    """All games of the profile, each kept as a task."""
    settings, profile = shelf.settings, shelf.profile
    scene, last = SceneSettings.of(settings), settings.press_lm_last_year
    who = LMNegotiator(learned.executor, learned.opponent)
    plan, numbers = arms(settings.press_lm_games, who), range(settings.press_lm_games)
    found = [
        shelf.task(f"lm.{g}", functools.partial(play_lm, learned, g, profile.seed, scene, last))
        for g in numbers
    ]
    tasks = [(arm, g, profile.seed, scene, last) for arm in plan[1:] for g in numbers]
    keys = [f"lm-control.{k}.{g}" for k in (1, 2) for g in numbers]
    logs = [one["log"] for one in found]
    logs += shelf.tasks(press_arms.play_one, tasks, keys, "games of the controls")
    games = press_study.games(plan, logs, settings.press_resamples, profile.seed)
    notes = [{"game": g} | note for g, one in zip(numbers, found) for note in one["notes"]]
    return Study(games, pd.DataFrame(notes))


def play_lm(learned: Learned, number: int, seed: int, scene: SceneSettings, last_year: int) -> dict:
    """One game of the arm LM: log (see `press_log`) and notes of the language model."""
    who = LMNegotiator(learned.executor, learned.opponent)
    arm = arms(1, who)[0]
    names = ("press", number)
    seats = arm.seats(number)
    table = Table(seats, press_arms.minds(scene), arm.effect, last_year, seed, names)
    played = play(table, game.EndRules(last_year))
    log = press_log.summary(played, table, arm.name, number)
    return {"log": log, "notes": [note._asdict() for note in who.diary]}


def overview(study: Study) -> pd.DataFrame:
    """What was played, as `press_study.overview`."""
    return press_study.overview(study.games)


def said(study: Study) -> pd.DataFrame:
    """What the language model said: kind, decisions, probability (geometric mean of what was
    drawn), spoken (share of proposals that are not nothing, or of replies that are yes)."""
    rows = []
    for kind, silence in ((PROPOSAL, " nothing."), (REPLY, " no.")):
        own = study.notes[study.notes["kind"] == kind]
        chance = float(np.exp(own["log_prob"].mean()))
        spoken = float((own["text"] != silence).mean()) if len(own) else float("nan")
        row = {"kind": kind, "decisions": len(own), "probability": chance, "spoken": spoken}
        rows.append(row)
    return pd.DataFrame(rows)


def behaviour(study: Study) -> pd.DataFrame:
    """`press_study.behaviour` of the seats, with the replies they gave and, for the language model,
    the metrics of its own forecasts."""
    games = study.games
    rest = (games.rng("learned"), games.resamples)
    letters = games.own(games.letters)
    received = replies(games)
    given = press_metrics.answers(received, games.seats, ["negotiator"], *rest)
    own = forecast_letters(study, letters)
    told = press_metrics.forecasts(own, games.seats, ["negotiator"], *rest, chance="chance")
    told = told[told["metric"].str.startswith("forecast")]
    told = told.assign(metric="LM " + told["metric"])
    found = pd.concat([given.assign(metric="says yes"), told], ignore_index=True)
    found["definition"] = found["metric"].map(DEFINITIONS)
    every = press_study.behaviour(games)
    return pd.concat([every, found[found["n"] > 0][every.columns]], ignore_index=True)


DEFINITIONS = {
    "says yes": "yes / proposals received",
    "LM forecast top-1": "answers that the opponent adapter tells, yes if P(yes) >= 1/2 / answers",
    "LM forecast Brier": "mean squared error of the opponent adapter's P(yes)",
}


def replies(games: Games) -> pd.DataFrame:
    """The letters that the compared seats received, their recipient as the negotiator."""
    seat = games.own(games.seats)[["arm", "game", "phase", "power", "negotiator"]]
    letters = games.letters.drop(columns="negotiator")
    keys = ["arm", "game", "phase", "recipient"]
    return letters.merge(seat.rename(columns={"power": "recipient"}), on=keys)


def forecast_letters(study: Study, letters: pd.DataFrame) -> pd.DataFrame:
    """The letters of the language model with its forecasts: column chance."""
    notes = study.notes[study.notes["chance"].notna()]
    names = {"power": "sender", "partner": "recipient"}
    columns = ["game", "phase", "power", "partner", "chance"]
    own = letters[letters["arm"] == LM]
    return own.merge(notes[columns].rename(columns=names), on=["game", "phase", *names.values()])


def phases(study: Study) -> pd.DataFrame:
    """The three statistics of the seats, as `press_study.phases`."""
    return press_study.phases(study.games)


def differences(study: Study) -> pd.DataFrame:
    """SoS of the seat at the end in one arm minus another, paired by game: arm, minus, value, low,
    high (shares of SoS), games, changed (whether the interval excludes 0, of FEWEST games or
    more)."""
    games, rows = study.games, []
    rng = games.rng("learned difference")
    for first, second in PAIRS:
        a, b = (seat_shares(games.ends, arm) for arm in (first, second))
        strata = a.index.to_numpy() % 7 if len(a) > 7 else None
        mean, low, high = stats.paired_interval(a, b, rng, games.resamples, strata)
        row = {"arm": first, "minus": second, "value": mean, "low": low, "high": high}
        changed = len(a) >= FEWEST and (low > 0 or high < 0)
        rows.append(row | {"games": len(a), "changed": changed})
    return pd.DataFrame(rows)


def seat_shares(ends: pd.DataFrame, arm: str) -> pd.Series:
    """SoS of the compared seat by game."""
    shares = press_difference.shares(ends, arm)
    return pd.Series({g: shares.loc[g, press_arms.negotiating("one", g)[0]] for g in shares.index})


def beside(learned: pd.DataFrame, scripted: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Phases of the seats beside those of some scripted arms."""
    return pd.concat([learned, scripted[scripted["arm"].isin(names)]], ignore_index=True)


def summary(measures: pd.DataFrame, behaviour: pd.DataFrame, difference: pd.DataFrame) -> str:
    """What came out, a line each: worth of messages by stage, forecasts, promises, SoS."""
    lines = []
    for kind in (PROPOSAL, REPLY):
        own = measures[measures["kind"] == kind]
        told = ", ".join(f"{row.stage} {row.worth:.2f}" for row in own.itertuples())
        rule, best = own[["rule", "best"]].iloc[0]
        lines.append(f"worth of a {kind}, points: {told}; script {rule:.2f}, best {best:.2f}")
    told = behaviour[behaviour["arm"] == LM].set_index("metric")["value"]
    names = ("LM forecast top-1", "base rate top-1", "LM forecast Brier", "base rate Brier")
    names += ("acceptance", "promise keeping", "double dealing")
    lines.append(", ".join(f"{name} {told[name]:.3f}" for name in names if name in told))
    for row in difference.itertuples():
        points = " ".join(f"{100 * x:+.2f}" for x in (row.value, row.low, row.high))
        lines.append(f"SoS, {row.arm} - {row.minus}, points, value and interval: {points}")
    return "\n".join(lines)
