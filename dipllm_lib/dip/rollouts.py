"""Random play on arrays: many games in lockstep, from any positions, nothing as text.

Every unit gets a uniform order of its legal ones; of the possible builds or removals as many as are
due are chosen, every set of provinces equally likely, each with a uniform order there (the play of
`generate.uniform`). Games end as in `game`, and `games` turns a kept record into its objects.

Randomness is counted, not consumed (the idea of Salmon et al. 2011, "Parallel random numbers: as
easy as 1, 2, 3"): the draw for a unit is a hash of (seed, number of the game, year and phase,
province), by the mixing function of SplitMix64 (Steele, Lea, Flood 2014). So a game is the same
whatever it is played beside, and the same when it is stopped and played on. Picking one of n has a
bias below n / 2**32.
"""

from typing import NamedTuple

import numpy as np

from dipllm_lib.dip import atlas, boards, game, legal, legalise, outcomes, rules
from dipllm_lib.dip import vocabulary as v
from dipllm_lib.dip.boards import Boards, Orders
from dipllm_lib.dip.kernels import kernel
from dipllm_lib.run import seeding

ENDS = ("", "solo", "last_year", "stalemate", "draw")
SOLO, LAST_YEAR, STALEMATE, DRAW = range(1, 5)
BLOCK = 256  # games at a time: their lists of orders stay in the processor's cache
AGENT = "uniform"

ODD, FIRST, SECOND = (
    np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
S27, S30, S31, S32 = (np.uint64(x) for x in (27, 30, 31, 32))


class Record(NamedTuple):
    """Every phase of N games, R rows sorted by game, then time."""

    game: np.ndarray  # int32 (R,): 0 to N - 1
    boards: Boards  # R positions
    orders: Orders  # R rows


class Rollouts(NamedTuple):
    """What became of N games."""

    seed: int
    numbers: np.ndarray  # int64 (N,): the names of the games under the seed
    boards: Boards  # N last positions, OVER if a rule ended the game
    phases: np.ndarray  # int32 (N,): phases played
    end: np.ndarray  # int8 (N,): index into ENDS, 0 if the limit of phases came first
    record: Record | None  # with keep=True


class _Rules(NamedTuple):
    """`game.EndRules` for compiled code."""

    solo: int
    last_year: int
    stalemate_years: int


class _Count(NamedTuple):
    """What the end rules remember of each game."""

    owner: np.ndarray  # int8 (N, 75): owners when the centres were last counted
    still: np.ndarray  # int32 (N,): counts in a row without a change


@kernel
def _mix(x):
    """64 well-mixed bits of 64 bits."""
    x += ODD
    x = (x ^ (x >> S30)) * FIRST
    x = (x ^ (x >> S27)) * SECOND
    return x ^ (x >> S31)


@kernel
def _below(word, n):
    """A number 0 to n - 1 from the high half of 64 random bits."""
    return np.int64(((word >> S32) * np.uint64(n)) >> S32)


@kernel
def _keys(seed, numbers, keys):
    """One key per game."""
    for i in range(len(numbers)):
        keys[i] = _mix(_mix(seed) + np.uint64(numbers[i]))


@kernel
def _due(now, i, lists, first, last, due):
    """Per power: due[0] the builds or removals due, due[1] the provinces to choose them from."""
    due[:] = 0
    for p in range(75):
        if now.owner[i, p] >= 0:
            due[0, now.owner[i, p]] += 1
        if now.power[i, p] >= 0:
            due[0, now.power[i, p]] -= 1
    for power in range(7):
        due[0, power] = abs(due[0, power])
    for u in range(first, last):
        due[1, lists.power[u]] += 1


@kernel
def _chosen(due, power, word):
    """Selection sampling (Knuth, volume 2, algorithm 3.4.2 S): whether the next of due[1] provinces
    is one of the due[0] chosen.
    """
    taken = _below(word, due[1, power]) < due[0, power]
    due[1, power] -= 1
    if taken:
        due[0, power] -= 1
    return taken


@kernel
def _draw(expansion, now, keys, lists, orders, due):
    """Draw the orders of all entries of `lists`, the legal orders on the positions `now`."""
    first, entries = 0, len(lists.board)
    while first < entries:
        i = lists.board[first]
        last = first
        while last < entries and lists.board[last] == i:
            last += 1
        adjusts = now.phase[i] == 4
        if adjusts:
            _due(now, i, lists, first, last, due)
        key = _mix(keys[i] + np.uint64(now.year[i] * 8 + now.phase[i]))
        for u in range(first, last):
            word = key + np.uint64(2 * lists.province[u])
            if adjusts and not _chosen(due, lists.power[u], _mix(word + np.uint64(1))):
                continue
            at = lists.offset[u]
            order = lists.ids[at + _below(_mix(word), lists.offset[u + 1] - at)]
            p = expansion[order, 0]
            orders.kind[i, p], orders.via[i, p] = expansion[order, 1], expansion[order, 4]
            orders.a[i, p], orders.b[i, p] = expansion[order, 2], expansion[order, 3]
        first = last


@kernel
def _end(before, after, rule, count, end, held):
    """The rule that ends each game after this phase into `end`, 0 for none."""
    for i in range(len(end)):
        end[i] = 0
        fall = before.phase[i] == 2 or before.phase[i] == 3
        if not fall or after.phase[i] == 3:
            continue
        held[:] = 0
        most, same = 0, True
        for p in range(75):
            owner = after.owner[i, p]
            if owner >= 0:
                held[owner] += 1
                most = max(most, held[owner])
            same = same and owner == count.owner[i, p]
            count.owner[i, p] = owner
        count.still[i] = count.still[i] + 1 if same else 0
        if most >= rule.solo:
            end[i] = SOLO
        elif before.year[i] >= rule.last_year:
            end[i] = LAST_YEAR
        elif 0 < rule.stalemate_years <= count.still[i]:
            end[i] = STALEMATE


def draw(positions: Boards, seed: int, numbers: np.ndarray) -> Orders:
    """One row of orders per position, drawn for game numbers[i] under the seed; equal arguments
    give equal orders. ValueError for a bad seed or number.
    """
    return _orders(positions, _game_keys(seed, numbers))


def _game_keys(seed: int, numbers: np.ndarray) -> np.ndarray:
    """uint64 (N,)"""
    if not 0 <= seed < 2**63 or (len(numbers) and numbers.min() < 0):
        raise ValueError(f"seed {seed} and numbers of games must be whole numbers from 0 to 2**63")
    keys = np.empty(len(numbers), np.uint64)
    _keys(np.uint64(seed), numbers, keys)
    return keys


def _orders(positions: Boards, keys: np.ndarray) -> Orders:
    orders, due = boards.no_orders(positions.n), np.empty((2, atlas.N_POWERS), np.int64)
    _draw(v.EXPANSION, positions, keys, legal.legal_orders(positions), orders, due)
    return orders


class _Block:
    """Some games at work; `now`, `keys`, `count` have a row for each that is not over."""

    def __init__(self, starts: Boards, seed: int, numbers: np.ndarray, end: game.EndRules):
        self.now, self.seed, self.numbers, self.rules = starts, seed, numbers, end
        self.keys = _game_keys(seed, numbers)
        self.count = _Count(starts.owner.copy(), np.zeros(starts.n, np.int32))
        self.games = np.arange(starts.n, dtype=np.int32)  # number of each row in the block
        self.result = Rollouts(
            seed, numbers, starts.copy(), np.zeros(starts.n, np.int32), np.zeros(starts.n, np.int8),
            None,
        )  # fmt: skip
        self.history: list[tuple[np.ndarray, Boards, Orders]] = []

    def play(self, limit: int | None, keep: bool) -> Rollouts:
        while len(self.games) and (limit is None or self.result.phases[self.games[0]] < limit):
            before, given = self.now, _orders(self.now, self.keys)
            after, _ = rules.resolve(before, given)
            if keep:
                self.history.append((self.games, before, given))
            self.result.phases[self.games] += 1
            self.now, ended = after, self._ended(before, after)
            if ended.any():
                self._leave(np.flatnonzero(ended), before.year, ended)
        self._store(slice(None))
        return self.result._replace(record=self._record() if keep else None)

    def _ended(self, before: Boards, after: Boards) -> np.ndarray:
        """int8: index into ENDS of each row."""
        rule = _Rules(self.rules.solo, self.rules.last_year, self.rules.stalemate_years)
        ended = np.empty(after.n, np.int8)
        _end(before, after, rule, self.count, ended, np.empty(atlas.N_POWERS, np.int64))
        if self.rules.end_draws:
            for k in np.flatnonzero((ended == 0) & (after.phase == boards.SPRING_MOVES)).tolist():
                year = int(after.year[k])
                rng = seeding.child(self.seed, *self._name(k), "end draw", year)
                if rng.random() < self.rules.draw_probability(year):
                    ended[k] = DRAW
        return ended

    def _name(self, k: int) -> tuple[str, int]:
        """The game's name in `game.play`, so that draws fall as they do there."""
        return "rollouts", int(self.numbers[self.games[k]])

    def _leave(self, rows: np.ndarray, year: np.ndarray, ended: np.ndarray) -> None:
        """Take the rows that ended out of the play; `year`: of the phase just played."""
        self.now.phase[rows], self.now.year[rows] = boards.OVER, year[rows]
        self.result.end[self.games[rows]] = ended[rows]
        self._store(rows)
        stay = np.flatnonzero(ended == 0)
        self.now, self.keys, self.games = self.now.take(stay), self.keys[stay], self.games[stay]
        self.count = _Count(*(field[stay] for field in self.count))

    def _store(self, rows) -> None:
        for field, value in zip(self.result.boards, self.now):
            field[self.games[rows]] = value[rows]

    def _record(self) -> Record:
        if not self.history:
            nothing = np.zeros(0, np.intp)
            return Record(self.games[:0], self.now.take(nothing), boards.no_orders(0))
        played, positions, orders = zip(*self.history)
        which = np.concatenate(played)
        rows = np.argsort(which, kind="stable")
        return Record(which[rows], Boards.concat(positions).take(rows), _joined(orders).take(rows))


def _joined(parts) -> Orders:
    return Orders(*(np.concatenate(fields) for fields in zip(*parts)))


def play(
    starts: Boards,
    numbers: np.ndarray,
    seed: int,
    end: game.EndRules,
    limit: int | None = None,
    keep: bool = False,
) -> Rollouts:
    """Play len(numbers) games at random to their end, or for at most `limit` phases each.

    starts: one position per game, or one for all. numbers: integers from 0 on; they and the seed
    name the random draws, so a position played K times needs K numbers. keep: record every phase.
    The stalemate rule counts from the starting positions. ValueError if a game is over already,
    `limit` is negative, or shapes do not fit.
    """
    numbers = np.require(numbers, np.int64, "CW")
    if starts.n not in (1, len(numbers)):
        raise ValueError(f"{len(numbers)} games from {starts.n} positions: need one, or one each")
    if (starts.phase == boards.OVER).any():
        row = int(np.argmax(starts.phase == boards.OVER))
        raise ValueError(f"position {row}: the game is over, nothing is left to play")
    if limit is not None and limit < 0:
        raise ValueError(f"limit={limit}: the number of phases cannot be negative")
    if starts.n == 1:
        starts = starts.take(np.zeros(len(numbers), np.intp))
    cuts = range(0, max(len(numbers), 1), BLOCK)
    parts = []
    for first in cuts:
        rows = np.arange(first, min(first + BLOCK, len(numbers)))
        parts.append(_Block(starts.take(rows), seed, numbers[rows], end).play(limit, keep))
    return _together(parts, cuts)


def _together(parts: list[Rollouts], cuts) -> Rollouts:
    """One result of the blocks that began at the games `cuts`."""
    record = None
    if parts[0].record is not None:
        records = [part.record for part in parts]
        which = [record.game + np.int32(first) for record, first in zip(records, cuts)]
        positions = Boards.concat([record.boards for record in records])
        record = Record(np.concatenate(which), positions, _joined([r.orders for r in records]))
    arrays = (np.concatenate([part[k] for part in parts]) for k in (1, 3, 4))
    numbers, phases, end = arrays
    last = Boards.concat([part.boards for part in parts])
    return Rollouts(parts[0].seed, numbers, last, phases, end, record)


def games(played: Rollouts) -> list[game.Game]:
    """The games of a kept play with their texts and results. ValueError if none was kept."""
    if played.record is None:
        raise ValueError("these games were not recorded: play them with keep=True")
    which, positions, given = played.record
    after, made = rules.resolve(positions, given)
    texts = legalise.order_texts(positions, given)
    words = [outcomes.words(positions, given, made, after, k) for k in range(len(which))]
    cuts = np.searchsorted(which, np.arange(len(played.numbers) + 1)).tolist()
    result = []
    for g, (first, last) in enumerate(zip(cuts, cuts[1:])):
        history = positions.take(np.arange(first, last))
        result.append(
            game.Game(
                f"{played.seed}-rollouts-{played.numbers[g]}",
                (AGENT,) * atlas.N_POWERS,
                played.seed,
                Boards.concat([history, played.boards.take([g])]),
                texts[first:last] + [{}],
                words[first:last] + [{}],
                ENDS[played.end[g]],
            )
        )
    return result
