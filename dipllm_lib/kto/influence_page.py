"""The influence graph as one page without any other file: drawing, tables, a filter by click.

The drawing is SVG: sources on the left, the action on the right, width of a line by the square root
of its value among edges of the same unit, dashed where a module is not connected. A click on a
node keeps the edges of that node in the table; a second click shows all again. No number is in the
page that is not in the document.
"""

import json
from collections.abc import Mapping, Sequence

from dipllm_lib.kto import influence_graph
from dipllm_lib.kto.influence_graph import escaped
from dipllm_lib.run.plotting import BLUE, GREEN, GREY, ORANGE

COLOURS = {"input": GREEN, "module": BLUE, "parameter": ORANGE, "action": GREY}
WIDTH, ROW, BOX = 760, 34, 190
STYLE = (
    "body{font:14px sans-serif;margin:2em auto;max-width:60em}table{border-collapse:collapse}"
    "td,th{padding:2px 10px;text-align:left;border-bottom:1px solid #ddd}"
    "g.node{cursor:pointer}tr.off{display:none}text{font:13px sans-serif}"
)
SCRIPT = """
let kept = null;
document.querySelectorAll("g.node").forEach(node => node.addEventListener("click", () => {
  kept = kept === node.dataset.name ? null : node.dataset.name;
  document.querySelectorAll("tr[data-ends]").forEach(row => row.classList.toggle(
    "off", kept !== null && !JSON.parse(row.dataset.ends).includes(kept)));
}));
"""


def show(document: Mapping, height: int = 560) -> object:
    """A display of the page in a frame of its own, so that its style stays inside."""
    from IPython.display import HTML

    frame = f'width="100%" height="{height}" style="border:0"'
    return HTML(f'<div><iframe srcdoc="{escaped(html(document))}" {frame}></iframe></div>')


def html(document: Mapping) -> str:
    """The page of a document of `influence_graph`."""
    influence_graph.check(document)
    facts = ", ".join(f"{escaped(k)} {escaped(v)}" for k, v in document["facts"].items())
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        f"<title>Strategy Influence Graph</title><style>{STYLE}</style>",
        f"<h1>Strategy Influence Graph</h1><p>{facts}</p>{_drawing(document)}",
        "<h2>Edges</h2><p>Click a node to keep its edges; click it again for all.</p>",
        _table(document["edges"], "source", "target"),
        "<h2>Active modules at one decision</h2>",
        _table(document["decision"]),
        "<h2>Grounds of the forecast</h2>",
        _table(document["grounds"]),
        "<h2>Parameters over rounds and games</h2>",
        _table(document["timeline"]),
        f"<script>{SCRIPT}</script></html>",
    ]
    return "\n".join(parts) + "\n"


def _table(rows: Sequence[Mapping], *ends: str) -> str:
    """Rows as a table; ends: columns whose values a click on a node looks for."""
    if not rows:
        return "<p>None in this configuration.</p>"
    head = "".join(f"<th>{escaped(name)}</th>" for name in rows[0])
    lines = []
    for row in rows:
        names = escaped(json.dumps([row[end] for end in ends]))
        mark = f' data-ends="{names}"' if ends else ""
        cells = "".join(f"<td>{escaped(value)}</td>" for value in row.values())
        lines.append(f"<tr{mark}>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def _drawing(document: Mapping) -> str:
    """The SVG."""
    sources = [node for node in document["nodes"] if node["kind"] != "action"]
    height = ROW * (len(sources) + 1)
    places = {node["name"]: (BOX, ROW * (k + 1)) for k, node in enumerate(sources)}
    places["action"] = WIDTH - 120, height / 2
    largest: dict[str, float] = {}
    for edge in document["edges"]:
        largest[edge["unit"]] = max(largest.get(edge["unit"], 0.0), edge["value"])
    lines = [_line(edge, places, largest[edge["unit"]]) for edge in document["edges"]]
    boxes = [_node(node, places) for node in document["nodes"]]
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(lines + boxes)}</svg>'


def _line(edge: Mapping, places: Mapping, largest: float) -> str:
    """A curve from source to target with the interval as its title."""
    (x1, y1), (x2, y2) = places[edge["source"]], places[edge["target"]]
    bend = (x1 + x2) / 2 if x2 != x1 else x1 + 90
    share = (edge["value"] / largest) ** 0.5 if largest > 0 else 0.0
    dash = "" if edge["connected"] else ' stroke-dasharray="4 4"'
    words = f"{edge['source']} to {edge['target']}: {edge['value']:.4g} {edge['unit']}"
    words += f" [{edge['low']:.4g}, {edge['high']:.4g}], {edge['intervention']}"
    path = f"M{x1:.0f} {y1:.0f} C{bend:.0f} {y1:.0f} {bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    look = f'fill="none" stroke="{GREY}" stroke-opacity=".7" stroke-width="{0.5 + 7 * share:.2f}"'
    return f'<path d="{path}" {look}{dash}><title>{escaped(words)}</title></path>'


def _node(node: Mapping, places: Mapping) -> str:
    x, y = places[node["name"]]
    left = x if node["kind"] == "action" else x - BOX + 10
    colour = COLOURS[node["kind"]] if node["connected"] else "#bbbbbb"
    name = escaped(node["name"])
    box = f'<rect x="{left:.0f}" y="{y - 12:.0f}" width="{BOX - 10 if left < x else 100}"'
    box += f' height="24" rx="5" fill="{colour}" fill-opacity=".25" stroke="{colour}"/>'
    words = f'<text x="{left + 8:.0f}" y="{y + 5:.0f}">{name}</text>'
    return f'<g class="node" data-name="{name}">{box}{words}</g>'
