"""The Strategy Influence Graph as one document: JSON, its check, and a self-contained page.

    nodes     name, kind (input, module, parameter, action), connected
    edges     name, source, target, value, low, high, n, unit, intervention, connected
    decision  panel 1: the modules' shares of the total effect at one decision
    grounds   panel 2: the past rounds that the forecast rests on, with their text
    timeline  panel 3: the chosen alpha, beta, lambda, rho by game and window, with the payoff

Everything that is written is a function of its arguments: same numbers, same bytes. Numbers are
rounded to DIGITS significant digits, far below any interval.
"""

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from dipllm_lib.kto import labels
from dipllm_lib.kto.influence import ACTION, EDGES, PARAMETERS, Edge, Effects

VERSION, DIGITS = 1, 9
MODULES = ("adapter", "forecast", "memory", "setting", "cache", "social total")
SCHEMA = {  # table of the document -> columns and their types
    "nodes": {"name": str, "kind": str, "connected": bool},
    "edges": {
        "name": str,
        "source": str,
        "target": str,
        "value": float,
        "low": float,
        "high": float,
        "n": int,
        "unit": str,
        "intervention": str,
        "connected": bool,
    },
    "decision": {"module": str, "effect": float, "share": float},
    "grounds": {"round": int, "ago": int, "text": str, "effect": float},
    "timeline": {
        "step": int,
        "game": str,
        "setting": str,
        "alpha": float,
        "beta": float,
        "lambda": float,
        "rho": float,
        "payoff": float,
    },
}
TIMELINE = tuple(SCHEMA["timeline"])


def shares(effects: Effects, state: int) -> list[dict]:
    """Panel 1: the effect of each module at one state, and its share of their sum; shares are 0
    where nothing has an effect."""
    own = {name: float(effects.rows[name][state]) for name in MODULES}
    total = sum(own.values())
    return [
        {"module": EDGES[name][0], "effect": value, "share": value / total if total else 0.0}
        for name, value in own.items()
    ]


def timeline(
    chosen: Sequence[tuple[str, str, float]], rho: Mapping[str, tuple[float, float]]
) -> pd.DataFrame:
    """Panel 3. chosen: (game, letter, payoff) of each window in order · rho: reference of a game
    under A to E, and under F, shares of its scale."""
    rows = []
    for step, (game, letter, payoff) in enumerate(chosen):
        params = labels.SETTINGS[letter].params
        point = rho[game][letter == "F"]
        values = params.alpha, params.beta, params.lam, point, float(payoff)
        rows.append((step, game, letter, *values))
    return pd.DataFrame(rows, columns=list(TIMELINE))


def to_json(
    edges: Sequence[Edge],
    decision: Sequence[Mapping],
    grounds: pd.DataFrame,
    chosen: pd.DataFrame,
    facts: Mapping[str, str | int],
) -> dict:
    """The document; `facts` go into its head (game, executor, seed, …). Checked."""
    columns = list(SCHEMA["grounds"])
    document = {"version": VERSION, "facts": dict(sorted(facts.items()))}
    document["nodes"] = _nodes(edges)
    document["edges"] = [asdict(edge) for edge in edges]
    document["decision"] = [dict(row) for row in decision]
    document["grounds"] = grounds[columns].to_dict("records") if len(grounds) else []
    document["timeline"] = chosen[list(TIMELINE)].to_dict("records") if len(chosen) else []
    document = _plain(document)
    check(document)
    return document


def _nodes(edges: Sequence[Edge]) -> list[dict]:
    """Every node once, in the order of the edges, the action last."""
    found: dict[str, bool] = {"public history": True}
    for edge in edges:
        for name in (edge.source, edge.target):
            if name != ACTION:
                found[name] = found.get(name, False) or edge.connected
    rows = [{"name": name, "kind": _kind(name), "connected": c} for name, c in found.items()]
    return [*rows, {"name": ACTION, "kind": "action", "connected": True}]


def _kind(name: str) -> str:
    if name in PARAMETERS:
        return "parameter"
    return "input" if name in ("public history", "opponent's last action") else "module"


def _plain(value):
    """JSON-able: numpy scalars become Python's, floats are rounded to DIGITS digits."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{float(value):.{DIGITS}g}") + 0.0
    return str(value)


def check(document: Mapping) -> None:
    """ValueError, with the place, for a document that is not of SCHEMA or whose edges are not
    finite, or lead to nodes that are not there."""
    if document.get("version") != VERSION:
        raise ValueError(f"influence graph of version {document.get('version')}: need {VERSION}")
    for table, columns in SCHEMA.items():
        for k, row in enumerate(document.get(table) or ()):
            if set(row) != set(columns):
                raise ValueError(f"{table}[{k}] has {sorted(row)}: need {sorted(columns)}")
            for name, kind in columns.items():
                if type(row[name]) is not kind:
                    raise ValueError(f"{table}[{k}].{name} is {row[name]!r}: need {kind.__name__}")
        if table not in document:
            raise ValueError(f"influence graph without {table}: need {', '.join(SCHEMA)}")
    known = {row["name"] for row in document["nodes"]}
    for k, row in enumerate(document["edges"]):
        if not {row["source"], row["target"]} <= known:
            raise ValueError(f"edges[{k}] leads from or to a node that is not there")
        if not np.isfinite([row["low"], row["value"], row["high"]]).all():
            raise ValueError(f"edges[{k}] {row['name']} is not finite")


def text(document: Mapping) -> str:
    """The file: JSON with one row per line, a newline at its end."""
    parts = [f'"version": {document["version"]}']
    parts.append(f'"facts": {json.dumps(document["facts"], ensure_ascii=False)}')
    for table in SCHEMA:
        rows = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in document[table]]
        inner = "".join(f"\n  {row}," for row in rows)[:-1]
        parts.append(f'"{table}": [{inner}\n]' if rows else f'"{table}": []')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def table(document: Mapping) -> pd.DataFrame:
    """The edges as a table."""
    return pd.DataFrame(document["edges"], columns=list(SCHEMA["edges"]))


def escaped(value: object) -> str:
    """A value as text of a page; numbers with four digits."""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))
