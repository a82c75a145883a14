"""Which link of the chain from the search to the played model holds, and which fails.

    target      is what the search plays above par against its anchor?
    data        does a net that reads the board learn it from the same power-turns?
    fit         is the model closer to the target than the anchor, from which the search started?
    board       is the model worse behind the board of another power-turn?
    decoding    does it play better at another temperature, or with more orders on offer?

A row is a statement with its estimate, its interval and a verdict (`claims.verdict`); the first
link that fails is where the score is lost, for what comes after it cannot bring it back.
"""

from collections.abc import Mapping

import pandas as pd

from dipllm_lib.dip.published import PAR
from dipllm_lib.run import claims


def table(
    scores: pd.DataFrame,
    net: str,
    arms: pd.DataFrame,
    divergence: pd.DataFrame,
    decoding: Mapping[str, tuple[str, float, float, float]],
) -> pd.DataFrame:
    """Columns link, statement, mean, low, high, unit, verdict.

    scores: of `report.scores` against the anchors, with `search` and `net`, the anchor net trained
    on the same targets · arms: of `arms.table`, with `net` and `anchor net, no games` held against
    it · divergence: of 03_kl · decoding: statement -> (unit, mean, low, high) of a paired
    difference to the model as it plays. KeyError for a row that is missing.
    """
    scores, divergence = scores.set_index("agent"), divergence.set_index("policy")
    arms, after = arms.set_index("arm"), divergence.loc["after"]
    anchor = float(divergence.loc["anchor", "kl"])
    points, nats = "% SoS", "nats per power-turn"
    rows = [
        _row("target", "the search is above par", scores.loc["search"], "sos", points, above=PAR),
        _row(
            "data",
            f"{net}: closer to the target than without training",
            arms.loc["anchor net, no games"],
            "difference",
            nats,
            above=0.0,
        ),
        _row("data", f"{net}: above par", scores.loc[net], "sos", points, above=PAR),
        _row(
            "fit",
            f"the model is closer to the target than the anchor ({anchor:.2f})",
            after,
            "kl",
            nats,
            below=anchor,
        ),
        _row(
            "board",
            f"with another board it is further from the target than {after['kl']:.2f}",
            divergence.loc["after, board of another turn"],
            "kl",
            nats,
            above=after["kl"],
        ),
    ]
    for statement, (unit, *found) in decoding.items():
        row = {"link": "decoding", "statement": statement}
        row |= dict(zip(("mean", "low", "high"), found)) | {"unit": unit}
        rows.append(row | {"verdict": claims.verdict(*found, above=0)})
    return pd.DataFrame(rows)


def _row(link: str, statement: str, line: pd.Series, name: str, unit: str, **bound) -> dict:
    """One row from an estimate `name` with its interval in a table."""
    found = [float(line[name + end]) for end in ("", "_low", "_high")]
    row = {"link": link, "statement": statement} | dict(zip(("mean", "low", "high"), found))
    return row | {"unit": unit, "verdict": claims.verdict(*found, **bound)}
