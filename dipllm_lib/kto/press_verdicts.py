"""What the games say to the statements about negotiation, from the tables of `press_study`.

    K14   press changes the share of the sum of squares of a pair that negotiates alone
    K15   the three phases (`press_phases`), in the scripted negotiator, against the controls, and
          in the learned one (`press_lm_study`), in games of its own

Verdicts: `shown` and `reversed` where a 95 % interval lies wholly on a side of the line, `open`
where it holds the line, `not measured` where a profile is too short. A control that should not move
is `shown` where its interval holds 0, and `reversed` where it moved. Goodwill of two arms is
compared by whether their intervals overlap.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dipllm_lib.kto.press_arms import OFF

LEARNED, CONTROL = "LM seat", "Rule seat"
FEWEST = 7  # games behind a verdict on a learned negotiator
SCRIPT, RANDOM = "three PhasedNegotiator", "three Random"
BINDING = f"{SCRIPT}, binding"
COLUMNS = ["claim", "statement", "arm", "year", "value", "low", "high", "verdict"]


def verdicts(
    differences: pd.DataFrame, phases: pd.DataFrame, learned: pd.DataFrame
) -> pd.DataFrame:
    """A row per statement: claim, statement, arm, year (missing where all count), value, low, high
    (shares), verdict. differences, phases: of `press_study`; learned: of `press_lm_study.phases`.
    """
    pair = differences[(differences["arm"] == "pair") & (differences["measure"] == "negotiators")]
    first = pair.iloc[0]
    rows = [
        _row("K14", "SoS of the pair with press - without is not 0", first, changed(first)),
        *_goodwill(phases),
        *_punishment(phases),
        *_avalanche(phases),
        *_learned(learned, _lines(phases, "goodwill", RANDOM).iloc[0]),
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def told(table: pd.DataFrame, arms: Sequence[str], scale: float = 1.0) -> str:
    """The rows of some arms in words, "all seven: 0.973 [0.968, 0.977], n 14032", a line each; an
    arm without a row is left out. scale: 100 for points of a share.
    """
    lines, digits = [], 3 if scale == 1 else 2
    for arm in arms:
        for row in table[table["arm"] == arm].to_dict("records"):
            value, low, high = (f"{scale * row[k]:.{digits}f}" for k in ("value", "low", "high"))
            count = f", n {row['n']:.0f}" if "n" in row else f", {row['games']} games"
            lines.append(f"{arm}: {value} [{low}, {high}]{count}")
    return "\n".join(lines)


def changed(line) -> str:
    """shown where the interval excludes 0 on either side."""
    return "shown" if line["low"] > 0 or line["high"] < 0 else "open"


def above(line, low: float, high: float) -> str:
    """Whether an interval lies above another, or above a number that is given twice."""
    if not np.isfinite([line["value"], low, high]).all():
        return "not measured"
    return "shown" if line["low"] > high else "reversed" if line["high"] < low else "open"


def below(line) -> str:
    """Whether an interval lies below 0."""
    told = above(line, 0.0, 0.0)
    return {"shown": "reversed", "reversed": "shown"}.get(told, told)


def same(line) -> str:
    """Whether an interval holds 0: of a control that should not move."""
    told = above(line, 0.0, 0.0)
    return {"open": "shown", "not measured": told}.get(told, "reversed")


def _row(claim: str, statement: str, line, verdict: str) -> dict:
    row = {"claim": claim, "statement": statement, "arm": line["arm"], "year": line.get("year")}
    return row | {name: line[name] for name in ("value", "low", "high")} | {"verdict": verdict}


def _lines(phases: pd.DataFrame, statistic: str, arm: str) -> pd.DataFrame:
    """The rows of a statistic and an arm by year. ValueError if there are none."""
    rows = _found(phases, statistic, arm)
    if rows.empty:
        raise ValueError(f"no {statistic} of the arm {arm!r}: compute it first")
    return rows


def _found(phases: pd.DataFrame, statistic: str, arm: str) -> pd.DataFrame:
    """The rows of a statistic and an arm by year, none where nothing was said."""
    rows = phases[(phases["statistic"] == statistic) & (phases["arm"] == arm)]
    return rows.sort_values("year")


def _goodwill(phases: pd.DataFrame) -> list[dict]:
    """The script begins with balanced offers and then stops; Random does not change."""
    script, random = (_lines(phases, "goodwill", arm) for arm in (SCRIPT, RANDOM))
    first, control = script.iloc[0], random.iloc[0]
    told = above(first, control["low"], control["high"])
    rows = [_row("K15", "goodwill: more balanced offers than Random at first", first, told)]
    line, control = (_lines(phases, "goodwill drift", arm).iloc[0] for arm in (SCRIPT, RANDOM))
    statement = "goodwill: fewer in the last year than in the first, difference"
    rows.append(_row("K15", statement, line, below(line)))
    statement = "control: Random as many in the last year as in the first, difference"
    rows.append(_row("K15", statement, control, same(control)))
    return rows


def _punishment(phases: pd.DataFrame) -> list[dict]:
    """Alliances that are proposed against who refused twice."""
    rows = []
    for arm, statement in (
        (SCRIPT, "punishment: more alliances after two refusals, difference"),
        (RANDOM, "control: Random does not react, difference"),
    ):
        part = _lines(phases, "punishment", arm)
        line = part[part["alliance"] == "proposed"].iloc[0]
        told = above(line, 0.0, 0.0) if arm == SCRIPT else same(line)
        rows.append(_row("K15", statement, line, told))
    return rows


def _avalanche(phases: pd.DataFrame) -> list[dict]:
    """Avalanches of the script in the last year, and none where they are impossible."""
    line = _lines(phases, "avalanche", SCRIPT).iloc[-1]
    rows = [_row("K15", "avalanche: in the last year", line, above(line, 0.0, 0.0))]
    for arm in (BINDING, OFF):
        part = _lines(phases, "avalanche", arm)
        most = part.loc[part["value"].idxmax()]
        statement = "control: no avalanche in any year"
        rows.append(_row("K15", statement, most, same(most)))
    return rows


def _learned(learned: pd.DataFrame, random) -> list[dict]:
    """The three phases of the language model, and the control on its seat; random: goodwill of
    Random in its first year. What was never said or met, or in fewer than FEWEST games, is not
    measured.
    """
    first, drift = (_one(learned, name, LEARNED) for name in ("goodwill", "goodwill drift"))
    control = _one(learned, "goodwill drift", CONTROL)
    made = learned[learned["alliance"] == "proposed"]
    made, last = _one(made, "punishment", LEARNED), _one(learned, "avalanche", LEARNED, -1)
    return [
        _row("K15", statement, line, told)
        for statement, line, told in (
            (
                "learned, goodwill: more balanced offers than Random at first",
                first,
                above(first, random["low"], random["high"]),
            ),
            (
                "learned, goodwill: fewer in the last year than in the first, difference",
                drift,
                below(drift),
            ),
            (
                "control: RuleNegotiator on that seat as many in both years, difference",
                control,
                same(control),
            ),
            (
                "learned, punishment: more alliances after two refusals, difference",
                made,
                above(made, 0, 0),
            ),
            ("learned, avalanche: in the last year", last, above(last, 0, 0)),
        )
    ]


def _one(phases: pd.DataFrame, statistic: str, arm: str, which: int = 0) -> dict:
    """One row of a statistic, by year; numbers are missing where there is none, or few games."""
    rows = _found(phases, statistic, arm).to_dict("records")
    if rows and rows[which]["games"] >= FEWEST:
        return rows[which]
    return {"arm": arm, "year": np.nan} | dict.fromkeys(("value", "low", "high"), np.nan)
