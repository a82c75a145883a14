"""The map's tables against the counts of the rules text and against the map of the package."""

import warnings

import numpy as np
import pytest

from dipllm_lib.dip import atlas

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from diplomacy import Map


@pytest.fixture(scope="module")
def official():
    return Map("standard")


def test_counts():
    assert (len(atlas.CODES), len(set(atlas.CODES)), len(set(atlas.NAMES))) == (81, 81, 81)
    assert np.bincount(atlas.KIND).tolist() == [14, 42, 19]
    assert (atlas.CENTRE.sum(), (atlas.HOME >= 0).sum()) == (34, 22)
    assert (atlas.HAS_ARMY.sum(), atlas.HAS_FLEET.sum()) == (56, 64)
    assert atlas.ARMY.sum() == 222 and atlas.ARMY.sum(axis=1).max() == 7
    assert atlas.FLEET.sum() == 282 and atlas.FLEET.sum(axis=1).max() == 11
    assert (atlas.FLEET_PROV[atlas.HAS_FLEET].sum(), atlas.TOUCH.sum(), atlas.ANY.sum()) == (
        279,
        190,
        412,
    )


@pytest.mark.parametrize("table", [atlas.ARMY, atlas.FLEET, atlas.TOUCH, atlas.ANY])
def test_adjacency_is_symmetric_without_loops(table):
    assert np.array_equal(table, table.T)
    assert not table.diagonal().any()


def test_codes_kinds_centres_and_homes_are_the_packages(official):
    codes = {code.upper() for code in official.locs} - {"SWI"}
    assert set(atlas.CODES) == codes
    assert list(atlas.CODES[:75]) == sorted(code for code in codes if "/" not in code)
    kinds = {"LAND": atlas.INLAND, "COAST": atlas.COAST, "WATER": atlas.SEA}
    assert [kinds[official.area_type(code)] for code in atlas.CODES[:75]] == atlas.KIND.tolist()
    assert {atlas.CODES[p] for p in np.flatnonzero(atlas.CENTRE)} == set(official.scs)
    for power, name in enumerate(atlas.POWERS):
        homes = {atlas.CODES[p] for p in np.flatnonzero(atlas.HOME == power)}
        assert homes == set(official.homes[name])
    names = {code: name for name, code in official.loc_name.items()}
    assert {code: name.upper() for code, name in zip(atlas.CODES, atlas.NAMES)} == {
        code: name for code, name in names.items() if code != "SWI"
    }


def test_where_units_stand_and_move_is_the_packages(official):
    for i, a in enumerate(atlas.CODES):
        assert atlas.HAS_ARMY[i] == bool(official.is_valid_unit(f"A {a}"))
        assert atlas.HAS_FLEET[i] == bool(official.is_valid_unit(f"F {a}"))
        for j, b in enumerate(atlas.CODES):
            if atlas.HAS_ARMY[i] and atlas.HAS_ARMY[j]:
                assert atlas.ARMY[i, j] == bool(official.abuts("A", a, "-", b)), (a, b)
            if atlas.HAS_FLEET[i] and atlas.HAS_FLEET[j]:
                assert atlas.FLEET[i, j] == bool(official.abuts("F", a, "-", b)), (a, b)


def test_fleet_support_reaches_the_provinces_that_the_package_allows(official):
    for i in np.flatnonzero(atlas.HAS_FLEET):
        for p in range(75):
            coasts = [c for c in range(81) if atlas.PROV_OF[c] == p]
            reach = any(official.abuts("F", atlas.CODES[i], "S", atlas.CODES[c]) for c in coasts)
            assert atlas.FLEET_PROV[i, p] == bool(reach), (atlas.CODES[i], atlas.CODES[p])


def test_opening_is_the_packages(official):
    for power, name in enumerate(atlas.POWERS):
        ours = {
            f"{atlas.UNIT_LETTERS[atlas.START_UNIT[p]]} {atlas.CODES[atlas.START_LOC[p]]}"
            for p in np.flatnonzero(atlas.START_POWER == power)
        }
        assert ours == set(official.units[name])


def test_masks_and_indices_invert_the_tables():
    for p in range(75):
        seas = {int(atlas.SEAS[s]) for s in range(19) if atlas.SEA_MASK[p] >> s & 1}
        assert seas == set(np.flatnonzero(atlas.TOUCH[p] & (atlas.KIND == atlas.SEA)).tolist())
    shores = {
        int(atlas.SHORES[s]) for s in range(42) if atlas.SHORE_MASK[atlas.INDEX["BLA"]] >> s & 1
    }
    assert {atlas.CODES[p] for p in shores} == {"ANK", "ARM", "BUL", "CON", "RUM", "SEV"}


def test_distances_by_hand():
    at = atlas.INDEX
    assert atlas.DIST_ANY[at["PAR"], at["MOS"]] == 5  # BUR MUN SIL WAR MOS
    assert atlas.HOME_DIST_ARMY[atlas.power("FRANCE"), at["SPA"]] == 1
    # a fleet on the south coast of Spain is one step from MAR, on the north coast two from BRE
    assert atlas.HOME_DIST_FLEET[atlas.power("FRANCE"), at["SPA/SC"]] == 1
    assert atlas.HOME_DIST_FLEET[atlas.power("FRANCE"), at["SPA/NC"]] == 2
    assert atlas.HOME_DIST_FLEET[atlas.power("RUSSIA"), at["STP/NC"]] == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [("par", "PAR"), ("MID", "MAO"), ("stp(sc)", "STP/SC"), ("Nrg", "NWG"), ("gol", "LYO")],
)
def test_notations(text, code):
    assert atlas.CODES[atlas.location(text)] == code


@pytest.mark.parametrize("text", ["XYZ", "", "PAR/NC", "SWI"])
def test_unknown_province(text):
    with pytest.raises(ValueError, match="unknown province"):
        atlas.location(text)
