"""Paper and ours side by side: "paper | ours | interval | games" for each published table.

Input are our tables in the form of `report.scores`: one row per agent and opponents, columns agent,
opponents, games, and per measure `x`, `x_low`, `x_high` in %. Output are long tables with columns

    row, column         what the paper calls it; row is "–" for an agent that the paper has not
    agent               ours in its place, by its own name, "–" where nothing stands there
    paper, paper_pm     the published number and the printed ± (`published`)
    ours, ours_low, ours_high, games

All rows of the paper stay, in its order; agents of ours without a place in it follow. `names` says
which of ours stands in which place: it is a place in a table and no claim to be that agent.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dipllm_lib.dip import published
from dipllm_lib.dip.published import Published

NONE = "–"
COLUMNS = [
    "row", "column", "agent", "paper", "paper_pm", "ours", "ours_low", "ours_high", "games",
]  # fmt: skip


def percent(long: pd.DataFrame) -> pd.DataFrame:
    """Long estimates in shares as a table in the form of `report.scores`, in %.

    long: of `arena.summary` (one, six) or of `population` (agent, perhaps opponents), with columns
    measure, mean, low, high, games. An agent has one row, with opponents one for each of them.
    """
    found = long.rename(columns={"one": "agent", "six": "opponents"})
    keys = [name for name in ("agent", "opponents") if name in found]
    rows: dict[tuple, dict] = {}
    for line in found.to_dict("records"):
        key = tuple(line[name] for name in keys)
        row = rows.setdefault(key, dict(zip(keys, key)) | {"games": line["games"]})
        unit = 1.0 if line["measure"] == "centres" else 100.0
        for name, end in (("mean", ""), ("low", "_low"), ("high", "_high")):
            row[line["measure"] + end] = unit * line[name]
    return pd.DataFrame(list(rows.values()))


def scores(
    where: str, table: pd.DataFrame, names: Mapping[str, str | int | None], by: str = "agent"
) -> pd.DataFrame:
    """A published table of measures (Tables 1, 2, 5, 6, 7, Fig. 5) beside ours.

    names: our name -> row of the paper, None for an agent that it has not, or any number where its
    rows are numbers (Table 6, Fig. 5); agents of `table` that are not named are left out. by: the
    column of `table` with our name. ValueError for an unknown row or name, or a name twice.
    """
    paper = published.table(where)
    ours = _placed(where, paper, table, names, by)
    long = [_row(place, name, line, c) for place, name, line in ours for c in paper.columns]
    return _joined(paper, pd.DataFrame(long, columns=COLUMNS[:3] + COLUMNS[5:]), ["row", "column"])


def matrix(table: pd.DataFrame, names: Mapping[str, str | None]) -> pd.DataFrame:
    """SoS of the one (row) against six (column) beside Fig. 4. table: rows of all pairings.

    names as in `scores`. Further columns: opponents, our name of the six. Pairings of an agent with
    six of its own kind and with agents that are not named are left out.
    """
    paper = published.table("Fig. 4")
    _check_rows("Fig. 4", paper, names)
    found = []
    for line in table.to_dict("records"):
        one, six = line["agent"], line["opponents"]
        if one in names and six in names and one != six:
            place = {"column": names[six] or NONE, "opponents": six}
            found.append(_row(names[one] or NONE, one, line, "sos") | place)
    ours = pd.DataFrame(found, columns=[*COLUMNS[:3], "opponents", *COLUMNS[5:]])
    twice = ours[ours.duplicated(["agent", "opponents"])]
    if len(twice):
        one, six = twice.iloc[0][["agent", "opponents"]]
        raise ValueError(f"{one} against six {six} is there twice: give one row per pairing")
    found = _joined(paper, ours, ["row", "column"])
    in_place = {row: name for name, row in reversed(names.items()) if row is not None}
    for mine, theirs in (("agent", "row"), ("opponents", "column")):
        empty = found[mine].isna() | (found[mine] == NONE)
        found[mine] = found[mine].mask(empty, found[theirs].map(in_place)).fillna(NONE)
    return found


def amounts(table: pd.DataFrame, names: Mapping[str, str], total: int) -> pd.DataFrame:
    """SoS by the games used for training beside Fig. 6.

    table: rows of `report.scores` with agent the curve's name and a column data_games; names: agent
    -> curve of the paper. total: our games in all. Columns curve, share (of all games), agent,
    paper_games, paper, data_games, ours (+ interval), games; joined where the share is the same.
    """
    paper = published.table("Fig. 6")
    wrong = sorted(set(names.values()) - set(paper.columns))
    if wrong:
        raise ValueError(f"Fig. 6 has no curve {wrong[0]!r}: it has {', '.join(paper.columns)}")
    theirs = paper.long().drop(columns="paper_pm")
    theirs = theirs.rename(columns={"row": "paper_games", "column": "curve"})
    theirs["share"] = theirs["paper_games"] / max(paper.rows)
    ours = table[table["agent"].isin(list(names))]
    ours = ours.assign(curve=ours["agent"].map(names), share=ours["data_games"] / total)
    renamed = {"sos": "ours", "sos_low": "ours_low", "sos_high": "ours_high"}
    keep = ["curve", "share", "agent", "data_games", *renamed, "games"]
    found = theirs.merge(ours[keep].rename(columns=renamed), "outer", on=["curve", "share"])
    agents = {curve: agent for agent, curve in names.items()}
    found["agent"] = found["curve"].map(agents).fillna(NONE)
    found["curve"] = pd.Categorical(found["curve"], paper.columns)
    found = found.sort_values(["curve", "share"], ignore_index=True).astype({"curve": str})
    order = ["curve", "share", "agent", "paper_games", "paper", "data_games", *COLUMNS[5:]]
    return _counts(found[order])


def openings(
    table: pd.DataFrame, draws: int, rng: np.random.Generator, resamples: int
) -> pd.DataFrame:
    """Orders of A MUN in Germany's opening beside Fig. 7.

    table: of `openings.marginals` with columns before, after, target. The paper's numbers are for
    openings with A BER - KIE and F KIE - DEN, ours are over all openings. Intervals of before and
    after: of shares in `draws` draws, the target is exact.
    """
    paper = published.table("Fig. 7")
    part = table[table["unit"] == "A MUN"].set_index("order")[list(paper.columns)]
    shares = part.reindex(paper.rows[:-1]).fillna(0.0)
    shares.loc[paper.rows[-1]] = part.sum() - shares.sum()
    found = []
    for order, row in shares.iterrows():
        for policy, share in row.items():
            again = rng.binomial(draws, min(max(share, 0.0), 1.0), resamples) / draws
            low, high = np.quantile(again, [0.025, 0.975])
            bounds = (share, share) if policy == "target" else (low, high)
            found.append((order, policy, policy, share, *bounds, draws))
    names = ["row", "column", "agent", "ours", "ours_low", "ours_high", "draws"]
    ours = pd.DataFrame(found, columns=names)
    return paper.long().merge(ours, on=["row", "column"]).drop(columns=["agent", "paper_pm"])


def data(ours: Mapping[str, int], names: Mapping[str, str | None]) -> pd.DataFrame:
    """Games for training beside Fig. 1: row, agent, paper_games, data_games.

    ours: our name -> games that its training has seen; names as in `scores`. The units differ: the
    paper's games are of players of other kinds and sizes, three of its five are estimates.
    """
    paper = published.table("Fig. 1")
    _check_rows("Fig. 1", paper, {name: names[name] for name in ours})
    theirs = paper.long().assign(paper_games=lambda t: 1000 * t["paper"])[["row", "paper_games"]]
    rows = [(names[name] or NONE, name, games) for name, games in ours.items()]
    found = theirs.merge(pd.DataFrame(rows, columns=["row", "agent", "data_games"]), "outer", "row")
    order = {row: k for k, row in enumerate(paper.rows)}
    found = found.sort_values("row", key=lambda r: r.map(order), kind="stable", ignore_index=True)
    return _counts(found.fillna({"agent": NONE})[["row", "agent", "paper_games", "data_games"]])


def gaps(
    contrasts: pd.DataFrame, places: Mapping[str, tuple[str, str | int, str | int]]
) -> pd.DataFrame:
    """A table of `contrasts` with a column paper, the same difference of published numbers.

    places: contrast -> (table, first row, second row); contrasts without one have none. Of the
    measure of the contrast; Table 2 has no `most_sc`. KeyError for a row that is not there.
    """
    found = []
    for line in contrasts.to_dict("records"):
        value = np.nan
        if line["contrast"] in places:
            where, first, second = places[line["contrast"]]
            column = published.table(where).wide()[line["measure"]]
            value = float(column.loc[first] - column.loc[second])
        found.append(value)
    return contrasts.assign(paper=found)


def shown(joined: pd.DataFrame) -> pd.DataFrame:
    """A table of `scores` or `matrix` to read: a line per row and agent, a column per measure or
    "paper's | our" opponents, each cell "paper | ours [low, high]" with one decimal.
    """
    cells = joined.assign(cell=[_cell(line) for line in joined.to_dict("records")])
    keys = ["row", "agent", "games"]
    if "opponents" in cells:  # games differ within a line of the matrix
        cells["column"] = cells["column"] + " | " + cells["opponents"]
        keys = keys[:2]
    for key in keys:
        cells[key] = [_label(value) for value in cells[key]]
    texts = cells.pivot(index=keys, columns="column", values="cell")
    lines = pd.MultiIndex.from_frame(cells[keys].drop_duplicates())
    columns = list(dict.fromkeys(cells["column"]))
    if "opponents" in cells:  # the first line lacks its own column
        columns.sort(key=lambda name: _rank(name.split(" | ")[0]))
    return texts.reindex(index=lines, columns=columns).fillna("").rename_axis(columns=None)


def _label(value: str | float) -> str:
    """A row's name, or its number, as text."""
    return value if isinstance(value, str) else NONE if pd.isna(value) else f"{value:g}"


def _cell(line: Mapping) -> str:
    """One cell of `shown`."""
    paper = NONE if np.isnan(line["paper"]) else f"{line['paper']:.1f}"
    if np.isnan(line["ours"]):
        return f"{paper} | {NONE}"
    return f"{paper} | {line['ours']:.1f} [{line['ours_low']:.1f}, {line['ours_high']:.1f}]"


def _rank(opponents: str) -> int:
    """Place of a column of Fig. 4, last what it has not."""
    return [*published.table("Fig. 4").columns, NONE].index(opponents)


def _check_rows(where: str, paper: Published, names: Mapping) -> None:
    """ValueError for a place that the paper's table has not."""
    for name, row in names.items():
        known = row is None or row in paper.rows
        number = isinstance(paper.rows[0], int) and isinstance(row, (int, float))
        if not known and not number:
            rows = ", ".join(map(str, paper.rows))
            raise ValueError(f"{where} has no row {row!r} for {name}: it has {rows}")


def _placed(where: str, paper: Published, table: pd.DataFrame, names: Mapping, by: str) -> list:
    """(row of the paper, our name, line of `table`) of every name; see `scores`."""
    _check_rows(where, paper, names)
    lines = {}
    for line in table.to_dict("records"):
        if line[by] in lines and line[by] in names:
            raise ValueError(f"{where}: {line[by]} is there twice: select one row per {by}")
        lines[line[by]] = line
    missing = [name for name in names if name not in lines]
    if missing:
        raise ValueError(f"{where}: the table has no {by} {missing[0]!r}: it has {list(lines)}")
    return [(NONE if row is None else row, name, lines[name]) for name, row in names.items()]


def _row(row: str | int, name: str, line: Mapping, measure: str) -> dict:
    """Our side of one number."""
    found = {"row": row, "column": measure, "agent": name, "games": line["games"]}
    return found | {f"ours{end}": line[f"{measure}{end}"] for end in ("", "_low", "_high")}


def _joined(paper: Published, ours: pd.DataFrame, on: list[str]) -> pd.DataFrame:
    """All numbers of the paper with ours, then ours that it has not; rows of numbers ascend."""
    theirs = paper.long()
    if isinstance(paper.rows[0], int):
        theirs, ours = theirs.astype({"row": float}), ours.astype({"row": float})
    found = theirs.merge(ours, "outer", on=on)
    numbers = isinstance(paper.rows[0], int)
    order = {row: k for k, row in enumerate((*paper.rows, NONE))}
    across = {column: k for k, column in enumerate((*paper.columns, NONE))}
    agents = {name: k for k, name in enumerate(dict.fromkeys(ours["agent"]))}
    rank = pd.DataFrame({
        "row": found["row"] if numbers else found["row"].map(order),
        "agent": found["agent"].map(agents),
        "column": found["column"].map(across),
    })
    found = found.loc[rank.sort_values(["row", "agent", "column"], kind="stable").index]
    found = found.reset_index(drop=True).fillna({"agent": NONE})
    extra = [name for name in found.columns if name not in COLUMNS]
    return _counts(found[[*COLUMNS[:3], *extra, *COLUMNS[3:]]])


def _counts(table: pd.DataFrame) -> pd.DataFrame:
    """Columns of games as whole numbers, missing ones allowed."""
    counts = ["games", "data_games", "paper_games"]
    return table.astype({name: "Int64" for name in counts if name in table})
