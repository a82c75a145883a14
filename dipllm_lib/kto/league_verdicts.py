"""What the league, memory and the influence graph say to the statements about them.

    K6    the pool beats self-play on players that neither has met, and self-play beats no play
    K11   the store raises consistency and lowers neither adaptivity nor payoff
    K12   after a change of rules the player with a store needs at most LAG rounds more than the
          Bayes filter; by the definition of rounds to adapt, and by that of recovery (`adaptation`)
    K16   lambda moves bargainers and not proposers: its edge above chance lies within ZERO of 0 in
          the ultimatum, and above 0 in the bargaining

`shown` where a 95 % interval lies wholly on the stated side of the line, `reversed` where it lies
on the other, `open` where it holds the line or has fewer than three seeds behind it, `not measured`
where a profile is too short. A control of K12 is a player that does not look: it must never count
as adapted. Units: K6 regret over the scale of the game; K11 shares; K12 rounds, of controls the
share of episodes; K16 nats per unit of lambda, of the drift shares of the pie per unit.
"""

import numpy as np
import pandas as pd

from dipllm_lib.ipd import contrasts
from dipllm_lib.kto import league_study
from dipllm_lib.kto.memory_players import STORE, WINDOW
from dipllm_lib.kto.memory_study import BAYES, MEASURES, UNIFORM

LAG = 1.0  # rounds
ZERO = 0.01  # nats per unit of lambda: another lambda by 1 moves no probability by more than 1 %
COLUMNS = ["claim", "statement", "arm", "value", "low", "high", "n", "verdict"]
Triple = tuple[float, float, float]


def verdicts(
    league: pd.DataFrame, steady: pd.DataFrame, changed: pd.DataFrame, parameters: pd.DataFrame
) -> pd.DataFrame:
    """A row per statement: claim, statement, arm, value, low, high, n (seeds), verdict.

    league: contrasts of `league_study.judged` · steady: of `memory_study.stationary` · changed: of
    `memory_study.compared` · parameters: of `influence_cases.parameters`.
    """
    rows = [*_pool(league), *_steady(steady), *_changed(changed), *_lambda(parameters)]
    return pd.DataFrame(rows, columns=COLUMNS)


def told(table: pd.DataFrame, claim: str) -> str:
    """The rows of a claim in words, a line each."""
    lines = []
    for row in table[table["claim"] == claim].itertuples():
        number = f" {row.value:+.3f} [{row.low:+.3f}, {row.high:+.3f}]," if row.n else ""
        lines.append(f"{row.claim}, {row.statement} ({row.arm}):{number} {row.verdict}")
    return "\n".join(lines)


def side(found: Triple, line: float, n: int, below: bool = False) -> str:
    """On which side of a line an interval lies; below: that is where it is stated to be."""
    _, low, high = found
    if n < contrasts.FEWEST:
        return "open"
    if below:
        return "shown" if high <= line else "reversed" if low > line else "open"
    return "shown" if low > line else "reversed" if high < line else "open"


def inside(found: Triple, line: float, n: int) -> str:
    """Whether an interval lies within `line` of 0."""
    _, low, high = found
    if n < contrasts.FEWEST:
        return "open"
    apart = low > line or high < -line
    return "shown" if -line <= low and high <= line else "reversed" if apart else "open"


def _row(claim: str, statement: str, arm: str, found: Triple, n: int, verdict: str) -> dict:
    return dict(zip(COLUMNS, (claim, statement, arm, *found, n, verdict), strict=True))


def _pool(league: pd.DataFrame) -> list[dict]:
    """All games together first, then each."""
    rows = []
    by = league.set_index("contrast")
    games = [name.partition(": ")[0] for name in by.index]
    for game in sorted(set(games), key=lambda g: (g != "all games", games.index(g))):
        for one, two in league_study.ORDER:
            own = by.loc[f"{game}: {one} − {two}"]
            found = tuple(float(own[k]) for k in ("mean", "low", "high"))
            statement, n = f"less regret on held-out players: {one} than {two}", int(own["seeds"])
            rows.append(_row("K6", statement, game, found, n, side(found, 0.0, n)))
    return rows


def _steady(steady: pd.DataFrame) -> list[dict]:
    """The arm with a store minus the window alone; regret with its sign turned."""
    own, rows = steady.set_index("arm").loc[STORE], []
    arm = f"{STORE} − {WINDOW}"
    for what, statement in (
        ("consistency", "more consistent against a stationary opponent"),
        ("adaptivity", "control: not less adaptive between AllC and AllD"),
        ("regret", "control: not more regret, difference with its sign turned"),
    ):
        if f"{what}_gain" not in own:
            rows.append(_row("K11", statement, arm, (np.nan,) * 3, 0, "not measured"))
            continue
        found = tuple(float(own[f"{what}_gain{end}"]) for end in ("", "_low", "_high"))
        if what == "regret":
            found = -found[0], -found[2], -found[1]
        n = int(own["seeds"])
        rows.append(_row("K11", statement, arm, found, n, side(found, 0.0, n)))
    return rows


def _changed(changed: pd.DataFrame) -> list[dict]:
    """Rounds against those of the Bayes filter, then whether a player that does not look passes."""
    rows = []
    words = {"rounds": "rounds to adapt", "recovery": "rounds to recover"}
    for row in changed.to_dict("records"):
        found, n = (row["value"], row["low"], row["high"]), int(row["seeds"])
        arm = f"{row['kind']}, {'announced' if row['announced'] else 'silent'}"
        what = words[row["measure"]]
        if row["arm"] == STORE:
            statement = f"{what}, {STORE} − {BAYES}, at most {LAG:g}"
            rows.append(_row("K12", statement, arm, found, n, side(found, LAG, n, below=True)))
        else:
            statement = f"control: {what}, share of {UNIFORM} play that counts as adapted, is 0"
            rows.append(_row("K12", statement, arm, found, n, side(found, 0.0, n, below=True)))
    order = [f"{words[m]}" for m in MEASURES]
    return sorted(rows, key=lambda r: [w in r["statement"] for w in order], reverse=True)


def _lambda(parameters: pd.DataFrame) -> list[dict]:
    by, rows = parameters.set_index(["game", "parameter"]), []
    for game, statement in (
        ("ultimatum", f"the edge of lambda above chance is 0 within {ZERO:g}"),
        ("bargaining", "the edge of lambda above chance is positive"),
    ):
        own = by.loc[(game, "lambda")]
        found, n = _triple(own, "above"), int(own["seeds"])
        told_ = inside(found, ZERO, n) if game == "ultimatum" else side(found, 0.0, n)
        rows.append(_row("K16", statement, game, found, n, told_))
    own = by.loc[("bargaining", "lambda")]
    found, n = _triple(own, "drift"), int(own["seeds"])
    statement = "own lambda lowers the share that is kept, drift"
    rows.append(_row("K16", statement, "bargaining", found, n, side(found, 0.0, n, below=True)))
    return rows


def _triple(row: pd.Series, name: str) -> Triple:
    return tuple(float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
