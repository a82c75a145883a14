"""Recorded games as training examples for the anchor: positions, powers, joint orders, as arrays.

A folder holds games as *.jsonl, *.jsonl.gz (one game a line) or *.json (one game), in the
saved-game format or in its reduced form (phases with units, dislodged, centers, orders). Reduced
games come from engines that may differ in small print, so retreats are those of our adjudication.
Cleaning, all of it counted: VIA without a matching convoy is a land move; an order that could not
succeed is a hold; a turn of a power that ordered nothing (a missed deadline) or too few removals is
left out; so is a game that ends before `first_end`. A unit without an order holds.

Shapes: G games, N positions with at least one example, T turns, S orders.
"""

import gzip
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards, legal, legalise, notation, rules
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.game import Game
from dipllm_lib.dip.kernels import kernel
from dipllm_lib.run import files, seeding

SUFFIXES = (".json", ".jsonl", ".gz")
KIND_OF_PHASE = ("moves", "retreats", "moves", "retreats", "adjustments", "over")
CHUNK = 200  # games compiled at once
FORMAT = 1  # of the cached arrays
PARTS = ("train", "validation", "test")


class Examples(NamedTuple):
    """Turns with the joint orders that were given; sorted by position, then power."""

    names: np.ndarray  # str (G,)
    game: np.ndarray  # int32 (N,): game of a position
    boards: Boards  # N
    board: np.ndarray  # int32 (T,)
    power: np.ndarray  # int8 (T,)
    first: np.ndarray  # int64 (T + 1,): orders[first[t] : first[t + 1]] in slot order
    orders: np.ndarray  # int32 (S,)

    def take(self, rows: np.ndarray) -> "Examples":
        """The examples of the positions `rows` (sorted), all games kept by name."""
        low, high = (np.searchsorted(self.board, rows, side) for side in ("left", "right"))
        keep = _ranges(low, high)
        board = np.repeat(np.arange(len(rows), dtype=np.int32), high - low)
        orders = self.orders[_ranges(self.first[keep], self.first[keep + 1])]
        first = np.r_[0, np.cumsum(self.first[keep + 1] - self.first[keep])]
        taken = (self.game[rows], self.boards.take(rows), board, self.power[keep], first, orders)
        return Examples(self.names, *taken)


def _ranges(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The numbers low[0] .. high[0] - 1, low[1] .. high[1] - 1, and so on."""
    sizes = high - low
    start = np.repeat(low - np.r_[0, np.cumsum(sizes)[:-1]], sizes)
    return start + np.arange(sizes.sum())


def read(folder: Path) -> Iterator[dict]:
    """Every game below `folder`, files in order of their names. ValueError in one line for a file
    that holds no game.
    """
    paths = sorted(p for end in ("*.jsonl", "*.jsonl.gz", "*.json") for p in folder.rglob(end))
    if not paths:
        raise ValueError(f"{folder}: no .jsonl, .jsonl.gz or .json file with games in it")
    for path in paths:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            lines = [file.read()] if path.suffix == ".json" else file
            for number, line in enumerate(lines, 1):
                yield _game(line, f"{path.name} line {number}")


def _game(line: str, where: str) -> dict:
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: not JSON ({error.msg})") from None
    if not isinstance(data, dict) or not data.get("phases"):
        raise ValueError(f"{where}: not a game, it has no phases")
    return data


def examples(games: Iterable[Game | dict], first_end: int = 1903) -> tuple[Examples, Counter]:
    """(examples, counts) of games, as they are or saved, that end in `first_end` or later."""
    count, parts, pending = Counter(), [], []
    for data in games:
        count["games"] += 1
        if _last_year(data) < first_end:
            count["games that end too early"] += 1
            continue
        pending.append(data)
        if len(pending) == CHUNK:
            parts.append(_compile(pending, count))
            pending = []
    if pending:
        parts.append(_compile(pending, count))
    if not parts:
        raise ValueError(f"none of {count['games']} games ends in {first_end} or later")
    return _joined(parts), count


def _last_year(data: Game | dict) -> int:
    """The year of the last phase that was played."""
    if isinstance(data, Game):
        return int(data.boards.year[-1])
    names = [phase["name"] for phase in data["phases"] if phase["name"] != "COMPLETED"]
    return boards.parse_phase(names[-1])[0] if names else 0


def _joined(parts: list[Examples]) -> Examples:
    game_start = np.cumsum([0] + [len(part.names) for part in parts])
    board_start = np.cumsum([0] + [part.boards.n for part in parts])
    order_start = np.cumsum([0] + [len(part.orders) for part in parts])
    return Examples(
        np.concatenate([part.names for part in parts]),
        np.concatenate([p.game + s for p, s in zip(parts, game_start)]).astype(np.int32),
        Boards.concat([part.boards for part in parts]),
        np.concatenate([p.board + s for p, s in zip(parts, board_start)]).astype(np.int32),
        np.concatenate([part.power for part in parts]),
        np.r_[
            np.concatenate([p.first[:-1] + s for p, s in zip(parts, order_start)]), order_start[-1]
        ],
        np.concatenate([part.orders for part in parts]),
    )


def _compile(games: list[Game | dict], count: Counter) -> Examples:
    """Examples of some games, all phases of a kind adjudicated in one batch."""
    positions, texts, owner, reduced, names = [], [], [], [], []
    for number, data in enumerate(games):
        plain = isinstance(data, dict) and "state" not in data["phases"][0]
        if plain:
            positions.append(_plain(data["phases"]))
            texts += [phase.get("orders") or {} for phase in data["phases"]]
        else:
            data = data if isinstance(data, Game) else Game.from_saved(data)
            positions.append(data.boards)
            texts += data.orders
        names.append(data.id if isinstance(data, Game) else str(data.get("id", "")))
        owner += [number] * positions[-1].n
        reduced += [plain] * positions[-1].n
    b, owner, reduced = Boards.concat(positions), np.array(owner), np.array(reduced)
    given, ordered = _orders(b, texts, count)
    given = _cleaned(b, given, owner, reduced, count)
    return _turns(b, given, ordered, np.array(names), owner, count)


def _plain(phases: list[dict]) -> Boards:
    """Positions of a reduced game, without dislodged units."""
    b = boards.empty(len(phases))
    for i, phase in enumerate(phases):
        b.year[i], b.phase[i] = boards.parse_phase(phase["name"])
        for power, name in enumerate(atlas.POWERS):
            for text in phase["units"].get(name, ()):
                unit, place = boards.parse_unit(text)
                p = atlas.PROV_OF[place]
                b.unit[i, p], b.power[i, p], b.loc[i, p] = unit, power, place
            for code in phase["centers"].get(name, ()):
                b.owner[i, atlas.location(code)] = power
    return b


def _order(text: str, b: Boards, i: int, count: Counter) -> int | None:
    """An order id; None for an order that does not exist on the map."""
    try:
        return notation.from_text(text, b, i)
    except notation.ImpossibleOrder:
        if text.endswith(" VIA"):
            return _order(text[:-4], b, i, count)
        count["orders that could not succeed"] += 1
        return None


def _orders(b: Boards, texts: list[dict], count: Counter) -> tuple[Orders, np.ndarray]:
    """The orders as arrays, and which powers gave one, bool (N, 7)."""
    given, ordered = boards.no_orders(b.n), np.zeros((b.n, atlas.N_POWERS), bool)
    rows, ids = [], []
    for i, by_power in enumerate(texts):
        for name, listed in sorted(by_power.items()):
            power = atlas.power(name)
            due = int((b.owner[i] == power).sum() - (b.power[i] == power).sum())
            taken = set()
            for text in listed or ():
                ordered[i, power] = True
                order = _order(text, b, i, count)
                if order is None or order == v.WAIVE_ID:
                    continue
                if b.phase[i] == boards.ADJUSTMENTS:
                    if not _adjusts(b, i, power, order, due - len(taken) * np.sign(due), taken):
                        continue
                    taken.add(int(v.EXPANSION[order, 0]))
                rows.append(i)
                ids.append(order)
    entries = v.EXPANSION[np.array(ids, np.intp)]
    for field, column in zip(given, entries.T[1:]):
        field[rows, entries[:, 0]] = column
    return given, ordered


def _adjusts(b: Boards, i: int, power: int, order: int, due: int, taken: set) -> bool:
    """Whether a build or removal counts: it is due, possible, and the first for its province."""
    p = int(v.EXPANSION[order, 0])
    if p in taken or due == 0:
        return False
    if due > 0:
        home = b.owner[i, p] == power == atlas.HOME[p]
        return bool(notation.is_build(order) and home and not b.unit[i, p])
    return bool(v.EXPANSION[order, 1] == boards.DISBAND and b.power[i, p] == power)


def _cleaned(b: Boards, given: Orders, owner, reduced, count: Counter) -> Orders:
    """Legal orders in the movement phases; `b` gets the dislodged units of the games of the reduced
    form, from the movement phase before.
    """
    moves = np.flatnonzero(np.isin(b.phase, boards.MOVES))
    now, result = b.take(moves), given.copy()
    imported = legalise.normalise_via(now, given.take(moves))
    own = ~reduced[moves]  # games whose form states the retreats keep their orders as they are
    for field, new in zip(imported, given):
        field[own] = new[moves][own]
    legal_, replaced = legalise.legalise(now, imported)
    count["orders that could not succeed"] += int(replaced.sum())
    for field, new in zip(result, legal_):
        field[moves] = new
    after, _ = rules.resolve(now, legal_)
    following = np.minimum(moves + 1, b.n - 1)
    same = (owner[following] == owner[moves]) & (moves + 1 < b.n) & reduced[moves]
    same &= np.isin(after.phase, boards.RETREATS) & (after.phase == b.phase[following])
    for name in ("d_unit", "d_power", "d_loc", "d_from", "contested"):
        getattr(b, name)[following[same]] = getattr(after, name)[same]
    return result


@kernel
def _chosen(offset, ids, board, province, phase, expansion, given, chosen):
    """Per entry of the legal lists the id whose order was given; a hold or disband where none of
    them was (-1 in adjustment phases).
    """
    for u in range(len(board)):
        n, p, default = board[u], province[u], -1
        for k in range(offset[u], offset[u + 1]):
            row = expansion[ids[k]]
            if phase[n] != 4 and (row[1] == 0 or row[1] == 6):
                default = ids[k]
            same = row[1] == given.kind[n, p] and row[2] == given.a[n, p]
            if same and row[3] == given.b[n, p] and row[4] == given.via[n, p]:
                chosen[u] = ids[k]
                break
        else:
            chosen[u] = default


def _turns(b: Boards, given: Orders, ordered, names, owner, count: Counter) -> Examples:
    """The examples of cleaned positions and orders; what is left out is counted."""
    lists = legal.legal_orders(b)
    chosen = np.empty(len(lists.board), np.int32)
    tables = (b.phase, v.EXPANSION, given, chosen)
    _chosen(lists.offset, lists.ids, lists.board, lists.province, *tables)
    # slots are in canonical order: of the units, in adjustment phases of the orders chosen
    rank = v.CANONICAL[lists.ids[lists.offset[:-1]]]
    adjusts = b.phase[lists.board] == boards.ADJUSTMENTS
    rank = np.where(adjusts & (chosen >= 0), v.CANONICAL[chosen], rank)
    order = np.lexsort((rank, lists.power, lists.board))
    key = lists.board[order] * atlas.N_POWERS + lists.power[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1, append=-1))
    due = boards.centres(b) - boards.units(b)
    turns, joints = [], []
    for low, high in zip(starts[:-1].tolist(), starts[1:].tolist()):
        i, power = divmod(int(key[low]), atlas.N_POWERS)
        kind = KIND_OF_PHASE[b.phase[i]]
        if not ordered[i, power]:
            count[f"turns without orders, {kind}"] += 1
            continue
        joint = chosen[order[low:high]].tolist()
        if kind == "adjustments":
            joint = _adjustment(joint, int(due[i, power]))
        if joint is None:
            count["turns with too few removals"] += 1
            continue
        count[f"turns, {kind}"] += 1
        count[f"orders, {kind}"] += len(joint)
        turns.append((i, power))
        joints.append(joint)
    return _packed(b, names, owner, turns, joints)


def _adjustment(chosen: list[int], due: int) -> list[int] | None:
    """The joint order of builds or removals; `chosen` has -1 where nothing was ordered. None if
    removals are missing.
    """
    joint = [order for order in chosen if order >= 0]
    if due < 0:
        return joint if len(joint) == -due else None
    return joint + [v.WAIVE_ID] * (min(due, len(chosen)) - len(joint))


def _packed(b: Boards, names, owner, turns: list, joints: list) -> Examples:
    board, power = np.array(turns, np.int32).reshape(-1, 2).T
    used, board = np.unique(board, return_inverse=True)
    first = np.r_[0, np.cumsum([len(joint) for joint in joints])].astype(np.int64)
    orders = np.array([order for joint in joints for order in joint], np.int32)
    game_of, board = owner[used].astype(np.int32), board.astype(np.int32)
    return Examples(names, game_of, b.take(used), board, power.astype(np.int8), first, orders)


def load(folder: Path, cache: Path, first_end: int = 1903) -> tuple[Examples, dict[str, int]]:
    """(examples, counts) of the games below `folder`, compiled once and kept below `cache`."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in SUFFIXES)
    facts = [FORMAT, first_end, *([path.name, files.sha256(path)] for path in paths)]
    key = hashlib.sha256(json.dumps(facts).encode("utf-8")).hexdigest()[:16]
    path = cache / f"examples_{key}.npz"
    if not path.is_file():
        found, count = examples(read(folder), first_end)
        buffer = io.BytesIO()
        fields = found._asdict() | {f"boards.{k}": x for k, x in found.boards._asdict().items()}
        del fields["boards"]
        np.savez_compressed(buffer, counts=json.dumps(dict(sorted(count.items()))), **fields)
        files.write_bytes(path, buffer.getvalue())
    with np.load(path, allow_pickle=False) as content:
        boards_ = Boards(*(content[f"boards.{name}"] for name in Boards._fields))
        rest = {name: content[name] for name in Examples._fields if name != "boards"}
        return Examples(boards=boards_, **rest), json.loads(str(content["counts"]))


def split(count: int, seed: int, shares: tuple[float, float] = (0.05, 0.05)) -> list[np.ndarray]:
    """Numbers of the games of `PARTS`; shares are those of validation and test. ValueError where a
    part would be empty.
    """
    sizes = [round(share * count) for share in shares]
    if min(sizes) < 1 or sum(sizes) >= count:
        raise ValueError(f"{count} games cannot be split by {shares}: a part would be empty")
    order = seeding.child(seed, "dip", "anchor", "split").permutation(count)
    cuts = np.cumsum(sizes)
    return [np.sort(order[cuts[1] :]), np.sort(order[: cuts[0]]), np.sort(order[cuts[0] : cuts[1]])]


def part(of: Examples, games: np.ndarray) -> Examples:
    """The examples of some games."""
    return of.take(np.flatnonzero(np.isin(of.game, games)))
