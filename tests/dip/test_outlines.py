"""The map as geometry: cells tile the frame, neighbours and only they share a line, and everything
that is written lies in its cell.
"""

import numpy as np
import pytest

from dipllm_lib.dip import atlas, outlines

CELLS, NEUTRAL, BORDERS = outlines.net()
NAMED = np.arange(atlas.N_PROVINCES, atlas.N_LOCATIONS)


def inside(polygon: np.ndarray, point) -> bool:
    return bool(outlines.contains(polygon, np.array([point], float))[0])


def distance(points: np.ndarray, spot: np.ndarray) -> float:
    """From a spot to a line through points."""
    a, step = points[:-1], np.diff(points, axis=0)
    share = np.clip(((spot - a) * step).sum(axis=1) / (step**2).sum(axis=1), 0, 1)
    return float(np.hypot(*(spot - a - share[:, None] * step).T).min())


def test_area_and_inside_of_a_square_with_a_notch():
    notched = np.array([[0, 0], [4, 0], [4, 4], [2, 1], [0, 4]], float)
    assert outlines.area(notched) == 16 - 6
    assert outlines.area(notched[::-1]) == -10
    points = np.array([[1, 1], [2, 2], [2, 0.5], [5, 1], [-1, 1]], float)
    assert outlines.contains(notched, points).tolist() == [True, False, True, False, False]


def test_provinces_share_a_line_exactly_if_a_unit_can_pass():
    assert len(CELLS) == atlas.N_PROVINCES
    differ = np.argwhere(outlines.touching() != atlas.ANY)
    assert [(atlas.CODES[a], atlas.CODES[b]) for a, b in differ] == []


def test_cells_tile_the_frame():
    """Faces of a net in which no two lines cross cannot overlap, and each is simple."""
    total = sum(map(outlines.area, CELLS + NEUTRAL))
    assert total == outlines.WIDTH * outlines.HEIGHT
    assert len(NEUTRAL) == 2 and min(map(outlines.area, CELLS)) > 1000
    for cell in CELLS + NEUTRAL:
        assert len(np.unique(cell, axis=0)) == len(cell)
        assert cell.min() >= 0 and (cell.max(axis=0) <= (outlines.WIDTH, outlines.HEIGHT)).all()


def crossings(segments: np.ndarray) -> int:
    """Pairs of segments (S, 2, 2) that meet anywhere but at a common end. Exact for integers."""
    p, q = segments[:, None, 0], segments[:, None, 1]

    def turn(a, b, c):
        return np.sign((b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0])

    r, s = segments[None, :, 0], segments[None, :, 1]
    meet = (turn(p, q, r) * turn(p, q, s) <= 0) & (turn(r, s, p) * turn(r, s, q) <= 0)
    boxes = np.sort(segments, axis=1)
    apart = (boxes[:, None, 0] > boxes[None, :, 1]).any(-1)
    meet &= ~apart & ~apart.T
    common = [(x == y).all(-1) for x in (p, q) for y in (r, s)]
    return int((meet & ~np.logical_or.reduce(common)).sum() // 2)


def test_no_two_lines_cross():
    cross = np.array([[[0, 0], [4, 4]], [[0, 4], [4, 0]], [[4, 4], [9, 4]], [[2, 2], [2, 9]]])
    assert crossings(cross) == 3
    lines = [np.stack([b.points[:-1], b.points[1:]], axis=1) for b in BORDERS]
    assert crossings(np.concatenate(lines)) == 0


def test_units_names_and_centres_lie_in_their_cells():
    for place in range(atlas.N_LOCATIONS):
        cell = CELLS[atlas.PROV_OF[place]]
        assert inside(cell, outlines.UNITS[place]), atlas.CODES[place]
    for p in range(atlas.N_PROVINCES):
        assert inside(CELLS[p], outlines.NAMES[p]), atlas.CODES[p]
        if atlas.CENTRE[p]:
            assert inside(CELLS[p], outlines.CENTRES[p]), atlas.CODES[p]
    assert np.array_equal(~np.isnan(outlines.CENTRES[:, 0]), atlas.CENTRE)


def test_units_do_not_cover_names_and_centres():
    """A square of half side 10 against the middle of a name and a dot of radius 5.8."""
    for p in range(atlas.N_PROVINCES):
        away = np.abs(outlines.UNITS[p] - outlines.NAMES[p])
        assert away[0] >= 20 or away[1] >= 13, atlas.CODES[p]
        if atlas.CENTRE[p]:
            assert np.abs(outlines.UNITS[p] - outlines.CENTRES[p]).max() >= 15, atlas.CODES[p]


def test_a_named_coast_lies_at_a_sea_that_only_it_reaches():
    """Nearest of the seas beside the province is one that the coast touches; and the two coasts
    are far enough apart for two units.
    """
    for place in NAMED:
        p, spot = int(atlas.PROV_OF[place]), outlines.UNITS[place]
        shores = [b for b in BORDERS if p in (b.left, b.right)]
        others = [b.left + b.right - p for b in shores]
        sea = [o >= 0 and atlas.KIND[o] == atlas.SEA for o in others]
        far = [distance(b.points, spot) if s else np.inf for b, s in zip(shores, sea)]
        assert atlas.FLEET[place, others[int(np.argmin(far))]], atlas.CODES[place]
    for p in np.flatnonzero(atlas.COASTS[:, 0] >= 0):
        one, two = outlines.UNITS[atlas.COASTS[p]]
        assert np.hypot(*(one - two)) > 40, atlas.CODES[p]


def test_a_net_with_a_hole_in_a_border_is_refused(monkeypatch):
    first = outlines.LINES.split("|")
    shared = next(k for k, b in enumerate(BORDERS) if min(b.left, b.right) >= 0)
    monkeypatch.setattr(outlines, "LINES", "|".join(first[:shared] + first[shared + 1 :]))
    with pytest.raises(ValueError, match=r"holds 2 names instead of one"):
        outlines.net.__wrapped__()
