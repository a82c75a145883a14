"""The picture of a board: which strokes stand for which orders, where units are, colours that stay
apart, and the same bytes for the same input.
"""

import numpy as np
import pytest
from matplotlib import colors
from matplotlib import pyplot as plt

from dipllm_lib.dip import (
    atlas,
    boards,
    cases,
    draw,
    generate,
    legalise,
    marks,
    outlines,
    pen,
    rules,
)
from dipllm_lib.run import plotting, seeding

BEATEN = next(case for case in cases.CASES if case.name == "support beats a lone defender")
CUT = next(case for case in cases.CASES if case.name == "a support is cut")
CARRIED = next(case for case in cases.CASES if case.name.startswith("B2"))


@pytest.fixture(autouse=True)
def closed():
    """No figure stays open."""
    yield
    plt.close("all")


def strokes(ax) -> dict:
    """Artists by their gid; a gid may not stand twice."""
    named = [(artist.get_gid(), artist) for artist in ax.get_children() if artist.get_gid()]
    assert len({gid for gid, _ in named}) == len(named)
    return dict(named)


def drawn(orders: dict, **options) -> dict:
    return strokes(draw.draw_board(cases.position(orders), 0, orders, **options))


def ends(artist) -> np.ndarray:
    return artist.get_path().vertices[[0, -1]]


def spot(code: str) -> np.ndarray:
    return outlines.UNITS[atlas.INDEX[code]]


def near(point, code: str, within: float = 24) -> bool:
    return bool(np.hypot(*(np.asarray(point) - spot(code))) < within)


def test_the_opening_has_a_dot_per_centre_and_a_symbol_per_unit():
    found = strokes(draw.draw_board(boards.start()))
    dots = found["centres"]
    assert len(dots.get_paths()) == 34
    faces = [colors.to_hex(face).upper() for face in dots.get_facecolors()]
    owners = atlas.START_OWNER[atlas.CENTRE]
    assert faces == [("#FFFFFF" if o < 0 else pen.COLOURS[o]) for o in owners]
    units = {gid: artist for gid, artist in found.items() if gid.startswith("unit-")}
    assert len(units) == 22
    assert len(units["unit-PAR"].get_path().vertices) == 5  # a closed square
    assert len(units["unit-BRE"].get_path().vertices) == 4  # a closed triangle
    assert not [gid for gid in found if gid.startswith("order-")]


def test_a_unit_stands_at_the_anchor_of_its_coast():
    b = boards.start()
    found = strokes(draw.draw_board(b))
    for p in np.flatnonzero(b.unit[0]).tolist():
        box = found[f"unit-{atlas.CODES[p]}"].get_path().get_extents()
        at = outlines.UNITS[b.loc[0, p]]
        assert (box.x0 + box.x1) / 2 == at[0] and box.y0 < at[1] < box.y1
    south = outlines.UNITS[atlas.INDEX["STP/SC"]]
    assert found["unit-STP"].get_path().contains_point(south)


def test_a_move_that_succeeds_is_solid_and_a_support_ends_on_its_arrow():
    found = drawn(BEATEN.orders)
    move, support = found["order-PAR-done"], found["order-MAR-done"]
    assert move.get_linestyle() == "-" and "order-PAR-done-end" in found
    start, end = ends(move)
    assert near(start, "PAR") and np.hypot(*(end - spot("BUR"))) < np.hypot(*(start - spot("BUR")))
    assert support.get_linestyle() != "-"
    start, end = ends(support)
    assert near(start, "MAR")
    on_arrow = pen.part_way(pen.bow(spot("PAR"), spot("BUR")), 0.6)
    assert np.hypot(*(on_arrow - end)) < 4 < np.hypot(*(spot("BUR") - end))
    assert colors.to_hex(support.get_edgecolor()).upper() == pen.COLOURS[2]
    assert "order-BUR-done" in found  # the bar of the unit that held


def test_a_move_that_fails_is_dashed_with_a_cross_and_a_cut_support_is_grey():
    found = drawn(CUT.orders)
    for gid in ("order-PAR-failed", "order-PIE-failed"):
        assert found[gid].get_linestyle() != "-"
        cross = found[f"{gid}-end"]
        assert colors.to_hex(cross.get_edgecolor()).upper() == pen.ALARM
        assert len(cross.get_path().vertices) == 4
    assert near(found["order-PAR-failed-end"].get_path().vertices.mean(axis=0), "BUR")
    cut = colors.to_hex(found["order-MAR-cut"].get_edgecolor()).upper()
    assert cut == marks.DULL[marks.CUT][0].upper()


def test_a_dislodged_unit_has_a_red_rim_in_the_phase_that_dislodges_it():
    ax = draw.draw_board(cases.position(BEATEN.orders), 0, BEATEN.orders)
    rims = [p for p in ax.patches if colors.to_hex(p.get_edgecolor()).upper() == pen.ALARM]
    around = [p for p in rims if near(p.get_path().vertices[:4].mean(axis=0), "BUR", 1)]
    assert len(around) == 1


def test_a_convoyed_army_curves_through_its_fleets_which_wear_waves():
    found = drawn(CARRIED.orders)
    path = found["order-LON-done"].get_path().vertices
    assert np.hypot(*(path - spot("NTH")).T).min() < 4
    ring = found["order-NTH-done"].get_path().vertices
    assert np.ptp(np.hypot(*(ring - spot("NTH")).T)) == pytest.approx(4, abs=0.1)
    # over two seas, in the order in which the army crosses them
    fleets = {"ITALY": ["A TUN - SYR", "F ION C A TUN - SYR", "F EAS C A TUN - SYR"]}
    path = drawn(fleets)["order-TUN-done"].get_path().vertices
    first, second = (int(np.hypot(*(path - spot(c)).T).argmin()) for c in ("ION", "EAS"))
    assert 0 < first < second
    assert max(np.hypot(*(path - spot(c)).T).min() for c in ("ION", "EAS")) < 4


def test_orders_that_match_nothing_are_pale():
    found = drawn({
        "FRANCE": ["A PAR S A MAR - BUR", "A MAR H", "F ENG C A BRE - WAL", "A BRE H"],
    })
    pale = marks.DULL[marks.PALE][0].upper()
    for gid in ("order-PAR-void", "order-ENG-void"):
        assert colors.to_hex(found[gid].get_edgecolor()).upper() == pale
    assert {"order-MAR-done", "order-BRE-done"} <= set(found)


def test_support_of_a_fleet_on_a_coast_ends_at_that_coast():
    found = drawn({"FRANCE": ["F MAO S F SPA/NC", "F SPA/NC H"]})
    end = ends(found["order-MAO-done"])[1]
    assert np.hypot(*(end - outlines.UNITS[atlas.INDEX["SPA/NC"]])) == pytest.approx(15, abs=0.1)


def test_arrays_with_their_decisions_and_texts_give_the_same_picture():
    b = cases.position(BEATEN.orders)
    given = legalise.read_orders(b, 0, BEATEN.orders)
    _, made = rules.resolve(b, given)
    pictures = {
        draw.svg(draw.draw_board(b, 0, *options).figure)
        for options in ((BEATEN.orders,), (given,), (given, made))
    }
    assert len(pictures) == 1
    assert len(pictures | {draw.svg(draw.draw_board(b).figure)}) == 2


def test_row_i_of_a_batch_is_drawn():
    b = boards.start(3)
    given = boards.no_orders(3)
    given.kind[1, atlas.INDEX["PAR"]], given.a[1, atlas.INDEX["PAR"]] = 1, atlas.INDEX["BUR"]
    _, made = rules.resolve(b, given)
    assert near(ends(strokes(draw.draw_board(b, 1, given, made))["order-PAR-done"])[0], "PAR")
    bar = ends(strokes(draw.draw_board(b, 0, given, made))["order-PAR-done"])
    assert np.ptp(bar[:, 1]) == 0


def test_a_retreat_phase_shows_options_orders_and_stand_offs():
    """A BUR was dislodged from PAR, and a stand-off keeps PIC empty."""
    orders = {
        **BEATEN.orders,
        "ENGLAND": ["F ENG - PIC"],
        "RUSSIA": ["A BEL - PIC"],
    }
    b = cases.position(orders)
    after, _ = rules.resolve(b, legalise.read_orders(b, 0, orders))
    found = strokes(draw.draw_board(after, 0, {"GERMANY": ["A BUR R RUH"]}))
    assert found["contested-PIC"].get_clip_path() is not None
    options = sorted(gid for gid in found if gid.startswith("option-"))
    assert options == [f"option-BUR-{to}" for to in ("GAS", "MUN", "RUH")]
    beside = outlines.UNITS[atlas.INDEX["BUR"]] + marks.ASIDE
    assert found["dislodged-BUR"].get_path().contains_point(beside)
    assert near(ends(found["order-BUR-done"])[1], "RUH")
    gone = strokes(draw.draw_board(after, 0, {"GERMANY": ["A BUR D"]}))["order-BUR-done"]
    assert len(gone.get_path().vertices) == 4


def test_builds_have_a_plus_and_removals_a_cross():
    b = boards.start()
    b.phase[0], par, vie = boards.ADJUSTMENTS, atlas.INDEX["PAR"], atlas.INDEX["VIE"]
    b.unit[0, par], b.power[0, par], b.loc[0, par] = 0, -1, -1
    b.owner[0, vie] = -1
    found = strokes(draw.draw_board(b, 0, {"FRANCE": ["A PAR B"], "AUSTRIA": ["A VIE D"]}))
    assert {"built-PAR", "plus-PAR", "removed-VIE", "unit-VIE"} <= set(found)
    assert "unit-PAR" not in found and "removed-BUD" not in found


def test_a_probability_is_a_width():
    chances = {"A PAR - BUR": 0.6, "A PAR - PIC": 0.3, "A PAR H": 0.1, "A MAR S A PAR - BUR": 0.5}
    found = strokes(draw.draw_board(boards.start(), probabilities=chances))
    widths = [
        artist.get_linewidth()
        for gid, artist in sorted(found.items())
        if gid.startswith("order-PAR-candidate") and gid.count("-") == 3
    ]
    assert len(widths) == 3
    unit = (widths[0] - widths[1]) / 0.3
    assert widths[0] > widths[1] > widths[2] > 0
    assert widths[1] - widths[2] == pytest.approx(0.2 * unit)
    b = boards.start()
    given = {"FRANCE": ["A PAR - BUR", "A MAR S A PAR - BUR"]}
    both = [
        strokes(draw.draw_board(b, 0, given, probabilities=p))["order-PAR-done"].get_linewidth()
        for p in ({"A PAR - BUR": 0.9}, {"A PAR - BUR": 0.2}, None)
    ]
    assert both[0] > both[2] > both[1]


def test_the_title_and_the_bars():
    b = boards.start()
    assert draw.phase_title(b) == "Spring 1901, movement"
    b.phase[0], b.year[0] = boards.OVER, 1907
    assert draw.phase_title(b) == "After 1907: the game is over"
    b.owner[0, atlas.CENTRE] = 6
    found = strokes(draw.draw_board(b))
    assert [gid for gid in found if gid.startswith("count-")] == ["count-6"]
    bar, line = found["count-6"].get_path().get_extents(), found["solo line"].get_path().vertices
    assert (line[0, 0] - bar.x0) / bar.width == pytest.approx(18 / 34)


def test_same_input_same_bytes_and_the_asked_size():
    rng = seeding.child(5, "draw")
    b = generate.fleets_and_armies(1, 7, rng)
    given = generate.coherent(b, rng)
    one, two = (
        [f(draw.draw_board(b, 0, given).figure) for f in (draw.png, draw.svg)] for _ in "12"
    )
    assert one == two
    assert int.from_bytes(one[0][16:20], "big") == 1400
    assert b"<dc:date>" not in one[1] and b"Matplotlib" not in one[0]


def test_all_phases_of_a_game_are_drawn_in_one_frame():
    game = cases.random_games(1, 4, 1902)[0]
    kinds = {int(phase) for phase in game.boards.phase}
    assert {boards.SPRING_MOVES, boards.FALL_MOVES, boards.ADJUSTMENTS, boards.OVER} <= kinds
    sizes, count = set(), 0
    for figure in draw.draw_game(game):
        ax = figure.axes[0]
        count += 1
        sizes.add((ax.get_xlim(), ax.get_ylim(), tuple(figure.get_size_inches())))
        plt.close(figure)
    assert count == game.boards.n and len(sizes) == 1


def test_crowded_positions_draw():
    rng = seeding.child(6, "draw")
    for kind in (generate.fleets_and_armies(3, 7, rng), generate.scattered(3, 34, 7, rng)):
        given = generate.uniform(kind, rng)
        for i in range(kind.n):
            found = strokes(draw.draw_board(kind, i, given))
            told = {gid.split("-")[1] for gid in found if gid.startswith("order-")}
            assert told == {atlas.CODES[p] for p in np.flatnonzero(kind.unit[i])}
            plt.close("all")


def test_it_draws_into_given_axes():
    ax = plotting.axes(2, across=2)[1][1]
    assert draw.draw_board(boards.start(), ax=ax) is ax
    small, wide = (strokes(x)["unit-PAR"] for x in (ax, draw.draw_board(boards.start())))
    assert small.get_linewidth() < wide.get_linewidth() / 1.9  # strokes shrink with the map


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"i": 1}, "there is no position 1: the batch has 1"),
        ({"orders": {"FRANCE": ["A BUR H"]}}, "no unit A BUR stands there"),
        ({"orders": {"FRANCE": ["A XYZ H"]}}, "unknown province 'XYZ'"),
        ({"orders": boards.no_orders(2)}, "2 rows of orders for 1 positions"),
        ({"probabilities": {"A PAR - BUR": 1.5}}, "1.5 is no probability"),
        ({"probabilities": {"A BUR H": 0.5}}, "no unit to order there in S1901M"),
        (
            {"orders": {"FRANCE": ["A PAR H"]}, "probabilities": {"A PAR - BUR": 0.5}},
            "has a probability but is not among the orders",
        ),
    ],
)
def test_bad_input_is_one_clear_line(options, words):
    with pytest.raises(ValueError) as refused:
        draw.draw_board(boards.start(), **options)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_orders_after_the_end_and_illegal_arrays_are_refused():
    b = boards.start()
    given = boards.no_orders(1)
    given.kind[0, atlas.INDEX["PAR"]], given.a[0, atlas.INDEX["PAR"]] = 1, atlas.INDEX["MOS"]
    with pytest.raises(ValueError, match="illegal order 'A PAR - MOS'"):
        draw.draw_board(b, 0, given)
    b.phase[0] = boards.OVER
    with pytest.raises(ValueError, match="the game is over"):
        draw.draw_board(b, 0, {})


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
SIGHT = {
    "full": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
               [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip


def lab(colour: str, sight: str) -> np.ndarray:
    """CIELAB (D65) of a colour as a kind of sight sees it."""
    rgb = np.array(colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(np.array(SIGHT[sight]) @ linear, 0, 1) / [0.95047, 1, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def closest(places: list, norm) -> float:
    return min(norm(a - b) for k, a in enumerate(places) for b in places[:k])


def test_lab_of_known_colours():
    assert lab("#FFFFFF", "full") == pytest.approx([100, 0, 0], abs=0.02)
    assert lab("#FF0000", "full") == pytest.approx([53.24, 80.09, 67.20], abs=0.05)


def test_the_seven_colours_stay_apart_for_every_kind_of_sight_and_in_grey():
    for sight in SIGHT:
        assert closest([lab(c, sight) for c in pen.COLOURS], np.linalg.norm) > 15, sight
    assert closest([lab(c, "full")[:1] for c in pen.COLOURS], np.linalg.norm) > 11
    tints = [draw.blend(c, draw.LAND, draw.TINT) for c in pen.COLOURS]
    for sight in SIGHT:
        ground = [lab(c, sight) for c in (*tints, draw.LAND, draw.SEA)]
        assert closest(ground, np.linalg.norm) > 8, sight
