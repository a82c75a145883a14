"""Properties of the rules on small positions that are put together unit by unit.

Each example is a list of units in one corner of the map and, for each, the number of an order among
its legal ones; a failing example shrinks to the few units that matter. Examples are derived from
the code, not from chance (`derandomize`), so the suite gives the same result every time.
"""

import json
from collections import Counter

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dipllm_lib.dip import (
    atlas,
    boards,
    decisions,
    game,
    legal,
    legalise,
    movement,
    orders,
    outcomes,
    rules,
    states,
)
from dipllm_lib.dip import vocabulary as v


def examples(count: int):
    return settings(
        max_examples=count, derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip


REGIONS = (
    "BEL BUR DEN ENG HEL HOL KIE LON NTH NWY PIC RUH SKA YOR",
    "BRE ENG GAS LYO MAO MAR NAF PAR PIE POR SPA SPA/NC SPA/SC TUN WES",
    "AEG ALB ANK BLA BUL BUL/EC BUL/SC CON EAS GRE ION RUM SER SMY",
    "BAL BOT DEN FIN KIE LVN MOS NWY PRU SKA STP STP/NC STP/SC SWE",
)


def units_in(region: str) -> list[tuple[int, int]]:
    """(unit, location) of all units that can stand in a region, armies first."""
    places = [atlas.INDEX[code] for code in region.split()]
    armies = [(1, place) for place in places if atlas.HAS_ARMY[place]]
    return armies + [(2, place) for place in places if atlas.HAS_FLEET[place]]


UNITS = [units_in(region) for region in REGIONS]
PRESENT = st.sampled_from([False, True, True, True])
# unit, power, what to order (anything, a move, help for another), number of the order
PIECE = st.tuples(
    st.integers(0, 99), st.integers(0, 3), st.sampled_from("amhmh"), st.integers(0, 99)
)
SLOTS = st.lists(st.tuples(PRESENT, PIECE), min_size=14, max_size=14)


@st.composite
def phases(draw):
    """A movement phase: position and orders, N = 1."""
    b, wishes = boards.empty(1), {}
    b.year[0] = 1905
    b.phase[0] = draw(st.sampled_from([boards.SPRING_MOVES, boards.FALL_MOVES]))
    here = draw(st.sampled_from(UNITS))
    for present, (number, power, wish, order) in draw(SLOTS):
        unit, place = here[number % len(here)]
        p = int(atlas.PROV_OF[place])
        if present and not b.unit[0, p]:
            b.unit[0, p], b.power[0, p], b.loc[0, p] = unit, power, place
            wishes[p] = wish, order
    return b, chosen(b, wishes)


def chosen(b: boards.Boards, wishes: dict[int, tuple[str, int]]) -> boards.Orders:
    """For each province the legal order of a number: moves first, then help for what others do."""
    lists, result = legal.legal_orders(b), boards.no_orders(1)
    entries = list(zip(lists.province.tolist(), map(lists.of, range(len(lists.board)))))
    for turn in ("am", "h"):
        for p, ids in [(p, ids) for p, ids in entries if wishes[p][0] in turn]:
            fits = [x for x in ids if suits(result, v.VOCABULARY[x], wishes[p][0])]
            pool = fits or ids
            p, *entry = v.EXPANSION[pool[wishes[p][1] % len(pool)]]
            for field, value in zip(result, entry):
                field[0, p] = value
    return result


def suits(so_far: boards.Orders, row: np.ndarray, wish: str) -> bool:
    """Whether an order is a move, or helps an order given so far."""
    kind, other, dest = (int(row[column]) for column in (v.KIND, v.OTHER_LOC, v.DEST))
    if wish != "h":
        return wish == "a" or kind == boards.MOVE
    p = atlas.PROV_OF[other]
    moves = so_far.kind[0, p] == boards.MOVE
    if kind == boards.SUPPORT_HOLD:
        return not moves
    same = moves and atlas.PROV_OF[so_far.a[0, p]] == atlas.PROV_OF[dest]
    return bool(same and kind in (boards.SUPPORT_MOVE, boards.CONVOY))


def told(b: boards.Boards, given_: boards.Orders) -> str:
    """The orders as text, shown when an example fails."""
    return json.dumps(legalise.order_texts(b, given_)[0])


@given(phases())
@examples(250)
def test_units_are_conserved_and_stand_where_they_can(phase):
    b, o = phase
    after, made = rules.resolve(b, o)
    lost = int((made.dislodged == rules.YES).sum())
    assert (b.unit > 0).sum() == (after.unit > 0).sum() + lost, told(b, o)
    words = outcomes.words(b, o, made, after, 0).values()
    assert sum("disband" in w for w in words) == lost - int((after.d_unit > 0).sum()), told(b, o)
    for p in np.flatnonzero(after.unit[0]):
        place = after.loc[0, p]
        able = atlas.HAS_ARMY if after.unit[0, p] == 1 else atlas.HAS_FLEET
        assert atlas.PROV_OF[place] == p and able[place], told(b, o)


@given(phases())
@examples(250)
def test_no_power_dislodges_its_own_unit(phase):
    b, o = phase
    after, made = rules.resolve(b, o)
    for p in np.flatnonzero(made.dislodged[0] == rules.YES):
        assert after.unit[0, p] and after.power[0, p] != b.power[0, p], told(b, o)


@given(phases())
@examples(100)
def test_all_hold_changes_nothing(phase):
    b, _ = phase
    after, made = rules.resolve(b, boards.no_orders(1))
    assert all(np.array_equal(x, y) for x, y in zip(after[:3], b[:3]))
    assert not (made.dislodged == rules.YES).any() and not after.d_unit.any()


@given(phases())
@examples(250)
def test_a_void_order_is_a_hold(phase):
    b, o = phase
    after, made = rules.resolve(b, o)
    words = outcomes.words(b, o, made, after, 0)
    calm = o.copy()
    for p in np.flatnonzero(b.unit[0]):
        if "void" in words[boards.unit_text(b.unit[0, p], b.loc[0, p])]:
            for field, blank in zip(calm, (0, -1, -1, 0)):
                field[0, p] = blank
    assert rules.resolve(b, calm)[0].same(after), told(b, o)


@given(phases())
@examples(250)
def test_every_decision_is_made(phase):
    b, o = phase
    _, made = rules.resolve(b, o)
    units, moves = b.unit[0] > 0, (b.unit[0] > 0) & (o.kind[0] == boards.MOVE)
    supports = (b.unit[0] > 0) & np.isin(o.kind[0], (boards.SUPPORT_HOLD, boards.SUPPORT_MOVE))
    assert made.counts[0, 2] == 0, told(b, o)
    assert np.isin(made.dislodged[0, units], (rules.YES, rules.NO)).all(), told(b, o)
    assert np.isin(made.moved[0, moves], (rules.YES, rules.NO)).all(), told(b, o)
    assert np.isin(made.path[0, moves], (rules.YES, rules.NO)).all(), told(b, o)
    assert (made.support_ok[0, supports] > 0).all(), told(b, o)
    assert not made.moved[0, ~moves].any() and not made.support_ok[0, ~supports].any()


@given(phases())
@examples(250)
def test_retreats_are_free_uncontested_and_not_the_attackers(phase):
    """Options from the decisions alone: not into an occupied province, one that a failed move
    contested, or the one that the attacker left by land.
    """
    b, o = phase
    after, made = rules.resolve(b, o)
    state = states.to_state(after) if after.d_unit.any() else {"retreats": {}}
    to = np.where(o.kind[0] == boards.MOVE, atlas.PROV_OF[o.a[0]], -1)
    for text, places in [x for units in state["retreats"].values() for x in units.items()]:
        p = atlas.PROV_OF[boards.parse_unit(text)[1]]
        (attacker,) = np.flatnonzero((to == p) & (made.moved[0] == rules.YES))
        for q in (atlas.PROV_OF[atlas.location(code)] for code in places):
            assert not after.unit[0, q], told(b, o)
            assert q != attacker or made.route[0, attacker] == rules.BY_CONVOY, told(b, o)
            failed = (b.unit[0] > 0) & (to == q) & (made.moved[0] == rules.NO)
            for u in np.flatnonzero(failed & (made.path[0] == rules.YES)):
                beaten = to[q] == u and made.moved[0, q] == rules.YES
                assert beaten and made.route[0, u] == made.route[0, q] == rules.LAND, told(b, o)


def renumbered(new: np.ndarray) -> atlas.Tables:
    """The tables with province p called new[p]; named coasts keep their numbers."""
    place = np.r_[new, np.arange(atlas.N_PROVINCES, atlas.N_LOCATIONS)]
    old, old_place = np.argsort(new), np.argsort(place)
    t = atlas.TABLES
    number = new.astype(np.int8)  # sea and shore masks speak of seas and shores by their own number
    by_province = {
        name: getattr(t, name)[old]
        for name in ("kind", "centre", "home", "sea_index", "shore_index", "sea_mask", "shore_mask")
    }
    tables = t._replace(
        prov_of=number[t.prov_of[old_place]],
        army=t.army[np.ix_(old, old)],
        fleet=t.fleet[np.ix_(old_place, old_place)],
        fleet_prov=t.fleet_prov[np.ix_(old_place, old)],
        coasts=t.coasts[old],
        seas=number[t.seas],
        **by_province,
    )
    alike = atlas.Tables(*map(np.empty_like, t))  # the layout that the kernel is compiled for
    for table, values in zip(alike, tables):
        table[:] = values
        table.flags.writeable = False
    return alike


def decided(t, b, o) -> decisions.Decisions:
    made, rows = decisions.blank(1), np.zeros(1, np.int32)
    flags = rules.PACKAGE.flags()
    movement.decide(t, b, o, rows, rows, flags, decisions.workspace(), made)
    return made


@given(phases(), st.integers(0, 9999))
@examples(200)
def test_names_of_provinces_and_powers_do_not_matter(phase, seed):
    (b, o), rng = phase, np.random.default_rng(seed)
    new, names = rng.permutation(atlas.N_PROVINCES), rng.permutation(7).astype(np.int8)
    place = np.r_[new, np.arange(atlas.N_PROVINCES, atlas.N_LOCATIONS), -1].astype(np.int8)
    other, ordered = boards.empty(1), boards.no_orders(1)
    other.unit[0, new], other.loc[0, new] = b.unit[0], place[b.loc[0]]
    other.power[0, new] = np.where(b.power[0] >= 0, names[b.power[0]], -1)
    ordered.kind[0, new], ordered.via[0, new] = o.kind[0], o.via[0]
    ordered.a[0, new], ordered.b[0, new] = place[o.a[0]], place[o.b[0]]
    same, renamed = decided(atlas.TABLES, b, o), decided(renumbered(new), other, ordered)
    for name, x, y in zip(same._fields, same, renamed):
        if name == "counts":
            assert np.array_equal(x[:, :3], y[:, :3]), told(b, o)
        else:
            assert np.array_equal(x[0], y[0, new]), (name, told(b, o))


@given(phases(), st.randoms(use_true_random=False))
@examples(100)
def test_the_order_in_which_orders_are_written_does_not_matter(phase, random):
    b, o = phase
    (texts,) = legalise.order_texts(b, o)
    mixed = {name: random.sample(given_, len(given_)) for name, given_ in texts.items()}
    mixed = dict(random.sample(sorted(mixed.items()), len(mixed)))
    again = legalise.read_orders(b, 0, mixed)
    assert rules.resolve(b, again)[0].same(rules.resolve(b, o)[0]), told(b, o)


@given(st.lists(phases(), min_size=2, max_size=5), st.data())
@examples(60)
def test_a_batch_is_its_singles_in_any_order_and_cut_anywhere(batch, data):
    b = boards.Boards.concat([position for position, _ in batch])
    o = boards.Orders(*(np.concatenate(x) for x in zip(*(given_ for _, given_ in batch))))
    together, made = rules.resolve(b, o)
    for n, (position, given_) in enumerate(batch):
        alone, alone_made = rules.resolve(position, given_)
        assert alone.same(together.take([n]))
        assert all(np.array_equal(x[0], y[n]) for x, y in zip(alone_made, made))
    mixed = np.array(data.draw(st.permutations(range(b.n))))
    assert rules.resolve(b, o.take(mixed), board_of=mixed)[0].same(together.take(mixed))
    cut = data.draw(st.integers(1, b.n - 1))
    parts = [np.arange(cut), np.arange(cut, b.n)]
    halves = [rules.resolve(b.take(part), o.take(part))[0] for part in parts]
    assert boards.Boards.concat(halves).same(together)


@given(st.integers(0, v.SIZE - 1))
@examples(300)
def test_row_to_text_to_row(order):
    text = orders.to_text(order)
    assert orders.from_text(text) == order == orders.from_text(text.lower())


class Numbered:
    """Takes the legal order of a drawn number in each slot."""

    name = "numbered"

    def __init__(self, numbers):
        self.numbers, self.at = numbers, 0

    def act(self, turns, rngs):
        return [self._joint(turn) for turn in turns]

    def _joint(self, turn):
        joint = ()
        while len(joint) < turn.slots:
            options = turn.options(joint)
            joint += (int(options[self.numbers[self.at % len(self.numbers)] % len(options)]),)
            self.at += 1
        return joint


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=120), st.integers(4, 18))
@examples(20)
def test_whole_games(numbers, solo):
    end = game.EndRules(1904, stalemate_years=2, solo=solo)
    (g,) = game.play([[Numbered(numbers)] * 7], 0, [("hypothesis",)], end)
    data = json.dumps(g.to_saved(), sort_keys=True)
    assert json.dumps(game.Game.from_saved(json.loads(data)).to_saved(), sort_keys=True) == data
    assert g.end in ("solo", "last_year", "stalemate")
    assert (g.end == "solo") == (g.final_centres.max() >= solo)
    centres, units = rules.centres(g.boards), boards.units(g.boards)
    assert (np.diff(centres.sum(axis=1)) >= 0).all() and centres.sum(axis=1).max() <= 34
    for k in range(g.boards.n - 1):
        if g.boards.phase[k] != boards.ADJUSTMENTS:
            assert (units[k + 1].sum() <= units[k].sum() + (g.boards.d_unit[k] > 0).sum()).all()
            continue
        assert (units[k + 1] <= np.maximum(centres[k], units[k])).all()
        assert (units[k + 1] <= centres[k]).all() and np.array_equal(centres[k + 1], centres[k])
        for p in np.flatnonzero((g.boards.unit[k + 1] > 0) & (g.boards.unit[k] == 0)):
            power = g.boards.power[k + 1, p]
            assert atlas.HOME[p] == power == g.boards.owner[k, p]


def test_the_examples_reach_what_they_are_about():
    """Every situation is among the positions that `phases` draws."""
    seen = Counter()

    @given(phases())
    @examples(250)
    def look(phase):
        _, made = rules.resolve(*phase)
        found = {
            "dislodged": (made.dislodged == rules.YES).any(),
            "cut": (made.support_ok == rules.NO).any(),
            "void": (made.support_ok == rules.VOID).any(),
            "convoy": ((made.route == rules.BY_CONVOY) & (made.moved == rules.YES)).any(),
        }
        seen.update(name for name, true in found.items() if true)

    look()
    print(dict(seen))
    least = {"dislodged": 5, "cut": 5, "void": 20, "convoy": 1}
    assert all(seen[name] >= count for name, count in least.items()), seen
